"""How far a command has come: a bar on a terminal, with -v a line each half a minute where there is none.

Progress counts the bytes that are processed by threads, processes, workers of a cluster, or requests to a
server. Work that processes them more than once has a stage for each pass. This is the only module that
imports rich, and only to draw a bar.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .base import escape, human_size, is_dumb, is_quiet, is_verbose, remark, short, use_color, width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.live import Live

__all__ = ["progress"]

_PATIENCE = 1
"""Seconds of work before there is a bar."""

_EVERY = 30
"""Seconds between two lines."""

_NARROWEST, _WIDEST = 8, 40
"""Cells that a bar has at least, and at most."""

_TITLE = 16
"""The cells of the title that remain next to the figures."""


@contextmanager
def progress(total: int, what: str, stages: Sequence[str] = ("reading",)) -> Iterator[Callable[[int], None]]:
    """Show how far the work has come, if it takes long.

    Yields a function that is called with the number of processed bytes. All `total` bytes are processed in
    each of `stages`, and the bar names the current one.
    """
    work = _WorkDone(total, what, stages)
    if is_quiet():
        yield work.advance
    elif sys.stderr.isatty() and not is_dumb():
        with _bar(work):
            yield work.advance
    elif is_verbose():
        with _reporting_regularly(work):
            yield work.advance
    else:
        yield work.advance


class _WorkDone:
    """The processed and total bytes, and the start time."""

    def __init__(self, total: int, what: str, stages: Sequence[str]) -> None:
        self.total, self._what, self._stages = total, what, stages
        self._done = 0
        self._number = 0
        self._began = time.monotonic()

    def advance(self, nbytes: int) -> None:
        self._done += nbytes
        number = min(self._done // max(1, self.total), len(self._stages) - 1)
        if number != self._number:
            self._number, self._began = number, time.monotonic()

    @property
    def title(self) -> str:
        """The thing that is processed, and the current stage."""
        return escape(f"{self._what} {self._stages[self._number]}")

    @property
    def done(self) -> int:
        """Bytes that are done in this stage."""
        return min(self._done - self._number * self.total, self.total)

    @property
    def figures(self) -> str:
        """How far this stage is: bytes, and by what was done in it the speed and the time left."""
        seconds = time.monotonic() - self._began
        amount = f"{human_size(self.done)} of {human_size(self.total)}"
        if not self.done or seconds <= 0:
            return amount
        left = (self.total - self.done) * seconds / self.done
        return f"{amount}, {human_size(int(self.done / seconds))} per second, {_duration(left)} left"

    @property
    def line(self) -> str:
        """Return what is done to what, and how far it is."""
        return f"{self.title}: {self.figures}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def _reporting_regularly(work: _WorkDone) -> Iterator[None]:
    """Say a line each half a minute, also when nothing comes to an end for long."""
    ended = threading.Event()

    def report_usage() -> None:
        while not ended.wait(_EVERY):
            remark(work.line)

    teller = threading.Thread(target=report_usage, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


@contextmanager
def _bar(work: _WorkDone) -> Iterator[None]:
    """Draw a bar when the work has taken a second, also when nothing has come to an end until then."""
    begun: list[Live] = []
    timer = threading.Timer(_PATIENCE, lambda: begun.append(_begun(work)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        for bar in begun:
            bar.stop()


def _begun(work: _WorkDone) -> Live:
    """Return what draws the bar again and again, with the figures of that instant."""
    from rich.console import Console
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stderr, color_system="standard" if use_color(sys.stderr) else None)

    def drawn() -> Table:
        title, cells, figures = _fitted(work.title, work.figures, console.width)
        grid = Table.grid(padding=(0, 1))
        bar = ProgressBar(max(1, work.total), work.done, width=cells)
        grid.add_row(Text(title), bar, Text(figures))
        return grid

    # output on stdout meanwhile is results, which may be for another program
    bar = Live(
        get_renderable=drawn, console=console, refresh_per_second=10, transient=True, redirect_stdout=False
    )
    bar.start()
    return bar


def _fitted(title: str, figures: str, room: int) -> tuple[str, int, str]:
    """Return a title, the cells of the bar behind it and figures that fit a line of a terminal."""
    figures = short(figures, room - _NARROWEST - _TITLE - 2)
    title = short(title, room - _NARROWEST - width(figures) - 2)
    return title, min(_WIDEST, room - width(title) - width(figures) - 2), figures
