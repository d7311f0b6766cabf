"""Sums, means, extremes along axes; softmax and its kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import OPERATIONS, Tensor, as_tensor, define
from .elementwise import cast

__all__ = ["axes_of", "expanded", "reduced"]

_op = OPERATIONS


def axes_of(axis: Any) -> int | tuple[int, ...] | None:
    """Return an axis argument, a number, list or tensor, as numpy takes it."""
    if axis is None or isinstance(axis, int):
        return axis
    if isinstance(axis, list | tuple):
        return tuple(map(int, axis))
    values = as_tensor(axis).numpy()
    return tuple(values.tolist()) if np.ndim(values) else int(values)


def reduced(name: str, x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Run one of the reductions below."""
    return _op[name](x, axis=axes_of(axis), keepdims=bool(keepdims))


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
        return function(x, axis=axis, keepdims=keepdims, dtype=x.dtype)

    return forward


def _mean(x: Any, axis: Any, keepdims: bool) -> Any:
    if x.dtype.kind in "iu":  # TensorFlow's mean of integers is an integer, rounded toward zero.
        return np.trunc(np.mean(x, axis=axis, keepdims=keepdims)).astype(x.dtype)
    if axis is None and not keepdims and x.size:  # numpy's own function takes thrice as long to begin
        return x.dtype.type(np.add.reduce(x, None, x.dtype).item() / x.size)
    return np.mean(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def _mean_back(g: Any, out: Any, x: Any, axis: Any, keepdims: bool) -> Any:
    # Of numbers numpy makes products much faster than of arrays without axes.
    return _expand(g[()] * g.dtype.type(out.size / max(x.size, 1)), x, axis, keepdims)


def _extreme_rule(g: Tensor, out: Tensor, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """Share a gradient among the elements that are the extreme."""
    hit = cast(x == expanded(out, x, axis, keepdims), g.dtype)
    count = _op["reduce_sum"](hit, axis=axis, keepdims=True)
    return hit / count * expanded(g, x, axis, keepdims)


def _product_rule(g: Tensor, out: Tensor, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    return expanded(g * out, x, axis, keepdims) / x


define("reduce_sum", _typed(np.sum), lambda g, out, x, axis, keepdims: expanded(g, x, axis, keepdims))
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
define("reduce_prod", _typed(np.prod), _product_rule)
define("reduce_max", lambda x, axis, keepdims: np.max(x, axis=axis, keepdims=keepdims), _extreme_rule)
define("reduce_min", lambda x, axis, keepdims: np.min(x, axis=axis, keepdims=keepdims), _extreme_rule)
define("reduce_any", lambda x, axis, keepdims: np.any(x, axis=axis, keepdims=keepdims), None)
define("reduce_all", lambda x, axis, keepdims: np.all(x, axis=axis, keepdims=keepdims), None)
define("argmax", lambda x, axis, dtype: np.argmax(x, axis=axis).astype(dtype), None)
define("argmin", lambda x, axis, dtype: np.argmin(x, axis=axis).astype(dtype), None)


def _cumulate(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    flipped = np.flip(x, axis) if reverse else x
    out = np.cumsum(flipped, axis=axis, dtype=x.dtype)
    if exclusive:
        out = out - flipped
    return np.flip(out, axis) if reverse else out


define(
    "cumsum",
    _cumulate,
    lambda g, out, x, axis, exclusive, reverse: _op["cumsum"](
        g, axis=axis, exclusive=exclusive, reverse=not reverse
    ),
)


def _logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    top = np.max(x, axis=axis, keepdims=True)
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
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


define(
    "softmax",
    _softmax,
    lambda g, out, x, axis: (g - _op["reduce_sum"](g * out, axis=axis, keepdims=True)) * out,
)
define(
    "log_softmax",
    lambda x, axis: x - _logsumexp(x, axis, True),
    lambda g, out, x, axis: g - _op["exp"](out) * _op["reduce_sum"](g, axis=axis, keepdims=True),
)
