"""Going forward through a range of a file in small steps, past what is large."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..store.base import File

_FIRST, _LARGEST = 16 << 10, 1 << 20
"""Bytes that are read at a time, twice as many each time that the next bytes are needed."""


class BrokenFileError(ValueError):
    """The bytes contradict their format; `offset` says where in the file."""

    def __init__(self, message: str, offset: int, hints: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.offset = offset
        self.hints = hints


class UnreadableError(BrokenFileError):
    """The file may be sound, but it is of a kind that is not supported."""


class FileWindow:
    """A file that is read in small parts near each other, through a window that grows."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = file.size
        self._start, self._data, self._step = 0, b"", _FIRST

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly `size` bytes; the caller has checked that the file has them."""
        begin = offset - self._start
        if begin >= 0 and begin + size <= len(self._data):
            return self._data[begin : begin + size]
        self.hold(offset, size)
        return self._data[:size]

    def hold(self, offset: int, size: int) -> bytes:
        """Return at least `size` bytes at `offset`, and what else is in memory behind them."""
        begin = offset - self._start
        if not (begin >= 0 and begin + size <= len(self._data)):
            is_sequential = 0 <= begin <= len(self._data)
            self._step = min(2 * self._step, _LARGEST) if is_sequential else _FIRST
            count = min(max(size, self._step), self.size - offset)
            self._start, self._data = offset, self.file.read_exactly(offset, count)
            begin = 0
        return self._data[begin:]


class FileCursor:
    """A place in a file that moves forward to `end`."""

    def __init__(self, window: FileWindow, position: int, end: int) -> None:
        self.window = window
        self.position = position
        self.end = end

    @property
    def left(self) -> int:
        return self.end - self.position

    def fail(self, message: str) -> BrokenFileError:
        return BrokenFileError(message, self.position)

    def refuse(self, message: str, *hints: str) -> BrokenFileError:
        return UnreadableError(message, self.position, hints)

    def take(self, size: int) -> bytes:
        """Return the next bytes; BrokenFileError where fewer are left."""
        if size > self.left:
            raise self.fail(f"a field needs {size} more bytes, but only {self.left} are left")
        found = self.window.read(self.position, size)
        self.position += size
        return found

    def skip(self, size: int) -> None:
        """Skip bytes without reading them."""
        if size > self.left:
            raise self.fail(f"a field needs {size} more bytes, but only {self.left} are left")
        self.position += size
