"""Rules about combinations of options: an option that would have no effect is an error.

Each command has one table of rules, by the names that its help shows.  Its function in Python has the same:

    RULES = (
        needs("--save-map", "--like"),
        excludes("--config", "--like"),
    )

An option whose effect already holds is not an error: `--overwrite` if nothing is there, `--no-verify` with
`--dry-run`, `--merge-slices` if nothing is sliced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = [
    "CHOOSING",
    "CHOOSING_RULES",
    "KEY_NAMES",
    "PLAIN",
    "SHARING_RULES",
    "STORED",
    "VERIFY_RULES",
    "OptionError",
    "Rule",
    "check",
    "excludes",
    "needs",
]

CHOOSING = ("KEY", "--match", "--exclude", "--regex", "--ignore-case", "--dtype", "--kind")
"""The parameters that choose tensors."""

PLAIN, STORED = KEY_NAMES = ("plain", "stored")
"""The names of object keys in formats without objects."""


class OptionError(ValueError):
    """Options that make no sense, alone or together: a usage error of the command line."""


class Rule(NamedTuple):
    """The parameters that another one needs (one of `others`, if `wanted`), or excludes (each of them)."""

    name: str
    others: tuple[str, ...]
    wanted: bool
    unless: str | None = None

    def broken(self, given: Collection[str]) -> str | None:
        """Return what is wrong where these parameters were given."""
        if self.name not in given or self.unless in given:
            return None
        beside = [other for other in self.others if other in given]
        if self.wanted:
            return None if beside else f"{self.name} does nothing without {' or '.join(self.others)}"
        if not beside:
            return None
        remedy = f" unless you also pass {self.unless}" if self.unless else "; pass only one of them"
        return f"{self.name} does nothing with {beside[0]}{remedy}"


def needs(name: str, *others: str) -> Rule:
    """Return the rule that `name` does something only with one of `others`."""
    return Rule(name, others, wanted=True)


def excludes(name: str, *others: str, unless: str | None = None) -> Rule:
    """Return the rule that `name` has no effect together with any of `others`."""
    return Rule(name, others, wanted=False, unless=unless)


_PATTERNS = ("KEY", "--match", "--exclude")

CHOOSING_RULES = (needs("--regex", *_PATTERNS), needs("--ignore-case", *_PATTERNS))
"""The rules for parameters that choose tensors."""

SHARING_RULES = (excludes("--executor", "--jobs"),)
"""The rules for parameters that choose who does the work."""


VERIFY_RULES = (excludes("--verify", "--no-verify"),)
"""The rules for parameters that choose how output is verified."""


def check(rules: Iterable[Rule], given: Collection[str]) -> None:
    """Raise OptionError if the parameters that were given break a rule."""
    for rule in rules:
        message = rule.broken(given)
        if message is not None:
            raise OptionError(message)
