"""tf.compat.v1.metrics: each returns its value and the operation that counts a batch in.

Counts are kept in local variables: they begin at zero with each evaluation and are not saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import graphs
from ...deferred import Graph
from ...functions import reduce_sum
from ...names import name_scope
from ...ops.elementwise import cast
from ...signatures import with_signature
from ...tensor import OPERATIONS, Tensor, as_tensor, define
from ...unknown import absent, refuse
from ...variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["accuracy", "auc", "mean", "precision", "recall"]

_op = OPERATIONS
_THRESHOLDS = 200
_EPSILON = 1e-6  # metrics_impl.auc adds it to both sides of a division.
Metric = tuple[Tensor, Tensor]


def _ratio(above: Any, below: Any) -> Any:
    return np.where(below != 0, above / np.where(below != 0, below, 1), 0).astype(np.float32)


define("ratio_or_zero", _ratio, None, None)


def _counter(scope: str, name: str, shape: tuple[int, ...] = ()) -> Variable:
    with name_scope(scope):
        counter = Variable(np.zeros(shape, np.float32), trainable=False, name=name)
    graph = graphs.current()
    if isinstance(graph, Graph):
        raise NotImplementedError(f"metrics.{scope} is not supported in a graph of a Session")
    if graph is not None:
        graph.make_local([counter])
    return counter


def _weights(like: Tensor, weights: Any) -> Tensor:
    ones = _op["ones_like"](like)
    return ones if weights is None else ones * cast(weights, "float32")


def _share(scope: str, counted: Tensor, total: Tensor) -> Metric:
    """Return the share of what is counted, over all batches."""
    above, below = _counter(scope, "total"), _counter(scope, "count")
    above.assign_add(reduce_sum(counted))
    below.assign_add(reduce_sum(total))
    value = _op["ratio_or_zero"](above, below)
    return value, value


def _metric(own: str) -> Callable[[Callable[..., Metric]], Callable[..., Metric]]:
    """Give a metric the arguments that all have behind its own: weights, collections, which there are not
    here, and a name, which is the metric's unless it is given.
    """

    def with_common(function: Callable[..., Metric]) -> Callable[..., Metric]:
        return with_signature(function, f"{own} weights !metrics_collections !updates_collections name")

    return with_common


@_metric("values")
def mean(values: Any, weights: Any = None, name: str | None = None) -> Metric:
    number = cast(values, "float32")
    weight = _weights(number, weights)
    return _share(name or "mean", number * weight, weight)


@_metric("labels predictions")
def accuracy(labels: Any, predictions: Any, weights: Any = None, name: str | None = None) -> Metric:
    """Return the share of predictions that are the labels."""
    prediction = as_tensor(predictions)
    label = cast(labels, prediction.dtype)
    if label.shape != prediction.shape:
        label = _op["reshape"](label, shape=(-1, *prediction.shape[1:]))
    return mean(cast(_op["equal"](label, prediction), "float32"), weights, name=name or "accuracy")


def _among(chosen: Any, labels: Any, predictions: Any, weights: Any, name: str) -> Metric:
    """Return the share of positives that are both, among those that `chosen` marks."""
    both = cast(labels, "float32") * cast(predictions, "float32")
    weight = _weights(both, weights)
    return _share(name, both * weight, cast(chosen, "float32") * weight)


@_metric("labels predictions")
def precision(labels: Any, predictions: Any, weights: Any = None, name: str | None = None) -> Metric:
    """Return the share of predicted positives that are positive; labels and predictions are 0 or 1."""
    return _among(predictions, labels, predictions, weights, name or "precision")


@_metric("labels predictions")
def recall(labels: Any, predictions: Any, weights: Any = None, name: str | None = None) -> Metric:
    """Return the share of positives that were predicted so; labels and predictions are 0 or 1."""
    return _among(labels, labels, predictions, weights, name or "recall")


def _confusion(labels: Any, predictions: Any, weights: Any) -> Any:
    """Return true and false positives, true and false negatives, by threshold: [4, thresholds]."""
    inner = [(index + 1) / (_THRESHOLDS - 1) for index in range(_THRESHOLDS - 2)]
    thresholds = np.array([-1e-7, *inner, 1 + 1e-7], np.float32)
    is_above = predictions.reshape(1, -1) > thresholds[:, None]
    is_positive, weight = labels.reshape(1, -1).astype(bool), weights.reshape(1, -1)
    pairs = (
        (is_above, is_positive),
        (is_above, ~is_positive),
        (~is_above, ~is_positive),
        (~is_above, is_positive),
    )
    return np.stack([((one & two) * weight).sum(axis=1) for one, two in pairs]).astype(np.float32)


def _area(counts: Any, curve: str) -> Any:
    """Return the area under a curve: by trapezoids, of precision and recall by Davis' interpolation."""
    tp, fp, tn, fn = counts
    if curve == "ROC":
        x, y = fp / (fp + tn + _EPSILON), (tp + _EPSILON) / (tp + fn + _EPSILON)
        return np.float32(((x[:-1] - x[1:]) * (y[:-1] + y[1:]) / 2).sum())
    gained, positive = tp[:-1] - tp[1:], tp + fp
    slope = _ratio(gained, np.maximum(positive[:-1] - positive[1:], 0))
    intercept = tp[1:] - slope * positive[1:]
    is_safe = (positive[:-1] > 0) & (positive[1:] > 0)
    step = np.where(is_safe, _ratio(positive[:-1], np.maximum(positive[1:], 0)), 1)
    return np.float32(_ratio(slope * (gained + intercept * np.log(step)), tp[1:] + fn[1:]).sum())


define("confusion", _confusion, None, None, None)
define("area_under_curve", _area, None)


def auc(
    labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = _THRESHOLDS,
    metrics_collections: Any = None, updates_collections: Any = None, curve: str = "ROC",
    name: str | None = None, summation_method: str = "trapezoidal", thresholds: Any = None,
) -> Metric:  # fmt: skip
    """Return the area under the ROC or PR curve, over 200 thresholds."""
    refuse(
        "auc", metrics_collections=metrics_collections, updates_collections=updates_collections,
        thresholds=thresholds,
    )  # fmt: skip
    if num_thresholds != _THRESHOLDS:
        raise NotImplementedError(f"auc: num_thresholds={num_thresholds} is not supported")
    if curve not in ("ROC", "PR"):
        raise ValueError(f"Curve must be either ROC or PR. Curve {curve} is unknown.")
    wanted = "trapezoidal" if curve == "ROC" else "careful_interpolation"
    if summation_method != wanted:
        raise NotImplementedError(f"auc: summation_method={summation_method!r} is not supported")
    prediction = cast(predictions, "float32")
    counts = _counter(name or "auc", "counts", (4, _THRESHOLDS))
    counts.assign_add(_op["confusion"](labels, prediction, _weights(prediction, weights)))
    value = _op["area_under_curve"](counts, curve=curve)
    return value, value


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
