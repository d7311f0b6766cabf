from __future__ import annotations

import glob
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from formats.errors import ChecksumError, CorruptCheckpointError
from formats.wire.coding import encode_varint
from formats.wire.compression import compress
from formats.wire.sstable import (
    BLOCK_SIZE,
    MAGIC,
    BlockHandle,
    Table,
    TableBuilder,
    decode_block,
    encode_block,
)
from tests.support import DATA, data_path, stored_block, table_of, table_tail

Entry = tuple[bytes, bytes]

# formats.md 19.1: the index TensorFlow writes for one tensor `v` = [1.0, 2.0].
WORKED_EXAMPLE = bytes.fromhex(
    "000006 08011a020801 00010f 76 0801 120412020802 2808 35593ce535 00000000 01000000 00 30559358"
    "0000000001000000 00c0f2a1b0"
    "000102 77 0024 0000000001000000 009460b2cd"
    "2908 360e" + "00" * 36 + "57fb808b247547db"
)
WORKED_ENTRIES = [
    (b"", bytes.fromhex("08011a020801")),
    (b"v", bytes.fromhex("0801 120412020802 2808 35593ce535")),
]


def table(data: bytes) -> Table:
    return Table(lambda offset, size: data[offset : offset + size], len(data), "some.index")


def build(entries: list[Entry], block_size: int = BLOCK_SIZE, *, compress: bool = False) -> bytes:
    out = io.BytesIO()
    builder = TableBuilder(out.write, block_size, compress=compress)
    for key, value in entries:
        builder.add(key, value)
    assert builder.finish() == len(out.getvalue())
    return out.getvalue()


def written_by_tensorflow() -> list[str]:
    """Return every table in tests/data that no one has damaged."""
    indexes = glob.glob("**/*.index", root_dir=DATA, recursive=True)
    v1 = glob.glob("v1_format/*/model.ckpt-1*", root_dir=DATA)
    return sorted(path for path in [*indexes, *v1] if not path.startswith("corrupt/"))


def test_worked_example_is_read_and_written_byte_for_byte() -> None:
    assert len(WORKED_EXAMPLE) == 121
    assert list(table(WORKED_EXAMPLE)) == WORKED_ENTRIES
    assert build(WORKED_ENTRIES) == WORKED_EXAMPLE


def test_there_are_tables_by_tensorflow_to_test_with() -> None:
    paths = written_by_tensorflow()
    assert sum(path.endswith(".index") for path in paths) > 150
    assert sum(path.startswith("v1_format") for path in paths) == 4


@pytest.mark.parametrize("path", written_by_tensorflow())
def test_trap_1_tables_are_rebuilt_byte_for_byte(path: str) -> None:
    """The same bytes need block size 262,144, index restart interval 1 and shortened separators."""
    with open(data_path(path), "rb") as file:
        data = file.read()
    entries = list(table(data))
    assert [key for key, _ in entries] == sorted({key for key, _ in entries})
    assert build(entries) == data


@pytest.mark.parametrize("path", written_by_tensorflow()[::10])
@pytest.mark.parametrize(
    ("block_size", "compressed"), [(1, False), (256, False), (256, True), (BLOCK_SIZE, True)]
)
def test_any_block_size_and_snappy_hold_the_same_entries(
    path: str, block_size: int, compressed: bool
) -> None:
    with open(data_path(path), "rb") as file:
        entries = list(table(file.read()))
    again = table(build(entries, block_size, compress=compressed))
    assert list(again) == entries
    assert block_size > 1 or len(again.index) == len(entries)
    for key, value in entries:
        assert again.get(key) == value


def test_empty_table() -> None:
    data = build([])
    assert data.startswith(bytes.fromhex("0000000001000000 00c0f2a1b0"))
    assert list(table(data)) == []
    assert table(data).get(b"") is None


def test_empty_block_is_one_restart_point() -> None:
    assert encode_block([]) == bytes.fromhex("00 00 00 00 01 00 00 00")
    assert decode_block(encode_block([])) == []


