"""The table of programs' messages about checkpoints; `complaints.toml` describes its fields.

A row is a complaint, found in a text by its patterns, or a topic, found by its name.
"""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any

__all__ = ["Complaint", "complaints", "naming", "placeholders", "topics"]

TABLE = os.path.join(os.path.dirname(__file__), "complaints.toml")

_OURS = r"(?m:^)(?:[^\n]{0,60}\s)?ckpt: error: (?P<path>[^\n]{1,512}?): "
"""How an error of ours begins that names a path."""

_FINDING = (
    r"(?:^|\n)(?P<path>[^\t\n]{1,512})\t(?:error|warning)\t(?:CODES)\t",  # in a pipe
    r"\b(?:error|warning) {2,20}(?:CODES) {2}",  # on a terminal
    r'"code": "(?:CODES)"',  # --json
)
"""What `ckpt verify` prints of a finding."""


@dataclass(frozen=True)
class Complaint:
    """A complaint or a topic, what it means, and the commands that help."""

    title: str
    meaning: str
    commands: tuple[str, ...]
    name: str | None = None
    patterns: tuple[re.Pattern[str], ...] = ()
    unless: re.Pattern[str] | None = None
    seen: str = ""
    provoked: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    quoted: tuple[tuple[str, str], ...] = ()
    entries: tuple[tuple[str, str], ...] = ()
    source: str | None = None


@cache
def complaints() -> tuple[Complaint, ...]:
    """Return the complaints, in the order of the table."""
    return tuple(map(_row, _table()["complaint"]))


@cache
def topics() -> dict[str, Complaint]:
    """Return the topics by their names."""
    return {fields["name"]: _row(fields) for fields in _table()["topic"]}


def placeholders() -> dict[str, str]:
    """Return what the words in capitals stand for that commands may have."""
    found: dict[str, str] = _table()["placeholders"]
    return found


@cache
def naming() -> tuple[re.Pattern[str], ...]:
    """Return patterns for the name of a checkpoint in a text, for any error message."""
    return tuple(map(_pattern, _table()["named"]))


@cache
def _table() -> dict[str, Any]:
    with open(TABLE, "rb") as file:
        return tomllib.load(file)


def _row(fields: dict[str, Any]) -> Complaint:
    return Complaint(
        title=fields["title"],
        meaning=" ".join(fields["meaning"].split()),
        commands=tuple(fields["commands"]),
        name=fields.get("name"),
        patterns=(
            *map(_pattern, fields.get("patterns", ())),
            *(_pattern(_OURS + text) for text in fields.get("says", ())),
            *_findings(fields.get("codes", ())),
        ),
        unless=_pattern(fields["unless"]) if "unless" in fields else None,
        seen=fields.get("seen", ""),
        provoked=tuple(fields.get("provoked", ())),
        own=tuple(fields.get("own", ())),
        quoted=tuple((program, text.strip("\n")) for program, text in fields.get("quoted", ())),
        entries=tuple((word, text) for word, text in fields.get("entries", ())),
        source=fields.get("from"),
    )


def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern whose blanks match any white space: terminals and web pages wrap lines."""
    return re.compile(re.sub(r" (\??)", lambda blank: r"\s{0,99}" if blank[1] else r"\s{1,99}", text))


def _findings(codes: list[str]) -> list[re.Pattern[str]]:
    return [re.compile(form.replace("CODES", "|".join(codes))) for form in _FINDING] if codes else []
