"""DNNClassifier: fully connected layers, of TensorFlow 2 and of TensorFlow 1.

    dnn/hiddenlayer_0/kernel dnn/hiddenlayer_0/bias ... dnn/logits/kernel dnn/logits/bias
    global_step
    TensorFlow 2   training/Adagrad/<variable>/accumulator, training/Adagrad/learning_rate, .../decay
    TensorFlow 1   <variable>/t_0/Adagrad; of Adam also dnn/head/beta1_power

Both by default take Adagrad; the older one with 0.05 on the sum of a batch's losses, the
newer one with Keras' 0.001 on their mean.  The newer one's optimizer counts its steps in
the global step.
tensorflow_estimator/python/estimator/canned/dnn.py
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from .. import nn
from ..compat.v1.train import get_global_step
from ..feature_column import input_layer
from ..keras.initializers import GlorotUniform
from ..keras.optimizers import legacy, modern
from ..names import name_scope
from ..tape import GradientTape
from ..unknown import refuse
from ..variable import Variable
from . import optimizers
from .estimator import Estimator
from .heads import Head
from .spec import EstimatorSpec, ModeKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..tensor import Tensor

__all__ = ["DNNClassifier", "DNNClassifierV1"]

_RATE = 0.05


class _Network:
    """Layers of some sizes, relu between them."""

    def __init__(
        self, hidden_units: Sequence[int], feature_columns: Any, activation_fn: Any, dropout: float | None
    ) -> None:
        self._sizes = [int(units) for units in hidden_units]
        if any(units <= 0 for units in self._sizes):
            raise ValueError(f"hidden_units must be positive: {hidden_units}")
        self._columns = tuple(feature_columns or ())
        self._activation, self._dropout = activation_fn, dropout

    def logits(self, features: Any, size: int, mode: str) -> tuple[Tensor, list[Variable]]:
        """Return the logits and the variables they come from."""
        made: list[Variable] = []
        with name_scope("dnn/"):
            net = input_layer(features, self._columns)
            for index, units in enumerate(self._sizes):
                net = self._activation(_dense(net, units, f"hiddenlayer_{index}", made))
                if self._dropout is not None and mode == ModeKeys.TRAIN:
                    net = nn.dropout(net, self._dropout)
            return _dense(net, size, "logits", made), made


def _dense(x: Tensor, units: int, name: str, made: list[Variable]) -> Tensor:
    with name_scope(name):
        kernel = Variable(GlorotUniform()((x.shape[-1], units)), name="kernel")
        bias = Variable([0.0] * units, name="bias")
    made += [kernel, bias]
    return nn.bias_add(x @ kernel, bias)


class _Classifier(Estimator, ABC):
    """The common part of both kinds; a subclass has its optimizers and defines a step."""

    _OPTIMIZERS: ClassVar[dict[str, Callable[[], Any]]]
    """By the names that stand for them."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[[Any], Any] = nn.relu,
        dropout: float | None = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        refuse("DNNClassifier", batch_norm=batch_norm)
        head = Head(n_classes, weight_column, label_vocabulary, loss_reduction)
        network = _Network(hidden_units, feature_columns, activation_fn, dropout)
        self._make_optimizer(optimizer)  # an error in it is raised now

        def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
            with GradientTape() as tape:
                logits, variables = network.logits(features, head.logits_dimension, mode)
                predictions = head.predictions(logits)
                if mode == ModeKeys.PREDICT:
                    return EstimatorSpec(mode, predictions=predictions)
                ids, weights = head.labels(labels), head.weights(features)
                losses = head.losses(logits, ids)
                loss = head.loss(losses, weights)
            if mode == ModeKeys.EVAL:
                counted = head.metrics(predictions, ids, losses, weights)
                return EstimatorSpec(mode, predictions=predictions, loss=loss, eval_metric_ops=counted)
            gradients = tape.gradient(loss, variables)
            pairs = list(zip(gradients, variables, strict=True))
            train_op = self._take_step(self._make_optimizer(optimizer), pairs)
            return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)

    def _make_optimizer(self, optimizer: Any) -> Any:
        """Return an optimizer of the call's own: its variables belong to the call's graph."""
        if not isinstance(optimizer, str):
            return optimizer() if callable(optimizer) else copy.deepcopy(optimizer)
        if optimizer not in self._OPTIMIZERS:
            raise ValueError(
                f"Unsupported optimizer name: {optimizer}. Supported names are: "
                f"{tuple(sorted(self._OPTIMIZERS))}"
            )
        return self._OPTIMIZERS[optimizer]()

    @abstractmethod
    def _take_step(self, optimizer: Any, pairs: list[tuple[Any, Any]]) -> Any:
        """Return the operation that applies (gradient, variable) pairs and counts the step."""


class DNNClassifier(_Classifier):
    """TensorFlow 2's."""

    _OPTIMIZERS: ClassVar = {
        "Adagrad": legacy.Adagrad,
        "Adam": legacy.Adam,
        "RMSProp": legacy.RMSprop,
        "SGD": legacy.SGD,
    }

    def _make_optimizer(self, optimizer: Any) -> Any:
        made = super()._make_optimizer(optimizer)
        if isinstance(made, modern.Optimizer):
            kind = type(made).__name__
            raise ValueError(  # noqa: TRY004  TensorFlow's
                "Please set your optimizer as an instance of `tf.keras.optimizers.legacy.Optimizer`, e.g., "
                f"`tf.keras.optimizers.legacy.{kind}`. Received optimizer type: {type(made)}."
            )
        if not isinstance(made, legacy.Optimizer):
            raise ValueError(  # noqa: TRY004  TensorFlow's
                f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {made}"
            )
        return made

    def _take_step(self, optimizer: Any, pairs: list[tuple[Any, Any]]) -> Any:
        optimizer.iterations = get_global_step()
        with name_scope("training/"):
            return optimizer.apply_gradients(pairs)


class DNNClassifierV1(_Classifier):
    """TensorFlow 1's: `tf.compat.v1.estimator.DNNClassifier`."""

    _OPTIMIZERS: ClassVar = {
        "Adagrad": lambda: optimizers.AdagradOptimizer(_RATE),
        "Adam": lambda: optimizers.AdamOptimizer(_RATE),
        "SGD": lambda: optimizers.GradientDescentOptimizer(_RATE),
    }

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Any,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Callable[[Any], Any] = nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: Any = None,
        warm_start_from: Any = None,
        loss_reduction: str = "weighted_sum",
        batch_norm: bool = False,
    ) -> None:
        refuse("DNNClassifier", input_layer_partitioner=input_layer_partitioner)
        super().__init__(
            hidden_units, feature_columns, model_dir, n_classes, weight_column, label_vocabulary, optimizer,
            activation_fn, dropout, config, warm_start_from, loss_reduction, batch_norm,
        )  # fmt: skip

    def _make_optimizer(self, optimizer: Any) -> Any:
        made = super()._make_optimizer(optimizer)
        if not isinstance(made, optimizers.Optimizer):
            raise ValueError(f"The given object is not an Optimizer instance. Given: {made}")  # noqa: TRY004
        made.slot_infix = "t_0/"
        return made

    def _take_step(self, optimizer: Any, pairs: list[tuple[Any, Any]]) -> Any:
        # the scope of Adam's powers, which are not slots
        with name_scope("dnn/head/"):
            return optimizer.apply_gradients(pairs, get_global_step())
