"""compile, fit, evaluate, predict: the training loop of a model, one `train_step` for each batch."""

from __future__ import annotations

import functools
import logging
import math
import operator
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiled import compiled
from ..data import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from ..functions import argmax
from ..nest import flatten, map_structure
from ..ops.elementwise import cast
from ..ops.random import Traced
from ..tape import GradientTape
from ..tensor import OPERATIONS, TensorLike, as_tensor
from ..unknown import refuse
from . import losses, optimizers
from . import metrics as metric_classes
from .base_layer import deduplicated, iterate_layers
from .callback import CallbackList, History, Logs
from .masks import mask_of
from .progress import ProgbarLogger
from .symbolic import free_batch
from .utils import unpack_x_y_sample_weight as unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .base_layer import Layer

__all__ = ["Trainer"]


logger = logging.getLogger("ckpt_cli.runtime")
_BATCH = 32
"""The default number of examples in a batch."""


class Trainer:
    """The part of a model that trains it."""

    optimizer: Any = None
    loss: Any
    compiled_loss: Any
    compiled_metrics: Any
    run_eagerly: bool
    stop_training: bool
    _resumed: Any
    _training: Traced | None
    _compiled_state: list[tuple[Layer, bool]]
    """Each layer, and whether it was trainable when the model was compiled."""

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, **options: Any
    ) -> None:
        """Say what to train with."""
        given = {"optimizer": optimizer, "loss": loss, "metrics": metrics, **options}
        object.__setattr__(self, "_compiled_with", given)
        options.pop("jit_compile", None)
        several_steps = options.pop("steps_per_execution", None)
        refuse("compile", steps_per_execution=None if several_steps == 1 else several_steps)
        object.__setattr__(self, "run_eagerly", bool(options.pop("run_eagerly", False)))
        refuse("compile", **options)
        self.optimizer = optimizers.get(optimizer)
        object.__setattr__(self, "loss", loss)
        object.__setattr__(self, "compiled_loss", _CompiledLoss(losses.as_loss(loss)))
        object.__setattr__(self, "compiled_metrics", _CompiledMetrics(list(metrics or [])))
        object.__setattr__(self, "_training", None)
        layers = deduplicated(list(iterate_layers(self)))  # type: ignore[arg-type]
        object.__setattr__(self, "_compiled_state", [(layer, layer.trainable) for layer in layers])

    def _assert_compiled(self) -> None:
        if "compiled_metrics" not in self.__dict__:
            raise RuntimeError(
                "You must compile your model before training/testing. Use `model.compile(optimizer, loss)`."
            )

    @property
    def metrics(self) -> list[Any]:
        """The loss, the metrics of `compile` once they have counted, and those that layers have."""
        compiled = self.__dict__.get("compiled_loss"), self.__dict__.get("compiled_metrics")
        found = [metric for one in compiled if one is not None for metric in one.metrics]
        layers = deduplicated(list(iterate_layers(self)))  # type: ignore[arg-type]
        own = (part for layer in layers for part in vars(layer).values())
        return found + [one for one in own if isinstance(one, metric_classes.Metric)]

    @property
    def metrics_names(self) -> list[str]:
        return [metric.name for metric in self.metrics]

    def reset_metrics(self) -> None:
        """Begin to count: what `train_step` and `test_step` return are means over what follows."""
        for metric in self.metrics:
            metric.reset_state()

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None
    ) -> Any:
        """Return the loss of a batch, with those that layers add, and count it. Models may have another."""
        added = self.losses  # type: ignore[attr-defined]
        return self.compiled_loss(y, y_pred, sample_weight, regularization_losses=added)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> dict[str, Any]:
        """Count a batch, and return the metrics by name. Models may have another."""
        self.compiled_metrics.update_state(y, y_pred, sample_weight)
        return self.get_metrics_result()

    def get_metrics_result(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for metric in self.metrics:
            result = metric.result()
            found.update(result if isinstance(result, dict) else {metric.name: result})
        return found

    def _require_loss(self) -> None:
        self._assert_compiled()
        if self.loss is None:
            raise ValueError("no loss was given to compile(), and this step computes none of its own")

    def train_step(self, data: Any) -> dict[str, Any]:
        """Take one step on a batch, (x, y, weights); return loss and metrics. Models may have another."""
        x, y, weights = unpacked(data)
        with GradientTape() as tape:
            predictions = self(x, training=True)  # type: ignore[operator]
            self._require_loss()
            loss = self.compute_loss(x, y, predictions, weights)
        variables = self.trainable_variables  # type: ignore[attr-defined]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return self.compute_metrics(x, y, predictions, weights)

    def test_step(self, data: Any) -> dict[str, Any]:
        """Compute loss and metrics of a batch, (x, y, weights). Models may have another."""
        x, y, weights = unpacked(data)
        predictions = self(x, training=False)  # type: ignore[operator]
        self._require_loss()
        self.compute_loss(x, y, predictions, weights)
        return self.compute_metrics(x, y, predictions, weights)

    def predict_step(self, data: Any) -> Any:
        """Return the outputs for one batch. Models may have another."""
        return self(unpacked(data)[0], training=False)  # type: ignore[operator]

    def fit(
        self, x: Any, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = "auto",
        callbacks: Any = None, validation_split: float = 0.0, validation_data: Any = None,
        shuffle: Any = True, class_weight: dict[int, float] | None = None, sample_weight: Any = None,
        initial_epoch: int = 0, steps_per_epoch: int | None = None, validation_steps: int | None = None,
        validation_batch_size: int | None = None, validation_freq: Any = 1, **options: Any,
    ) -> History:  # fmt: skip
        """Train for some epochs over arrays, or a dataset of (x, y, weights), and evaluate after each.

        Weights, of examples or of classes, are those of losses; metrics count each example once.
        """
        by_chunks = shuffle if isinstance(shuffle, str) else None
        refuse("fit", shuffle=by_chunks, validation_steps=validation_steps, **options)
        self._assert_compiled()
        data = _Data(x, y, sample_weight)
        if validation_split and validation_data is None:
            data, validation_data = data.split_off(validation_split)
        weighed = _by_class(class_weight)
        history = History()
        steps = data.steps(batch_size) if steps_per_epoch is None else steps_per_epoch
        told = _told(self, callbacks, history, verbose=verbose, epochs=epochs, steps=steps)
        self._put("stop_training", False)  # type: ignore[attr-defined]
        told.tell("on_train_begin")
        skipped = 0
        if "_resumed" in self.__dict__:
            initial_epoch, skipped = self._resumed(initial_epoch, steps)
        trained: Logs = {}
        logs: Logs = {}
        rounds = _epochs(data, batch_size, shuffle, epochs - initial_epoch, steps_per_epoch, skipped)
        for epoch, batches in enumerate(rounds, initial_epoch):
            trained = self._train(epoch, batches, weighed, told, trained)
            logs = dict(trained)
            if validation_data is not None and _is_due(epoch + 1, validation_freq):
                others = _Data(*unpacked(validation_data))
                found = self._evaluated(others, validation_batch_size or batch_size, told)
                logs |= {f"val_{name}": value for name, value in found.items()}
            told.tell("on_epoch_end", epoch, logs=logs)
            if self.stop_training:
                break
        if hasattr(self.optimizer, "finalize_variable_values") and epochs > 0:
            self.optimizer.finalize_variable_values(self.trainable_variables)  # type: ignore[attr-defined]
        told.tell("on_train_end", logs=logs)
        return history

    def _train(
        self, epoch: int, batches: _Counted, weighed: Callable[[Any], Any], told: CallbackList, logs: Logs
    ) -> Logs:
        """Train for an epoch; return its loss and metrics.  One without batches has those of before, as 0."""
        self.reset_metrics()
        told.tell("on_epoch_begin", epoch)
        for step, data in enumerate(batches, batches.skipped):
            told.tell("on_train_batch_begin", step)
            with self._as_compiled(during_fit=True), self._trained_as_compiled():
                logs = _floats(self.train_step(weighed(data)))
            told.tell("on_train_batch_end", step, logs=logs)
            if self.stop_training:
                break
        if not logs:
            raise ValueError("Unexpected result of `train_function` (Empty Logs): there is no batch.")
        return logs if batches.count else dict.fromkeys(logs, 0.0)  # As metrics that count nothing.

    @contextmanager
    def _as_compiled(self, *, during_fit: bool = False) -> Iterator[None]:
        """Run a step as Keras compiles it, once for all calls of `fit` after `compile`."""
        if self.run_eagerly:
            yield
            return
        traced = self._training or Traced()
        object.__setattr__(self, "_training", traced)
        with compiled(), traced.called(), free_batch(during_fit):
            yield

    @contextmanager
    def _trained_as_compiled(self) -> Iterator[None]:
        """Train the layers that were trainable when the model was compiled, despite later changes.

        So does Keras, and GANs count on it: their discriminator is frozen after it was compiled.
        keras/src/engine/training_utils.py: RespectCompiledTrainableState
        """
        since = [(layer, layer.trainable) for layer, _ in self._compiled_state]
        try:
            for layer, is_trained in self._compiled_state:
                layer._put("_layer_trainable", is_trained)
            yield
        finally:
            for layer, is_trained in since:
                layer._put("_layer_trainable", is_trained)

    def evaluate(
        self, x: Any, y: Any = None, batch_size: int | None = None, verbose: Any = "auto",
        sample_weight: Any = None, steps: int | None = None, callbacks: Any = None,
        return_dict: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        """Return the mean loss, with metrics a list of it and them, or by `return_dict` a dict."""
        refuse("evaluate", steps=steps, **options)
        self._assert_compiled()
        data = _Data(x, y, sample_weight)
        if data.steps(batch_size) == 0:
            raise ValueError("Expected input data to be non-empty.")
        told = _told(self, callbacks, verbose=verbose, epochs=1, steps=data.steps(batch_size))
        logs = self._evaluated(data, batch_size, told)
        return logs if return_dict else _alone(logs)

    def _evaluated(self, data: _Data, batch_size: int | None, told: CallbackList) -> Logs:
        self.reset_metrics()
        told.tell("on_test_begin")
        logs: Logs = {}
        for step, batch in enumerate(chain.from_iterable(_epochs(data, batch_size, False, 1, None))):
            told.tell("on_test_batch_begin", step)
            with free_batch():
                logs = _floats(self.test_step(batch))
            told.tell("on_test_batch_end", step, logs=logs)
        told.tell("on_test_end", logs=logs)
        return dict(logs)

    def train_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None,
        class_weight: dict[int, float] | None = None, reset_metrics: bool = True, return_dict: bool = False,
    ) -> Any:  # fmt: skip
        """Take one step on one batch; return the loss, with metrics a list, or by `return_dict` a dict."""
        batch = _by_class(class_weight)(_Data(x, y, sample_weight).whole())
        return self._on_batch(self.train_step, batch, reset_metrics, return_dict)

    def test_on_batch(
        self, x: Any, y: Any = None, sample_weight: Any = None, reset_metrics: bool = True,
        return_dict: bool = False,
    ) -> Any:  # fmt: skip
        """Compute loss and metrics of one batch, as `train_on_batch` returns them."""
        batch = _Data(x, y, sample_weight).whole()
        return self._on_batch(self.test_step, batch, reset_metrics, return_dict)

    def _on_batch(self, step: Any, batch: Any, reset_metrics: bool, return_dict: bool) -> Any:
        self._assert_compiled()
        if reset_metrics:
            self.reset_metrics()
        with self._as_compiled(), self._trained_as_compiled():
            logs = _floats(step(batch))
        return logs if return_dict else _alone(logs)

    def predict_on_batch(self, x: Any) -> Any:
        """Return the outputs for one batch as arrays."""
        return map_structure(lambda output: output.numpy(), self.predict_step((_tensors(x),)))

    def predict(
        self, x: Any, batch_size: int | None = None, verbose: Any = "auto", steps: int | None = None,
        callbacks: Any = None, **options: Any,
    ) -> Any:  # fmt: skip
        """Return the outputs for all of x as arrays."""
        refuse("predict", steps=steps, **options)
        data, parts = _Data(x), []
        told = _told(self, callbacks, verbose=verbose, epochs=1, steps=data.steps(batch_size))
        told.tell("on_predict_begin")
        for step, batch in enumerate(chain.from_iterable(_epochs(data, batch_size, False, 1, None))):
            told.tell("on_predict_batch_begin", step)
            with free_batch():
                parts.append(self.predict_step(batch))
            told.tell("on_predict_batch_end", step, logs={"outputs": parts[-1]})
        if not parts:
            raise ValueError(
                "Unexpected result of `predict_function` (Empty batch_outputs): there is no batch."
            )
        told.tell("on_predict_end")
        return map_structure(lambda *pieces: np.concatenate([piece.numpy() for piece in pieces]), *parts)


def _floats(logs: dict[str, Any]) -> Logs:
    return {name: float(value) for name, value in logs.items()}


def _alone(logs: Logs) -> Any:
    """Return values as a list, one by itself."""
    values = list(logs.values())
    return values[0] if len(values) == 1 else values


def _told(model: Any, callbacks: Any, *own: Any, verbose: Any, **params: Any) -> CallbackList:
    """Return a program's callbacks, followed by this run's own and by what prints its progress."""
    level = 1 if verbose == "auto" else verbose
    return CallbackList(
        [*_listed(callbacks), *own, *([ProgbarLogger()] if level else [])], model, verbose=level, **params
    )


def _listed(callbacks: Any) -> list[Any]:
    return list(callbacks) if isinstance(callbacks, list | tuple) else [callbacks] if callbacks else []


def _is_due(epoch: int, frequency: Any) -> bool:
    """Whether an epoch, counted from 1, is followed by an evaluation: every so many, or those of a list."""
    if not isinstance(frequency, int | list):
        raise ValueError(  # noqa: TRY004  as Keras does
            "Expected `validation_freq` to be a list or int. Received: "
            f"validation_freq={frequency} of the type {type(frequency)}."
        )
    return epoch in frequency if isinstance(frequency, list) else epoch % frequency == 0


class _Data:
    """The training data: arrays of inputs, labels and sample weights, or a dataset of all three."""

    def __init__(self, x: Any, y: Any = None, weights: Any = None) -> None:
        x, y = _of_numbers(x), _of_numbers(y)
        self.x, self.is_arrays = x, _is_arrays(x)
        if not self.is_arrays:
            for name, part in (("y", y), ("sample_weight", weights)):
                if part is not None:
                    raise ValueError(f"`{name}` argument is not supported when using dataset as input.")
            return
        self._parts = [part if part is None else map_structure(_array, part) for part in (x, y, weights)]
        lengths = [{len(leaf) for leaf in flatten(part)} for part in self._parts if part is not None]
        if len(set.union(*lengths)) > 1:
            sizes = "\n".join(
                f"  {name} sizes: {', '.join(map(str, sorted(found)))}"
                for name, found in zip(("x", "y", "sample_weight"), lengths, strict=False)
            )
            raise ValueError(
                f"Data cardinality is ambiguous:\n{sizes}\nMake sure all arrays contain the same number of "
                "samples."
            )

    def __len__(self) -> int:
        return len(flatten(self.x)[0])

    def steps(self, batch_size: int | None) -> int | None:
        """Return the number of batches, or None if unknown."""
        if self.is_arrays:
            return math.ceil(len(self) / (batch_size or _BATCH))
        count = int(self.x.cardinality()) if isinstance(self.x, Dataset) else UNKNOWN_CARDINALITY
        return count if count >= 0 else None

    def rows(self, chosen: Any) -> tuple[Any, ...]:
        """Return some examples as a batch: (x,), (x, y) or (x, y, weights)."""
        count = max(at for at, part in enumerate(self._parts) if part is not None) + 1
        return tuple(
            None if part is None else map_structure(lambda leaf: as_tensor(leaf[chosen]), part)
            for part in self._parts[:count]
        )

    def whole(self) -> tuple[Any, ...]:
        return self.rows(slice(None))

    def split_off(self, share: float) -> tuple[_Data, tuple[Any, ...]]:
        """Return the first examples, to train with, and the last ones, as large a share of them, apart.

        keras/src/engine/data_adapter.py, train_validation_split
        """
        if not self.is_arrays:
            raise ValueError("`validation_split` is only supported for Tensors or NumPy arrays, ")
        count = len(self)
        at = math.floor(count * (1.0 - share))
        if at in (0, count):
            raise ValueError(
                f"Training data contains {count} samples, which is not sufficient to split it into a "
                f"validation and training set as specified by `validation_split={share}`. Either provide "
                "more data, or a different value for the `validation_split` argument."
            )
        return _Data(*self.rows(slice(0, at))), self.rows(slice(at, None))


def _array(leaf: Any) -> Any:
    """Return an array as Keras takes it, whose floats are of its own kind; tensors are taken as they are."""
    if isinstance(leaf, TensorLike):
        return as_tensor(leaf)._value
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _by_class(weights: dict[int, float] | None) -> Callable[[Any], Any]:
    """Return what weighs each example of a batch as its class is weighed, times what it weighs already.

    keras/src/engine/data_adapter.py, _make_class_weight_map_fn
    """
    if weights is None:
        return lambda data: data
    if sorted(weights) != list(range(len(weights))):
        raise ValueError(
            "Expected `class_weight` to be a dict with keys from 0 to one less than the number of classes, "
            f"found {weights}"
        )
    of_classes = as_tensor([weights[one] for one in sorted(weights)])

    def weighed(data: Any) -> Any:
        x, y, given = unpacked(data)
        if not isinstance(y, TensorLike | np.ndarray):
            raise ValueError("`class_weight` is only supported for Models with a single output.")  # noqa: TRY004
        y = as_tensor(y)
        if y.ndim > 1 and y.shape[-1] > 1:
            classes = argmax(y, -1)
        else:
            single = OPERATIONS["squeeze"](y, axis=-1) if y.ndim > 1 else y
            classes = cast(OPERATIONS["round"](single), "int64")
        found = OPERATIONS["gather"](of_classes, classes, axis=0)
        if given is None:
            return x, y, found
        found, missing = cast(found, given.dtype), max(found.ndim - given.ndim, 0)
        return x, y, OPERATIONS["reshape"](given, shape=(*given.shape, *[1] * missing)) * found

    return weighed


def _matched(labels: Any, predictions: Any, weights: Any) -> tuple[Any, Any]:
    """Return labels and weights as losses and metrics are given them.

    They have the predictions' rank, and dtype if they are of a kind; what a mask leaves out weighs nothing.
    keras/src/engine/compile_utils.py, match_dtype_and_rank
    """
    if not isinstance(predictions, TensorLike):
        raise NotImplementedError("fit and evaluate: a model of several outputs is not supported")
    if isinstance(labels, TensorLike):
        labels = as_tensor(labels)
        if (labels.ndim, predictions.ndim) == (1, 2):
            labels = OPERATIONS["reshape"](labels, shape=(-1, 1))
        kinds = labels.dtype, predictions.dtype
        if all(kind.is_floating for kind in kinds) or all(kind.is_integer for kind in kinds):
            labels = cast(labels, predictions.dtype)
    mask = mask_of(predictions)
    if weights is None:
        return labels, mask
    weights = cast(weights, predictions.dtype)
    if (weights.ndim, predictions.ndim) == (1, 2):
        weights = OPERATIONS["expand_dims"](weights, axis=-1)
    return labels, weights if mask is None else losses.of_rank(weights, mask) * cast(mask, weights.dtype)


class _CompiledLoss:
    """The loss that was given to `compile`, and its mean so far."""

    def __init__(self, loss: Any) -> None:
        self._loss, self._mean = loss, metric_classes.Mean(name="loss")

    @property
    def metrics(self) -> list[Any]:
        return [] if self._loss is None else [self._mean]

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None, regularization_losses: Any = None
    ) -> Any:
        added = list(regularization_losses or ())
        if self._loss is None:
            return functools.reduce(operator.add, added) if added else as_tensor(0.0)
        labels, weights = _matched(y_true, y_pred, sample_weight)
        loss = self._loss(labels, y_pred, weights)
        loss = loss + functools.reduce(operator.add, added) if added else loss
        self._mean.update_state(loss, _examples(labels))
        return loss


