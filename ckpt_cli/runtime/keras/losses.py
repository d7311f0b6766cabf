"""Losses by name and class; each is a mean over the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..functions import clip_by_value, reduce_mean, reduce_sum
from ..names import to_snake_case
from ..ops.elementwise import cast
from ..ops.neural import sigmoid_cross_entropy
from ..tensor import OPERATIONS, Tensor, TensorLike, as_tensor
from ..unknown import refuse
from .masks import all_of, mask_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BinaryCrossentropy", "CategoricalCrossentropy", "Huber", "Loss", "MeanAbsoluteError",
    "MeanSquaredError", "Reduction", "SparseCategoricalCrossentropy", "get", "mean_absolute_error",
    "mean_squared_error",
]  # fmt: skip

_op = OPERATIONS
_EPSILON = 1e-7


def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    prediction = as_tensor(y_pred)
    return reduce_mean(_op["squared_difference"](prediction, cast(y_true, prediction.dtype)), -1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    prediction = as_tensor(y_pred)
    return reduce_mean(abs(prediction - cast(y_true, prediction.dtype)), -1)


def binary_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    refuse("binary_crossentropy", axis=None if axis == -1 else f"{axis}")
    prediction = as_tensor(y_pred)
    label = cast(y_true, prediction.dtype)
    if label_smoothing:
        label = label * (1 - label_smoothing) + 0.5 * label_smoothing
    if from_logits:
        return reduce_mean(sigmoid_cross_entropy(label, prediction), -1)
    p = clip_by_value(prediction, _EPSILON, 1 - _EPSILON)
    return reduce_mean(-(label * _op["log"](p + _EPSILON) + (1 - label) * _op["log"](1 - p + _EPSILON)), -1)


def categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    refuse("categorical_crossentropy", axis=None if axis == -1 else f"{axis}")
    prediction = as_tensor(y_pred)
    label = cast(y_true, prediction.dtype)
    if label_smoothing:
        label = label * (1 - label_smoothing) + label_smoothing / label.shape[-1]
    if from_logits:
        return -reduce_sum(label * _op["log_softmax"](prediction, axis=-1), -1)
    share = prediction / reduce_sum(prediction, -1, True)
    return -reduce_sum(label * _op["log"](clip_by_value(share, _EPSILON, 1 - _EPSILON)), -1)


def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1, ignore_class: int | None = None
) -> Tensor:
    refuse("sparse_categorical_crossentropy", axis=None if axis == -1 else f"{axis}")
    if ignore_class is not None:
        raise NotImplementedError(f"ignore_class={ignore_class} is not known here")
    prediction = as_tensor(y_pred)
    label = as_tensor(y_true)
    if label.ndim == prediction.ndim:
        label = _op["squeeze"](label, axis=-1)
    label = cast(label, "int64")
    if not from_logits:
        prediction = _op["log"](clip_by_value(prediction, _EPSILON, 1 - _EPSILON))
    return _op["sparse_cross_entropy"](prediction, label)


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Tensor:
    prediction = as_tensor(y_pred)
    error = abs(prediction - cast(y_true, prediction.dtype))
    small = _op["minimum"](error, delta)
    return reduce_mean(0.5 * small * small + delta * (error - small), -1)


def _of_one_rank(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Return tensors of which one has a last axis of one more, without it; losses would broadcast them.

    keras/utils/losses_utils.py, squeeze_or_expand_dimensions
    """
    if isinstance(labels, TensorLike) and isinstance(predictions, TensorLike):
        if predictions.ndim == labels.ndim + 1 and predictions.shape[-1] == 1:
            return labels, _op["squeeze"](predictions, axis=-1)
        if labels.ndim == predictions.ndim + 1 and labels.shape[-1] == 1:
            return _op["squeeze"](labels, axis=-1), predictions
    return labels, predictions


def of_rank(weights: Any, values: Any) -> Any:
    """Return weights with a last axis of one more or less, where that gives them the rank of values.

    keras/src/utils/losses_utils.py, squeeze_or_expand_dimensions
    """
    if weights.ndim and weights.ndim - values.ndim == 1:
        return _op["squeeze"](weights, axis=-1)
    return (
        _op["expand_dims"](weights, axis=-1) if weights.ndim and values.ndim - weights.ndim == 1 else weights
    )


