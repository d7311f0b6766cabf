"""Losses over logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import graphs
from ..compiled import is_compiled
from ..tensor import OPERATIONS, Tensor, as_tensor, define
from .elementwise import cast, where

__all__ = ["KERAS", "keep_logits", "sigmoid_cross_entropy", "softmax_cross_entropy", "with_last_axis"]

_op = OPERATIONS


KERAS = "keras"
"""The source of probabilities: any activation of Keras."""


def keep_logits(probabilities: Tensor, logits: Any, made_by: str) -> Tensor:
    """Let losses of Keras know what an activation made probabilities of: of those they would lose digits.

    An operation that is none of Keras' is recognized where TensorFlow has a graph.
    """
    if made_by == KERAS or is_compiled() or graphs.current() is not None:
        probabilities._keras_logits = (logits, made_by)
    return probabilities


def with_last_axis(x: Tensor, axis: int) -> Tensor:
    """Return a tensor with an axis moved to the end."""
    at = axis % x.ndim
    if at == x.ndim - 1:
        return x
    return _op["transpose"](x, perm=(*(one for one in range(x.ndim) if one != at), at))


def softmax_cross_entropy(labels: Any, logits: Any, axis: int = -1) -> Tensor:
    x = as_tensor(logits)
    pair = with_last_axis(x, axis), with_last_axis(cast(labels, x.dtype), axis)
    if x.dtype.name in ("float16", "bfloat16"):
        return cast(_op["cross_entropy"](*(cast(one, "float32") for one in pair)), x.dtype)
    return _op["cross_entropy"](*pair)


def _log_softmax(logits: Any) -> Any:
    moved = logits - logits.max(axis=-1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=-1, keepdims=True))


def _picked(logits: Any, labels: Any) -> Any:
    """Return -log softmax(logits) at the labels."""
    found, depth = _log_softmax(logits), logits.shape[-1]
    outside = labels[(labels < 0) | (labels >= depth)]
    if outside.size:
        raise ValueError(f"a label value of {outside.flat[0]} is outside the valid range of [0, {depth})")
    return -np.take_along_axis(found, labels[..., None].astype(np.int64), axis=-1)[..., 0]


def _picked_rule(g: Tensor, out: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    depth = logits.shape[-1]
    hot = _op["one_hot"](labels, depth=depth, on=1, off=0, axis=-1, dtype=logits._value.dtype)
    return _op["expand_dims"](g, axis=-1) * (_op["softmax"](logits, axis=-1) - hot)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return -(labels * _log_softmax(logits)).sum(axis=-1)


define("sparse_cross_entropy", _picked, _picked_rule, None)


define("held", lambda x: x, lambda g, out, x: _op["zeros_like"](x))
"""What TensorFlow takes for a constant."""

define(
    "cross_entropy",
    _cross_entropy,
    # As in TensorFlow this is right for labels that add up to 1, and labels are constants to it.
    lambda g, out, logits, labels: (
        _op["expand_dims"](g, axis=-1) * (_op["softmax"](logits, axis=-1) - _op["held"](labels))
    ),
    lambda g, out, logits, labels: -_op["expand_dims"](g, axis=-1) * _op["log_softmax"](logits, axis=-1),
)


def sigmoid_cross_entropy(labels: Any, logits: Any) -> Tensor:
    """Return max(x, 0) - x z + log(1 + exp(-|x|)), which never overflows.

    As in TensorFlow a logit of 0 counts as positive, so that its gradient is 1/2 - z.
    """
    x = as_tensor(logits)
    z = cast(labels, x.dtype)
    if x.shape != z.shape:
        raise ValueError(
            f"`logits` and `labels` must have the same shape, received ({x.shape} vs {z.shape})."
        )
    is_positive = x >= 0
    return where(is_positive, x, 0.0) - x * z + _op["log1p"](_op["exp"](where(is_positive, -x, x)))
