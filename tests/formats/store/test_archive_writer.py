"""Zip archives that are written: every field of their headers, below and above four gigabytes."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import Any

import pytest

from formats.store.archive.writer import Zipped, _end


class Target:
    """A file without its first bytes: it begins at a given offset."""

    def __init__(self, begin: int = 0) -> None:
        self.begin, self.data = begin, bytearray()

    @property
    def size(self) -> int:
        return self.begin + len(self.data)

    def write(self, data: Any) -> None:
        self.data += data


def written(begin: int, members: dict[str, bytes]) -> tuple[bytes, int]:
    """Return an archive, and where its directory begins there."""
    target = Target(begin)
    zipped = Zipped(target)  # type: ignore[arg-type]
    for name, data in members.items():
        zipped.add(name, data)
    at = len(target.data)
    zipped.finish()
    return bytes(target.data), at


MEMBERS = {"a/data.pkl": b"pickled", "a/ä": b"x" * 100, "a/empty": b""}


def test_python_reads_what_is_written() -> None:
    data, _ = written(0, MEMBERS)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {info.filename: archive.read(info) for info in archive.infolist()} == MEMBERS
        for info in archive.infolist():
            stored = MEMBERS[info.filename]
            flags = 0x808 if stored else 0x800
            assert (info.flag_bits, info.compress_type, info.CRC) == (flags, 0, zlib.crc32(stored))
            assert info.date_time == (1980, 0, 0, 0, 0, 0)
            assert (info.create_version, info.create_system, info.extract_version) == (0, 0, 0)
            assert (info.extra, info.comment, info.volume) == (b"", b"", 0)
            assert (info.internal_attr, info.external_attr) == (0, 0)
            name = info.filename.encode()
            local = struct.unpack_from("<4sHHHHHIIIHH", data, info.header_offset)
            padding = local[-1] - 4
            assert local[:-1] == (b"PK\3\4", 0, flags, 0, 0, 0, 0, 0, 0, len(name))
            begin = info.header_offset + 30 + len(name)
            assert data[begin : begin + 4 + padding] == struct.pack("<HH", 0x4246, padding) + b"Z" * padding
            at = begin + 4 + padding
            assert at % 64 == 0
            assert padding < 64
            assert data[at : at + len(stored)] == stored
            behind = struct.pack("<4sIII", b"PK\7\x08", zlib.crc32(stored), len(stored), len(stored))
            assert not stored or data[at + len(stored) :].startswith(behind)


def test_a_small_archive_ends_with_a_short_record() -> None:
    data, directory = written(0, MEMBERS)
    size = len(data) - 22 - directory
    assert data[-22:] == struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 3, 3, size, directory, 0)
    assert b"PK\6\6" not in data


@pytest.mark.parametrize("begin", [(1 << 32) - 1, 1 << 32, 5 << 30])
def test_offsets_beyond_four_gigabytes_are_in_records_of_64_bits(begin: int) -> None:
    data, directory = written(begin, {"m": b"abc"})
    entry = struct.unpack_from("<4sHHHHHHIIIHHHHHII", data, directory)
    short = 0xFFFFFFFF
    crc = zlib.crc32(b"abc")
    assert entry == (b"PK\1\2", 45, 45, 0x808, 0, 0, 0, crc, 3, 3, 1, 12, 0, 0, 0, 0, short)
    assert data[directory + 46 : directory + 59] == b"m" + struct.pack("<HHQ", 1, 8, begin)
    end, size = directory + 59, 59
    record = struct.unpack_from("<4sQHHIIQQQQ", data, end)
    assert record == (b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, begin + directory)
    assert struct.unpack_from("<4sIQI", data, end + 56) == (b"PK\6\7", 0, begin + end, 1)
    assert data[end + 76 :] == struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, size, short, 0)


def test_the_last_offset_of_32_bits_needs_no_others() -> None:
    data, directory = written((1 << 32) - 200, {"m": b"abc"})
    assert struct.unpack_from("<HHH", data, directory + 4) == (0, 0, 0x808)
    assert b"PK\6\6" not in data


@pytest.mark.parametrize(("count", "is_long"), [(65_534, False), (65_535, True)])
def test_more_members_than_16_bits_count_are_counted_in_64(count: int, is_long: bool) -> None:
    end = _end(count, 1000, 3000)
    short = min(count, 0xFFFF)
    assert end[-22:] == struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, short, short, 2000, 1000, 0)
    assert len(end) == (98 if is_long else 22)
    if is_long:
        record = struct.unpack_from("<4sQHHIIQQQQ", end)
        assert record == (b"PK\6\6", 44, 45, 45, 0, 0, count, count, 2000, 1000)


def test_a_member_of_four_gigabytes_has_sizes_of_64_bits() -> None:
    target = Target()
    zipped = Zipped(target)  # type: ignore[arg-type]
    size = (1 << 32) - 1
    zipped.begin("m", size)
    local = struct.unpack_from("<4sHHHHHIIIHH", target.data)
    assert local[:-1] == (b"PK\3\4", 45, 0x808, 0, 0, 0, 0, size, size, 1)
    assert target.data[31:51] == struct.pack("<HHQQ", 1, 16, size, size)
    target.begin += size  # as if it were written
    zipped.end()
    directory = len(target.data)
    assert target.data[directory - 24 :] == struct.pack("<4sIQQ", b"PK\7\x08", 0, size, size)
    zipped.finish()
    entry = struct.unpack_from("<4sHHHHHHIIIHHHHHII", target.data, directory)
    assert entry == (b"PK\1\2", 45, 45, 0x808, 0, 0, 0, 0, size, size, 1, 20, 0, 0, 0, 0, 0)
    assert target.data[directory + 47 : directory + 67] == struct.pack("<HHQQ", 1, 16, size, size)


def test_a_member_of_another_size_than_was_reported_is_an_error() -> None:
    zipped = Zipped(Target())  # type: ignore[arg-type]
    zipped.begin("m", 3)
    zipped.write(b"ab")
    with pytest.raises(ValueError, match="member has 2 bytes; expected 3"):
        zipped.end()
