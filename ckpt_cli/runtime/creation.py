"""The functions of `tf` that make tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .ops.arrays import static_shape
from .ops.elementwise import cast
from .tensor import OPERATIONS, Tensor, TensorLike, as_tensor
from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "constant", "eye", "fill", "linspace", "ones", "ones_like", "range", "zeros", "zeros_like",
]  # fmt: skip

_op = OPERATIONS


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """Return a constant; `shape` fills a single value out."""
    if isinstance(value, TensorLike):
        value = value.numpy()
    elif isinstance(value, np.ndarray):
        value = value.copy()  # The program may change its array.
    tensor = as_tensor(value, dtypes.as_numpy(dtype) if dtype is not None else None)
    if shape is None:
        return tensor
    wanted = static_shape(shape)
    found = tensor._value
    if found.size not in (1, math.prod(wanted)):
        raise TypeError(
            f"Eager execution of tf.constant with unsupported shape. Tensor {found} (converted from {value}) "
            f"has {found.size} elements, but got `shape` {wanted} with {math.prod(wanted)} elements)."
        )
    return Tensor(np.broadcast_to(found, wanted).copy() if found.size == 1 else found.reshape(wanted))


def _of_number(name: str, value: int) -> Callable[..., Tensor]:
    """Return the function that makes tensors of one number."""

    def function(
        shape: Any, dtype: Any = dtypes.float32, name: str | None = None, layout: Any = None
    ) -> Tensor:
        refuse(function.__name__, layout=layout)
        wanted = dtypes.as_numpy(dtype)
        return Tensor(np.full(static_shape(shape), b"" if wanted.hasobject else value, wanted))

    function.__name__ = function.__qualname__ = name
    return function


def _like(name: str) -> Callable[..., Tensor]:
    """Return the function that makes a tensor of one number, of another tensor's shape."""

    def function(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
        refuse(function.__name__, layout=layout)
        out = _op[function.__name__](input)
        return out if dtype is None else cast(out, dtype)

    function.__name__ = function.__qualname__ = name
    return function


zeros, ones = _of_number("zeros", 0), _of_number("ones", 1)
zeros_like, ones_like = _like("zeros_like"), _like("ones_like")


def fill(dims: Any, value: Any, name: str | None = None, layout: Any = None) -> Tensor:
    refuse("fill", layout=layout)
    one = as_tensor(value)._value
    return Tensor(np.full(static_shape(dims), one, one.dtype))


def eye(
    num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    one = np.eye(num_rows, num_columns, dtype=dtypes.as_numpy(dtype))
    return Tensor(np.broadcast_to(one, (*static_shape(batch_shape or ()), *one.shape)).copy())


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """Return start, start + delta, ... below limit; floats give floats."""
    if limit is None:
        start, limit = 0, start
    parts = [as_tensor(part)._value for part in (start, limit, delta)]
    if parts[2] == 0:
        raise InvalidArgumentError("Requires delta != 0: 0 [Op:Range]")
    wanted = dtypes.as_numpy(dtype) if dtype is not None else np.result_type(*(part.dtype for part in parts))
    if dtype is None and any(part.dtype == np.float32 for part in parts) and wanted == np.float64:
        wanted = np.dtype(np.float32)
    return Tensor(np.arange(*(part.item() for part in parts)).astype(wanted))


def linspace(start: Any, stop: Any, num: int, name: str | None = None, axis: int = 0) -> Tensor:
    first, last = (as_tensor(cast(one, "float64") if as_tensor(one).dtype.is_integer else one)._value
                   for one in (start, stop))  # fmt: skip
    return Tensor(np.linspace(first, last, int(num), axis=axis).astype(first.dtype))
