"""The rules of the texts, and the number of findings that each room may still have."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .texts import CODE, Sentence, sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
KNOWN, KNOWN_IN_CODE = (os.path.join(HERE, name) for name in ("known.json", "docstrings.json"))
"""How many findings each room may have: in what users see, and in docstrings and comments."""

LONG = "long"


class Finding(NamedTuple):
    sentence: Sentence
    rule: str
    use: str

    def __str__(self) -> str:
        path, line, text = self.sentence
        return f"{path}:{line}: {self.rule} -> {self.use}\n    {text}"


@cache
def table(name: str) -> dict[str, Any]:
    """Return a data file of this folder."""
    with open(os.path.join(HERE, name), "rb") as file:
        return tomllib.load(file)


class Rule(NamedTuple):
    """A rule's name, what to write instead, what breaks it, and the paths that it applies to."""

    name: str
    use: str
    pattern: re.Pattern[str]
    only: re.Pattern[str]


@cache
def rules() -> list[Rule]:
    """Return the rules of rules.toml."""
    return [
        Rule(
            rule["name"],
            rule["use"],
            re.compile("|".join(rule["not"]), re.IGNORECASE),
            re.compile(rule.get("only", "")),
        )
        for rule in table("rules.toml")["rule"]
    ]


def words(text: str) -> int:
    """Return the number of words; a list of code spans is one."""
    text = re.sub(rf"{CODE}(,? (and |or )?{CODE})+", CODE, text)
    return len(re.findall(r"\S*\w\S*", text))


def broken(sentence: Sentence) -> Iterator[Finding]:
    """Return the rules that a sentence breaks, exceptions included."""
    for rule in rules():
        if rule.only.search(sentence.path) and rule.pattern.search(sentence.text):
            yield Finding(sentence, rule.name, rule.use)
    if words(sentence.text) > table("rules.toml")["longest"]:
        yield Finding(sentence, LONG, f"{words(sentence.text)} words: one fact per sentence")


def exceptions() -> list[dict[str, str]]:
    found: list[dict[str, str]] = table("exceptions.toml").get("exception", [])
    return found


def is_excepted(finding: Finding, exception: dict[str, str]) -> bool:
    sentence = finding.sentence
    return (
        exception["path"] == sentence.path
        and exception["rule"] == finding.rule
        and exception["text"] in sentence.text
    )


def findings(paths: Iterable[str], *, docstrings: bool = False) -> list[Finding]:
    """Return what is wrong in these files and folders, without the exceptions.

    Rules whose names begin with "message" are not for docstrings and comments.
    """
    found = (each for one in sentences(list(paths), docstrings=docstrings) for each in broken(one))
    found = (one for one in found if not (docstrings and one.rule.startswith("message")))
    return [one for one in found if not any(is_excepted(one, each) for each in exceptions())]


def counts(found: Iterable[Finding]) -> Counter[str]:
    """Return the number of findings in each room."""
    return Counter(finding.sentence.room for finding in found)


def known(path: str) -> dict[str, int]:
    """Return the number of findings that each room may have; a room that is not named has none."""
    with open(path, encoding="utf-8") as file:
        found: dict[str, int] = json.load(file)
    return found


def lower(found: Iterable[Finding], path: str) -> None:
    """Write the numbers of today; none of them rises."""
    now, then = counts(found), known(path)
    lowered = {room: min(now[room], most) for room, most in sorted(then.items()) if now[room]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(lowered, file, indent=1)
        file.write("\n")


def too_many(found: list[Finding], path: str) -> list[Finding]:
    """Return the findings of the rooms that have more than they may."""
    now, most = counts(found), known(path)
    return [finding for finding in found if now[finding.sentence.room] > most.get(finding.sentence.room, 0)]
