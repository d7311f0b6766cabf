"""Starting and listing, against an import and against TensorFlow."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle, many_tensors, run_directory, sharded_bundle, sparse_bundle
from tests.benchmarks.harness import (
    CKPT,
    Row,
    at_most,
    faster,
    printed,
    python,
    ratios,
    run,
    take_peak,
    tensorflow,
)
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

SMALL = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
LS = [*CKPT, "ls"]

LIST_VARIABLES = """
import time, tensorflow as tf
started = time.perf_counter()
tf.train.list_variables({path!r})
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


def _seconds(command: list[str]) -> float:
    return run(command, watch=False).seconds


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    for title, words, limit in (("--version", ["--version"], 1.5), ("ls, small bundle", ["ls", SMALL], 1.85)):
        name = f"{title} / import click"
        yield name, partial(_start, name, words, limit, scale)
    name = "ls, small bundle, times as fast as TensorFlow"
    yield name, partial(_whole_process, name)
    many = many_tensors(os.path.join(directory, "many-1"), scale.of(100_000))
    million = many_tensors(os.path.join(directory, "million-1"), scale.of(1_000_000))
    name = f"ls, {scale.of(100_000):,} tensors / list_variables without import"
    if not scale.quick:
        yield name, partial(_many, name, many, scale)
    name = "ls, ten times as many / ten times the time beyond start-up"
    yield name, partial(_linear, name, million, many, scale)
    name = "ls, bytes of memory a tensor"
    yield name, partial(_memory_a_tensor, name, million, scale)
    small, large = (
        run_directory(os.path.join(directory, f"run-{count}"), scale.of(count)) for count in (1_000, 10_000)
    )
    for words, what in _DIRECTORIES.items():
        name = f"{what}, {scale.of(10_000):,} checkpoints / {scale.of(1_000):,}"
        yield name, partial(_directories, name, words, large, small)
    one = large_bundle(os.path.join(directory, "one-1"), 200, 200 << 20)
    sparse = sparse_bundle(os.path.join(directory, "sparse-1"), 200, 1 << 40)
    name = "ls, 1 TB sparse / 200 MB of as many tensors"
    yield name, partial(_same, name, sparse, one, scale)
    sharded = sharded_bundle(os.path.join(directory, "sharded-1"), 256, 1024)
    single = sharded_bundle(os.path.join(directory, "single-1"), 1, 1024)
    name = "ls, 256 shards / one shard of as many tensors"
    yield name, partial(_same, name, sharded, single, scale)
    for layers in (1, 100, 500):
        name = f"ls, .h5, 1,000 datasets in {layers} layers, beyond import h5py"
        yield name, partial(_hdf5_listing, name, directory, layers, scale)


_DIRECTORIES = {
    ("ls",): "ls DIR",
    ("state",): "state DIR",
    ("log", "--no-values"): "log --no-values DIR",
    ("verify",): "verify DIR",
    (): "completing a path in DIR",
}


def _directories(name: str, words: tuple[str, ...], large: str, small: str) -> Row:
    """Ten times as many checkpoints, each command once: whole seconds need no median."""

    def look(path: str) -> float:
        if words:
            return _seconds([*CKPT, *words, path])
        asked = ["env", "_CKPT_COMPLETE=bash_complete", f"COMP_WORDS=ckpt\nls\n{path}/", *CKPT]
        return _seconds(asked)

    return at_most(name, lambda: look(large), lambda: look(small), 12, rounds=1)


def _start(name: str, words: list[str], limit: float, scale: Scale) -> Row:
    return at_most(
        name,
        lambda: _seconds([*CKPT, *words]),
        lambda: _seconds(python("import click")),
        limit,
        rounds=3 * scale.rounds,
    )


def _whole_process(name: str) -> Row:
    listing = f"import tensorflow as tf\nfor v in tf.train.list_variables({SMALL!r}): print(v)"
    return faster(name, lambda: _seconds([*LS, SMALL]), lambda: _seconds(tensorflow(listing)), 30, rounds=1)


def _many(name: str, path: str, scale: Scale) -> Row:
    rival = tensorflow(LIST_VARIABLES.format(path=path))
    return at_most(name, lambda: run([*LS, path]).seconds, lambda: printed(rival), 0.7, scale.heavy_rounds)


def _linear(name: str, large: str, small: str, scale: Scale) -> Row:
    def beyond(path: str) -> float:
        return _seconds([*LS, path]) - _seconds([*LS, SMALL])

    return at_most(name, lambda: beyond(large), lambda: 10 * beyond(small), 1.3, scale.rounds)


def _memory_a_tensor(name: str, path: str, scale: Scale) -> Row:
    peak = run([*LS, path]).peak
    each = (peak - run([*LS, SMALL]).peak) / scale.of(1_000_000)
    return Row(name, f"{each:.0f} B", "", each, "<= 1024 B", each <= 1024, take_peak())


def _same(name: str, one: str, other: str, scale: Scale) -> Row:
    return at_most(
        name, lambda: _seconds([*LS, one]), lambda: _seconds([*LS, other]), 1.1, rounds=2 * scale.rounds
    )


def _hdf5_listing(name: str, directory: str, layers: int, scale: Scale) -> Row:
    """Listing 1,000 datasets: start-up, an import of h5py, and at most a tenth of a second."""
    path = os.path.join(directory, f"thousand_in_{layers}.h5")
    run(python(THOUSAND_DATASETS.format(path=path, layers=layers)))

    def beyond() -> float:
        return _seconds([*LS, path]) - _seconds([*LS, SMALL])

    def imported() -> float:
        return _seconds(python("import h5py")) - _seconds(python("pass"))

    mine, theirs, _ = ratios(beyond, imported, scale.rounds)
    more = mine - theirs
    return Row(name, f"{mine:.3f} s", f"{theirs:.3f} s", more, "<= 0.1 s", more <= 0.1)
