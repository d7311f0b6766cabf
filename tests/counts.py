"""How much the tests of damage tried, and what came of it: printed at the end of the test run.

A test calls `count("truncations", 412)`; counts of one name are added, in the order in which the names first
came. `state` keeps a sentence that is not a sum.
"""

from __future__ import annotations

__all__ = ["count", "counted", "lines", "merge", "state"]

_counted: dict[str, int] = {}
_stated: dict[str, str] = {}


def count(what: str, number: int = 1) -> None:
    """Add to what is printed under a name, "truncations" for example."""
    _counted[what] = _counted.get(what, 0) + number


def state(what: str, text: str) -> None:
    """Print this of a name; the last one said stays."""
    _stated[what] = text


def counted() -> tuple[dict[str, int], dict[str, str]]:
    """Return all of it, as a process that ran a part of the tests sends it to the one that prints."""
    return _counted, _stated


def merge(numbers: dict[str, int], sentences: dict[str, str]) -> None:
    """Take in what another process counted."""
    for what, number in numbers.items():
        count(what, number)
    _stated.update(sentences)


def lines() -> list[str]:
    """Return what was counted and stated, a line each."""
    return [f"{number:>12,}  {what}" for what, number in _counted.items()] + [
        f"{what}: {text}" for what, text in _stated.items()
    ]
