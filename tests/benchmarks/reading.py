"""Listing and verifying, against an import, against TensorFlow, and against the checksum alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle, many_tensors
from tests.benchmarks.harness import CKPT, Row, at_most, faster, memory, python, ratios, run, tensorflow
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


THOUSAND_DATASETS = """
import h5py, numpy
with h5py.File({path!r}, "w") as file:
    file.attrs["layer_names"] = [b"layer_%03d" % number for number in range({layers})]
    file.attrs["keras_version"], file.attrs["backend"] = b"2.15.0", b"tensorflow"
    for number in range({layers}):
        layer = file.create_group("layer_%03d" % number)
        names = [b"layer_%03d/w_%d:0" % (number, weight) for weight in range(1000 // {layers})]
        layer.attrs["weight_names"] = names
        for name in names:
            layer[name.decode()] = numpy.zeros(4, numpy.float32)
"""

FOUR_PASSES = """
import sys, time, numpy
array = numpy.fromfile(sys.argv[1], numpy.float32).reshape(64, -1)
started = time.perf_counter()
for tensor in array:
    tensor.min(), tensor.max(), tensor.mean(), tensor.std()
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
    for layers in (100, 500):
        yield _hdf5_listing(directory, layers)
    yield _statistics_speed(directory)


def _hdf5_listing(directory: str, layers: int) -> Row:
    """Listing 1,000 datasets: start-up, an import of h5py, and at most a tenth of a second."""
    path = os.path.join(directory, f"thousand_in_{layers}.h5")
    run(python(THOUSAND_DATASETS.format(path=path, layers=layers)))

    def beyond() -> float:
        return _seconds([*CKPT, "ls", path]) - _seconds([*CKPT, "ls", SMALL])

    mine, theirs, _ = ratios(beyond, lambda: _seconds(python("import h5py")) - _seconds(python("pass")))
    more = mine - theirs
    name = f"ls, .h5, 1,000 datasets in {layers} layers, beyond h5py"
    return Row(name, f"{mine:.3f} s", f"{theirs:.3f} s", more, "<= 0.1 s", more <= 0.1)


def _statistics_speed(directory: str) -> Row:
    path = large_bundle(os.path.join(directory, "stats-1"), 64, 2 << 30)
    data = f"{path}.data-00000-of-00001"

    def stats() -> float:
        return _seconds([*CKPT, "stats", path]) - _seconds([*CKPT, "stats", SMALL])

    name = "stats, 2 GB, start-up subtracted / numpy's in memory"
    return faster(name, stats, lambda: _printed([*python(FOUR_PASSES), data]), 0.5, rounds=3)


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
