"""The functions of `tf` that bend, join, cut and pick tensors."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .ops.arrays import as_parts, static_shape
from .ops.reductions import axes_of, integer, integers
from .tensor import OPERATIONS, Tensor, TensorLike, TensorShape, as_tensor
from .unknown import refuse

__all__ = [
    "argsort", "boolean_mask", "broadcast_to", "concat", "ensure_shape", "expand_dims", "gather", "gather_nd",
    "meshgrid", "one_hot", "pad", "rank", "repeat", "reshape", "reverse", "shape", "size", "sort", "split",
    "squeeze", "stack", "tile", "transpose", "unstack",
]  # fmt: skip

_op = OPERATIONS


def shape(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    wanted = dtypes.as_numpy(out_type)
    if wanted.name not in ("int32", "int64"):
        raise InvalidArgumentError(
            f"Value for attr 'out_type' of {wanted} is not in the list of allowed values"
        )
    return _op["shape"](input, dtype=wanted)


def size(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    return _op["size"](input, dtype=dtypes.as_numpy(out_type))


def rank(input: Any, name: str | None = None) -> Tensor:
    return Tensor(np.int32(as_tensor(input).ndim))


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    return _op["reshape"](tensor, shape=static_shape(shape))


def expand_dims(input: Any, axis: Any, name: str | None = None) -> Tensor:
    return _op["expand_dims"](input, axis=integer(axis))


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    axes = axes_of(int(axis) if isinstance(axis, float) else axis)
    if isinstance(axes, tuple):
        axes = tuple(dict.fromkeys(axes)) or None  # Without any axis, TensorFlow removes all.
    return _op["squeeze"](input, axis=axes)


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Tensor:
    if conjugate and as_tensor(a)._value.dtype.kind == "c":
        a = _op["conj"](a)
    return _op["transpose"](a, perm=None if perm is None else static_shape(perm))


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    axes = axes_of(axis)
    if isinstance(axes, int):
        raise InvalidArgumentError("'dims' must be 1-dimension, not 0 [Op:ReverseV2]")
    return _op["reverse"](tensor, axis=axes)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    return _op["broadcast_to"](input, shape=static_shape(shape))


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    tensor = as_tensor(x)
    if not TensorShape(shape).is_compatible_with(tensor.shape):
        raise InvalidArgumentError(f"Shape of tensor input {tensor.shape} is not compatible with {shape}")
    return _op["ensured"](tensor)


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    values = values if isinstance(values, list | tuple) else [values]
    if np.ndim(as_tensor(axis)._value):
        raise ValueError(f"Shape {as_tensor(axis).shape} must have rank 0")
    if len(values) == 1:
        return _op["identity"](*as_parts(values))
    return _op["concat"](*as_parts(values), axis=integer(axis))


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    has_tensors = isinstance(values, list | tuple) and any(isinstance(one, TensorLike) for one in values)
    if axis == 0 and not has_tensors:
        with contextlib.suppress(ValueError, TypeError):  # Of several shapes: the operation says so.
            return as_tensor(values)
    rank = as_tensor(values[0]).ndim + 1
    _check_axis(axis, rank)
    return _op["stack"](*as_parts(values), axis=int(axis))


def _check_axis(axis: int, rank: int) -> None:
    if not -rank <= axis < rank:
        raise ValueError(f"Argument `axis` = {axis} not in range [{-rank}, {rank})")


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    value = as_tensor(value)
    if num is None:
        _check_axis(axis, value.ndim)
    parts = list(_op["unstack"](value, axis=axis))
    if num not in (None, len(parts)):
        raise InvalidArgumentError(f"Input shape axis {axis} must equal {num}, got {len(parts)} [Op:Unpack]")
    return parts


def split(
    value: Any, num_or_size_splits: Any, axis: int = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Return a tensor cut into equal parts, or into parts of given sizes."""
    tensor = as_tensor(value)
    if not -tensor.ndim <= axis < tensor.ndim:
        raise InvalidArgumentError(
            f"-input rank(-{tensor.ndim}) <= split_dim < input rank, got {axis} [Op:Split]"
        )
    dim = tensor.shape[axis]
    if isinstance(num_or_size_splits, int):
        if num_or_size_splits <= 0 or dim % num_or_size_splits:
            raise InvalidArgumentError(
                "Number of ways to split should evenly divide the split dimension, but got split_dim "
                f"{axis} (size = {dim}) and num_split {num_or_size_splits} [Op:Split]"
            )
        sizes: tuple[int, ...] = (dim // num_or_size_splits,) * num_or_size_splits
    else:
        if not np.ndim(as_tensor(num_or_size_splits)._value):
            raise ValueError(
                "Rank-0 tensors are not supported as the num_or_size_splits argument to split. "
                f"Argument provided: {num_or_size_splits}"
            )
        sizes = static_shape(num_or_size_splits)
        known = sum(one for one in sizes if one >= 0)
        sizes = tuple(one if one >= 0 else dim - known for one in sizes)
        if num not in (None, len(sizes)) or sum(sizes) != dim or min(sizes, default=0) < 0:
            raise InvalidArgumentError(
                f"sizes {sizes} of {num} parts do not split axis {axis} of {dim} [Op:SplitV]"
            )
    return list(_op["split"](tensor, sizes=sizes, axis=axis))


def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    times, tensor = integers(multiples), as_tensor(input)
    if times.shape != (tensor.ndim,):
        raise InvalidArgumentError(
            f"Expected multiples to be of shape {[tensor.ndim]}, got {list(times.shape)} [Op:Tile]"
        )
    return _op["tile"](tensor, multiples=tuple(times.tolist()))


def repeat(input: Any, repeats: int, axis: int | None = None, name: str | None = None) -> Tensor:
    tensor = as_tensor(input)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    if not -tensor.ndim <= axis < tensor.ndim:
        raise ValueError(f"{axis=} out of bounds: expected {-tensor.ndim}<=axis<{tensor.ndim}")
    times = as_tensor(repeats)._value
    if np.any(times < 0):
        raise InvalidArgumentError(f"Expected multiples[1] >= 0, but got {times.min()} [Op:Tile]")
    indices = np.repeat(np.arange(tensor.shape[axis]), times)
    return gather(tensor, indices, axis=axis)


def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None
) -> Tensor:
    if mode.upper() not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise ValueError(
            'Value of argument `mode` expected to be one of "CONSTANT", "REFLECT", or "SYMMETRIC". '
            f"Received `mode` = {mode}"
        )
    x, sizes = as_tensor(tensor), integers(paddings)
    if sizes.ndim != 2 or sizes.shape[1] != 2:
        raise InvalidArgumentError(f"paddings must be a matrix with 2 columns: {list(sizes.shape)} [Op:Pad]")
    kind = mode.lower()
    most = np.array(x.shape)[:, None] - (kind == "reflect")
    if kind != "constant" and len(sizes) == x.ndim and (sizes > most).any():
        raise InvalidArgumentError(f"paddings must be at most {most.ravel()}, got {sizes} [Op:MirrorPad]")
    if kind == "constant" and constant_values.__class__ is int and constant_values == 0:
        constant_values = b"" if x._value.dtype.hasobject else x._value.dtype.type()
    elif kind == "constant":
        constant_values = as_tensor(constant_values, x._value.dtype)._value
    return _op["pad"](x, paddings=tuple(map(tuple, sizes.tolist())), mode=kind, value=constant_values)


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
    """Return the elements that a mask selects; its axes are the first ones by default."""
    x, wanted = as_tensor(tensor), as_tensor(mask)
    if not wanted.ndim:
        raise ValueError("mask cannot be scalar.")
    first = axis or 0
    masked = x.shape[first : first + wanted.ndim]
    if masked != wanted.shape:
        raise ValueError(f"Shapes {masked} and {wanted.shape} are incompatible")
    rest = x.shape[first + wanted.ndim :]
    flat = reshape(x, (*x.shape[:first], wanted._value.size, *rest))
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
    on, off = (
        as_tensor(at, kind)._value if one is None else one for at, one in zip((1, 0), values, strict=True)
    )
    axis, size = -1 if axis is None else axis, as_tensor(depth, np.dtype(np.int32))._value
    places = as_tensor(indices)
    is_placed = places.dtype.name in ("uint8", "int8", "int32", "int64") or not places._value.size
    if size.ndim or size < 0 or axis < -1 or not is_placed:
        raise InvalidArgumentError(f"one_hot of {places.dtype.name} with {depth=} and {axis=} [Op:OneHot]")
    return _op["one_hot"](places, depth=int(size), on=on, off=off, axis=axis, dtype=kind)


def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Tensor]:
    """Return each vector spread over the grid that all of them span."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'")
    axes = list(range(len(args)))
    if indexing == "xy":
        axes[:2] = reversed(axes[:2])
    tensors = [as_tensor(one) for one in args]
    if not tensors:
        return []
    sizes = [tensors[axes.index(at)]._value.size for at in range(len(args))]
    whole = Tensor(np.ones(sizes, tensors[0]._value.dtype))
    shapes = [[-1 if at == axis else 1 for at in range(len(args))] for axis in axes]
    return [reshape(tensor, along) * whole for tensor, along in zip(tensors, shapes, strict=True)]


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
    if x._value.dtype.kind in "fV" and np.isnan(x._value).any():
        raise NotImplementedError("sort: an order of NaN is not supported")
    return _op["argsort"](x, axis=axis, descending=direction == "DESCENDING")
