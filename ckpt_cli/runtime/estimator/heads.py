"""Heads: what becomes of logits - predictions, loss and metrics.

Labels are class ids, [batch] or [batch, 1], or words of the label vocabulary.  With two
classes there is one logit, and `logistic` is the probability of class 1.
tensorflow_estimator/python/estimator/head/multi_class_head.py, binary_class_head.py, regression_head.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..columns import NumericColumn, numbers
from ..compat.v1 import metrics
from ..errors import InvalidArgumentError
from ..feature_column import numeric_column
from ..functions import argmax, concat, reduce_mean, reduce_sum, reshape
from ..nn import softmax
from ..ops.elementwise import cast
from ..ops.neural import sigmoid_cross_entropy
from ..tensor import OPERATIONS, Tensor, as_tensor, define

__all__ = ["ClassifierHead", "RegressorHead"]

_op = OPERATIONS


def _class_labels(labels: Any, count: int, vocabulary: dict[bytes, int] | None) -> Any:
    """Return class ids; InvalidArgumentError for one that there is no class for."""
    if vocabulary is not None:
        ids = np.array([vocabulary.get(word, -1) for word in labels.reshape(-1)], np.int64)
    else:
        ids = labels.reshape(-1).astype(np.int64)
    is_other = np.False_ if vocabulary is not None else ids != labels.reshape(-1)
    wrong = np.flatnonzero((ids < 0) | (ids >= count) | is_other)
    if len(wrong):
        raise InvalidArgumentError(
            f"Labels must be >= 0 and <= n_classes - 1 = {count - 1}, or words of label_vocabulary; found "
            f"{labels.reshape(-1).tolist()[wrong[0]]!r} at place {wrong[0]} of the batch"
        )
    return ids


define("class_labels", _class_labels, None)
define("class_names", lambda ids, names: names[ids], None)
define("for_each", lambda like, values: np.repeat(values[None], len(like), axis=0), None)


class _Head:
    """Weights and the loss of a batch."""

    _weights_of = 1  # logits of an example

    def __init__(self, options: dict[str, Any]) -> None:
        weight_column, loss_reduction = options["weight_column"], options["loss_reduction"]
        if loss_reduction not in _REDUCTIONS:
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}; known are {sorted(_REDUCTIONS)}")
        self._reduction = _REDUCTIONS[loss_reduction]
        self._weight_column = (
            numeric_column(weight_column) if isinstance(weight_column, str) else weight_column
        )
        if self._weight_column is not None and not isinstance(self._weight_column, NumericColumn):
            raise TypeError(f"Weight column must be either a string or NumericColumn. Given: {weight_column}")

    def weights(self, features: Any) -> Tensor | None:
        """Return the weights of each example, [batch, n]; None if all weights are equal."""
        if self._weight_column is None:
            return None
        found = numbers(features, self._weight_column)
        if found.ndim != 2 or found.shape[1] not in (1, self._weights_of):
            raise InvalidArgumentError(
                f"weights must have 1 or {self._weights_of} columns, their shape is {found.shape}"
            )
        return found

    def loss(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        """Return the loss of a batch."""
        weighted = losses if weights is None else losses * weights
        return reduce_sum(weighted) if self._reduction == "sum" else reduce_mean(weighted)


def _of_dimension(labels: Any, dimension: int) -> Tensor:
    """Return labels, [batch, dimension]."""
    if labels is None:
        raise ValueError("You must provide a labels Tensor. Given: None.")
    found = as_tensor(labels)
    if found.ndim == dimension == 1:
        found = _op["expand_dims"](found, axis=-1)
    if found.ndim != 2 or found.shape[1] != dimension:
        raise ValueError(
            f"Mismatched label shape. Expected labels dimension={dimension}. Received {found.shape}."
        )
    return found


class RegressorHead(_Head):
    """Predictions, loss and metrics of `label_dimension` numbers."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self.logits_dimension = self._weights_of = options["label_dimension"]
        if self.logits_dimension < 1:
            raise ValueError(f"Invalid label_dimension {self.logits_dimension}.")

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {"predictions": logits}

    def labels(self, labels: Any) -> Tensor:
        return cast(_of_dimension(labels, self.logits_dimension), "float32")

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        return _op["square"](labels - logits)

    def metrics(
        self, predictions: dict[str, Tensor], labels: Tensor, losses: Tensor, weights: Tensor | None
    ) -> dict[str, Any]:
        told = {"average_loss": losses, "prediction/mean": predictions["predictions"], "label/mean": labels}
        return {name: metrics.mean(value, weights, name=name) for name, value in told.items()}


