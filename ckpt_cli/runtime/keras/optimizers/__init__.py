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
        # Keras 2.15 does not know the newest two by name.
        if identifier.lower() not in _CLASSES.keys() - {"adamw", "lion"}:
            raise ValueError(f"Unknown optimizer: '{identifier}'.")
        if kwargs.pop("use_legacy_optimizer", False):
            return getattr(legacy, _CLASSES[identifier.lower()].__name__)()
        accept("get", kwargs, "")
        return _CLASSES[identifier.lower()]()
    if isinstance(identifier, dict):
        name, config = str(identifier["class_name"]).lower(), identifier["config"]
        # A configuration that does not say so belongs to a legacy optimizer.
        is_legacy = config.get("is_legacy_optimizer", bool(config))
        found = getattr(legacy, _CLASSES[name].__name__) if is_legacy else _CLASSES[name]
        return found.from_config(config)
    if not hasattr(identifier, "apply_gradients"):
        raise ValueError(f"Could not interpret optimizer identifier: {identifier}")
    return identifier


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
