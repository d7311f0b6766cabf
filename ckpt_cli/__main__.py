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
    """Run `ckpt`.  Ctrl-C while it is still being imported, or has just come to its end, is no traceback."""
    gc.set_threshold(_COLLECTED_TOGETHER)
    try:
        from .cli.main import main

        main()
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


if __name__ == "__main__":
    run()
