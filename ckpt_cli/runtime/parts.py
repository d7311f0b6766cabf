"""Work that is cut into parts, which a few threads take as they are free.

A BLAS that shares each product among threads of its own has them wait for each other by spinning:
on a machine that is busy with other work a product takes several times as long.  So numpy's uses one
thread while this runtime computes, and work is cut here.  These threads sleep while they wait, and one
that is held up takes fewer parts.  Products of the program's own use as many threads as before.

How work is cut depends on its size alone, never on the number of threads or on who is faster: what is
computed is the same to the bit on every number of processors.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["cut", "one_thread", "share", "unbroken"]

_MOST_PARTS = 32
"""More would not make the last part much shorter, and each costs some microseconds of Python."""

_NUM_THREADS = (
    "scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
    "openblas_{}_num_threads",
)  # fmt: skip
"""OpenBLAS' names of `get` and `set`: in numpy 2's wheels, in numpy 1's, and elsewhere."""


_PROCESSORS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
"""Those that the process may use; none where the system does not tell."""


def _threads() -> int:
    """Return the number of threads: OpenBLAS' setting, or one per processor."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        told = os.environ.get(name, "")
        if told.isdecimal() and int(told):
            return int(told)
    return len(_PROCESSORS) or os.cpu_count() or 1


class _OneThread:
    """Has products run in the thread that asks, within `with`; another BLAS than OpenBLAS stays as it is."""

    def __init__(self) -> None:
        # A symbol is looked for in a library and in those that it was linked with.
        library = ctypes.CDLL(np.linalg._umath_linalg.__file__)
        found = [name for name in _NUM_THREADS if hasattr(library, name.format("set"))]
        self._get: Any = getattr(library, found[0].format("get")) if found else lambda: 1
        self._set: Any = getattr(library, found[0].format("set")) if found else lambda count: None
        self._lock, self._within, self._before = Lock(), 0, 1

    def __enter__(self) -> None:
        with self._lock:
            if not self._within:
                self._before = self._get()
                if self._before != 1:
                    self._set(1)
            self._within += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._within -= 1
            if not self._within and self._before != 1:
                self._set(self._before)

    def forked(self) -> None:
        """Forget, in a new process, what its parent's threads were computing."""
        self._lock = Lock()
        if self._within:
            self._within = 0
            self._set(self._before)


one_thread = _OneThread()
THREADS = _threads()


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    """Return this many threads, each bound to one of the last processors.

    Linux wakes a thread up where the one runs that wakes it, and leaves the other processors idle for
    milliseconds.  The asking thread is moved nowhere: it soon runs where no helper is.
    """
    processors = iter(_PROCESSORS[-count:])

    def stay() -> None:
        processor = next(processors, None)
        if processor is not None:
            os.sched_setaffinity(0, {processor})

    return ThreadPoolExecutor(count, "ckpt-parts", stay)


@cache
def _unbroken() -> ThreadPoolExecutor:
    """Return a thread for work that is done as a whole; it asks the others for help."""
    return ThreadPoolExecutor(1, "ckpt-unbroken")


# A process that has been forked has none of the threads.
os.register_at_fork(after_in_child=_helpers.cache_clear)
os.register_at_fork(after_in_child=_unbroken.cache_clear)
os.register_at_fork(after_in_child=one_thread.forked)


class _Work:
    """Parts that threads take until none is left."""

    def __init__(self, work: Callable[[Any], object], parts: Sequence[Any]) -> None:
        self._work = work
        self._left = list(parts)

    def take(self) -> None:
        # As in TensorFlow, infinities cause no warning; numpy's settings are per thread.
        with np.errstate(all="ignore"):
            while self._left:
                try:
                    part = self._left.pop()
                except IndexError:
                    return  # another has taken it in between
                self._work(part)

    def end(self, helping: list[Future[None]]) -> None:
        """Wait for those who have begun: for the others nothing is left."""
        self._left.clear()
        wait([one for one in helping if not one.cancel()])
        del self._work  # A thread that is done may keep this a moment, and would keep the arrays in it.


def share(work: Callable[[Any], object], parts: Sequence[Any]) -> None:
    """Do work for each part, in any order and by several threads; what it raises is raised here."""
    with one_thread:
        _share(work, parts)


def _share(work: Callable[[Any], object], parts: Sequence[Any]) -> None:
    shared = _Work(work, parts)
    count = min(THREADS, len(parts)) - 1
    if count < 1:
        shared.take()
        return
    helping = [_helpers(THREADS - 1).submit(shared.take) for _ in range(count)]
    try:
        shared.take()
    finally:
        shared.end(helping)
    for one in helping:
        if not one.cancelled():
            one.result()


def unbroken(work: Callable[[], object]) -> None:
    """Do work that changes arrays in place, in a thread that no interrupt reaches.

    One that comes in between is raised here when all is done, or before any of it was begun: a program
    that is interrupted saves what it has.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        nonlocal work
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            work()
            del work  # This thread keeps what it ran a moment longer than the caller waits.
        except BaseException as error:  # raised in the calling thread
            outcome.set_exception(error)
        else:
            outcome.set_result(None)

    try:
        _unbroken().submit(run)
        outcome.result()
    finally:
        while not (outcome.cancel() or outcome.done()):  # it has begun, and takes milliseconds
            with suppress(KeyboardInterrupt):  # the second one, say; the first is raised then
                wait([outcome])


def cut(length: int, least: int) -> list[slice]:
    """Return a range cut into nearly equal parts of `least` or more, as far as there are so many."""
    count = max(1, min(_MOST_PARTS, length // max(least, 1)))
    bounds = [length * part // count for part in range(count + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]
