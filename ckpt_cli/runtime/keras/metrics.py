"""Metrics: variables that count as batches go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..functions import argmax, reduce_mean, reduce_sum
from ..module import Module
from ..ops.elementwise import cast
from ..shaping import reshape
from ..tensor import OPERATIONS, Tensor, as_tensor
from ..variable import Variable
from .losses import of_rank

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

_op = OPERATIONS


class Metric(Module):
    """A mean of something, kept as a total and a count."""

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name)
        self.total = Variable(0.0, name="total", trainable=False)
        self.count = Variable(0.0, name="count", trainable=False)

    @property
    def variables(self) -> list[Any]:  # type: ignore[override]
        """In the order in which they were made."""
        return [self.total, self.count]

    weights = variables

    def _observe(self, values: Any, sample_weight: Any = None) -> None:
        number = cast(values, "float32")
        weights = _op["ones_like"](number)
        if sample_weight is not None:
            number, weights = _weighted(number, of_rank(cast(sample_weight, "float32"), number))
        self.total.assign_add(reduce_sum(number * weights))
        self.count.assign_add(reduce_sum(weights))

    def update_state(self, *arguments: Any, **options: Any) -> None:
        raise NotImplementedError

    def result(self) -> Tensor:
        return _op["divide_no_nan"](self.total, self.count)

    def reset_state(self) -> None:
        self.total.assign(0.0)
        self.count.assign(0.0)

    def __call__(self, *arguments: Any, **options: Any) -> Tensor:
        self.update_state(*arguments, **options)
        return self.result()


def _weighted(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return values and a weight for each: weights are spread, or values averaged over axes weights lack."""
    pairs = zip(weights.shape, values.shape, strict=False)
    if not weights.ndim or (weights.ndim == values.ndim and all(one in (1, of) for one, of in pairs)):
        return values, weights * _op["ones_like"](values)
    return reduce_mean(values, list(range(weights.ndim, values.ndim))), weights


class Mean(Metric):
    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        self._observe(values, sample_weight)


class _Matches(Metric):
    """A share of predictions that are right."""

    _is_right: Callable[[Tensor, Tensor], Tensor]

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self._observe(self._is_right(as_tensor(y_true), as_tensor(y_pred)), sample_weight)


def _same(labels: Tensor, found: Tensor) -> Tensor:
    """Compare labels with predictions of the same places, whatever their dtypes."""
    return reshape(cast(labels, found.dtype), [-1, *found.shape[1:]]) == found


class Accuracy(_Matches):
    _is_right = staticmethod(_same)


class BinaryAccuracy(_Matches):
    def __init__(self, name: str | None = None, dtype: Any = None, threshold: float = 0.5) -> None:
        super().__init__(name, dtype)
        self._is_right = lambda labels, found: _same(labels, cast(found > threshold, found.dtype))


class CategoricalAccuracy(_Matches):
    _is_right = staticmethod(lambda labels, found: argmax(labels, -1) == argmax(found, -1))


class SparseCategoricalAccuracy(_Matches):
    _is_right = staticmethod(lambda labels, found: _same(labels, argmax(found, -1)))


_BY_NAME: dict[str, type[Metric]] = {
    "accuracy": SparseCategoricalAccuracy,
    "acc": SparseCategoricalAccuracy,
    "binary_accuracy": BinaryAccuracy,
    "categorical_accuracy": CategoricalAccuracy,
    "sparse_categorical_accuracy": SparseCategoricalAccuracy,
}


def get(identifier: Any, labels: Any = None, predictions: Any = None) -> Metric:
    """Return a metric of its own for a name, or the metric itself; "accuracy" is one for what it compares."""
    if not isinstance(identifier, str):
        if not isinstance(identifier, Metric):
            raise NotImplementedError(f"metric {identifier!r} is not supported")
        return identifier
    if identifier in ("accuracy", "acc") and predictions is not None:
        return _accuracy(as_tensor(labels), as_tensor(predictions))()
    if identifier not in _BY_NAME:
        raise NotImplementedError(f"metric {identifier!r} is not supported")
    return _BY_NAME[identifier]()


def _accuracy(labels: Tensor, predictions: Tensor) -> type[Metric]:
    """Return which accuracy Keras takes, by the last axes."""
    if predictions.shape[-1] == 1:
        return BinaryAccuracy
    is_sparse = labels.ndim < predictions.ndim or labels.shape[-1] == 1
    return SparseCategoricalAccuracy if is_sparse else CategoricalAccuracy
