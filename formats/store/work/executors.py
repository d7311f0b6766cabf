"""Tasks that travel: to other processes of this machine, or to other machines.

A parcel is a pickled group of tasks: files by store, path and identity, ranges, numbers. The worker opens the
files itself (`formats.store.base.reopened`), runs the tasks, closes the files that it wrote, and returns the
results and the number of bytes it read. Tasks that cannot travel are run by the calling process.

    threads      this process; no parcels
    processes    of this machine, started for the command and ended with it
    dask         workers of dask.distributed on this machine, started for the command
    dask://...   workers of a running scheduler: everyone who can reach it can run any code on it, so keep
                 it private (docs/explanations/clusters.md)

Only a worker unpickles a parcel: it was started for this, or takes whole programs from its scheduler anyway.
Bytes from a file or a server are never unpickled. No secret travels: a worker takes credentials from its own
environment.

Doing a task twice does no harm, for it writes the same bytes at the same places.  So what a lost worker
had is done again where the engine does that, as Dask does.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import pkgutil
import re
import threading
import time
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...core import notices
from ...core.version import VERSION
from ...core.words import counted
from ...errors import CheckpointError, InaccessibleError, UnsupportedFeatureError
from .cancellation import cancellable, cancelled, cancelled_by, end_soon, is_ending, time_left
from .counters import add_reads, count_reads, is_counting, reads_of_task
from .results import Done
from .task_context import emptied
from .unfinished import is_sending
from .workers import Threads, Workers, default_jobs, each_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Executor

    from .workers import TaskRunner

T = TypeVar("T")
R = TypeVar("R")

POLL_SECONDS = 2.0
"""Seconds without results after which the workers are checked."""

_ENDED = 1

A_WHILE = 1.0
"""Seconds after which a parcel comes back, done in part: of what has, nothing is lost with the command."""


# Where the work is done ------------------------------------------------------------------


class _Runs:
    """The commands that work is done for: how many of their tasks are being done, and which are over."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy: dict[str, int] = {}
        self._cancels: dict[str, threading.Event] = {}

    def begin(self, run: str) -> bool:
        """Begin a task, unless it was cancelled."""
        with self._changed:
            if self.cancel_event(run).is_set():
                return False
            self._busy[run] = self._busy.get(run, 0) + 1
            return True

    def end(self, run: str) -> None:
        with self._changed:
            self._busy[run] -= 1
            if not self._busy[run]:
                del self._busy[run]
                if not self._cancels[run].is_set():
                    del self._cancels[run]

    def cancel_event(self, run: str) -> threading.Event:
        """Return the event that cancels a command's tasks."""
        with self._changed:
            return self._cancels.setdefault(run, threading.Event())

    def cancel(self, run: str) -> None:
        """Let no more tasks of a command begin, and end those that wait for a server."""
        self.cancel_event(run).set()

    def cancel_all(self) -> bool:
        """Cancel all tasks that run; return whether any does."""
        with self._changed:
            for run in self._busy:
                self.cancel(run)
            return bool(self._busy)

    def is_busy(self, run: str) -> bool:
        with self._changed:
            return run in self._busy


RUNS = _Runs()


def _for_a_while(group: Iterable[T]) -> Iterator[T]:
    """Yield a group's items, one at least, until a while has passed."""
    until = time.monotonic() + A_WHILE
    for number, item in enumerate(group):
        if number and time.monotonic() >= until:
            return
        yield item


def work_on(version: str, run: str, parcel: bytes, *, synced: bool) -> Done:
    """Do the tasks of a parcel in this process, for a command in another; what takes long, in part.

    `synced` sends written bytes to the server of a network file system before this returns, because no other
    process's `fsync` does.
    """
    if version != VERSION:
        message = f"the worker on {os.uname().nodename} has ckpt {VERSION}; expected {version}"
        hints = ("install the same version everywhere",)
        return Done([], error=UnsupportedFeatureError(message, hints=hints))
    if not RUNS.begin(run):
        return Done([], error=cancelled())
    try:
        with cancelled_by(RUNS.cancel_event(run)):
            return _opened(parcel, synced=synced)
    finally:
        RUNS.end(run)
        if is_ending():  # a worker that received a signal to stop, and has undone what it had started
            os._exit(_ENDED)


