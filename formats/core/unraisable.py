"""Exceptions of signal handlers that Python dropped, because they came into a deletion."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_EVERY = 0.02
"""Seconds, in which most deletions are over."""


class RaisedAgain:
    """A `sys.unraisablehook` that raises an exception again when the deletion is over.

    Python prints and drops an exception that is raised in `__del__`, or in the hook itself. So a timer tries
    again until the main thread has left both. `is_ours` recognises the exceptions; all others go to the hook
    that was set before.
    """

    def __init__(self, is_ours: Callable[[BaseException], bool]) -> None:
        self._is_ours = is_ours
        self._error: BaseException | None = None
        self._hook = sys.unraisablehook
        self._handler: Any = None

    def __call__(self, dropped: sys.UnraisableHookArgs) -> None:
        if dropped.exc_value is None or not self._is_ours(dropped.exc_value):
            self._hook(dropped)
            return
        if self._error is None:
            self._handler = signal.signal(signal.SIGALRM, self._try)
        self._error = dropped.exc_value
        signal.setitimer(signal.ITIMER_REAL, _EVERY, _EVERY)

    def _try(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is RaisedAgain.__call__.__code__:
                return
            frame = frame.f_back
        error = self._error
        self.stop()
        if error is not None:
            raise error

    def stop(self) -> None:
        """Raise it no more."""
        if self._error is not None:
            self._error = None
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._handler)
