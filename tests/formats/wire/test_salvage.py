"""Blocks of tables without a footer, found by walking; what can be read of damaged ones."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.store.local.files import LocalFile
from formats.store.readahead import ReadAhead
from formats.wire.coding import encode_varint
from formats.wire.salvage import find_blocks, readable_entries
from formats.wire.sstable import BLOCK_SIZE, FOOTER_SIZE, BlockHandle, Table, encode_block
from tests.formats.wire.test_sstable import build, table, written_by_tensorflow
from tests.support import data_path, stored_block

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = struct.pack("<20000q", *range(20_000))
"""Small numbers of 64 bits: a count of restart points, by the look of it, every eight bytes."""

ENTRIES = [(b"", b"header"), *((b"key%03d" % number, b"v" * (number % 90)) for number in range(400))]


def walked(path: Path, data: bytes) -> tuple[list[BlockHandle], int | None]:
    """Return the sound blocks that are found, and where what is not sound begins, None where nothing is."""
    path.write_bytes(data)
    with LocalFile(str(path)) as file:
        found = list(find_blocks(ReadAhead(file).read, file.size))
    assert all(block.is_sound for block in found[:-1])
    rest = None if not found or found[-1].is_sound else found.pop().handle.offset
    return [block.handle for block in found], rest


def handles(of: Table) -> list[BlockHandle]:
    return [handle for _, handle in of.index]


@pytest.mark.parametrize(
    ("block_size", "compressed"), [(1, False), (300, False), (300, True), (BLOCK_SIZE, False)]
)
def test_blocks_are_found_without_footer_and_index(tmp_path: Path, block_size: int, compressed: bool) -> None:
    data = build(ENTRIES, block_size, compress=compressed)
    assert walked(tmp_path / "t", data[:-FOOTER_SIZE]) == (handles(table(data)), None)


@pytest.mark.parametrize("path", written_by_tensorflow())
def test_blocks_of_tensorflow_are_found(tmp_path: Path, path: str) -> None:
    with open(data_path(path), "rb") as file:
        data = file.read()
    assert walked(tmp_path / "t", data[:-FOOTER_SIZE]) == (handles(table(data)), None)


def test_values_that_look_like_the_end_of_a_block_are_values(tmp_path: Path) -> None:
    data = build(
        [(b"", b"header"), (b"a", NUMBERS), (b"b", bytes(5000)), (b"c", encode_block([(b"k", b"v")]))]
    )
    assert walked(tmp_path / "t", data[:-FOOTER_SIZE]) == (handles(table(data)), None)


def test_nothing_is_found_behind_damage_and_a_cut_is_reported(tmp_path: Path) -> None:
    data = build(ENTRIES, 300)
    known = handles(table(data))
    third = known[2].offset
    damaged = bytearray(data)
    damaged[third + 50] ^= 1
    assert walked(tmp_path / "t", bytes(damaged)) == (known[:2], third)
    assert walked(tmp_path / "t", data[:third]) == (known[:2], third)  # at the end of a block, too
    assert walked(tmp_path / "t", data[: third + 20]) == (known[:2], third)
    assert walked(tmp_path / "t", b"") == ([], 0)


@pytest.mark.parametrize(
    "hostile",
    [
        b"\0" + b"\xff" * 9 + b"\1" + b"\0",  # a key that ends beyond every file
        b"\0\1\0k" * 50_000 + bytes(4) + b"\1\0\0\0",  # more entries than there can be
        b"\0\1\5kvalue" + bytes(4) * 1000 + b"\xe8\3\0\0",  # restart points that do not rise
        b"\5\1\0k" + bytes(4) + b"\1\0\0\0",  # shares five bytes with nothing
        encode_varint(1 << 40) + b"\xff" * 50,  # snappy of a tebibyte
    ],
)
def test_blocks_with_false_sizes_end_the_walk(tmp_path: Path, hostile: bytes) -> None:
    assert walked(tmp_path / "t", stored_block(hostile)) == ([], 0)


@given(st.randoms(use_true_random=False), st.integers(1, 2000))
def test_any_table_is_walked_as_its_index_says(
    tmp_path_factory: pytest.TempPathFactory, source: random.Random, block_size: int
) -> None:
    keys = sorted({source.randbytes(source.randint(1, 20)) for _ in range(50)})
    entries = [(b"", b"h"), *((key, source.randbytes(source.choice((0, 3, 200)))) for key in keys)]
    data = build(entries, block_size)
    path = tmp_path_factory.getbasetemp() / "any"
    assert walked(path, data[:-FOOTER_SIZE]) == (handles(table(data)), None)


def test_readable_entries_end_where_they_make_no_sense() -> None:
    entries = [(b"key%02d" % number, b"value") for number in range(40)]
    block = encode_block(entries)
    assert list(readable_entries(block)) == entries
    at = block.index(b"key32")
    assert list(readable_entries(block[: at + 7])) == entries[:32]
    assert list(readable_entries(block[: at - 3] + b"\xff" * 20)) == entries[:32]


def test_readable_entries_are_bounded() -> None:
    """A key of 64 KiB again and again, of four bytes each, took three gigabytes."""
    size = encode_varint(1 << 16)
    first = b"\0" + size + b"\0" + b"k" * (1 << 16)
    found = list(readable_entries(first + (size + b"\1\0x") * 50_000))
    assert sum(len(key) for key, _ in found) < 16 << 20
    assert len(list(readable_entries(b"\0\1\0k" * 100_000))) == 1 << 16
    assert not list(readable_entries(b"\0" + encode_varint(2 << 20) + b"\0" + b"k" * (2 << 20)))


@pytest.mark.parametrize("seed", range(200))
def test_blocks_found_in_damaged_tables_hold_what_was_written(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    data = bytearray(
        build(ENTRIES[: source.randint(2, 60)], source.choice((64, 300, 5000)), compress=seed % 3 == 0)
    )
    good = table(bytes(data))
    # Without the empty block before it, the index block looks like the others.
    separators = {key for key, _ in good.index}
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(data))
        change = source.choice((b"", bytes((data[at] ^ 1 << source.randrange(8),)), source.randbytes(5)))
        data[at : at + max(1, source.randint(-5, 5))] = change
    places, _ = walked(tmp_path / "t", bytes(data))
    found = Table.of_blocks(lambda offset, size: bytes(data[offset : offset + size]), len(data), "t", [])
    written = dict(good)
    for key, value in (entry for place in places for entry in found.entries(place)):
        assert written.get(key) == value or key in separators


@pytest.mark.parametrize(("count", "is_sound"), [(4096, True), (4097, False)])
def test_entries_of_few_bytes_are_counted_in_every_block(tmp_path: Path, count: int, is_sound: bool) -> None:
    """A block of little content has at most 4,096 entries, with any number of bytes before it."""
    first = stored_block(b"\0\1" + encode_varint(100_000) + b"k" + bytes(100_000) + struct.pack("<II", 0, 1))
    second = b"\0\1\0k" + b"\1\0\1v" * (count - 1) + struct.pack("<II", 0, 1)
    found, rest = walked(tmp_path / "t", first + stored_block(second))
    assert (len(found), rest) == ((2, len(first + stored_block(second))) if is_sound else (1, len(first)))
