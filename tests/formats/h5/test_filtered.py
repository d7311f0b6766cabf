"""Chunks that go through filters: read as h5py reads them, once, within their size."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import h5py
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError, open_checkpoint
from formats.h5 import filtered, tensors
from tests import sampling
from tests.support import same

if TYPE_CHECKING:
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

ZIPPED = {"compression": "gzip"}
FILTERS = [
    ZIPPED,
    {**ZIPPED, "shuffle": True},
    {**ZIPPED, "fletcher32": True},
    {**ZIPPED, "shuffle": True, "fletcher32": True},
    {"fletcher32": True},
    {"shuffle": True},
    {"compression": "lzf", "shuffle": True},
]
DTYPES = ["f4", ">f4", "f8", ">f8", "f2", "i1", ">i4", "u8", "c8", "?", "S3", ml_dtypes.bfloat16]


def made(dtype: Any) -> np.ndarray[Any, Any]:
    values = np.arange(17 * 23).reshape(17, 23)
    return (values % 3 == 0) if dtype == "?" else values.astype(dtype)


@pytest.mark.parametrize("options", FILTERS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_filtered_chunks_read_as_h5py_reads_them(tmp_path: Path, options: dict, dtype: Any) -> None:
    path, array = tmp_path / "x.h5", made(dtype)
    stored = array.view("V2") if array.dtype == ml_dtypes.bfloat16 else array
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", data=stored, chunks=(5, 7), **options)
        if stored is not array:
            dataset.attrs["dtype"] = "bfloat16"
    expected = array.astype(object) if dtype == "S3" else array.astype(array.dtype.newbyteorder("="))
    with open_checkpoint(path) as reader:
        tensor = reader["x"]
        assert same(tensor.read(), expected)
        for index in (np.s_[0:3, 6:8], np.s_[4:17:6, 22:23], np.s_[::2, ::5], np.s_[3:3, :], np.s_[16, :]):
            assert same(tensor.read_slice(index), np.ascontiguousarray(expected[index]))
        if dtype != "S3":
            assert b"".join(map(bytes, tensor.chunks(16))) == expected.tobytes()
            region = (slice(2, 15, 3), slice(1, 23, 4))
            assert b"".join(map(bytes, tensor.region_chunks(region, 8))) == expected[region].tobytes()
        assert [step.findings for step in reader.verify() if step.findings] == []


def test_other_filters_around_and_inside_of_a_deflate(tmp_path: Path) -> None:
    array = np.arange(600).reshape(20, 30)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=(7, 30), scaleoffset=0, fletcher32=False, **ZIPPED)
    with open_checkpoint(tmp_path / "x.h5") as reader:
        assert same(reader["x"].read(), array)
        assert b"".join(map(bytes, reader["x"].chunks())) == array.tobytes()


def test_strings_in_compressed_chunks(tmp_path: Path) -> None:
    strings = [f"word {number}" for number in range(9000)]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=strings, chunks=(9000,), dtype=h5py.string_dtype(), **ZIPPED)
    with open_checkpoint(tmp_path / "x.h5") as reader:
        assert reader["x"].read().tolist() == [text.encode() for text in strings]


@pytest.mark.parametrize("fill", [None, 7.5])
def test_chunks_that_are_missing_are_fill_value(tmp_path: Path, fill: float | None) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", (100, 100), "f4", chunks=(10, 10), fillvalue=fill, **ZIPPED)
        dataset[33, 44] = 1
        expected = dataset[()]
        file.create_dataset("none", (1 << 20,), "f4", chunks=(1 << 20,), **ZIPPED)
    with open_checkpoint(tmp_path / "x.h5") as reader:
        assert same(reader["x"].read(), expected)
        assert same(reader["x"].read_slice(np.s_[30:40, 44]), np.ascontiguousarray(expected[30:40, 44]))
        assert not reader["none"].read_slice(np.s_[5:10]).any()


def test_a_filter_that_a_chunk_skips(tmp_path: Path) -> None:
    array = np.arange(8, dtype=np.float32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", (8,), "f4", chunks=(4,), shuffle=True, **ZIPPED)
        dataset.id.write_direct_chunk((0,), array[:4].tobytes(), filter_mask=3)
        dataset.id.write_direct_chunk((4,), zlib.compress(array[4:].tobytes()), filter_mask=1)
    with open_checkpoint(tmp_path / "x.h5") as reader:
        assert same(reader["x"].read(), array)


def of_raw_chunk(path: Path, count: int, data: bytes, deflates: int = 1, **more: Any) -> Path:
    """Make a file of one chunk of `count` float32, stored as these bytes."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((count,))
    for _ in range(deflates):
        plist.set_deflate(9)
    if more.get("fletcher32"):
        plist.set_fletcher32()
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple((count,))
        dataset = h5py.h5d.create(file.id, b"x", h5py.h5t.IEEE_F32LE, space, plist)
        dataset.write_direct_chunk((0,), data)
    return path


