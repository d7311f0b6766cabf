"""An HDF5 file that was cut off, or whose signature is damaged, as the library can open it.

The library rejects a file that is shorter than its superblock says, although everything before the cut may be
intact. Here the missing end reads as zeros, and the reader of a dataset checks afterwards whether any bytes
came from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..native.superblock import SIGNATURE, Superblock
from .guard import GuardedFile

if TYPE_CHECKING:
    from ...store.base import File


_LEAST_ALIKE = 5
"""Bytes of the signature's eight that must be there for the rest to be believed."""


def find_damaged_superblock(head: bytes) -> Superblock | None:
    """Return the superblock of a file whose signature may be damaged; None if there is none."""
    alike = sum(mine == theirs for mine, theirs in zip(head, SIGNATURE, strict=False))
    if alike < _LEAST_ALIKE:
        return None
    return Superblock.find(SIGNATURE + head[len(SIGNATURE) :])


class CutFile:
    """The bytes of a file as it should have been; `is_touched` says whether missing ones were read."""

    def __init__(self, file: File, superblock: Superblock) -> None:
        self._file = file
        self.size = max(file.size, superblock.end or 0)
        self.is_touched = False
        self.source = GuardedFile(self._read, self.size, superblock.length_size)

    def _read(self, offset: int, size: int) -> bytes:
        data = self._file.read(offset, size)
        if offset < len(SIGNATURE):
            data = (SIGNATURE[offset:] + data[len(SIGNATURE) - offset :])[:size]
        missing = min(size, self.size - offset) - len(data)
        if missing > 0:
            self.is_touched = True
            data += bytes(missing)
        return data
