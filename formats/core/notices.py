"""Notices about work in progress, passed to a listener.

The command line listens, and prints notes and warnings.  A program that does not listen finds the same
in the log of Python's `logging`, under `formats`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _log(text: str) -> None:
    import logging  # takes as long as listing a small checkpoint

    logger = logging.getLogger("formats")
    if not logger.handlers:  # otherwise a program that configures no logging would print it to stderr
        logger.addHandler(logging.NullHandler())
    logger.warning("%s", text)


_listener: Callable[[str], None] = _log
_warner: Callable[[str], None] = _log


def listen(listener: Callable[[str], None], warner: Callable[[str], None]) -> None:
    """Pass all notices to `listener`, and all warnings to `warner`, from now on."""
    global _listener, _warner
    _listener, _warner = listener, warner


_here: ContextVar[tuple[Callable[[str], None], Callable[[str], None]] | None] = ContextVar(
    "listeners", default=None
)


@contextmanager
def listening(listener: Callable[[str], None], warner: Callable[[str], None]) -> Iterator[None]:
    """Pass the notices and warnings of this thread to these functions meanwhile."""
    before = _here.set((listener, warner))
    try:
        yield
    finally:
        _here.reset(before)


def status(text: str) -> None:
    """Send a notice: what the program is doing, in one line."""
    here = _here.get()
    (_listener if here is None else here[0])(text)


def warn(text: str) -> None:
    """Send a warning, which `--quiet` does not hide."""
    here = _here.get()
    (_warner if here is None else here[1])(text)
