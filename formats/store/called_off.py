"""Work that is called off while it waits: for a server that does not answer, that is minutes.

Whoever hands out work says by an event that nobody waits for it any more.  A thread knows the event of the
work that it does; what it waits for is done by another thread, which goes on, or goes with the process.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from ..errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

_LOOKED_EVERY = 0.1
"""Seconds after which one who waits looks whether that is wanted still."""


class _Work(threading.local):
    def __init__(self) -> None:
        self.over = threading.Event()


_work = _Work()


def called_off() -> CheckpointError:
    """Return what is raised in work that nobody waits for any more."""
    return CheckpointError("called off")


def until(over: threading.Event, work: Callable[[T], R], group: Iterable[T]) -> list[R]:
    """Do the tasks of a group in this thread; raise where the rest of them is called off."""
    before, _work.over = _work.over, over
    try:
        return [work(item) for item in _wanted(over, group)]
    finally:
        _work.over = before


def _wanted(over: threading.Event, group: Iterable[T]) -> Iterator[T]:
    for item in group:
        if over.is_set():
            raise called_off()
        yield item


def wait_for(done: threading.Event) -> None:
    """Wait until something is done; raise where this thread's work is called off."""
    while not done.wait(_LOOKED_EVERY):
        if _work.over.is_set():
            raise called_off()
