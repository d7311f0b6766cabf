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

_INTERRUPTED = 130

_COLLECTED_TOGETHER = 50_000
"""New objects after which Python looks for circles that nothing refers to.

A hundred thousand tensors are a million objects and hardly a circle, and after 700 of them, as is
usual, looking takes a quarter of the time of a conversion.
"""


def run() -> NoReturn:
    """Run `ckpt`.  Ctrl-C while it is still being imported, or has just come to its end, is no traceback."""
    gc.set_threshold(_COLLECTED_TOGETHER)
    try:
        from .main import main

        main()
    except KeyboardInterrupt:
        if os.environ.get("CKPT_DEBUG"):
            raise
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
