"""A part of a tensor is checked as the whole is: one flipped bit anywhere in it, and no part is returned."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import ChecksumError, CorruptCheckpointError, open_checkpoint
from formats.core.region import full_index
from formats.wire.messages import BundleHeaderProto, VersionDef
from tests.support import numbers, partitioned, shard_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from formats import LazyTensor

BIG_ENDIAN = BundleHeaderProto(num_shards=1, endianness=1, version=VersionDef(producer=1))
VALUES = np.arange(600, dtype=np.float32).reshape(20, 30)


def of_bundle(directory: Path) -> tuple[str, str]:
    prefix = str(directory / "ck")
    write_bundle(prefix, {"w": VALUES})
    return prefix, shard_path(prefix)


def of_big_endian_bundle(directory: Path) -> tuple[str, str]:
    prefix = str(directory / "ck")
    write_bundle(prefix, {"w": numbers(VALUES, big_endian=True)}, header=BIG_ENDIAN)
    return prefix, shard_path(prefix)


def of_npz(directory: Path) -> tuple[str, str]:
    path = str(directory / "w.npz")
    np.savez(path, w=VALUES)
    return path, path


def of_deflated_npz(directory: Path) -> tuple[str, str]:
    path = str(directory / "w.npz")
    np.savez_compressed(path, w=VALUES)
    return path, path


def of_turned_npz(directory: Path) -> tuple[str, str]:
    path = str(directory / "w.npz")
    np.savez(path, w=np.asfortranarray(VALUES))
    return path, path


FILES = [of_bundle, of_big_endian_bundle, of_npz, of_deflated_npz, of_turned_npz]


def flip(path: str, value: bytes) -> None:
    """Flip the lowest bit of the one place where a file has these bytes."""
    with open(path, "r+b") as file:
        data = file.read()
        assert data.count(value) == 1
        file.seek(data.index(value))
        file.write(bytes([value[0] ^ 1]))


def parts_of(tensor: LazyTensor) -> list[Callable[[], Any]]:
    """Return the ways to read parts that hold the first elements, that do not, and that hold all."""
    regions = [
        (slice(0, 1, 1), slice(0, 3, 1)),
        (slice(10, 20, 3), slice(0, 30, 7)),
        (slice(19, 20, 1), slice(29, 30, 1)),
        full_index(tensor.spec.shape),
    ]
    calls: list[Callable[[], Any]] = [lambda: tensor.read_slice(0), lambda: tensor.read_slice((..., -1))]
    for region in regions:
        calls.append(lambda region=region: tensor.read_region(region))
        calls.append(lambda region=region: list(tensor.region_chunks(region, 16)))
    return calls


@pytest.mark.parametrize("make", FILES)
def test_no_part_of_a_tensor_with_a_flipped_bit_is_returned(
    tmp_path: Path, make: Callable[[Path], tuple[str, str]]
) -> None:
    path, file = make(tmp_path)
    with open_checkpoint(path) as reader:
        assert [call() for call in parts_of(reader["w"])]
    with open(file, "r+b") as opened:
        data = opened.read()
        at = data.rindex(b"PK\1\2") - 300 if path.endswith(".npz") else len(data) // 2
        opened.seek(at)
        opened.write(bytes([data[at] ^ 1]))
    with open_checkpoint(path) as reader:
        for call in parts_of(reader["w"]):
            with pytest.raises(CorruptCheckpointError):
                call()


@pytest.mark.parametrize("make", FILES)
@pytest.mark.parametrize("max_bytes", [4, 100, 1 << 20])
def test_the_chunks_of_a_region_are_its_bytes(
    tmp_path: Path, make: Callable[[Path], tuple[str, str]], max_bytes: int
) -> None:
    path, _ = make(tmp_path)
    with open_checkpoint(path) as reader:
        for region in (np.s_[3:17:5, 2:30:9], np.s_[0:20:1, 29:30:1], np.s_[5:5:1, 0:30:1]):
            chunks = [bytes(chunk) for chunk in reader["w"].region_chunks(region, max_bytes)]
            assert b"".join(chunks) == VALUES[region].tobytes()
            assert max(map(len, chunks), default=0) <= max_bytes


def test_of_a_partitioned_tensor_the_pieces_that_are_needed_are_checked(tmp_path: Path) -> None:
    prefix = str(tmp_path / "ck")
    write_bundle(prefix, {"w": partitioned(VALUES, [((0, 10), (0, -1)), ((10, 10), (0, -1))])})
    flip(shard_path(prefix), VALUES[12, 5].tobytes())
    with open_checkpoint(prefix) as reader:
        assert reader["w"].read_slice(np.s_[2:4, :]).tolist() == VALUES[2:4].tolist()
        for index in (np.s_[10, 0], np.s_[9:11, 29], np.s_[19, :], np.s_[:, 0]):
            with pytest.raises(ChecksumError) as caught:
                reader["w"].read_slice(index)
            assert caught.value.key == "w"


WITHIN = """
import resource, sys, formats
with formats.open_checkpoint(sys.argv[1]) as reader:
    tensor = reader["w"]
    tensor.read_slice((0, slice(None, 3)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert tensor.read_slice((slice(-3, None), 7)).tolist() == [7, 7, 7]
    assert sum(map(len, tensor.region_chunks((slice(0, 256, 1), slice(1, 65536, 1))))) == 256 * 65535 * 4
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("format", ["tf-name", "npz"])
def test_a_slice_takes_no_more_memory_than_it_has(tmp_path: Path, format: str) -> None:  # noqa: A002
    values = np.tile(np.arange(65536, dtype=np.float32), (256, 1))
    path = str(tmp_path / ("w.npz" if format == "npz" else "ck"))
    if format == "npz":
        np.savez(path, w=values)
    else:
        write_bundle(path, {"w": values})
    done = subprocess.run(
        [sys.executable, "-c", WITHIN, path], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) < 16
