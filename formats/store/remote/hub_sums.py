"""The sum that the Hub lists for a file: SHA-256 for LFS files, and git's blob id for the others."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING

from ...core.chunks import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..base import File, Identity

_SHA256_DIGITS = 64
_MOST_WAITING = 64 << 20
"""Bytes that are held because others come before them."""


class FileSum:
    """The sum of a file as far as its bytes are known; ranges may come in any order, and twice."""

    def __init__(self, path: str, identity: Identity) -> None:
        self.path, self.identity = path, identity
        self.listed = str(identity[0])
        """The sum that the Hub lists; `identity` is that, and the size."""
        self.size = int(identity[1])
        is_large = len(self.listed) == _SHA256_DIGITS
        self.kind = "sha256" if is_large else "git blob"
        head = b"blob %d\0" % self.size
        self._total = hashlib.sha256() if is_large else hashlib.sha1(head, usedforsecurity=False)
        self._at = 0
        self._waiting: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def add(self, begin: int, data: bytes) -> None:
        """Take in the bytes from `begin` on."""
        with self._lock:
            if begin > self._at:
                if len(data) + sum(map(len, self._waiting.values())) <= _MOST_WAITING:
                    self._waiting[begin] = data
                return
            self._extend(begin, data)
            for start in sorted(self._waiting):
                if start > self._at:
                    break
                self._extend(start, self._waiting.pop(start))

    def _extend(self, begin: int, data: bytes) -> None:
        more = memoryview(data)[self._at - begin :]
        self._total.update(more)
        self._at += len(more)

    def flaw(self, file: File, advance: Callable[[int], None] = lambda _: None) -> str:
        """Read what is missing; return in what the content differs from what the Hub lists."""
        while self._at < self.size:
            at = self._at
            self.add(at, file.read_exactly(at, min(PIECE, self.size - at)))
            advance(self._at - at)
        found = self._total.hexdigest()
        return "" if found == self.listed else f"content differs: {self.kind} {found}"
