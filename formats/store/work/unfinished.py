"""Output that this process is writing, which a signal or an error removes."""

from __future__ import annotations

import weakref
from typing import Protocol


class UnfinishedOutput(Protocol):
    """Output in progress that can be removed."""

    is_local: bool
    """Whether it is on this machine, and not sent to a bucket."""

    def remove(self) -> None: ...


ALIVE: weakref.WeakSet[UnfinishedOutput] = weakref.WeakSet()


def remove_unfinished() -> None:
    """Remove everything that this process is writing, at any point where an interrupt stopped it."""
    for output in list(ALIVE):
        output.remove()


def is_sending() -> bool:
    """Whether output in progress is sent to a bucket, where parts of it may remain."""
    return any(not output.is_local for output in ALIVE)
