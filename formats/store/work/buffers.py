"""Large blocks of memory that are used again.

Blocks of megabytes that threads allocate and free stay in the allocator, at three times the memory in use.
Returning them to the system each time would cost as much as sending them.
"""

from __future__ import annotations

import threading


class BufferPool:
    """Blocks of one size in bytes. A block is free, and lent again, once no view of it exists."""

    def __init__(self, size: int, kept: int) -> None:
        self.size = size
        self._kept = kept
        self._blocks: list[bytearray] = []
        self._lock = threading.Lock()

    def take_block(self) -> memoryview:
        """Return a view of a block that has no other user; it still has its previous content."""
        with self._lock:
            free = [block for block in self._blocks if is_free(block)]
            for surplus in free[self._kept :]:
                self._blocks.remove(surplus)
            if not free:
                free = [bytearray(self.size)]
                self._blocks += free
            return memoryview(free[0])


def is_free(block: bytearray) -> bool:
    """Whether a block has no views: only then can its size be changed, and changed back."""
    try:
        block.append(block.pop())
    except BufferError:
        return False
    return True
