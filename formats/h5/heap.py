"""Global heap collections, where strings of variable length lie.

    collection: "GCOL", version: uint8 (1), 3 bytes, size: length
        object: index: uint16, references: uint16, 4 bytes, size: length, data padded to 8
        free space: an object of index 0, whose size includes its header

HDF5 File Format Specification, III.E "Disk Format: Level 1E"
"""

from __future__ import annotations

import struct

__all__ = ["COLLECTION", "HEADER_SIZE", "collection_size", "objects_of"]

COLLECTION = b"GCOL\1\0\0\0"
HEADER_SIZE = 16
_OBJECT = struct.Struct("<HHIQ")


def collection_size(header: bytes, length_mask: int = (1 << 64) - 1) -> int:
    """Return how many bytes a collection has, its header of 16 bytes included; 0 where this is no header.

    `length_mask` leaves the bytes of a length that the file's lengths have: headers are
    padded to 8 whatever that is.
    """
    size = int.from_bytes(header[8:], "little") & length_mask
    return size if len(header) == HEADER_SIZE <= size else 0


def objects_of(data: bytes, length_mask: int = (1 << 64) - 1) -> dict[int, tuple[int, int]] | None:
    """Return offset and size of a collection's objects by index; None where they do not follow each other."""
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
