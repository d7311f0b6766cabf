"""A file as the HDF5 library reads it, held back from what would hang or crash the library.

Strings of variable length lie in collections (formats.h5.native.heap).  The library follows the
objects' sizes without holding them against the collection: a size of 0 where free space
stands keeps it going round for ever, and one too large has it read beyond its memory.  So
each collection is checked when it is first read, and one that is unsound loses its
signature on the way, which the library then says.
H5HGcache.c
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from ..native.heap import COLLECTION, HEADER_SIZE, collection_size, objects_of

if TYPE_CHECKING:
    from collections.abc import Callable


_SIGNATURE = COLLECTION[:4]


class GuardedFile(io.RawIOBase):
    """The bytes that `read(offset, size)` gives, as a file object of `size` bytes for h5py."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, length_size: int = 8) -> None:
        self.read_at = read
        self._size = size
        self._length_mask = (1 << 8 * length_size) - 1
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
        data = self.read_at(self._at, max(0, min(len(target), self._size - self._at)))
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
        place = data.find(COLLECTION, 1)
        while place > 0:
            places.append(place)
            place = data.find(COLLECTION, place + 1)
        return places

    def _is_sound(self, offset: int) -> bool:
        if offset not in self._sound:
            self._sound[offset] = self._check(offset)
        return self._sound[offset]

    def _check(self, offset: int) -> bool:
        """Whether a collection lies in the file, and its objects in the collection, one after another."""
        size = collection_size(self.read_at(offset, HEADER_SIZE), self._length_mask)
        if not 0 < size <= self._size - offset:
            return False
        data = self.read_at(offset, size)
        return len(data) == size and objects_of(data, self._length_mask) is not None
