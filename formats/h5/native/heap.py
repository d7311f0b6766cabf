"""Global heap collections, which hold strings of variable length.

    collection: "GCOL", version: uint8 (1), 3 bytes, size: length
        object: index: uint16, references: uint16, 4 bytes, size: length, data padded to 8
        free space: an object of index 0, whose size includes its header

HDF5 File Format Specification, III.E "Disk Format: Level 1E"
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


COLLECTION = b"GCOL\1\0\0\0"
HEADER_SIZE = 16
_OBJECT = struct.Struct("<HHIQ")
_PIECE = 1 << 20


def collection_size(header: bytes, length_mask: int = (1 << 64) - 1) -> int:
    """Return the size of a collection in bytes, including its header of 16 bytes, or 0 if this is not a
    header.

    `length_mask` keeps the bytes that lengths have in this file; headers are padded to 8 in any case.
    """
    size = int.from_bytes(header[8:], "little") & length_mask
    return size if len(header) == HEADER_SIZE <= size else 0


def objects_of(data: bytes, length_mask: int = (1 << 64) - 1) -> dict[int, tuple[int, int]] | None:
    """Return offset and size of a collection's objects by index; None if they do not follow each other."""
    at, end = HEADER_SIZE, len(data)
    objects: dict[int, tuple[int, int]] = {}
    while end - at >= _OBJECT.size:
        index, _, _, length = _OBJECT.unpack_from(data, at)
        length &= length_mask
        needed = _OBJECT.size + (length + 7 & ~7) if index else length
        if not _OBJECT.size <= needed <= end - at or index in objects:
            return None
        objects[index] = at + _OBJECT.size, length
        at += needed
    return objects


def largest_object(read: Callable[[int, int], bytes], size: int, length_mask: int = (1 << 64) - 1) -> int:
    """Return the size of the largest object in a file's collections, or the file's own if that is unknown.

    Thousands of strings may refer to the same object, so this limits how many are read at a time. The file is
    read once.
    """
    largest, left = 0, 2 * size
    for start in range(0, size, _PIECE):
        piece = read(start, _PIECE + len(COLLECTION) - 1)
        place = piece.find(COLLECTION)
        while place >= 0:
            offset = start + place
            length = collection_size(read(offset, HEADER_SIZE), length_mask)
            left -= length
            if left < 0:  # the collections overlap
                return size
            objects = objects_of(read(offset, length), length_mask) if length <= size - offset else None
            largest = max([largest, *(nbytes for _, nbytes in (objects or {}).values())])
            place = piece.find(COLLECTION, place + 1)
    return largest
