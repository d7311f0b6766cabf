"""The functions of `tf` that make tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .ops.arrays import static_shape
from .ops.elementwise import cast
from .tensor import OPERATIONS, Tensor, TensorLike, as_tensor
from .unknown import refuse

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


def _filled(shape: Any, value: Any, dtype: Any) -> Tensor:
    wanted = dtypes.as_numpy(dtype)
    if wanted.hasobject:
        value = b""
    return Tensor(np.full(static_shape(shape), value, wanted))


def zeros(shape: Any, dtype: Any = dtypes.float32, name: str | None = None, layout: Any = None) -> Tensor:
    refuse("zeros", layout=layout)
    return _filled(shape, 0, dtype)


def ones(shape: Any, dtype: Any = dtypes.float32, name: str | None = None, layout: Any = None) -> Tensor:
    refuse("ones", layout=layout)
    return _filled(shape, 1, dtype)


def fill(dims: Any, value: Any, name: str | None = None, layout: Any = None) -> Tensor:
    refuse("fill", layout=layout)
    one = as_tensor(value)._value
    return Tensor(np.full(static_shape(dims), one, one.dtype))


def zeros_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    refuse("zeros_like", layout=layout)
    out = _op["zeros_like"](input)
    return out if dtype is None else cast(out, dtype)


def ones_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    refuse("ones_like", layout=layout)
    out = _op["ones_like"](input)
    return out if dtype is None else cast(out, dtype)


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
