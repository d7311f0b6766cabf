"""Damaged and hostile files: the right values or a typed error, in bounded time and memory.

Every truncation and every flipped bit of small checkpoints is tried; `make fuzz` goes on to larger ones.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import CheckpointError, open_checkpoint
from formats.tf.messages import (
    BundleEntryProto,
    BundleHeaderProto,
    ObjectReference,
    TrackableObject,
    TrackableObjectGraph,
)
from formats.tf.slices import slice_key
from formats.wire.coding import encode_varint
from formats.wire.compression import compress
from formats.wire.sstable import BlockHandle, encode_block
from tests.support import (
    DATA,
    Entries,
    data_path,
    digest,
    manifest,
    recorded,
    shape_proto,
    slice_proto,
    stored_block,
    strings,
    table_of,
    table_tail,
    write_bundle,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from formats.model import CheckpointReader

# (checkpoint, its files), every bit of which is flipped in each run of the tests.
SMALL = [
    ("pairs/name_based", ["name_based.index", "name_based.data-00000-of-00001"]),
    ("state_files/two_prefixes/alpha-1", ["alpha-1.index", "alpha-1.data-00000-of-00001"]),
    ("max_shard_size/split", ["split.data-00000-of-00003"]),
    ("v1_format/sharded/model.ckpt-1", ["model.ckpt-1-00000-of-00002"]),
]
LARGEST = 64 << 10

Values = dict[str, tuple[str, tuple[int, ...], str]]


def values(reader: CheckpointReader) -> Values:
    """Return dtype, shape and hash of every tensor."""
    return {
        key: (spec.dtype.name, spec.shape, digest(reader[key].read())) for key, spec in reader.specs.items()
    }


def damages(data: bytes, bits: int = 8) -> Iterator[tuple[str, bytes]]:
    """Yield every truncation, and every byte with each of its lowest `bits` bits flipped."""
    for size in range(len(data)):
        yield f"cut to {size}", data[:size]
    for position in range(len(data)):
        for bit in range(bits):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            yield f"bit {bit} of byte {position}", bytes(flipped)


def copy_of(path: str, directory: Path) -> str:
    """Copy a checkpoint's files and return where it is now."""
    with open_checkpoint(data_path(path)) as reader:
        for file in reader.files():
            shutil.copy(file, directory)
    return str(directory / os.path.basename(path))


def try_all(prefix: str, file: str, truth: Values, bits: int) -> int:
    """Damage one file of a checkpoint in every way; return how often it was noticed."""
    with open(file, "rb") as opened:
        data = opened.read()
    noticed = 0
    for what, damaged in damages(data, bits):
        with open(file, "wb") as opened:
            opened.write(damaged)
        try:
            with open_checkpoint(prefix) as reader:
                found = values(reader)
        except CheckpointError:
            found = None
        if found is None:
            noticed += 1
        else:
            assert found == truth, what
    with open(file, "wb") as opened:
        opened.write(data)
    return noticed


@pytest.mark.parametrize(("path", "file"), [(path, file) for path, files in SMALL for file in files])
def test_every_truncation_and_flipped_bit(tmp_path: Path, path: str, file: str) -> None:
    prefix = copy_of(path, tmp_path)
    with open_checkpoint(prefix) as reader:
        truth = values(reader)
    size = os.path.getsize(tmp_path / file)
    assert 0 < size <= 4096
    # All but the zeros of a footer, and the metaindex block, which nobody reads.
    assert try_all(prefix, str(tmp_path / file), truth, bits=8) >= size + 8 * (size - 40 - 13)


