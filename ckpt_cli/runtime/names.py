"""Name scopes, and the numbered names that Keras gives to layers and optimizers.

A variable's full name is the scopes open where it was created, joined by `/`, and its
own name.  Eager TensorFlow makes no attempt to keep them unique: every unnamed
variable is called `Variable`.  Layer names are unique until `clear_session`.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = [
    "clear_names", "close_scope", "current_scope", "fresh_counts", "fresh_names", "name_scope",
    "open_scope", "scoped", "to_snake_case", "unique_name",
]  # fmt: skip

_scopes: list[str] = [""]
_used: Counter[str] = Counter()


class name_scope:  # noqa: N801  TensorFlow's name
    """Prefix the names of variables created within; a name that ends in `/` is taken as the whole scope."""

    def __init__(self, name: str | None) -> None:
        self.name = name or ""

    def __enter__(self) -> str:
        return open_scope(self.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_scope()


def open_scope(name: str) -> str:
    """Open a name scope, which the caller must close, and return it, as each call of a layer does."""
    scope = name if name.endswith("/") or not name else f"{_scopes[-1]}{name}/"
    _scopes.append(scope)
    return scope


def close_scope() -> None:
    _scopes.pop()


def current_scope() -> str:
    """Return the open scopes, `a/b/`, or the empty text."""
    return _scopes[-1]


def scoped(name: str) -> str:
    """Return a name within the open scopes."""
    return _scopes[-1] + name


def to_snake_case(class_name: str) -> str:
    """Return the name Keras derives from a class: `BatchNormalization` gives batch_normalization."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", class_name)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    return f"private{name}" if name.startswith("_") else name


def unique_name(base: str) -> str:
    """Return `base`, and from its second use on `base_1`, `base_2`, ..."""
    _used[base] += 1
    count = _used[base]
    return base if count == 1 else f"{base}_{count - 1}"


def clear_names() -> None:
    """Restart the counters."""
    _used.clear()


@contextlib.contextmanager
def fresh_counts() -> Iterator[None]:
    """Restart the counters of names inside, and restore them afterwards."""
    used = _used.copy()
    _used.clear()
    try:
        yield
    finally:
        _used.clear()
        _used.update(used)


@contextlib.contextmanager
def fresh_names() -> Iterator[None]:
    """Restart the counters and the scope of names inside, and restore them afterwards."""
    scopes = _scopes[:]
    _scopes[:] = [""]
    try:
        with fresh_counts():
            yield
    finally:
        _scopes[:] = scopes
