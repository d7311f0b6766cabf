from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.wire.coding import encode_varint
from formats.wire.messages import (
    BoolValue,
    BundleEntryProto,
    BundleHeaderProto,
    Dim,
    Extent,
    ObjectReference,
    SavedSlice,
    SavedSliceMeta,
    SavedTensorSliceMeta,
    SavedTensorSlices,
    SerializedTensor,
    TensorShapeProto,
    TensorSliceProto,
    TrackableObject,
    TrackableObjectGraph,
    VersionDef,
)
from formats.wire.protobuf import (
    BOOL,
    BYTES,
    DOUBLE,
    FIXED32,
    FLOAT,
    INT32,
    INT64,
    TEXT,
    Field,
    Message,
    fields,
    iter_fields,
)


def shape(*dims: int) -> TensorShapeProto:
    return TensorShapeProto(dim=[Dim(size=dim) for dim in dims])


FULL_ENTRY_SLICES = [
    TensorSliceProto(extent=[Extent(length=2), Extent()]),
    TensorSliceProto(extent=[Extent(start=2, length=2), Extent()]),
]

# formats.md sections 4 and 19: bytes that TensorFlow wrote.
EXACT: list[tuple[str, Message, str]] = [
    ("header", BundleHeaderProto(num_shards=1, version=VersionDef(producer=1)), "08 01 1a 02 08 01"),
    (
        "header of two shards",
        BundleHeaderProto(num_shards=2, version=VersionDef(producer=1)),
        "08 02 1a 02 08 01",
    ),
    (
        "float32 (2)",
        BundleEntryProto(dtype=1, shape=shape(2), size=8, crc32c=0x35E53C59),
        "08 01 12 04 12 02 08 02 28 08 35 59 3c e5 35",
    ),
    (
        "trap 6: a scalar's shape is present and empty",
        BundleEntryProto(dtype=9, shape=shape(), size=8, crc32c=0x41DE7501),
        "08 09 12 00 28 08 35 01 75 de 41",
    ),
    (
        "float32 (2, 3) at 8",
        BundleEntryProto(dtype=1, shape=shape(2, 3), offset=8, size=24, crc32c=0x173DDBC0),
        "08 01 12 08 12 02 08 02 12 02 08 03 20 08 28 18 35 c0 db 3d 17",
    ),
    (
        "trap 6: a dimension of 0 is an empty Dim",
        BundleEntryProto(dtype=1, shape=shape(3, 0), offset=4, crc32c=0xA282EAD8),
        "08 01 12 06 12 02 08 03 12 00 20 04 35 d8 ea 82 a2",
    ),
    (
        "string (0)",
        BundleEntryProto(dtype=7, shape=shape(0), size=4, crc32c=0x640CC1F6),
        "08 07 12 02 12 00 28 04 35 f6 c1 0c 64",
    ),
    (
        "object graph",
        BundleEntryProto(dtype=7, shape=shape(), offset=40, size=287, crc32c=0x4B8B1408),
        "08 07 12 00 20 28 28 9f 02 35 08 14 8b 4b",
    ),
    (
        "entry in shard 1",
        BundleEntryProto(dtype=7, shape=shape(), shard_id=1, offset=40, size=287, crc32c=0x4B8B1408),
        "08 07 12 00 18 01 20 28 28 9f 02 35 08 14 8b 4b",
    ),
    (
        "partitioned (4, 4)",
        BundleEntryProto(dtype=1, shape=shape(4, 4), slices=FULL_ENTRY_SLICES),
        "08 01 12 08 12 02 08 04 12 02 08 04 3a 06 0a 02 10 02 0a 00 3a 08 0a 04 08 02 10 02 0a 00",
    ),
    (
        "its slice",
        BundleEntryProto(dtype=1, shape=shape(2, 4), offset=32, size=32, crc32c=0x67D70042),
        "08 01 12 08 12 02 08 02 12 02 08 04 20 20 28 20 35 42 00 d7 67",
    ),
    (
        "V1 record",
        SavedTensorSlices(
            data=SavedSlice(name="scalar", slice=TensorSliceProto(), data=bytes.fromhex("2a 04 00 00 e0 40"))
        ),
        "12 12 0a 06 73 63 61 6c 61 72 12 00 1a 06 2a 04 00 00 e0 40",
    ),
    (
        "V1 metadata",
        SavedTensorSliceMeta(
            tensor=[
                SavedSliceMeta(
                    name="zero",
                    shape=shape(0, 3),
                    type=1,
                    slice=[TensorSliceProto(extent=[Extent(), Extent()])],
                )
            ],
            versions=VersionDef(producer=1),
        ),
        "0a 16 0a 04 7a 65 72 6f 12 06 12 00 12 02 08 03 18 01 22 04 0a 00 0a 00 12 02 08 01",
    ),
    (
        "V1: no elements is a present, empty TensorProto",
        SavedSlice(name="z", slice=TensorSliceProto(), data=b""),
        "0a 01 7a 12 00 1a 00",
    ),
    (
        "has_checkpoint_values true",
        TrackableObject(has_checkpoint_values=BoolValue(value=True)),
        "2a 02 08 01",
    ),
    ("has_checkpoint_values false", TrackableObject(has_checkpoint_values=BoolValue()), "2a 00"),
    (
        "node 0 of formats.md 19.6",
        TrackableObject(
            children=[
                ObjectReference(node_id=1, local_name="m"),
                ObjectReference(node_id=2, local_name="save_counter"),
            ],
            has_checkpoint_values=BoolValue(value=True),
        ),
        "0a 05 08 01 12 01 6d 0a 10 08 02 12 0c 73 61 76 65 5f 63 6f 75 6e 74 65 72 2a 02 08 01",
    ),
    (
        "extent of a whole dimension, spelled out",
        TensorSliceProto(extent=[Extent(start=0, length=4), Extent(start=3, length=0)]),
        "0a 02 10 04 0a 04 08 03 10 00",
    ),
]


