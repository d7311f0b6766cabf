"""Annotations of GitHub Actions on stdout, and the step's summary in the file that it names.

    ::error file=F,title=T::message

Ten of a kind are shown a step; the summary has what was found.
https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from formats.errors import InaccessibleError

from ..base import escape
from . import markdown
from .words import sentence, title

if TYPE_CHECKING:
    from ...operations.report.findings import Report

MOST_SHOWN = 10
_KINDS = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report) -> str:
    """Return the annotations, and write the summary."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with open(summary, "a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(markdown.render(report))
        except OSError as error:
            raise InaccessibleError(error.strerror or str(error), path=summary) from error
    counts: Counter[str] = Counter()
    lines = []
    total = report.counts
    for each in report.identified():
        found = each.finding
        counts[found.severity] += 1
        if counts[found.severity] > MOST_SHOWN:
            continue
        left = total[found.severity] - MOST_SHOWN
        more = f" (and {left:,} more)" if counts[found.severity] == MOST_SHOWN and left > 0 else ""
        kind = _KINDS[found.severity]
        head = f"file={_property(escape(each.file))},line=1,title={_property(title(found.code))}"
        lines.append(f"::{kind} {head}::{_data(sentence(found) + more)}\n")
    return "".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
