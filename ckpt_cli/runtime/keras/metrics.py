"""Metrics: variables that count as batches go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..dtypes import as_dtype
from ..functions import argmax, reduce_mean, reduce_sum
from ..further import in_top_k
from ..module import Module
from ..names import to_snake_case, unique_name
from ..ops.elementwise import cast
from ..shaping import reshape
from ..tensor import OPERATIONS, Tensor, as_tensor
from ..unknown import absent, accept, refuse
from ..variable import Variable
from . import initializers, losses
from .losses import of_one_rank, of_rank
from .masks import mask_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "AUC", "Accuracy", "BinaryAccuracy", "BinaryCrossentropy", "CategoricalAccuracy",
    "CategoricalCrossentropy",
    "FalseNegatives", "FalsePositives", "Mean", "MeanAbsoluteError", "MeanMetricWrapper",
    "MeanSquaredError", "Metric", "Precision", "Recall", "RootMeanSquaredError",
    "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy", "SparseTopKCategoricalAccuracy", "Sum",
    "TopKCategoricalAccuracy", "TrueNegatives", "TruePositives", "binary_accuracy", "categorical_accuracy",
    "get", "sparse_categorical_accuracy", "sparse_top_k_categorical_accuracy", "top_k_categorical_accuracy",
]  # fmt: skip

_op = OPERATIONS


class Metric(Module):
    """Variables that `update_state` changes and `result` looks at; subclasses make them with `add_weight`."""

    _counted: list[Variable]

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=to_snake_case(type(self).__name__))
        self._name = name or self._name  # Any text, unlike a module's.
        self._dtype = as_dtype(dtype or "float32").name
        object.__setattr__(self, "_counted", [])

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def variables(self) -> list[Any]:  # type: ignore[override]
        """In the order in which they were made."""
        return list(self._counted)

    weights = variables

    def add_weight(
        self, name: str, shape: Any = (), aggregation: Any = None, synchronization: Any = None,
        initializer: Any = "zeros", dtype: Any = None,
    ) -> Variable:  # fmt: skip
        first = initializers.get(initializer)(tuple(shape), dtype=dtype or self._dtype)
        variable = Variable(first, name=name, trainable=False)
        self._counted.append(variable)
        return variable

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Must be implemented in subclasses.")

    def result(self) -> Any:
        raise NotImplementedError("Must be implemented in subclasses.")

    def reset_state(self) -> None:
        for variable in self.variables:
            variable.assign(_op["zeros_like"](variable))

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self._dtype}

    def __call__(self, *arguments: Any, **options: Any) -> Tensor:
        self.update_state(*arguments, **options)
        return self.result()


class Mean(Metric):
    """A mean, kept as a total and a count."""

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name, dtype)
        self.total = self.add_weight("total")
        self.count = self.add_weight("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        number = cast(values, self._dtype)
        weights = _op["ones_like"](number)
        if sample_weight is not None:
            number, weights = _weighted(number, of_rank(cast(sample_weight, self._dtype), number))
        self.total.assign_add(reduce_sum(number * weights))
        self.count.assign_add(reduce_sum(weights))

    def result(self) -> Tensor:
        return _op["divide_no_nan"](self.total, self.count)


def _weighted(values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return values and a weight for each: weights are spread, or values averaged over axes weights lack."""
    pairs = zip(weights.shape, values.shape, strict=False)
    if not weights.ndim or (weights.ndim == values.ndim and all(one in (1, of) for one, of in pairs)):
        return values, weights * _op["ones_like"](values)
    return reduce_mean(values, list(range(weights.ndim, values.ndim))), weights


