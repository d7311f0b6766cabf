"""Shared by the tests: the checkpoints of tests/data, their expected content, and bundles made by hand.

A hand-made bundle is laid out by `write_bundle`, which writes what TensorFlow would write;
`edit` changes the decoded entries before they go to the index, and `write_table` writes
tables that no builder would write.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formats.core import dtypes
from formats.tf.bundle import payload
from formats.tf.bundle.slices import extents_of, slice_key
from formats.wire.crc32c import mask, masked_crc32c
from formats.wire.messages import (
    BundleEntryProto,
    BundleHeaderProto,
    Dim,
    Extent,
    TensorShapeProto,
    TensorSliceProto,
    VersionDef,
)
from formats.wire.sstable import MAGIC, BlockHandle, TableBuilder, encode_block

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from formats import LazyTensor
    from formats.core.region import Extents

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

FORMAT_IDS = {
    "tf-v2-object": "tf-object",
    "tf-v2-name": "tf-name",
    "tf-v1": "tf-v1",
    "h5-keras2-weights": "keras-h5",
    "h5-keras2-model": "keras-h5",
    "h5-keras3-weights": "keras-weights",
    "keras3-zip": "keras",
    "npz": "npz",
    "safetensors": "safetensors",
    "orbax": "orbax",
}
"""The manifest's names of formats, and ours."""

BUNDLES = ("tf-v2-object", "tf-v2-name")


def data_path(*parts: str) -> str:
    """Return the path of something in tests/data."""
    return os.path.join(DATA, *parts)


