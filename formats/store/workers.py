"""Work as a list of tasks that do not depend on each other, and who does them.

A task is a function and one item of plain data; what it returns goes back to whoever
handed it out, in the order of the items.  So results, and files that tasks write at
places of their own, are the same whoever does the work: this thread, a pool of threads,
or any other `concurrent.futures.Executor` that can reach the files.

Items are taken from their source only a little ahead of the work, so a million tasks
need no more memory than a few, and small ones travel together.
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Executor, Future


T = TypeVar("T")
R = TypeVar("R")

TASK_BYTES = 16 << 20
"""Bytes that a task goes through: milliseconds of work, beside which handing it out costs nothing."""

_MOST_TOGETHER = 1024
_MOST_JOBS = 4
"""Threads used unless asked for more: four copy as fast as memory lets them."""


class Workers:
    """Does tasks on an executor, `count` at a time, or without one in the thread that asks."""

    def __init__(self, executor: Callable[[], Executor] | None = None, count: int = 1) -> None:
        self._executor = executor
        self._count = count

    def map(
        self, work: Callable[[T], R], items: Iterable[T], size: Callable[[T], int] = lambda _: TASK_BYTES
    ) -> Generator[R]:
        """Yield `work(item)` of every item, in their order; `size` says how many bytes an item is of.

        What a task raises is raised in its turn.  When the generator has ended, or was
        closed, no task is running any more and no other will.
        """
        if self._executor is None:
            yield from map(work, items)
            return
        groups = _together(items, size)
        first, second = next(groups, None), next(groups, None)
        if first is None or second is None:
            yield from map(work, first or ())  # nothing to share, and no executor to be made
            return
        executor = self._executor()
        ahead: deque[Future[list[R]]] = deque()
        try:
            for group in chain((first, second), groups):
                ahead.append(executor.submit(_each, work, group))
                if len(ahead) > 2 * self._count:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()
        finally:
            _stop(ahead)


SERIAL = Workers()


def _each(work: Callable[[T], R], group: list[T]) -> list[R]:
    return [work(item) for item in group]


def _together(items: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield items in groups that are worth a task."""
    group: list[T] = []
    total = 0
    for item in items:
        nbytes = size(item)
        if group and (total + nbytes > TASK_BYTES or len(group) == _MOST_TOGETHER):
            yield group
            group, total = [], 0
        group.append(item)
        total += nbytes
    if group:
        yield group


def _stop(futures: Iterable[Future[R]]) -> None:
    """Call off what has not begun, and wait for what has: it may write to a file that is removed next."""
    from concurrent.futures import wait

    wait([future for future in futures if not future.cancel()])


def default_jobs() -> int:
    """Return how many tasks to do at a time where nobody says: one a processor, up to four."""
    return min(_MOST_JOBS, os.cpu_count() or 1)


@contextmanager
def workers(jobs: int) -> Iterator[Workers]:
    """Lend that many threads.

    Reading, writing, checksums and numpy's arithmetic release the interpreter's lock.
    The threads are made when there are two tasks, for importing them takes longer than
    listing a small checkpoint.
    """
    if jobs == 1:
        yield SERIAL
        return
    made: list[Executor] = []

    def threads() -> Executor:
        from concurrent.futures import ThreadPoolExecutor

        if not made:
            made.append(ThreadPoolExecutor(jobs))
        return made[0]

    try:
        yield Workers(threads, jobs)
    finally:
        for executor in made:
            executor.shutdown(cancel_futures=True)
