"""The files that a task from another process brought with it.

The thread that runs a task unpickles it, which opens the task's files and notes them here. Files that were
written are closed before the task returns, and files that were read report how much.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class StaysHereError(Exception):
    """A pickled object that only this process can use."""


class Filled(Protocol):
    """A file that is written to at places."""

    def close(self, *, synced: bool) -> None: ...

    def discard(self) -> None: ...


class TaskFiles(threading.local):
    """Paths of files that are read, and files that are filled, by this thread's task, if it has travelled.

    `threads` is the number of threads of this process that run at a time and share the interpreter's lock.
    """

    def __init__(self) -> None:
        self.threads = 1
        self.has_travelled = False
        self.read: set[str] = set()
        self.filled: list[Filled] = []


TASK_FILES = TaskFiles()

_LARGER = {1: 1, 2: 1, 3: 2, 4: 2}
_LARGEST = 8


def larger_blocks() -> int:
    """Return by how much to multiply the number of elements in one call of numpy, for the threads at work.

    For one thread or two, blocks that fit into the processor's cache are the fastest.  More threads wait for
    the interpreter's lock between two calls, so each call should take longer.
    """
    return _LARGER.get(TASK_FILES.threads, _LARGEST)


@contextmanager
def emptied() -> Iterator[TaskFiles]:
    """Begin a task with an empty hand; what it filled is closed however it ends."""
    TASK_FILES.read, TASK_FILES.filled, TASK_FILES.has_travelled = set(), [], True
    try:
        yield TASK_FILES
        for each in TASK_FILES.filled:
            each.close(synced=False)
    finally:
        TASK_FILES.has_travelled = False
        for each in TASK_FILES.filled:
            each.discard()
        TASK_FILES.filled = []
