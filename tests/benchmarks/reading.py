"""Reading and verifying, against TensorFlow's reader, safetensors, and the checksum alone."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks.data import large_bundle, many_tensors
from tests.benchmarks.harness import (
    CKPT,
    ROOT,
    Missing,
    Row,
    at_most,
    faster,
    installed,
    memory,
    printed,
    python,
    run,
    tensorflow,
)
from tests.benchmarks.listing import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.benchmarks.harness import Scale

BASE = python("import numpy, click")

READ_OURS = f"""
import sys; sys.path.insert(0, {ROOT!r})
import random, time, numpy, formats
reader = formats.open_checkpoint({{path!r}})
keys = list(reader)
if {{shuffled}}: random.Random(0).shuffle(keys)
read = lambda key: reader[key].read()
"""
READ_TENSORFLOW = """
import random, time, tensorflow as tf
reader = tf.train.load_checkpoint({path!r})
keys = sorted(reader.get_variable_to_shape_map())
if {shuffled}: random.Random(0).shuffle(keys)
read = reader.get_tensor
"""
READ_SAFETENSORS = """
import time
from safetensors import safe_open
reader = safe_open({path!r}, "numpy")
keys = reader.keys()
read = reader.get_tensor
"""
# Once to warm up, and each array let go when the next is there, as in a loop over a checkpoint.
TIMED = """
for key in keys[:{most}]: read(key)
started = time.perf_counter()
for key in keys[:{most}]: read(key)
print(time.perf_counter() - started)
"""

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

FOUR_PASSES = """
import sys, time, numpy
array = numpy.fromfile(sys.argv[1], numpy.float32).reshape(64, -1)
started = time.perf_counter()
for tensor in array:
    tensor.min(), tensor.max(), tensor.mean(), tensor.std()
print(time.perf_counter() - started)
"""


def beyond_start(*words: str, fails: bool = False) -> float:
    """Return the seconds a command of ours takes, those of starting it subtracted."""
    return run([*CKPT, *words], fails=fails).seconds - run([*CKPT, "ls", SMALL], watch=False).seconds


def rows(directory: str, scale: Scale) -> Iterator[tuple[str, Callable[[], Row]]]:
    path = large_bundle(os.path.join(directory, "large-1"), 200, scale.of(2 << 30))
    name = "read all of 2 GB, checksums verified, as fast as TensorFlow"
    yield name, partial(_read, name, path, 1.5, scale)
    name = "stats, 2 GB, as fast as numpy's in memory"
    yield name, partial(_statistics, name, directory, scale)
    many = many_tensors(os.path.join(directory, "many-1"), scale.of(100_000))
    for order, bar in (("random", 20), ("key", 1)) if not scale.quick else ():
        name = f"read {scale.of(100_000):,} small tensors in {order} order, as fast as TF"
        yield name, partial(_read, name, many, bar, scale, shuffled=order == "random")
    name = "read all of 2 GB of .safetensors, as fast as safetensors"
    yield name, partial(_safetensors, name, directory, path, scale)
    name = "verify 2 GB / sha256sum"
    yield name, partial(_sha256, name, path, scale)
    for jobs, bar in ((1, 1.2), (2, 1.0)):
        name = f"sign 2 GB -j{jobs} / sha256sum"
        yield name, partial(_sign, name, path, jobs, bar, scale)
    for file in os.listdir(directory):
        if not file.startswith("many"):
            os.unlink(os.path.join(directory, file))
    path = large_bundle(os.path.join(directory, "large-1"), 64, scale.of(8 << 30))
    for jobs, bar in ((1, 0.75), (2, 1.3)):
        name = f"verify 8 GB -j{jobs}, as fast as crc32c on one core"
        yield name, partial(_verify, name, path, jobs, bar, scale)
    for what, command in (
        ("ls --json, 100,000 tensors", [*CKPT, "ls", "--json", many]),
        ("verify, 100,000 tensors", [*CKPT, "verify", many]),
    ):
        name = f"memory above import numpy, click: {what}"
        yield name, partial(memory, name, command, BASE, 120)


def _read(name: str, path: str, bar: float, scale: Scale, *, shuffled: bool = False) -> Row:
    timed = TIMED.format(most=1_000_000)
    # TensorFlow takes minutes to read 100,000 in random order; a twentieth of them shows as much.
    some = 5_000 if shuffled else 1_000_000
    ours = python(READ_OURS.format(path=path, shuffled=shuffled) + timed)
    theirs = tensorflow(READ_TENSORFLOW.format(path=path, shuffled=shuffled) + TIMED.format(most=some))
    share = scale.of(100_000) / min(some, scale.of(100_000)) if shuffled else 1
    return faster(name, lambda: printed(ours), lambda: share * printed(theirs), bar, scale.heavy_rounds)


def _safetensors(name: str, directory: str, path: str, scale: Scale) -> Row:
    target = os.path.join(directory, "large.safetensors")
    run([*CKPT, "convert", path, target])
    timed = TIMED.format(most=1_000_000)
    ours = python(READ_OURS.format(path=target, shuffled=False) + timed)
    theirs = tensorflow(READ_SAFETENSORS.format(path=target) + timed)
    if subprocess.run(tensorflow("import safetensors"), capture_output=True, check=False).returncode:
        raise Missing("safetensors is not installed beside TensorFlow 2.21")
    return faster(name, lambda: printed(ours), lambda: printed(theirs), None, scale.heavy_rounds)


def _sha256(name: str, path: str, scale: Scale) -> Row:
    files = [path + ".index", path + ".data-00000-of-00001"]
    rival = [installed("sha256sum", "coreutils"), *files]
    return at_most(
        name,
        lambda: run([*CKPT, "verify", path]).seconds,
        lambda: run(rival, watch=False).seconds,
        None,
        scale.heavy_rounds,
    )


def _sign(name: str, path: str, jobs: int, bar: float, scale: Scale) -> Row:
    """Measure signing with a key that is made here, against the sums of the files."""
    key, target = f"{path}.private.pem", f"{path}.sig"
    subprocess.run(
        [installed("openssl", "openssl"), "genpkey", "-algorithm", "ed25519", "-out", key], check=True
    )
    os.chmod(key, 0o600)
    rival = [installed("sha256sum", "coreutils"), f"{path}.data-00000-of-00001"]
    return at_most(
        name,
        lambda: run([*CKPT, "sign", path, "--key", key, "-o", target, "--overwrite", f"-j{jobs}"]).seconds,
        lambda: run(rival, watch=False).seconds,
        bar,
        scale.heavy_rounds,
    )


def _verify(name: str, path: str, jobs: int, bar: float, scale: Scale) -> Row:
    alone = [*python(CHECKSUM), f"{path}.data-00000-of-00001"]
    return faster(
        name,
        lambda: beyond_start("verify", f"-j{jobs}", path),
        lambda: printed(alone),
        bar,
        scale.heavy_rounds,
    )


def _statistics(name: str, directory: str, scale: Scale) -> Row:
    path = large_bundle(os.path.join(directory, "stats-1"), 64, scale.of(2 << 30))
    rival = [*python(FOUR_PASSES), f"{path}.data-00000-of-00001"]
    return faster(name, lambda: beyond_start("stats", path), lambda: printed(rival), 0.5, scale.heavy_rounds)
