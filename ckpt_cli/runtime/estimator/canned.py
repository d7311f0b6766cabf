"""Canned Estimators: layers or a linear model, and a classifier's or a regressor's head, of both generations.

    dnn/hiddenlayer_0/kernel dnn/hiddenlayer_0/bias ... dnn/logits/kernel dnn/logits/bias
    dnn/input_from_feature_columns/input_layer/<column>/embedding_weights
    linear/linear_model/<column>/weights linear/linear_model/bias_weights
    global_step
    TensorFlow 2   training/Adagrad/<variable>/accumulator, training/Adagrad/learning_rate, .../decay
    TensorFlow 1   <variable>/t_0/Adagrad, <variable>/part_0/Ftrl; of Adam also dnn/head/beta1_power

The older ones' losses are a batch's sum, the newer ones' its mean.  Optimizers given by name take a rate of
0.2 in linear models, 0.05 in other older ones, and Keras' rates in other newer ones.  The newer optimizers
count their steps in the global step.
tensorflow_estimator/python/estimator/canned/dnn.py, linear.py
"""

from __future__ import annotations

import copy
import inspect
import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from .. import nn
from ..compat.v1 import trainable_variables
from ..compat.v1.train import get_global_step
from ..feature_column import input_layer, linear_model
from ..keras.initializers import GlorotUniform
from ..keras.optimizers import legacy, modern
from ..names import name_scope
from ..tape import GradientTape
from ..unknown import refuse
from ..variable import Variable
from . import optimizers
from .estimator import Estimator
from .heads import ClassifierHead, RegressorHead
from .spec import EstimatorSpec, ModeKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..tensor import Tensor

__all__ = ["CANNED", "CANNED_V1"]

_RATE, _RATE_OF_LINEAR = 0.05, 0.2


class _Layers:
    """Layers of some sizes, with an activation between them."""

    def __init__(self, options: dict[str, Any]) -> None:
        refuse(
            options["self"], batch_norm=options["batch_norm"],
            input_layer_partitioner=options.get("input_layer_partitioner"),
        )  # fmt: skip
        self._sizes = [int(units) for units in options["hidden_units"]]
        if any(units <= 0 for units in self._sizes):
            raise ValueError(f"hidden_units must be positive: {options['hidden_units']}")
        self._columns = tuple(options["feature_columns"] or ())
        self._activation, self._dropout = options["activation_fn"], options["dropout"]

    def __call__(self, features: Any, size: int, mode: str) -> Tensor:
        with name_scope("dnn/"):
            with name_scope("input_from_feature_columns"):
                net = input_layer(features, self._columns)
            for index, units in enumerate(self._sizes):
                net = self._activation(_dense(net, units, f"hiddenlayer_{index}"))
                if self._dropout is not None and mode == ModeKeys.TRAIN:
                    net = nn.dropout(net, self._dropout)
            return _dense(net, size, "logits")


def _dense(x: Tensor, units: int, name: str) -> Tensor:
    with name_scope(name):
        kernel = Variable(GlorotUniform()((x.shape[-1], units)), name="kernel")
        return nn.bias_add(x @ kernel, Variable([0.0] * units, name="bias"))


class _Linear:
    """A weighted sum of columns."""

    def __init__(self, options: dict[str, Any]) -> None:
        refuse(options["self"], partitioner=options.get("partitioner"))
        self._columns, self._combiner = tuple(options["feature_columns"] or ()), options["sparse_combiner"]

    def __call__(self, features: Any, size: int, mode: str) -> Tensor:
        with name_scope("linear/"):
            return linear_model(features, self._columns, size, self._combiner)


class _Kind(NamedTuple):
    """A kind of network: its arguments, `|` before those of the head and of TensorFlow 1."""

    make: Callable[[dict[str, Any]], Any]
    scope: str
    slot_infix: str
    arguments: str


class _Generation(NamedTuple):
    optimizers: dict[str, Callable[[float], Any]]
    rate: float | None
    loss_reduction: str


_KINDS = {
    "DNN": _Kind(
        _Layers, "dnn", "t_0/",
        "hidden_units feature_columns model_dir=None | optimizer='Adagrad' activation_fn=relu dropout=None "
        "|input_layer_partitioner=None config=None warm_start_from=None loss_reduction batch_norm=False",
    ),
    "Linear": _Kind(
        _Linear, "linear", "part_0/",
        "feature_columns model_dir=None | optimizer='Ftrl' config=None |partitioner=None "
        "warm_start_from=None loss_reduction sparse_combiner='sum'",
    ),
}  # fmt: skip
_HEADS: dict[str, tuple[Any, str]] = {
    "Classifier": (ClassifierHead, "n_classes=2 weight_column=None label_vocabulary=None"),
    "Regressor": (RegressorHead, "label_dimension=1 weight_column=None"),
}
_NAMES = "Adagrad", "Adam", "Ftrl", "RMSProp", "SGD"
_LEGACY = legacy.Adagrad, legacy.Adam, legacy.Ftrl, legacy.RMSprop, legacy.SGD
_TF1 = (
    optimizers.AdagradOptimizer, optimizers.AdamOptimizer, optimizers.FtrlOptimizer,
    optimizers.RMSPropOptimizer, optimizers.GradientDescentOptimizer,
)  # fmt: skip
_GENERATIONS = {
    2: _Generation(dict(zip(_NAMES, _LEGACY, strict=True)), None, "sum_over_batch_size"),
    1: _Generation(dict(zip(_NAMES, _TF1, strict=True)), _RATE, "weighted_sum"),
}


