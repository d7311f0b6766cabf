"""`make mutants`: how many small changes of the code the tests notice.

A sample of mutants of `formats` and `ckpt_cli/operations` is made, in a copy of the checkout.  Each mutant
meets the tests of its own room, then all those of `formats` and `operations`, then those of the command line,
until one fails that passes without it.  The tests run once before that, to see which of them reach which
changed place: a mutant meets only those.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
import tempfile
import time
from collections import Counter

from tests.mutants.points import Point, points_of
from tests.mutants.running import ROOT, Copy, Tests
from tests.mutants.stages import stages_of

ROOMS = ("formats", "ckpt_cli/operations")
"""Folders whose code is mutated."""

ELSEWHERE = ("formats/store/work/dask.py",)
"""What `make cluster` alone can run."""

ENOUGH = 0.92
"""The part of the mutants that tests must notice."""


def every_point(root: str, beginning: str) -> list[Point]:
    """Return the points of all modules of a checkout whose paths begin so."""
    found: list[Point] = []
    for room in ROOMS:
        for folder, _, names in sorted(os.walk(os.path.join(root, room))):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), root)
                if path.endswith(".py") and path not in ELSEWHERE and path.startswith(beginning):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        found += points_of(path, file.read())
    return found


def sample_of(every: list[Point], seed: int, count: int) -> list[Point]:
    """Return so many points: by what is changed, so that a sample stays when a program changes elsewhere."""
    counts: Counter[str] = Counter()
    placed = []
    for point in every:
        told = f"{point.operator} {point.before} {point.after}"
        counts[told] += 1
        placed.append((hashlib.sha256(f"{seed} {counts[told]} {told}".encode()).digest(), point))
    return [point for _, point in sorted(placed)[:count]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="mutants in the sample [default: 200]")
    parser.add_argument("--seed", type=int, default=0, help="which sample [default: 0]")
    parser.add_argument("--only", default="", metavar="PREFIX", help="mutants of paths that begin so")
    parser.add_argument("--list", action="store_true", help="print the sample, run nothing")
    options = parser.parse_args()
    if options.list:
        print(*sample_of(every_point(ROOT, options.only), options.seed, options.count), sep="\n")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with it ends what it has begun
    with tempfile.TemporaryDirectory(prefix="ckpt-mutants-") as work:
        copied = Copy(os.path.join(work, "checkout"))
        every = every_point(copied.folder, options.only)
        sample = sample_of(every, options.seed, options.count)
        print(f"{len(sample)} of {len(every):,} mutants, seed {options.seed}", flush=True)
        return meet_all(sample, copied, Tests(copied, work))


def meet_all(sample: list[Point], copied: Copy, tests: Tests) -> int:
    """Have each mutant meet the tests, and print what came of it; return 1 where too few are noticed."""
    begun = time.monotonic()
    left = dict(enumerate(sample))
    unseen = set(left)
    for stage in stages_of(copied.folder, sample):
        copied.probe(left)
        tests.record(stage.files)
        copied.restore(sample)
        print(f"{len(tests):,} tests pass, {stage.name}, {time.monotonic() - begun:.0f} s", flush=True)
        for told in sorted(left.keys() & stage.points):
            found = tests.meet(told, left[told])
            if found.what != "unseen":
                unseen.discard(told)
            if found.is_noticed:
                print(f"{told + 1:4} {found.what:6} {left.pop(told)} [{found.test}]", flush=True)
            else:
                print(f"{told + 1:4} {found.what}", flush=True)
    print("left out, as they fail without a mutant:", *tests.left_out, sep="\n  ")
    for told, point in left.items():
        print(f"{told + 1:4} {'unseen' if told in unseen else 'survived'} {point}")
    noticed = len(sample) - len(left)
    print(f"{noticed} of {len(sample)} noticed, {noticed / len(sample):.1%}")
    return 0 if noticed >= ENOUGH * len(sample) else 1


if __name__ == "__main__":
    sys.exit(main())
