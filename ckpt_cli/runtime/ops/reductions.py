"""Sums, means, extremes along axes; softmax and its kin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError
from ..tensor import OPERATIONS, Tensor, TensorLike, as_tensor, define
from .elementwise import cast

__all__ = ["axes_of", "expanded", "integer", "integers", "reduced"]

_op = OPERATIONS


def axes_of(axis: Any) -> int | tuple[int, ...] | None:
    """Return an axis argument, a number, list or tensor, as numpy takes it."""
    if axis is None or axis.__class__ is int:
        return axis
    values = integers(axis)
    return tuple(values.tolist()) if values.ndim else int(values)


def integers(value: Any) -> Any:
    """Return an argument of integers as an array; InvalidArgumentError for values of another dtype."""
    tensor = as_tensor(value, np.dtype(np.int32) if value.__class__ is float else None)
    if tensor._value.dtype.kind not in "iu":
        if tensor._value.shape == (0,) and not isinstance(value, TensorLike):
            return np.zeros(0, np.int32)  # An empty list is one of any dtype.
        raise InvalidArgumentError(
            f"Value for attr 'T' of {tensor.dtype.name} is not in the list of allowed values: int32, int64"
        )
    return np.asarray(tensor._value)


def integer(value: Any) -> int:
    """Return an argument that is one integer."""
    return value if value.__class__ is int else int(integers(value).item())


def reduced(name: str, x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Run one of the reductions below."""
    axes = axes_of(axis)
    if axes is not None and axes != ():
        x = as_tensor(x)
        if not x._value.ndim:
            raise InvalidArgumentError(f"Invalid reduction dimension ({axes} for input with 0 dimension(s)")
    return _op[name](x, axis=axes, keepdims=bool(keepdims))


def _expand(value: Any, like: Any, axis: Any, keepdims: bool) -> Any:
    """Return a reduced value spread again over the shape it was reduced from."""
    if value.ndim == 0:  # numpy's own way takes ten times as long
        return np.ndarray(like.shape, value.dtype, value, strides=(0,) * like.ndim)
    if axis is not None and not keepdims:
        for one in sorted(a % like.ndim for a in ((axis,) if isinstance(axis, int) else axis)):
            value = np.expand_dims(value, one)
    return np.broadcast_to(value, like.shape)


_expand_like = define(
    "expand_like",
    _expand,
    lambda g, out, value, like, axis, keepdims: _op["reduce_sum"](g, axis=axis, keepdims=keepdims),
    None,
)


