"""A git repository for tests, made by git itself, independent of the user's configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.test_architecture import ROOT

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


class Repository:
    """A repository, and `ckpt` on the PATH of what runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        commands = folder.parent / "commands"
        commands.mkdir(exist_ok=True)
        script = commands / "ckpt"
        script.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m ckpt_cli "$@"\n')
        script.chmod(0o755)
        self.environment = {**os.environ, **ENVIRONMENT, "PATH": f"{commands}:{os.environ['PATH']}"}
        self.git("init", "-q", "-b", "main")

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command in the repository; its output."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        self.err = done.stderr
        return done.stdout

    def git(self, *words: str, code: int = 0) -> str:
        return self.run("git", *words, code=code)

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
