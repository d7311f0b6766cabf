"""tf.compat.v1.losses: each is a mean over what weighs something, and is collected."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ... import nn
from ...functions import reduce_sum, stack
from ...ops.elementwise import cast
from ...ops.neural import sigmoid_cross_entropy as _sigmoid_cross_entropy
from ...signatures import with_signature
from ...tensor import OPERATIONS, Tensor, as_tensor
from ...unknown import absent
from . import GraphKeys, add_to_collection, get_collection

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "absolute_difference", "add_loss", "get_losses", "get_regularization_losses", "get_total_loss",
    "mean_squared_error",
    "sigmoid_cross_entropy", "softmax_cross_entropy", "sparse_softmax_cross_entropy",
]  # fmt: skip

_op = OPERATIONS
_COLLECTION = "losses"
_REDUCTION = "weighted_sum_by_nonzero_weights"


def _collected(losses: Tensor, weights: Any, collection: str | None, reduction: str) -> Tensor:
    """Return the losses, each times its weight, as one, and add them to a collection."""
    weight = _op["ones_like"](losses) * cast(weights, losses.dtype)
    loss = losses * weight
    if reduction != "none":
        loss = reduce_sum(loss)
    divisors: dict[str, Any] = {
        "weighted_mean": lambda: reduce_sum(weight),
        "weighted_sum_over_batch_size": lambda: _op["size"](losses, dtype=losses._value.dtype),
        _REDUCTION: lambda: reduce_sum(cast(_op["not_equal"](weight, 0), losses.dtype)),
    }
    if reduction in divisors:
        # if all weights are zero, the loss is zero, and not 0/0
        loss = _op["divide_no_nan"](loss, divisors[reduction]())
    elif reduction not in ("none", "weighted_sum"):
        raise ValueError(f"Invalid Reduction Key {reduction}.")
    if collection is not None:
        add_to_collection(collection, loss)
    return loss


def _loss(own: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Make of a function that returns a loss of each example one that returns, and collects, their mean."""

    def with_common(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        @functools.wraps(function)
        def called(
            weights: Any = 1.0, scope: str | None = None, loss_collection: str | None = _COLLECTION,
            reduction: str = _REDUCTION, **given: Any,
        ) -> Tensor:  # fmt: skip
            return _collected(function(**given), weights, loss_collection, reduction)

        return with_signature(called, f"{own} scope loss_collection reduction")

    return with_common


@_loss("labels logits weights")
def sparse_softmax_cross_entropy(labels: Any, logits: Any) -> Tensor:
    """Return the loss of class ids."""
    ids = as_tensor(labels)
    if ids.ndim == as_tensor(logits).ndim:
        ids = _op["squeeze"](ids, axis=(-1,))
    return nn.sparse_softmax_cross_entropy_with_logits(ids, logits)


@_loss("onehot_labels logits weights label_smoothing")
def softmax_cross_entropy(onehot_labels: Any, logits: Any, label_smoothing: float = 0) -> Tensor:
    """Return the loss of probabilities."""
    x = as_tensor(logits)
    labels = cast(onehot_labels, x.dtype) * (1.0 - label_smoothing) + label_smoothing / x.shape[-1]
    return nn.softmax_cross_entropy_with_logits(labels, x)


@_loss("multi_class_labels logits weights label_smoothing")
def sigmoid_cross_entropy(multi_class_labels: Any, logits: Any, label_smoothing: float = 0) -> Tensor:
    """Return the loss of labels that are each true or not."""
    x = as_tensor(logits)
    labels = cast(multi_class_labels, x.dtype) * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return _sigmoid_cross_entropy(labels, x)


@_loss("labels predictions weights")
def mean_squared_error(labels: Any, predictions: Any) -> Tensor:
    x = as_tensor(predictions)
    return _op["squared_difference"](x, cast(labels, x.dtype))


@_loss("labels predictions weights")
def absolute_difference(labels: Any, predictions: Any) -> Tensor:
    x = as_tensor(predictions)
    return abs(x - cast(labels, x.dtype))


def add_loss(loss: Any, loss_collection: str | None = _COLLECTION) -> None:
    if loss_collection is not None:
        add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = _COLLECTION) -> list[Any]:
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """Return the sum of the losses that were collected, and of those of regularization."""
    extra = get_regularization_losses(scope) if add_regularization_losses else []
    losses = [*get_losses(scope), *extra]
    if not losses:
        raise ValueError("Inputs must be an iterable of at least one Tensor with the same dtype and shape.")
    return reduce_sum(stack(losses))


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
