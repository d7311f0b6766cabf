"""A file as the HDF5 library reads it, held back from what would hang or crash the library.

    global heap collection: "GCOL", version: uint8 (1), 3 bytes, size: length
        object: index: uint16, references: uint16, 4 bytes, size: length, data padded to 8
        free space: an object of index 0, whose size includes its header

Strings of variable length lie in such collections.  The library follows the objects'
sizes without holding them against the collection: a size of 0 where free space stands
keeps it going round for ever, and one too large has it read beyond its memory.  So each
collection is checked when it is first read, and one that is unsound loses its signature
on the way, which the library then says.
HDF5 File Format Specification, III.E "Disk Format: Level 1E"; H5HGcache.c
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GuardedFile"]

_COLLECTION = b"GCOL\1\0\0\0"
_SIGNATURE = _COLLECTION[:4]
_HEADER_SIZE = 16
_OBJECT = struct.Struct("<HHIQ")


class GuardedFile(io.RawIOBase):
    """The bytes that `read(offset, size)` gives, as a file object of `size` bytes for h5py."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, length_size: int = 8) -> None:
        self._read_at = read
        self._size = size
        self._length_mask = (
            1 << 8 * length_size
        ) - 1  # headers are padded to 8, whatever their lengths' size
        self._at = 0
        self._sound: dict[int, bool] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        data = self._read_at(self._at, max(0, min(len(target), self._size - self._at)))
        target[: len(data)] = data
        for place in self._collections(data):
            if not self._is_sound(self._at + place):
                target[place : place + len(_SIGNATURE)] = bytes(len(_SIGNATURE))
        self._at += len(data)
        return len(data)

    @staticmethod
    def _collections(data: bytes) -> list[int]:
        """Return where collections begin; the library mostly reads one from its first byte."""
        places = [0] if data.startswith(_SIGNATURE) else []
        place = data.find(_COLLECTION, 1)
        while place > 0:
            places.append(place)
            place = data.find(_COLLECTION, place + 1)
        return places

    def _is_sound(self, offset: int) -> bool:
        if offset not in self._sound:
            self._sound[offset] = self._check(offset)
        return self._sound[offset]

    def _check(self, offset: int) -> bool:
        """Whether a collection lies in the file, and its objects in the collection, one after another."""
        header = self._read_at(offset, _HEADER_SIZE)
        size = int.from_bytes(header[8:], "little") & self._length_mask
        if len(header) < _HEADER_SIZE or not _HEADER_SIZE <= size <= self._size - offset:
            return False
        data = self._read_at(offset, size)
        if len(data) < size:
            return False
        at = _HEADER_SIZE
        seen: set[int] = set()
        while size - at >= _OBJECT.size:
            index, _, _, length = _OBJECT.unpack_from(data, at)
            length &= self._length_mask
            needed = _OBJECT.size + (length + 7 & ~7) if index else length
            if not _OBJECT.size <= needed <= size - at or index in seen:
                return False
            seen.add(index)
            at += needed
        return True
