"""Normalization over all axes but the last, as BatchNormalization has it in training.

Two passes over the batch, one for the mean and one for the variance about it, then one that
scales; its gradient takes two.  A part of the batch that stays in a processor's cache is done at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tape import GradientTape
from ..tensor import OPERATIONS, Tensor, define
from .rows import Rows

__all__: list[str] = []

_op = OPERATIONS


def _normalize(x: Any, gamma: Any, beta: Any, epsilon: float, is_fused: bool) -> tuple[Any, Any, Any]:
    """Return the outcome, the mean and the variance; `is_fused` says how they are differentiated twice."""
    rows, dtype = Rows(x), x.dtype
    flat = rows.of(x)
    with np.errstate(all="ignore"):
        mean = (rows.sums(lambda piece: flat[piece])[0] / rows.count).astype(dtype)
        middle = rows.along(mean)
        variance = (rows.sums(lambda piece: np.square(flat[piece] - middle))[0] / rows.count).astype(dtype)
        inverse = gamma / np.sqrt(variance + dtype.type(epsilon))
    scale, shift = rows.along(inverse), rows.along(beta - mean * inverse)
    return rows.made(x, lambda piece: flat[piece] * scale + shift), mean, variance


def _normalize_back(
    g: Any, g_mean: Any, g_variance: Any, x: Any, mean: Any, variance: Any, gamma: Any,
    epsilon: float, is_fused: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of x, gamma and beta, from those of the outcome, the mean and the variance."""
    rows, dtype = Rows(x), x.dtype
    flat, slopes, middle = rows.of(x), rows.of(g), rows.along(mean)
    with np.errstate(all="ignore"):
        root = 1 / np.sqrt(variance + dtype.type(epsilon))
        total, moment = rows.sums(
            lambda piece: slopes[piece], lambda piece: slopes[piece] * (flat[piece] - middle)
        )
        of_gamma = moment * root
        bend = ((2 * g_variance - gamma * root * root * of_gamma) / rows.count).astype(dtype)
        level = ((g_mean - gamma * root * total) / rows.count).astype(dtype)
    scale, bend, level = (rows.along(one) for one in (gamma * root, bend, level))
    back = rows.made(x, lambda piece: slopes[piece] * scale + (flat[piece] - middle) * bend + level)
    return back, of_gamma.astype(dtype), total.astype(dtype)


def _spelled_out(
    g: Tensor, g_mean: Tensor, g_variance: Tensor, x: Tensor, mean: Tensor, variance: Tensor, gamma: Tensor,
    epsilon: float, is_fused: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return what `_normalize_back` returns, by operations that have rules of their own.

    Without a fused kernel of TensorFlow, its variance is around a constant mean.
    """
    others = tuple(range(x.ndim - 1))
    count = _op["size"](x, dtype=x._value.dtype) / _op["size"](mean, dtype=x._value.dtype)
    root, away = _op["rsqrt"](variance + epsilon), x - mean
    total = _op["reduce_sum"](g, axis=others, keepdims=False)
    of_gamma = _op["reduce_sum"](g * away, axis=others, keepdims=False) * root
    bend = (2 * g_variance - gamma * root * root * of_gamma) / count
    level = (g_mean - gamma * root * total) / count
    about_mean = away if is_fused else x - _op["stop_gradient"](mean)
    return g * (gamma * root) + about_mean * bend + level, of_gamma, total


def _twice_back(gradients: Any, outputs: Any, *inputs: Any, **how: Any) -> Any:
    with GradientTape() as tape:
        tape.watch(inputs)
        values = _spelled_out(*inputs, **how)
    return tape.gradient(list(values), list(inputs), output_gradients=list(gradients))


define(
    "normalize",
    _normalize,
    together=lambda g, out, x, gamma, beta, **how: _op["normalize_back"](*g, x, *out[1:], gamma, **how),
)
define("normalize_back", _normalize_back, together=_twice_back)
