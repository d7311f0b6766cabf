"""A scheduler and workers of dask.distributed, each a process of its own, and commands that use them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENVIRONMENT = {"PYTHONPATH": ROOT, "CKPT_TIMEOUT": "20"}
SLOWLY, OLDER = (os.path.join(ROOT, "tests", "cluster", f"{name}.py") for name in ("slowly", "older"))


def wait_for(true: Callable[[], bool], what: str) -> None:
    """Wait until something is true, for a while."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


class Cluster:
    """A scheduler, and as many workers as are begun; all of them are killed in the end."""

    def __init__(self, directory: Path, python: str = sys.executable) -> None:
        self._directory = directory
        self._python = python
        self._file = directory / "scheduler.json"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", self._file]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._begin("scheduler", directory, *map(str, arguments))
        wait_for(lambda: self._file.exists() and bool(self._file.read_text()), "a scheduler")
        address: str = json.loads(self._file.read_text())["address"]
        self.address = address
        self.executor = "dask://" + address.partition("://")[2]

    def _begin(self, what: str, cwd: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        command = [self._python, "-m", f"distributed.cli.dask_{what}", *arguments]
        with open(self._directory / f"{what}-{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(
                command, cwd=cwd, env={**os.environ, **ENVIRONMENT, **environment}, stdout=log, stderr=log
            )
        self.processes.append(process)
        return process

    def worker(self, cwd: Path | None = None, *preload: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker with its own working directory; it is not restarted when it is killed."""
        more = [word for each in preload for word in ("--preload", each)]
        fixed = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0"]
        return self._begin(
            "worker",
            cwd or self._directory,
            "--scheduler-file",
            str(self._file),
            *fixed,
            *more,
            **environment,
        )

    def wait(self, workers: int) -> None:
        """Wait until so many workers are there."""
        code = "import sys, distributed as d; d.Client(sys.argv[1]).wait_for_workers(int(sys.argv[2]), 60)"
        subprocess.run(
            [self._python, "-c", code, self.address, str(workers)], check=True, capture_output=True
        )

    def begin(self, *line: object, cwd: Path | None = None, **environment: str) -> subprocess.Popen[str]:
        """Begin a command that has its work done here."""
        command = [self._python, "-m", "ckpt_cli", *map(str, line), "--executor", self.executor]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            command,
            cwd=cwd or self._directory,
            env={**os.environ, **ENVIRONMENT, **environment},
            text=True,
            **pipes,
        )

    def run(self, *line: object, cwd: Path | None = None, **environment: str) -> Done:
        """Run a command to its end."""
        process = self.begin(*line, cwd=cwd, **environment)
        out, err = process.communicate(timeout=120)
        return Done(process.returncode, out, err)

    def close(self) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextmanager
def cluster(directory: Path, python: str = sys.executable) -> Iterator[Cluster]:
    directory.mkdir(exist_ok=True)
    found = Cluster(directory, python)
    try:
        yield found
    finally:
        found.close()
