"""Losses over logits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import OPERATIONS, Tensor, as_tensor, define
from .elementwise import cast, where

__all__ = ["sigmoid_cross_entropy"]

_op = OPERATIONS


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


define("sparse_cross_entropy", _picked, _picked_rule, None)


define(
    "cross_entropy",
    lambda logits, labels: -(labels * _log_softmax(logits)).sum(axis=-1),
    # As in TensorFlow this holds for labels that add up to 1, which is what labels are.
    lambda g, out, logits, labels: (
        _op["expand_dims"](g, axis=-1) * (_op["softmax"](logits, axis=-1) - labels)
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
