"""`python -m ckpt_cli` is `ckpt`: the program around `main`, from the first import to the last line."""

from __future__ import annotations

import gc
import os
import sys

# Not from typing: importing that takes longer than all else before `run`, and Ctrl-C would be a traceback.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NoReturn

__all__ = ["run"]

_INTERRUPTED, _CANNOT = 130, 3
_NO_MEMORY = ("cannot allocate memory", "failed to map segment")  # as in formats.errors

_COLLECTED_TOGETHER = 50_000
"""New objects after which Python looks for circles that nothing refers to.

A hundred thousand tensors are a million objects and hardly a circle, and after 700 of them, as is
usual, looking takes a quarter of the time of a conversion.
"""


def run() -> NoReturn:
    """Run `ckpt`. Ctrl-C during the imports, or just after the end, prints no traceback."""
    gc.set_threshold(_COLLECTED_TOGETHER)
    try:
        from .cli.main import main

        try:
            main()
        except SystemExit as end:
            _end_at_once(end.code)
            raise
    except KeyboardInterrupt:
        if os.environ.get("CKPT_DEBUG"):
            raise
        sys.exit(_INTERRUPTED)
    except (MemoryError, ImportError, OSError) as error:  # of importing it, where there is no memory for that
        text = str(error).lower()
        has_memory = isinstance(error, ImportError | OSError) and not any(map(text.__contains__, _NO_MEMORY))
        if has_memory or os.environ.get("CKPT_DEBUG"):
            raise
        os.write(2, b"ckpt: error: not enough memory to begin\n")
        sys.exit(_CANNOT)


def _end_at_once(code: object) -> None:
    """End the process where only memory is left to free: the system does that faster than Python.

    Python would take every module apart, which takes a seventh of the time of listing a small checkpoint.
    Functions registered with `atexit` run first.  This returns if something still needs the interpreter:
    another thread, a debugger, a profiler, `python -i`, or an exit code that is not a number.
    """
    import atexit
    import contextlib
    import threading

    is_watched = sys.gettrace() or sys.getprofile() or sys.flags.inspect or sys.flags.interactive
    if isinstance(code, int) and not is_watched and threading.active_count() == 1:
        atexit._run_exitfuncs()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError):  # `main` has already reported what it could not print
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    run()
