"""The time that statements and pages give, which SOURCE_DATE_EPOCH sets."""

from __future__ import annotations

import os
import time

from ..operations.runs.listing import iso_time
from .rules import OptionError

__all__ = ["moment"]


def moment() -> str:
    """Return now, or the time in SOURCE_DATE_EPOCH; OptionError if that is none."""
    text = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        found = iso_time(int(time.time()) if not text else int(text))
    except (ValueError, OverflowError, OSError) as error:
        raise OptionError(f"SOURCE_DATE_EPOCH is {text!r}; expected seconds since 1970") from error
    return found or "1970-01-01T00:00:00Z"
