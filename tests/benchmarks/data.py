"""Checkpoints large enough to be measured on, made without the program under test."""

from __future__ import annotations

import os
import shutil

import numpy as np

from formats.wire.crc32c import extend, mask
from formats.wire.joining import CRC32C, joined
from formats.wire.messages import BundleEntryProto, BundleHeaderProto, Dim, TensorShapeProto, VersionDef
from formats.wire.sstable import TableBuilder

FLOAT32 = 1


def _entry(shape: tuple[int, ...], offset: int, crc: int, shard: int = 0) -> bytes:
    size = 4
    for dim in shape:
        size *= dim
    proto = TensorShapeProto(dim=[Dim(size=dim) for dim in shape])
    return BundleEntryProto(
        dtype=FLOAT32, shape=proto, shard_id=shard, offset=offset, size=size, crc32c=mask(crc)
    ).encode()


def _write_index(prefix: str, entries: dict[bytes, bytes], shards: int = 1) -> None:
    with open(prefix + ".index", "wb") as file:
        builder = TableBuilder(file.write)
        builder.add(b"", BundleHeaderProto(num_shards=shards, version=VersionDef(producer=1)).encode())
        for key in sorted(entries):
            builder.add(key, entries[key])
        builder.finish()


def large_bundle(prefix: str, tensors: int, nbytes: int, seed: int = 0) -> str:
    """Write a name-based bundle of `tensors` float32 tensors, `nbytes` in all, and return its prefix."""
    piece = np.random.default_rng(seed).normal(0, 0.02, 1 << 18).astype(np.float32).tobytes()
    pieces = max(1, nbytes // tensors >> 20)
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


def one_tensor(prefix: str, nbytes: int) -> str:
    """Write a bundle of one tensor of zeros, `huge`, whose shard is a hole of `nbytes`; return its prefix."""
    nbytes -= nbytes % 4096
    crc, size, left = extend(0, bytes(4096)), 4096, nbytes // 4096
    total = 0
    while left:  # a checksum of twice as many zeros is made of two of these
        if left & 1:
            total = joined(CRC32C, total, crc, size) if total else crc
        crc, size, left = joined(CRC32C, crc, crc, size), 2 * size, left >> 1
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.truncate(nbytes)
    _write_index(prefix, {b"huge": _entry((nbytes // 4096, 1024), 0, total)})
    return prefix


def long_index(prefix: str, nbytes: int) -> str:
    """Write a bundle whose index has `nbytes` and some more, of long keys, and return its prefix."""
    body = bytes(24)
    keys = (b"%08d/" % number + b"k" * 900 for number in range(-(-nbytes // 900)))
    _write_index(prefix, dict.fromkeys(keys, _entry((2, 3), 0, extend(0, body))))
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.write(body)
    return prefix


def many_shapes(prefix: str, tensors: int) -> str:
    """Write a bundle of empty tensors, each of a shape of its own of 31 dimensions; return its prefix."""
    entries, checksum = {}, b"\x35" + mask(extend(0, b"")).to_bytes(4, "little")
    for number in range(tensors):
        ones_and_twos = (b"\x12\x02\x08" + bytes(((number >> bit & 1) + 1,)) for bit in range(30))
        shape = b"\x12\0" + b"".join(ones_and_twos)  # a Dim that is empty is one of 0
        entries[b"layer_%08d/kernel" % number] = b"\x08\x01\x12" + bytes((len(shape),)) + shape + checksum
    _write_index(prefix, entries)
    with open(f"{prefix}.data-00000-of-00001", "wb"):
        pass
    return prefix


def run_directory(directory: str, checkpoints: int) -> str:
    """Write a run of small checkpoints and its state file, and return its path."""
    os.mkdir(directory)
    many_tensors(os.path.join(directory, "ckpt-0"), 3)
    for step in range(1, checkpoints):
        for suffix in (".index", ".data-00000-of-00001"):
            shutil.copyfile(f"{directory}/ckpt-0{suffix}", f"{directory}/ckpt-{step}{suffix}")
    listed = "".join(f'all_model_checkpoint_paths: "ckpt-{step}"\n' for step in range(checkpoints))
    with open(os.path.join(directory, "checkpoint"), "w", encoding="ascii") as file:
        file.write(f'model_checkpoint_path: "ckpt-{checkpoints - 1}"\n{listed}')
    return directory


def sparse_bundle(prefix: str, tensors: int, nbytes: int) -> str:
    """Write a bundle whose shard is a hole of `nbytes`, and return its prefix."""
    rows = nbytes // tensors // 4096
    entries = {
        b"layer_%04d/kernel" % number: _entry((rows, 1024), number * rows * 4096, 0)
        for number in range(tensors)
    }
    with open(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.truncate(tensors * rows * 4096)
    _write_index(prefix, entries)
    return prefix


def sharded_bundle(prefix: str, shards: int, tensors: int) -> str:
    """Write small tensors in many shards, in turn, and return the prefix."""
    body = bytes(24)
    crc = extend(0, body)
    entries = {
        b"model/layer_%05d/kernel" % number: _entry((2, 3), number // shards * 24, crc, number % shards)
        for number in range(tensors)
    }
    for shard in range(shards):
        with open(f"{prefix}.data-{shard:05d}-of-{shards:05d}", "wb") as file:
            file.write(body * (-(-tensors // shards)))
    _write_index(prefix, entries, shards)
    return prefix


def large_h5(path: str, tensors: int, nbytes: int, seed: int = 0) -> str:
    """Write a Keras weights file with the keys of `large_bundle`, and return its path."""
    import h5py

    names = [f"layer_{number:04d}" for number in range(tensors)]
    value = np.random.default_rng(seed).normal(0, 0.02, (max(1, nbytes // tensors >> 20) << 8, 1024))
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [name.encode() for name in names]
        file.attrs["keras_version"], file.attrs["backend"] = b"2.15.0", b"tensorflow"
        for name in names:
            layer = file.create_group(name)
            layer.attrs["weight_names"] = [f"{name}/kernel:0".encode()]
            layer[f"{name}/kernel:0"] = value.astype(np.float32)
    return path
