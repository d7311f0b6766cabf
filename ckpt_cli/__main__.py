"""`python -m ckpt_cli` is `ckpt`: the program around `main`, from the first import to the last line."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

__all__ = ["run"]

_INTERRUPTED = 130


def run() -> NoReturn:
    """Run `ckpt`.  Ctrl-C while it is still being imported, or has just come to its end, is no traceback."""
    try:
        from .main import main

        main()
    except KeyboardInterrupt:
        if os.environ.get("CKPT_DEBUG"):
            raise
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
