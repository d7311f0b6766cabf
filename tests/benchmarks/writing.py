"""Converting, renaming and averaging, against `cp` with `sync`, h5repack, and numpy."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle, large_h5, sparse_bundle
from tests.benchmarks.harness import (
    CKPT,
    Row,
    at_most,
    installed,
    memory,
    printed,
    python,
    run,
    seconds_at_most,
    supply_memory,
    tensorflow,
)
from tests.benchmarks.reading import BASE, beyond_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

SHARD = ".data-00000-of-00001"
MEMORY_FILES = "/dev/shm"

ADD = """
import sys, time, numpy
started = time.perf_counter()
total = numpy.fromfile(sys.argv[1], numpy.float32)
for path in sys.argv[2:]:
    total += numpy.fromfile(path, numpy.float32)
print(time.perf_counter() - started)
"""


RESAVE = """
import sys, time
import tensorflow as tf
started = time.perf_counter()
reader = tf.train.load_checkpoint(sys.argv[1])
names = reader.get_variable_to_shape_map()
tensors = {name.replace("/", "."): tf.Variable(reader.get_tensor(name)) for name in names}
tf.train.Checkpoint(tensors=tensors).write(sys.argv[2])
print(time.perf_counter() - started)
"""
"""The equivalent of converting names to objects with TensorFlow alone."""


def _remove(prefix: str) -> None:
    """Remove a bundle, which is missing if the row that writes it was not chosen."""
    for suffix in (".index", SHARD):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(prefix + suffix)


class Conversion:
    """A conversion, and copying as many bytes, each into an empty directory of its own."""

    def __init__(self, directory: str, source: str, target: str, *options: str) -> None:
        self.directory = os.path.join(directory, "out")
        self.source = source
        self.target = os.path.join(self.directory, target)
        self.options = options

    @property
    def _data(self) -> str:
        return self.source + SHARD if os.path.exists(self.source + SHARD) else self.source

    def clean(self) -> None:
        """Start over, with the whole source in memory, and space for the result.

        Some systems take pages of files out of memory after a minute.
        """
        shutil.rmtree(self.directory, ignore_errors=True)
        os.mkdir(self.directory)
        with open(self._data, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
        supply_memory(os.path.getsize(self._data) * 5 // 4)

    def convert(self, *options: str) -> float:
        self.clean()
        return run([*CKPT, "convert", self.source, self.target, *self.options, *options]).seconds

    def copy(self, *, sync: bool) -> float:
        """Return the seconds of `cp`, and `sync` of the copy: the source has as many bytes as the result."""
        self.clean()
        copy = os.path.join(self.directory, "copy")
        started = time.perf_counter()
        run(["cp", self._data, copy], watch=False)
        if sync:
            run(["sync", copy], watch=False)
        return time.perf_counter() - started


def _conversions(directory: str, bundle: str, h5: str) -> list[tuple[str, Conversion]]:
    return [
        ("bundle to bundle", Conversion(directory, bundle, "copy-1")),
        ("bundle to .safetensors", Conversion(directory, bundle, "copy.safetensors")),
        ("bundle to .h5", Conversion(directory, bundle, "copy.h5", "--like", h5)),
        (".h5 to bundle", Conversion(directory, h5, "copy-1", "--to", "name")),
    ]


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    bundle = large_bundle(os.path.join(directory, "source-1"), 200, scale.of(2 << 30))
    h5 = large_h5(os.path.join(directory, "source.h5"), 200, scale.of(2 << 30))
    os.sync()  # or the disk is still busy with the sources
    for what, conversion in _conversions(directory, bundle, h5):
        for bar, options in ((1.5, ("--no-verify",)), (2.5, ())):
            name = f"convert 2 GB {what}{', not verified' if options else ''} / cp and sync"
            yield (
                name,
                partial(
                    at_most,
                    name,
                    partial(conversion.convert, *options),
                    partial(conversion.copy, sync=True),
                    bar,
                    scale.rounds,
                ),
            )
    name = "convert 2 GB .h5 to bundle / h5repack"
    yield name, partial(_repack, name, directory, h5, scale)
    yield from _in_memory(directory, bundle, h5, scale)
    yield from _renaming(directory, bundle, scale)
    yield from _linking(directory, bundle, h5, scale)
    os.unlink(h5)
    _remove(bundle)
    yield from _one_large_tensor(directory, scale)
    name = "average of 5 x 400 MB / numpy reading and adding them"
    yield name, partial(_average, name, directory, scale)


def _in_memory(directory: str, bundle: str, h5: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    """The same where no disk hides anything: source and target are files in memory."""
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-", dir=MEMORY_FILES) as memory_files:
        for what, _ in _conversions(directory, bundle, h5):
            shutil.rmtree(memory_files)
            os.mkdir(memory_files)
            source = os.path.join(memory_files, "source-1")
            for suffix in (".index", SHARD) if what.startswith("bundle") else ():
                shutil.copy(bundle + suffix, source + suffix)
            there = h5  # a template is read for its layout alone
            if not what.startswith("bundle"):
                there = shutil.copy(h5, memory_files)
            conversion = dict(_conversions(memory_files, source, there))[what]
            name = f"convert 2 GB {what} on tmpfs, not verified / cp"
            yield (
                name,
                partial(
                    at_most,
                    name,
                    partial(conversion.convert, "--no-verify"),
                    partial(conversion.copy, sync=False),
                    1.5,
                    scale.rounds,
                ),
            )


def _repack(name: str, directory: str, h5: str, scale: Scale) -> Row:
    conversion = Conversion(directory, h5, "copy-1", "--to", "name")
    program = installed("h5repack", "hdf5-tools")

    def repack() -> float:
        conversion.clean()
        copy = os.path.join(conversion.directory, "copy.h5")
        return run([program, h5, copy], watch=False).seconds + run(["sync", copy], watch=False).seconds

    return at_most(name, conversion.convert, repack, None, scale.heavy_rounds)


def _renaming(directory: str, source: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    sparse = sparse_bundle(os.path.join(directory, "sparse-1"), 200, 1 << 40)
    moved = os.path.join(directory, "moved-1")
    for suffix in (".index", SHARD):
        shutil.copy(source + suffix, moved + suffix)
    prefixes = iter(range(1000))

    def in_place(path: str) -> float:
        return beyond_start("rename", "--in-place", path, "--add-prefix", f"p{next(prefixes)}/")

    def linked() -> float:
        target = os.path.join(directory, f"linked-{next(prefixes)}")
        seconds = beyond_start("rename", "--link", source, target, "--add-prefix", "p/")
        _remove(target)
        return seconds

    for name, measure in (
        ("rename --in-place 2 GB, beyond start-up", partial(in_place, moved)),
        ("rename --in-place 1 TB sparse, beyond start-up", partial(in_place, sparse)),
        ("rename --link 2 GB, beyond start-up", linked),
    ):
        yield name, partial(seconds_at_most, name, measure, 0.3, scale.rounds)
    for path in (moved, sparse):
        _remove(path)


def _linking(directory: str, bundle: str, h5: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Conversions that share the source's files: their time beyond start-up, compared with copying."""
    sparse = sparse_bundle(os.path.join(directory, "sparse-1"), 200, 1 << 40)
    safetensors, npz = (os.path.join(directory, f"source{suffix}") for suffix in (".safetensors", ".npz"))
    for path in (safetensors, npz):
        run([*CKPT, "convert", bundle, path, "--no-verify"])
    target = os.path.join(directory, "linked-1")

    def linked(source: str, to: str) -> float:
        return beyond_start("convert", source, target, "--to", to, "--link", "--overwrite")

    for what, source in (("2 GB", bundle), ("1 TB sparse", sparse)):
        name = f"convert --link {what} to objects, beyond start-up"
        yield name, partial(seconds_at_most, name, partial(linked, source, "object"), 0.3, scale.rounds)
    copying = Conversion(directory, bundle, "copy-1")
    name = "convert --link 2 GB to objects, beyond start-up / cp and sync"
    yield (
        name,
        partial(
            at_most,
            name,
            partial(linked, bundle, "object"),
            partial(copying.copy, sync=True),
            0.3,
            scale.heavy_rounds,
        ),
    )
    name = "convert --link 2 GB to objects, beyond start-up / TensorFlow reading and saving"
    yield name, partial(_resave, name, directory, bundle, partial(linked, bundle, "object"), scale)
    # `verify` has no checksums to make of a safetensors file; of a bundle it makes those that are made here.
    for what, source, other, verified, bar in (
        (".safetensors", safetensors, "a bundle of as much", bundle, 1.5),
        (".npz", npz, "the same file", npz, 1.2),
        (".h5", h5, "the same file", h5, 1.2),
    ):
        name = f"convert --link 2 GB {what} / verify of {other}, both beyond start-up"
        verify = partial(beyond_start, "verify", verified)
        yield name, partial(at_most, name, partial(linked, source, "name"), verify, bar, scale.rounds)
    os.unlink(safetensors)
    os.unlink(npz)
    for shard in glob.glob(f"{target}.*"):
        os.unlink(shard)
    _remove(sparse)