def _opened(parcel: bytes, *, synced: bool) -> Done:
    if not is_counting():
        count_reads()
    with emptied() as hand:
        results: list[Any] = []
        error: CheckpointError | None = None
        try:
            work, group = pickle.loads(parcel)  # noqa: S301  of who hands out, see above
            results = each_of(work, _for_a_while(cancellable(group)))
            for file in hand.filled:
                file.close(synced=synced)
        except CheckpointError as raised:
            error = raised.with_traceback(None)
        except (ImportError, AttributeError) as raised:  # raised by a worker on which ckpt is not installed
            raise RuntimeError(f"{type(raised).__name__}: {raised}") from raised
        return Done(results, reads_of_task(hand.read), error)


class NamedFunction:
    """A function of `formats` that another process imports by way of `ckpt_cli`.

    `ckpt_cli` imports its own `formats` there (`ckpt_cli.own_formats`). The function's own name would import
    the first `formats` on that process's path.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__name__ = function.__name__

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(*args, **named)

    def __reduce__(self) -> tuple[object, ...]:
        return pkgutil.resolve_name, (f"ckpt_cli.worker:{self.__name__}",)


def begin_worker() -> None:
    """Begin a process that does tasks: it ends with the one that began it, which alone is interrupted."""
    import multiprocessing
    import signal

    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def end(*_: object) -> None:
        end_soon()
        if not RUNS.cancel_all():
            os._exit(_ENDED)

    signal.signal(signal.SIGTERM, end)
    above = multiprocessing.parent_process()
    assert above is not None

    def follow() -> None:
        above.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


# Where it is handed out ------------------------------------------------------------------


class ExecutorRunner:
    """Hands of another process: those of an executor, which takes parcels.

    `elsewhere` are hands that may be on other machines.
    """

    def __init__(self, executor: Executor, count: int, *, elsewhere: bool = True) -> None:
        self.is_far = elsewhere
        self._executor = executor
        self._count = count
        self._elsewhere = elsewhere
        self._run = os.urandom(16).hex()

    @property
    def count(self) -> int:
        return self._count

    def submit(self, work: Callable[[T], R], group: list[T]) -> Future[Any]:
        parcel = pickle.dumps((work, group), pickle.HIGHEST_PROTOCOL)
        try:
            return self._executor.submit(
                NamedFunction(work_on), VERSION, self._run, parcel, synced=self._elsewhere
            )
        except (BrokenExecutor, RuntimeError) as error:
            raise self.lost(error) from error
        except OSError as error:  # of starting a process: too many of them, or no current directory
            raise InaccessibleError(f"no worker can be started: {error.strerror or error}") from error

    def wait(self, futures: Iterable[Future[Any]]) -> None:
        while not wait(futures, POLL_SECONDS, FIRST_COMPLETED).done:
            self.ask()

    def result(self, future: Future[Any]) -> list[Any]:
        try:
            done = future.result()
        except self.failures as error:
            raise self.lost(error) from error
        if not isinstance(done, Done):
            raise self.lost(TypeError(f"a worker returned {type(done).__name__}"))
        add_reads(done.reads)
        if done.error is not None:
            raise done.error
        return done.results

    @property
    def failures(self) -> tuple[type[BaseException], ...]:
        """The errors of work that was not done."""
        return BrokenExecutor, CancelledError, OSError, ImportError, AttributeError

    def ask(self) -> None:
        """Check that workers exist, and raise if there are none."""

    def lost(self, error: BaseException) -> CheckpointError:
        """Return the error for work that was not done."""
        if isinstance(error, ImportError | AttributeError):
            message = f"a worker has another version of ckpt, or none: {error}"
            return UnsupportedFeatureError(message, hints=("install the same version everywhere",))
        return InaccessibleError(f"the workers are gone: {error}")

    def stop(self, futures: Iterable[Future[Any]]) -> None:
        wait([future for future in futures if not future.cancel()])

    def close(self) -> None:
        """Leave the executor to whom it belongs."""


class _Pool(ProcessPoolExecutor):
    """Processes begun with interrupts held back: until `begin_worker` they would end of one, loudly."""

    def submit(self, *args: Any, **named: Any) -> Future[Any]:
        import signal

        held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
        try:
            return super().submit(*args, **named)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)


class Processes(ExecutorRunner):
    """Processes of this machine, which are this command's own."""

    def __init__(self, count: int) -> None:
        import multiprocessing

        # A forked process would have the locks of threads that it does not have.
        context = multiprocessing.get_context("spawn")
        pool = _Pool(count, mp_context=context, initializer=NamedFunction(begin_worker))
        super().__init__(pool, count, elsewhere=False)
        self._executor: ProcessPoolExecutor = pool

    def lost(self, error: BaseException) -> CheckpointError:
        if isinstance(error, BrokenExecutor):
            lost = InaccessibleError("a worker process ended abruptly: it was killed, or ran out of memory")
            lost.hints = ("use fewer workers: --executor processes:1, or --executor threads",)
            return lost
        return super().lost(error)

    def stop(self, futures: Iterable[Future[Any]]) -> None:
        """Cancel the work; after a signal the processes end, for what they do may take long."""
        if is_ending():
            self._end()
        else:
            super().stop(futures)

    def _end(self) -> None:
        from multiprocessing.connection import wait as wait_for_any

        alive = {each.sentinel: each for each in (self._executor._processes or {}).values()}
        for each in alive.values():
            each.terminate()
        deadline = time.monotonic() + (time_left() or 0.0) / 2  # the command has to take back something, too
        while alive and (left := deadline - time.monotonic()) > 0:
            for sentinel in wait_for_any(list(alive), left):
                del alive[sentinel]  # type: ignore[arg-type]
        for each in alive.values():
            each.kill()
        if alive and is_sending():
            processes = counted(len(alive), "worker process", "worker processes")
            notices.warn(f"{processes} did not end in time, so incomplete uploads may remain")

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