class MeanMetricWrapper(Mean):
    """The mean of a function of labels and predictions."""

    _function: Callable[..., Any]
    _options: dict[str, Any]

    def __init__(
        self, fn: Callable[..., Any], name: str | None = None, dtype: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(name, dtype)
        self._put_function(fn, kwargs)

    def _put_function(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        object.__setattr__(self, "_function", function)
        object.__setattr__(self, "_options", options)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # type: ignore[override]
        labels, predictions = cast(y_true, self._dtype), cast(y_pred, self._dtype)
        if hasattr(y_pred, "_keras_logits"):
            predictions._keras_logits = y_pred._keras_logits
        labels, predictions = of_one_rank(labels, predictions)
        found = self._function(labels, predictions, **self._options)
        mask = mask_of(found)
        if mask is not None:  # an ignored class
            mask = cast(mask, self._dtype)
            sample_weight = mask if sample_weight is None else cast(sample_weight, self._dtype) * mask
        Mean.update_state(self, found, sample_weight)

    def get_config(self) -> dict[str, Any]:
        own = {"fn": self._function.__name__} if type(self) is MeanMetricWrapper else {}
        return {**super().get_config(), **own, **self._options}


def _same(labels: Tensor, found: Tensor) -> Tensor:
    """Compare labels with predictions at the same positions, regardless of their dtypes."""
    return cast(reshape(cast(labels, found.dtype), [-1, *found.shape[1:]]) == found, "float32")


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    prediction = as_tensor(y_pred)
    hits = cast(y_true, prediction.dtype) == cast(prediction > threshold, prediction.dtype)
    return reduce_mean(cast(hits, "float32"), -1)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    return cast(argmax(y_true, -1) == argmax(y_pred, -1), "float32")


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    return _same(as_tensor(y_true), argmax(y_pred, -1))


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    found = as_tensor(y_pred)
    labels = reshape(cast(y_true, "int32"), [-1])
    hits = in_top_k(labels, reshape(found, [-1, found.shape[-1]]), k)
    return reshape(cast(hits, "float32"), found.shape[:-1])


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    return sparse_top_k_categorical_accuracy(argmax(y_true, -1), y_pred, k)


def accuracy(y_true: Any, y_pred: Any) -> Tensor:
    return _same(as_tensor(y_true), as_tensor(y_pred))


def _class(function: Callable[..., Any], class_name: str, **own: Any) -> type[MeanMetricWrapper]:
    """Return the class of a metric that is the mean of a function, with options of the function's own."""
    own_name = to_snake_case(class_name)

    def init(self: Any, name: str | None = own_name, dtype: Any = None, **options: Any) -> None:
        accept(class_name, options, " ".join(own))
        MeanMetricWrapper.__init__(self, function, name, dtype, **own | options)

    about = {"__init__": init, "__doc__": f"The mean of {function.__name__}."}
    return type(class_name, (MeanMetricWrapper,), about)


Accuracy = _class(accuracy, "Accuracy")
BinaryAccuracy = _class(binary_accuracy, "BinaryAccuracy", threshold=0.5)
CategoricalAccuracy = _class(categorical_accuracy, "CategoricalAccuracy")
SparseCategoricalAccuracy = _class(sparse_categorical_accuracy, "SparseCategoricalAccuracy")


def _of_largest(function: Callable[..., Any], class_name: str) -> type[MeanMetricWrapper]:
    base, own_name = _class(function, class_name, k=5), to_snake_case(class_name)

    def init(self: Any, k: int = 5, name: str | None = own_name, dtype: Any = None) -> None:
        base.__init__(self, name, dtype, k=k)  # type: ignore[arg-type]

    return type(class_name, (base,), {"__init__": init})


TopKCategoricalAccuracy = _of_largest(top_k_categorical_accuracy, "TopKCategoricalAccuracy")
SparseTopKCategoricalAccuracy = _of_largest(
    sparse_top_k_categorical_accuracy, "SparseTopKCategoricalAccuracy"
)
MeanSquaredError = _class(losses.mean_squared_error, "MeanSquaredError")
MeanAbsoluteError = _class(losses.mean_absolute_error, "MeanAbsoluteError")
_SMOOTHED: dict[str, Any] = {"from_logits": False, "label_smoothing": 0}
BinaryCrossentropy = _class(losses.binary_crossentropy, "BinaryCrossentropy", **_SMOOTHED)
CategoricalCrossentropy = _class(
    losses.categorical_crossentropy, "CategoricalCrossentropy", **_SMOOTHED, axis=-1
)
SparseCategoricalCrossentropy = _class(
    losses.sparse_categorical_crossentropy, "SparseCategoricalCrossentropy", from_logits=False,
    ignore_class=None, axis=-1,
)  # fmt: skip


class Sum(Metric):
    """The sum of values."""

    def __init__(self, name: str | None = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)
        self.total = self.add_weight("total")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        number = cast(values, self._dtype)
        if sample_weight is not None:
            number, weights = _weighted(number, of_rank(cast(sample_weight, self._dtype), number))
            number = number * weights
        self.total.assign_add(reduce_sum(number))

    def result(self) -> Tensor:
        return as_tensor(self.total)


class RootMeanSquaredError(Mean):
    """The root of the mean of squared errors."""

    def __init__(self, name: str | None = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # type: ignore[override]
        labels, found = of_one_rank(cast(y_true, self._dtype), cast(y_pred, self._dtype))
        super().update_state(_op["squared_difference"](found, labels), sample_weight)

    def result(self) -> Tensor:
        return _op["sqrt"](super().result())


class _Confusion(Metric):
    """Counts of predictions above thresholds that are, or are not, what labels say."""

    _counts: tuple[str, ...]

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name or unique_name(to_snake_case(type(self).__name__)), dtype)
        self.init_thresholds = thresholds
        given = [0.5] if thresholds is None else thresholds
        self.thresholds = list(given) if isinstance(given, list | tuple) else [given]
        if not all(one is not None and 0 <= one <= 1 for one in self.thresholds):
            raise ValueError(f"Threshold values must be in [0, 1]. Received: {thresholds}")
        names = self._counts if len(self._counts) > 1 else ("accumulator",)
        held = [self.add_weight(one, (len(self.thresholds),)) for one in names]
        object.__setattr__(self, "_held", dict(zip(self._counts, held, strict=True)))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, found = of_one_rank(cast(y_true, self._dtype), cast(y_pred, self._dtype))
        weights = _op["ones_like"](found)
        if sample_weight is not None:
            weights = weights * of_rank(cast(sample_weight, self._dtype), found)
        for name, variable in self._held.items():  # type: ignore[attr-defined]
            for at, threshold in enumerate(self.thresholds):
                positive, actual = found > threshold, cast(labels, "bool")
                hit = (positive if "positives" in name else ~positive) & (
                    actual if name in ("true_positives", "false_negatives") else ~actual
                )
                counted = reduce_sum(cast(hit, self._dtype) * weights)
                variable[at].assign(variable[at] + counted)

    def result(self) -> Tensor:
        held = list(self._held.values())  # type: ignore[attr-defined]
        found = as_tensor(held[0]) if len(held) == 1 else _op["divide_no_nan"](held[0], held[0] + held[1])
        return found[0] if len(self.thresholds) == 1 else found

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "thresholds": self.init_thresholds}


class _Share(_Confusion):
    def __init__(
        self, thresholds: Any = None, top_k: Any = None, class_id: Any = None, name: str | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        refuse(type(self).__name__, top_k=top_k, class_id=None if class_id is None else str(class_id))
        super().__init__(thresholds, name, dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "top_k": None, "class_id": None}


def _counting(name: str, base: type[_Confusion], *counts: str) -> type[_Confusion]:
    about = {"_counts": counts, "__doc__": f"{name}, by threshold.", "__module__": __name__}
    return type(name, (base,), about)


TruePositives = _counting("TruePositives", _Confusion, "true_positives")
FalsePositives = _counting("FalsePositives", _Confusion, "false_positives")
TrueNegatives = _counting("TrueNegatives", _Confusion, "true_negatives")
FalseNegatives = _counting("FalseNegatives", _Confusion, "false_negatives")
Precision = _counting("Precision", _Share, "true_positives", "false_positives")
Recall = _counting("Recall", _Share, "true_positives", "false_negatives")


class AUC(Metric):
    """The area under the curve of true positives by false positives, at evenly spread thresholds."""

    def __init__(
        self, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
        name: str | None = None, dtype: Any = None, thresholds: Any = None, multi_label: bool = False,
        num_labels: Any = None, label_weights: Any = None, from_logits: bool = False,
    ) -> None:  # fmt: skip
        if curve not in ("ROC", "PR"):
            raise ValueError(f'Invalid AUC curve value: "{curve}".')
        if thresholds is None and num_thresholds <= 1:
            raise ValueError(f"Argument `num_thresholds` must be an integer > 1. Received: {num_thresholds=}")
        super().__init__(name or unique_name("auc"), dtype)
        refuse(
            "AUC", curve=None if curve == "ROC" else curve, multi_label=multi_label, num_labels=num_labels,
            label_weights=label_weights,
            summation_method=None if summation_method == "interpolation" else summation_method,
        )  # fmt: skip
        count = num_thresholds - 1
        within = sorted(thresholds) if thresholds is not None else [at / count for at in range(1, count)]
        self.num_thresholds, self._from_logits = len(within) + 2, from_logits
        self._own_thresholds = thresholds is not None
        object.__setattr__(self, "_thresholds", np.array([-1e-7, *within, 1 + 1e-7]))
        for each in ("true_positives", "true_negatives", "false_positives", "false_negatives"):
            setattr(self, each, self.add_weight(each, (self.num_thresholds,)))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        found = cast(y_pred, self._dtype)
        found = _op["sigmoid"](found) if self._from_logits else found
        labels, found = of_one_rank(cast(y_true, self._dtype), found)
        weights = _op["ones_like"](found)
        if sample_weight is not None:
            weights = weights * of_rank(cast(sample_weight, self._dtype), found)
        flat, weights = reshape(found, [-1]), reshape(weights, [-1])
        actual = reshape(cast(labels, "bool"), [-1])
        limits = reshape(as_tensor(self._thresholds, flat._value.dtype), [-1, 1])  # type: ignore[attr-defined]
        above = flat > limits
        for name, hit in (
            ("true_positives", above & actual), ("true_negatives", ~above & ~actual),
            ("false_positives", above & ~actual), ("false_negatives", ~above & actual),
        ):  # fmt: skip
            getattr(self, name).assign_add(reduce_sum(cast(hit, self._dtype) * weights, 1))

    def result(self) -> Tensor:
        hit, miss, wrong, right = (
            as_tensor(getattr(self, name))
            for name in ("true_positives", "false_negatives", "false_positives", "true_negatives")
        )
        y, x = _op["divide_no_nan"](hit, hit + miss), _op["divide_no_nan"](wrong, wrong + right)
        return reduce_sum((x[:-1] - x[1:]) * (y[:-1] + y[1:]) / 2.0)

    def get_config(self) -> dict[str, Any]:
        own = {
            "num_thresholds": self.num_thresholds, "curve": "ROC", "summation_method": "interpolation",
            "multi_label": False, "num_labels": None, "label_weights": None, "from_logits": self._from_logits,
        }  # fmt: skip
        within = {"thresholds": list(self._thresholds[1:-1])} if self._own_thresholds else {}  # type: ignore[attr-defined]
        return {**super().get_config(), **own, **within}


_FUNCTIONS = {
    one.__name__: one
    for one in (
        binary_accuracy,
        categorical_accuracy,
        sparse_categorical_accuracy,
        accuracy,
        top_k_categorical_accuracy,
        sparse_top_k_categorical_accuracy,
    )
} | {name: one for name, one in losses._FUNCTIONS.items() if not name.startswith("huber")}
_CLASSES = {
    one.__name__: one
    for one in (
        AUC, Accuracy, BinaryAccuracy, SparseTopKCategoricalAccuracy, TopKCategoricalAccuracy,
        BinaryCrossentropy, CategoricalAccuracy, CategoricalCrossentropy, Mean,
        MeanAbsoluteError, MeanSquaredError, SparseCategoricalAccuracy, SparseCategoricalCrossentropy, Sum,
        RootMeanSquaredError, TruePositives, FalsePositives, TrueNegatives, FalseNegatives, Precision, Recall,
    )
}  # fmt: skip


def get(identifier: Any) -> Any:
    """Return the function or metric that a name, a configuration or one of these itself stands for."""
    if isinstance(identifier, dict) and identifier.get("class_name") in _CLASSES:
        return _CLASSES[identifier["class_name"]](**identifier.get("config", {}))
    if isinstance(identifier, str) and identifier in _CLASSES:
        return _CLASSES[identifier]()
    if isinstance(identifier, str) and identifier in _FUNCTIONS:
        return _FUNCTIONS[identifier]
    if callable(identifier):
        return identifier
    raise NotImplementedError(f"metric {identifier!r} is not supported")


def as_metric(identifier: Any, labels: Any, predictions: Any) -> Metric:
    """Return a metric as `compile` makes one; "accuracy" and "crossentropy" follow the shapes."""
    about, found = str(identifier).lower(), identifier
    if about in ("accuracy", "acc", "crossentropy", "ce"):
        kind = "accuracy" if about.startswith("acc") else "crossentropy"
        found = f"{_kind(as_tensor(labels), as_tensor(predictions))}_{kind}"
    found = get(found)
    if isinstance(found, Metric):
        return found
    name = identifier if isinstance(identifier, str) else getattr(identifier, "__name__", None)
    return MeanMetricWrapper(found, name or identifier.name)


def _kind(labels: Tensor, predictions: Tensor) -> str:
    """Return what kind of classes Keras takes there to be, by the last axes."""
    if predictions.shape[-1] == 1:
        return "binary"
    is_sparse = labels.ndim < predictions.ndim or labels.shape[-1] == 1
    return "sparse_categorical" if is_sparse else "categorical"


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
