"""Fuzz one parser guided by coverage: inputs that reach new code are kept and mutated further.

    .venv-fuzz/bin/python -m tests.hostile.guided TARGET CORPUS [libFuzzer's options, -max_total_time=600]

atheris instruments `formats`, libFuzzer chooses inputs; half of them it mutates itself, half
are mutated by their structure, as `tests.hostile.drive` does.  An input that ends badly is
written next to the corpus and ends the run; `-seed`, `-runs` and the like are libFuzzer's.
https://github.com/google/atheris
"""

from __future__ import annotations

import os
import random
import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["formats"]):
    from tests.hostile.targets import TARGETS


def main() -> None:
    name, corpus, *options = sys.argv[1:]
    target = next(found for found in TARGETS if found.name == name)
    os.makedirs(corpus, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        with open(os.path.join(corpus, f"seed-{number:04}"), "wb") as file:
            file.write(seed)
    workspace = tempfile.mkdtemp(prefix="ckpt-fuzz-")

    def run(data: bytes) -> None:
        if data:
            target.run(data, workspace)

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        dice = random.Random(seed)
        if dice.random() < 0.5:
            return atheris.Mutate(data, max_size)
        # A mutated input may have no sound structure, so a seed gives the structure.
        return target.case(dice)[:max_size]

    arguments = [sys.argv[0], "-max_len=65536", "-timeout=10", "-rss_limit_mb=2048", *options, corpus]
    atheris.Setup(arguments, run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
