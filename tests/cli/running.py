"""Running `ckpt` in a process of its own, where no fixture is at hand."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

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
