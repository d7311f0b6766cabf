"""tf.keras.optimizers: those of Keras 2.11 and later, and in `legacy` those before."""

from __future__ import annotations

from typing import Any

from ...unknown import absent, accept
from . import legacy, schedules
from .modern import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Ftrl, Lion, Nadam, Optimizer, RMSprop

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "Optimizer", "RMSprop",
    "get", "legacy", "schedules",
]  # fmt: skip

_CLASSES: dict[str, Any] = {
    cls.__name__.lower(): cls
    for cls in (SGD, Adadelta, Adagrad, Adam, AdamW, Adamax, Ftrl, Lion, Nadam, RMSprop)
}


def get(identifier: Any, **kwargs: Any) -> Any:
    """Return the optimizer that a name stands for, or the optimizer itself."""
    if isinstance(identifier, str):
        if identifier.lower() not in _CLASSES:
            raise ValueError(f"Unknown optimizer: '{identifier}'.")
        if kwargs.pop("use_legacy_optimizer", False):
            return getattr(legacy, _CLASSES[identifier.lower()].__name__)()
        accept("get", kwargs, "")
        return _CLASSES[identifier.lower()]()
    if isinstance(identifier, dict):
        return _CLASSES[str(identifier["class_name"]).lower()](**identifier["config"])
    return identifier


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
