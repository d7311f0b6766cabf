"""TFRecord framing: exact bytes, every cut, every damaged byte."""

from __future__ import annotations

from formats.wire.crc32c import masked_crc32c
from formats.wire.tfrecord import Record, encode_record, iter_records

FIRST = bytes.fromhex(
    "3e00000000000000 d9d240e7 090000c0c554c0da41 1a0d627261696e2e4576656e743a32"
    "52240a2274656e736f72666c6f772e636f72652e7574696c2e6576656e74735f777269746572 0d905d9e"
)
"""The first record of an event file that TensorFlow 2.15 wrote."""


def read(data: bytes, largest: int = 1 << 20) -> list[Record]:
    return list(iter_records(lambda offset, size: data[offset : offset + size], len(data), largest))


def test_the_bytes_are_tensorflows() -> None:
    payload = FIRST[12:-4]
    assert encode_record(payload) == FIRST
    assert read(FIRST) == [Record(0, payload)]


def test_records_follow_each_other() -> None:
    payloads = [b"", b"a", b"b" * 31, b"c" * 1000, b"", b"d"]
    found = read(b"".join(map(encode_record, payloads)))
    assert [record.payload for record in found] == payloads
    assert all(record.flaw is None for record in found)


def test_every_cut_gives_the_whole_records_and_says_that_it_is_cut() -> None:
    whole = [encode_record(b"one"), encode_record(b"two" * 9)]
    data = b"".join(whole)
    ends = [0, len(whole[0]), len(data)]
    for size in range(len(data) + 1):
        found = read(data[:size])
        complete = max(number for number, end in enumerate(ends) if end <= size)
        assert [record.payload for record in found if record.payload is not None] == [b"one", b"two" * 9][
            :complete
        ]
        last = found[-1] if found else Record(0, b"")
        if size in ends:
            assert last.flaw is None
        else:
            assert last.offset == ends[complete]
            assert last.flaw is not None
            assert last.flaw.startswith(f"the file ends {size - ends[complete]} bytes into a record")


def test_no_changed_byte_passes_and_a_damaged_payload_is_passed_over() -> None:
    payloads = [b"first", b"second", b"third"]
    data = b"".join(map(encode_record, payloads))
    begin = len(encode_record(payloads[0]))
    end = begin + len(encode_record(payloads[1]))
    for at in range(begin, end):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        found = read(bytes(damaged))
        (flawed,) = (record for record in found if record.flaw is not None)
        assert (flawed.offset, flawed.payload) == (begin, None)
        assert "checksum" in flawed.flaw
        in_length = at < begin + 12
        assert [record.payload for record in found] == [b"first", None] + ([] if in_length else [b"third"])


def test_a_length_is_believed_neither_without_its_checksum_nor_past_the_end() -> None:
    huge = (1 << 62).to_bytes(8, "little")
    (record,) = read(huge + bytes(8))
    assert record.flaw == "a record's length has checksum 0x00f0857f, but the stored one is 0x00000000"
    checksum = masked_crc32c(huge).to_bytes(4, "little")
    (record,) = read(huge + checksum + b"x" * 40)
    assert record.flaw == f"the file ends 52 bytes into a record of {(1 << 62) + 16} bytes"


def test_what_is_too_large_is_passed_over_unread() -> None:
    data = b"".join(map(encode_record, (b"a", b"b" * 11, b"c")))
    asked: list[tuple[int, int]] = []

    def reading(offset: int, size: int) -> bytes:
        asked.append((offset, size))
        return data[offset : offset + size]

    found = list(iter_records(reading, len(data), 10))
    assert [(record.payload, record.flaw) for record in found] == [(b"a", None), (None, None), (b"c", None)]


def test_a_file_that_shrinks_while_it_is_read() -> None:
    data = encode_record(b"x" * 10)
    (record,) = iter_records(lambda offset, size: data[offset : min(offset + size, 20)], len(data), 100)
    assert (record.payload, record.flaw) == (None, "the file ends 20 bytes into a record")
