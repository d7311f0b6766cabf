"""Functions of `tf` and `tf.math` that few programs use: picking, counting, segments, loops, assertions."""

from __future__ import annotations

import builtins
import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .functions import _op, argsort, reduce_max, reduce_sum, stack
from .nest import flatten, map_structure
from .ops.arrays import static_shape
from .ops.elementwise import cast
from .ops.reductions import axes_of
from .tensor import Tensor, as_tensor
from .unknown import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

IN_TF = [
    "add_n", "case", "control_dependencies", "device", "foldl", "numpy_function", "py_function",
    "roll", "scan", "scatter_nd", "searchsorted", "sequence_mask", "slice", "strided_slice", "switch_case",
    "tensor_scatter_nd_add", "tensor_scatter_nd_max", "tensor_scatter_nd_min", "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update", "unique", "unique_with_counts",
]  # fmt: skip
IN_MATH = [
    "add_n", "bincount", "confusion_matrix", "count_nonzero", "cumprod", "in_top_k", "l2_normalize",
    "polyval", "segment_mean", "segment_sum", "top_k", "unsorted_segment_mean",
    "unsorted_segment_sum",
]  # fmt: skip
__all__ = [*IN_TF, *IN_MATH]  # noqa: PLE0604


class TopK(NamedTuple):
    values: Tensor
    indices: Tensor


class Unique(NamedTuple):
    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]  # TensorFlow's name


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    x, starts, sizes = as_tensor(input_), static_shape(begin), static_shape(size)
    if not len(starts) == len(sizes) == x.ndim:
        raise InvalidArgumentError(f"begin {starts} and size {sizes} are not of rank {x.ndim} [Op:Slice]")
    ends = [dim if n == -1 else at + n for at, n, dim in zip(starts, sizes, x.shape, strict=True)]
    for at, end, dim in zip(starts, ends, x.shape, strict=True):
        if not 0 <= at <= end <= dim:
            raise InvalidArgumentError(
                f"Expected begin and size in [0, {dim}], but got {at}, {end} [Op:Slice]"
            )
    return x[tuple(builtins.slice(at, end) for at, end in zip(starts, ends, strict=True))]


