"""Work as a list of tasks that do not depend on each other, and who does them.

A task is a function and one item of plain data. Its result returns to the caller, in the order of the items.
This thread can run the tasks, a pool of threads, or any other `concurrent.futures.Executor` that can reach
the files (`formats.store.work.executors`). The results do not depend on that, nor do files in which every
task writes its own range.

Items are taken from their source only a little ahead of the work, so a million tasks
need no more memory than a few, and small ones travel together.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain
from threading import BoundedSemaphore, Event
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from .cancellation import cancellable, cancelled_by
from .task_context import TASK_FILES, StaysHereError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from concurrent.futures import Executor, Future


T = TypeVar("T")
R = TypeVar("R")

TASK_BYTES = 16 << 20
"""Bytes that a task reads: milliseconds of work, so that handing it out costs next to nothing."""

_MUCH = 10**12
"""Bytes above which tasks grow: of more tasks than this makes, keeping them in order would be the work."""

_MOST_TASKS = 200_000
_LARGER, _LARGEST = 256 << 20, 1 << 30
_MOST_TOGETHER = 1024
_GROUPS_EACH = 16
"""Groups that each remote worker gets, out of all the work: the last ones finish at about the same time."""

_LEAST_FORKED = 4 * TASK_BYTES
"""Bytes that are worth processes: to fork one takes as long as to read a few megabytes."""

_MOST_FORKED = 1 << 16
"""Items that forked processes inherit: as many take about 40 MB."""

_MOST_FILES = 16
"""Files that tasks of one group write to: those of all groups that were handed out are open at once."""

_MOST_JOBS = 8
"""Threads used by default: eight read and sum about as fast as memory allows."""

MEMORY_EACH = 64 << 20
"""Available memory that each of several threads needs by default: it takes at most 40 MB, and its stack."""


def task_bytes(total: int) -> int:
    """Return how many bytes a task goes through where there are so many: 100 TB are 186,265 tasks."""
    if total <= _MUCH:
        return TASK_BYTES
    size = _LARGER
    while size < _LARGEST and size * _MOST_TASKS < total:
        size *= 2
    return size


def group_bytes(total: int, count: int) -> int:
    """Return how many bytes travel together to `count` who are far away, of so many bytes in all.

    To send a group there, and to have its results, costs milliseconds of everybody's, however much it is.
    """
    return max(task_bytes(total), min(_LARGER, total // (_GROUPS_EACH * count)))


class TaskRunner(Protocol):
    """Those who do tasks, several at a time."""

    is_far: bool
    """Whether handing out costs so much that also large tasks travel together."""

    @property
    def count(self) -> int:
        """How many tasks are done at a time."""

    def submit(self, work: Callable[[T], R], group: list[T]) -> Future[list[R]]:
        """Hand out a group of items.  Raises StaysHereError if they cannot travel."""

    def wait(self, futures: Iterable[Future[list[R]]]) -> None:
        """Wait until one of them has ended. Raises CheckpointError if no worker is left."""

    def result(self, future: Future[list[R]]) -> list[R]:
        """Return what came of a group, or of its first items; what a task raised is raised."""

    def stop(self, futures: Iterable[Future[list[R]]]) -> None:
        """Cancel the work, and wait for what has begun: it may write to a file that is removed next."""

    def close(self) -> None:
        """Let those go who did the tasks."""


class Threads:
    """Threads of this process, or another executor that sees the same files."""

    is_far = False

    def __init__(self, executor: Executor, count: int) -> None:
        self._executor = executor
        self._cancels: WeakKeyDictionary[Future[Any], Event] = WeakKeyDictionary()
        self.count = count

    def submit(self, work: Callable[[T], R], group: list[T]) -> Future[list[R]]:
        cancel = Event()
        future = self._executor.submit(_work_until, cancel, self.count, work, group)
        self._cancels[future] = cancel
        return future

    def wait(self, futures: Iterable[Future[list[R]]]) -> None:
        from concurrent.futures import FIRST_COMPLETED, wait

        wait(futures, return_when=FIRST_COMPLETED)

    def result(self, future: Future[list[R]]) -> list[R]:
        return future.result()

    def stop(self, futures: Iterable[Future[list[R]]]) -> None:
        from concurrent.futures import wait

        begun = [future for future in futures if not future.cancel()]
        for future in begun:
            self._cancels[future].set()
        wait(begun)

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


class _Group(Generic[T, R]):
    """Items that were handed out together, what came of the first of them, and what was raised then."""

    def __init__(self, items: list[T]) -> None:
        self.items = items
        self.results: list[R] = []
        self.error: Exception | None = None
        self.future: Future[list[R]] | None = None

    @property
    def under_way(self) -> Future[list[R]] | None:
        """The first unfinished future, or None."""
        is_over = self.error is not None or len(self.results) >= len(self.items)
        return None if is_over else self.future


class _PendingGroups(Generic[T, R]):
    """Groups that were handed out and not taken back yet, in their order.

    `report` is called with each result as soon as it arrives, in any order.
    """

    def __init__(self, runner: TaskRunner, work: Callable[[T], R], report: Callable[[T, R], None]) -> None:
        self._runner = runner
        self._work = work
        self._report = report
        self._groups: deque[_Group[T, R]] = deque()

    def __len__(self) -> int:
        return len(self._groups)

    def submit_group(self, items: list[T]) -> bool:
        """Hand out a group, or do it here where it cannot travel; return whether it was handed out."""
        group: _Group[T, R] = _Group(items)
        try:
            group.future = self._runner.submit(self._work, items)
        except StaysHereError:
            group.results.extend(_done_here(self._work, items, self._report))
        self._groups.append(group)
        return group.future is not None

    def first(self) -> list[R]:
        """Return what came of the group that was handed out first, which stays known until it has ended."""
        first = self._groups[0]
        while first.under_way is not None:
            self._runner.wait(self._under_way())
            for group in self._groups:
                if group.under_way is not None and group.under_way.done():
                    self._take(group, group.under_way)
        self._groups.popleft()
        if first.error is not None:
            raise first.error
        return first.results

    def _take(self, group: _Group[T, R], future: Future[list[R]]) -> None:
        """Take what came of a group, and hand out the rest of it again where that is not all."""
        try:
            results = self._runner.result(future)
        except Exception as error:  # raised when it is its turn
            group.error = error
            return
        for item, result in zip(group.items[len(group.results) :], results, strict=False):
            self._report(item, result)
        group.results += results
        if group.under_way is not None:
            group.future = self._runner.submit(self._work, group.items[len(group.results) :])

    def stop(self) -> None:
        """Cancel what is under way."""
        self._runner.stop(self._under_way())

    def _under_way(self) -> list[Future[list[R]]]:
        return [future for group in self._groups if (future := group.under_way) is not None]


def _done_here(work: Callable[[T], R], items: Iterable[T], report: Callable[[T, R], None]) -> Iterator[R]:
    """Do tasks in this thread."""
    for item in items:
        result = work(item)
        report(item, result)
        yield result


class Workers:
    """Hands out tasks, or runs them in the calling thread if there are no workers.

    `runner` is called once, when there is something to share. `total` is the number of bytes of all the work,
    which decides how large a task is. `jobs` is the number of processes to fork for many small files instead
    (None: one per default thread). `sent` counts the submitted tasks and their bytes; `kept` counts the
    tensors that this process reads itself, and their bytes.
    """

    def __init__(
        self,
        runner: Callable[[], TaskRunner] | None = None,
        *,
        shares_all: bool = False,
        jobs: int | None = 1,
    ) -> None:
        self._runner = runner
        self._jobs = jobs
        self._shares_all = shares_all
        self._made: list[TaskRunner] = []
        self.task_bytes = TASK_BYTES
        self._total = 0
        self.kept = [0, 0]
        self.sent = [0, 0]

    def expecting(self, total: int) -> Workers:
        """Return these workers for work of so many bytes in all."""
        self.task_bytes = task_bytes(total)
        self._total = total
        return self

    @cached_property
    def jobs(self) -> int:
        """How many processes may be forked."""
        return default_jobs() if self._jobs is None else self._jobs

    @property
    def shares_all(self) -> bool:
        """Whether everything is handed out that can be: who works was chosen."""
        return self._shares_all

    def keep(self, nbytes: int, tensors: int = 1) -> None:
        """Take note of tensors that are not handed out, for they cannot be read or written in ranges."""
        self.kept[0] += tensors
        self.kept[1] += nbytes

    def map(
        self,
        work: Callable[[T], R],
        items: Iterable[T],
        size: Callable[[T], int] = lambda _: TASK_BYTES,
        file: Callable[[T], object] = lambda _: None,
        *,
        alone: bool = False,
        report: Callable[[T, R], None] = lambda *_: None,
        local: bool = False,
        forks: bool = False,
    ) -> Generator[R]:
        """Yield `work(item)` of every item, in their order.

        `size` returns the bytes of an item, `file` the file that it writes to. With `alone`, each item is a
        group. `report` is called with an item and its result as soon as it is done, in any order. `local`
        means that all files are on this machine: at most one thread per processor then works, because more
        would compete for the interpreter's lock. `forks` means that the work on local files is arithmetic,
        with small results. If there is much of it, forked processes do it, one per processor, because each
        has a lock of its own.

        An error of a task is raised when it is its turn. Once the generator has ended, or was closed, no task
        is running and none will.
        """
        if self._runner is None:
            yield from _done_here(work, items, report)
            return
        groups = ([item] for item in items) if alone else self._together(items, size, file)
        if forks and min(self.jobs, processors()) > 1:
            few, groups = _unless_many(groups)
            if sum(size(item) for group in few for item in group) >= _LEAST_FORKED and can_fork():
                yield from self._by_processes(work, few, report)
                return
        first, second = next(groups, None), next(groups, None)
        if first is None or (second is None and not self._shares_all):
            yield from _done_here(work, first or (), report)  # nothing to share, so no need for workers
            return
        if not self._made:
            self._made.append(self._runner())
        runner = self._made[0]
        if (local or forks) and isinstance(runner, Threads) and runner.count > processors():
            work = partial(_in_turn, BoundedSemaphore(processors()), work)
        ahead = _PendingGroups(runner, work, report)
        try:
            for group in chain((first,), () if second is None else (second,), groups):
                self._count(group, sum(map(size, group)), travelled=ahead.submit_group(group))
                if len(ahead) > 2 * runner.count:
                    yield from ahead.first()
            while ahead:
                yield from ahead.first()
        finally:
            ahead.stop()

    def _by_processes(
        self, work: Callable[[T], R], groups: list[list[T]], report: Callable[[T, R], None]
    ) -> Iterator[R]:
        import numpy as np  # noqa: F401  once, rather than in each process

        from .forked import Forked

        done = Forked(partial(each_of, work), groups, min(self.jobs, processors()), batch=1)
        for group, results in zip(groups, done, strict=True):
            for item, result in zip(group, results, strict=True):
                report(item, result)
                yield result

    def _count(self, group: list[T], nbytes: int, *, travelled: bool) -> None:
        if travelled:
            self.sent = [self.sent[0] + 1, self.sent[1] + nbytes]
        else:
            self.kept = [self.kept[0] + len(group), self.kept[1] + nbytes]

    def _together(
        self, items: Iterable[T], size: Callable[[T], int], file: Callable[[T], object]
    ) -> Iterator[list[T]]:
        """Yield items in groups that are worth a task."""
        group: list[T] = []
        total, files = 0, set[object]()
        for item in items:
            nbytes = size(item)
            files.add(file(item))
            is_full = len(group) == _MOST_TOGETHER or len(files) > _MOST_FILES
            if group and (is_full or total + nbytes > self._group_bytes):
                yield group
                group, total, files = [], 0, {file(item)}
            group.append(item)
            total += nbytes
        if group:
            yield group

    @property
    def _group_bytes(self) -> int:
        """How many bytes are handed out together. The first group is sent before workers are known."""
        far = [runner for runner in self._made if runner.is_far]
        return group_bytes(self._total, far[0].count) if far else self.task_bytes

    def close(self) -> None:
        """Let everybody go who was found."""
        while self._made:
            self._made.pop().close()


SERIAL = Workers()


def each_of(work: Callable[[T], R], group: Iterable[T]) -> list[R]:
    """Do the tasks of a group."""
    return [work(item) for item in group]


def _in_turn(turns: BoundedSemaphore, work: Callable[[T], R], item: T) -> R:
    """Do a task as soon as fewer threads are at work than may be."""
    with turns:
        return work(item)


def _work_until(cancel: Event, threads: int, work: Callable[[T], R], group: Iterable[T]) -> list[R]:
    """Do the tasks of a group, as one of so many threads; CheckpointError when an event cancels the rest."""
    TASK_FILES.threads = min(threads, processors())
    with cancelled_by(cancel):
        return each_of(work, cancellable(group))


def _unless_many(groups: Iterator[list[T]]) -> tuple[list[list[T]], Iterator[list[T]]]:
    """Return all groups, in a list unless there are too many items for one, and from their beginning."""
    found: list[list[T]] = []
    items = 0
    for group in groups:
        found.append(group)
        items += len(group)
        if items > _MOST_FORKED:
            return [], chain(found, groups)
    return found, iter(found)


def can_fork() -> bool:
    """Whether this process may be forked now: elsewhere than on Linux libraries do not allow it."""
    return sys.platform == "linux" and threading.active_count() == 1


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_jobs() -> int:
    """Return the default number of concurrent tasks: one per processor, at most eight.

    There are fewer where memory is scarce.
    """
    most = min(_MOST_JOBS, processors())
    if most == 1:
        return 1
    from .available_memory import available_memory  # a listing starts without it

    memory = available_memory()
    return most if memory is None else max(1, min(most, memory // MEMORY_EACH))


@contextmanager
def workers(jobs: int | None = None) -> Iterator[Workers]:
    """Lend that many threads, by default as many as `default_jobs` returns.

    Reading, writing, checksums and numpy's arithmetic release the interpreter's lock.
    The threads are made when there are two tasks, for importing them takes longer than
    listing a small checkpoint.
    """
    found = Workers(partial(_threads, jobs), jobs=jobs) if (jobs or processors()) > 1 else Workers()
    try:
        yield found
    finally:
        found.close()


def _threads(jobs: int | None) -> Threads:
    from concurrent.futures import ThreadPoolExecutor

    count = jobs or default_jobs()
    return Threads(ThreadPoolExecutor(count), count)
