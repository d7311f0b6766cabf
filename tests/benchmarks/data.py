"""Checkpoints large enough to be measured on, made without the program under test."""

from __future__ import annotations

import os

import numpy as np

from formats.tf.messages import BundleEntryProto, BundleHeaderProto, Dim, TensorShapeProto, VersionDef
from formats.wire.crc32c import extend, mask
from formats.wire.sstable import TableBuilder

FLOAT32 = 1


def _entry(shape: tuple[int, ...], offset: int, crc: int) -> bytes:
    size = 4
    for dim in shape:
        size *= dim
    proto = TensorShapeProto(dim=[Dim(size=dim) for dim in shape])
    return BundleEntryProto(dtype=FLOAT32, shape=proto, offset=offset, size=size, crc32c=mask(crc)).encode()


def _write_index(prefix: str, entries: dict[bytes, bytes]) -> None:
    with open(prefix + ".index", "wb") as file:
        builder = TableBuilder(file.write)
        builder.add(b"", BundleHeaderProto(num_shards=1, version=VersionDef(producer=1)).encode())
        for key in sorted(entries):
            builder.add(key, entries[key])
        builder.finish()


def large_bundle(prefix: str, tensors: int, nbytes: int) -> str:
    """Write a name-based bundle of `tensors` float32 tensors, `nbytes` in all, and return its prefix."""
    piece = np.random.default_rng(0).normal(0, 0.02, 1 << 18).astype(np.float32).tobytes()
    pieces = nbytes // tensors >> 20
    crc = 0
    for _ in range(pieces):
        crc = extend(crc, piece)
    entries = {}
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        for number in range(tensors):
            entries[b"layer_%04d/kernel" % number] = _entry((pieces << 8, 1024), file.tell(), crc)
            for _ in range(pieces):
                file.write(piece)
    _write_index(prefix, entries)
    return prefix


def many_tensors(prefix: str, tensors: int) -> str:
    """Write a bundle of small tensors and return its prefix."""
    body = bytes(24)
    crc = extend(0, body)
    entries = {}
    for number in range(tensors):
        key = b"model/layer_%d/block_%d/attention/self/query/kernel" % divmod(number, 100)
        entries[key] = _entry((2, 3), 24 * number, crc)
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.write(body * tensors)
    _write_index(prefix, entries)
    return prefix


def bytes_of(prefix: str) -> int:
    return os.stat(f"{prefix}.data-00000-of-00001").st_size