def _resave(name: str, directory: str, source: str, ours: Callable[[], float], scale: Scale) -> Row:
    copy = os.path.join(directory, "out", "resaved-1")
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    rival = [*tensorflow(RESAVE), source, copy]
    row = at_most(name, ours, lambda: printed(rival), 0.1, scale.heavy_rounds)
    _remove(copy)
    return row


def _one_large_tensor(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    """The memory that one tensor of 4 GB takes, however it is worked on."""
    path = large_bundle(os.path.join(directory, "huge-1"), 1, scale.of(4 << 30))
    target = os.path.join(directory, "out-1")
    for name, command in (
        ("convert", ["convert", path, target, "-j2"]),
        ("convert --cast", ["convert", path, target, "-j2", "--cast", "bfloat16", "--overwrite"]),
        ("verify", ["verify", "-j2", path]),
        ("diff --exact", ["diff", "-q", "--exact", "-j2", path, path]),
        ("average", ["average", "-j2", path, path, "-o", target, "--overwrite"]),
        ("stats", ["stats", path]),
    ):
        title = f"memory above import numpy, click: {name}, one tensor of 4 GB"
        yield title, partial(memory, title, [*CKPT, *command], BASE, 120)
    for prefix in (path, target):
        _remove(prefix)


def _average(name: str, directory: str, scale: Scale) -> Row:
    sources = [
        large_bundle(os.path.join(directory, f"mean-{number}"), 40, scale.of(400 << 20), seed=number)
        for number in range(5)
    ]
    target = os.path.join(directory, "average-1")
    rival = [*python(ADD), *(source + SHARD for source in sources)]
    return at_most(
        name,
        lambda: run([*CKPT, "average", *sources, "-o", target, "--overwrite"]).seconds,
        lambda: printed(rival),
        2,
        scale.rounds,
    )
