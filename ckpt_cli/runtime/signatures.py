"""Functions with other names and places for their arguments, as TensorFlow 1 has them."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["with_signature"]


def with_signature(function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    """Return a function with other arguments: `dim=axis` is another name of `axis`, `!x` is not supported."""
    names = [word.removeprefix("!").partition("=")[0] for word in signature.split()]
    targets = {
        name: word.partition("=")[2] or name for name, word in zip(names, signature.split(), strict=True)
    }
    rejected = {word[1:] for word in signature.split() if word.startswith("!")}

    parameters = inspect.signature(function).parameters.values()
    required = {one.name for one in parameters if one.default is one.empty}

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(names):
            raise TypeError(f"{function.__name__}() takes {len(names)} arguments but {len(args)} were given")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name not in targets or name in given:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'")
            given[name] = value
        refuse(function.__name__, **{name: given.pop(name, None) for name in rejected})
        found: dict[str, Any] = {}
        for name, value in given.items():
            target = targets[name]
            if value is None and target != name and target not in required:
                continue
            if found.get(target) is not None:
                raise ValueError(f"Cannot specify both '{name}' and '{target}'.")
            found[target] = value
        return function(**found)

    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None) for name in names]
    )
    return called
