"""Zip archives that hold checkpoints. Members are read in place; nothing is extracted by name.

    members:            local header (PK 3 4): ..., name length: uint16 at 26, extra length: uint16
                        at 28, name, extra, data
    central directory:  (PK 1 2) per member: name, method, sizes, CRC-32, offset of its header
    end:                (PK 5 6) where the central directory is, members: uint16 at 10; where that
                        is 65535, (PK 6 6) is 76 bytes before it, members: uint64 at 32

A directory is read to its end. A damaged length in it can hide members, so the number of members found is
compared with the number at the end.

A stored member's bytes are bytes of the file, so a range of it is read as a range of any file. A deflated
member is inflated from its start, and never beyond the size that the directory declares. Encrypted members,
other methods, names that lead out of a directory, and members that share bytes (which could put petabytes in
a small archive) are rejected.
PKWARE APPNOTE.TXT; numpy.savez and Keras write both, with zip64 if sizes need it
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, NamedTuple

from ...core.chunks import PIECE
from ...errors import ChecksumError, CorruptCheckpointError, UnsupportedFeatureError
from ...wire.limits import KeySizes
from ...wire.magic import EMPTY_ZIP, ZIP
from ..file_object import FileObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...location import Location
    from ..base import File


_LOCAL_MAGIC = ZIP
_LOCAL_SIZE = 30
_DIRECTORY_MAGIC = b"PK\1\2"
_END_MAGIC = EMPTY_ZIP
_BEHIND_MAGIC = b"PK\7\x08"
_BEHIND, _BEHIND_64 = struct.Struct("<4sIII"), struct.Struct("<4sIQQ")
_BEHIND_SIZE = _BEHIND_64.size
_NOT_TRUSTED = ("do not trust this file; no library writes a member of this size",)
_WITHOUT_END = {"File is not a zip file": "it has no central directory"}
"""Another text for an error of zipfile that only repeats that the file is not an archive."""
_LARGEST_END = 76 + 22 + 0xFFFF  # its comment is counted by 16 bits
_ZIP64_MAGIC = b"PK\6\6"
_ZIP64_SIZE = 56 + 20  # the record, and what says where it is
_IN_ZIP64 = 0xFFFF
_ENCRYPTED = 0x1
_PATCHED = 0x20
_UTF8_NAME = 0x800
_SIZES_BEHIND = 0x8
_IN_ZIP64_EXTRA = 0xFFFFFFFF
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
MOST_UNEXPLAINED = 4 << 30
MOST_EXPANSION = 100
"""Keras' own limits: more than 4 GiB from less than a hundredth of that is rejected."""


class ArchiveMember(NamedTuple):
    """A member: its data begin at `offset`, are `stored` bytes long, and inflate to `size` bytes."""

    name: str
    offset: int
    stored: int
    size: int
    crc: int
    deflated: bool


