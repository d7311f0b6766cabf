from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.core import dtypes
from formats.core.chunks import PIECE
from formats.core.dtypes import BY_NAME, STRING, VARIANT
from formats.tf.bundle import payload
from formats.wire.coding import encode_varint
from formats.wire.crc32c import crc32c, extend, mask

if TYPE_CHECKING:
    from collections.abc import Callable


def reader(data: bytes) -> Callable[[int, int], bytes]:
    def read(offset: int, size: int) -> bytes:
        assert offset >= 0
        assert offset + size <= len(data), "read past the tensor's end"
        return data[offset : offset + size]

    return read


def decode(
    data: bytes, dtype: dtypes.DType, count: int, *, big_endian: bool = False
) -> tuple[list[bytes], int]:
    """Return the elements and the masked checksum."""
    read = reader(data)
    crc = payload.checksum(read, dtype, count, len(data), big_endian=big_endian)
    places = payload.elements(read, dtype, count, len(data), big_endian=big_endian)
    return [read(*place) for place in places], mask(crc)


STRINGS_19_3 = bytes.fromhex("02 00 01 65 14 8e 11 61 62 63")
VARIANT_19_4 = bytes.fromhex(
    "3e"
    "0a 16 74 65 6e 73 6f 72 66 6c 6f 77 3a 3a 54 65 6e 73 6f 72 4c 69 73 74"
    "12 0c 00 01 ff ff ff ff ff ff ff ff ff 01"
    "1a 0a 08 01 12 00 2a 04 00 00 80 3f"
    "1a 0a 08 01 12 00 2a 04 00 00 00 40"
    "e7 f6 e3 e6"
)


def test_strings_of_the_reference() -> None:
    assert decode(STRINGS_19_3, STRING, 3) == ([b"ab", b"", b"c"], 0xED36D31C)
    data, crc = payload.encode_strings([b"ab", b"", b"c"])
    assert (data, crc, mask(crc)) == (STRINGS_19_3, 0xF4222559, 0xED36D31C)


def test_variant_of_the_reference() -> None:
    assert len(VARIANT_19_4) == 67
    assert decode(VARIANT_19_4, VARIANT, 1) == ([VARIANT_19_4[1:63]], 0xE44362F7)
    data, crc = payload.encode_variants([VARIANT_19_4[1:63]])
    assert (data, mask(crc)) == (VARIANT_19_4, 0xE44362F7)


def test_trap_5_no_strings_are_four_bytes() -> None:
    data, crc = payload.encode_strings([])
    assert (data, mask(crc)) == (bytes.fromhex("d8 ea 82 a2"), 0x640CC1F6)
    assert decode(data, STRING, 0) == ([], 0x640CC1F6)


def test_no_strings_in_no_bytes_are_tolerated_as_tensorflow_does() -> None:
    assert decode(b"", STRING, 0) == ([], mask(0))


def test_no_variants_are_not_bytes() -> None:
    assert payload.encode_variants([]) == (b"", 0)
    assert decode(b"", VARIANT, 0) == ([], mask(0))


def test_trap_4_variants_count_lengths_as_eight_bytes_and_continue_after_each_checksum() -> None:
    values = [b"a", b"bc"]
    crc = extend(crc32c(struct.pack("<Q", 1)), b"a")
    first = struct.pack("<I", mask(crc))
    crc = extend(extend(extend(crc, first), struct.pack("<Q", 2)), b"bc")
    second = struct.pack("<I", mask(crc))
    assert payload.encode_variants(values)[0] == b"\1a" + first + b"\2bc" + second


def test_big_endian_strings_swap_lengths_and_their_checksum() -> None:
    crc = crc32c(struct.pack(">II", 2, 1))
    stored = struct.pack(">I", mask(crc))
    data = b"\2\1" + stored + b"abc"
    assert decode(data, STRING, 2, big_endian=True) == (
        [b"ab", b"c"],
        mask(extend(extend(crc, stored), b"abc")),
    )
    with pytest.raises(ValueError, match="the string lengths have checksum"):
        decode(data, STRING, 2)


def test_length_beyond_32_bits_counts_as_eight_bytes() -> None:
    """The sizes are checked before the bytes of such a string are looked for."""
    length = (1 << 32) + 5
    stored = struct.pack("<I", mask(crc32c(struct.pack("<Q", length))))
    data = encode_varint(length) + stored + b"short"
    with pytest.raises(ValueError, match="strings need 4294967301 bytes, but 5 are stored"):
        decode(data, STRING, 1)


def lengths(*values: int) -> bytes:
    crc = crc32c(b"".join(struct.pack("<I" if value < 1 << 32 else "<Q", value) for value in values))
    return b"".join(map(encode_varint, values)) + struct.pack("<I", mask(crc))


