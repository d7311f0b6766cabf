"""The common part of all commands: --quiet, --verbose, help, colour, and environment variables."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from importlib import metadata
from typing import TYPE_CHECKING

import click
import pytest

from ckpt_cli.cli.main import cli
from ckpt_cli.render import base as render
from ckpt_cli.render.progress import progress
from tests.readme import ROOT, commands
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOTED = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
GUIDE = data_path("guide_adam_legacy", "tf_ckpts")
HDF5 = data_path("keras_mlp", "mlp.full.h5")


@pytest.mark.parametrize("name", commands())
def test_every_command_has_the_general_options(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    names = {spelled for param in command.params for spelled in param.opts}
    assert {"-q", "--quiet", "-v", "--verbose", "--json", "--color"} <= names


def test_quiet_silences_notes_and_never_warnings_or_errors(tmp_path: Path, ckpt: Callable) -> None:
    words = ("show", NOTED, "l1/kernel (m")  # a word that is not a key
    loud, quiet = ckpt(*words), ckpt(*words, "-q")
    assert loud.err.startswith("note: ")
    assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "")
    for name in ("checkpoint", "ckpt-10.index"):
        shutil.copy(os.path.join(GUIDE, name), tmp_path)
    assert "warning: " in ckpt("ls", tmp_path / "ckpt-10", "-q").err
    assert "error: " in ckpt("ls", tmp_path / "nothing", "-q").err
    assert ckpt(*words).err == loud.err  # one command's wish is not the next one's


@pytest.mark.parametrize(
    ("quiet", "terminal", "is_shown"),
    [(False, "xterm", True), (True, "xterm", False), (False, "dumb", False)],
)
def test_progress_is_shown_unless_it_is_unwanted_or_cannot_be_erased(
    monkeypatch: pytest.MonkeyPatch, quiet: bool, terminal: str, is_shown: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", terminal)
    render.choose_quiet(quiet)
    before = set(threading.enumerate())
    with progress(10, "the work") as advance:
        advance(5)
        waiting = set(threading.enumerate()) - before  # the thread that draws the bar after a second
    render.choose_quiet(False)
    assert len(waiting) == int(is_shown)


def test_a_comparison_that_is_quiet_warns_all_the_same(tmp_path: Path, ckpt: Callable) -> None:
    import numpy as np

    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        write_bundle(str(tmp_path / side / f"{side}-1"), {"w": np.zeros(2)})
    result = ckpt("diff", "--each", "-q", tmp_path / "left", tmp_path / "right")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("warning: ")


def test_verbose_says_what_was_read(ckpt: Callable) -> None:
    path = os.path.join(GUIDE, "ckpt-10")
    silent, told = ckpt("ls", path), ckpt("ls", path, "-v")
    assert (told.code, told.out, silent.err) == (0, silent.out, "")
    assert re.fullmatch(rf"read {re.escape(path)}\.index: [\d,]+ bytes in \d+ reads?\n", told.err)
    verified = ckpt("verify", path, "-v").err
    data = re.search(r"data-00000-of-00001: ([\d,]+) bytes", verified)
    assert data is not None
    assert int(data[1].replace(",", "")) >= os.path.getsize(f"{path}.data-00000-of-00001")
    assert ckpt("ls", path).err == ""


def test_verbose_counts_what_a_child_reads(ckpt: Callable) -> None:
    found = re.search(r"mlp\.full\.h5: ([\d,]+) bytes in", ckpt("verify", HDF5, "-v").err)
    assert found is not None
    assert int(found[1].replace(",", "")) > 4096 + 524  # the head, and every value


def test_verbose_also_shows_what_was_read_before_an_error(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "x").write_bytes(bytes(200))
    result = ckpt("ls", tmp_path / "x", "-v")
    assert result.code == 3
    assert f"read {tmp_path}/x: " in result.err
    assert "ckpt: error: " in result.err


# Help -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", commands())
def test_help_of_a_command_is_its_help_option(name: str, ckpt: Callable) -> None:
    result = ckpt("help", name)
    assert result.code == 0
    assert result.out == ckpt(name, "--help").out
    assert ckpt("help", name, "--json").json["help"] + "\n" == result.out


def test_help_alone_is_the_programs(ckpt: Callable) -> None:
    assert ckpt("help").out == ckpt("--help").out


def test_help_of_a_mistyped_command(ckpt: Callable) -> None:
    result = ckpt("help", "convrt")
    assert (result.code, result.out) == (2, "")
    assert "no command 'convrt'; did you mean convert?" in result.err


def test_the_version(ckpt: Callable) -> None:
    assert ckpt("-V").out == ckpt("--version").out
    assert re.fullmatch(r"ckpt \d+\.\d+.*\n", ckpt("-V").out)


def test_the_version_of_what_it_runs_on(ckpt: Callable) -> None:
    expected = [
        ckpt("-V").out.strip(),
        f"Python {platform.python_version()}",
        *(f"{name} {metadata.version(name)}" for name in ("numpy", "h5py", "click")),
        platform.platform(),
    ]
    for line in (["--version", "-v"], ["-v", "--version"], ["-vV"]):
        assert ckpt(*line).out.splitlines() == expected


def test_the_version_imports_nothing_that_it_shows() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ckpt_cli", "--version", "-v"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"numpy", "h5py", "rich"}


def test_verbose_before_the_command_is_rejected(ckpt: Callable) -> None:
    result = ckpt("-v", "ls")
    assert (result.code, result.out) == (2, "")
    assert "--verbose works here only with --version; for a command, put it after" in result.err


# The environment --------------------------------------------------------------------


def has_color(text: str) -> bool:
    return re.search(r"\x1b\[\d*(;\d+)*m", text) is not None


@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        ([], {}, True),
        ([], {"NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, True),  # https://no-color.org: when present and not an empty string
        ([], {"TERM": "dumb"}, False),
        (["--color", "never"], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color", "always"], {"TERM": "dumb"}, True),
    ],
)
def test_color_on_a_terminal(
    options: list[str], environment: dict[str, str], expected: bool, terminal: Callable
) -> None:
    shown = terminal("ls", GUIDE, *options, **environment)
    assert shown.code == 0
    assert has_color(shown.out) == expected


def test_color_of_stdout_and_stderr_is_chosen_separately(terminal: Callable) -> None:
    """`terminal` has stdout on a terminal and stderr in a pipe."""
    words = ("show", NOTED, "l1/kernel (m")
    shown = terminal(*words)
    assert shown.err.startswith("note: ")
    assert has_color(shown.out)
    assert not has_color(shown.err)
    assert has_color(terminal(*words, "--color", "always").err)


def test_color_in_pipes(ckpt: Callable) -> None:
    words = ("show", NOTED, "l1/kernel (m")
    plain, colored = ckpt(*words), ckpt(*words, "--color", "always")
    assert not has_color(plain.out + plain.err)
    assert has_color(colored.err)
    assert colored.out == plain.out  # TAB-separated lines are for programs


@pytest.mark.parametrize("value", ["1", ""])
def test_debugging_shows_where_an_error_comes_from(
    value: str, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from formats.errors import CheckpointNotFoundError

    monkeypatch.setenv("CKPT_DEBUG", value)
    if value:
        from ckpt_cli.cli.main import main

        with pytest.raises(CheckpointNotFoundError):
            main(["ls", "nowhere"])
    else:
        assert ckpt("ls", "nowhere").code == 3
