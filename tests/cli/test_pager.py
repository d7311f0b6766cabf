"""Long results on a terminal go through a pager, and the command ends as it would without one."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ckpt_cli.render.pager import _chosen as pager_chosen
from ckpt_cli.render.pager import paging
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = data_path("guide_adam_legacy", "tf_ckpts")
BERT = data_path("bert_tiny", "bert_model.ckpt-2")


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that puts what it is given into a file, with its settings."""
    return f"cat > {tmp_path}/paged; echo LESS=$LESS >> {tmp_path}/paged"


def test_what_is_printed_goes_through_it(pager: str, tmp_path: Path, terminal: Callable) -> None:
    direct = terminal("ls", BERT)
    done = terminal("ls", BERT, CKPT_PAGER=pager, PAGER="false", LESS="F")
    assert (done.code, done.out) == (0, "")
    assert (tmp_path / "paged").read_text() == direct.out + "LESS=F\n"
    assert "\x1b[1m" in direct.out  # colours, which less -R shows


def test_less_gets_the_options_that_git_gives_it(
    pager: str, tmp_path: Path, terminal: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LESS", raising=False)
    assert terminal("help", CKPT_PAGER=pager).code == 0
    assert (tmp_path / "paged").read_text().endswith("LESS=FRX\n")


@pytest.mark.parametrize(
    "settings", [{"CKPT_PAGER": ""}, {"CKPT_PAGER": "cat", "PAGER": "false"}, {"TERM": "dumb"}]
)
def test_none_is_requested(settings: dict[str, str], terminal: Callable) -> None:
    done = terminal("ls", BERT, **{"CKPT_PAGER": "false", **settings})
    assert done.code == 0
    assert "bert/embeddings" in done.out


def test_none_where_output_is_piped(ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CKPT_PAGER", "false")
    assert "bert/embeddings" in ckpt("ls", BERT).out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Simulate a terminal for this process, and record what it shows."""
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    return screen


@pytest.mark.parametrize("there", [True, False])
def test_less_is_not_started_without_a_keyboard(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a pseudo-terminal of a program alone it would wait for a key without end."""
    asked = []

    def has_terminal(path: str, flags: int) -> int:
        asked.append(path)
        if not there:
            raise OSError(6, "No such device or address", path)
        return os.dup(0)

    for name in ("CKPT_PAGER", "PAGER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    with monkeypatch.context() as patch:
        at_a_terminal(patch)
        patch.setattr("os.open", has_terminal)
        found = pager_chosen()
    assert (found, asked) == ("less" if there else None, ["/dev/tty"])


def test_notes_do_not_draw_over_it(pager: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has begun, what goes to the same terminal is in its text, and no bar is drawn."""
    monkeypatch.setenv("CKPT_PAGER", pager)
    screen = at_a_terminal(monkeypatch)
    with paging():
        print("before", file=sys.stderr)
        print("a row")
        print("a note", file=sys.stderr)
        assert not sys.stderr.isatty()
    assert sys.stderr is sys.stdout is screen
    assert screen.getvalue() == "before\n"
    assert (tmp_path / "paged").read_text().startswith("a row\na note\n")


def test_one_that_is_missing_is_reported_and_not_missed(terminal: Callable) -> None:
    done = terminal("ls", BERT, CKPT_PAGER="no-such-pager -x")
    assert done.code == 0
    assert "bert/embeddings" in done.out
    assert "the pager 'no-such-pager -x' (from CKPT_PAGER or PAGER) does not exist" in done.err


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["diff", f"{RUN}/ckpt-9", f"{RUN}/ckpt-10"], 1),
        (["verify", data_path("corrupt", "data_flip", "ckpt")], 1),
        (["ls", "nothing-there"], 3),
        (["graph", RUN], 0),
    ],
)
def test_the_exit_code_stays(command: list[str], code: int, terminal: Callable) -> None:
    assert terminal(*command, CKPT_PAGER="cat >&2; exit 7").code == code


def test_a_pager_that_is_left_early_ends_quietly(tmp_path: Path, terminal: Callable) -> None:
    """As with `| head`: no traceback, and no answer where there was none yet."""
    many = {f"a_long_name_of_a_layer/{number:06}": np.zeros(0) for number in range(5000)}
    write_bundle(str(tmp_path / "many-1"), many)
    done = terminal("ls", tmp_path / "many-1", CKPT_PAGER="head -1")
    assert (done.code, done.err) == (141, "")
    assert done.out.count("\n") == 1
