"""Running `ckpt` as a person or a script does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ckpt_cli.cli.main import main
from tests.terminals import run_on_terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.anywhere import Place

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
def offered(ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return what completion offers for the last of some words."""

    def ask(*words: str) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setenv("COMP_WORDS", "\n".join(("ckpt", *words)))
            patch.setenv("_CKPT_COMPLETE", "zsh_complete")
            done = ckpt()
        assert (done.code, done.err) == (0, "")
        return [line.split("\t")[1] for line in done.out.splitlines() if line]

    return ask


@pytest.fixture(scope="session")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory for the lines of `examples`; they run in copies of it."""
    from tests.cli.examples import lay_out

    directory = tmp_path_factory.mktemp("laid") / "place"
    directory.mkdir()
    lay_out(directory)
    return directory


@pytest.fixture
def place(
    laid_out: Path, tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> Place:
    """Return the fixture that runs lines in such a copy, and with their input elsewhere."""
    from tests.cli.anywhere import Place

    return Place(laid_out, tmp_path, ckpt, monkeypatch)


@pytest.fixture
def terminal() -> Callable[..., Result]:
    """Run `ckpt` in a process of its own on a pseudo-terminal; `err` is what went there too."""

    def run(*args: object, columns: int = 100, **environment: str) -> Result:
        settings = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", "PYTHONPATH": ROOT}
        settings["CKPT_PAGER"] = "cat"
        settings.pop("NO_COLOR", None)
        command = [sys.executable, "-m", "ckpt_cli", *map(str, args)]
        return Result(*run_on_terminal(command, {**settings, **environment}, stderr=subprocess.PIPE))

    return run
