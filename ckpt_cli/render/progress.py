"""How far a command has come: a bar on a terminal, with -v a line each half a minute where there is none.

What is counted are the bytes that are gone through, by whoever does it: threads, processes, workers of
a cluster, requests to a server.  Work that goes through them more than once has a stage for each pass.
The only module that imports rich, and only where a bar is drawn.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .base import escape, human_size, is_dumb, is_quiet, is_verbose, remark, use_color

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["passes", "progress"]

_PATIENCE = 1
"""Seconds of work before there is a bar."""

_EVERY = 30
"""Seconds between two lines."""


def passes(verify: bool) -> tuple[str, ...]:
    """Return the passes over what is written: into its files, and through them again for the proof."""
    return ("writing", "verifying") if verify else ("writing",)


@contextmanager
def progress(total: int, what: str, stages: Sequence[str] = ("reading",)) -> Iterator[Callable[[int], None]]:
    """Show how far the work has come, if it takes long.

    Yields a function that is told how many bytes were done.  All `total` bytes are gone through
    in each of `stages`, of which is said which one it is.
    """
    work = _Work(total, what, stages)
    if is_quiet():
        yield work.advance
    elif sys.stderr.isatty() and not is_dumb():
        with _bar(work):
            yield work.advance
    elif is_verbose():
        with _told_regularly(work):
            yield work.advance
    else:
        yield work.advance


class _Work:
    """What is done of how much, and since when."""

    def __init__(self, total: int, what: str, stages: Sequence[str]) -> None:
        self.total, self._what, self._stages = total, what, stages
        self._done = 0
        self._number = 0
        self.started = self._began = time.monotonic()
        self.show: Callable[[], None] = lambda: None

    def advance(self, nbytes: int) -> None:
        self._done += nbytes
        number = min(self._done // max(1, self.total), len(self._stages) - 1)
        if number != self._number:
            self._number, self._began = number, time.monotonic()
        self.show()

    @property
    def title(self) -> str:
        """What is worked on, and what is done to it."""
        return escape(f"{self._what} {self._stages[self._number]}")

    @property
    def done(self) -> int:
        """Bytes that are done in this stage."""
        return min(self._done - self._number * self.total, self.total)

    def line(self) -> str:
        """Return how far it is: bytes, and by what was done in this stage the speed and the time left."""
        seconds = time.monotonic() - self._began
        told = f"{self.title}: {human_size(self.done)} of {human_size(self.total)}"
        if not self.done or seconds <= 0:
            return told
        left = (self.total - self.done) * seconds / self.done
        return f"{told}, {human_size(int(self.done / seconds))} a second, {_spoken(left)} left"


def _spoken(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def _told_regularly(work: _Work) -> Iterator[None]:
    """Say a line each half a minute, also when nothing comes to an end for long."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_EVERY):
            remark(work.line())

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


@contextmanager
def _bar(work: _Work) -> Iterator[None]:
    """Draw a bar when the work has taken a second."""
    bar: Any = None
    task: Any = None

    def show() -> None:
        nonlocal bar, task
        if bar is None and time.monotonic() - work.started > _PATIENCE:
            bar = _begun()
            task = bar.add_task(work.title, total=work.total)
        if bar is not None:
            bar.update(task, completed=work.done, description=work.title)

    work.show = show
    try:
        yield
    finally:
        if bar is not None:
            bar.stop()


def _begun() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr, color_system="standard" if use_color(sys.stderr) else None),
        transient=True,
    )
    bar.start()
    return bar
