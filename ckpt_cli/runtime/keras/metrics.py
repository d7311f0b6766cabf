"""Metrics: variables that count as batches go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..module import Module
from ..tensor import Tensor, as_tensor
from ..variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Accuracy",
    "BinaryAccuracy",
    "CategoricalAccuracy",
    "Mean",
    "Metric",
    "SparseCategoricalAccuracy",
    "get",
]


class Metric(Module):
    """A mean of something, kept as a total and a count."""

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        del dtype
        super().__init__(name=name)
        self.total = Variable(0.0, name="total", trainable=False)
        self.count = Variable(0.0, name="count", trainable=False)

    def _observe(self, values: Any, sample_weight: Any = None) -> None:
        values = np.asarray(values, np.float32)
        weights = (
            np.ones_like(values)
            if sample_weight is None
            else np.broadcast_to(as_tensor(sample_weight)._value, values.shape)
        )
        self.total.assign_add(np.float32((values * weights).sum()))
        self.count.assign_add(np.float32(weights.sum()))

    def update_state(self, *arguments: Any, **options: Any) -> None:
        raise NotImplementedError

    def result(self) -> Tensor:
        count = float(self.count)
        return as_tensor(float(self.total) / count if count else 0.0)

    def reset_state(self) -> None:
        self.total.assign(0.0)
        self.count.assign(0.0)

    def __call__(self, *arguments: Any, **options: Any) -> Tensor:
        self.update_state(*arguments, **options)
        return self.result()


class Mean(Metric):
    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        self._observe(as_tensor(values)._value, sample_weight)


class _Matches(Metric):
    """A share of predictions that are right."""

    _is_right: Callable[..., Any]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self._observe(type(self)._is_right(as_tensor(y_true)._value, as_tensor(y_pred)._value), sample_weight)


class Accuracy(_Matches):
    _is_right = staticmethod(lambda labels, found: labels == found)


class BinaryAccuracy(_Matches):
    _is_right = staticmethod(lambda labels, found: labels == (found > 0.5))


class CategoricalAccuracy(_Matches):
    _is_right = staticmethod(lambda labels, found: labels.argmax(-1) == found.argmax(-1))


class SparseCategoricalAccuracy(_Matches):
    _is_right = staticmethod(lambda labels, found: labels.reshape(found.shape[:-1]) == found.argmax(-1))


_BY_NAME: dict[str, type[Metric]] = {
    "accuracy": SparseCategoricalAccuracy,
    "acc": SparseCategoricalAccuracy,
    "binary_accuracy": BinaryAccuracy,
    "categorical_accuracy": CategoricalAccuracy,
    "sparse_categorical_accuracy": SparseCategoricalAccuracy,
}


def get(identifier: Any) -> Metric:
    """Return a metric of its own for a name, or the metric itself."""
    return _BY_NAME[identifier]() if isinstance(identifier, str) else identifier
