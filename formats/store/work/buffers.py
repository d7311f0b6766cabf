"""Large blocks of memory that are used again.

Blocks of megabytes that threads make and let go of lie about in the allocator, at three times of what
is in use; had anew from the system each time, they cost as much as sending them.
"""

from __future__ import annotations

import threading


class BufferPool:
    """Blocks of some bytes each.  One is free, and lent again, when nobody has a view of it any more."""

    def __init__(self, size: int, kept: int) -> None:
        self.size = size
        self._kept = kept
        self._blocks: list[bytearray] = []
        self._lock = threading.Lock()

    def lend(self) -> memoryview:
        """Return a view of a block that nobody else has; what was in it is in it still."""
        with self._lock:
            free = [block for block in self._blocks if is_free(block)]
            for surplus in free[self._kept :]:
                self._blocks.remove(surplus)
            if not free:
                free = [bytearray(self.size)]
                self._blocks += free
            return memoryview(free[0])


def is_free(block: bytearray) -> bool:
    """Whether nobody has a view of a block: only then can its size be changed, and changed back."""
    try:
        block.append(block.pop())
    except BufferError:
        return False
    return True
