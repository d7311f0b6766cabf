"""Listing and verifying, against an import, against TensorFlow, and against the checksum alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle, many_tensors
from tests.benchmarks.harness import CKPT, Row, at_most, faster, memory, python, run, tensorflow
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
BASE = python("import numpy, click")

CHECKSUM = """
import os, sys, time, google_crc32c
started = time.perf_counter()
fd = os.open(sys.argv[1], os.O_RDONLY)
crc = offset = 0
while piece := os.pread(fd, 1 << 20, offset):
    crc = google_crc32c.extend(crc, piece)
    offset += len(piece)
print(time.perf_counter() - started)
"""


def _seconds(command: list[str]) -> float:
    return run(command).seconds


def _printed(command: list[str]) -> float:
    return float(run(command, keep=True).out)


def rows(directory: str) -> Iterator[Row]:
    ls = [*CKPT, "ls"]
    yield at_most(
        "ls, small bundle / import click",
        lambda: _seconds([*ls, SMALL]),
        lambda: _seconds(python("import click")),
        2.5,
        rounds=15,
    )
    listing = f"import tensorflow as tf\nfor v in tf.train.list_variables({SMALL!r}): print(v)"
    yield faster(
        "ls, small bundle, times as fast as TensorFlow",
        lambda: _seconds([*ls, SMALL]),
        lambda: _seconds(tensorflow(listing)),
        30,
        rounds=3,
    )
    many = many_tensors(os.path.join(directory, "many-1"), 100_000)
    after_import = (
        "import tensorflow as tf, time\nstarted = time.perf_counter()\n"
        f"tf.train.list_variables({many!r})\nprint(time.perf_counter() - started)"
    )
    yield at_most(
        "ls, 100,000 tensors / list_variables without import",
        lambda: _seconds([*ls, many]),
        lambda: _printed(tensorflow(after_import)),
        1,
        rounds=3,
    )
    large = large_bundle(os.path.join(directory, "large-1"), 64, 4 << 30)
    yield _verify_speed(large)
    for name, command in (
        ("ls, small bundle", [*ls, SMALL]),
        ("ls, 100,000 tensors", [*ls, many]),
        ("ls --json, 100,000 tensors", [*ls, "--json", many]),
        ("verify, 100,000 tensors", [*CKPT, "verify", many]),
        ("verify, 4 GB", [*CKPT, "verify", large]),
    ):
        yield memory(f"memory above import numpy, click: {name}", command, BASE, 60)


def _verify_speed(prefix: str) -> Row:
    data = f"{prefix}.data-00000-of-00001"

    def verify() -> float:
        return _seconds([*CKPT, "verify", prefix]) - _seconds([*CKPT, "verify", SMALL])

    return faster(
        "verify, 4 GB, start-up subtracted / crc32c alone",
        verify,
        lambda: _printed([*python(CHECKSUM), data]),
        0.75,
        rounds=3,
    )
