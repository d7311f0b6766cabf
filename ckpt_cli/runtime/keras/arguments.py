"""The arguments of Keras' layers: one row of `arguments.tsv` a class, as Keras 2.15 has them.

    class    parameters    further ones, by name    those that a configuration has, if not all in this order

A row is the signature of the class here, and what `get_config` writes. `formats.keras.layers` has the
weights, and the names in Keras 3.
"""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

__all__ = ["Arguments", "arguments_of", "classes"]

classes: dict[str, Any] = {}
"""The classes of the table by name, as far as they are defined."""

_OWN = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
_REST = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)


class Arguments(NamedTuple):
    """The parameters of a class, further ones with their defaults, and the options that are written."""

    parameters: tuple[inspect.Parameter, ...]
    further: dict[str, Any]
    written: tuple[str, ...]

    @property
    def names(self) -> set[str]:
        return {*self.further, *(one.name for one in self.parameters)}

    @property
    def signature(self) -> inspect.Signature:
        return inspect.Signature([_OWN, *self.parameters, _REST])

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return every option with its value, and what any layer takes; TypeError for a missing one."""
        found = inspect.Signature([*self.parameters, _REST]).bind(*args, **kwargs)
        found.apply_defaults()
        options: dict[str, Any] = dict(found.arguments)
        rest: dict[str, Any] = options.pop("kwargs")
        return {**options, **{name: rest.pop(name, off) for name, off in self.further.items()}}, rest


def arguments_of(class_name: str) -> Arguments | None:
    """Return the row of a class; None if it is not a layer of Keras, or is not supported."""
    return _table().get(class_name)


@cache
def _table() -> dict[str, Arguments]:
    text = (files(__package__) / "arguments.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return {name: _row(*columns) for name, *columns in rows}


def _row(parameters: str = "", further: str = "", written: str = "") -> Arguments:
    own, more = _parsed(parameters), _parsed(further)
    names = written.split() or [one.name for one in (*own, *more)]
    return Arguments(tuple(own), {one.name: one.default for one in more}, tuple(names))


def _parsed(text: str) -> list[inspect.Parameter]:
    """Return parameters that are written as Python writes them."""
    function = ast.parse(f"lambda {text}: 0", mode="eval").body
    assert isinstance(function, ast.Lambda)
    names, defaults = function.args.args, function.args.defaults
    values = [inspect.Parameter.empty] * (len(names) - len(defaults)) + list(map(ast.literal_eval, defaults))
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [inspect.Parameter(one.arg, kind, default=value) for one, value in zip(names, values, strict=True)]
