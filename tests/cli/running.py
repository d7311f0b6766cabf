"""Running `ckpt` in processes of its own, where no fixture is at hand."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Finished(NamedTuple):
    code: int
    out: str
    err: str


def run_ckpt(*arguments: object, limits: Sequence[tuple[int, int]] = (), **environment: str) -> Finished:
    """Run `ckpt` to its end, its output in pipes, within `limits`: resources of the system, and how much."""

    def limit() -> None:
        for what, most in limits:
            resource.setrlimit(what, (most, most))

    command = [sys.executable, "-m", "ckpt_cli", *map(str, arguments)]
    settings = {**os.environ, "PYTHONPATH": ROOT, **environment}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=settings,
        preexec_fn=limit if limits else None,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


class Starter:
    """Runs `ckpt` many times, each time in a process forked from one that has imported it.

    `options` are those of the Popen of that one.
    """

    def __init__(self, **options: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.starter"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **{"cwd": ROOT, **options},
        )

    def run(self, *arguments: object, cwd: str | os.PathLike[str] = ".", **environment: str) -> Finished:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "arguments": list(map(str, arguments)),
            "cwd": os.path.abspath(cwd),
            "environment": {**os.environ, **environment},
        }
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return Finished(*json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.communicate()
