"""Running `ckpt` as a person or a script does."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ckpt_cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Result(NamedTuple):
    """What a run of `ckpt` left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        return [line.split("\t") for line in self.out.splitlines()]


@pytest.fixture
def ckpt(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Result]:
    """Run `ckpt` within this process, its output in pipes."""

    def run(*args: object) -> Result:
        with pytest.raises(SystemExit) as exit_info:
            main([str(arg) for arg in args])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        code = exit_info.value.code
        assert isinstance(code, int)
        return Result(code, out.decode(), err.decode())

    return run


@pytest.fixture
def terminal() -> Callable[..., Result]:
    """Run `ckpt` in a process of its own on a pseudo-terminal; `err` is what went there too."""

    def run(*args: object, columns: int = 100, **environment: str) -> Result:
        master, slave = pty.openpty()
        settings = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", "PYTHONPATH": ROOT}
        settings.pop("NO_COLOR", None)
        process = subprocess.Popen(
            [sys.executable, "-m", "ckpt_cli", *map(str, args)],
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            env={**settings, **environment},
        )
        os.close(slave)
        out = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux says EIO when the other side is closed
                break
            if not piece:
                break
            out += piece
        os.close(master)
        _, err = process.communicate()
        return Result(process.returncode, out.decode().replace("\r\n", "\n"), err.decode())

    return run
