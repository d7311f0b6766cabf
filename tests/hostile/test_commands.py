"""Every command on mutated files: an exit code of the contract, and nothing raw on the terminal."""

from __future__ import annotations

import io
import re
import sys
import time
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.cli.main import cli
from ckpt_cli.render import progress as shown
from tests.counts import count
from tests.hostile import nasty
from tests.hostile.commands import COMMANDS, Terminal, arguments, check, run_command
from tests.hostile.drive import drive
from tests.hostile.targets import TARGETS
from tests.sampling import turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMAND_RUNS = 400
COMMAND_TARGET = next(target for target in TARGETS if target.name == "commands")


def test_every_command_is_tried() -> None:
    without_checkpoints = {"completion", "demo", "help"}
    assert {words[0] for words in COMMANDS} | without_checkpoints >= set(cli.list_commands(None))


def test_commands_on_mutated_files(tmp_path: Path) -> None:
    """A command and a mutated file, drawn at random: of bundles, V1, state files, and every other format."""
    ended, findings = drive(COMMAND_TARGET, 0, COMMAND_RUNS, keep=str(tmp_path))
    count("commands on mutated files", sum(ended.values()))
    assert findings == []


# What reaches the terminal --------------------------------------------------------------


@pytest.mark.parametrize("make", nasty.NASTY, ids=lambda make: make.__name__)
def test_nothing_raw_reaches_the_terminal(
    tmp_path: Path, make: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    (tmp_path / "run").mkdir()
    path = make(tmp_path / "run")
    codes = set()
    tried = turn(COMMANDS, len(COMMANDS) // 2, nasty.NASTY.index(make))
    for number, command in enumerate(tried):
        new = str(tmp_path / f"new{number}")
        line = arguments(command, path, new)
        ended = run_command(line)
        check(line, ended, new)
        codes.add(ended.code)
    count("commands on files full of escape sequences", len(tried))
    assert 0 in codes


@pytest.mark.parametrize("piped", [True, False])
@pytest.mark.parametrize("make", nasty.NASTY, ids=lambda make: make.__name__)
def test_no_line_is_a_command_of_github_actions(
    tmp_path: Path, make: Callable, piped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except in output for programs. GitHub's runner accepts `::` after white space, and `##[` anywhere."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("COLUMNS", "90")
    (tmp_path / "run").mkdir()
    path = make(tmp_path / "run")
    texts = [command for command in COMMANDS if not {"--json", "-1"} & set(command)]
    for number, command in enumerate(turn(texts, len(texts) // 4, nasty.NASTY.index(make))):
        ended = run_command(arguments(command, path, str(tmp_path / f"new{number}")), piped=piped)
        for text in (ended.out, ended.err):
            assert not re.search(r"^\s*::|##\[", text, re.MULTILINE), (command, text)


def test_a_bar_shows_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named after the checkpoint, and printed what its name would have a terminal do."""
    terminal = Terminal(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(shown, "_PATIENCE", 0)
    with shown.progress(10, f"{nasty.BLINK}[bold]x[/bold]\u202e") as advance:
        advance(5)
        until = time.monotonic() + 60
        while b"[bold]" not in terminal.buffer.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    printed = terminal.buffer.getvalue().decode()
    assert "\\x1b[5;7m[bold]x[/bold]\\xe2\\x80\\xae" in printed
    assert nasty.BLINK not in printed


@pytest.mark.parametrize("make", [nasty.bundle, nasty.keras, nasty.file_names])
def test_colour_is_all_that_escapes(tmp_path: Path, make: Callable) -> None:
    """With colour on, the only sequences are those of `ckpt` itself."""
    (tmp_path / "run").mkdir()
    path = make(tmp_path / "run")
    printed = ""
    for command in ("ls", "ls -l", "ls --tree", "show", "verify", "graph"):
        ended = run_command([*command.split(), path], color="always")
        printed += ended.out + ended.err
    assert "\x1b[" in printed
    assert "\x1b[5" not in printed
