"""tf.keras.backend: what programs still call of it."""

from __future__ import annotations

from typing import Any

from ..names import clear_names
from ..unknown import absent

__all__ = ["clear_session", "epsilon", "floatx", "get_value", "set_value"]


def clear_session() -> None:
    """Restart the numbering of layers' names."""
    clear_names()


def floatx() -> str:
    return "float32"


def epsilon() -> float:
    return 1e-7


def get_value(x: Any) -> Any:
    return x.numpy() if hasattr(x, "numpy") else x


def set_value(x: Any, value: Any) -> None:
    x.assign(value)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
