"""Zip archives that are written: members stored as they are, each where it can be mapped.

    members:            (PK 3 4) name, above 4 GiB both sizes (extra field 1), padding (extra field
                        FB), data; after the data (PK 7 8) CRC-32, both sizes
    central directory:  (PK 1 2) per member: name, sizes, CRC-32, offset of its header
    end:                (PK 5 6), after (PK 6 6) and (PK 6 7) if numbers are too large for it

The output equals that of torch.save: data begin at multiples of 64 bytes, checksums follow them, and there
are no times, so the same members produce the same bytes. A member's bytes arrive in order, or their range is
reserved and filled in any order. PKWARE APPNOTE.TXT; caffe2/serialize/inline_container.cc, third_party/miniz
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple, cast

from ...core.chunks import view_of
from ...wire.magic import EMPTY_ZIP, ZIP

if TYPE_CHECKING:
    from ...core.chunks import Chunk
    from ..local.staged_file import StagedFile
    from ..remote.upload import Upload

ALIGNMENT = 64

_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_BEHIND, _BEHIND_64 = struct.Struct("<4sIII"), struct.Struct("<4sIQQ")
_ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END, _END_64, _LOCATOR = struct.Struct("<4sHHHHIIH"), struct.Struct("<4sQHHIIQQQQ"), struct.Struct("<4sIQI")
_FIELD = struct.Struct("<HH")
_BEHIND_MAGIC = b"PK\7\x08"

_UTF8_NAME, _SUMS_BEHIND = 0x800, 0x8
_ZIP64, _PADDING = 1, 0x4246
_VERSION_64 = 45
_MOST, _MOST_MEMBERS = 0xFFFFFFFF, 0xFFFF
"""The values that replace a number too large for its field."""


class _Written(NamedTuple):
    name: bytes
    flags: int
    crc: int
    size: int
    offset: int

    @property
    def behind(self) -> bytes:
        """The record after its data."""
        form = _BEHIND_64 if self.size >= _MOST else _BEHIND
        return form.pack(_BEHIND_MAGIC, self.crc, self.size, self.size) if self.size else b""


class Zipped:
    """A zip archive that is being written to a file."""

    def __init__(self, file: StagedFile | Upload) -> None:
        self._file = file
        self._members: dict[str, _Written] = {}

    def begin(self, name: str, size: int) -> None:
        """Begin a member of so many bytes, which `write` is then given."""
        encoded = name.encode()
        self._member = _Written(encoded, _UTF8_NAME | (_SUMS_BEHIND if size else 0), 0, size, self._file.size)
        sizes = _FIELD.pack(_ZIP64, 16) + struct.pack("<QQ", size, size) if size >= _MOST else b""
        begin = self._file.size + _LOCAL.size + len(encoded) + len(sizes) + _FIELD.size
        padding = -begin % ALIGNMENT
        extra = sizes + _FIELD.pack(_PADDING, padding) + b"Z" * padding
        short = _MOST if sizes else 0
        version = _VERSION_64 if sizes else 0
        flags = self._member.flags
        head = _LOCAL.pack(ZIP, version, flags, 0, 0, 0, 0, short, short, len(encoded), len(extra))
        self._file.write(head + encoded + extra)
        self._name, self._begun = name, self._file.size

    def write(self, chunk: Chunk) -> None:
        """Write what comes next of a member."""
        view = view_of(chunk)
        self._member = self._member._replace(crc=zlib.crc32(view, self._member.crc))
        self._file.write(chunk)

    def end(self) -> int:
        """End a member; return its CRC-32."""
        _, _, crc, size, _ = self._member
        if self._file.size - self._begun != size:
            raise ValueError(f"a member has {self._file.size - self._begun} bytes; expected {size}")
        self._file.write(self._member.behind)
        self._members[self._name] = self._member
        return crc

    def reserve(self, name: str, size: int) -> int:
        """Return where the data of a member of so many bytes go, in a file that is written at places.

        When they are there, `fill` is called.
        """
        self.begin(name, size)
        self._members[name] = self._member
        return self._reserved().reserve(size + len(self._member.behind))

    def fill(self, name: str, offset: int, crc: int) -> None:
        """Note the CRC-32 of the data in a reserved range."""
        member = self._members[name] = self._members[name]._replace(crc=crc)
        self._reserved().write_at(offset + member.size, member.behind)

    def _reserved(self) -> StagedFile:
        """Return the file, where it has places: what is sent has none."""
        return cast("StagedFile", self._file)

    def add(self, name: str, data: bytes) -> None:
        """Write a small member."""
        self.begin(name, len(data))
        self.write(data)
        self.end()

    def finish(self) -> None:
        """Write the directory, which goes last."""
        begin, members = self._file.size, [*self._members.values()]
        for first in range(0, len(members), 1000):
            self._file.write(b"".join(map(_entry, members[first : first + 1000])))
        self._file.write(_end(len(members), begin, self._file.size))


def _entry(member: _Written) -> bytes:
    name, flags, crc, size, offset = member
    large = [number for number in (size, size, offset) if number >= _MOST]
    extra = _FIELD.pack(_ZIP64, 8 * len(large)) + struct.pack(f"<{len(large)}Q", *large) if large else b""
    short, at = min(size, _MOST), min(offset, _MOST)
    version = _VERSION_64 if large else 0
    head = _ENTRY.pack(
        b"PK\1\2", version, version, flags, 0, 0, 0, crc, short, short, len(name), len(extra), 0, 0, 0, 0, at
    )
    return head + name + extra


def _end(members: int, begin: int, end: int) -> bytes:
    size = end - begin
    last = _END.pack(
        EMPTY_ZIP,
        0,
        0,
        min(members, _MOST_MEMBERS),
        min(members, _MOST_MEMBERS),
        min(size, _MOST),
        min(begin, _MOST),
        0,
    )
    if members < _MOST_MEMBERS and max(size, begin) < _MOST:
        return last
    record = _END_64.pack(
        b"PK\6\6", _END_64.size - 12, _VERSION_64, _VERSION_64, 0, 0, members, members, size, begin
    )
    return record + _LOCATOR.pack(b"PK\6\7", 0, end, 1) + last