@functools.cache
def zeros(size: int) -> bytes:
    """Return a zlib stream of that many zeros: a megabyte of them, deflated once, over and over."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    megabyte = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    rest = packer.compress(bytes(size & 0xFFFFF)) + packer.flush()
    checksum = (size % 65_521) << 16 | 1  # Adler-32 of zeros
    return b"\x78\x01" + megabyte * (size >> 20) + rest + checksum.to_bytes(4, "big")


@pytest.mark.parametrize("size", [0, 1, 15, 17, 1 << 20, 8 << 20])
def test_a_chunk_of_more_or_fewer_bytes_than_it_has_is_damaged(tmp_path: Path, size: int) -> None:
    path = of_raw_chunk(tmp_path / "x.h5", 4, zeros(size))
    with open_checkpoint(path) as reader:
        for call in (reader["x"].read, lambda: list(reader["x"].chunks()), lambda: reader["x"].read_slice(0)):
            with pytest.raises(CorruptCheckpointError, match=r"inflates to more than 16|has .* bytes"):
                call()
        assert [finding.key for step in reader.verify() for finding in step.findings] == ["x"]


@pytest.mark.parametrize("size", range(1, 14, 3))
def test_a_stream_that_is_cut_off_is_damaged(tmp_path: Path, size: int) -> None:
    path = of_raw_chunk(tmp_path / "x.h5", 4, zlib.compress(np.arange(4, dtype="f4").tobytes())[:size])
    with open_checkpoint(path) as reader, pytest.raises(CheckpointError):
        reader["x"].read()


@pytest.mark.parametrize("options", [{**ZIPPED, "fletcher32": True}, {"fletcher32": True}], ids=str)
def test_a_fletcher32_checksum_is_compared_for_a_slice_too(tmp_path: Path, options: dict) -> None:
    path = tmp_path / "x.h5"
    array = np.arange(4000, dtype=np.float32)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=array, chunks=(1000,), **options)
        chunk = file["x"].id.get_chunk_info(2)
    data = path.read_bytes()
    for at in range(chunk.byte_offset, chunk.byte_offset + chunk.size, 13):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with open_checkpoint(path) as reader:
            assert same(reader["x"].read_slice(np.s_[:1500]), array[:1500])
            for call in (reader["x"].read, lambda: reader["x"].read_slice(2001)):
                with pytest.raises(CorruptCheckpointError):
                    call()


@given(st.binary(max_size=3000), st.integers(1, 400))
def test_fletcher32_is_that_of_the_library(data: bytes, times: int) -> None:
    words = data * times
    one = other = 0
    for at in range(0, len(words) // 2 * 2, 2):
        one = (one + (words[at] << 8 | words[at + 1])) % 65535
        other = (other + one) % 65535
    if len(words) % 2:
        one = (one + (words[-1] << 8)) % 65535
        other = (other + one) % 65535
    found = filtered.fletcher32(np.frombuffer(words, np.uint8))
    assert (found >> 16) % 65535 == other
    assert (found & 0xFFFF) % 65535 == one
    assert bool(found) == any(words)


def test_a_chunk_is_inflated_once_however_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=np.arange(1 << 20).reshape(1024, 1024), chunks=(100, 300), **ZIPPED)
    inflated: list[int] = []
    undo = filtered._inflated
    monkeypatch.setattr(filtered, "_inflated", lambda data, most: inflated.append(most) or undo(data, most))
    monkeypatch.setattr(tensors, "LARGEST_PIECE", 1 << 20)
    with open_checkpoint(tmp_path / "x.h5") as reader:
        for call in (
            reader["x"].read,
            lambda: list(reader["x"].chunks(5000)),
            lambda: list(reader["x"].region_chunks(np.s_[0:1024:7, 0:1024:1], 5000)),
            lambda: list(reader.verify()),
        ):
            inflated.clear()
            call()
            assert len(inflated) == 11 * 4


def test_a_row_of_chunks_that_is_too_large_is_read_in_parts_or_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(256 * 256, dtype=np.int32).reshape(256, 256) // 4096
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=(256, 4), **ZIPPED)
    monkeypatch.setattr(tensors, "_MOST_OF_STORED", 0)
    with open_checkpoint(tmp_path / "x.h5") as reader:
        monkeypatch.setattr(tensors, "LARGEST_CHUNK", 40_000)
        assert b"".join(map(bytes, reader["x"].chunks())) == array.tobytes()
        monkeypatch.setattr(tensors, "LARGEST_CHUNK", 10_000)
        with pytest.raises(UnsupportedFeatureError, match="chunks of 256 rows") as caught:
            list(reader["x"].chunks())
        assert "h5repack" in caught.value.hints[0]


# What they cost ---------------------------------------------------------------------


def twice(path: Path) -> Path:
    """1.6 GB in a single chunk of 4 KB."""
    return of_raw_chunk(path, 400_000_000, zlib.compress(zeros(1_600_000_000), 9), deflates=2)


def once(path: Path) -> Path:
    """400 MB of zeros in a single chunk of 400 KB."""
    return of_raw_chunk(path, 100_000_000, zeros(400_000_000))


def longer(path: Path) -> Path:
    """A chunk of 64 KiB that inflates to 1.6 GB; for a smaller one HDF5 before 2.0 writes no such length."""
    return of_raw_chunk(path, 1 << 14, zeros(1_600_000_000))


def longer_strings(path: Path) -> Path:
    """The same of strings, whose values the library reads."""
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("x", (4096,), h5py.string_dtype(), chunks=(4096,), **ZIPPED)
        dataset.id.write_direct_chunk((0,), zeros(1_600_000_000))
    return path


BOMBS = [twice, once, longer, longer_strings]
LINES = [
    ["show", "{}", "x[0:2]"],
    ["show", "{}", "x"],
    ["stats", "{}"],
    ["extract", "{}", "x", "-o", "+.npy"],
    ["convert", "{}", "+.npz"],
    ["diff", "{}", "{}", "--exact"],
    ["verify", "{}"],
    ["rescue", "{}", "+.npz"],
]
RUN = "import sys; from ckpt_cli.cli.main import main; main(sys.argv[1:])"


SECONDS = 30
"""Of the processor's time, which other programs take none of, that a line may take."""


