"""Small tensors: their places are those of their entries, and read ahead or not they read alike."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import CheckpointError, ChecksumError, CorruptCheckpointError, open_checkpoint
from formats.core import dtypes
from formats.location import parse_location
from formats.store.local.files import LocalFile
from formats.store.readahead import ReadAhead
from formats.tf.bundle import small
from formats.tf.bundle.index import (
    BundleEntry,
    BundleIndex,
    EntryError,
    decode_entry,
    encode_entry,
    encode_shape,
)
from formats.tf.bundle.reader import BundleReader
from formats.tf.bundle.slices import slice_proto
from formats.tf.bundle.small import PLACE, SMALL, decode_places
from formats.wire.crc32c import mask
from formats.wire.messages import BundleEntryProto, BundleHeaderProto
from tests.support import (
    BUNDLES,
    Entries,
    Stored,
    data_path,
    numbers,
    recorded,
    same,
    shard_path,
    write_bundle,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

DTYPES = [dtype for dtype in dtypes.DTYPES if dtype.itemsize is not None and dtype.number]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(tmp_path / "ckpt-1")


# Places -----------------------------------------------------------------------------


def places(values: list[bytes]) -> Iterator[tuple[int, int, int, int] | None]:
    """Yield shard, size, offset and masked checksum of each small plain entry, None of another."""
    found = decode_places(values)
    assert len(found) == len(values) * PLACE.size
    for shard, size, offset, checksum in PLACE.iter_unpack(found):
        yield None if size < 0 else (shard, size, offset, mask(checksum))


def agree(values: list[bytes]) -> int:
    """Compare the positions of entries with the entries, and return the number of entries."""
    told = 0
    for value, place in zip(values, places(values), strict=True):
        if place is not None:
            entry = decode_entry(value)
            assert (entry.shard, entry.size, entry.offset, entry.crc32c) == place
            assert entry.slices == ()
            told += 1
    return told


def test_numbers_of_two_bytes_are_not_taken_for_one() -> None:
    """A dtype and the length of a shape of 128: their entries are decoded, or rejected, the long way."""
    assert list(places([b"\x08\x80\x12\x00", b"\x08\x01\x12\x80\x01" + bytes(128)])) == [None, None]


def test_places_are_those_of_tensorflows_entries() -> None:
    for golden in recorded(*BUNDLES):
        index = BundleIndex(parse_location(data_path(golden["path"])))
        entries = list(map(index.entry, range(len(index.values))))
        small_ones = [not entry.slices and entry.size <= SMALL for entry in entries]
        assert agree(index.values) == sum(small_ones), golden["path"]


ENTRIES = st.builds(
    BundleEntry,
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 300), max_size=5).map(tuple),
    st.integers(0, 1 << 31) | st.just(0),
    st.integers(0, (1 << 63) - 1) | st.just(0),
    st.integers(0, SMALL + 1) | st.just(0),
    st.integers(0, (1 << 32) - 1) | st.just(0),
    st.just(()),
)


@given(st.lists(ENTRIES, max_size=20))
def test_places_of_entries_as_tensorflow_writes_them(entries: list[BundleEntry]) -> None:
    values = [encode_entry(entry._replace(shard=entry.shard & 0x7FFFFFFF)) for entry in entries]
    assert agree(values) == sum(entry.size <= SMALL for entry in entries)


@given(ENTRIES, st.lists(st.just(((0, 1), (2, 3))), max_size=2))
def test_an_entry_is_encoded_as_its_message_is(entry: BundleEntry, slices: list[Any]) -> None:
    entry = entry._replace(slices=tuple(slices))
    message = BundleEntryProto(
        dtype=entry.dtype.number,
        shape=encode_shape(entry.shape),
        shard_id=entry.shard,
        offset=entry.offset,
        size=entry.size,
        crc32c=entry.crc32c,
        slices=[slice_proto(extents) for extents in entry.slices],
    )
    assert encode_entry(entry) == message.encode()


SPOILED = st.tuples(
    st.integers(0, 60), st.sampled_from(["insert", "replace", "remove"]), st.sampled_from(list(range(256)))
)


def spoil(value: bytes, at: int, how: str, byte: int) -> bytes:
    at %= len(value)
    return value[:at] + bytes([byte] * (how != "remove")) + value[at + (how != "insert") :]


@given(st.lists(st.tuples(ENTRIES, SPOILED), min_size=1, max_size=5))
def test_an_entry_of_any_other_kind_has_no_place_or_its_own(pairs: list[tuple[BundleEntry, Any]]) -> None:
    values = [
        spoil(encode_entry(entry._replace(shard=entry.shard & 0x7FFFFFFF)), *how) for entry, how in pairs
    ]
    for value, place in zip(values, places(values), strict=True):
        try:
            entry = decode_entry(value)
        except EntryError:  # there is nothing to read, then
            continue
        assert place in (None, (entry.shard, entry.size, entry.offset, entry.crc32c))


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param(b"\x28\x08\x20\x05", id="fields in another order"),
        pytest.param(b"\x20\x05\x20\x06\x28\x08", id="a field twice"),
        pytest.param(b"\x20\x05\x28\x08\x08\x03", id="a dtype again"),
        pytest.param(b"\x20" + b"\xff" * 9 + b"\x01\x28\x08", id="a negative offset"),
        pytest.param(b"\x20" + b"\x80" * 9 + b"\x00\x28\x08", id="a varint of ten bytes"),
        pytest.param(b"\x18\x80\x80\x80\x80\x08\x28\x08", id="a shard beyond 2**31"),
        pytest.param(b"\x28\x81\x80\x04", id="one byte more than is small"),
        pytest.param(b"\x20\x05\x28\x08\x3a\x00", id="a slice"),
        pytest.param(b"\x20\x05\x28\x08\x50\x00", id="a field not known here"),
        pytest.param(b"\x20\x05\x28", id="cut"),
        pytest.param(b"\x20\x05\x28\x08" + bytes(200), id="long"),
    ],
)
def test_an_entry_that_is_not_plain_has_no_place(tail: bytes) -> None:
    head, plain = b"\x08\x01\x12\x00", b"\x08\x01\x12\x00\x20\x05\x28\x04"
    assert list(places([plain, head + tail, plain])) == [(0, 4, 5, 0), None, (0, 4, 5, 0)]


def test_varints_longer_than_needed_are_the_same_numbers() -> None:
    value = b"\x08\x01\x12\x00\x18\x83\x00\x20\x85\x80\x80\x00\x28\x84\x00\x35\x01\x02\x03\x04"
    assert list(places([value])) == [(3, 4, 5, 0x04030201)]
    assert agree([value]) == 1


def test_places_are_decoded_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [BundleEntry(dtypes.BY_NAME["int8"], (n,), n % 3, n * n, n, n) for n in range(100)]
    values = list(map(encode_entry, entries))
    whole = decode_places(values)
    for batch in (1, 7, 99, 100):
        monkeypatch.setattr(small, "_BATCH", batch)
        assert decode_places(values) == whole
    assert decode_places([]) == b""


# Reading ----------------------------------------------------------------------------


def several() -> dict[str, Any]:
    """Return tensors of all dtypes, large ones and strings between them."""
    rng = np.random.default_rng(0)
    tensors: dict[str, Any] = {}
    for number, dtype in enumerate(DTYPES * 2):
        array = (rng.random((number % 5, 3)) * 2).astype(dtype.numpy)
        tensors[f"t{number:02}"] = numbers(array, dtype=dtype.name, shard=number % 2)
    tensors["t10x"] = np.arange(SMALL // 4 + 1, dtype=np.int32)
    tensors["t20x"] = np.arange(SMALL // 8, dtype=np.int64)
    tensors["t30x"] = np.float32(3)
    return dict(sorted(tensors.items()))


@pytest.mark.parametrize("size", [1, 13, 100, 1 << 18])
@pytest.mark.parametrize("order", ["key", "reverse", "random", "twice"])
def test_any_order_reads_the_same(
    prefix: str, order: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = several()
    write_bundle(prefix, tensors, num_shards=2)
    keys = {
        "key": list(tensors),
        "reverse": list(reversed(tensors)),
        "random": random.Random(size).sample(list(tensors), len(tensors)),
        "twice": [key for key in tensors for _ in range(2)],
    }[order]
    monkeypatch.setattr(ReadAhead, "SIZE", size)
    with open_checkpoint(prefix) as reader:
        kept = []
        for key in keys:
            array = reader[key].read()
            stored = tensors[key]
            data = stored.data if isinstance(stored, Stored) else np.asarray(stored).tobytes()
            assert array.tobytes() == data
            assert (array.shape, array.dtype) == (reader.specs[key].shape, reader.specs[key].dtype.numpy)
            assert array.flags.owndata
            assert array.flags.writeable
            kept.append((array, data))
        for array, _ in kept[::2]:
            array.reshape(-1).view(np.uint8)[...] = 1
        assert all(array.tobytes() == data for array, data in kept[1::2])


def test_numbers_of_a_big_endian_bundle_are_swapped_once(prefix: str) -> None:
    tensors = {f"t{number}": np.arange(number, dtype=np.int32) for number in range(5)}
    stored = {key: numbers(array, big_endian=True) for key, array in tensors.items()}
    write_bundle(prefix, stored, header=BundleHeaderProto(num_shards=1, endianness=1))
    with open_checkpoint(prefix) as reader:
        assert all(same(reader[key].read(), tensors[key]) for key in [*tensors, *tensors])


@pytest.mark.parametrize("endianness", [0, 1])
def test_small_tensors_are_read_from_shards_that_are_open(prefix: str, endianness: int) -> None:
    array = np.arange(5, dtype=np.int32)
    header = BundleHeaderProto(num_shards=1, endianness=endianness)
    write_bundle(prefix, {"t": numbers(array, big_endian=bool(endianness))}, header=header)
    index = BundleIndex(parse_location(prefix))
    with LocalFile(shard_path(prefix)) as file, open_checkpoint(prefix) as reader:
        found = small.SmallTensors(index, {0: ReadAhead(file)}).read(reader.specs["t"], 0)
        assert found is not None
        assert same(found, array)
        assert small.SmallTensors(index, {}).read(reader.specs["t"], 0) is None


def test_every_flipped_byte_is_found_by_every_reader(prefix: str) -> None:
    tensors = {f"t{number}": np.full(3, number, np.int16) for number in range(5)}
    write_bundle(prefix, tensors)
    path = shard_path(prefix)
    with open(path, "rb") as file:
        sound = file.read()
    for at in range(len(sound)):
        with open(path, "wb") as file:
            file.write(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
        with open_checkpoint(prefix) as reader:
            for number, key in enumerate(tensors):
                if number != at // 6:
                    assert same(reader[key].read(), tensors[key])
                    continue
                with pytest.raises(ChecksumError) as caught:
                    reader[key].read()
                assert (caught.value.key, caught.value.offset) == (key, 6 * number)


def test_a_tensor_beyond_the_end_of_its_shard_is_corrupt_and_those_before_it_are_read(prefix: str) -> None:
    tensors = {f"t{number}": np.full(3, number, np.int16) for number in range(5)}
    write_bundle(prefix, tensors)
    os.truncate(shard_path(prefix), 20)
    with open_checkpoint(prefix) as reader:
        assert all(same(reader[key].read(), tensors[key]) for key in ("t0", "t1", "t2"))
        for key, offset in (("t3", 18), ("t4", 24)):
            with pytest.raises(CorruptCheckpointError, match="the shard has only 20") as caught:
                reader[key].read()
            assert (caught.value.key, caught.value.offset) == (key, offset)


def test_a_tensor_before_what_cannot_be_read_is_read(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {f"t{number}": np.full(3, number, np.int16) for number in range(5)}
    write_bundle(prefix, tensors)
    pread, preadv = os.pread, os.preadv

    def limited(fd: int, size: int, offset: int) -> bytes:
        if offset + size > 18:
            raise OSError(5, "Input/output error")
        return pread(fd, size, offset)

    def limited_into(fd: int, buffers: Any, offset: int) -> int:
        if offset + sum(map(len, buffers)) > 18:
            raise OSError(5, "Input/output error")
        return preadv(fd, buffers, offset)

    with open_checkpoint(prefix) as reader:
        assert len(reader.specs) == 5
        monkeypatch.setattr(os, "pread", limited)
        monkeypatch.setattr(os, "preadv", limited_into)
        assert all(same(reader[key].read(), tensors[key]) for key in ("t0", "t1", "t2"))
        with pytest.raises(CheckpointError, match="cannot be read: input/output error"):
            reader["t3"].read()


def test_what_was_read_ahead_is_not_read_from_a_closed_reader(prefix: str) -> None:
    write_bundle(prefix, {f"t{number}": np.full(3, number, np.int16) for number in range(5)})
    with open_checkpoint(prefix) as reader:
        tensors = list(reader.values())
        for tensor in tensors[:3]:
            tensor.read()
    for tensor in tensors:
        with pytest.raises(CheckpointError, match="closed"):
            tensor.read()


def test_an_entry_with_a_false_shape_is_corrupt_in_an_open_shard(prefix: str) -> None:
    def grow(entries: Entries) -> None:
        for key, dims in ((b"t1", [4]), (b"t2", [2]), (b"t3", [1] * 65 + [3])):
            entry = entries[key]
            assert not isinstance(entry, bytes)
            shape = entry.shape
            assert shape is not None
            shape.dim = [type(shape.dim[0])(size=dim) for dim in dims]

    write_bundle(prefix, {f"t{number}": np.full(3, number, np.int16) for number in range(5)}, edit=grow)
    with open_checkpoint(prefix) as reader:
        reader["t0"].read()
        for key, message in (("t1", "needs 8"), ("t2", "needs 4"), ("t3", "cannot create an array of")):
            with pytest.raises(CheckpointError, match=message) as caught:
                reader[key].read()
            assert caught.value.key == key
        assert same(reader["t4"].read(), np.full(3, 4, np.int16))


def test_strings_alone_need_no_places(prefix: str) -> None:
    """The object graph is such a string, and a listing reads it."""
    with open_checkpoint(data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")) as reader:
        assert isinstance(reader, BundleReader)
        assert reader.object_graph is not None
        assert "small" not in vars(reader)


# Going forward ----------------------------------------------------------------------


def test_only_reading_forward_reads_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    asked: list[tuple[int, int]] = []
    read = LocalFile.read

    def watched(self: LocalFile, offset: int, size: int) -> bytes:
        asked.append((offset, size))
        return read(self, offset, size)

    monkeypatch.setattr(LocalFile, "read", watched)
    monkeypatch.setattr(ReadAhead, "SIZE", 50)
    with LocalFile(str(path)) as file:
        ahead = ReadAhead(file)
        for offset, size, system in [
            (100, 4, (100, 4)),  # somewhere
            (20, 4, (20, 4)),  # somewhere else
            (24, 4, (24, 50)),  # it continues from there
            (28, 46, None),
            (70, 8, (70, 50)),  # and over the end of what was read
            (110, 60, (110, 60)),  # more than is read ahead
            (10, 4, (10, 4)),
            (12, 4, (12, 50)),
            (62, 0, None),
            (190, 20, (190, 20)),  # past the end
            (200, 4, (200, 50)),
            (500, 4, (500, 4)),
        ]:
            assert ahead.read(offset, size) == bytes(range(200))[offset : offset + size]
            assert asked == ([system] if system else [])
            asked.clear()


def test_reading_a_small_tensor_calls_few_functions(prefix: str) -> None:
    """A hundred thousand are read as fast as TensorFlow reads them: every call of a function counts."""
    write_bundle(prefix, {f"{number:04}": np.zeros(6, np.float32) for number in range(64)})
    called: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    with open_checkpoint(prefix) as reader:
        *before, last = reader
        for key in before:
            reader[key].read()
        sys.setprofile(count)
        try:
            reader[last].read()
        finally:
            sys.setprofile(None)
    assert len(called) <= 6, called
