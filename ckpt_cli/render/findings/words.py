"""The words that several formats share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.words import counted

from .. import base

if TYPE_CHECKING:
    from formats.model.verification import Finding

    from ...operations.report.findings import Report

CODES = {
    "added": "a tensor was added",
    "removed": "a tensor was removed",
    "renamed": "a tensor was renamed",
    "value": "values changed",
    "nan": "values are not a number",
    "inf": "values are infinite",
}
"""Titles of codes that `ckpt verify` does not report, or reports with another meaning."""


def title(code: str) -> str:
    """Return in words what a code means."""
    from ...operations.look.complaints import topics

    return CODES.get(code) or dict(topics()["verify-codes"].entries).get(code) or code


def sentence(finding: Finding) -> str:
    """Return what was found, with the tensor's name, safe to show."""
    where = f"{base.escape(finding.key)}: " if finding.key else ""
    return where + base.printable(finding.message)


def totals(report: Report) -> str:
    """Return how many findings there are: 2 errors, 1 warning."""
    counts = report.counts
    names = [name for name in ("error", "warning", "note") if counts[name]]
    return ", ".join(counted(counts[name], name) for name in names) or "no findings"
