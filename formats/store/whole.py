"""Files that are read whole, and once for all who ask: indexes, and maps of shards.

What a checkpoint is gets asked before it is opened, of a directory's members all before the
first.  Bytes are kept by the file's identity, so one that was replaced is read again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import File, Identity


_MOST_KEPT, LARGEST_KEPT = 16 << 20, 4 << 20
"""Bytes that are kept of all files, and of one: the indexes of a run, none that is worth more than time."""


class _Kept:
    """What is known of files, and how many bytes that is, which is not counted anew with each."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, Identity], bytes] = {}
        self._size = 0
        self._lock = threading.Lock()

    def add(self, key: tuple[str, Identity], data: bytes) -> None:
        with self._lock:
            if self._size + len(data) > _MOST_KEPT:
                self.files.clear()
                self._size = 0
            self.files[key] = data
            self._size += len(data)


_kept = _Kept()


def whole(file: File) -> bytes:
    """Return all bytes of an open file, read at one stroke unless they are known.

    Raises CorruptCheckpointError where the file ends before its size.
    """
    key = file.path, file.identity
    data = _kept.files.get(key)
    if data is None:
        data = file.read_exactly(0, file.size)
        if file.size <= LARGEST_KEPT:
            _kept.add(key, data)
    return data