@pytest.mark.parametrize(("message", "encoded"), [row[1:] for row in EXACT], ids=[row[0] for row in EXACT])
def test_bytes_are_those_tensorflow_writes(message: Message, encoded: str) -> None:
    assert message.encode() == bytes.fromhex(encoded)
    assert type(message).decode(bytes.fromhex(encoded)) == message


def _object_graph_of_19_6() -> TrackableObjectGraph:
    def variable(full_name: str, key: str) -> TrackableObject:
        attribute = SerializedTensor(name="VARIABLE_VALUE", full_name=full_name, checkpoint_key=key)
        return TrackableObject(attributes=[attribute], has_checkpoint_values=BoolValue(value=True))

    def inner(*children: tuple[int, str]) -> TrackableObject:
        references = [ObjectReference(node_id=number, local_name=name) for number, name in children]
        return TrackableObject(children=references, has_checkpoint_values=BoolValue(value=True))

    return TrackableObjectGraph(
        nodes=[
            inner((1, "m"), (2, "save_counter")),
            inner((3, "w"), (4, "old")),
            variable("save_counter", "save_counter/.ATTRIBUTES/VARIABLE_VALUE"),
            variable("Variable", "m/w/.ATTRIBUTES/VARIABLE_VALUE"),
            inner((5, "k")),
            variable("Variable", "m/old/k/.ATTRIBUTES/VARIABLE_VALUE"),
        ]
    )


def test_object_graph_of_the_reference_takes_281_bytes() -> None:
    data = _object_graph_of_19_6().encode()
    assert len(data) == 281
    starts = [start for _, _, _, start, _ in iter_fields(data)]
    assert [data[start : start + 2].hex(" ") for start in starts] == [
        "0a 1d",
        "0a 14",
        "0a 4d",
        "0a 40",
        "0a 0b",
        "0a 44",
    ]
    assert TrackableObjectGraph.decode(data) == _object_graph_of_19_6()


def test_trap_3_entry_checksum_is_fixed32() -> None:
    data = BundleEntryProto(crc32c=1).encode()
    assert data == bytes.fromhex("35 01 00 00 00")
    with pytest.raises(ValueError, match="wire type 0"):
        BundleEntryProto.decode(bytes.fromhex("30 01"))


# Decoding what TensorFlow does not write ------------------------------------------


def test_fields_are_taken_in_any_order() -> None:
    parts = ["08 01", "12 04 12 02 08 02", "18 03", "20 05", "28 08", "35 59 3c e5 35"]
    expected = BundleEntryProto.decode(bytes.fromhex("".join(parts)))
    shuffled = random.Random(1)
    for _ in range(20):
        shuffled.shuffle(parts)
        assert BundleEntryProto.decode(bytes.fromhex("".join(parts))) == expected


