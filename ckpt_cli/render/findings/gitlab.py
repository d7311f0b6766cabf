"""GitLab's Code Quality report, a list of findings at lines of files; a checkpoint's line is the first.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..base import escape
from .words import sentence

if TYPE_CHECKING:
    from ...operations.report.findings import Report

_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def render(report: Report) -> str:
    rows = [
        {
            "description": sentence(each.finding),
            "check_name": f"ckpt-{report.command}/{each.finding.code}",
            "fingerprint": each.fingerprint,
            "severity": _SEVERITIES[each.finding.severity],
            "location": {"path": escape(each.file), "lines": {"begin": 1}},
        }
        for each in report.identified()
    ]
    return json.dumps(rows, indent=1) + "\n"
