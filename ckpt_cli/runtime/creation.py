"""The functions of `tf` that make tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .ops.arrays import filled, static_shape
from .ops.elementwise import cast
from .tensor import OPERATIONS, Tensor, TensorLike, as_tensor
from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["constant", "eye", "fill", "linspace", "ones", "ones_like", "range", "zeros", "zeros_like"]

_op = OPERATIONS


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """Return a constant; `shape` fills a single value out."""
    if isinstance(value, TensorLike):
        if dtype is not None and value.dtype != dtype:
            raise TypeError(f"Expected tensor {value} with dtype {dtype!r}, but got dtype {value.dtype!r}.")
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


_VALUES: dict[str, Any] = {"b": (False, True), "O": (b"", 1)}
"""0 and 1 in dtypes that are not numeric; no string is a 1."""


def _of_number(name: str, value: int) -> Callable[..., Tensor]:
    """Return the function that makes tensors of one number."""

    def function(
        shape: Any, dtype: Any = dtypes.float32, name: str | None = None, layout: Any = None
    ) -> Tensor:
        refuse(function.__name__, layout=layout)
        if dtypes.as_dtype(dtype) is dtypes.variant:
            raise TypeError(f"Cannot convert {value} to EagerTensor of dtype variant")
        wanted = dtypes.as_numpy(dtype)
        one = as_tensor(_VALUES[wanted.kind][value] if wanted.kind in _VALUES else value, wanted)._value
        if isinstance(shape, list | tuple) and any(dim.__class__ is float for dim in shape):
            shape = as_tensor(shape, np.dtype(np.int32))
        return Tensor(filled(shape, one, wanted))

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
    return _op["broadcast_to"](as_tensor(value), shape=filled(dims, one, one.dtype).shape)


def eye(
    num_rows: int, num_columns: int | None = None, batch_shape: Any = None, dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    kind = dtypes.as_numpy(dtype)
    one = filled((num_rows, num_rows if num_columns is None else num_columns), 0, kind)
    if kind.hasobject:
        raise TypeError(f"Cannot convert 1 to EagerTensor of dtype {dtypes.as_dtype(dtype).name}")
    np.fill_diagonal(one, 1)
    return Tensor(np.broadcast_to(one, (*static_shape(batch_shape or ()), *one.shape)).copy())


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """Return start, start + delta, ... below limit; floats give floats."""
    if limit is None:
        start, limit = 0, start
    kind = None if dtype is None else dtypes.as_numpy(dtype)
    parts = [as_tensor(part, kind)._value for part in (start, limit, delta)]
    kinds = ["int32", "int64", "float32", "float64"]
    assert dtype is not None or all(part.dtype.name in kinds for part in parts), "numbers of other dtypes"
    wanted = kind or max((part.dtype for part in parts), key=lambda one: kinds.index(one.name))
    if wanted.name not in kinds:
        raise InvalidArgumentError(f"Could not find device for node Range of {wanted.name} [Op:Range]")
    first, last, step = (part.astype(wanted).item() for part in parts)
    if not step or (last - first) * step < 0:
        side = "<" if step > 0 else ">"
        raise InvalidArgumentError(f"Requires start {side}= limit and delta != 0 when {step=} [Op:Range]")
    return Tensor(np.arange(first, last, step).astype(wanted))


def linspace(start: Any, stop: Any, num: int, name: str | None = None, axis: int = 0) -> Tensor:
    first = as_tensor(start)
    last = as_tensor(stop, first._value.dtype)
    count = int(as_tensor(num, np.dtype(np.int32)))
    steps = max(count - 1, 1)
    first, last = (_op["expand_dims"](one, axis=axis) for one in (first, last))
    delta = (last - first) / steps
    first, last = cast(first, delta.dtype), cast(last, delta.dtype)
    places = np.arange(1, steps, dtype=delta._value.dtype)
    along = [-1 if at == axis % delta.ndim else 1 for at, _ in enumerate(delta.shape)]
    between = Tensor(places.reshape(along))
    whole = _op["concat"](first, first + delta * between, last, axis=axis)
    return _op["slice"](whole, index=(*[slice(None)] * (axis % delta.ndim), slice(count)))
