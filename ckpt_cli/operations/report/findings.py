"""One list of findings for all report formats: what was checked, what was found, what to do.

`verify`, `diff` and `stats --fail-on` make one; `ckpt_cli.render.findings` writes it in the forms
that services read.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from formats.store.urls import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.model.verification import Finding


class FindingsTable(NamedTuple):
    """A table for people: the first cell of a row is a name out of a file, others are words and numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Subject(NamedTuple):
    """A checkpoint that was looked at, or two that were compared.

    `file` identifies it. Findings of severity `error` are failures; `cases` are names that were each checked
    separately, as the keys of a comparison.
    """

    path: str
    file: str
    summary: str
    findings: Sequence[Finding]
    cases: Sequence[str] = ()
    tables: Sequence[FindingsTable] = ()
    commands: Sequence[str] = ()

    @property
    def fails(self) -> bool:
        return any(finding.severity == "error" for finding in self.findings)


class Report(NamedTuple):
    """What a command found."""

    command: str
    subjects: Sequence[Subject]

    @property
    def counts(self) -> Counter[str]:
        """How many findings there are, by severity."""
        return Counter(finding.severity for subject in self.subjects for finding in subject.findings)

    def identified(self) -> Iterator[Identified]:
        """Yield all findings with what makes them the same from run to run; errors come first."""
        seen: Counter[str] = Counter()
        all_found = [(subject, found) for subject in self.subjects for found in subject.findings]
        for subject, found in sorted(all_found, key=lambda pair: _ORDER.index(pair[1].severity)):
            file = place(found.file or subject.file)
            parts = (self.command, found.code, file, found.key or "")
            name = "\0".join(parts)
            seen[name] += 1
            text = f"{name}\0{seen[name]}".encode("utf-8", "surrogatepass")
            yield Identified(found, file, hashlib.sha256(text).hexdigest())


_ORDER = ("error", "warning", "note")


class Identified(NamedTuple):
    """A finding, the file as services name it, and a digest of code, file, key and which of these it is."""

    finding: Finding
    file: str
    fingerprint: str


def place(path: str) -> str:
    """Return a path as services expect it: relative to the working directory if it is below it."""
    if scheme_of(path):
        return path
    below = os.path.relpath(path)
    return path if below.startswith("..") else below


def uri(path: str) -> str:
    """Return a path that `place` gave as a URI."""
    if scheme_of(path):
        return quote(path, safe="/:@%")
    text = quote(os.fsencode(path), safe="/")
    return f"file://{text}" if path.startswith("/") else text