# Who that is -------------------------------------------------------------------------------


def workers_named(text: str) -> Workers:
    """Return the workers that `threads[:N]`, `processes[:N]`, `dask` or `dask://HOST:PORT` stands for.

    They are looked for when there is work.  Raises ValueError for what is none of these,
    UnsupportedFeatureError where Dask is not installed.
    """
    kind, _, rest = text.partition(":")
    if kind == "dask" and (not rest or _ADDRESS.fullmatch(rest)) and not text.endswith(":"):
        if importlib.util.find_spec("distributed") is None:
            raise missing_extra()
        return Workers(partial(_dask, rest[2:] or None), shares_all=True)
    if kind in ("threads", "processes") and not text.endswith(":"):
        count = (
            int(rest)
            if rest.isascii() and rest.isdecimal() and len(rest) < 6
            else 0
            if rest
            else default_jobs()
        )
        if count:
            return Workers(partial(_threads if kind == "threads" else Processes, count), shares_all=True)
    message = f"{text!r} is not an executor; expected threads, threads:N, processes, processes:N, dask or dask://HOST:PORT"
    raise ValueError(message)


_ADDRESS = re.compile(r"//([^/:@?#\s]+|\[[0-9a-fA-F:]+\]):\d{1,5}")


def missing_extra() -> UnsupportedFeatureError:
    """Return the error of work for Dask, where that is not installed."""
    hints = ("to install it: pip install 'ckpt-tools[cluster]'",)
    return UnsupportedFeatureError(
        "--executor dask needs dask.distributed, which is not installed", hints=hints
    )


def _dask(address: str | None) -> TaskRunner:
    from .dask import Dask

    return Dask(address)


def _threads(count: int) -> Threads:
    return Threads(ThreadPoolExecutor(count), count)


def lent_by(executor: Executor, count: int) -> Workers:
    """Return workers that use an executor, `count` of them at a time.

    They are threads of this process, or must see the files under the same paths, and have the same ckpt.
    """

    def runner() -> TaskRunner:
        if isinstance(executor, ThreadPoolExecutor):
            return _Lent(executor, count)
        return ExecutorRunner(executor, count, elsewhere=not isinstance(executor, ProcessPoolExecutor))

    return Workers(runner, shares_all=True)


class _Lent(Threads):
    def close(self) -> None:
        """Leave them to whom they belong."""
