"""Converting, renaming and comparing, against `cp` with `sync`, and `cmp`."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle
from tests.benchmarks.harness import CKPT, Row, at_most, faster, memory, python, run
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
SHARD = ".data-00000-of-00001"


class Place:
    """A directory whose results are removed between runs."""

    def __init__(self, directory: str, source: str) -> None:
        self.directory = os.path.join(directory, "out")
        self.source = source
        self.clean()

    def clean(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        os.mkdir(self.directory)

    def copy(self) -> float:
        """Return the seconds that copying the data and syncing the copy takes."""
        self.clean()
        started = time.perf_counter()
        subprocess.run(["cp", self.source + SHARD, os.path.join(self.directory, "copy")], check=True)
        subprocess.run(["sync", os.path.join(self.directory, "copy")], check=True)
        return time.perf_counter() - started

    def convert(self, name: str, *options: str) -> float:
        self.clean()
        return run([*CKPT, "convert", self.source, os.path.join(self.directory, name), *options]).seconds


def rows(directory: str) -> Iterator[Row]:
    source = large_bundle(os.path.join(directory, "source-1"), 200, 2 << 30)
    place = Place(directory, source)
    for target in ("copy-1", "copy.safetensors"):
        for bar, options in ((2, ["--no-verify"]), (3.5, [])):
            proof = "verified" if not options else "not verified"
            yield at_most(
                f"convert 2 GB to {target}, {proof} / cp and sync",
                lambda target=target, options=options: place.convert(target, "--weights-only", *options),
                place.copy,
                bar,
                rounds=3,
            )
    yield from _renaming(directory, source)
    yield from _comparing(directory, source)
    place.clean()
    base = python("import numpy, click")
    for name, command in (
        ("convert 2 GB", [*CKPT, "convert", source, os.path.join(place.directory, "m-1")]),
        ("diff --exact 2 GB", [*CKPT, "diff", "-q", "--exact", source, os.path.join(directory, "same-1")]),
        ("stats 2 GB", [*CKPT, "stats", source]),
    ):
        yield memory(f"memory above import numpy, click: {name}", command, base, 150)


def _renaming(directory: str, source: str) -> Iterator[Row]:
    moved = os.path.join(directory, "moved-1")
    for suffix in (".index", SHARD):
        shutil.copy(source + suffix, moved + suffix)
    prefixes = iter(range(1000))

    def rename() -> float:
        command = [*CKPT, "rename", "--in-place", moved, "--add-prefix", f"p{next(prefixes)}/"]
        return run(command).seconds - run([*CKPT, "ls", SMALL]).seconds

    rename()
    seconds = min(rename() for _ in range(3))
    name = "rename --in-place 2 GB, seconds beyond start-up"
    yield Row(name, f"{seconds:.3f} s", "", seconds, "<= 1 s", seconds <= 1)
    for suffix in (".index", SHARD):
        os.remove(moved + suffix) if os.path.exists(moved + suffix) else None


def _comparing(directory: str, source: str) -> Iterator[Row]:
    same = os.path.join(directory, "same-1")
    for suffix in (".index", SHARD):
        shutil.copy(source + suffix, same + suffix)
    tiny = large_bundle(os.path.join(directory, "tiny-1"), 200, 200 << 20)
    yield at_most(
        "diff, equal checksums: 2 GB / 200 MB",
        lambda: run([*CKPT, "diff", "-q", source, same]).seconds,
        lambda: run([*CKPT, "diff", "-q", tiny, tiny]).seconds,
        1.5,
    )
    yield faster(
        "diff --exact 2 GB, start-up subtracted / cmp",
        lambda: (
            run([*CKPT, "diff", "-q", "--exact", source, same]).seconds - run([*CKPT, "ls", SMALL]).seconds
        ),
        lambda: run(["cmp", source + SHARD, same + SHARD]).seconds,
        0.5,
        rounds=3,
    )
