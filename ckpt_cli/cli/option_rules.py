"""The rules of options (`ckpt_cli.api.rules`), checked before a command reads anything."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ..api.rules import CHOOSING, Rule, check, excludes, needs

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CHOOSING", "Rule", "excludes", "needs", "option_rules", "values_given"]

F = TypeVar("F", bound="Callable[..., Any]")


def option_rules(*rules: Rule) -> Callable[[F], F]:
    """Refuse a command line that breaks one of the rules, before anything is read."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            check(rules, values_given(click.get_current_context()))
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
