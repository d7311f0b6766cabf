"""Blocks parsed by all restart points at once: as one entry after the other, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.wire.spans import find_spans
from formats.wire.sstable import decode_columns, encode_block

KEYS = st.binary(min_size=1, max_size=5) | st.binary(max_size=300) | st.just(b"k" * 20_000)


def agrees(block: bytes) -> bool:
    """Compare the spans of a block with its entries; return whether there are spans."""
    spans = find_spans(block)
    if spans is None:
        return False
    keys, values = decode_columns(block)  # which raises nothing, then
    assert spans.keys(block) == keys
    places = zip(spans.value.tolist(), spans.end.tolist(), strict=True)
    assert [block[at:end] for at, end in places] == values
    return True


@given(st.dictionaries(KEYS, st.binary(max_size=200), min_size=1, max_size=50), st.integers(1, 40))
def test_blocks_that_a_table_has_are_found(content: dict[bytes, bytes], interval: int) -> None:
    block = encode_block(sorted(content.items()), interval)
    assert agrees(block) == all(len(key) < 1 << 14 for key in content)


@pytest.mark.parametrize(
    ("size", "is_found"), [(1, True), (127, True), (128, True), (16_383, True), (16_384, False)]
)
def test_lengths_of_one_or_two_bytes_are_found(size: int, is_found: bool) -> None:
    long = b"k" * (size - 1)
    assert agrees(encode_block([(b"a" + long, b""), (b"b", b"")])) == is_found
    assert agrees(encode_block([(b"a", b""), (b"b", b"v" * size)])) == is_found
    if size < 2000:  # the rest of a key that shares so much with the one before it
        assert agrees(encode_block([(b"a" + long, b""), (b"a" + long + b"b", b"")]))


def test_a_block_whose_last_lengths_continue_behind_it_is_left() -> None:
    block = bytearray(encode_block([(b"a", b""), (b"b", b"")], 1))
    end = len(block) - 12
    for at in range(end - 4, end - 1):
        spoiled = block.copy()
        spoiled[at:] = b"\xff" * (end - at) + spoiled[end:]
        assert not agrees(bytes(spoiled))


@given(
    st.dictionaries(KEYS, st.binary(max_size=9), min_size=1, max_size=20),
    st.integers(1, 20),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_a_spoiled_block_is_read_alike_or_left(
    content: dict[bytes, bytes], interval: int, spoiled: list[tuple[int, int]]
) -> None:
    block = bytearray(encode_block(sorted(content.items()), interval))
    for at, byte in spoiled:
        block[at % len(block)] = byte
    agrees(bytes(block))


@given(st.binary(max_size=64))
def test_any_bytes_are_read_alike_or_left(data: bytes) -> None:
    agrees(data)


def test_keys_that_share_a_long_prefix_are_left_to_who_counts_them() -> None:
    entries = [(b"k" * 16_000 + b"%05d" % number, b"") for number in range(600)]
    assert not agrees(encode_block(entries))


def test_chains_of_thousands_are_left() -> None:
    entries = [(b"%05d" % number, b"") for number in range(3000)]
    assert agrees(encode_block(entries, 16))
    assert not agrees(encode_block(entries, 3000))
