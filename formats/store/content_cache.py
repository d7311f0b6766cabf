"""Files that are read whole, and once for all who ask: indexes, and maps of shards.

The format of a checkpoint is determined before it is opened, and for a directory that of all members before
the first is opened. Bytes are kept under the file's version, so a replaced file is read again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from .base import File

    Key = tuple[str, Hashable]


_MOST_KEPT, LARGEST_KEPT = 16 << 20, 4 << 20
"""Bytes that are kept of all files, and of one: the indexes of a run, none that is worth more than time."""


class _KeptFiles:
    """The kept bytes of files, and their running total."""

    def __init__(self) -> None:
        self.files: dict[Key, bytes] = {}
        self._unsettled: set[Key] = set()
        self._size = 0
        self._lock = threading.Lock()

    def add(self, key: Key, data: bytes, *, is_settled: bool) -> None:
        with self._lock:
            if self._size + len(data) > _MOST_KEPT:
                self.files.clear()
                self._unsettled.clear()
                self._size = 0
            self._size += len(data) - len(self.files.get(key, b""))
            self.files[key] = data
            if not is_settled:
                self._unsettled.add(key)

    def forget_unsettled(self) -> None:
        with self._lock:
            for key in self._unsettled:
                self._size -= len(self.files.pop(key, b""))
            self._unsettled.clear()


_kept = _KeptFiles()


def whole(file: File) -> bytes:
    """Return all bytes of an open file, read at one stroke unless they are known.

    Raises CorruptCheckpointError if the file ends before its size.
    """
    key = file.path, file.version
    data = _kept.files.get(key)
    if data is None:
        is_settled = file.is_settled  # as it was before it was read
        data = file.read_exactly(0, file.size)
        if file.size <= LARGEST_KEPT:
            _kept.add(key, data, is_settled=is_settled)
    return data


def forget_unsettled() -> None:
    """Forget the bytes of files that may have been replaced under the same version."""
    _kept.forget_unsettled()