def test_restart_points_store_keys_whole() -> None:
    entries = [(b"key%03d" % number, b"") for number in range(40)]
    block = encode_block(entries)
    assert block[-4:] == (3).to_bytes(4, "little")
    for restart in range(3):
        at = int.from_bytes(block[-16 + 4 * restart :][:4], "little")
        assert block[at : at + 9] == b"\0\x06\0" + entries[16 * restart][0]
    assert decode_block(block) == entries


@pytest.mark.parametrize(
    ("last", "following", "separator"),
    [
        (b"abc", b"abf", b"abd"),
        (b"abc", b"abd", b"abc"),  # nothing fits between
        (b"abc", b"abcd", b"abc"),  # one is the other's beginning
        (b"ab\xff", b"ac", b"ab\xff"),
        (b"a1234", b"c", b"b"),
        (b"a\xfe", b"a\xff\xff", b"a\xfe"),
        (b"a\x7f", b"a\x81", b"a\x80"),  # unsigned
    ],
)
def test_separators_between_blocks(last: bytes, following: bytes, separator: bytes) -> None:
    index = table(build([(last, b"1"), (following, b"2")], block_size=1)).index
    assert index[0][0] == separator


@pytest.mark.parametrize(
    ("last", "successor"),
    [(b"zz", b"{"), (b"\xff\xffab", b"\xff\xffb"), (b"\xff\xff", b"\xff\xff"), (b"", b"")],
)
def test_successor_behind_the_last_block(last: bytes, successor: bytes) -> None:
    assert table(build([(last, b"1")])).index[-1][0] == successor


def test_huge_value_sits_alone_in_its_block() -> None:
    entries = [(b"a", b"1"), (b"b", bytes(2 * BLOCK_SIZE)), (b"c", b"2"), (b"d", b"3")]
    read = table(build(entries))
    assert [[key for key, _ in read.entries(handle)] for _, handle in read.index] == [
        [b"a"],
        [b"b"],
        [b"c", b"d"],
    ]
    assert list(read) == entries


def test_block_is_closed_once_it_reaches_its_size() -> None:
    entries = [(b"%05d" % number, bytes(1000)) for number in range(600)]
    read = table(build(entries))
    sizes = [handle.size for _, handle in read.index]
    assert all(BLOCK_SIZE <= size < BLOCK_SIZE + 1100 for size in sizes[:-1])
    assert len(sizes) == 3


def test_builder_refuses_keys_that_do_not_ascend() -> None:
    builder = TableBuilder(lambda _: None)
    builder.add(b"b", b"")
    for key in (b"b", b"a"):
        with pytest.raises(ValueError, match="after b'b'"):
            builder.add(key, b"")


keys = st.one_of(
    st.binary(max_size=6),
    st.lists(st.sampled_from([b"a", b"b", b"/", b"\xff", b"\0"]), max_size=8).map(b"".join),
)


@given(st.dictionaries(keys, st.binary(max_size=40), max_size=60), st.integers(1, 300), st.booleans())
@example({b"": b"", b"\0": b"", b"\xff" * 3: b"x"}, 1, False)
def test_tables_round_trip(content: dict[bytes, bytes], block_size: int, compressed: bool) -> None:
    entries = sorted(content.items())
    read = table(build(entries, block_size, compress=compressed))
    assert list(read) == entries
    for key in (*content, b"absent", b"\xff\xff\xff\xff"):
        assert read.get(key) == content.get(key)


@given(st.dictionaries(keys, st.binary(max_size=20), min_size=1, max_size=40), st.integers(1, 20))
def test_blocks_round_trip_with_any_restart_interval(content: dict[bytes, bytes], interval: int) -> None:
    entries = sorted(content.items())
    assert decode_block(encode_block(entries, interval)) == entries


@given(st.binary(max_size=64))
def test_any_bytes_are_a_block_or_a_value_error(data: bytes) -> None:
    try:
        entries = decode_block(data)
    except ValueError:
        return
    assert sum(len(value) for _, value in entries) <= len(data)


# Damage -------------------------------------------------------------------------


def test_trap_2_block_checksum_covers_the_type_byte_and_is_masked() -> None:
    damaged = bytearray(WORKED_EXAMPLE)
    damaged[36] = 1  # the type byte of the data block
    with pytest.raises(ChecksumError) as caught:
        list(table(bytes(damaged)))
    assert (caught.value.offset, caught.value.code, caught.value.path) == (0, "block-checksum", "some.index")