def _examples(labels: Any) -> Any:
    leaf = flatten(labels)[0]
    return len(leaf) if np.ndim(leaf) else 1


class _CompiledMetrics:
    """The metrics that were given to `compile`; names become metrics with the first batch."""

    def __init__(self, given: list[Any]) -> None:
        self._given = flatten(given)
        self.metrics: list[Any] = []

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels, _ = _matched(y_true, y_pred, None)
        if not self.metrics:
            self.metrics = [metric_classes.as_metric(one, labels, y_pred) for one in self._given]
            names = [one.name for one in self.metrics]
            if len(set(names)) < len(names):
                raise ValueError(f"Found two metrics with the same name: {names}")
        mask = mask_of(y_pred)
        weighted = {} if mask is None else {"sample_weight": mask}
        for metric in self.metrics:
            metric.update_state(labels, y_pred, **weighted)


def _epochs(
    data: _Data, batch_size: int | None, shuffle: bool, epochs: int, steps: int | None, skipped: int = 0
) -> Iterator[_Counted]:
    """Yield the batches of each epoch, as many fewer of the first one as are skipped.

    An epoch of so many steps that are not the whole dataset begins where the last one ended, and
    training ends with the data. An epoch is as long as the first one was.
    """
    x, orders = data.x, Traced(kept=True)

    def begin() -> Iterator[Any]:
        if data.is_arrays:
            with orders.called():
                order = np.arange(len(data))
                order = np.asarray(OPERATIONS["shuffle"](order, seed=None)) if shuffle else order
            size = batch_size or _BATCH
            return (data.rows(order[start : start + size]) for start in range(0, len(order), size))
        return (element if isinstance(element, tuple) else (element,) for element in x)

    length = int(x.cardinality()) if isinstance(x, Dataset) else UNKNOWN_CARDINALITY
    if steps is None and length == INFINITE_CARDINALITY:
        raise ValueError(
            "When providing an infinite dataset, you must specify the number of steps to run "
            "(if you did not intend to create an infinite dataset, make sure to not call `repeat()` on "
            "the dataset)."
        )
    if data.is_arrays:
        is_anew, batches = steps is None and not skipped, chain.from_iterable(begin() for _ in range(epochs))
    else:
        # Keras begins a pass without drawing from it, which uses random numbers of a shuffle.
        is_anew, batches = isinstance(x, Dataset) and steps in (None, length), chain(begin())
    if steps is None and skipped:
        steps = data.steps(batch_size)
    if steps is None and length >= 0:
        steps = length
    for _ in range(epochs):
        wanted = None if steps is None else steps - skipped
        epoch = _Counted(islice(begin() if is_anew else batches, wanted), skipped)
        yield epoch
        if wanted is not None and epoch.count < wanted:
            logger.warning(
                "Your input ran out of data; interrupting training. Make sure that your dataset or generator "
                "can generate at least `steps_per_epoch * epochs` batches (in this case, %d batches).",
                wanted * epochs,
            )
            return
        steps, skipped = epoch.count + skipped, 0


class _Counted:
    """An iterator that says how much it gave, and how much was skipped before."""

    def __init__(self, iterator: Iterator[Any], skipped: int = 0) -> None:
        self._iterator, self.skipped, self.count = iterator, skipped, 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        element = next(self._iterator)
        self.count += 1
        return element


def _of_numbers(part: Any) -> Any:
    """Return a list of numbers, or of lists of them, as an array, as Keras takes it."""
    is_list = isinstance(part, list) and bool(part)
    return np.array(part) if is_list and all(isinstance(one, int | float) for one in flatten(part)) else part


def _is_arrays(x: Any) -> bool:
    leaves = flatten(x)
    return bool(leaves) and isinstance(leaves[0], np.ndarray | TensorLike | list)


def _tensors(values: Any) -> Any:
    return map_structure(as_tensor, values)