class _Canned(Estimator):
    """The common part; a subclass has the class attributes that a table gives it."""

    _kind: ClassVar[_Kind]
    _head: ClassVar[Any]
    _generation: ClassVar[_Generation]

    def _begin(self, options: dict[str, Any]) -> None:
        head, network = self._head(options), self._kind.make(options)
        optimizer, columns = options["optimizer"], options["feature_columns"]
        self._make_optimizer(optimizer, columns)  # an error in it is raised now

        def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
            with GradientTape() as tape:
                logits = network(features, head.logits_dimension, mode)
                predictions = head.predictions(logits)
                if mode == ModeKeys.PREDICT:
                    return EstimatorSpec(mode, predictions=predictions)
                known, weights = head.labels(labels), head.weights(features)
                losses = head.losses(logits, known)
                loss = head.loss(losses, weights)
            if mode == ModeKeys.EVAL:
                counted = head.metrics(predictions, known, losses, weights)
                return EstimatorSpec(mode, predictions=predictions, loss=loss, eval_metric_ops=counted)
            variables: list[Any] = trainable_variables()
            pairs = list(zip(tape.gradient(loss, variables), variables, strict=True))
            train_op = self._take_step(self._make_optimizer(optimizer, columns), pairs)
            return EstimatorSpec(mode, predictions=predictions, loss=loss, train_op=train_op)

        super().__init__(
            model_fn, options["model_dir"], options["config"], warm_start_from=options["warm_start_from"]
        )

    def _make_optimizer(self, optimizer: Any, columns: Any) -> Any:
        """Return an optimizer of the call's own: its variables belong to the call's graph."""
        known, rate, _ = self._generation
        if self._kind.scope == "linear":
            rate = _RATE_OF_LINEAR
            if not optimizer:
                optimizer, rate = "Ftrl", min(rate, 1 / math.sqrt(len(columns)))
        if not isinstance(optimizer, str):
            return self._checked(optimizer() if callable(optimizer) else copy.deepcopy(optimizer))
        if optimizer not in known:
            raise ValueError(
                f"Unsupported optimizer name: {optimizer}. Supported names are: {tuple(sorted(known))}"
            )
        return self._checked(known[optimizer](rate) if rate is not None else known[optimizer]())  # type: ignore[call-arg]

    def _checked(self, optimizer: Any) -> Any:
        if self._generation.rate is not None:
            if not isinstance(optimizer, optimizers.Optimizer):
                raise ValueError(f"The given object is not an Optimizer instance. Given: {optimizer}")
            optimizer.slot_infix = self._kind.slot_infix
        elif isinstance(optimizer, modern.Optimizer):
            raise ValueError(
                "Please set your optimizer as an instance of `tf.keras.optimizers.legacy.Optimizer`, e.g., "
                f"`tf.keras.optimizers.legacy.{type(optimizer).__name__}`. Received optimizer type: "
                f"{type(optimizer)}."
            )
        elif not isinstance(optimizer, legacy.Optimizer):
            raise ValueError(
                f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {optimizer}"
            )
        return optimizer

    def _take_step(self, optimizer: Any, pairs: list[tuple[Any, Any]]) -> Any:
        """Return the operation that applies (gradient, variable) pairs and counts the step."""
        if self._generation.rate is not None:
            with name_scope(f"{self._kind.scope}/head/"):  # the scope of Adam's powers, which are not slots
                return optimizer.apply_gradients(pairs, get_global_step())
        optimizer.iterations = get_global_step()
        with name_scope("training/"):
            return optimizer.apply_gradients(pairs)


def _parameters(kind: str, head: str, generation: int) -> inspect.Signature:
    defaults = {"relu": nn.relu, "None": None, "False": False, "1": 1, "2": 2}
    text = _KINDS[kind].arguments.replace("| ", f"{_HEADS[head][1]} ", 1)
    names = [word.lstrip("|") for word in text.split() if generation == 1 or not word.startswith("|")]
    found = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    for name, _, shown in (name.partition("=") for name in names):
        default = defaults.get(shown, shown.strip("'")) if shown else inspect.Parameter.empty
        if name == "loss_reduction":
            default = _GENERATIONS[generation].loss_reduction
        found.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    return inspect.Signature(found)


def _made(kind: str, head: str, generation: int) -> type[Estimator]:
    signature, name = _parameters(kind, head, generation), f"{kind}{head}"

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = signature.bind(self, *args, **kwargs)
        given.apply_defaults()
        self._begin({**given.arguments, "self": name})

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    members = {
        "__init__": __init__, "_kind": _KINDS[kind], "_head": _HEADS[head][0],
        "_generation": _GENERATIONS[generation], "__module__": __name__,
    }  # fmt: skip
    return type(name + "V2" * (generation == 2), (_Canned,), members)


CANNED, CANNED_V1 = (
    tuple(_made(kind, head, generation) for kind in _KINDS for head in _HEADS) for generation in (2, 1)
)
"""DNNClassifier, DNNRegressor, LinearClassifier and LinearRegressor, of TensorFlow 2 and 1."""
