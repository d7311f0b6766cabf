"""Losses: functions that return the loss of each example, and classes that average over the batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..functions import clip_by_value, reduce_all, reduce_mean, reduce_sum
from ..further import l2_normalize
from ..names import to_snake_case
from ..ops.elementwise import cast, where
from ..ops.neural import KERAS, sigmoid_cross_entropy, softmax_cross_entropy, with_last_axis
from ..tensor import OPERATIONS, Tensor, TensorLike, as_tensor
from ..unknown import absent
from .masks import all_of, hang_mask, mask_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "MAE", "MSE", "BinaryCrossentropy", "CategoricalCrossentropy", "CosineSimilarity", "Hinge", "Huber",
    "KLDivergence", "LogCosh", "Loss", "MeanAbsoluteError", "MeanAbsolutePercentageError",
    "MeanSquaredError", "MeanSquaredLogarithmicError", "Poisson", "Reduction",
    "SparseCategoricalCrossentropy", "binary_crossentropy", "categorical_crossentropy", "cosine_similarity",
    "get", "hinge", "huber", "kl_divergence", "log_cosh", "mae", "mean_absolute_error",
    "mean_absolute_percentage_error", "mean_squared_error", "mean_squared_logarithmic_error", "mse",
    "poisson", "sparse_categorical_crossentropy",
]  # fmt: skip

_op = OPERATIONS
_EPSILON = 1e-7


def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    prediction = as_tensor(y_pred)
    return reduce_mean(_op["squared_difference"](prediction, cast(y_true, prediction.dtype)), -1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    prediction = as_tensor(y_pred)
    return reduce_mean(abs(prediction - cast(y_true, prediction.dtype)), -1)


def _logits_of(prediction: Tensor, from_logits: bool, operation: str) -> tuple[Tensor, bool]:
    """Return logits, and True where they are known: the input of the activation that made a prediction.

    Keras' activations keep their input.  In a graph, other softmaxes and sigmoids are recognized, too.
    keras/src/backend.py: _get_logits
    """
    kept, made_by = getattr(prediction, "_keras_logits", (None, None))
    if kept is not None and made_by in (KERAS, operation):
        return as_tensor(kept), True
    return prediction, from_logits


def binary_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    prediction = as_tensor(y_pred)
    label = cast(y_true, prediction.dtype)
    if label_smoothing:
        label = label * (1 - label_smoothing) + 0.5 * label_smoothing
    prediction, are_logits = _logits_of(prediction, from_logits, "sigmoid")
    if are_logits:
        return reduce_mean(sigmoid_cross_entropy(label, prediction), axis)
    p = clip_by_value(prediction, _EPSILON, 1 - _EPSILON)
    return reduce_mean(-(label * _op["log"](p + _EPSILON) + (1 - label) * _op["log"](1 - p + _EPSILON)), axis)


def categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Tensor:
    prediction = as_tensor(y_pred)
    label = cast(y_true, prediction.dtype)
    if label_smoothing:
        label = label * (1 - label_smoothing) + label_smoothing / label.shape[axis]
    if not label.shape.is_compatible_with(prediction.shape):
        raise ValueError(f"Shapes {label.shape} and {prediction.shape} are incompatible")
    prediction, are_logits = _logits_of(prediction, from_logits, "softmax")
    if are_logits:
        return softmax_cross_entropy(label, prediction, axis)
    share = prediction / reduce_sum(prediction, axis, True)
    return -reduce_sum(label * _op["log"](clip_by_value(share, _EPSILON, 1 - _EPSILON)), axis)


def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1, ignore_class: int | None = None
) -> Tensor:
    label = cast(y_true, "int64")
    logits, are_logits = _logits_of(as_tensor(y_pred), from_logits, "softmax")
    if not are_logits:
        logits = _op["log"](clip_by_value(logits, _EPSILON, 1 - _EPSILON))
    logits = with_last_axis(logits, axis)
    if label.ndim == logits.ndim:
        label = _op["squeeze"](label, axis=-1)
    if ignore_class is None:
        return _op["sparse_cross_entropy"](logits, label)
    counts = OPERATIONS["not_equal"](label, ignore_class)
    logits = where(_op["expand_dims"](counts, axis=-1), logits, 0.0)
    found = where(counts, _op["sparse_cross_entropy"](logits, where(counts, label, 0)), 0.0)
    hang_mask(found, counts)
    return found


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Tensor:
    """Return half the square of small errors, and what grows with large ones, in float32."""
    error = cast(y_pred, "float32") - cast(y_true, "float32")
    size = abs(error)
    return reduce_mean(
        where(size <= delta, 0.5 * _op["square"](error), delta * size - 0.5 * delta * delta), -1
    )


def _pair(y_true: Any, y_pred: Any) -> tuple[Tensor, Tensor]:
    prediction = as_tensor(y_pred)
    return cast(y_true, prediction.dtype), prediction


def kl_divergence(y_true: Any, y_pred: Any) -> Tensor:
    label, prediction = (clip_by_value(one, _EPSILON, 1) for one in _pair(y_true, y_pred))
    return reduce_sum(label * _op["log"](label / prediction), -1)


def poisson(y_true: Any, y_pred: Any) -> Tensor:
    label, prediction = _pair(y_true, y_pred)
    return reduce_mean(prediction - label * _op["log"](prediction + _EPSILON), -1)


def hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Return the hinge loss of labels -1 and 1; 0 stands for -1 where all are 0 or 1."""
    label, prediction = _pair(y_true, y_pred)
    if bool(reduce_all((label == 0) | (label == 1))):
        label = 2.0 * label - 1.0
    return reduce_mean(_op["maximum"](1.0 - label * prediction, 0.0), -1)


