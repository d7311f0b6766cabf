"""Arguments of optimizers: bound by the tables of their classes, and checked as Keras checks them."""

from __future__ import annotations

import inspect
from typing import Any

from formats.keras.optimizers import BY_NAME, Optimizer

from .schedules import LearningRateSchedule, schedules_by_name

__all__ = ["bound", "check_ftrl", "plain", "row_of", "with_signature", "without_schedules"]


def row_of(cls: type) -> Optimizer:
    """Return the row of the table of optimizers that a class, or the class that it extends, stands for."""
    return next(BY_NAME[one.__name__] for one in cls.__mro__ if one.__name__ in BY_NAME)


def with_signature(cls: Any, defaults: dict[str, Any]) -> None:
    """Give a class its arguments: names in their order, with their defaults."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        self._begin(*bound(cls, args, kwargs))

    kind, rest = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_KEYWORD
    parameters = [inspect.Parameter(name, kind, default=value) for name, value in defaults.items()]
    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", kind), *parameters, inspect.Parameter("kwargs", rest)]
    )
    cls._defaults, cls.__init__ = defaults, __init__


def bound(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values of all arguments of a class, and those that it does not know."""
    names = list(cls._defaults)
    if len(args) > len(names):
        raise TypeError(
            f"{cls.__name__}.__init__() takes from 1 to {len(names) + 1} positional arguments but "
            f"{len(args) + 1} were given"
        )
    given = dict(zip(names, args, strict=False))
    for name in given:
        if name in kwargs:
            raise TypeError(f"{cls.__name__}.__init__() got multiple values for argument '{name}'")
    known = {name: value for name, value in kwargs.items() if name in cls._defaults}
    others = {name: value for name, value in kwargs.items() if name not in cls._defaults}
    return {**cls._defaults, **given, **known}, others


def check_ftrl(settings: dict[str, Any]) -> None:
    """Raise ValueError for Ftrl's numbers that have the wrong sign, in Keras' words."""
    signs = {"learning_rate_power": -1.0} | dict.fromkeys(
        ("initial_accumulator_value", *(name for name in settings if name.endswith("_strength"))), 1.0
    )
    for name, sign in signs.items():
        if settings[name] * sign < 0.0:
            word = "positive" if sign > 0 else "negative"
            raise ValueError(f"`{name}` needs to be {word} or zero. Received: {name}={settings[name]}.")


def plain(value: Any) -> Any:
    """Return a hyperparameter as configurations have it."""
    if isinstance(value, LearningRateSchedule):
        return {
            "module": "keras.optimizers.schedules",
            "class_name": type(value).__name__,
            "config": value.get_config(),
            "registered_name": None,
        }
    if hasattr(value, "numpy"):
        return value.numpy()
    return value() if callable(value) else value


def without_schedules(config: dict[str, Any], custom_objects: Any = None) -> dict[str, Any]:
    """Return a configuration with the schedule that it describes in place of the description."""
    rate = config.get("learning_rate")
    if not isinstance(rate, dict):
        return config
    made = {**schedules_by_name(), **(custom_objects or {})}[rate["class_name"]].from_config(rate["config"])
    return {**config, "learning_rate": made}
