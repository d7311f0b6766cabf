"""Workers of dask.distributed, on this machine or on many (`formats.store.work.executors` says what travels).

Dask repeats the work of a lost worker, and uses workers that join later. The scheduler may run on any
machine. Dask is imported with the first task, and this module only for `--executor dask`.
"""

from __future__ import annotations

import logging
import os
import signal
import time
import warnings
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from ...core.version import VERSION
from ...errors import CheckpointError, InaccessibleError, UnsupportedFeatureError
from ..local.removing import scratch_directory
from ..remote.transport import timeout
from .cancellation import is_ending, run_detached, time_left
from .executors import POLL_SECONDS, RUNS, ExecutorRunner, NamedFunction, missing_extra
from .workers import default_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future


_NO_SCHEDULER = "the scheduler has ended, or can no longer be reached"
_HINTS = {
    "worker": "read the workers' output to see why they ended, or did not start",
    "has ended": "read the scheduler's output to see why",
    "no scheduler": (
        "start a scheduler with: dask scheduler (docs/explanations/clusters.md has its TLS settings)"
    ),
}
"""Hints by a word of the message."""


class Dask(ExecutorRunner):
    """Workers of dask.distributed: of the scheduler at an address, or two or more begun here without one."""

    _client: Any = None
    _cluster: Any = None

    def __init__(self, address: str | None = None) -> None:
        distributed = _distributed()
        self.name = f"dask://{address}" if address else "dask"
        self._patience = timeout()
        self._is_own = not address
        self._scratch = ExitStack()
        self._since = self._empty_since = time.monotonic()
        self._workers = 0
        try:
            self._begin(distributed, address)
        except BaseException:
            self.close()
            raise
        # A worker may be killed three times over a task, which is then taken for what kills it.
        super().__init__(self._client.get_executor(pure=False, retries=2), 1, elsewhere=self._cluster is None)
        self.is_far = True  # each task takes scheduler and client 4 to 5 ms, on any machine

    def _begin(self, distributed: Any, address: str | None) -> None:
        """Begin a cluster where no scheduler is named, and look who works.

        Other threads call Dask, because it prints tracebacks when a signal interrupts it.
        """
        if not address:
            folder = self._scratch.enter_context(scratch_directory())
            self._cluster = run_detached(partial(_own_cluster, distributed, folder))
        self._client = run_detached(partial(self._connected, distributed, address))
        try:
            run_detached(partial(self._client.wait_for_workers, 1, timeout=self._patience))
        except OSError as error:
            raise self._gone(f"the scheduler has no worker after {self._patience:g} s") from error
        run_detached(self._check_workers)

    def _connected(self, distributed: Any, address: str | None) -> Any:
        """Return a client of the scheduler, with TLS if Dask's own configuration requires it."""
        import dask

        scheme = "tls" if dask.config.get("distributed.comm.require-encryption", None) else "tcp"
        where = self._cluster or f"{scheme}://{address}"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that its version is another: ours is what matters
                if address:
                    run_detached(partial(_check_scheduler, where, self._patience), 2 * self._patience)
                return distributed.Client(where, timeout=self._patience, set_as_default=False)
        except Exception as error:
            raise self._gone("no scheduler answers at this address") from error

    def _check_workers(self) -> None:
        """Refuse workers of another version before they are sent anything; without ckpt they would end."""

        def version_and_reason() -> tuple[str | None, str]:  # sent as code, for a worker without ckpt
            import importlib

            try:
                importlib.import_module("ckpt_cli")  # finds its own formats
                from formats.core.version import VERSION
            except ImportError as error:
                return None, str(error)
            return VERSION, ""

        found = self._client.run(version_and_reason, on_error="ignore")
        for worker, (version, reason) in sorted(found.items()):
            if version != VERSION:
                has = f"no ckpt ({reason})" if version is None else f"ckpt {version}"
                message = f"{self.name}: the worker at {worker} has {has}; expected {VERSION}"
                raise UnsupportedFeatureError(message, hints=("install the same version everywhere",))

    def _gone(self, what: str) -> InaccessibleError:
        error = InaccessibleError(f"{self.name}: {what}")
        error.hints = tuple(hint for word, hint in _HINTS.items() if word in what)
        return error

    @property
    def count(self) -> int:
        """How many tasks all workers do at a time; they come and go."""
        now = time.monotonic()
        if not self._workers or now - self._since > POLL_SECONDS:
            self._since = now
            self._workers = self._threads() or 0
        return max(1, self._workers)

    def _threads(self) -> int | None:
        """Ask the scheduler how many threads the workers have; None if it does not say."""
        try:
            ask = partial(self._client.sync, self._client.scheduler.ncores, callback_timeout=self._patience)
            found: dict[str, int] = run_detached(ask)
            return sum(found.values())
        except (OSError, AttributeError, CancelledError):
            return None

    def ask(self) -> None:
        now = time.monotonic()
        threads = self._threads()
        if threads:
            self._empty_since = now
        elif now - self._empty_since > self._patience:
            no_worker = f"the scheduler has had no worker for {self._patience:g} s"
            raise self._gone(_NO_SCHEDULER if threads is None else no_worker)

    def lost(self, error: BaseException) -> CheckpointError:
        if isinstance(error, ImportError | AttributeError):
            return super().lost(error)
        if type(error).__name__ == "KilledWorker":
            return self._gone("every worker that ran one of the tasks died")
        return self._gone(_NO_SCHEDULER)

    @property
    def failures(self) -> tuple[type[BaseException], ...]:
        from distributed.scheduler import KilledWorker

        return (*super().failures, KilledWorker)

    def stop(self, futures: Iterable[Future[Any]]) -> None:
        """Cancel what has not begun, and wait for the rest."""
        begun = [future for future in futures if not future.done()]
        if not begun:
            return
        run, self._run = self._run, os.urandom(16).hex()
        for future in begun:
            future.cancel()
        if self._client.status == "running":  # a client without its scheduler would wait for that
            with suppress(Exception):  # a worker that is gone does no more work
                left = time_left()
                call = partial(self._client.run, NamedFunction(cancel_run), run, on_error="ignore")
                run_detached(call, None if left is None else left / 2)

    def close(self) -> None:
        if is_ending() and self._is_own:
            _end_children()
        else:
            for each in filter(None, (self._client, self._cluster)):
                with suppress(Exception):  # the work is over in any case
                    run_detached(partial(each.close, timeout=POLL_SECONDS))
        self._scratch.close()


