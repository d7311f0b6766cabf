"""Ctrl-C, SIGTERM and SIGHUP: the first ends a command as an exception, a second ends the process at once.

An exception goes up through everything that tidies up after itself, and that can take a
while: threads come to the end of their pieces, a staging directory of gigabytes is removed.
Whoever does not want to wait for that sends another signal.  What was ignored when the
program started stays ignored: `nohup ckpt convert …` outlives its terminal.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["EndedBySignal", "ending_by_signals", "exit_code"]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EndedBySignal(BaseException):
    """A signal asks to end; no Exception, as nothing is to go on after it."""

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
        yield  # Only the main thread is told of signals.
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    # None is a handler of whoever embeds the interpreter.
    ours = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    own_process = os.getpid()

    def end(number: int, _: FrameType | None) -> None:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        if os.getpid() != own_process:
            os.kill(os.getpid(), number)  # A child process has nothing to tidy up.
        _call("end_soon")
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise EndedBySignal(number)

    _call("go_on")
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _call(name: str) -> None:
    """Call a function of the module that knows what waits, if it is there: importing it now could fail."""
    module = sys.modules.get("formats.store.work.cancellation")
    function = getattr(module, name, None)  # a module that was not yet read to its end has none
    if function is not None:
        function()