def test_trap_2_checksum_of_a_snappy_block_covers_the_compressed_bytes() -> None:
    block = encode_block([(b"k%02d" % number, bytes(50)) for number in range(20)])
    packed = compress(block)
    assert list(table(table_of([packed], kinds=[1]))) == decode_block(block)


def test_unknown_block_type_is_corrupt() -> None:
    with pytest.raises(CorruptCheckpointError, match="the block has type 2") as caught:
        list(table(table_of([encode_block([])], kinds=[2])))
    assert caught.value.offset == 0


def test_snappy_bomb_is_rejected_unopened() -> None:
    with pytest.raises(CorruptCheckpointError, match="declares"):
        list(table(table_of([encode_varint(1 << 40) + b"\0a"], kinds=[1])))


def test_keys_that_share_a_long_prefix_cannot_fill_the_memory() -> None:
    """Each entry of four bytes repeats a key of 64 KiB: 13,000 times what is stored."""
    prefix = bytes(65536)
    first = b"\0" + encode_varint(len(prefix)) + b"\0" + prefix
    repeat = encode_varint(len(prefix)) + b"\1\0" + b"x"
    block = first + repeat * 20_000 + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    with pytest.raises(ValueError, match="more than 32 times"):
        decode_block(block)
    with pytest.raises(CorruptCheckpointError, match="more than 32 times"):
        list(table(table_of([block])))


def test_long_keys_as_tensorflow_writes_them_are_not_a_bomb() -> None:
    entries = [(b"x" * 60_000 + b"%04d" % number, b"v") for number in range(200)]
    assert list(table(build(entries))) == entries


def test_one_block_indexed_many_times_is_corrupt() -> None:
    """A few bytes of index for each repetition of a whole block would fill the memory."""
    block = encode_block([(b"k%04d" % number, b"") for number in range(1000)])
    index = [(b"l%06d" % number, BlockHandle(0, len(block))) for number in range(4000)]
    data = stored_block(block) + table_tail(len(block) + 5, index)
    with pytest.raises(CorruptCheckpointError, match="more than once") as caught:
        table(data)
    assert caught.value.code == "footer"


@pytest.mark.parametrize(("times", "is_refused"), [(1, False), (2, True)])
def test_a_block_up_to_the_end_of_the_file_counts(times: int, is_refused: bool) -> None:
    block = encode_block([(b"k%04d" % number, b"") for number in range(1000)])
    index = [(b"l%06d" % number, BlockHandle(0, len(block))) for number in range(times)]
    size = len(stored_block(block) + table_tail(len(block) + 5, index))
    index = [(key, BlockHandle(0, size - 5)) for key, _ in index]
    data = stored_block(block) + table_tail(len(block) + 5, index)
    assert len(data) == size
    if is_refused:
        with pytest.raises(CorruptCheckpointError, match="more than once"):
            table(data)
    else:
        table(data)


def test_more_handles_than_blocks_fit_are_corrupt() -> None:
    """Half a million of them, each to be rejected by itself, took 270 MB."""
    block = encode_block([(b"k", b"")])
    index = [(b"l%06d" % number, BlockHandle(10**9 + number, 100)) for number in range(5000)]
    data = stored_block(block) + table_tail(len(block) + 5, index)
    with pytest.raises(
        CorruptCheckpointError, match="index block: the block of 100004 bytes has more than 4096 entries"
    ):
        table(data)


def test_a_key_too_long_to_be_read_is_rejected_or_left_out() -> None:
    entries = [(b"a", b"1"), (b"k" * ((1 << 20) + 1), b"2"), (b"z", b"3")]
    block = encode_block(entries, 1)
    with pytest.raises(
        ValueError,
        match=r"entry 1 has a key of 1048577 bytes, but at most 1048576 are supported: 'k{40}'\.\.\.",
    ):
        decode_block(block)
    left_out: list[str] = []
    assert decode_block(block, left_out) == [entries[0], entries[2]]
    assert len(left_out) == 1


