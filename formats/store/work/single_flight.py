"""Threads that want the same value at the same time: one requests it, and the others wait for its answer."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from ...errors import CheckpointError
from .cancellation import is_cancelled, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

T = TypeVar("T")


class _Flight(Generic[T]):
    """A call that one thread makes; `result` and `error` are None if it was cancelled."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.result: T | None = None
        self.error: CheckpointError | None = None


class SingleFlight(Generic[T]):
    """Calls that are being made, by key.

    No lock is held during a call, and who waits for one can be cancelled.  A call that is cancelled with the
    thread that makes it is made again by a thread that waits for it.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight[T]] = {}
        os.register_at_fork(after_in_child=self._flights.clear)  # the child has none of these threads

    def get(self, key: Hashable, known: Callable[[], T | None], make: Callable[[], T]) -> T:
        """Return what is known, or what `make` returns; errors that it raises are raised in all threads.

        `make` has to let `known` return its result, so that a thread that comes later does not call it again.
        """
        while True:
            found = known()
            if found is not None:
                return found
            found = self._share(key, known, make)
            if found is not None:
                return found

    def _share(self, key: Hashable, known: Callable[[], T | None], make: Callable[[], T]) -> T | None:
        """Make a call, or wait for the thread that makes it; return None if that one was cancelled."""
        own = _Flight[T]()
        try:
            flight = self._flights.setdefault(key, own)
            if flight is own:
                found = known()  # It may have become known since this thread looked.
                own.result = make() if found is None else found
                return own.result
        except CheckpointError as error:
            if not is_cancelled():
                own.error = error
            raise
        finally:
            if self._flights.get(key) is own:
                del self._flights[key]
            own.done.set()
        wait_for(flight.done)
        if flight.error is not None:
            raise flight.error
        return flight.result