def is_safe_name(name: str) -> bool:
    """Whether a member's name stays below the directory that an archive is thought to be."""
    return not (name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"))


def directory_size(tail: bytes) -> int:
    """Return the size of the central directory by an archive's last bytes; 4 GiB if they do not have it."""
    at = tail.rfind(_END_MAGIC)
    return int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 1 << 32


def _declared_members(file: File) -> int:
    """Return how many members the archive has by the record at its end, which zipfile has found there."""
    start = max(0, file.size - _LARGEST_END)
    tail = file.read(start, _LARGEST_END)
    at = tail.rfind(_END_MAGIC)
    count = int.from_bytes(tail[at + 10 : at + 12], "little")
    record = tail[max(0, at - _ZIP64_SIZE) : at]
    if count == _IN_ZIP64 and record.startswith(_ZIP64_MAGIC):
        count = int.from_bytes(record[32:40], "little")
    return count


def _local_info(file: File, at: int) -> zipfile.ZipInfo | None:
    """Return a member by the header in front of it; None if there is none, or it does not say how long."""
    header = file.read(at, _LOCAL_SIZE)
    if len(header) < _LOCAL_SIZE or not header.startswith(_LOCAL_MAGIC):
        return None
    flags, method = struct.unpack_from("<HH", header, 6)
    crc, stored, size, name_length, extra_length = struct.unpack_from("<IIIHH", header, 14)
    rest = file.read(at + _LOCAL_SIZE, name_length + extra_length)
    if len(rest) < name_length + extra_length:
        return None
    extra = rest[name_length:]
    if flags & _SIZES_BEHIND:
        behind = _sizes_behind(file, at + _LOCAL_SIZE + len(rest))
        if behind is None:
            return None
        crc, stored, size = behind
    elif _IN_ZIP64_EXTRA in (stored, size):
        if len(extra) < 20 or struct.unpack_from("<HH", extra) != (1, 16):
            return None
        size, stored = struct.unpack_from("<QQ", extra, 4)
    try:
        name = rest[:name_length].decode("utf-8" if flags & _UTF8_NAME else "cp437")
    except UnicodeDecodeError:
        return None
    info = zipfile.ZipInfo(name)
    info.orig_filename = info.filename = name
    info.flag_bits, info.compress_type, info.CRC = flags, method, crc
    info.compress_size, info.file_size, info.header_offset = stored, size, at
    return info


def _sizes_behind(file: File, begin: int) -> tuple[int, int, int] | None:
    """Return the CRC-32 and the sizes, stored and inflated, from the record after a member's data.

    The data end at a record whose stored size equals the distance to it. Return None if there is no such
    record.
    """
    for at in range(begin, file.size, PIECE):
        piece = file.read(at, PIECE + _BEHIND_SIZE)
        found = piece.find(_BEHIND_MAGIC)
        while 0 <= found < PIECE:
            record = piece[found : found + _BEHIND_SIZE]
            for form in (_BEHIND, _BEHIND_64):
                if len(record) >= form.size:
                    _, crc, stored, size = form.unpack_from(record)
                    if stored == at + found - begin:
                        return crc, stored, size
            found = piece.find(_BEHIND_MAGIC, found + 1)
    return None


class Archive:
    """An open zip archive.  `names` are those of its members, directories left out.

    `is_complete` says whether those are all; of one that is salvaged, some may be lost.
    """

    is_complete = True

    def __init__(self, path: Location, file: File | None = None) -> None:
        """Open the archive at a path, or that which a file is, by the path that errors name."""
        self.path = path
        self.file = path.open() if file is None else file
        try:
            with zipfile.ZipFile(FileObject(self.file.read, self.file.size)) as archive:
                listed = archive.infolist()
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            ValueError,
            OSError,
            struct.error,
            IndexError,
        ) as error:
            message = f"this is not a valid zip archive: {_WITHOUT_END.get(str(error), error)}"
            hints = ("copy the file again from its source; the copy or the save was interrupted",)
            raise CorruptCheckpointError(message, path=path, code="header", hints=hints) from error
        declared = _declared_members(self.file)
        if len(listed) != declared:
            raise self._corrupt(
                f"the central directory lists {len(listed)} members, but its end record says {declared}", None
            )
        self._infos: dict[str, zipfile.ZipInfo] = {}
        self._duplicate: str | None = None
        for info in listed:
            if info.filename.endswith("/"):
                continue
            if info.filename in self._infos:
                self._duplicate = info.filename
            self._infos[info.filename] = info
        self.names = tuple(self._infos)
        self._check_names()

    @classmethod
    def salvaged(cls, path: Location) -> Archive:
        """Open an archive whose directory is damaged, with the intact members from its start.

        The header before each member says the same as the directory if the writer knew the sizes, as numpy
        and Keras do. Torch writes the sizes after the data.
        """
        archive = cls.__new__(cls)
        archive.path = path
        archive.file = path.open()
        archive._duplicate = None
        archive._infos = {}
        at = 0
        while (info := _local_info(archive.file, at)) is not None and info.filename not in archive._infos:
            archive._infos[info.filename] = info
            header = archive.file.read(at, _LOCAL_SIZE)
            name_length, extra_length = struct.unpack_from("<HH", header, 26)
            at += _LOCAL_SIZE + name_length + extra_length + info.compress_size
            if info.flag_bits & _SIZES_BEHIND:
                is_large = info.compress_size >= _IN_ZIP64_EXTRA
                at += _BEHIND_64.size if is_large else _BEHIND.size
        archive.names = tuple(name for name in archive._infos if not name.endswith("/"))
        archive.is_complete = archive.file.read(at, 4) == _DIRECTORY_MAGIC
        archive._check_names()
        return archive

    def _check_names(self) -> None:
        try:
            KeySizes().add(self.names)
        except ValueError as error:
            raise self._corrupt(f"member names: {error}", None) from error

    def check(self) -> None:
        """Refuse what no checkpoint has: members that share a name or bytes, or lead elsewhere."""
        if self._duplicate is not None:
            raise CorruptCheckpointError(
                f"two members are named {self._duplicate!r}", path=self.path, code="header"
            )
        end = 0
        for info in sorted(self._infos.values(), key=lambda info: info.header_offset):
            if not is_safe_name(info.filename):
                message = f"member {info.filename!r} points outside the archive"
                raise UnsupportedFeatureError(message, path=self.path, code="header")
            if info.header_offset < end:
                message = f"member {info.filename!r} overlaps another member"
                offset = self.file.where(info.header_offset)
                raise CorruptCheckpointError(message, path=self.path, offset=offset, code="overlap")
            end = info.header_offset + _LOCAL_SIZE + info.compress_size

    @property
    def begin(self) -> int:
        """The offset of the first member: above 0 if other bytes precede the archive."""
        return min((info.header_offset for info in self._infos.values()), default=0)

    def expect_heads(self, size: int) -> None:
        """Say that of each member its first bytes will be read."""
        self.file.expect_each([info.header_offset for info in self._infos.values()], _LOCAL_SIZE + size)

    def declared_size(self, name: str) -> int | None:
        """Return how many bytes a member has, as the directory says; None if there is no such member."""
        info = self._infos.get(name)
        return None if info is None else info.file_size

    def member(self, name: str) -> ArchiveMember:
        """Return a member, its place checked against the file; raises for what is not read here."""
        info = self._infos[name]
        if info.flag_bits & _ENCRYPTED:
            raise self._rejection(f"member {name!r} is encrypted, which is not supported")
        if info.flag_bits & _PATCHED:
            raise self._rejection(f"member {name!r} is patch data, which is not supported")
        if info.compress_type not in _METHODS:
            raise self._rejection(
                f"member {name!r} uses compression method "
                f"{info.compress_type}; only stored and deflated are supported"
            )
        deflated = info.compress_type == zipfile.ZIP_DEFLATED
        if info.file_size > MOST_UNEXPLAINED and info.file_size > MOST_EXPANSION * info.compress_size:
            raise self._rejection(
                f"member {name!r} expands from {info.compress_size} "
                f"to {info.file_size} bytes, which is over the limit"
            )
        # No checksum covers a name. Only the two copies of it show that one is damaged.
        stored_name = info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8_NAME else "cp437")
        header = self.file.read(info.header_offset, _LOCAL_SIZE + len(stored_name))
        if len(header) < _LOCAL_SIZE or not header.startswith(_LOCAL_MAGIC):
            raise self._corrupt(f"member {name!r} has no local header", info.header_offset)
        name_length, extra_length = struct.unpack_from("<HH", header, 26)
        if name_length != len(stored_name) or header[_LOCAL_SIZE:] != stored_name:
            raise self._corrupt(f"member {name!r} has another name in its local header", info.header_offset)
        offset = info.header_offset + _LOCAL_SIZE + name_length + extra_length
        if offset + info.compress_size > self.file.size:
            end = offset + info.compress_size
            message = f"member {name!r} ends at byte {end}, but the file has only {self.file.size} bytes"
            raise self._corrupt(message, offset)
        if not deflated and info.compress_size != info.file_size:
            message = f"member {name!r} is stored in {info.compress_size} bytes; expected {info.file_size}"
            raise self._corrupt(message, offset)
        return ArchiveMember(name, offset, info.compress_size, info.file_size, info.CRC, deflated)

    def _rejection(self, message: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(message, path=self.path, code="header")

    def _corrupt(self, message: str, offset: int | None) -> CorruptCheckpointError:
        where = None if offset is None else self.file.where(offset)
        return CorruptCheckpointError(message, path=self.path, offset=where, code="header")

    def pieces(self, member: ArchiveMember, head: int = 0) -> Iterator[bytes]:
        """Yield a member's bytes in bounded pieces; ChecksumError at the end where its CRC-32 differs.

        A stored member's are cut behind its first `head` bytes, and then after each PIECE.
        """
        crc = size = 0
        self.file.expect(member.offset, member.stored)
        for piece in self._inflated(member) if member.deflated else self._stored(member, head):
            if not piece:
                continue
            size += len(piece)
            if size > member.size:
                raise self._corrupt(
                    f"member {member.name!r} inflates to more than the declared {member.size} bytes",
                    member.offset,
                )
            crc = zlib.crc32(piece, crc)
            yield piece
        if size != member.size:
            raise self._corrupt(
                f"member {member.name!r} has {size} bytes; expected {member.size}", member.offset
            )
        if crc != member.crc:
            message = (
                f"member {member.name!r}: the data has CRC-32 "
                f"{crc:#010x}, but the stored one is {member.crc:#010x}"
            )
            where = self.file.where(member.offset)
            raise ChecksumError(message, path=self.path, offset=where, code="tensor-checksum")

    def _stored(self, member: ArchiveMember, head: int) -> Iterator[bytes]:
        begin = min(head, member.size)
        yield self.file.read_exactly(member.offset, begin)
        for at in range(begin, member.size, PIECE):
            yield self.file.read_exactly(member.offset + at, min(PIECE, member.size - at))

    def _inflated(self, member: ArchiveMember) -> Iterator[bytes]:
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            for at in range(0, member.stored, PIECE):
                data = self.file.read_exactly(member.offset + at, min(PIECE, member.stored - at))
                while data:
                    yield inflate.decompress(data, PIECE)
                    data = inflate.unconsumed_tail
            yield inflate.flush()
        except zlib.error as error:
            raise self._corrupt(f"member {member.name!r}: {error}", member.offset) from error

    def read(self, name: str, most: int) -> bytes:
        """Return a small member whole; CorruptCheckpointError if it has more than `most` bytes."""
        member = self.member(name)
        if member.size > most:
            error = self._corrupt(
                f"member {name!r} has {member.size} bytes; expected at most {most}", member.offset
            )
            error.hints = _NOT_TRUSTED
            raise error
        return b"".join(self.pieces(member))

    def copy(self, member: ArchiveMember, target: IO[bytes]) -> None:
        """Write a member's bytes to a file."""
        for piece in self.pieces(member):
            target.write(piece)

    def close(self) -> None:
        self.file.close()


class Cursor:
    """Reads parts of a member, in rising order of their offsets.

    Reads in PIECEs after the first `head` bytes of a stored member are not copied again.
    """

    def __init__(self, archive: Archive, member: ArchiveMember, head: int = 0) -> None:
        self._pieces = archive.pieces(member, head)
        self._held = b""
        self._start = 0

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`, fewer where the member ends; nothing before `offset` is kept."""
        parts: list[bytes] = []
        while size:
            skip = offset - self._start
            part = self._held[skip : skip + size]
            if part:
                parts.append(part)
            offset += len(part)
            size -= len(part)
            if size:
                self._start += len(self._held)
                self._held = next(self._pieces, b"")
                if not self._held:
                    break
        return b"".join(parts)

    def finish(self) -> None:
        """Go through what is left, so that the checksum is compared."""
        for _ in self._pieces:
            pass
