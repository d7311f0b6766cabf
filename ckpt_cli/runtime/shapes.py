"""Shapes, and tensors by identity: what a tensor says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Reference", "TensorShape"]


def _dimension(value: Any) -> int | None:
    if value.__class__ is not int and value is not None:
        if not hasattr(value, "__index__"):
            raise TypeError(
                f"Dimension value must be integer or None or have an __index__ method, got value {value!r} "
                f"with type {type(value)!r}"
            )
        value = value.__index__()
    if value is not None and value < 0:
        raise ValueError(f"Dimension {value} must be >= 0")
    return value


class TensorShape(tuple[Any, ...]):
    """A shape; a tuple of integers that prints as TensorFlow's does.  None stands for any size.

    `TensorShape(None)` is that of any rank.
    """

    __slots__ = ()

    def __new__(cls, dims: Any = ()) -> TensorShape:
        is_any = dims is None or isinstance(dims, _AnyShape)
        if is_any:
            return _AnyShape()
        return super().__new__(cls, map(_dimension, dims if hasattr(dims, "__iter__") else (dims,)))

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor may have both shapes."""
        if isinstance(other, _AnyShape):
            return True
        return len(self) == len(other) and all(
            None in (one, two) or one == two for one, two in zip(self, other, strict=True)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        if not self.is_compatible_with(TensorShape(other)):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """Return the dimensions that one of two shapes knows."""
        shape = TensorShape(other)
        self.assert_is_compatible_with(shape)
        return TensorShape([two if one is None else one for one, two in zip(self, shape, strict=True)])

    def with_rank(self, rank: int) -> TensorShape:
        if len(self) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}")
        return self

    def concatenate(self, other: Any) -> TensorShape:
        return self + TensorShape(other)

    def as_list(self) -> list[int | None]:
        return list(self)

    @property
    def rank(self) -> int | None:
        return len(self)

    ndims = rank

    @property
    def dims(self) -> list[int | None]:
        return list(self)

    def num_elements(self) -> int | None:
        return None if None in self else int(np.prod(self, dtype=np.int64))

    def is_fully_defined(self) -> bool:
        return None not in self

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return TensorShape(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> TensorShape:
        return TensorShape((*self, *other))

    def __eq__(self, other: object) -> bool:
        return tuple(self) == tuple(other) if isinstance(other, tuple | list) else NotImplemented

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return f"TensorShape([{', '.join(map(str, self))}])"

    def __str__(self) -> str:
        return str(tuple(self))


class _AnyShape(TensorShape):
    """A shape of unknown rank."""

    __slots__ = ()

    def __new__(cls) -> _AnyShape:
        return tuple.__new__(cls)

    def is_compatible_with(self, other: Any) -> bool:
        return True

    rank = ndims = property(lambda self: None)

    def is_fully_defined(self) -> bool:
        return False

    def num_elements(self) -> None:
        return None

    def as_list(self) -> Any:
        raise ValueError("as_list() is not defined on an unknown TensorShape.")

    def __len__(self) -> int:
        raise ValueError("Cannot take the length of shape with unknown rank.")

    def __iter__(self) -> Any:
        raise ValueError("Cannot iterate over a shape with unknown rank.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AnyShape)

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return "TensorShape(None)"

    def __str__(self) -> str:
        return "<unknown>"


class Reference:
    """A tensor or variable by identity, to be a key where the thing itself cannot."""

    __slots__ = ("_thing",)

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def deref(self) -> Any:
        return self._thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._thing is self._thing

    def __hash__(self) -> int:
        return id(self._thing)