def test_last_of_a_repeated_scalar_wins() -> None:
    assert BundleEntryProto.decode(bytes.fromhex("28 08 28 10 28 00")).size == 0


def test_a_text_given_twice_is_the_last_and_neither_may_be_other_than_utf8() -> None:
    assert SavedSlice.decode(b"\x0a\x01a\x0a\x01b").name == "b"
    with pytest.raises(ValueError, match="given twice, and the first one is not UTF-8"):
        SavedSlice.decode(b"\x0a\x01\xf4\x0a\x01b")


def test_message_given_twice_is_merged_as_protobuf_says() -> None:
    twice = BundleEntryProto.decode(bytes.fromhex("12 04 12 02 08 02 12 04 12 02 08 03"))
    assert twice.shape == shape(2, 3)
    version = BundleHeaderProto.decode(bytes.fromhex("1a 02 08 01 1a 02 10 05")).version
    assert version == VersionDef(producer=1, min_consumer=5)


def test_explicit_defaults_are_read_and_not_written() -> None:
    entry = BundleEntryProto.decode(bytes.fromhex("08 01 18 00 20 00 28 00 35 00 00 00 00"))
    assert entry == BundleEntryProto(dtype=1)
    assert entry.encode() == bytes.fromhex("08 01")


def test_repeated_numbers_are_read_packed_unpacked_and_mixed() -> None:
    for data in ("1a 03 01 ac 02", "18 01 18 ac 02", "1a 01 01 18 ac 02", "18 01 1a 02 ac 02"):
        version = VersionDef.decode(bytes.fromhex(data))
        assert version.bad_consumers == [1, 300]
        assert version.encode() == bytes.fromhex("1a 03 01 ac 02")


def test_negative_numbers_take_ten_bytes_and_come_back() -> None:
    data = ObjectReference(node_id=-1).encode()
    assert data == bytes.fromhex("08 ff ff ff ff ff ff ff ff ff 01")
    assert ObjectReference.decode(data).node_id == -1
    # Some writers sign-extend to 32 bits only; the C++ runtime reads it the same.
    assert ObjectReference.decode(bytes.fromhex("08 ff ff ff ff 0f")).node_id == -1


def test_int32_keeps_the_low_bits_as_the_cpp_runtime_does() -> None:
    assert ObjectReference.decode(b"\x08" + encode_varint((1 << 32) + 7)).node_id == 7


def test_unknown_fields_of_every_wire_type_are_kept() -> None:
    known = bytes.fromhex("08 01 28 08")
    unknown = (
        bytes.fromhex("78 ac 02")
        + b"\x72\x02hi"
        + bytes.fromhex("7d 01 02 03 04")
        + b"\x81\x01"
        + b"12345678"
    )
    entry = BundleEntryProto.decode(unknown[:3] + known + unknown[3:])
    assert (entry.dtype, entry.size) == (1, 8)
    assert entry.unknown == unknown
    assert entry.encode() == known + unknown


def test_text_that_is_not_utf8_survives() -> None:
    data = bytes.fromhex("12 03 61 ff fe")
    reference = ObjectReference.decode(data)
    assert reference.local_name == "a\udcff\udcfe"
    assert reference.encode() == data


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ("08", "varint"),
        ("80", "varint"),
        ("28 ff ff ff ff ff ff ff ff ff ff", "varint"),
        ("12", "varint"),
        ("12 05 12 02", "5 bytes, but only 2 are left"),
        ("12 ff ff ff ff ff ff ff ff ff 01 00", "are left"),
        ("35 01 02 03", "4 bytes, but only 3 are left"),
        ("79 01 02 03", "8 bytes, but only 3 are left"),
        ("0b", "wire type 3"),
        ("0c", "wire type 4"),
        ("0e", "wire type 6"),
        ("0f", "wire type 7"),
        ("00 01", "field number 0"),
        ("80 80 80 80 80 01 00", "field number"),
        ("0a 01 01", "wire type 2"),  # dtype as bytes
        ("10 01", "wire type 0; expected a message"),  # shape as a number
        ("35 01 02 03 04 3d 01 02 03 04", "wire type 5; expected a message"),
        ("12 02 12 05", "5 bytes, but only 0 are left"),  # damage within a nested message
    ],
)
def test_malformed_entries_are_value_errors(data: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        BundleEntryProto.decode(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["1a 02 01 80", "1d 01 02 03 04", "19 01 02 03 04 05 06 07 08"])
def test_malformed_repeated_numbers_are_value_errors(data: str) -> None:
    with pytest.raises(ValueError, match=r"varint|wire type"):
        VersionDef.decode(bytes.fromhex(data))


class Everything(Message):
    """A message with every scalar type, single, repeated and explicit."""

    FIELDS = fields(
        int32=Field(1, INT32),
        int64=Field(2, INT64),
        flag=Field(3, BOOL),
        raw=Field(4, BYTES),
        text=Field(5, TEXT),
        fixed=Field(6, FIXED32),
        single=Field(7, FLOAT),
        double=Field(8, DOUBLE),
        maybe=Field(9, INT64, explicit=True),
        child=Field(10, Dim),
        numbers=Field(16, INT64, repeated=True),
        singles=Field(17, FLOAT, repeated=True),
        doubles=Field(18, DOUBLE, repeated=True),
        raws=Field(19, BYTES, repeated=True),
        children=Field(2000, Dim, repeated=True),
    )


def test_packed_numbers_of_a_broken_length_are_value_errors() -> None:
    with pytest.raises(ValueError, match="packed field has 5 bytes"):
        Everything.decode(b"\x8a\x01\x05" + bytes(5))


def test_default_scalars_are_left_out() -> None:
    assert Everything().encode() == b""
    assert Everything(int32=0, flag=False, raw=b"", text="", fixed=0, double=0.0).encode() == b""
    assert Everything(double=1.5).encode() == b"\x41" + struct.pack("<d", 1.5)


def test_explicit_scalar_keeps_its_presence() -> None:
    assert Everything.decode(b"").maybe is None
    assert Everything(maybe=0).encode() == bytes.fromhex("48 00")
    assert Everything.decode(bytes.fromhex("48 00")).maybe == 0


def test_unknown_field_names_are_a_mistake_of_the_program() -> None:
    with pytest.raises(AssertionError):
        Everything(nonsense=1)


int64 = st.integers(-(1 << 63), (1 << 63) - 1)
single = st.floats(width=32, allow_nan=False).filter(lambda value: value != 0)
double = st.floats(allow_nan=False).filter(lambda value: value != 0)
dim = st.builds(lambda size, name: Dim(size=size, name=name), int64, st.text(max_size=4))
everything: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "int32": st.integers(-(1 << 31), (1 << 31) - 1),
        "int64": int64,
        "flag": st.booleans(),
        "raw": st.binary(max_size=8),
        "text": st.text(max_size=8),
        "fixed": st.integers(0, (1 << 32) - 1),
        "single": single,
        "double": double,
        "maybe": int64,
        "child": dim,
        "numbers": st.lists(int64, max_size=4),
        "singles": st.lists(single, max_size=3),
        "doubles": st.lists(double, max_size=3),
        "raws": st.lists(st.binary(max_size=4), max_size=3),
        "children": st.lists(dim, max_size=3),
    },
)


@given(everything)
def test_messages_round_trip(values: dict[str, Any]) -> None:
    message = Everything(**values)
    assert Everything.decode(message.encode()) == message


@given(everything, st.randoms(use_true_random=False))
def test_order_of_different_fields_does_not_matter(values: dict[str, Any], random_: random.Random) -> None:
    data = Everything(**values).encode()
    by_number: dict[int, bytes] = {}
    for number, _, _, start, end in iter_fields(data):
        by_number[number] = by_number.get(number, b"") + data[start:end]
    parts = list(by_number.values())
    random_.shuffle(parts)
    assert Everything.decode(b"".join(parts)) == Everything(**values)


@given(everything, everything)
def test_concatenated_messages_are_merged_messages(left: dict[str, Any], right: dict[str, Any]) -> None:
    merged = Everything.decode(Everything(**left).encode() + Everything(**right).encode())
    for name in ("numbers", "raws", "children"):
        assert [*getattr(merged, name)] == left.get(name, []) + right.get(name, [])
    if right.get("text"):
        assert merged.text == right["text"]


@given(st.binary(max_size=40))
def test_any_bytes_decode_or_are_a_value_error(data: bytes) -> None:
    for kind in (Everything, BundleEntryProto, TrackableObjectGraph, SavedTensorSlices):
        try:
            message = kind.decode(data)
        except ValueError:
            continue
        assert kind.decode(message.encode()).encode() == message.encode()
