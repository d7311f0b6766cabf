"""Work on many small files, by processes that are forked for it.

Threads share the interpreter's lock, and most of the time that a small file takes is Python's. A new
process imports everything for a quarter of a second; a forked one works after a few milliseconds. It
inherits the items, so only their numbers travel. Results come back pickled.

A process that has threads is not forked: a lock that one of them holds would stay locked for ever.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from multiprocessing.connection import Pipe, wait
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from ...core.unraisable import RaisedAgain
from ...errors import CheckpointError
from .counters import add_reads, reads_of_child
from .results import Done
from .workers import can_fork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

    from ..base import Store

T = TypeVar("T")
R = TypeVar("R")

_LARGEST_BATCH = 64
_BATCHES_EACH = 8
"""Batches that each process gets at least: what one of them takes longer for, the others make up."""

MANY = 32
"""Items that are worth processes, if each takes at least about a millisecond."""

_PATIENCE = 1.0
"""Seconds in which a process that must end has ended its own processes."""


_A_MOMENT = 0.001


def each_of_many(work: Callable[[T], R], items: Sequence[T], jobs: int, store: Store) -> Iterator[R]:
    """Yield `work(item)` of every item in a store, in their order; by processes where they are many."""
    is_shared = jobs > 1 and len(items) >= MANY and store.forks and can_fork()
    yield from Forked(work, items, jobs) if is_shared else map(work, items)


class Forked(Generic[T, R]):
    """`work(item)` of every item, in their order, by `jobs` processes that are forked at once.

    This process does the batches of a lost process, and everything if no process can be started. An exception
    of `work` is raised when its result is next. At the end of the iterator all processes have ended.

    A process gets `batch` items at a time. It is killed if it has not ended `patience` seconds after SIGTERM.
    """

    def __init__(
        self,
        work: Callable[[T], R],
        items: Sequence[T],
        jobs: int,
        *,
        batch: int | None = None,
        patience: float = _PATIENCE,
    ) -> None:
        self._work = work
        self._items = items
        self._size = batch or max(1, min(_LARGEST_BATCH, len(items) // (jobs * _BATCHES_EACH)))
        self._patience = patience
        self._left = iter(range(-(-len(items) // self._size)))
        self._processes: list[int] = []
        self._ends: list[Connection] = []
        try:
            for _ in range(jobs):
                self._begin()
        except OSError:  # too many processes: those that are there do it
            pass
        except BaseException:  # a signal
            self._close()
            raise

    def _begin(self) -> None:
        """Fork a process; not one of multiprocessing's, which wait for each other when a signal ends them."""
        here, there = Pipe()
        with there:
            try:
                process = os.fork()
            except OSError:
                here.close()
                raise
            if not process:
                self._serve(there, [*self._ends, here])
        self._ends.append(here)
        self._processes.append(process)

    def __iter__(self) -> Iterator[R]:
        try:
            answers: dict[int, Done] = {}
            busy: dict[Connection, int] = {}
            for end in self._ends:
                self._send_batch(end, busy)
            for number in range(-(-len(self._items) // self._size)):
                while number not in answers and number in busy.values():
                    self._take(busy, answers)
                answer = answers.pop(number, None) or self._done(next(self._left))
                add_reads(answer.reads)
                yield from answer.results
                if answer.error is not None:
                    raise answer.error
        finally:
            self._close()

    def _send_batch(self, end: Connection, busy: dict[Connection, int]) -> None:
        number = next(self._left, None)
        if number is not None:
            busy[end] = number
            with contextlib.suppress(OSError):  # it is gone, and is found to be
                end.send(number)

    def _take(self, busy: dict[Connection, int], answers: dict[int, Done]) -> None:
        """Wait until something has come of a batch, and hand out others."""
        ready = wait([*busy])
        for end in [each for each in busy if each in ready]:
            number = busy.pop(end)
            try:
                answers[number] = end.recv()
            except (EOFError, OSError):  # the process is gone
                answers[number] = self._done(number)
            else:
                self._send_batch(end, busy)

    def _done(self, number: int) -> Done:
        results: list[object] = []
        try:
            for item in self._items[number * self._size : (number + 1) * self._size]:
                results.append(self._work(item))
        except CheckpointError as error:
            return Done(results, error=error.with_traceback(None))
        return Done(results)

    def _serve(self, end: Connection, others: list[Connection]) -> NoReturn:
        """Do batches until the parent sends no more, and never return."""
        try:
            for other in others:  # open, these would hide that the parent has ended
                other.close()
            for ignored in (signal.SIGINT, signal.SIGHUP):  # and the parent receives them
                signal.signal(ignored, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, _end)
            sys.unraisablehook = RaisedAgain(lambda error: isinstance(error, SystemExit))
            reads_of_child()
            while True:
                answer = self._done(end.recv())
                end.send(answer._replace(reads=reads_of_child()))
        except (EOFError, OSError, SystemExit):
            os._exit(0)
        finally:  # an error in the program is raised where the batch is done again
            os._exit(1)

    def _close(self) -> None:
        for end in self._ends:
            end.close()
        for process in self._processes:
            os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + self._patience
        while self._processes and time.monotonic() < deadline:
            self._processes = [each for each in self._processes if not os.waitpid(each, os.WNOHANG)[0]]
            time.sleep(_A_MOMENT)
        for process in self._processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        self._processes, self._ends = [], []


def _end(*_: object) -> NoReturn:
    """End as an exception does: a process that was begun to read an HDF5 file ends, too.

    The signal may come twice, to all processes of a terminal and from the one that handed out the work.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is staged is being removed
    raise SystemExit(1)
