"""The byte ranges that store a tensor: one range of a file, or several in a row."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..store.base import File


class FilePart(NamedTuple):
    """A range of a file."""

    file: File
    offset: int
    size: int


class StoredRanges:
    """Ranges of files that are read as one."""

    def __init__(self, parts: Sequence[FilePart]) -> None:
        self.parts = parts
        self._ends = [*accumulate(part.size for part in parts)]
        self.size = self._ends[-1] if self._ends else 0

    @property
    def path(self) -> str:
        """The path of the first file, for errors."""
        return self.parts[0].file.path

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`; CorruptCheckpointError if a file ends before."""
        at = bisect_right(self._ends, offset)
        found = []
        while size:
            part, end = self.parts[at], self._ends[at]
            count = min(size, end - offset)
            found.append(part.file.read_exactly(part.offset + offset - (end - part.size), count))
            offset, size, at = offset + count, size - count, at + 1
        return found[0] if len(found) == 1 else b"".join(found)

    def expect(self) -> None:
        """Tell the files that all of it will be read."""
        for part in self.parts:
            part.file.expect(part.offset, part.size)
