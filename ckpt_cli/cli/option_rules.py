"""Which options need another, and which cannot stand together: an option that would do nothing is an error.

A command says so in one table, by the names that its help shows:

    @option_rules(
        needs("--save-map", "--like"),
        excludes("--config", "--like"),
    )

A wish that is fulfilled whatever is done is no error: `--overwrite` where nothing is there,
`--no-verify` with `--dry-run`, `--merge-slices` where nothing is sliced.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CHOOSING", "Rule", "excludes", "needs", "option_rules", "values_given"]

F = TypeVar("F", bound="Callable[..., Any]")

CHOOSING = ("KEY", "--match", "--exclude", "--regex", "--dtype", "--kind")
"""What `options.choosing` adds."""


class Rule(NamedTuple):
    """What a parameter cannot do without (one of `others`, if `wanted`), or beside (any of them)."""

    name: str
    others: tuple[str, ...]
    wanted: bool
    unless: str | None = None

    def broken(self, given: set[str]) -> str | None:
        """Return what is wrong where these parameters were given."""
        if self.name not in given or self.unless in given:
            return None
        beside = [other for other in self.others if other in given]
        if self.wanted:
            return None if beside else f"{self.name} does nothing without {' or '.join(self.others)}"
        if not beside:
            return None
        remedy = f" unless {self.unless} is given, too" if self.unless else ""
        return f"{self.name} does nothing beside {beside[0]}{remedy}; give one of them"


def needs(name: str, *others: str) -> Rule:
    """Return the rule that `name` does something only with one of `others`."""
    return Rule(name, others, wanted=True)


def excludes(name: str, *others: str, unless: str | None = None) -> Rule:
    """Return the rule that `name` does nothing beside any of `others`."""
    return Rule(name, others, wanted=False, unless=unless)


def option_rules(*rules: Rule) -> Callable[[F], F]:
    """Refuse a command line that breaks one of the rules, before anything is read."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            context = click.get_current_context()
            given = set(values_given(context))
            for rule in rules:
                message = rule.broken(given)
                if message is not None:
                    raise click.UsageError(message, context)
            return function(*args, **options)

        checked.rules = rules  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return decorate


def values_given(context: click.Context) -> dict[str, Any]:
    """Return the parameters of the command line with their values, options by their longest name."""
    return {
        label(param): context.params.get(param.name)
        for param in context.command.params
        if param.name is not None
        and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
        and context.params.get(param.name) not in ((), None)
    }


def label(param: click.Parameter) -> str:
    """Return the name by which rules and messages know a parameter: `--match`, `KEY`."""
    if isinstance(param, click.Argument):
        shown = (param.metavar or param.name or "").upper()
        return shown.strip("[].").partition("[")[0]
    return max(param.opts, key=len)
