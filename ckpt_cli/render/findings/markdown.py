"""Markdown for a pull request: what was found, the largest first, totals, what to do.

Names come from files, so they are in code spans, which only a longer row of backticks can end. A comment of
GitHub holds 64 KB, so longer text is cut, with a count of what is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .. import base
from .words import totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.model.verification import Finding

    from ...operations.report.findings import FindingsTable, Report, Subject

MOST_BYTES = 60_000
_MOST_FINDINGS = 200
"""Findings of a checkpoint that are listed; the tables tell the rest."""


def render(report: Report) -> str:
    head = [f"### ckpt {report.command}: {totals(report)}", ""]
    blocks = [block for subject in report.subjects for block in _blocks(subject)]
    return _cut("\n".join(head), blocks)


def _cut(head: str, blocks: Sequence[str]) -> str:
    """Return the beginning of the lines that a comment holds, with a count of those that are left out."""
    lines = [line for block in blocks for line in block.split("\n")]
    size, kept = len(head.encode()) + 100, 0
    for line in lines:
        size += len(line.encode("utf-8", "replace")) + 1
        if size > MOST_BYTES:
            break
        kept += 1
    left = len(lines) - kept
    tail = ["", f"*{left:,} more lines are not shown.*"] if left else []
    return "\n".join([head, *lines[:kept], *tail]).rstrip("\n") + "\n"


def _blocks(subject: Subject) -> Iterator[str]:
    mark = "❌" if subject.fails else "✅"
    yield f"{mark} {code(subject.path)}: {subject.summary}\n"
    for each in subject.tables:
        if each.rows:
            yield _table(each)
    if subject.findings and not subject.tables:
        yield _findings(subject.findings)
    if subject.commands:
        yield "What to do:\n"
        yield "```sh\n" + "\n".join(base.printable(line) for line in subject.commands) + "\n```\n"


def _findings(findings: Sequence[Finding]) -> str:
    rows = [
        f"| {each.severity} | {each.code} | {cell(each.key)} | {cell(each.message)} |"
        for each in findings[:_MOST_FINDINGS]
    ]
    lines = ["| | finding | tensor | what |", "| --- | --- | --- | --- |", *rows, ""]
    left = len(findings) - _MOST_FINDINGS
    return "\n".join([*lines, f"*{left:,} more findings.*\n"] if left > 0 else lines)


def _table(table: FindingsTable) -> str:
    lines = [f"**{table.title}**\n", "| " + " | ".join(table.head) + " |"]
    lines.append("| " + " | ".join("---" for _ in table.head) + " |")
    lines += ["| " + " | ".join([cell(row[0]), *row[1:]]) + " |" for row in table.rows]
    return "\n".join([*lines, ""])


def code(text: str) -> str:
    """Return any text as a code span."""
    text = base.escape(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def cell(text: str | None) -> str:
    """Return text as a code span in a table, where a bar must not end the cell."""
    return code(text).replace("|", "\\|") if text else ""
