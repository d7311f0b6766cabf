"""Many tensors, and other large checkpoints: seconds and memory, compared with TensorFlow and 0.1.0.

0.1.0 was measured on the machine of docs/performance.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks.data import (
    long_index,
    many_shapes,
    many_tensors,
    one_tensor,
    run_directory,
    sharded_bundle,
)
from tests.benchmarks.harness import (
    CKPT,
    ENVIRONMENT,
    ROOT,
    Row,
    at_most,
    printed,
    python,
    run,
    seconds_at_most,
    take_peak,
    tensorflow,
)
from tests.benchmarks.reading import beyond_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

KEYS = """
import os, sys, time, numpy
keys = ["model/layer_%d/block_%d/attention/kernel" % divmod(number, 100) for number in range({count})]
value = numpy.zeros((2, 3), numpy.float32)
path = os.path.join({directory!r}, {name!r})
"""
CREATE = f"""
sys.path.insert(0, {ROOT!r})
import formats
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
started = time.perf_counter()
specs = [TensorSpec(key, BY_NAME["float32"], (2, 3)) for key in keys]
with formats.create_checkpoint(path, format="tf-name", specs=specs, overwrite=True) as writer:
    for key in keys:
        writer.write(key, value)
print(time.perf_counter() - started)
"""
SAVE = """
import tensorflow as tf
values = [tf.constant(value) for _ in keys]
started = time.perf_counter()
tf.raw_ops.SaveV2(prefix=path, tensor_names=keys, shape_and_slices=[""] * len(keys), tensors=values)
print(time.perf_counter() - started)
"""
READ_AND_SAVE = """
import time, tensorflow as tf
started = time.perf_counter()
reader = tf.train.load_checkpoint({source!r})
keys = sorted(reader.get_variable_to_shape_map())
values = [tf.constant(reader.get_tensor(key)) for key in keys]
tf.raw_ops.SaveV2(prefix={target!r}, tensor_names=keys, shape_and_slices=[""] * len(keys), tensors=values)
print(time.perf_counter() - started)
"""


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    million = many_tensors(os.path.join(directory, "million-1"), scale.of(1_000_000))
    hundred = many_tensors(os.path.join(directory, "hundred-1"), scale.of(100_000))
    yield from _a_million(directory, million, hundred, scale)
    for name, rival, ours, before in (
        ("create", SAVE, CREATE, "0.1.0 28 s"),
        ("convert", READ_AND_SAVE, None, ""),
    ):
        title = f"{name} {scale.of(100_000):,} small tensors{', ' + before if before else ''} / TensorFlow"
        if not scale.quick:
            yield title, partial(_against_tensorflow, title, directory, hundred, ours, rival, scale)
    yield from _in_one_respect(directory, scale)


def _a_million(
    directory: str, million: str, hundred: str, scale: Scale
) -> Iterator[tuple[str, Callable[[], Row]]]:
    count = f"{scale.of(1_000_000):,} tensors"
    same = os.path.join(directory, "same-1")
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(million + suffix, same + suffix)
    for name, measure, bar, before in (
        (f"ls, {count}", lambda: run([*CKPT, "ls", million]).seconds, 1.0, "0.1.0 3 s"),
        (f"ls | head -1, {count}", lambda: _first_line(million), 0.5, "0.1.0 3 s"),
        (f"diff, {count} of equal checksums", lambda: run([*CKPT, "diff", million, same]).seconds, 2.5, ""),
    ):
        yield name, partial(seconds_at_most, name, measure, bar, scale.rounds, before=before)
    for option in ("-l", "--json"):
        name = f"ls {option}, {count}"
        words = [*CKPT, "ls", option, million]
        yield name, partial(seconds_at_most, name, partial(_seconds, words), None, min(scale.rounds, 1))
    name = f"memory: ls, {count}"
    yield name, partial(_memory, name, million, 200, "0.1.0 400 MB")
    for words in (("rename", "--link"), ("convert", "--link")):
        name = f"{' '.join(words)}, {count} / ten times the time of a tenth"
        yield name, partial(_linear, name, directory, words, million, hundred, scale)


def _seconds(words: list[str]) -> float:
    return run(words).seconds


def _first_line(path: str) -> float:
    started = time.perf_counter()
    with subprocess.Popen([*CKPT, "ls", path], stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        seconds = time.perf_counter() - started
        process.stdout.close()
    return seconds


def _memory(name: str, path: str, megabytes: float, before: str) -> Row:
    mine = run([*CKPT, "ls", path]).peak / 1e6
    take_peak()
    return Row(name, f"{mine:.0f} MB", before, mine, f"<= {megabytes:g} MB", mine <= megabytes)


def _linear(name: str, directory: str, words: tuple[str, ...], large: str, small: str, scale: Scale) -> Row:
    target = os.path.join(directory, "linked-1")

    def measure(source: str) -> float:
        return beyond_start(*words, source, target, "--add-prefix", "p/", "--overwrite")

    return at_most(name, lambda: measure(large), lambda: 10 * measure(small), 1.3, min(scale.rounds, 1))


def _against_tensorflow(
    name: str, directory: str, source: str, ours: str | None, rival: str, scale: Scale
) -> Row:
    mine, theirs = os.path.join(directory, "ours-1"), os.path.join(directory, "theirs-1")
    count = scale.of(100_000)
    if ours is None:
        other = tensorflow(rival.format(source=source, target=theirs))
        command = [*CKPT, "convert", source, mine, "--overwrite"]
        return at_most(name, lambda: run(command).seconds, lambda: printed(other), 1, scale.heavy_rounds)
    keys = partial(KEYS.format, count=count, directory=directory)
    other = tensorflow(keys(name="theirs-1") + rival)
    own = python(keys(name="ours-1") + ours)
    return at_most(name, lambda: printed(own), lambda: printed(other), 1, scale.heavy_rounds)


def _in_one_respect(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    """Rows without a bar: what one tensor, directory, bundle or index that is very large takes."""
    huge = one_tensor(os.path.join(directory, "huge-1"), scale.of(64 << 30))
    shards, checkpoints = scale.of(10_000), scale.of(100_000)
    sharded = sharded_bundle(os.path.join(directory, "sharded-1"), shards, 2 * shards)
    index = long_index(os.path.join(directory, "long-1"), scale.of(500_000_000))
    shapes = scale.of(340_000)
    own = many_shapes(os.path.join(directory, "shapes-1"), shapes)
    many = run_directory(os.path.join(directory, "run"), checkpoints)
    for name, words in (
        ("verify, one tensor of 64 GB, sparse", ("verify", huge)),
        (f"ls DIR, {checkpoints:,} checkpoints", ("ls", many)),
        (f"ls, {shards:,} shards", ("ls", sharded)),
        (f"verify, {shards:,} shards", ("verify", sharded)),
        ("ls, an index of 500 MB", ("ls", index)),
        (f"ls, {shapes:,} shapes of 31 dimensions", ("ls", own)),
    ):
        yield name, partial(_once, name, words)


def _once(name: str, words: tuple[str, ...]) -> Row:
    return seconds_at_most(name, lambda: run([*CKPT, *words]).seconds, None, 1)
