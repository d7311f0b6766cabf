"""A file as the standard library and h5py take one: a stream that can be sought."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class FileObject(io.RawIOBase):
    """The bytes that `read(offset, size)` gives, as a file object of `size` bytes."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self.read_at = read
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if at < 0:
            raise OSError(f"offset {at} is before the start of the file")  # as of any file
        self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        target = memoryview(buffer).cast("B")
        data = self._piece(self._at, max(0, min(len(target), self._size - self._at)))
        target[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _piece(self, offset: int, size: int) -> bytes:
        return self.read_at(offset, size)
