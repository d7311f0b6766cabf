"""Collections of strings that the HDF5 library would follow into the woods."""

from __future__ import annotations

import struct

import h5py
import numpy as np
import pytest

import formats
from formats.h5.library.guard import GuardedFile


def collection(*objects: tuple[int, int], size: int = 4096, version: int = 1) -> bytes:
    """Return a collection whose objects have these indexes and lengths."""
    out = b"GCOL" + struct.pack("<BxxxQ", version, size)
    for index, length in objects:
        out += struct.pack("<HHIQ", index, 1, 0, length)
        out += bytes(min(length + 7 & ~7, size) if index else 0)
    return out[:size].ljust(size, b"\0")


def as_read(data: bytes) -> bytes:
    file = GuardedFile(lambda offset, size: data[offset : offset + size], len(data))
    buffer = bytearray(len(data))
    file.seek(0)
    assert file.readinto(buffer) == len(data)
    return bytes(buffer)


def test_a_sound_collection_passes():
    data = collection((1, 5), (2, 8), (0, 4096 - 16 - 24 - 24))
    assert as_read(data) == data
    full = collection((1, 4096 - 32))
    assert as_read(full) == full


@pytest.mark.parametrize(
    "data",
    [
        collection((1, 5)),  # free space of size 0: round for ever
        collection((1, 5000)),
        collection((1, 1 << 63), (0, 16)),
        collection((1, 5), (1, 5), (0, 4096 - 16 - 48)),
        collection((0, 8)),
        collection((1, 8))[:100],
    ],
)
def test_an_unsound_one_loses_its_signature(data):
    assert as_read(data) == bytes(4) + data[4:]


def test_a_file_with_an_unsound_collection_is_rejected_and_does_not_hang(tmp_path):
    path = tmp_path / "s.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = np.array(["d"], h5py.string_dtype())
        file.create_group("d").attrs["weight_names"] = np.array(["k"], h5py.string_dtype())
        file["d/k"] = np.zeros(3)
    with formats.open_checkpoint(str(path)) as reader:
        assert list(reader) == ["k"]
    data = bytearray(path.read_bytes())
    at = data.index(b"GCOL") + 16
    while struct.unpack_from("<H", data, at)[0]:
        at += 16 + (struct.unpack_from("<Q", data, at + 8)[0] + 7 & ~7)
    data[at + 8 : at + 16] = bytes(8)
    path.write_bytes(data)
    with pytest.raises(formats.CorruptCheckpointError, match="layer_names"):
        formats.open_checkpoint(str(path))


def test_lengths_of_four_bytes_are_read(tmp_path):
    path = str(tmp_path / "small.h5")
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plist.set_sizes(4, 4)
    with h5py.File(h5py.h5f.create(path.encode(), fcpl=plist)) as file:
        file.create_dataset("s", data=["one", "two"], dtype=h5py.string_dtype())
    with formats.open_checkpoint(path) as reader:
        assert reader["s"].read().tolist() == [b"one", b"two"]
