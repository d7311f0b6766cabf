"""JUnit XML: a test case for each checkpoint, or key of a comparison, a failure for each finding.

GitLab takes the first of several cases of one class and name: a key's class is its comparison.
https://docs.gitlab.com/ci/testing/unit_test_reports/
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from .. import base
from .words import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.model.verification import Finding

    from ...operations.report.findings import Report, Subject


def render(report: Report) -> str:
    suites = [(subject, _cases(subject)) for subject in report.subjects]
    tests = sum(len(cases) for _, cases in suites)
    failed = sum(_failed(cases) for _, cases in suites)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuites name="ckpt {report.command}" tests="{tests}" failures="{failed}" errors="0">')
    for subject, cases in suites:
        name = quoteattr(base.escape(subject.path))
        counts = f'tests="{len(cases)}" failures="{_failed(cases)}" errors="0" skipped="0" time="0"'
        lines.append(f" <testsuite name={name} {counts}>")
        of_class = subject.path if subject.cases else f"ckpt.{report.command}"
        for case, findings in cases:
            lines += _case(of_class, case, findings)
        lines.append(" </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"


Case = tuple[str, list["Finding"]]


def _cases(subject: Subject) -> list[Case]:
    """Return the cases of a checkpoint: the keys that were looked at, or itself."""
    if not subject.cases:
        return [(subject.path, list(subject.findings))]
    by_key: dict[str, list[Finding]] = {name: [] for name in subject.cases}
    for finding in subject.findings:
        by_key.setdefault(finding.key or subject.path, []).append(finding)
    return list(by_key.items())


def _failed(cases: list[Case]) -> int:
    return sum(any(finding.severity == "error" for finding in findings) for _, findings in cases)


def _case(of_class: str, name: str, findings: list[Finding]) -> Iterator[str]:
    names = f"classname={quoteattr(base.escape(of_class))} name={quoteattr(base.escape(name))}"
    opening = f'  <testcase {names} time="0"'
    if not findings:
        yield f"{opening}/>"
        return
    yield f"{opening}>"
    for finding in findings:
        if finding.severity == "error":
            text = sentence(finding)
            where = base.escape(finding.file or "")
            yield (
                f"   <failure message={quoteattr(text)} type={quoteattr(finding.code)}>"
                f"{escape(where)}</failure>"
            )
    other_lines = [f"{f.severity}: {f.code}: {sentence(f)}" for f in findings if f.severity != "error"]
    if other_lines:
        yield "   <system-out>" + escape("\n".join(other_lines)) + "</system-out>"
    yield "  </testcase>"
