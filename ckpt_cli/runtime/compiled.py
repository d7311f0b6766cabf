"""The places where TensorFlow would compile: within `tf.function`, and within `fit`.

Everything runs eagerly here. Operations with another result when compiled are rejected there.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["compiled", "is_compiled", "refuse_compiled"]

_compiled: ContextVar[bool] = ContextVar("compiled", default=False)


@contextmanager
def compiled(when: bool = True) -> Iterator[None]:
    """Run what TensorFlow would compile, if it would."""
    token = _compiled.set(_compiled.get() or when)
    try:
        yield
    finally:
        _compiled.reset(token)


def is_compiled() -> bool:
    """Whether TensorFlow would have compiled what is running."""
    return _compiled.get()


def refuse_compiled(what: str, instead: str) -> None:
    """Raise NotImplementedError where TensorFlow would have compiled what is running."""
    if is_compiled():
        raise NotImplementedError(f"{what} within tf.function or fit() is not supported: {instead}")
