"""The superblock of an HDF5 file: what says where the file ends.

    signature: 89 48 44 46 0d 0a 1a 0a    at 0, or after a user block at 512, 1024, 2048, ...
    version: uint8
    versions 0, 1:  4 bytes, size of offsets: uint8, size of lengths: uint8, 1 byte,
                    group k: 2 uint16, flags: uint32, (version 1: chunk k: uint16, 2 bytes),
                    base, free space, end of file, driver: offset
    versions 2, 3:  size of offsets: uint8, size of lengths: uint8, flags: uint8,
                    base, extension, end of file, root group: offset, checksum: uint32

The end of file counts from byte 0, user block included.  Reading it here gives a
truncated file, the commonest damage there is, an error that says by how much.
HDF5 File Format Specification, III.A "Disk Format: Level 0A"
"""

from __future__ import annotations

from typing import NamedTuple

from ...wire.magic import HDF5

SIGNATURE = HDF5
_PLACES = (0, 512, 1024, 2048)

# Version -> the positions of the size of offsets, the flags and the first offset.
_FIELDS = {0: (13, 20, 24), 1: (13, 20, 28), 2: (9, 11, 12), 3: (9, 11, 12)}
_OPEN_FOR_WRITING = 0x05  # write access, single writer with readers; version 3 clears both on closing.


class Superblock(NamedTuple):
    """The position of the superblock, and the file's length according to it; None if unknown."""

    offset: int
    version: int
    end: int | None
    left_open: bool
    length_size: int = 8

    @classmethod
    def find(cls, head: bytes) -> Superblock | None:
        """Return the superblock in a file's first bytes; None if there is none."""
        offset = next((at for at in _PLACES if head.startswith(SIGNATURE, at)), None)
        if offset is None:
            return None
        block = head[offset:]
        version = block[8] if len(block) > 8 else -1
        if version not in _FIELDS:
            return cls(offset, version, None, False)
        size_at, flags_at, base_at = _FIELDS[version]
        size = block[size_at] if len(block) > size_at else 0
        end_at = base_at + 2 * size
        if size not in (2, 4, 8) or len(block) < end_at + size:
            return cls(offset, version, None, False)
        left_open = version == 3 and bool(block[flags_at] & _OPEN_FOR_WRITING)
        end = int.from_bytes(block[end_at : end_at + size], "little")
        return cls(offset, version, end, left_open, block[size_at + 1])