def expanded(g: Tensor, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return _expand_like(g, x, axis=axis, keepdims=keepdims)


def _typed(function: Any) -> Any:
    """Return a reduction that keeps the dtype: numpy would widen integers."""

    def forward(x: Any, axis: Any, keepdims: bool) -> Any:
        if x.dtype.kind == "V":  # TensorFlow adds numbers of bfloat16 up in float32.
            return function.reduce(x.astype(np.float32), axis, keepdims=keepdims).astype(x.dtype)
        return function.reduce(x, axis, x.dtype, keepdims=keepdims)

    return forward


_add: Any = np.add.reduce


def _mean(x: Any, axis: Any, keepdims: bool) -> Any:
    if x.dtype.kind in "iu":  # TensorFlow's mean of integers is an integer, rounded toward zero.
        total = _add(x, axis, np.float64, keepdims=keepdims)
        return np.trunc(total / max(x.size // max(total.size, 1), 1)).astype(x.dtype)
    if axis is None and not keepdims and x.size:  # numpy's own function takes thrice as long to begin
        return x.dtype.type(np.add.reduce(x, None, x.dtype).item() / x.size)
    total = _add(x, axis, x.dtype, keepdims=keepdims)
    count = math.prod(x.shape[one] for one in np.atleast_1d(range(x.ndim) if axis is None else axis))
    return (total / x.dtype.type(count)).astype(x.dtype)


def _mean_back(g: Any, out: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    # Of numbers numpy makes products much faster than of arrays without axes.
    return _expand(g[()] * g.dtype.type(out.size / max(x.size, 1)), x, axis, keepdims)


def _extreme_rule(g: Tensor, out: Tensor, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Share a gradient among the elements that are the extreme."""
    hit = cast(x == expanded(out, x, axis, keepdims), g.dtype)
    count = _op["reduce_sum"](hit, axis=axis, keepdims=True)
    return hit / count * expanded(g, x, axis, keepdims)


def _others(x: Any, axis: Any) -> Any:
    """Return for each element the product of all others that are reduced with it."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(one % x.ndim for one in axes)
    kept = [one for one in range(x.ndim) if one not in axes]
    moved = np.transpose(x, (*kept, *axes))
    rows = moved.reshape(math.prod(x.shape[one] for one in kept), -1)
    before, after = np.ones_like(rows), np.ones_like(rows)
    np.cumprod(rows[:, :-1], axis=1, out=before[:, 1:])
    after[:, :-1] = np.cumprod(rows[:, :0:-1], axis=1)[:, ::-1]
    return np.transpose((before * after).reshape(moved.shape), np.argsort((*kept, *axes)))


def _others_rule(g: Tensor, out: Tensor, x: Tensor, axis: Any) -> Tensor:
    products = g * out
    rest = _op["reduce_sum"](products, axis=axis, keepdims=True) - products
    return _op["divide_no_nan"](rest, x)


define("others", _others, _others_rule)


def _product_rule(g: Tensor, out: Tensor, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return expanded(g, x, axis, keepdims) * _op["others"](x, axis=axis)


def _extreme(function: Any, none: float) -> Any:
    """Return a reduction to the extreme; of nothing it is the least that any number would replace."""

    def forward(x: Any, axis: Any, keepdims: bool) -> Any:
        if x.size:
            return function(x, axis=axis, keepdims=keepdims)
        least = none if x.dtype.kind in "fV" else getattr(np.iinfo(x.dtype), "min" if none < 0 else "max")
        return function(x, axis=axis, keepdims=keepdims, initial=x.dtype.type(least))

    return forward


def _place(function: Any, worst: float) -> Any:
    """Return the place of an extreme, which nan never is."""

    def forward(x: Any, axis: int, dtype: Any) -> Any:
        if not x.ndim:
            raise ValueError(f"Expected dimension in the range [0, 0), but got {axis}")
        return function(
            np.where(np.isnan(x), x.dtype.type(worst), x) if x.dtype.kind == "f" else x, axis
        ).astype(dtype)

    return forward


define("reduce_sum", _typed(np.add), lambda g, out, x, axis, keepdims: expanded(g, x, axis, keepdims))
define(
    "mean_back",
    _mean_back,
    lambda h, _, g, out, x, axis, keepdims: _op["reduce_mean"](h, axis=axis, keepdims=keepdims),
    None,
    None,
)
define(
    "reduce_mean",
    _mean,
    lambda g, out, x, axis, keepdims: _op["mean_back"](g, out, x, axis=axis, keepdims=keepdims),
)
define("reduce_prod", _typed(np.multiply), _product_rule)
define("reduce_max", _extreme(np.max, -np.inf), _extreme_rule)
define("reduce_min", _extreme(np.min, np.inf), _extreme_rule)
define("reduce_any", lambda x, axis, keepdims: np.any(x, axis=axis, keepdims=keepdims), None)
define("reduce_all", lambda x, axis, keepdims: np.all(x, axis=axis, keepdims=keepdims), None)
define("argmax", _place(np.argmax, -np.inf), None)
define("argmin", _place(np.argmin, np.inf), None)


def _cumulate(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    if not x.ndim:
        raise ValueError(f"Expected scan axis in the range [0, 0), but got {axis}")
    moved = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
    if exclusive:
        out = np.zeros_like(moved)
        np.cumsum(moved[:-1], axis=0, dtype=x.dtype, out=out[1:])
    else:
        out = np.cumsum(moved, axis=0, dtype=x.dtype)
    return np.moveaxis(out[:: -1 if reverse else 1], 0, axis)


define(
    "cumsum",
    _cumulate,
    lambda g, out, x, axis, exclusive, reverse: _op["cumsum"](
        g, axis=axis, exclusive=exclusive, reverse=not reverse
    ),
)


def _logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0).astype(x.dtype)
    out = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return out if keepdims else np.squeeze(out, axis=axis)


define(
    "reduce_logsumexp",
    _logsumexp,
    lambda g, out, x, axis, keepdims: (
        expanded(g, x, axis, keepdims) * _op["exp"](x - expanded(out, x, axis, keepdims))
    ),
)


def _softmax(x: Any, axis: int) -> Any:
    if not x.ndim:
        raise ValueError("Input dims must be >= 1")
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True, initial=-np.inf))
    total = np.sum(powers, axis=axis, keepdims=True)
    return powers / total if x.dtype.kind != "V" else powers * (x.dtype.type(1) / total)


def _log_softmax(x: Any, axis: int) -> Any:
    moved = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return moved - np.log(np.sum(np.exp(moved), axis=axis, keepdims=True))


define(
    "softmax",
    _softmax,
    lambda g, out, x, axis: (g - _op["reduce_sum"](g * out, axis=axis, keepdims=True)) * out,
)
define(
    "log_softmax",
    _log_softmax,
    lambda g, out, x, axis: g - _op["exp"](out) * _op["reduce_sum"](g, axis=axis, keepdims=True),
)
