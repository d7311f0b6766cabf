"""Long results on a terminal go through a pager, as git's do.

The pager is $CKPT_PAGER, $PAGER, or less; an empty one, or cat, means none. It starts with the first output,
so that progress is visible before, and ends before errors are printed. Text for stderr on the same terminal
would be drawn over, so the pager shows it, too.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

__all__ = ["paging"]

_USUAL = "less"
_SETTINGS = {"LESS": "FRX", "LV": "-c"}
"""The defaults for less: end if everything fits on a screen, show colours, leave the screen unchanged."""


@contextmanager
def paging() -> Iterator[None]:
    """Have what is printed go through a pager, where it goes to a terminal and its user wants one."""
    command = _chosen()
    if command is None:
        yield
        return
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout = paged = _Paged(command, stdout, stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        paged.finish()


def _chosen() -> str | None:
    """Return the command line of the pager, or None for none."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return None
    program = os.environ.get("CKPT_PAGER", os.environ.get("PAGER"))
    if program is None:
        return _USUAL if _is_there(_USUAL) and _has_keyboard() else None
    if program in ("", "cat"):
        return None
    if not _is_there(program):
        from .base import warning

        warning(
            f"the pager {program!r} (from CKPT_PAGER or PAGER) does not exist, so ckpt prints without a pager"
        )
        return None
    return program


def _is_there(command: str) -> bool:
    """Whether the program of a command line can be run, as far as that can be seen."""
    import shlex
    import shutil

    try:
        words = shlex.split(command)
    except ValueError:
        return True  # the shell says what is wrong with it
    return bool(words) and ("=" in words[0] or shutil.which(words[0]) is not None)


def _has_keyboard() -> bool:
    """Whether a key can be pressed: without a keyboard a pager would wait for ever."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True


class _Paged(io.TextIOBase):
    """A terminal, to all who write to it, whose text goes to a pager."""

    def __init__(self, command: str, stdout: TextIO, stderr: TextIO) -> None:
        self._command, self._stdout, self._stderr = command, stdout, stderr
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: io.TextIOWrapper | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stdout.encoding

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stdout.fileno()

    @property
    def buffer(self) -> Any:
        return self._begun().buffer

    def write(self, text: str) -> int:
        return self._begun().write(text) if text else 0

    def flush(self) -> None:
        if self._pipe is not None and not self._pipe.closed:
            self._pipe.flush()

    def _begun(self) -> io.TextIOWrapper:
        """Return the way into the pager, which is begun where it is not."""
        if self._pipe is None:
            import subprocess

            self._stdout.flush()
            self._process = subprocess.Popen(  # noqa: S602  a command line of the user's, for the shell
                self._command, shell=True, stdin=subprocess.PIPE, env={**_SETTINGS, **os.environ}
            )
            assert self._process.stdin is not None
            self._pipe = io.TextIOWrapper(self._process.stdin, self.encoding, "backslashreplace")
            if self._stderr.isatty():
                sys.stderr = _PagerStderr(self._pipe)
        return self._pipe

    def finish(self) -> None:
        """Wait until the user has seen enough; Ctrl-C is the pager's meanwhile."""
        if self._pipe is None or self._process is None:
            return
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
        try:
            # an unread rest changes nothing about the answer
            with suppress(BrokenPipeError):
                self._pipe.close()
            self._process.wait()
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)


class _PagerStderr(io.TextIOBase):
    """Replaces stderr: not a terminal for progress bars, but the pager's text."""

    def __init__(self, pipe: io.TextIOWrapper) -> None:
        self._pipe = pipe

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        # a note must not cost the answer after the pager has ended
        with suppress(BrokenPipeError, ValueError):
            return self._pipe.write(text)
        return len(text)
