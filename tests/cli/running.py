"""Running `ckpt` in a process of its own, where no fixture is at hand."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Finished(NamedTuple):
    code: int
    out: str
    err: str


def run_ckpt(*arguments: object, **environment: str) -> Finished:
    """Run `ckpt` to its end, its output in pipes."""
    command = [sys.executable, "-m", "ckpt_cli", *map(str, arguments)]
    settings = {**os.environ, "PYTHONPATH": ROOT, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    return Finished(done.returncode, done.stdout, done.stderr)
