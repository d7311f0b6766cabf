"""Ctrl-C, SIGTERM and SIGHUP: the first ends a command as an exception, a second ends the process at once.

An exception passes through all code that cleans up after itself, and that can take a while: threads finish
their pieces, a staging directory of gigabytes is removed. A second signal ends the wait. A signal that was
ignored at the start stays ignored: `nohup ckpt convert ...` outlives its terminal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from formats.core.unraisable import RaisedAgain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["EndedBySignal", "ending_by_signals", "exit_code"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedBySignal(BaseException):
    """A signal ends the program. It is not an Exception, because no code should continue after it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(number: int) -> int:
    """Return what a shell says of a process that a signal ended."""
    return 128 + number


@contextlib.contextmanager
def ending_by_signals() -> Iterator[None]:
    """Raise EndedBySignal at the first signal of this block, for Ctrl-C KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread receives signals.
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    # None is the handler of a program that embeds the interpreter.
    ours = [number for number, own in before.items() if own not in (signal.SIG_IGN, None)]
    handler = _Handler(ours)
    again = RaisedAgain(handler.came.__contains__)
    hook, sys.unraisablehook = sys.unraisablehook, again
    _call("resume_waiting")
    for number in ours:
        signal.signal(number, handler.end)
    try:
        yield
        if handler.came:  # in the last deletion of the block
            raise handler.came[-1]
    except Exception as error:
        if handler.came:  # an error of the clean-up does not hide the signal
            raise handler.came[-1] from error
        raise
    finally:
        again.stop()
        sys.unraisablehook = hook
        for number in ours:
            signal.signal(number, before[number])


class _Handler:
    """Raises an exception where a signal comes."""

    def __init__(self, ours: list[signal.Signals]) -> None:
        self.came: list[BaseException] = []
        self._ours = ours
        self._own_process = os.getpid()

    def end(self, number: int, _: FrameType | None) -> None:
        for each in self._ours:
            signal.signal(each, signal.SIG_DFL)
        if os.getpid() != self._own_process:
            os.kill(os.getpid(), number)  # A child process has nothing to tidy up.
        _call("end_soon")
        self.came.append(KeyboardInterrupt() if number == signal.SIGINT else EndedBySignal(number))
        raise self.came[-1]


def _call(name: str) -> None:
    """Call a function of the module that knows what waits, if it is there: importing it now could fail."""
    module = sys.modules.get("formats.store.work.cancellation")
    function = getattr(module, name, None)  # a module that was not yet read to its end has none
    if function is not None:
        function()