@pytest.mark.parametrize(("path", "file"), [(path, file) for path, files in SMALL for file in files])
def test_verifying_what_is_damaged_never_fails_otherwise(tmp_path: Path, path: str, file: str) -> None:
    """Lenient opening, listing, kinds, verification: for each truncation and the lowest bit of each byte."""
    prefix = copy_of(path, tmp_path)
    with open(tmp_path / file, "rb") as opened:
        data = opened.read()
    for what, damaged in damages(data, bits=1):
        (tmp_path / file).write_bytes(damaged)
        try:
            with open_checkpoint(prefix, lenient=True) as reader:
                listed = list(reader.specs.values()), dict(reader.kinds), dict(reader.object_paths)
                found = [finding for step in reader.verify() for finding in step.findings] + reader.findings
        except CheckpointError:
            continue
        assert len(listed[0]) == len(listed[1]), what
        for finding in found:
            assert finding.severity in ("error", "warning"), what


def larger() -> list[tuple[str, str]]:
    """Return (checkpoint, file) of everything up to 64 KiB, the smallest of each folder."""
    found: dict[tuple[str, str], tuple[int, str, str]] = {}
    for entry in recorded("tf-v2-object", "tf-v2-name", "tf-v1"):
        for file, size in entry["files"].items():
            if 0 < size <= LARGEST and os.path.isfile(data_path(file)) and not file.endswith(".meta"):
                kind = (entry["fixture"], os.path.splitext(file)[1][:6])
                found[kind] = min(found.get(kind, (size, entry["path"], file)), (size, entry["path"], file))
    return [(path, os.path.basename(file)) for _, path, file in sorted(found.values())]


@pytest.mark.fuzz
@pytest.mark.parametrize(("path", "file"), larger())
def test_every_truncation_and_flipped_bit_of_larger_files(tmp_path: Path, path: str, file: str) -> None:
    prefix = copy_of(path, tmp_path)
    with open_checkpoint(prefix) as reader:
        truth = values(reader)
    assert try_all(
        prefix, str(tmp_path / file), truth, bits=8 if os.path.getsize(tmp_path / file) < 4096 else 1
    )


# Files that TensorFlow was shown ------------------------------------------------------

CORRUPT = [entry for entry in manifest()["corrupt"] if entry["kind"] == "tf"]


@pytest.mark.parametrize("entry", CORRUPT, ids=[entry["path"] for entry in CORRUPT])
def test_damaged_fixtures(entry: dict[str, Any]) -> None:
    """What is sound has no errors; what TensorFlow cannot read has one, raised or found."""
    path = data_path(entry["path"].replace("-?????-of-?????", ""))
    try:
        with open_checkpoint(path, lenient=True) as reader:
            errors = [
                finding
                for step in reader.verify()
                for finding in step.findings
                if finding.severity == "error"
            ]
            listed = len(reader)
    except CheckpointError as error:
        errors, listed = [error], 0
    if entry["what"] in ("an unharmed copy", "a cycle back to the root (legal)"):
        assert (errors, listed > 0) == ([], True)
    elif entry["verdict"] != "ok" and "graph_absent" not in entry["path"]:
        assert errors, entry["what"]


# Hostile files, in a process of bounded memory and time --------------------------------

CHILD = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
import numpy
import formats
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = []
for lenient in (False, True):
    try:
        with formats.open_checkpoint(sys.argv[1], lenient=lenient) as reader:
            listed = list(reader.specs.values()), dict(reader.kinds), dict(reader.object_paths)
            for key in reader:
                try:
                    reader[key].read()
                except formats.CheckpointError as error:
                    said.append(error.code)
            for step in reader.verify():
                said += [finding.code for finding in step.findings]
    except formats.CheckpointError as error:
        said.append(error.code)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"said": said, "grown": (after - before) << 10}))