def test_keys_of_a_block_that_are_long_together_are_rejected() -> None:
    entries = [(b"%02d" % number + b"k" * 1_000_000, b"") for number in range(10)]
    with pytest.raises(ValueError, match="keys of 9000018 bytes"):
        decode_block(encode_block(entries))


@pytest.mark.parametrize(
    ("block", "what"),
    [
        ("", "the block has only 0 bytes"),
        ("00 00 00", "the block has only 3 bytes"),
        ("00 00 00 00", "0 restart points"),
        ("02 00 00 00", "2 restart points"),
        ("ff ff ff ff", "4294967295 restart points"),
        ("01 00 00 00000000 01000000", "entry 0 runs past"),  # shares a byte with no key
        ("00 05 00 61 00000000 01000000", "entry 0 runs past"),
        ("00 01 09 61 62 00000000 01000000", "entry 0 runs past"),
        ("00 ff ff ff ff ff ff ff ff 7f 00 61 00000000 01000000", "entry 0 runs past"),
        ("00 ff ff ff ff ff ff ff ff ff ff 01 00 00000000 01000000", "varint"),
        ("00 01 00 61 00 00000000 01000000", r"varint|runs past"),  # half an entry
    ],
)
def test_malformed_blocks(block: str, what: str) -> None:
    data = bytes.fromhex(block)
    with pytest.raises(ValueError, match=what):
        decode_block(data)
    with pytest.raises(CorruptCheckpointError, match=what) as caught:
        list(table(table_of([data])))
    assert (caught.value.path, caught.value.offset) == ("some.index", 0)


@pytest.mark.parametrize("size", range(121))
def test_truncated_table_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        table(WORKED_EXAMPLE[:size])
    assert caught.value.code == "footer"


@pytest.mark.parametrize("at", range(121))
def test_flipped_bit_never_changes_what_is_read(at: int) -> None:
    for bit in range(8):
        damaged = bytearray(WORKED_EXAMPLE)
        damaged[at] ^= 1 << bit
        try:
            entries = list(table(bytes(damaged)))
        except CorruptCheckpointError as error:
            found = (error.path, error.offset is not None)
        else:
            found = ("some.index", entries == WORKED_ENTRIES)
        assert found == ("some.index", True), bit


def footer(metaindex: BlockHandle, index: BlockHandle) -> bytes:
    return (metaindex.encode() + index.encode()).ljust(40, b"\0") + MAGIC


@pytest.mark.parametrize(
    "index",
    [
        BlockHandle(0, 1 << 62),
        BlockHandle(1 << 62, 14),
        BlockHandle((1 << 64) - 1, (1 << 64) - 1),
        BlockHandle(54, 15),
        BlockHandle(60, 48),
        BlockHandle(0, 0),
    ],
)
def test_footer_that_points_elsewhere_is_corrupt(index: BlockHandle) -> None:
    data = WORKED_EXAMPLE[:73] + footer(BlockHandle(41, 8), index)
    with pytest.raises(CorruptCheckpointError) as caught:
        table(data)
    assert caught.value.code == "footer"


def test_handle_past_the_end_is_corrupt() -> None:
    data = table_of([], index=[(b"k", BlockHandle(0, 1 << 50))])
    with pytest.raises(CorruptCheckpointError):
        list(table(data))


def test_index_value_that_is_not_a_handle_is_corrupt() -> None:
    block = encode_block([(b"k", b"\x80")], 1)
    empty = encode_block([])
    data = stored_block(empty) + stored_block(block) + footer(BlockHandle(0, 8), BlockHandle(13, len(block)))
    with pytest.raises(CorruptCheckpointError, match="index block") as caught:
        table(data)
    assert caught.value.code == "footer"


def test_get_reads_the_one_block_that_may_hold_a_key() -> None:
    data = build([(b"%04d" % number, bytes(100)) for number in range(500)], block_size=1000)
    reads: list[tuple[int, int]] = []

    def read(offset: int, size: int) -> bytes:
        reads.append((offset, size))
        return data[offset : offset + size]

    opened = Table(read, len(data), "some.index")
    reads.clear()
    assert opened.get(b"0250") == bytes(100)
    assert len(reads) == 1
    assert opened.get(b"9999") is None
