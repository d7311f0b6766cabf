"""Waiting that a signal, or the code that started the work, can cancel: a server that hangs takes minutes.

A thread knows the event that cancels its work (`cancelled_by`), and everything here that waits looks at it.
A call that waits in its own way, as in a library, runs in a thread of its own.  When it is cancelled,
that thread is left alone: it finishes, or ends with the process.

A signal cancels all work of the program. There is a short time to undo what was started. A server that does
not answer in time keeps it.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ...errors import CheckpointError, InaccessibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

A = TypeVar("A")
T = TypeVar("T")

_POLL_EVERY = 0.1
"""Seconds between two looks at whether a wait is cancelled."""

TAKE_BACK_WITHIN = 0.8
"""Seconds after a signal in which servers may still answer requests to undo work."""


class _ThreadWork(threading.local):
    def __init__(self) -> None:
        self.cancel = threading.Event()


class _Ending:
    deadline: float | None = None


_work = _ThreadWork()
_ending = _Ending()


def cancelled() -> CheckpointError:
    """Return the error of work that was cancelled."""
    return CheckpointError("cancelled")


class OverdueError(TimeoutError):
    """A call has not returned in its time."""


# A signal cancels all ---------------------------------------------------------------------


def end_soon() -> None:
    """Cancel all waiting in a short while: a signal has come.  Its handler calls this, so it is short."""
    _ending.deadline = time.monotonic() + TAKE_BACK_WITHIN


def resume_waiting() -> None:
    """Allow waiting again, in a program that runs on after a signal."""
    _ending.deadline = None


def is_ending() -> bool:
    return _ending.deadline is not None


def time_left() -> float | None:
    """Return the seconds within which servers are still asked; None if no signal has come."""
    deadline = _ending.deadline
    return None if deadline is None else max(0.0, deadline - time.monotonic())


# This thread's work -----------------------------------------------------------------------


@contextmanager
def cancelled_by(event: threading.Event) -> Iterator[None]:
    """Let an event cancel what this thread does in this block."""
    before, _work.cancel = _work.cancel, event
    try:
        yield
    finally:
        _work.cancel = before


def is_cancelled() -> bool:
    """Whether this thread's work is cancelled."""
    return _work.cancel.is_set()


def raise_if_cancelled() -> None:
    """Raise CheckpointError if this thread's work is cancelled, or the time after a signal is over."""
    if is_cancelled():
        raise cancelled()
    if time_left() == 0:
        raise InaccessibleError("the server did not answer before this command had to stop")


def cancellable(items: Iterable[T]) -> Iterator[T]:
    """Yield items; raise CheckpointError before the next one when this thread's work is cancelled."""
    for item in items:
        if is_cancelled():
            raise cancelled()
        yield item


# Waiting ----------------------------------------------------------------------------------


def wait_for(done: threading.Event, seconds: float | None = None) -> None:
    """Wait for an event; raise as `raise_if_cancelled`, and OverdueError after so many seconds."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while not done.is_set():
        raise_if_cancelled()
        waits = [_POLL_EVERY, time_left() or _POLL_EVERY]
        if deadline is not None:
            waits.append(deadline - time.monotonic())
            if waits[-1] <= 0:
                raise OverdueError
        done.wait(min(waits))


def sleep(seconds: float) -> None:
    """Wait so many seconds; raise as `raise_if_cancelled`."""
    with suppress(OverdueError):
        wait_for(threading.Event(), seconds)


def start_threads(calls: Iterable[Callable[[], object]], count: int) -> None:
    """Start threads that share these calls, and that no end of the process waits for."""
    waiting = iter(tuple(calls))  # an iterator that threads may share, unlike a generator

    def run() -> None:
        for call in waiting:
            call()

    for _ in range(count):
        threading.Thread(target=run, daemon=True).start()


def run_each(call: Callable[[A], T], items: Sequence[A], threads: int) -> list[T]:
    """Return the result of a call for each item, in their order; so many threads make the calls.

    Raises the first error of a call, and as `wait_for`; calls that have not begun are not made then.
    """
    return _run_all([partial(call, item) for item in items], threads)


def run_detached(call: Callable[[], T], seconds: float | None = None) -> T:
    """Return the result of a call that another thread makes: a library that waits notices no signal.

    Raises what the call raises, and as `wait_for`.
    """
    return _run_all([call], 1, seconds)[0]


def _run_all(calls: Sequence[Callable[[], T]], threads: int, seconds: float | None = None) -> list[T]:
    results: dict[int, T] = {}
    errors: list[BaseException] = []
    cancel = _work.cancel
    done = threading.Event()

    def run(at: int) -> None:
        if done.is_set():
            return
        try:
            with cancelled_by(cancel):
                results[at] = calls[at]()
        except BaseException as error:
            errors.append(error)
        if errors or len(results) == len(calls):
            done.set()

    start_threads((partial(run, at) for at in range(len(calls))), min(threads, len(calls)))
    try:
        if calls:
            wait_for(done, seconds)
    finally:
        done.set()
    if errors:
        raise errors[0]
    return [results[at] for at in range(len(calls))]
