"""A file as the HDF5 library reads it, held back from what would hang or crash the library.

Strings of variable length are stored in collections (formats.h5.native.heap). The library follows the
objects' sizes without comparing them with the collection: a size of 0 for free space makes it loop for ever,
and one too large makes it read beyond its memory. So each collection is checked at its first read, and a
damaged one loses its signature on the way, which the library then reports. H5HGcache.c
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...store.file_object import FileObject
from ..native.heap import COLLECTION, HEADER_SIZE, collection_size, objects_of

if TYPE_CHECKING:
    from collections.abc import Callable


_SIGNATURE = COLLECTION[:4]


class GuardedFile(FileObject):
    """The bytes that `read(offset, size)` gives, as a file object of `size` bytes for h5py."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, length_size: int = 8) -> None:
        super().__init__(read, size)
        self._length_mask = (1 << 8 * length_size) - 1
        self._sound: dict[int, bool] = {}

    def _piece(self, offset: int, size: int) -> bytes:
        data = super()._piece(offset, size)
        for place in self._collections(data):
            if not self._is_sound(offset + place):
                data = data[:place] + bytes(len(_SIGNATURE)) + data[place + len(_SIGNATURE) :]
        return data

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
        """Whether a collection is within the file, and its objects follow one another within the
        collection.
        """
        size = collection_size(self.read_at(offset, HEADER_SIZE), self._length_mask)
        if not 0 < size <= self._size - offset:
            return False
        data = self.read_at(offset, size)
        return len(data) == size and objects_of(data, self._length_mask) is not None
