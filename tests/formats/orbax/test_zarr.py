"""The metadata of zarr arrays, and which of them are damaged or not supported."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from formats.orbax.zarr import CodecChain, UnreadZarrError, _checked, is_absent, parse_array
from formats.wire.crc32c import crc32c

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
PLAIN = {
    "zarr_format": 3,
    "data_type": "float32",
    "shape": [10, 6],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
    "chunk_key_encoding": {"name": "default"},
    "codecs": [BYTES],
    "fill_value": 0.5,
}
OLD = {"zarr_format": 2, "dtype": "<f4", "shape": [10, 6], "chunks": [4, 6], "fill_value": None}


def sharded(**changed: Any) -> list[dict[str, Any]]:
    configuration = {"chunk_shape": [2, 3], "codecs": [BYTES], "index_codecs": [BYTES, "crc32c"]}
    return [{"name": "sharding_indexed", "configuration": {**configuration, **changed}}]


def parsed(document: dict[str, Any], **changed: Any) -> Any:
    return parse_array(json.dumps({**document, **changed}).encode())


def test_chunks_are_counted_and_named() -> None:
    found = parsed(PLAIN)
    assert (found.dtype.name, found.shape, found.cell, found.fill) == ("float32", (10, 6), (4, 6), 0.5)
    assert (found.cell_bytes, found.nbytes, found.count_files()) == (96, 240, 3)
    assert [found.file_at(number) for number in range(3)] == [(0, 0), (1, 0), (2, 0)]
    assert (found.chunk_key((1, 0)), found.chunk_key(())) == ("c/1/0", "c")
    other = parsed(OLD)
    assert (other.chunk_key((1, 0)), other.chunk_key(()), other.fill) == ("1.0", "0", None)
    assert parsed(OLD, dimension_separator="/").chunk_key((1, 0)) == "1/0"
    v2 = parsed(PLAIN, chunk_key_encoding={"name": "v2", "configuration": {"separator": "/"}})
    assert (v2.chunk_key((1, 0)), v2.chunk_key(())) == ("1/0", "0")


def test_files_of_an_array_without_elements() -> None:
    empty = {**OLD, "shape": [0, 6], "chunks": [0, 6]}
    assert (parsed(empty).count_files(), parsed(empty).nbytes) == (0, 0)
    scalar = parsed(OLD, shape=[], chunks=[])
    assert (scalar.count_files(), scalar.file_at(0), scalar.nbytes) == (1, (), 4)


def test_shards_have_an_index_of_their_chunks() -> None:
    found = parsed(PLAIN, codecs=sharded())
    shard = found.shard
    assert (found.cell, shard.counts, shard.is_at_end) == ((2, 3), (2, 2), True)
    assert (found.count_files(), shard.nbytes) == (3, 4 * 16 + 4)
    assert not parsed(PLAIN, codecs=sharded(index_location="start")).shard.is_at_end
    plain = parsed(
        PLAIN, codecs=sharded(index_codecs=[{"name": "bytes", "configuration": {"endian": "big"}}])
    )
    places = np.array([[0, 24], [(1 << 64) - 1, (1 << 64) - 1], [24, 24], [48, 24]], ">u8")
    assert plain.shard.nbytes == places.nbytes
    ranges = plain.shard.ranges(places.tobytes())
    assert [is_absent(*map(int, place)) for place in ranges] == [False, True, False, False]


@pytest.mark.parametrize(
    ("offset", "length"), [((1 << 64) - 1, 0), (0, (1 << 64) - 1), ((1 << 64) - 2, (1 << 64) - 2), (0, 0)]
)
def test_what_is_at_a_place_is_there(offset: int, length: int) -> None:
    assert not is_absent(offset, length)


@pytest.mark.parametrize(
    ("codecs", "chain"),
    [
        (["bytes"], CodecChain(False, ())),
        ([{"name": "bytes", "configuration": {"endian": "big"}}], CodecChain(True, ())),
        (["bytes", "zstd"], CodecChain(False, ("zstd",))),
        (["bytes", {"name": "gzip"}, "crc32c"], CodecChain(False, ("gzip", "crc32c"))),
        (["bytes", "crc32c", "zstd", "crc32c"], CodecChain(False, ("crc32c", "zstd", "crc32c"))),
    ],
)
def test_codecs_follow_the_bytes(codecs: list[Any], chain: CodecChain) -> None:
    assert parsed(PLAIN, codecs=codecs).codecs == chain


DAMAGED = {
    "codecs that are no list": {"codecs": "bytes"},
    "no codecs": {"codecs": []},
    "five codecs": {"codecs": ["bytes", *["crc32c"] * 4]},
    "an inner chain that is no list": {"codecs": sharded(codecs={"bytes": 1})},
    "no inner chain": {"codecs": sharded(codecs=[])},
    "an inner chain of five": {"codecs": sharded(codecs=["bytes", *["crc32c"] * 4])},
    "a codec without a name": {"codecs": [{"configuration": {}}]},
    "a codec that is a number": {"codecs": [7]},
    "a configuration that is a list": {"codecs": [{"name": "bytes", "configuration": []}]},
    "an order of bytes": {"codecs": [{"name": "bytes", "configuration": {"endian": "middle"}}]},
    "chunks of another rank": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}}},
    "chunks of nothing": {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 6]}}},
    "a separator": {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "-"}}},
    "a negative dimension": {"shape": [-1, 6]},
    "a dimension of 2**48": {"shape": [1 << 48, 6]},
    "a dimension that is a bool": {"shape": [True, 6]},
    "a fraction of elements": {"shape": [1.5, 6]},
    "255 dimensions": {"shape": [1] * 255},
    "inner chunks that do not fill a shard": {"codecs": sharded(chunk_shape=[3, 3])},
    "inner chunks of nothing": {"codecs": sharded(chunk_shape=[0, 3])},
    "inner chunks of another rank": {"codecs": sharded(chunk_shape=[2])},
    "an index in the middle": {"codecs": sharded(index_location="middle")},
    "another version": {"zarr_format": 4},
}


@pytest.mark.parametrize("what", DAMAGED)
def test_what_zarr_does_not_allow_is_damaged(what: str) -> None:
    with pytest.raises(ValueError, match=r"(is|are) invalid$|^(chunks|shards|zarr_format)") as raised:
        parsed(PLAIN, **DAMAGED[what])
    assert not isinstance(raised.value, UnreadZarrError)


UNREAD = {
    "another grid": {"chunk_grid": {"name": "rectilinear", "configuration": {"chunk_shape": [4, 6]}}},
    "other keys": {"chunk_key_encoding": {"name": "hashed"}},
    "storage transformers": {"storage_transformers": [{"name": "x"}]},
    "another first codec": {"codecs": ["transpose", "bytes"]},
    "another codec": {"codecs": ["bytes", "blosc"]},
    "two compressions": {"codecs": ["bytes", "zstd", "gzip"]},
    "codecs around shards": {"codecs": [*sharded(), "crc32c"]},
    "a compressed index": {"codecs": sharded(index_codecs=["bytes", "zstd"])},
    "another type": {"data_type": "string"},
}


@pytest.mark.parametrize("what", UNREAD)
def test_what_is_not_read_is_not_called_damaged(what: str) -> None:
    with pytest.raises(UnreadZarrError, match="not supported"):
        parsed(PLAIN, **UNREAD[what])


@pytest.mark.parametrize(
    ("stored", "name", "is_big"),
    [
        ("<f4", "float32", False),
        (">f4", "float32", True),
        ("|b1", "bool", False),
        ("<c8", "complex64", False),
        ("|i1", "int8", False),
        (">u8", "uint64", True),
        ("bfloat16", "bfloat16", False),
        ("float8_e3m4", "float8_e3m4", False),
    ],
)
def test_types_of_version_2_have_an_order_of_bytes(stored: str, name: str, is_big: bool) -> None:
    found = parsed(OLD, dtype=stored)
    assert (found.dtype.name, found.codecs.is_big) == (name, is_big)


@pytest.mark.parametrize("dimensions", [254, 255])
def test_an_array_has_254_dimensions_at_most(dimensions: int) -> None:
    if dimensions == 254:
        assert len(parsed(OLD, shape=[1] * 254, chunks=[1] * 254).shape) == 254
    else:
        with pytest.raises(ValueError, match="is invalid"):
            parsed(OLD, shape=[1] * 255, chunks=[1] * 255)


def test_a_chunk_with_another_checksum_is_damaged() -> None:
    data = b"twelve bytes"
    whole = data + crc32c(data).to_bytes(4, "little")
    assert _checked(whole, len(data)) == data
    for at in range(len(whole)):
        with pytest.raises(ValueError, match="checksum"):
            _checked(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], len(data))
    for length in range(4):
        with pytest.raises(ValueError, match="checksum"):
            _checked(b"\0" * length, 0)
    assert _checked(b"\0" * 4, 0) == b""