@pytest.mark.parametrize(
    ("data", "count", "what"),
    [
        (b"", 1, "0 bytes are too few for 1 strings"),
        (b"\1", 1 << 60, "1 bytes are too few for "),
        (b"\x80", 1, "too few for its elements"),
        (b"\1\1\1", 1, "4 bytes, but only 2 are left"),
        (b"\xff" * 12, 1, "varint"),
        (lengths(5) + b"abc", 1, "strings need 5 bytes, but 3 are stored"),
        (lengths(1) + b"abc", 1, "strings need 1 bytes, but 3 are stored"),
        (b"\2\1" + lengths(1, 2)[2:] + b"abc", 2, "the string lengths have checksum"),
        (lengths((1 << 64) - 1) + b"abc", 1, "strings need 18446744073709551615 bytes"),
    ],
)
def test_strings_that_contradict_themselves(data: bytes, count: int, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        payload.checksum(reader(data), STRING, count, len(data))


@pytest.mark.parametrize(
    ("data", "count", "what"),
    [
        (b"", 1, "0 bytes are too few for 1 variants"),
        (b"\1", 1 << 60, "1 bytes are too few for"),
        (b"\5abc", 1, "5 bytes, but only 3 are left"),
        (b"\1a\0\0", 1, "4 bytes, but only 2 are left"),
        (b"\1a\0\0\0\0", 1, "a variant has checksum"),
        (VARIANT_19_4 + b"x", 1, "variants need 67 bytes, but 68 are stored"),
        (b"\xff" * 9 + b"\1", 1, "are left"),
    ],
)
def test_variants_that_contradict_themselves(data: bytes, count: int, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        payload.checksum(reader(data), VARIANT, count, len(data))


elements = st.lists(st.one_of(st.binary(max_size=12), st.binary(min_size=120, max_size=300)), max_size=8)


@given(elements)
def test_strings_round_trip(values: list[bytes]) -> None:
    data, crc = payload.encode_strings(values)
    assert decode(data, STRING, len(values)) == (values, mask(crc))


@given(elements)
def test_variants_round_trip(values: list[bytes]) -> None:
    data, crc = payload.encode_variants(values)
    assert decode(data, VARIANT, len(values)) == (values, mask(crc))


@pytest.mark.parametrize("encode", [payload.encode_strings, payload.encode_variants])
def test_elements_across_pieces(encode: Callable[[list[bytes]], tuple[bytes, int]]) -> None:
    values = [bytes(PIECE - 3), b"x" * 7, b"", bytes(range(256)) * 8192, b"end"]
    data, crc = encode(values)
    dtype = STRING if encode is payload.encode_strings else VARIANT
    assert decode(data, dtype, 5) == (values, mask(crc))


@given(st.binary(max_size=40), st.integers(0, 6))
def test_any_bytes_are_elements_or_a_value_error(data: bytes, count: int) -> None:
    for dtype in (STRING, VARIANT):
        try:
            found, _ = decode(data, dtype, count)
        except ValueError:
            continue
        assert len(found) == count


@given(st.binary(max_size=64))
def test_checksum_of_numbers_is_that_of_their_bytes(data: bytes) -> None:
    assert payload.checksum(reader(data), dtypes.BY_NAME["uint8"], len(data), len(data)) == crc32c(data)


@pytest.mark.parametrize(
    "name", ["float32", "complex64", "complex128", "uint16", "bfloat16", "float16", "int64"]
)
def test_big_endian_numbers_are_swapped_and_complex_ones_by_halves(name: str) -> None:
    numpy = dtypes.BY_NAME[name].numpy
    native = np.arange(1, 5).astype(numpy)
    half = numpy.itemsize // 2 if name.startswith("complex") else numpy.itemsize
    stored = native.view(f"u{half}").byteswap().view(numpy)
    assert payload.decode_numbers(stored.copy(), big_endian=True).tobytes() == native.tobytes()
    assert payload.decode_numbers(native.copy(), big_endian=False).tobytes() == native.tobytes()


def test_single_bytes_have_no_order() -> None:
    for name in ("bool", "int8", "float8_e5m2", "int4"):
        array = np.array([0, 1], dtypes.BY_NAME[name].numpy)
        assert payload.decode_numbers(array.copy(), big_endian=True).tobytes() == array.tobytes()


def test_the_checksum_of_chunks_is_that_of_the_bytes_in_a_bundle() -> None:
    numbers = [b"\x01\x02\x03\x04", b"", b"\x05\x06\x07\x08"]
    assert payload.chunks_checksum(BY_NAME["float32"], numbers) == (8, crc32c(b"".join(numbers)))
    texts = [b"ab", b"", b"c"]
    for dtype, encode in ((STRING, payload.encode_strings), (VARIANT, payload.encode_variants)):
        data, crc = encode(texts)
        assert payload.chunks_checksum(dtype, texts) == (len(data), crc)
