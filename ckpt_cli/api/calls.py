"""What all functions of the API do around their work: errors carry their hints, arguments are checked."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from formats.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["hinted"]

P = ParamSpec("P")
R = TypeVar("R")


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """Have a traceback of a CheckpointError show its hints, as the command line does."""

    @functools.wraps(function)
    def call(*args: P.args, **named: P.kwargs) -> R:
        try:
            return function(*args, **named)
        except CheckpointError as error:
            for hint in error.hints:
                text = f"hint: {hint}"
                if text not in getattr(error, "__notes__", ()):
                    error.add_note(text)
            raise

    return call
