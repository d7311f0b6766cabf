"""tf.IndexedSlices: the gradient of what only some rows were taken from.

    values   the gradients of the rows that were taken, one after the other
    indices  which row each is of; a row may come more than once

Code that does not distinguish it from a dense gradient uses it as one (`as_tensor`). Clipping uses the values
as they are, and some optimizers leave unnamed rows unchanged, where a dense gradient of zeros would move
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .shapes import TensorShape
from .tensor import OPERATIONS, Tensor, as_tensor, define

if TYPE_CHECKING:
    from collections.abc import Callable

    from .dtypes import DType

__all__ = ["IndexedSlices", "dense", "gathered", "map_values"]

_op = OPERATIONS


def _dense_rows(values: Any, indices: Any, shape: Any) -> Any:
    out = np.zeros(tuple(shape), values.dtype)
    np.add.at(out, indices, values)
    return out


define("dense_rows", _dense_rows, lambda g, out, values, indices, shape: _op["gather"](g, indices, axis=0))
define(
    "gathered_rows",
    lambda g, indices, source: g.reshape(indices.size, *source.shape[1:]),
    lambda g, out, values, indices, source: _op["reshape_like"](g, values),
)
define("flat", lambda x: x.reshape(-1))


class IndexedSlices:
    """Values of rows with their indices, and the shape of the whole where it is known."""

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self.values, self.indices = as_tensor(values), as_tensor(indices)
        self.dense_shape = None if dense_shape is None else as_tensor(dense_shape)

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        return TensorShape((None,) if self.dense_shape is None else tuple(self.dense_shape._value.tolist()))

    def _as_tensor(self) -> Tensor:
        if self.dense_shape is None:
            raise ValueError(
                "Tensor conversion requested for IndexedSlices without dense_shape: values="
                f"{self.values!r}, indices={self.indices!r}"
            )
        return _op["dense_rows"](self.values, self.indices, self.dense_shape)

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def _plus(self, other: Any) -> Any:
        """Return the sum of two gradients: all rows of both, or a tensor where the other is one."""
        if not isinstance(other, IndexedSlices):
            return self._as_tensor() + other
        values = _op["concat"](self.values, other.values, axis=0)
        return IndexedSlices(values, _op["concat"](self.indices, other.indices, axis=0), self.dense_shape)

    __add__ = __radd__ = _plus

    def __repr__(self) -> str:
        parts = f"values={self.values!r}, indices={self.indices!r}, dense_shape={self.dense_shape!r}"
        return f"IndexedSlices({parts})"


def gathered(gradient: Tensor, source: Tensor, indices: Tensor) -> IndexedSlices:
    """Return the gradient of a source whose rows were gathered."""
    values = _op["gathered_rows"](gradient, indices, source)
    return IndexedSlices(values, _op["flat"](indices), _op["shape"](source, dtype=np.dtype(np.int64)))


def dense(gradient: Any) -> Any:
    """Return a gradient as a tensor, None as None."""
    return None if gradient is None else as_tensor(gradient)


def map_values(function: Callable[[Any], Any], gradient: Any) -> Any:
    """Return a gradient with `function` of its values, as many as there are."""
    if isinstance(gradient, IndexedSlices):
        return IndexedSlices(function(gradient.values), gradient.indices, gradient.dense_shape)
    return function(gradient)
