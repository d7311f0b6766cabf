"""The same results from every executor: lines over checkpoints of all formats, and what they print and
write.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tests.support import data_path, partitioned, strings, variants, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOLDENS = {
    "tf-object": "guide_adam_legacy/tf_ckpts/ckpt-10",
    "slices": "max_shard_size/split",
    "tf-name": "name_based/partitioned/model.ckpt-4",
    "dtypes": "dtypes/all",
    "tf-v1": "v1_format/plain/model.ckpt-1",
    "keras-h5": "keras_mlp/mlp.with_optimizer.h5",
    "keras-weights": "keras3_mlp/mlp.weights.h5",
    "keras": "keras3_rnn/rnn.keras",
    "npz": "interop/weights.npz",
    "safetensors": "interop/weights.safetensors",
    "pytorch": "pytorch/training.bin",
}
"""A checkpoint of each format, and bundles of several shapes."""

SUFFIXES = {"keras-h5": ".h5", "keras-weights": ".weights.h5", "keras": ".keras", "npz": ".npz"}

LINES = {
    "verify": "verify SRC --json",
    "stats": "stats SRC --json",
    "diff": "diff SRC OTHER --exact --all --json",
    "convert": "convert SRC out/TARGET --json",
    "cast": "convert SRC out/c.safetensors --kind variable --cast bfloat16 --json",
    "average": "average SRC OTHER -o out/TARGET --json",
}
"""A line of each command that shares its work. Each may fail, and must fail alike with every executor."""


class Came(NamedTuple):
    """What a line came to."""

    code: int
    out: str
    err: str
    files: dict[str, bytes]


def lay_out(directory: Path) -> None:
    """Make a copy of each golden, and another one; the others of `mixed` have other values."""
    for name, path in GOLDENS.items():
        for side in ("one", "other"):
            shutil.copytree(os.path.dirname(data_path(path)), directory / side / name)
    for number, side in enumerate(("one", "other")):
        (directory / side / "mixed").mkdir(parents=True)
        write_bundle(str(directory / side / "mixed" / "m-1"), mixed(number))


def mixed(seed: int) -> dict[str, object]:
    """Return tensors of all sorts, some of many tasks where those are small."""
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((900, 7)).astype(np.float32)
    return {
        "large": values,
        "double": generator.standard_normal(5000),
        "partitioned": partitioned(values, [((0, 500), (0, -1)), ((500, 400), (0, -1))]),
        "text": strings([b"a" * seed, b"", b"c"]),
        "state": variants([b"%d" % seed]),
        "empty": np.zeros((0, 3), np.float32),
        **{f"small/{n:03}": generator.standard_normal(n).astype(np.float32) for n in range(60)},
    }


def line(name: str, command: str) -> list[str]:
    """Return the arguments of a command over one of the checkpoints, from where they are laid out."""
    base = "m-1" if name == "mixed" else os.path.basename(GOLDENS[name])
    target = f"t{SUFFIXES.get(name, '.safetensors' if name == 'safetensors' else '-1')}"
    words = {"SRC": f"one/{name}/{base}", "OTHER": f"other/{name}/{base}", "TARGET": target}
    return ["/".join(words.get(part, part) for part in word.split("/")) for word in LINES[command].split(" ")]


def came_of(ckpt: Callable, directory: Path, name: str, command: str, *options: str) -> Came:
    """Run a line, and return what it came to; what it wrote is removed."""
    done = ckpt(*line(name, command), *options)
    files = {}
    if (directory / "out").exists():
        files = {path.name: path.read_bytes() for path in sorted((directory / "out").iterdir())}
        shutil.rmtree(directory / "out")
    return Came(done.code, done.out, done.err, files)
