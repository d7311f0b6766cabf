"""Print findings in the format of --format."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...operations.report.findings import Report


def write(report: Report, form: str) -> None:
    """Print a report in one of the formats, each a module of this room, in UTF-8 in every locale."""
    text: str = importlib.import_module(f"{__package__}.{form}").render(report)
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