def _weights(losses: Tensor, given: Any, mask: Any, *, is_mean: bool) -> Any:
    """Return what losses are weighted by: weights that were given, and where they have a mask, only there.

    A mean is over the places that count.  keras/src/utils/losses_utils.py, apply_valid_mask
    """
    if given is not None:
        given = cast(as_tensor(given), losses.dtype)
    if mask is None:
        return given
    mask = cast(mask, losses.dtype)
    if is_mean:
        mask = mask * (float(mask._value.size) / reduce_sum(mask))
    return mask if given is None else of_rank(given, mask) * mask


class Reduction:
    """How the losses of a batch become one."""

    AUTO, NONE, SUM, SUM_OVER_BATCH_SIZE = "auto", "none", "sum", "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        return cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE


class Loss:
    """A function of labels and predictions, averaged over the batch, or summed, or neither.

    What a mask of the predictions leaves out does not count.
    """

    def __init__(
        self, function: Callable[..., Any], reduction: str = "auto", name: str | None = None, **options: Any
    ) -> None:
        if reduction not in Reduction.all():
            raise ValueError(f'Invalid Reduction Key: {reduction}. Expected keys are "{Reduction.all()}"')
        self.function, self.reduction, self.name, self._options = function, reduction, name, options

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        losses = self.function(*_of_one_rank(y_true, y_pred), **self._options)
        masks = all_of((mask_of(y_pred), mask_of(losses)))
        is_mean = self.reduction in (Reduction.AUTO, Reduction.SUM_OVER_BATCH_SIZE)
        weights = _weights(losses, sample_weight, masks, is_mean=is_mean)
        if weights is not None:
            losses = losses * of_rank(weights, losses)
        if self.reduction == "none":
            return losses
        return reduce_sum(losses) if self.reduction == "sum" else reduce_mean(losses)


def _class(function: Callable[..., Any], name: str, *own: str) -> type[Loss]:
    """Return the class of a loss, whose arguments are options of the function's own, reduction and name."""
    places = (*own, "reduction", "name")

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        given = dict(zip(places, arguments, strict=False)) | options
        if len(arguments) > len(places) or not given.keys() <= set(places):
            raise TypeError(f"{type(self).__name__} takes {places}, not {arguments} and {sorted(options)}")
        Loss.__init__(self, function, **given)

    return type(
        name, (Loss,), {"__init__": init, "__doc__": f"{function.__name__}, averaged over the batch."}
    )


MeanSquaredError = _class(mean_squared_error, "MeanSquaredError")
MeanAbsoluteError = _class(mean_absolute_error, "MeanAbsoluteError")
_SMOOTHED = ("from_logits", "label_smoothing", "axis")
BinaryCrossentropy = _class(binary_crossentropy, "BinaryCrossentropy", *_SMOOTHED)
CategoricalCrossentropy = _class(categorical_crossentropy, "CategoricalCrossentropy", *_SMOOTHED)
SparseCategoricalCrossentropy = _class(
    sparse_categorical_crossentropy, "SparseCategoricalCrossentropy", "from_logits", "ignore_class"
)
Huber = _class(huber, "Huber", "delta")

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        mean_squared_error, mean_absolute_error, binary_crossentropy, categorical_crossentropy,
        sparse_categorical_crossentropy, huber,
    )
} | {"mse": mean_squared_error, "mae": mean_absolute_error}  # fmt: skip


def get(identifier: Any) -> Callable[..., Any]:
    """Return the loss, as a scalar, that a name, class, function or loss stands for."""
    if isinstance(identifier, Loss):
        return identifier
    if isinstance(identifier, type):
        return identifier()
    if isinstance(identifier, str):
        name = identifier if identifier in _FUNCTIONS else to_snake_case(identifier)
        if name not in _FUNCTIONS:
            raise ValueError(f"Unknown loss function: '{identifier}'.")
        return Loss(_FUNCTIONS[name], name=name)
    return Loss(identifier)
