"""Commands report their progress: the work, the speed, the remaining time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.api.writing import passes
from ckpt_cli.render import base as render
from ckpt_cli.render import progress as shown
from ckpt_cli.render.progress import _fitted, _WorkDone, progress
from ckpt_cli.render.tables import width
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BERT = data_path("bert_tiny", "bert_model.ckpt-2")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def verbose() -> Iterator[None]:
    render.choose_verbose(True)
    yield
    render.choose_verbose(False)


def test_a_line_shows_the_stage_the_speed_and_the_time_left(clock: list[float]) -> None:
    work = _WorkDone(10_000_000, "model.npz", passes(verify=True))
    assert work.line == "model.npz writing: 0 B of 10.0 MB"
    clock[0] = 40
    work.advance(4_000_000)
    assert work.line == "model.npz writing: 4.0 MB of 10.0 MB, 100 kB per second, 1 min 0 s left"
    clock[0] = 100
    work.advance(6_000_000)  # everything is written, and is read again
    assert work.line == "model.npz verifying: 0 B of 10.0 MB"
    clock[0] = 101
    work.advance(5_000_000)
    assert work.line == "model.npz verifying: 5.0 MB of 10.0 MB, 5.0 MB per second, 1 s left"
    clock[0] = 20_100
    assert work.line.endswith(", 250 B per second, 5 h 33 min left")
    work.advance(9_000_000)  # more than was expected
    assert work.line.startswith("model.npz verifying: 10.0 MB of 10.0 MB")


def test_a_line_comes_also_when_nothing_comes_to_an_end(
    verbose: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to a server can take longer than half a minute."""
    lines: list[str] = []
    enough = threading.Event()

    def remark(text: str) -> None:
        lines.append(text)
        if len(lines) == 2:
            enough.set()

    monkeypatch.setattr(shown, "_EVERY", 0.001)
    monkeypatch.setattr(shown, "remark", remark)
    before = set(threading.enumerate())
    with progress(10, "x", ("verifying",)):
        assert enough.wait(60)
    assert lines[0] == "x verifying: 0 B of 10 B"
    assert set(threading.enumerate()) <= before


def test_a_bar_is_drawn_also_when_nothing_comes_to_an_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is begun by the clock, not by what is done: a request to a server can take its time."""
    begun = threading.Event()
    begin = shown._begun

    def seen(work: _WorkDone) -> object:
        bar = begin(work)
        begun.set()
        return bar

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(shown, "_PATIENCE", 0)
    monkeypatch.setattr(shown, "_begun", seen)
    with progress(10_000, "x.npz", ("verifying",)):
        assert begun.wait(60)
        print("a result")
    out, err = capsys.readouterr()
    assert out == "a result\n"
    assert "x.npz verifying" in err
    assert "0 B of 10.0 kB" in err


FIGURES = "999 MB of 100 GB, 99.9 MB per second, 12 min 34 s left"


@pytest.mark.parametrize("room", [60, 80, 120, 200])
@pytest.mark.parametrize("title", ["x writing", "out/" * 60 + "模型.npz verifying back"])
def test_a_bar_fits_the_terminal(title: str, room: int) -> None:
    told, cells, figures = _fitted(title, FIGURES, room)
    assert width(told) + 1 + cells + 1 + width(figures) <= room
    assert 8 <= cells <= 40
    assert (told, figures) == (title, FIGURES) or room < 80 or len(title) > 20
    assert told.split()[-1] == title.rsplit(maxsplit=1)[-1]


@pytest.mark.parametrize("options", [[], ["-q", "-v"]])
def test_no_line_is_reported_that_is_not_wanted(
    options: list[str], ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown, "_EVERY", 0.0)
    assert "verifying" not in ckpt("verify", BERT, *options).err
    ckpt("help")  # with neither wish, which are the process's
