"""The parts of README.md that the program writes: its help, its formats, and a terminal session.

`python -m tests.readme` puts today's into the file; a test fails when they are stale.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile

import click
from click.testing import CliRunner

from ckpt_cli.main import cli
from formats.find.registry import all_formats
from tests.support import data_path

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
README = os.path.join(ROOT, "README.md")
WHEN = 1795255200  # 2026-11-21 10:00 UTC
_BLOCK = re.compile(r"(<!-- (help: (?P<command>\S+)|formats) -->\n).*?(<!-- end -->)", re.DOTALL)
_SESSION = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)


def help_of(command: str) -> str:
    result = CliRunner().invoke(cli, [command, "--help"], prog_name="ckpt", terminal_width=100)
    assert result.exit_code == 0, result.output
    return result.output


def formats_table() -> str:
    rows = [f"| `{found.name}` | {found.title} |" for found in all_formats()]
    return "\n".join(["| format | what it is |", "| --- | --- |", *rows]) + "\n"


def on_terminal(arguments: list[str], directory: str) -> str:
    """Return what `ckpt` prints on a terminal 100 columns wide, without colour."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "xterm", "PYTHONPATH": ROOT}
    command = [sys.executable, "-m", "ckpt_cli", *arguments]
    with subprocess.Popen(command, stdout=slave, stderr=slave, cwd=directory, env=environment):
        os.close(slave)
        out = b""
        try:
            while piece := os.read(master, 65536):
                out += piece
        except OSError:  # Linux says EIO when the other side is closed
            pass
    os.close(master)
    return "".join(line.rstrip() + "\n" for line in out.decode().replace("\r\n", "\n").splitlines())


def session(text: str) -> str:
    """Return a console session with today's output below each of its commands."""
    import shlex

    with tempfile.TemporaryDirectory() as directory:
        run = os.path.join(directory, "run")
        shutil.copytree(data_path("guide_adam_legacy", "tf_ckpts"), run)
        for name in os.listdir(run):
            os.utime(os.path.join(run, name), (WHEN, WHEN))
        out = []
        for line in text.splitlines():
            if line.startswith("$ ckpt "):
                out += [line + "\n", on_terminal(shlex.split(line)[2:], directory)]
    return "".join(out)


def rendered(text: str) -> str:
    """Return README's text with the program's parts as they are today."""

    def block(match: re.Match[str]) -> str:
        body = f"```text\n{help_of(match['command'])}```\n" if match["command"] else formats_table()
        return match[1] + body + match[4]

    text = _BLOCK.sub(block, text)
    return _SESSION.sub(lambda match: match[1] + session(match[2]) + match[3], text)


def commands() -> list[str]:
    return cli.list_commands(click.Context(cli))


if __name__ == "__main__":
    with open(README, encoding="utf-8") as file:
        today = rendered(file.read())
    with open(README, "w", encoding="utf-8") as file:
        file.write(today)