"""


def size_of_an_exbibyte(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        entries[b"v"] = BundleEntryProto(dtype=4, shape=shape_proto((1 << 60,)), size=1 << 60)

    write_bundle(prefix, {}, edit=edit)


def shape_of_many_elements_in_one_slice(prefix: str) -> None:
    """The slice covers all of its tensor, and holds nothing."""

    def edit(entries: Entries) -> None:
        extents = ((0, 10**9), (0, 10**9))
        entries[b"v"] = BundleEntryProto(
            dtype=1, shape=shape_proto((10**9, 10**9)), slices=[slice_proto(extents)]
        )
        entries[slice_key(b"v", extents)] = BundleEntryProto(dtype=1, shape=shape_proto((1,)), size=4)

    write_bundle(prefix, {}, edit=edit)


def strings_of_many_elements_in_one_slice(prefix: str) -> None:
    def edit(entries: Entries) -> None:
        extents = ((0, 10**12),)
        entries[b"v"] = BundleEntryProto(dtype=7, shape=shape_proto((10**12,)), slices=[slice_proto(extents)])
        entries[slice_key(b"v", extents)] = BundleEntryProto(dtype=7, shape=shape_proto((1,)), size=4)

    write_bundle(prefix, {}, edit=edit)


def string_of_a_tebibyte(prefix: str) -> None:
    stored = strings([b"short"])
    data = encode_varint(1 << 40) + stored.data[1:]
    write_bundle(prefix, {"v": stored._replace(data=data)})


def many_shards(prefix: str) -> None:
    write_bundle(prefix, {"v": np.float32(1)}, header=BundleHeaderProto(num_shards=(1 << 31) - 1))


def huge_varints(prefix: str) -> None:
    huge = b"\xff" * 9 + b"\x01"
    block = b"\0\0\2\x08\1" + b"\0" + huge + huge + b"k" + bytes(4) + b"\1\0\0\0"
    _index(prefix, table_of([block]))


def keys_that_repeat_a_long_prefix(prefix: str) -> None:
    first = b"\0\0\2\x08\1" + b"\0" + encode_varint(1 << 16) + b"\0" + b"k" * (1 << 16)
    block = first + (encode_varint(1 << 16) + b"\1\0x") * 50_000 + bytes(4) + b"\1\0\0\0"
    _index(prefix, table_of([block]))


def snappy_block_of_a_tebibyte(prefix: str) -> None:
    _index(prefix, table_of([encode_varint(1 << 40) + b"\0a"], kinds=[1]))


def snappy_block_of_zeros(prefix: str) -> None:
    """Seven hundred thousand empty entries in 100 kB."""
    block = bytes(2 << 20) + bytes(4) + b"\1\0\0\0"
    _index(prefix, table_of([compress(block)], kinds=[1]))


def one_block_named_over_and_over(prefix: str) -> None:
    block = encode_block([(b"", b"\x08\1"), *((b"k%06d" % number, b"") for number in range(20_000))])
    index = [(b"l%06d" % number, BlockHandle(0, len(block))) for number in range(20_000)]
    _index(prefix, stored_block(block) + table_tail(len(block) + 5, index))


def chain_of_nodes(prefix: str) -> None:
    nodes = [
        TrackableObject(children=[ObjectReference(node_id=number + 1, local_name="x" * 50)])
        for number in range(20_000)
    ]
    graph = TrackableObjectGraph(nodes=[*nodes, TrackableObject()]).encode()
    write_bundle(prefix, {"_CHECKPOINTABLE_OBJECT_GRAPH": strings([graph], ()), "v": np.float32(1)})


def _index(prefix: str, data: bytes) -> None:
    with open(prefix + ".index", "wb") as file:
        file.write(data)


@pytest.mark.parametrize(
    "make",
    [
        size_of_an_exbibyte,
        shape_of_many_elements_in_one_slice,
        strings_of_many_elements_in_one_slice,
        string_of_a_tebibyte,
        many_shards,
        huge_varints,
        keys_that_repeat_a_long_prefix,
        snappy_block_of_a_tebibyte,
        snappy_block_of_zeros,
        one_block_named_over_and_over,
        chain_of_nodes,
    ],
)
def test_hostile_files_cost_little(tmp_path: Path, make: Callable[[str], None]) -> None:
    prefix = str(tmp_path / "hostile-1")
    make(prefix)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, prefix],
        cwd=os.path.dirname(os.path.dirname(DATA)),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["said"] or make is chain_of_nodes
    size = sum(entry.stat().st_size for entry in tmp_path.iterdir())
    assert told["grown"] <= size + (100 << 20), f"{told['grown'] >> 20} MiB for {size >> 10} KiB"
