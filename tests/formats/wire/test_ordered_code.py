from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.wire.ordered_code import decode_num, decode_snum, decode_str, encode_num, encode_snum, encode_str

# The tables of formats.md section 5, from files written by TensorFlow.
NUMS = [(0, "00"), (1, "01 01"), (255, "01 ff"), (256, "02 01 00"), (65536, "03 01 00 00")]
SNUMS = [
    (0, "80"),
    (1, "81"),
    (63, "bf"),
    (64, "c0 40"),
    (8191, "df ff"),
    (8192, "e0 20 00"),
    (100000, "e1 86 a0"),
    (2899930, "f0 2c 3f da"),
    (1 << 31, "f8 80 00 00 00"),
    (1 << 34, "fc 04 00 00 00 00"),
    (1 << 48, "ff 01 00 00 00 00 00 00"),
    (1 << 55, "ff 80 80 00 00 00 00 00 00"),
    (1 << 62, "ff c0 40 00 00 00 00 00 00 00"),
    ((1 << 63) - 1, "ff c0 7f ff ff ff ff ff ff ff"),
    (-1, "7f"),
    (-2, "7e"),
    (-64, "40"),
    (-65, "3f bf"),
    (-8192, "20 00"),
    (-8193, "1f df ff"),
]
STRINGS = [
    (b"", "00 01"),
    (b"part", "70 61 72 74 00 01"),
    (b"\0", "00 ff 00 01"),
    (b"\xff", "ff 00 00 01"),
    (b"a\0\xffb", "61 00 ff ff 00 62 00 01"),
    (b"\xff\0", "ff 00 00 ff 00 01"),
]

unsigned = st.integers(0, (1 << 64) - 1)
signed = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(0, 62).flatmap(lambda bits: st.integers(-(1 << bits) - 2, (1 << bits) + 2)),
)
text = st.lists(st.sampled_from([b"\0", b"\1", b"\xfe", b"\xff", b"a"]), max_size=8).map(b"".join)


@pytest.mark.parametrize(("value", "encoded"), NUMS)
def test_known_unsigned_numbers(value: int, encoded: str) -> None:
    assert encode_num(value) == bytes.fromhex(encoded)
    assert decode_num(bytes.fromhex(encoded), 0)[0] == value


@pytest.mark.parametrize(("value", "encoded"), SNUMS)
def test_known_signed_numbers(value: int, encoded: str) -> None:
    assert encode_snum(value) == bytes.fromhex(encoded)
    assert decode_snum(bytes.fromhex(encoded), 0) == (value, len(bytes.fromhex(encoded)))


@pytest.mark.parametrize(("value", "encoded"), STRINGS)
def test_known_strings(value: bytes, encoded: str) -> None:
    assert encode_str(value) == bytes.fromhex(encoded)
    assert decode_str(bytes.fromhex(encoded), 0) == (value, len(bytes.fromhex(encoded)))


@given(unsigned, unsigned)
def test_order_of_unsigned_numbers_is_that_of_their_bytes(left: int, right: int) -> None:
    assert (encode_num(left) < encode_num(right)) == (left < right)
    assert decode_num(b"x" + encode_num(left) + b"y", 1) == (left, 1 + len(encode_num(left)))


@given(signed, signed)
def test_order_of_signed_numbers_is_that_of_their_bytes(left: int, right: int) -> None:
    assert (encode_snum(left) < encode_snum(right)) == (left < right)
    assert decode_snum(b"x" + encode_snum(left) + b"y", 1) == (left, 1 + len(encode_snum(left)))


@given(st.one_of(text, st.binary(max_size=8)), st.one_of(text, st.binary(max_size=8)))
def test_order_of_strings_is_that_of_their_bytes(left: bytes, right: bytes) -> None:
    assert (encode_str(left) < encode_str(right)) == (left < right)
    assert decode_str(b"x" + encode_str(left) + b"y", 1) == (left, 1 + len(encode_str(left)))


@pytest.mark.parametrize(
    "data", ["", "01", "02 01", "09 01 02 03 04 05 06 07 08 09", "01 00", "02 00 01", "ff", "08 01 02 03"]
)
def test_malformed_unsigned_numbers(data: str) -> None:
    with pytest.raises(ValueError, match="number"):
        decode_num(bytes.fromhex(data), 0)


@pytest.mark.parametrize(
    "data",
    [
        "",
        "c0",  # two bytes announced, one there
        "ff c0 40",
        "ff ff ff ff ff ff ff ff ff ff ff",  # sixteen leading ones
        "00 00 00 00 00 00 00 00 00 00 00",
        "ff e0 00 00 00 00 00 00 00 00 00",  # eleven bytes
        "c0 00",  # 0, not in its shortest form
        "3f ff",  # -1, not in its shortest form
        "ff c0 80 00 00 00 00 00 00 00",  # 2**63
    ],
)
def test_malformed_signed_numbers(data: str) -> None:
    with pytest.raises(ValueError, match="number"):
        decode_snum(bytes.fromhex(data), 0)


@pytest.mark.parametrize(
    "data", ["", "00", "61", "61 00", "00 02 00 01", "ff 01 00 01", "ff", "00 00 00 01", "ff ff 00 01"]
)
def test_malformed_strings(data: str) -> None:
    with pytest.raises(ValueError, match=r"string|escape"):
        decode_str(bytes.fromhex(data), 0)


@given(st.binary(max_size=12))
def test_what_decodes_from_any_bytes_encodes_to_them_again(data: bytes) -> None:
    for decode, encode in ((decode_num, encode_num), (decode_snum, encode_snum), (decode_str, encode_str)):
        try:
            value, end = decode(data, 0)
        except ValueError:
            continue
        assert encode(value) == data[:end]


@pytest.mark.parametrize(
    ("data", "size"), [("c0", 2), ("3f", 2), ("ff c0 7f ff", 10), ("ff ff", 16), ("ff ff" + " 00" * 20, 16)]
)
def test_signed_numbers_that_are_cut_off_or_too_long(data: str, size: int) -> None:
    with pytest.raises(ValueError, match=f"a number of {size} bytes is invalid"):
        decode_snum(bytes.fromhex(data), 0)
