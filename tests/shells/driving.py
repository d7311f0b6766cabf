"""An interactive shell on a pseudo-terminal, and what it finds around it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

from tests.cli.conftest import ROOT
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path


def lay_out(directory: Path) -> None:
    """Put one of everything that is completed into a directory."""
    shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), directory / "run")
    shutil.copytree(data_path("state_files", "crash", "ckpt-2_temp"), directory / "run" / "ckpt-11_temp")
    shutil.copytree(data_path("v1_format"), directory / "old")
    (directory / "weights.h5").write_bytes(b"")
    (directory / "notes.txt").write_text("mine")
    (directory / "two words-1.index").write_bytes(b"")
    (directory / "a:b-1.index").write_bytes(b"")


def surroundings(home: Path) -> dict[str, str]:
    """Return what a shell finds around it: a home of its own, in which `ckpt` is this checkout's."""
    program = home / "bin" / "ckpt"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m ckpt_cli "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "TERM": "dumb",
        "PS1": "ready> ",
        "COLUMNS": "200",
        "INPUTRC": "/dev/null",
        "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
    }


def _take_terminal() -> None:
    """Make what stdin is the terminal of this session: fish runs on no other."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Shell:
    """An interactive shell on a pseudo-terminal, once it has shown its prompt."""

    def __init__(self, command: list[str], directory: Path, environment: dict[str, str]) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=directory,
            env=environment,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  it takes no lock
        )
        os.close(slave)
        self.until("ready> ")

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, wanted: str) -> str:
        """Return what appears, as soon as `wanted` is in it."""
        shown = ""
        deadline = time.monotonic() + 60
        while wanted not in shown:
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {wanted!r} in {shown!r}"
            shown += os.read(self.master, 65536).decode()
        return shown

    def close(self) -> None:
        os.close(self.master)
        self.process.wait()