def strided_slice(
    input_: Any, begin: Any, end: Any, strides: Any = None, begin_mask: int = 0, end_mask: int = 0,
    ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0, var: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return part of a tensor; bit n of a mask says how the n-th entries are read."""
    refuse("strided_slice", var=var)
    starts, ends = static_shape(begin), static_shape(end)
    steps = (1,) * len(starts) if strides is None else static_shape(strides)
    index: list[Any] = []
    for at, (start, stop, step) in enumerate(zip(starts, ends, steps, strict=True)):
        bit = 1 << at
        if ellipsis_mask & bit:
            index.append(...)
        elif new_axis_mask & bit:
            index.append(None)
        elif shrink_axis_mask & bit:
            index.append(start)
        else:
            first, last = (
                None if mask & bit else one for mask, one in ((begin_mask, start), (end_mask, stop))
            )
            index.append(builtins.slice(first, last, step))
    return as_tensor(input_)[tuple(index)]


def polyval(coeffs: Any, x: Any, name: str | None = None) -> Tensor:
    if not isinstance(coeffs, list):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")  # noqa: TRY004
    value = as_tensor(x)
    if not coeffs:
        return as_tensor(_op["zeros_like"](value))
    total = as_tensor(coeffs[0], value._value.dtype)
    for one in coeffs[1:]:
        total = as_tensor(one, value._value.dtype) + total * value
    return total


def in_top_k(targets: Any, predictions: Any, k: Any, name: str | None = None) -> Tensor:
    """Whether each target is among the k largest predictions, ties included."""
    rows, places = as_tensor(predictions), as_tensor(targets)
    if rows.ndim != 2 or places.ndim != 1 or len(places) != len(rows):
        raise InvalidArgumentError(f"in_top_k of {rows.shape} and {places.shape} [Op:InTopKV2]")
    return _op["in_top_k"](rows, places, k=int(k))


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    return _op["scattered"](updates, indices, shape=static_shape(shape))


def _scatter(how: str) -> Callable[..., Tensor]:
    def function(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        x = as_tensor(tensor)
        return _op["tensor_scatter"](x, as_tensor(updates, x._value.dtype), indices, how=how)

    function.__name__ = function.__qualname__ = f"tensor_scatter_nd_{how}"
    return function


(
    tensor_scatter_nd_update,
    tensor_scatter_nd_add,
    tensor_scatter_nd_sub,
    tensor_scatter_nd_max,
    (tensor_scatter_nd_min),
) = map(_scatter, ("update", "add", "sub", "max", "min"))


def unique_with_counts(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> UniqueWithCounts:
    return UniqueWithCounts(*_op["unique"](x, dtype=dtypes.as_numpy(out_idx)))


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> Unique:
    return Unique(*unique_with_counts(x, out_idx)[:2])


def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    axes, shifts = (np.atleast_1d(as_tensor(one)._value).tolist() for one in (axis, shift))
    return _op["roll"](input, shift=tuple(shifts), axis=tuple(axes))


def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    edges = as_tensor(sorted_sequence)
    wanted = as_tensor(values, edges._value.dtype)
    return _op["searchsorted"](edges, wanted, side=side, dtype=dtypes.as_numpy(out_type))


def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = dtypes.bool_, name: str | None = None
) -> Tensor:
    ends = as_tensor(lengths)
    most = int(reduce_max(ends) if maxlen is None else maxlen)
    steps = as_tensor(np.arange(max(most, 0), dtype=ends._value.dtype))
    return cast(steps < _op["expand_dims"](ends, axis=-1), dtype)


def top_k(
    input: Any, k: Any = 1, sorted: bool = True, index_type: Any = dtypes.int32, name: str | None = None
) -> TopK:
    x = as_tensor(input)
    if x.ndim < 1 or not 0 <= int(k) <= x.shape[-1]:
        raise InvalidArgumentError(
            f"input must have at least k({k}) columns, its shape is {x.shape} [Op:TopKV2]"
        )
    places = argsort(x, -1, "DESCENDING")[..., : int(k)]
    return TopK(_op["take_along"](x, places, axis=-1), cast(places, index_type))


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    parts = [as_tensor(one) for one in (inputs if isinstance(inputs, list | tuple) else [inputs])]
    if not parts:
        raise ValueError("Inputs must be an iterable of at least one Tensor with the same dtype and shape.")
    if any((one.shape, one.dtype) != (parts[0].shape, parts[0].dtype) for one in parts):
        raise InvalidArgumentError("Inputs must all have the same dtype and shape [Op:AddN]")
    total = parts[0]
    for one in parts[1:]:
        total = total + one
    return total


def cumprod(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    return _op["cumprod"](x, axis=int(axis), exclusive=exclusive, reverse=reverse)


def count_nonzero(
    input: Any, axis: Any = None, keepdims: Any = None, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    x = as_tensor(input)
    nonzero = _op["not_equal"](x, _op["zeros_like"](x))
    return cast(reduce_sum(cast(nonzero, "int64"), axis, bool(keepdims)), dtype)


def bincount(
    arr: Any, weights: Any = None, minlength: Any = None, maxlength: Any = None, dtype: Any = dtypes.int32,
    name: str | None = None, axis: Any = None, binary_output: bool = False,
) -> Tensor:  # fmt: skip
    """Count the integers, or sum their weights."""
    refuse("bincount", axis=axis, binary_output=binary_output)
    values = as_tensor(arr)._value.ravel()
    if values.size and values.min() < 0:
        raise InvalidArgumentError("Input arr must be non-negative! [Op:DenseBincount]")
    length = max(int(values.max()) + 1 if values.size else 0, int(minlength or 0))
    length = length if maxlength is None else min(length, int(maxlength))
    kept = values < length
    given = (
        np.ones(values.size, dtypes.as_numpy(dtype)) if weights is None else as_tensor(weights)._value.ravel()
    )
    return as_tensor(np.bincount(values[kept], given[kept], length).astype(given.dtype))


def confusion_matrix(
    labels: Any, predictions: Any, num_classes: Any = None, weights: Any = None, dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Count predictions (columns) by labels (rows)."""
    rows, columns = (cast(one, "int64") for one in (labels, predictions))
    for what, found in (("labels", rows), ("predictions", columns)):
        if found._value.size and found._value.min() < 0:
            raise InvalidArgumentError(f"`{what}` contains negative values")
    size = int(max(reduce_max(rows), reduce_max(columns))) + 1 if num_classes is None else int(num_classes)
    given = cast(np.ones(rows.shape) if weights is None else weights, dtype)
    return scatter_nd(stack([rows, columns], 1), given, [size, size])


def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    return _op["segments"](data, segment_ids, count=int(num_segments))


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    x, ids = as_tensor(data), as_tensor(segment_ids)
    ones = cast(_op["ones_like"](ids), x.dtype)
    counts = unsorted_segment_sum(ones, ids, num_segments)
    counts = _op["maximum"](counts, as_tensor(1, x._value.dtype))
    total = unsorted_segment_sum(x, ids, num_segments)
    return total / _op["reshape"](counts, shape=(-1, *[1] * (total.ndim - 1)))


def _sorted_segments(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def segments(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
        ids = as_tensor(segment_ids)._value
        if ids.size and (ids.min() < 0 or (np.diff(ids) < 0).any()):
            raise InvalidArgumentError("segment ids are not increasing")
        return function(data, segment_ids, int(ids[-1]) + 1 if ids.size else 0)

    segments.__name__ = segments.__qualname__ = name
    return segments


segment_sum = _sorted_segments(unsorted_segment_sum, "segment_sum")
segment_mean = _sorted_segments(unsorted_segment_mean, "segment_mean")


def l2_normalize(
    x: Any, axis: Any = None, epsilon: Any = 1e-12, name: str | None = None, dim: Any = None
) -> Tensor:
    tensor, axis = as_tensor(x), axis if dim is None else dim
    squares = reduce_sum(_op["square"](tensor), axes_of(axis), True)
    return tensor * _op["rsqrt"](_op["maximum"](squares, epsilon))


# Loops and functions ---------------------------------------------------------------------


def case(
    pred_fn_pairs: Any, default: Any = None, exclusive: bool = False, strict: bool = False, name: str = "case"
) -> Any:
    refuse("case", strict=strict)
    held = [function for predicate, function in pred_fn_pairs if bool(predicate)]
    if not held and default is None:
        raise InvalidArgumentError("None of conditions evaluated as True and no default was given")
    return (held or [default])[0]()


def switch_case(branch_index: Any, branch_fns: Any, default: Any = None, name: str = "switch_case") -> Any:
    given = branch_fns.items() if isinstance(branch_fns, dict) else branch_fns
    pairs = [one if isinstance(one, tuple) else (at, one) for at, one in enumerate(given)]
    functions: dict[int, Any] = dict(pairs)
    at = int(branch_index)
    if sorted(functions) != list(range(len(functions))):
        raise ValueError(f"branch indices (keys) must form contiguous range but found {set(functions)}")
    last = functions[max(functions)]
    return functions.get(at, last if default is None else default)()


def _folded(fn: Any, elems: Any, initializer: Any, *, backwards: bool) -> Iterator[Any]:
    rows = len(as_tensor(flatten(elems)[0])._value)
    order = range(rows)[:: -1 if backwards else 1]
    parts = [map_structure(lambda one, at=at: as_tensor(one)[at], elems) for at in order]
    state = map_structure(as_tensor, initializer) if initializer is not None else parts[0]
    if initializer is None:
        yield state
    for part in parts[initializer is None :]:
        state = map_structure(as_tensor, fn(state, part))
        yield state


def foldl(
    fn: Any, elems: Any, initializer: Any = None, parallel_iterations: Any = 10, back_prop: bool = True,
    swap_memory: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    refuse("foldl", back_prop=None if back_prop else "False")
    return ([initializer, *_folded(fn, elems, initializer, backwards=False)])[-1]


def scan(
    fn: Any, elems: Any, initializer: Any = None, parallel_iterations: Any = 10, back_prop: bool = True,
    swap_memory: bool = False, infer_shape: bool = True, reverse: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    refuse("scan", back_prop=None if back_prop else "False")
    states = list(_folded(fn, elems, initializer, backwards=reverse))
    return map_structure(lambda *parts: stack(list(parts)), *states[:: -1 if reverse else 1])


def numpy_function(
    func: Any = None, inp: Any = None, Tout: Any = None, stateful: bool = True,  # noqa: N803
    name: str | None = None,
) -> Any:  # fmt: skip
    """Call a function with arrays; what it returns is not differentiated."""
    refuse("numpy_function", stateful=None if stateful else "False")
    return _typed(func(*(as_tensor(one).numpy() for one in inp)), Tout)


def py_function(
    func: Any = None, inp: Any = None, Tout: Any = None, name: str | None = None,  # noqa: N803
) -> Any:  # fmt: skip
    return _typed(func(*map(as_tensor, inp)), Tout)


def _typed(found: Any, wanted: Any) -> Any:
    if not isinstance(wanted, list | tuple):
        return as_tensor(found, dtypes.as_numpy(wanted))
    found = found if isinstance(found, list | tuple) else [found]
    return [as_tensor(one, dtypes.as_numpy(kind)) for one, kind in zip(found, wanted, strict=True)]


def device(device_name: Any) -> Any:
    """Return a context without effect: there is one device."""
    return contextlib.nullcontext(device_name)


def control_dependencies(control_inputs: Any) -> Any:
    """Return a context, without effect eagerly: operations run in the order of the program."""
    from .deferred import control

    return control(control_inputs)
