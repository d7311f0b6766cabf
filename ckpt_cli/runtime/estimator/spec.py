"""The arguments and results of a `model_fn`: ModeKeys and EstimatorSpec."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..graphs import Done
from ..keras.metrics import Metric
from ..nest import map_structure
from ..tensor import TensorLike, as_tensor

__all__ = ["EstimatorSpec", "ModeKeys"]


class ModeKeys:
    """What a `model_fn` is called for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: dict[str, Any]
    export_outputs: Any
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_Fields):
    """The tensors of a model, checked for what the mode needs.

    TRAIN needs `loss` and `train_op`, EVAL `loss`, PREDICT `predictions`; what a mode does
    not need may be there.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: dict[str, Any] | None = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> EstimatorSpec:
        from .scaffold import Scaffold

        scaffold = scaffold if scaffold is not None else Scaffold()
        if not isinstance(scaffold, Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        return super().__new__(
            cls,
            mode,
            _checked_predictions(predictions, mode),
            _checked_loss(loss, mode),
            _checked_train_op(train_op, mode),
            _checked_metrics(eval_metric_ops),
            export_outputs,
            tuple(training_chief_hooks or ()),
            tuple(training_hooks or ()),
            scaffold,
            tuple(evaluation_hooks or ()),
            tuple(prediction_hooks or ()),
        )


def _checked_loss(loss: Any, mode: str) -> Any:
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    if not isinstance(loss, TensorLike):
        raise TypeError(f"loss must be Tensor, given: {loss}")
    tensor = as_tensor(loss)
    if tensor._value.size != 1:
        raise ValueError(f"Loss must be scalar, given: {tensor}")
    if tensor.ndim:
        from ..shaping import reshape

        tensor = reshape(tensor, [])
    return tensor


def _checked_train_op(train_op: Any, mode: str) -> Any:
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        return None
    if not isinstance(train_op, TensorLike | Done):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
    return train_op


def _checked_predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        return {}

    def checked(value: Any) -> Any:
        if not isinstance(value, TensorLike):
            raise TypeError(f"predictions must be Tensor, given: {value}")
        return as_tensor(value)

    return map_structure(checked, predictions)


def _checked_metrics(metrics: Any) -> dict[str, Any]:
    """Return the value of each metric, as it is after this batch, and None where it is a Keras metric's."""
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    for key, value in metrics.items():
        if not isinstance(value, Metric) and not (isinstance(value, tuple) and len(value) == 2):
            raise TypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples, given: "
                f"{value} for key: {key}"
            )
    return dict(metrics)
