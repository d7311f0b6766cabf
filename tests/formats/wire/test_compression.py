from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.wire.coding import encode_varint
from formats.wire.compression import compress, decompress


def test_literal_block_by_hand() -> None:
    # Length 5, then a literal of five bytes: tag (5 - 1) << 2.
    assert decompress(bytes.fromhex("05 10") + b"hello") == b"hello"


def test_copy_block_by_hand() -> None:
    # Literal "ab", then a copy of 6 bytes from 2 bytes back: tag 0b10 with a length of 6 - 1.
    assert decompress(bytes.fromhex("08 04 61 62 16 02 00")) == b"abababab"


def test_empty_block() -> None:
    assert decompress(b"\0") == b""


@given(st.one_of(st.binary(max_size=300), st.binary(max_size=4).map(lambda piece: piece * 500)))
def test_blocks_round_trip(data: bytes) -> None:
    assert decompress(compress(data)) == data


def test_best_ratio_of_snappy_is_not_mistaken_for_a_bomb() -> None:
    data = bytes(1 << 20)
    assert decompress(compress(data)) == data


@pytest.mark.parametrize("claimed", [1 << 31, 1 << 40, (1 << 64) - 1])
def test_claimed_length_is_checked_before_anything_is_allocated(claimed: int) -> None:
    with pytest.raises(ValueError, match="declares"):
        decompress(encode_varint(claimed) + b"\0a")


@pytest.mark.parametrize(
    "data",
    [
        "",
        "80",
        "05",
        "05 10 68 65",  # a literal cut short
        "04 16 02 00",  # a copy of what does not exist
        "06 10 68 65 6c 6c 6f",  # fewer bytes than declared
        "02 10 68 65 6c 6c 6f",  # more bytes than declared
    ],
)
def test_malformed_blocks(data: str) -> None:
    with pytest.raises(ValueError, match=r"snappy|varint"):
        decompress(bytes.fromhex(data))


@given(st.binary(max_size=60))
def test_any_bytes_decompress_or_are_a_value_error(data: bytes) -> None:
    try:
        content = decompress(data)
    except ValueError:
        return
    assert decompress(compress(content)) == content