class ClassifierHead(_Head):
    """Predictions, loss and metrics of `n_classes` classes."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        n_classes, label_vocabulary = options["n_classes"], options["label_vocabulary"]
        if n_classes < 2:
            raise ValueError(f"n_classes must be >= 2: {n_classes}")
        if label_vocabulary is not None and len(label_vocabulary) != n_classes:
            raise ValueError(
                f'"label_vocabulary" does not have "n_classes" items. n_classes={n_classes}, '
                f"label_vocabulary={label_vocabulary}"
            )
        self.n_classes, self.logits_dimension = n_classes, 1 if n_classes == 2 else n_classes
        words = [word.encode() for word in label_vocabulary] if label_vocabulary is not None else None
        self._vocabulary = None if words is None else {word: index for index, word in enumerate(words)}
        self._names = np.array(words or [str(index).encode() for index in range(n_classes)], object)

    def predictions(self, logits: Tensor) -> dict[str, Tensor]:
        """Return everything `predict` yields."""
        found = {"logits": logits}
        if self.n_classes == 2:
            found["logistic"] = _op["sigmoid"](logits)
            two = concat([_op["zeros_like"](logits), logits], -1)
        else:
            two = logits
        found["probabilities"] = softmax(two)
        ids = _op["expand_dims"](argmax(two, -1), axis=-1)
        found["class_ids"] = ids
        found["classes"] = _op["class_names"](ids, names=self._names)
        found["all_class_ids"] = _op["for_each"](logits, values=np.arange(self.n_classes, dtype=np.int32))
        found["all_classes"] = _op["for_each"](logits, values=self._names)
        return found

    def labels(self, labels: Any) -> Tensor:
        """Return class ids, [batch]."""
        found = _of_dimension(labels, 1)
        if found._value.dtype.hasobject != (self._vocabulary is not None):
            raise ValueError(
                "Labels dtype should be integer, or string where there is a label_vocabulary. Instead got "
                f"{found.dtype.name}."
            )
        return _op["class_labels"](found, count=self.n_classes, vocabulary=self._vocabulary)

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each example."""
        if self.n_classes == 2:
            return sigmoid_cross_entropy(cast(labels, "float32"), reshape(logits, [-1]))
        return _op["sparse_cross_entropy"](logits, labels)

    def weights(self, features: Any) -> Tensor | None:
        found = super().weights(features)
        return None if found is None else reshape(found, [-1])

    def metrics(
        self, predictions: dict[str, Tensor], labels: Tensor, losses: Tensor, weights: Tensor | None
    ) -> dict[str, Any]:
        """Return the metrics of `evaluate` other than the loss."""
        ids = reshape(predictions["class_ids"], [-1])
        found = {
            "accuracy": metrics.accuracy(labels, ids, weights),
            "average_loss": metrics.mean(losses, weights, name="average_loss"),
        }
        if self.n_classes > 2:
            return found
        positive = reshape(predictions["logistic"], [-1])
        share, counted = metrics.mean(labels, weights, name="label/mean")
        return {
            **found,
            "precision": metrics.precision(labels, ids, weights),
            "recall": metrics.recall(labels, ids, weights),
            "prediction/mean": metrics.mean(positive, weights, name="prediction/mean"),
            "label/mean": (share, counted),
            "accuracy_baseline": (_op["maximum"](share, 1 - share), counted),
            "auc": metrics.auc(labels, positive, weights),
            "auc_precision_recall": metrics.auc(
                labels, positive, weights, curve="PR", summation_method="careful_interpolation"
            ),
        }


_REDUCTIONS = {
    "auto": "mean",
    "sum": "sum",
    "sum_over_batch_size": "mean",
    "weighted_sum": "sum",
    "weighted_sum_over_batch_size": "mean",
}
"""The reductions of TensorFlow 2 and 1, by their names."""