def limited(line: list[str], most: int) -> subprocess.CompletedProcess[str]:
    def within() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    before = _seconds_of_children()
    ended = subprocess.run(  # noqa: PLW1510  the exit code is looked at; nothing else runs here
        [sys.executable, "-c", RUN, *line],
        capture_output=True,
        text=True,
        timeout=20 * SECONDS,  # where it waits for something
        preexec_fn=within,
        env={**os.environ, "PYTHONPATH": ROOT, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert _seconds_of_children() - before < SECONDS, line
    return ended


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("make", BOMBS)
def test_a_small_file_of_a_large_chunk_costs_little(tmp_path: Path, make: Any) -> None:
    """Of one file under two of the commands, of all files under all of them."""
    path = make(tmp_path / "x.h5")
    assert os.path.getsize(path) < 8_000_000
    for line in sampling.turn(LINES, 2, BOMBS.index(make)):
        words = [word.replace("{}", str(path)).replace("+", str(tmp_path / "new")) for word in line]
        ended = limited(words, 700 << 20)
        assert ended.returncode in (0, 1, 3), (words, ended.stderr)
        assert "Traceback" not in ended.stderr
        assert line[0] in ("verify", "rescue", "stats") or ended.returncode == 3, (words, ended.stdout)
        assert not os.path.exists(tmp_path / "new.npz")


@pytest.mark.parametrize("kind", ["zeros", "random"])
def test_a_large_chunk_of_a_well_meant_file_is_read(tmp_path: Path, kind: str) -> None:
    """40 MB in one chunk, as stored by a program that uses an array's own shape for its chunks."""
    dice = np.random.default_rng(3)
    array = np.zeros((1000, 10_000), np.float32)
    if kind == "random":
        array[:] = dice.integers(0, 1000, array.shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=array, chunks=array.shape, compression="gzip", compression_opts=1)
    with open_checkpoint(tmp_path / "x.h5") as reader:
        assert same(reader["x"].read(), array)
        assert same(reader["x"].read_slice(np.s_[500, :7]), array[500, :7].copy())
        assert b"".join(map(bytes, reader["x"].chunks())) == array.tobytes()
    ended = limited(["rescue", str(tmp_path / "x.h5"), str(tmp_path / "new")], 700 << 20)
    assert ended.returncode == 0, ended.stderr
    with open_checkpoint(tmp_path / "new") as reader:
        assert same(reader["x"].read(), array)
