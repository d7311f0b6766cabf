"""Tensors in chunks: the same values as whole, in bounded pieces, checked at the end."""

from __future__ import annotations

import contextlib
import math
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import formats
from formats import ChecksumError, open_checkpoint
from formats.core.chunks import ChunkSource, array_chunks, chunks_of
from formats.core.dtypes import BY_NAME
from formats.core.region import tiling_flaw
from formats.core.spec import TensorSpec
from formats.tf.bundle.tiling import gather, most_at_once, scatter
from formats.wire.crc32c import masked_crc32c
from formats.wire.messages import BundleHeaderProto, VersionDef
from tests.support import (
    BUNDLES,
    HEADER,
    data_path,
    manifest,
    numbers,
    partitioned,
    recorded,
    shard_path,
    strings,
    write_bundle,
)
from tests.writing import spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from formats import LazyTensor
    from formats.store.ranges import FileRange

GOLDENS = [golden["path"] for golden in recorded(*BUNDLES, "tf-v1")]


def joined(tensor: LazyTensor, max_bytes: int) -> Any:
    """Return what the chunks of a tensor hold, after checking that none is too large."""
    chunks = list(tensor.chunks(max_bytes))
    itemsize = tensor.spec.dtype.itemsize
    if itemsize is None:
        return [bytes(chunk) for chunk in chunks]
    assert all(0 < len(chunk) <= max(max_bytes, itemsize) for chunk in chunks)
    return b"".join(bytes(chunk) for chunk in chunks)


@pytest.mark.parametrize("path", GOLDENS)
def test_chunks_of_every_fixture_are_what_reading_returns(path: str) -> None:
    with open_checkpoint(data_path(path)) as reader:
        for key in reader:
            tensor = reader[key]
            if sum(math.prod(piece.spec.shape) for _, piece in tensor.pieces()) not in (0, tensor.spec.size):
                continue  # The slot of one part of a variable: its other slices are another tensor's.
            whole = tensor.read()
            expected = whole.reshape(-1).tolist() if tensor.spec.dtype.itemsize is None else whole.tobytes()
            for max_bytes in (1, 20, 1 << 20):
                assert joined(tensor, max_bytes) == expected, key


def read_there(found: FileRange) -> bytes:
    return found.read(0, found.size, np.empty(found.size, np.uint8)).tobytes()


READABLE = [golden["path"] for golden in manifest()["checkpoints"]]


@pytest.mark.parametrize("path", READABLE)
def test_what_is_in_a_file_just_as_it_is_can_be_read_there(path: str) -> None:
    """By a range of the file, that is, instead of by the format's own reader."""
    with open_checkpoint(data_path(path)) as reader:
        for key in reader:
            tensor = reader[key]
            if tensor.has_values and (found := tensor.file_range()) is not None:
                assert read_there(found) == b"".join(bytes(chunk) for chunk in tensor.chunks()), key
                assert found.crc32c == tensor.stored.crc32c


def test_numbers_in_hdf5_are_found_in_the_file_where_they_can_be(tmp_path: Path) -> None:
    import h5py

    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    kinds = {
        "float32": values,
        "int64": values.astype(np.int64),
        "half": values.astype(np.float16),
        "big_endian": values.astype(">f4"),
        "bool": values > 3,
        "complex": values.astype(np.complex64),
        "empty": values[:0],
    }
    with h5py.File(tmp_path / "t.h5", "w", userblock_size=512) as file:
        for name, value in kinds.items():
            file[name] = value
        file.create_dataset("chunked", data=values, chunks=(1, 4), compression="gzip")
        file.create_dataset("unwritten", shape=(3, 4), dtype=np.float32)
    with open_checkpoint(tmp_path / "t.h5") as reader:
        found = {key: reader[key].file_range() for key in reader}
        there = {key for key, place in found.items() if place is not None}
        assert {"float32", "int64", "half"} <= there
        assert not {"big_endian", "bool", "chunked", "unwritten"} & there
        for key in there:
            assert read_there(found[key]) == reader[key].read().tobytes()


@pytest.mark.parametrize(
    "path", ["shards/merged", "max_shard_size/split", "v1_format/partitioned/model.ckpt-1"]
)
def test_pieces_of_a_partitioned_tensor_are_its_slices(path: str) -> None:
    with open_checkpoint(data_path(path)) as reader:
        seen = 0
        for key in reader:
            whole = reader[key].read()
            for extents, piece in reader[key].pieces():
                index = tuple(
                    slice(start, None if length < 0 else start + length) for start, length in extents
                )
                assert piece.read().tobytes() == np.ascontiguousarray(whole[index]).tobytes()
                assert joined(piece, 8) == piece.read().tobytes()
                seen += 1
        assert seen >= 2


