"""Work that is called off while it waits: for a server that does not answer, that is minutes.

Whoever hands out work says by an event that nobody waits for it any more.  A thread knows the event of the
work that it does; what it waits for is done by another thread, which goes on, or goes with the process.

A signal calls off all that the program does.  What it has begun is taken back then, for which there is a
short time: what a server does not answer until the deadline stays.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast

from ...errors import CheckpointError, InaccessibleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

_LOOKED_EVERY = 0.1
"""Seconds after which one who waits looks whether that is wanted still."""

TAKEN_BACK_WITHIN = 0.8
"""Seconds after a signal within which servers are asked to take back what was begun."""


class _PendingWork(threading.local):
    def __init__(self) -> None:
        self.over = threading.Event()


class _Ending:
    deadline: float | None = None


_work = _PendingWork()
_ending = _Ending()


def called_off() -> CheckpointError:
    """Return what is raised in work that nobody waits for any more."""
    return CheckpointError("called off")


class OverdueError(TimeoutError):
    """What was asked for has not come in its time."""


# A signal ends all ------------------------------------------------------------------------


def end_soon() -> None:
    """Have nothing wait for servers much longer: a signal has come.  It calls this, so it is short."""
    _ending.deadline = time.monotonic() + TAKEN_BACK_WITHIN


def go_on() -> None:
    """Have things wait again, in a program that goes on after a signal."""
    _ending.deadline = None


def is_ending() -> bool:
    return _ending.deadline is not None


def time_left() -> float | None:
    """Return the seconds within which servers are still asked; None where no signal has come."""
    deadline = _ending.deadline
    return None if deadline is None else max(0.0, deadline - time.monotonic())


# Waiting ----------------------------------------------------------------------------------


@contextmanager
def working(over: threading.Event) -> Iterator[None]:
    """Have what this thread waits for be called off by an event."""
    before, _work.over = _work.over, over
    try:
        yield
    finally:
        _work.over = before


def until(over: threading.Event, work: Callable[[T], R], group: Iterable[T]) -> list[R]:
    """Do the tasks of a group in this thread; raise where the rest of them is called off."""
    with working(over):
        return [work(item) for item in _wanted(over, group)]


def _wanted(over: threading.Event, group: Iterable[T]) -> Iterator[T]:
    for item in group:
        if over.is_set():
            raise called_off()
        yield item


def check() -> None:
    """Raise CheckpointError where this thread's work is called off, or the time after a signal is over."""
    if _work.over.is_set():
        raise called_off()
    if time_left() == 0:
        raise InaccessibleError("the server did not answer before this command had to end")


def wait_for(done: threading.Event, seconds: float | None = None) -> None:
    """Wait until something is done; raise as `check`, and OverdueError after so many seconds."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while not done.is_set():
        check()
        waits = [_LOOKED_EVERY, time_left() or _LOOKED_EVERY]
        if deadline is not None:
            waits.append(deadline - time.monotonic())
            if waits[-1] <= 0:
                raise OverdueError
        done.wait(min(waits))


def rest(seconds: float) -> None:
    """Wait so many seconds; raise as `check`."""
    try:
        wait_for(threading.Event(), seconds)
    except OverdueError:
        return


def aside(ask: Callable[[], T], seconds: float | None = None) -> T:
    """Return what is asked for by another thread: a library that waits for a server hears no signal.

    Raises what asking raises, and as `wait_for`; the thread is left alone then, and goes with the process.
    """
    done = threading.Event()
    answers: list[tuple[T | None, BaseException | None]] = []

    def run() -> None:
        try:
            answers.append((ask(), None))
        except BaseException as error:
            answers.append((None, error))
        done.set()

    threading.Thread(target=run, daemon=True).start()
    wait_for(done, seconds)
    answer, error = answers[0]
    if error is not None:
        raise error
    return cast("T", answer)
