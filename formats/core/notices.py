"""What a person should know while something is still going on, told to whoever listens.

The command line listens and prints notes.  A program that does not listen finds the same
in the log of Python's `logging`, under `formats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _log(text: str) -> None:
    import logging  # which takes as long as listing a small checkpoint

    logging.getLogger("formats").warning("%s", text)


_listener: Callable[[str], None] = _log


def listen(listener: Callable[[str], None]) -> None:
    """Have all notices told to `listener` from now on."""
    global _listener  # noqa: PLW0603  a program has one place where it tells things
    _listener = listener


def tell(text: str) -> None:
    """Tell a notice: what is going on, in one line."""
    _listener(text)