@cache
def manifest() -> dict[str, Any]:
    with open(data_path("manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def recorded(*formats: str) -> list[dict[str, Any]]:
    """Return the manifest's checkpoints of these formats (its own names)."""
    return [entry for entry in manifest()["checkpoints"] if entry["format"] in formats]


def recorded_at(path: str) -> dict[str, Any]:
    (found,) = (entry for entry in manifest()["checkpoints"] if entry["path"] == path)
    return found


def facts(fixture: str) -> dict[str, Any]:
    with open(data_path(fixture, "facts.json"), encoding="utf-8") as file:
        return json.load(file)


def digest(array: np.ndarray[Any, Any]) -> str:
    """Return the hash the manifest holds of a tensor (its field `hashes`)."""
    found = hashlib.sha256()
    if array.dtype == object:
        for element in array.reshape(-1):
            found.update(struct.pack("<Q", len(element)) + element)
    else:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def same(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays agree in dtype, shape and every byte, so that NaN equals NaN."""
    if (left.dtype, left.shape) != (right.dtype, right.shape):
        return False
    if left.dtype == object:
        return left.tolist() == right.tolist()
    return np.ascontiguousarray(left).tobytes() == np.ascontiguousarray(right).tobytes()


def reads_alike(tensor: LazyTensor) -> np.ndarray[Any, Any]:
    """Return a tensor after checking that parts of it read as the whole says."""
    whole = tensor.read()
    assert whole.shape == tensor.spec.shape
    assert whole.flags.writeable
    assert whole.flags.owndata or whole.base is None
    for index in sample_indexes(tensor.spec.shape):
        assert same(tensor.read_slice(index), whole[(*index, ...)]), index  # the dots keep rank 0 an array
    return whole


def sample_indexes(shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Return a few slice reads of a shape: everything, nothing, the middle, every other, the last."""
    choices: list[Callable[[int], slice]] = [
        lambda dim: slice(0, dim, 1),
        lambda dim: slice(0, 0, 1),
        lambda dim: slice(dim // 3, dim - dim // 4, 1),
        lambda dim: slice(min(1, dim), dim, 2),
        lambda dim: slice(max(0, dim - 1), dim, 1),
    ]
    return [tuple(choose(dim) for dim in shape) for choose in choices]


# Tables and bundles made by hand -------------------------------------------------


def stored_block(block: bytes, kind: int = 0) -> bytes:
    """Return a block with its trailer."""
    return block + bytes((kind,)) + struct.pack("<I", masked_crc32c(block + bytes((kind,))))


def table_of(
    blocks: Sequence[bytes],
    *,
    kinds: Sequence[int] | None = None,
    index: Sequence[tuple[bytes, BlockHandle]] | None = None,
) -> bytes:
    """Return a table of these very data blocks, indexed in this order unless `index` says otherwise."""
    out = bytearray()
    handles = []
    for number, block in enumerate(blocks):
        handles.append((b"\xff%08d" % number, BlockHandle(len(out), len(block))))
        out += stored_block(block, kinds[number] if kinds else 0)
    return bytes(out) + table_tail(len(out), handles if index is None else index)


def table_tail(offset: int, index: Sequence[tuple[bytes, BlockHandle]]) -> bytes:
    """Return what follows a table's data blocks, which end at `offset`."""
    empty = encode_block([])
    block = encode_block([(key, handle.encode()) for key, handle in index], 1)
    metaindex = BlockHandle(offset, len(empty))
    footer = metaindex.encode() + BlockHandle(offset + len(empty) + 5, len(block)).encode()
    return stored_block(empty) + stored_block(block) + footer.ljust(40, b"\0") + MAGIC


def write_table(path: str, entries: Sequence[tuple[bytes, bytes]], **options: Any) -> None:
    """Write a table; in the order given if that is not ascending, which the builder rejects."""
    keys = [key for key, _ in entries]
    with open(path, "wb") as file:
        if keys != sorted(set(keys)):
            file.write(table_of([encode_block(list(entries))]))
            return
        builder = TableBuilder(file.write, **options)
        for key, value in entries:
            builder.add(key, value)
        builder.finish()


class Stored(NamedTuple):
    """A tensor's bytes as stored in a shard, and the content of its entry."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    crc32c: int
    shard: int = 0
    slices: tuple[tuple[Extents, Stored], ...] = ()


def numbers(array: Any, *, dtype: str | None = None, big_endian: bool = False, shard: int = 0) -> Stored:
    array = np.asarray(array)
    name = dtype or dtypes.from_numpy(array.dtype).name
    data = array.byteswap().tobytes() if big_endian else array.tobytes()
    return Stored(name, array.shape, data, masked_crc32c(data), shard)


def strings(values: Sequence[bytes], shape: tuple[int, ...] | None = None, shard: int = 0) -> Stored:
    data, crc = payload.encode_strings(values)
    return Stored("string", (len(values),) if shape is None else shape, data, mask(crc), shard)


def variants(values: Sequence[bytes], shape: tuple[int, ...] | None = None) -> Stored:
    data, crc = payload.encode_variants(values)
    return Stored("variant", (len(values),) if shape is None else shape, data, mask(crc))


def partitioned(
    array: np.ndarray[Any, Any], pieces: Sequence[Extents], shards: Sequence[int] | None = None
) -> Stored:
    """Return a tensor stored in slices; an extent of length -1 is the whole dimension."""
    slices = []
    for number, extents in enumerate(pieces):
        region = tuple(slice(start, None if length < 0 else start + length) for start, length in extents)
        piece = np.ascontiguousarray(array[region])
        slices.append((extents, numbers(piece, shard=shards[number] if shards else 0)))
    name = dtypes.from_numpy(array.dtype).name
    return Stored(name, array.shape, b"", 0, 0, tuple(slices))


def shape_proto(shape: Sequence[int]) -> TensorShapeProto:
    return TensorShapeProto(dim=[Dim(size=size) for size in shape])


def slice_proto(extents: Extents) -> TensorSliceProto:
    spelled = [Extent() if length < 0 else Extent(start=start, length=length) for start, length in extents]
    return TensorSliceProto(extent=spelled)


HEADER = BundleHeaderProto(num_shards=1, version=VersionDef(producer=1))

Entries = dict[bytes, "BundleEntryProto | bytes"]


def write_bundle(
    prefix: str,
    tensors: Mapping[str | bytes, Any],
    *,
    header: BundleHeaderProto | bytes | None = HEADER,
    edit: Callable[[Entries], None] | None = None,
    num_shards: int = 1,
    **table: Any,
) -> Entries:
    """Write a bundle of arrays and `Stored` tensors, in the order given, and return its entries.

    `edit` may change, add and remove entries before they are written; `header=None` leaves it out. All other
    arguments go to the TableBuilder.
    """
    shards = [bytearray() for _ in range(num_shards)]
    entries: Entries = {}

    def place(key: bytes, stored: Stored) -> None:
        entry = BundleEntryProto(dtype=dtypes.BY_NAME[stored.dtype].number, shape=shape_proto(stored.shape))
        entries[key] = entry
        if stored.slices:
            entry.slices = [slice_proto(extents) for extents, _ in stored.slices]
            for proto, (_, piece) in zip(entry.slices, stored.slices, strict=True):
                place(slice_key(key, extents_of(proto)), piece)
            return
        entry.shard_id, entry.offset, entry.size = stored.shard, len(shards[stored.shard]), len(stored.data)
        entry.crc32c = stored.crc32c
        shards[stored.shard].extend(stored.data)

    for name, value in tensors.items():
        key = name if isinstance(name, bytes) else name.encode()
        place(key, value if isinstance(value, Stored) else numbers(value))
    if edit is not None:
        edit(entries)
    if header is HEADER and num_shards != 1:
        header = BundleHeaderProto(num_shards=num_shards, version=VersionDef(producer=1))
    rows = [
        (key, value if isinstance(value, bytes) else value.encode()) for key, value in sorted(entries.items())
    ]
    if header is not None:
        rows.insert(0, (b"", header if isinstance(header, bytes) else header.encode()))
    write_table(prefix + ".index", rows, **table)
    for number, data in enumerate(shards):
        with open(f"{prefix}.data-{number:05d}-of-{num_shards:05d}", "wb") as file:
            file.write(data)
    return entries


def shard_path(prefix: str, shard: int = 0, num_shards: int = 1) -> str:
    return f"{prefix}.data-{shard:05d}-of-{num_shards:05d}"


def open_bytes_as(dtype: dtypes.DType, data: bytes) -> np.ndarray[Any, Any]:
    """Return one element of `dtype` from its bytes."""
    return np.frombuffer(data, dtype.numpy).reshape(())
