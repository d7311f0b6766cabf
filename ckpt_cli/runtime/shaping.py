"""The functions of `tf` that bend, join, cut and pick tensors."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .ops.arrays import as_parts, static_shape
from .ops.reductions import axes_of
from .tensor import OPERATIONS, Tensor, TensorLike, as_tensor
from .unknown import refuse

__all__ = [
    "argsort", "boolean_mask", "broadcast_to", "concat", "ensure_shape", "expand_dims", "gather", "gather_nd",
    "meshgrid", "one_hot", "pad", "rank", "repeat", "reshape", "reverse", "shape", "size", "sort", "split",
    "squeeze", "stack", "tile", "transpose", "unstack",
]  # fmt: skip

_op = OPERATIONS


def shape(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    return _op["shape"](input, dtype=dtypes.as_numpy(out_type))


def size(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    return _op["size"](input, dtype=dtypes.as_numpy(out_type))


def rank(input: Any, name: str | None = None) -> Tensor:
    return Tensor(np.int32(as_tensor(input).ndim))


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    return _op["reshape"](tensor, shape=static_shape(shape))


def expand_dims(input: Any, axis: Any, name: str | None = None) -> Tensor:
    return _op["expand_dims"](input, axis=int(axis))


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    return _op["squeeze"](input, axis=axes_of(axis))


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Tensor:
    if conjugate and as_tensor(a)._value.dtype.kind == "c":
        a = _op["conj"](a)
    return _op["transpose"](a, perm=None if perm is None else static_shape(perm))


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    return _op["reverse"](tensor, axis=axes_of(axis))


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    return _op["broadcast_to"](input, shape=static_shape(shape))


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    tensor = as_tensor(x)
    fits = len(shape) == tensor.ndim and all(
        want in (None, have) for want, have in zip(shape, tensor.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"Tensor's shape {tensor.shape} is not compatible with expected shape {shape}")
    return _op["ensured"](tensor)


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    return _op["concat"](*as_parts(values), axis=int(axis))


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    if not isinstance(values, TensorLike) and not any(isinstance(one, TensorLike) for one in values):
        with contextlib.suppress(ValueError):  # Of several shapes: the operation says so.
            values = as_tensor(values)
    return _op["stack"](*as_parts(values), axis=axis)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    parts = list(_op["unstack"](value, axis=axis))
    if num not in (None, len(parts)):
        raise InvalidArgumentError(f"Input shape axis {axis} must equal {num}, got {len(parts)} [Op:Unpack]")
    return parts


def split(
    value: Any, num_or_size_splits: Any, axis: int = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Return a tensor cut into equal parts, or into parts of given sizes."""
    tensor = as_tensor(value)
    dim = tensor.shape[axis]
    if isinstance(num_or_size_splits, int):
        if num_or_size_splits <= 0 or dim % num_or_size_splits:
            raise InvalidArgumentError(
                "Number of ways to split should evenly divide the split dimension, but got split_dim "
                f"{axis} (size = {dim}) and num_split {num_or_size_splits} [Op:Split]"
            )
        sizes: tuple[int, ...] = (dim // num_or_size_splits,) * num_or_size_splits
    else:
        sizes = static_shape(num_or_size_splits)
        known = sum(one for one in sizes if one >= 0)
        sizes = tuple(one if one >= 0 else dim - known for one in sizes)
        if num not in (None, len(sizes)) or sum(sizes) != dim or min(sizes, default=0) < 0:
            raise InvalidArgumentError(
                f"sizes {sizes} of {num} parts do not split axis {axis} of {dim} [Op:SplitV]"
            )
    return list(_op["split"](tensor, sizes=sizes, axis=axis))


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    return _op["tile"](input, multiples=static_shape(multiples))


def repeat(input: Any, repeats: int, axis: int | None = None, name: str | None = None) -> Tensor:
    tensor = as_tensor(input)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    indices = np.repeat(np.arange(tensor.shape[axis]), as_tensor(repeats)._value)
    return gather(tensor, indices, axis=axis)


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None
) -> Tensor:
    pairs = tuple(tuple(map(int, pair)) for pair in as_tensor(paddings)._value)
    return _op["pad"](tensor, paddings=pairs, mode=mode.lower(), value=constant_values)


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    refuse("gather", batch_dims=batch_dims)
    return _op["gather"](params, indices, axis=int(axis or 0))


def gather_nd(params: Any, indices: Any, batch_dims: int = 0, name: str | None = None) -> Tensor:
    refuse("gather_nd", batch_dims=batch_dims)
    return _op["gather_nd"](params, indices)


def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: str = "boolean_mask") -> Tensor:
    """Return what a mask of one or more axes, the first ones unless told, lets through."""
    x, wanted = as_tensor(tensor), as_tensor(mask)
    first = axis or 0
    rest = x.shape[first + wanted.ndim :]
    flat = reshape(x, (*x.shape[:first], -1, *rest))
    return gather(flat, np.flatnonzero(wanted._value), axis=first)


def one_hot(
    indices: Any,
    depth: int,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return ones at the indices, or values given, whose dtype is the tensor's unless it is given, too."""
    wanted = None if dtype is None else dtypes.as_numpy(dtype)
    values = [None if one is None else as_tensor(one, wanted)._value for one in (on_value, off_value)]
    found = {one.dtype for one in values if one is not None}
    if len(found) > 1 or (wanted is not None and found and found != {wanted}):
        raise TypeError(
            f"dtypes of on_value, off_value and dtype do not match: {sorted(map(str, found))}, {dtype}"
        )
    kind = wanted or next(iter(found), np.dtype(np.float32))
    on, off = (kind.type(at) if one is None else one for at, one in zip((1, 0), values, strict=True))
    axis = -1 if axis is None else axis
    return _op["one_hot"](indices, depth=int(depth), on=on, off=off, axis=axis, dtype=kind)


def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Tensor]:
    """Return each vector spread over the grid that all of them span."""
    axes = list(range(len(args)))
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    tensors = [as_tensor(one) for one in args]
    sizes = [0] * len(args)
    for axis, tensor in zip(axes, tensors, strict=True):
        sizes[axis] = tensor.shape[0]
    grids = []
    for axis, tensor in zip(axes, tensors, strict=True):
        along = [1] * len(args)
        along[axis] = -1
        grids.append(broadcast_to(reshape(tensor, along), sizes))
    return grids


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    tensor = as_tensor(values)
    return _op["take_along"](tensor, argsort(tensor, axis, direction), axis=axis)


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(
            f"Argument `direction` should be one of ASCENDING, DESCENDING. Received: {direction=}"
        )
    x = as_tensor(values)
    if x._value.dtype.kind not in "fViu":
        raise InvalidArgumentError(f"Value for attr 'T' of {x.dtype.name} is not in the list [Op:TopKV2]")
    return _op["argsort"](x, axis=axis, descending=direction == "DESCENDING")
