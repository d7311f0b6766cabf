"""Keep freed memory for the next step of training, which allocates as much again.

The C library returns large freed blocks to the system, and the system clears each page when it is allocated
again: half of the time of adding some megabytes.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["keep_freed"]

# malloc.h of the GNU C library; another one has no such function, or none that heeds these.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT = 1 << 30
"""Bytes that are kept at most at the end of the heap."""

_LARGEST = 1 << 25
"""Bytes of the largest block that is kept, the library's own bound: it goes there by itself, step by step."""


def keep_freed() -> None:
    """Have the C library keep what is freed, unless the environment says how much it is to keep."""
    if "MALLOC_TRIM_THRESHOLD_" in os.environ or "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return  # the user has set it explicitly
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
        library.mallopt(_MMAP_THRESHOLD, _LARGEST)
