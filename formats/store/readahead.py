"""Reading on from where one stood, a piece at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import File


class ReadAhead:
    """A file for someone who goes forward in small steps, which are not worth a call to the system each.

    A reader that jumps gets only the requested bytes. Reading ahead starts again once the next read continues
    from there.
    """

    SIZE = 1 << 18

    def __init__(self, file: File) -> None:
        self.file = file
        self._last = 0, b""

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`, fewer where the file ends."""
        start, data = self._last  # at once: threads may share this
        begin, end = offset - start, offset - start + size
        if begin >= 0 and end <= len(data):
            return data[begin:end]
        is_sequential = 0 <= begin <= len(data)
        data = self.file.read(offset, max(size, self.SIZE) if is_sequential else size)
        self._last = offset, data
        return data[:size]
