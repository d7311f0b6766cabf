"""Configurations: what a layer was made with, as plain data.

    {"name": "dense", "units": 2, "activation": "relu", ...}

Options are the arguments of the layer's constructor, those left out by their defaults.
A function stands by its name, an initializer by a configuration of its own, as Keras
writes both. What is neither, a layer within a layer among it, is refused.
"""

from __future__ import annotations

import inspect
from typing import Any

from . import activations
from .initializers import Initializer
from .regularizers import Regularizer

__all__ = ["options_of"]

_OF_EVERY_LAYER = ("name", "trainable", "dtype", "input_shape", "input_dim", "batch_input_shape")
_PLAIN = (str, int, float, bool, type(None))


def options_of(layer: Any, made_with: tuple[tuple[Any, ...], dict[str, Any]]) -> dict[str, Any]:
    """Return the options of a layer's own by name; NotImplementedError for one that is no plain data."""
    signature = inspect.signature(type(layer).__init__)
    arguments, keywords = made_with
    bound = signature.bind(layer, *arguments, **keywords)
    bound.apply_defaults()
    options: dict[str, Any] = {}
    for name, parameter in list(signature.parameters.items())[1:]:
        value = bound.arguments[name]
        options |= value if parameter.kind is parameter.VAR_KEYWORD else {name: value}
    where = f"{layer.name} ({type(layer).__name__})"
    return {
        name: _plain(value, f"{where}: {name}")
        for name, value in options.items()
        if name not in _OF_EVERY_LAYER
    }


def _plain(value: Any, what: str) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        return [_plain(part, what) for part in value]
    if isinstance(value, Initializer | Regularizer):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    name = activations.name_of(value) if callable(value) else ""
    if isinstance(value, dict) or not activations.is_known(name, value):
        raise NotImplementedError(f"{what}={value!r} is not known in a configuration")
    return name