def _own_cluster(distributed: Any, folder: str) -> Any:
    """Return a cluster of this machine, whose processes leave interrupts to the command."""
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # unblocks them again if it has work to do
    # Threads and processes have this from the one that begins them, which is no other's.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGHUP))
    return distributed.LocalCluster(
        n_workers=default_jobs(),
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
        memory_limit=0,  # what a task holds is bounded
        silence_logs=logging.CRITICAL,
        preload=["ckpt_cli.worker"],
        local_directory=folder,
    )


def _end_children() -> None:
    """End the processes of a cluster of our own, where there is no time for them to end by themselves."""
    import atexit
    import multiprocessing

    from distributed.deploy import spec

    atexit.unregister(spec.close_clusters)  # would wait ten seconds for them
    for process in multiprocessing.active_children():
        process.kill()


def _check_scheduler(where: str, patience: float) -> None:
    """Shake hands with a scheduler: a client would wait without end for a server that says nothing."""
    import asyncio

    from distributed.core import connect
    from distributed.security import Security

    async def greet() -> None:
        comm = await connect(where, timeout=patience, **Security().get_connection_args("client"))
        comm.abort()

    asyncio.run(greet())


async def cancel_run(run: str) -> None:
    """Have a worker of Dask begin no more tasks of a command, and wait for those that it has begun."""
    import asyncio

    RUNS.cancel(run)
    while RUNS.is_busy(run):
        await asyncio.sleep(0.01)


def dask_setup(_: object) -> None:
    """Have a worker of a cluster of our own leave interrupts to the command (Dask calls this by its name)."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _distributed() -> Any:
    """Import dask.distributed, an extra; UnsupportedFeatureError if it is not installed."""
    try:
        import distributed
    except ImportError as error:
        raise missing_extra() from error
    if not os.environ.get("CKPT_DEBUG"):
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed
