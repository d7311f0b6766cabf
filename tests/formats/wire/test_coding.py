from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.wire.coding import (
    decode_fixed32,
    decode_varint,
    encode_fixed32,
    encode_varint,
    signed64,
)

KNOWN = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "80 01"),
    (300, "ac 02"),
    (1 << 32, "80 80 80 80 10"),
    ((1 << 32) + 5, "85 80 80 80 10"),
    ((1 << 64) - 1, "ff ff ff ff ff ff ff ff ff 01"),
]


@pytest.mark.parametrize(("value", "encoded"), KNOWN)
def test_known_varints(value: int, encoded: str) -> None:
    assert encode_varint(value) == bytes.fromhex(encoded)
    assert decode_varint(bytes.fromhex(encoded), 0) == (value, len(bytes.fromhex(encoded)))


def test_negative_varints_take_ten_bytes() -> None:
    assert encode_varint(-1) == bytes.fromhex("ff ff ff ff ff ff ff ff ff 01")
    assert signed64(decode_varint(encode_varint(-300), 0)[0]) == -300


def test_overlong_varint_is_read_for_its_value() -> None:
    assert decode_varint(bytes.fromhex("81 80 00"), 0) == (1, 3)


@pytest.mark.parametrize(
    "data", ["", "80", "ff ff ff", "ff ff ff ff ff ff ff ff ff ff", "80 80 80 80 80 80 80 80 80 80 01"]
)
def test_varint_that_does_not_end_is_rejected(data: str) -> None:
    with pytest.raises(ValueError, match="varint"):
        decode_varint(bytes.fromhex(data), 0)


def test_varint_stops_at_the_given_end() -> None:
    with pytest.raises(ValueError, match="past the end"):
        decode_varint(bytes.fromhex("ac 02"), 0, 1)


@given(st.integers(0, (1 << 64) - 1), st.binary(max_size=4), st.binary(max_size=4))
def test_varints_round_trip_anywhere(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    assert decode_varint(before + encoded + after, len(before)) == (value, len(before) + len(encoded))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_numbers_round_trip(value: int) -> None:
    assert signed64(decode_varint(encode_varint(value), 0)[0]) == value


@given(st.binary(max_size=24), st.integers(0, 24))
def test_varints_of_any_bytes_are_values_or_value_errors(data: bytes, position: int) -> None:
    try:
        value, end = decode_varint(data, position)
    except ValueError:
        return
    assert 0 <= value < 1 << 64
    assert position < end <= len(data)
    assert end - position <= 10


def test_fixed_integers_are_little_endian() -> None:
    assert encode_fixed32(0x01020304) == bytes.fromhex("04 03 02 01")
    assert decode_fixed32(bytes.fromhex("00 04 03 02 01"), 1) == 0x01020304
    assert decode_fixed32(bytes.fromhex("04 03 02 01"), 0) == 0x01020304


@pytest.mark.parametrize("position", [-1, 1, 100])
def test_fixed_integers_stay_within_their_buffer(position: int) -> None:
    with pytest.raises(ValueError, match="past the end"):
        decode_fixed32(b"\0" * 4, position)
