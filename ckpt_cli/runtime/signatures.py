"""Functions with other names and places for their arguments, as TensorFlow 1 has them."""

from __future__ import annotations

import ast
import functools
import inspect
from typing import TYPE_CHECKING, Any

from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["with_signature"]


def with_signature(function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    """Return a function with other arguments: `dim=axis` is another name of `axis`, `!x` is not supported.

    `x:True` has another default than the function's; only that is accepted of what is not supported.
    """
    words = [word.partition(":") for word in signature.split()]
    names = [word.removeprefix("!").partition("=")[0] for word, _, _ in words]
    targets = {name: word.partition("=")[2] or name for name, (word, _, _) in zip(names, words, strict=True)}
    defaults = {name: ast.literal_eval(text) for name, (_, _, text) in zip(names, words, strict=True) if text}
    rejected = {word[1:] for word, _, _ in words if word.startswith("!")}
    parameters = {
        **inspect.signature(function).parameters,
        **inspect.signature(function, follow_wrapped=False).parameters,
    }
    required = {name for name, one in parameters.items() if one.default is one.empty}

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{function.__name__}() takes {len(names)} arguments but {len(args)} were given")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in targets or name in given:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'")
            given[name] = value
        for name in rejected & given.keys():
            value = given.pop(name)
            refuse(function.__name__, **{name: None if value == defaults.get(name) else value})
        found: dict[str, Any] = {}
        for name, value in given.items():
            target = targets[name]
            if value is None and target != name and target not in required:
                continue
            if found.get(target) is not None:
                raise ValueError(f"Cannot specify both '{name}' and '{target}'.")
            found[target] = value
        return function(**found)

    called.__signature__ = _shown(targets, parameters, defaults)  # type: ignore[attr-defined]
    return called


def _shown(targets: dict[str, str], parameters: Any, defaults: dict[str, Any]) -> inspect.Signature:
    """Return a signature with the defaults of the targets; a second name of a target has None."""
    shown: list[inspect.Parameter] = []
    for name, target in targets.items():
        found = parameters.get(target)
        is_second = list(targets.values()).count(target) > 1 and name != target
        default = defaults.get(name) if name in defaults or found is None or is_second else found.default
        if default is inspect.Parameter.empty and shown and shown[-1].default is not default:
            default = None  # What follows an argument with a default has one, too.
        shown.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(shown)