def log_cosh(y_true: Any, y_pred: Any) -> Tensor:
    label, prediction = _pair(y_true, y_pred)
    error = prediction - label
    return reduce_mean(error + _op["softplus"](-2.0 * error) - cast(math.log(2.0), error.dtype), -1)


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    label, prediction = (l2_normalize(as_tensor(one), axis) for one in (y_true, y_pred))
    return -reduce_sum(label * prediction, axis)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Tensor:
    label, prediction = _pair(y_true, y_pred)
    return 100.0 * reduce_mean(abs((label - prediction) / _op["maximum"](abs(label), _EPSILON)), -1)


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Tensor:
    logs = [_op["log"](_op["maximum"](one, _EPSILON) + 1.0) for one in _pair(y_true, y_pred)]
    return reduce_mean(_op["squared_difference"](*logs), -1)


mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error


def of_one_rank(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Return two tensors, one of them without an extra last axis of one, which losses would broadcast.

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
    """Losses of labels and predictions, averaged over the batch, or summed, or neither.

    Values outside a mask of the predictions do not count. Subclasses compute the losses in `call`.
    """

    def __init__(self, reduction: str = "auto", name: str | None = None) -> None:
        if reduction not in Reduction.all():
            raise ValueError(f'Invalid Reduction Key: {reduction}. Expected keys are "{Reduction.all()}"')
        self.reduction, self.name = reduction, name

    def call(self, y_true: Any, y_pred: Any) -> Any:
        raise NotImplementedError("Must be implemented in subclasses.")

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        losses = as_tensor(self.call(y_true, y_pred))
        masks = all_of((mask_of(y_pred), mask_of(losses)))
        is_mean = self.reduction in (Reduction.AUTO, Reduction.SUM_OVER_BATCH_SIZE)
        weights = _weights(losses, sample_weight, masks, is_mean=is_mean)
        if weights is not None:
            losses = losses * of_rank(weights, losses)
        if self.reduction == "none":
            return losses
        total = reduce_sum(losses)
        if self.reduction == "sum":
            return total
        return _op["divide_no_nan"](total, _op["size"](losses, dtype=losses._value.dtype))

    def get_config(self) -> dict[str, Any]:
        return {"reduction": self.reduction, "name": self.name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Loss:
        return cls(**{key: value for key, value in config.items() if key != "fn"})


class LossFunction(Loss):
    """The losses of a function, which is given the options."""

    def __init__(
        self, function: Callable[..., Any], reduction: str = "auto", name: str | None = None, **options: Any
    ) -> None:
        Loss.__init__(self, reduction, name)
        self.fn, self._options = function, options

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.fn(*of_one_rank(y_true, y_pred), **self._options)

    def get_config(self) -> dict[str, Any]:
        return {**Loss.get_config(self), **self._options, "fn": self.fn.__name__}


def _class(function: Callable[..., Any], name: str, own_name: str | None = None, **own: Any) -> type[Loss]:
    """Return the class of a loss, whose arguments are options of the function's own, reduction and name."""
    defaults = {**own, "reduction": "auto", "name": own_name or function.__name__}

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        given = dict(zip(defaults, arguments, strict=False)) | options
        if len(arguments) > len(defaults) or not given.keys() <= defaults.keys():
            raise TypeError(
                f"{type(self).__name__} takes {tuple(defaults)}, not {arguments} and {sorted(options)}"
            )
        LossFunction.__init__(self, function, **defaults | given)

    about = {"__init__": init, "__doc__": f"{function.__name__}, averaged over the batch."}
    return type(name, (LossFunction,), about)


MeanSquaredError = _class(mean_squared_error, "MeanSquaredError")
MeanAbsoluteError = _class(mean_absolute_error, "MeanAbsoluteError")
_SMOOTHED: dict[str, Any] = {"from_logits": False, "label_smoothing": 0.0, "axis": -1}
BinaryCrossentropy = _class(binary_crossentropy, "BinaryCrossentropy", **_SMOOTHED)
CategoricalCrossentropy = _class(categorical_crossentropy, "CategoricalCrossentropy", **_SMOOTHED)
SparseCategoricalCrossentropy = _class(
    sparse_categorical_crossentropy, "SparseCategoricalCrossentropy", from_logits=False, ignore_class=None
)
Huber = _class(huber, "Huber", "huber_loss", delta=1.0)
KLDivergence, Poisson = _class(kl_divergence, "KLDivergence"), _class(poisson, "Poisson")
Hinge, LogCosh = _class(hinge, "Hinge"), _class(log_cosh, "LogCosh")
CosineSimilarity = _class(cosine_similarity, "CosineSimilarity", axis=-1)
MeanAbsolutePercentageError = _class(mean_absolute_percentage_error, "MeanAbsolutePercentageError")
MeanSquaredLogarithmicError = _class(mean_squared_logarithmic_error, "MeanSquaredLogarithmicError")

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        mean_squared_error, mean_absolute_error, binary_crossentropy, categorical_crossentropy,
        sparse_categorical_crossentropy, huber, kl_divergence, poisson, hinge, log_cosh, cosine_similarity,
        mean_absolute_percentage_error, mean_squared_logarithmic_error,
    )
} | {"mse": mse, "MSE": mse, "mae": mae, "MAE": mae, "huber_loss": huber}  # fmt: skip
_FUNCTIONS |= {
    name: function
    for function, names in (
        (kl_divergence, "kld KLD kullback_leibler_divergence"), (log_cosh, "logcosh"),
        (mean_absolute_percentage_error, "mape MAPE"), (mean_squared_logarithmic_error, "msle MSLE"),
    )
    for name in names.split()
}  # fmt: skip
_CLASSES = {
    one.__name__: one
    for one in (
        MeanSquaredError, MeanAbsoluteError, BinaryCrossentropy, CategoricalCrossentropy,
        SparseCategoricalCrossentropy, Huber, KLDivergence, Poisson, Hinge, LogCosh, CosineSimilarity,
        MeanAbsolutePercentageError, MeanSquaredLogarithmicError,
    )
}  # fmt: skip


def get(identifier: Any) -> Any:
    """Return the function, class or loss that a name, a configuration or one of these itself stands for."""
    if isinstance(identifier, dict) and identifier.get("class_name") in _CLASSES:
        return _CLASSES[identifier["class_name"]].from_config(identifier.get("config", {}))
    if identifier is None or callable(identifier):
        return identifier
    if isinstance(identifier, str) and identifier in _CLASSES:
        return _CLASSES[identifier]()
    if not isinstance(identifier, str) or identifier not in _FUNCTIONS:
        raise ValueError(f"Unknown loss function: '{identifier}'.")
    return _FUNCTIONS[identifier]


def as_loss(identifier: Any) -> Loss | None:
    """Return a loss that is averaged over the batch, as `compile` makes one; None for no loss."""
    found = get(identifier)
    if isinstance(found, type) and issubclass(found, Loss):
        found = found()
    if found is None or isinstance(found, Loss):
        return found
    return LossFunction(found, name=to_snake_case(getattr(found, "__name__", type(found).__name__)))


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