def test_wrong_checksum_is_raised_when_the_last_chunk_has_passed(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    write_bundle(prefix, {"v": np.arange(8, dtype=np.int64), "s": strings([b"ab", b"cd"])})
    with open(shard_path(prefix), "r+b") as file:
        file.write(b"\x01")
    with open_checkpoint(prefix) as reader:
        seen = []
        with pytest.raises(ChecksumError, match="checksum 0x"):
            seen.extend(reader["v"].chunks(24))
        assert [len(chunk) for chunk in seen] == [24, 24, 16]
        assert list(reader["s"].chunks()) == [b"ab", b"cd"]


def test_wrong_checksum_of_a_piece_is_raised(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    write_bundle(prefix, {"v": partitioned(array, [((0, -1), (0, 2)), ((0, -1), (2, 2))])})
    with open_checkpoint(prefix) as reader:
        assert joined(reader["v"], 8) == array.tobytes()
    with open(shard_path(prefix), "r+b") as file:
        file.seek(30)
        file.write(b"\x01")
    with open_checkpoint(prefix) as reader, pytest.raises(ChecksumError, match="checksum 0x"):
        joined(reader["v"], 8)


def test_slices_with_a_gap_have_no_chunks(tmp_path: Path) -> None:
    prefix = str(tmp_path / "c")
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    write_bundle(prefix, {"v": partitioned(array, [((0, 1), (0, -1)), ((2, 1), (0, -1))])})
    with (
        open_checkpoint(prefix) as reader,
        pytest.raises(formats.CorruptCheckpointError, match="8 of its 12"),
    ):
        joined(reader["v"], 8)


@pytest.mark.parametrize(
    "array", [np.arange(5, dtype=np.int16), np.array([1 + 2j, 3 - 1j], np.complex64), np.array([True, False])]
)
def test_chunks_of_a_big_endian_bundle_are_little_endian(array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    header = BundleHeaderProto(num_shards=1, endianness=1, version=VersionDef(producer=1))
    assert header != HEADER
    swapped = array.view(np.float32).byteswap() if array.dtype.kind == "c" else array.byteswap()
    stored = numbers(array)._replace(data=swapped.tobytes())
    stored = stored._replace(crc32c=masked_crc32c(stored.data))
    write_bundle(str(tmp_path / "c"), {"v": stored}, header=header)
    with open_checkpoint(str(tmp_path / "c")) as reader:
        assert joined(reader["v"], 8) == array.tobytes()


# Cutting and joining --------------------------------------------------------------


@st.composite
def tilings(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[tuple[int, int], ...]]]:
    """Draw a shape and regions that cover it once: cut in two along some dimension, over and over."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    regions = [tuple((0, dim) for dim in shape)]
    for _ in range(draw(st.integers(0, 6))):
        region = regions.pop(draw(st.integers(0, len(regions) - 1)))
        d = draw(st.integers(0, len(shape) - 1))
        start, stop = region[d]
        at = draw(st.integers(start, stop))
        regions += [(*region[:d], (start, at), *region[d + 1 :]), (*region[:d], (at, stop), *region[d + 1 :])]
    return shape, draw(st.permutations(regions))


def part(array: np.ndarray[Any, Any], region: tuple[tuple[int, int], ...]) -> bytes:
    return np.ascontiguousarray(array[tuple(slice(*sides) for sides in region)]).tobytes()


@given(tilings(), st.sampled_from([1, 2, 8, 16]), st.integers(1, 200))
def test_cutting_and_joining_are_each_others_inverse(
    tiling: tuple[tuple[int, ...], list[tuple[tuple[int, int], ...]]], itemsize: int, max_bytes: int
) -> None:
    shape, regions = tiling
    assert tiling_flaw(regions, shape) is None
    rng = np.random.default_rng(0)
    array = (
        rng.integers(0, 256, (*shape, itemsize), np.uint8).view(np.dtype((np.void, itemsize))).reshape(shape)
    )
    source = ChunkSource(array_chunks(array, 7 * itemsize))
    pieces = [bytearray() for _ in regions]
    for number, data in scatter(shape, regions, itemsize, source.take, max_bytes):
        pieces[number] += memoryview(data)
    assert [bytes(piece) for piece in pieces] == [part(array, region) for region in regions]
    sources = [ChunkSource(iter([bytes(piece)])) for piece in pieces]
    chunks = list(gather(shape, regions, itemsize, lambda n, size: sources[n].take(size), max_bytes))
    assert b"".join(bytes(chunk) for chunk in chunks) == array.tobytes()
    assert all(len(chunk) <= max(max_bytes, itemsize) for chunk in chunks)
    assert 1 <= most_at_once(regions) <= len(regions)


@given(st.lists(st.binary(max_size=9)), st.data())
def test_a_source_hands_out_every_byte_once(chunks: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(chunks)
    source, taken = ChunkSource(iter(chunks)), b""
    while len(taken) < len(whole):
        taken += bytes(source.take(data.draw(st.integers(0, len(whole) - len(taken)))))
    assert taken == whole
    source.finish()


# What writers take -----------------------------------------------------------------


def given_as(spec: formats.TensorSpec, data: Any) -> bytes:
    return b"".join(bytes(chunk) for chunk in chunks_of(spec, data))


def test_arrays_are_taken_in_any_layout() -> None:
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    spec = spec_of("v", array)
    for same_values in (array, np.asfortranarray(array), array.astype(">i4"), array[::-1][::-1]):
        assert given_as(spec, same_values) == array.tobytes()
    assert given_as(spec, [array[:1], array[1:].tobytes(), memoryview(b"")]) == array.tobytes()
    assert given_as(spec_of("s", np.float32(1.5)), np.float32(1.5)) == np.float32(1.5).tobytes()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (np.zeros(3, np.int32), "the array has shape (3,); expected (2,)"),
        (np.zeros(2, np.uint32), "array has dtype uint32; expected int32"),
        ([b"\0" * 7], "found 7 bytes; expected 8"),
        ([b"\0" * 8, b"\0"], "found 9 bytes; expected 8"),
        (b"", "found 0 bytes; expected 8"),
    ],
)
def test_data_that_contradict_their_spec_are_rejected(data: Any, said: str) -> None:
    with pytest.raises(ValueError, match="tensor 'v'") as caught:
        given_as(spec_of("v", np.zeros(2, np.int32)), data)
    assert said in str(caught.value)


def test_strings_are_taken_from_every_kind_of_array() -> None:
    spec = spec_of("v", np.zeros(2, object))
    for array in (np.array([b"ab", b"c"], object), np.array([b"ab", b"c"]), np.array(["ab", "c"])):
        assert list(chunks_of(spec, array)) == [b"ab", b"c"]
    with pytest.raises(ValueError, match="found 1 elements; expected 2"):
        list(chunks_of(spec, [b"ab"]))
    with pytest.raises(TypeError, match="element 1 is int, not bytes"):
        list(chunks_of(spec, [b"ab", 3]))


# Memory ------------------------------------------------------------------------------

LARGE = 48 << 20
"""Bytes of the tensors that are copied: far more than what copying may hold."""


@contextlib.contextmanager
def at_most(nbytes: int) -> Iterator[None]:
    """Check that no more than this is allocated at any time, numpy's arrays included."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cut", ["whole", "rows", "columns", "one_long_row"])
def test_copying_holds_chunks_not_tensors(cut: str, tmp_path: Path) -> None:
    shape = (2, LARGE // 8) if cut == "one_long_row" else (1024, LARGE // 4096)
    half, quarter = shape[0] // 2, shape[1] // 4
    slices: dict[str, Any] = {
        "whole": {},
        "rows": {"v": [((0, half), (0, -1)), ((half, half), (0, -1))]},
        "columns": {"v": [((0, -1), (0, quarter)), ((0, -1), (quarter, 3 * quarter))]},
        "one_long_row": {"v": [((0, -1), (0, quarter)), ((0, -1), (quarter, 3 * quarter))]},
    }[cut]
    spec = TensorSpec("v", BY_NAME["float32"], shape)
    piece = np.arange(1 << 18, dtype=np.float32)
    options: dict[str, Any] = {"format": "tf-name", "specs": [spec], "slices": slices}
    with at_most(12 << 20):
        with formats.create_checkpoint(tmp_path / "a", **options) as writer:
            writer.write("v", (piece for _ in range(LARGE // piece.nbytes)))
        with (
            open_checkpoint(tmp_path / "a") as reader,
            formats.create_checkpoint(tmp_path / "b", **{**options, "slices": {}}) as writer,
        ):
            writer.write("v", reader["v"].chunks())
    with open_checkpoint(tmp_path / "b") as reader:
        assert np.array_equal(reader["v"].read().reshape(-1, piece.size), [piece] * (LARGE // piece.nbytes))


def test_strings_wait_in_a_file(tmp_path: Path) -> None:
    element = b"x" * 100_000
    count = LARGE // len(element)
    spec = TensorSpec("v", BY_NAME["string"], (count,))
    with at_most(36 << 20):
        with formats.create_checkpoint(tmp_path / "a", format="tf-name", specs=[spec]) as writer:
            writer.write("v", (element for _ in range(count)))
        with (
            open_checkpoint(tmp_path / "a") as reader,
            formats.create_checkpoint(tmp_path / "b", format="tf-name", specs=[spec]) as writer,
        ):
            writer.write("v", reader["v"].chunks())
    with open_checkpoint(tmp_path / "b") as reader:
        assert all(found == element for found in reader["v"].chunks())
