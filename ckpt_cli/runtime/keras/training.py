"""compile, fit, evaluate, predict: the training loop a model brings along.

One `train_step` for each batch, eagerly.  There are no callbacks and no progress bars
here: this runtime trains to verify checkpoints, and programs that want more write the
loop themselves, as the checkpoint guide does.
"""

from __future__ import annotations

import functools
import logging
import operator
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiled import compiled
from ..data import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset
from ..nest import flatten, map_structure
from ..ops.elementwise import cast
from ..ops.random import Traced
from ..tape import GradientTape
from ..tensor import OPERATIONS, TensorLike, as_tensor
from ..unknown import refuse
from . import losses, metrics, optimizers

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["History", "Trainer"]


logger = logging.getLogger("ckpt_cli.runtime")


class History:
    """What `fit` returns: the loss, and each metric, of every epoch."""

    def __init__(self) -> None:
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def add(self, epoch: int, logs: dict[str, float]) -> None:
        self.epoch.append(epoch)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(value)


class Trainer:
    """The part of a model that trains it."""

    optimizer: Any
    loss: Any
    run_eagerly: bool
    _training: Traced | None

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, **options: Any
    ) -> None:
        """Say what to train with."""
        for harmless in ("jit_compile", "steps_per_execution"):
            options.pop(harmless, None)
        object.__setattr__(self, "run_eagerly", bool(options.pop("run_eagerly", False)))
        refuse("compile", **options)
        self.optimizer = optimizers.get(optimizer)
        object.__setattr__(self, "loss", None if loss is None else losses.get(loss))
        object.__setattr__(self, "_metric_names", list(metrics or []))
        object.__setattr__(self, "_training", None)
        self._begin()

    def _assert_compiled(self) -> None:
        if "_metric_names" not in self.__dict__:
            raise RuntimeError(
                "You must compile your model before training/testing. Use `model.compile(optimizer, loss)`."
            )

    def _loss_function(self) -> Any:
        self._assert_compiled()
        if self.loss is None:
            raise ValueError("no loss was given to compile(), and this step computes none of its own")
        return self.loss

    def _begin(self) -> None:
        """Begin to count: what `train_step` and `test_step` return are means over what follows."""
        object.__setattr__(self, "_progress", _Progress(self._metric_names))  # type: ignore[attr-defined]

    def train_step(self, data: Any) -> dict[str, Any]:
        """Take one step on one batch, (x, y); return loss and metrics by name. Models may have another."""
        x, y = unpacked(data)
        loss_function = self._loss_function()
        with GradientTape() as tape:
            predictions = self(x, training=True)  # type: ignore[operator]
            y = _matched(y, predictions)
            loss = self._with_added_losses(loss_function(y, predictions))
        variables = self.trainable_variables  # type: ignore[attr-defined]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return self._progress.after(x, y, loss, predictions)  # type: ignore[attr-defined]

    def test_step(self, data: Any) -> dict[str, Any]:
        """Compute loss and metrics of one batch, (x, y). Models may have another."""
        x, y = unpacked(data)
        predictions = self(x, training=False)  # type: ignore[operator]
        y = _matched(y, predictions)
        loss = self._with_added_losses(self._loss_function()(y, predictions))
        return self._progress.after(x, y, loss, predictions)  # type: ignore[attr-defined]

    def _with_added_losses(self, loss: Any) -> Any:
        added = self.losses  # type: ignore[attr-defined]
        return loss + functools.reduce(operator.add, added) if added else loss

    def predict_step(self, data: Any) -> Any:
        """Return the outputs for one batch. Models may have another."""
        return self(unpacked(data)[0], training=False)  # type: ignore[operator]

    def fit(
        self, x: Any, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = "auto",
        shuffle: bool = True, steps_per_epoch: int | None = None, **options: Any,
    ) -> History:  # fmt: skip
        """Train for some epochs over arrays or a dataset of (x, y)."""
        del verbose
        refuse("fit", **options)
        self._assert_compiled()
        history = History()
        logs: dict[str, Any] = {}
        for epoch, batches in enumerate(_epochs(x, y, batch_size, shuffle, epochs, steps_per_epoch)):
            self._begin()
            for data in batches:
                with self._as_compiled():
                    logs = self.train_step(data)
            if not logs:
                raise ValueError("Unexpected result of `train_function` (Empty Logs): there is no batch.")
            if not batches.count:
                logs = dict.fromkeys(logs, 0.0)  # As metrics that count nothing.
            history.add(epoch, {name: float(value) for name, value in logs.items()})
        return history

    @contextmanager
    def _as_compiled(self) -> Iterator[None]:
        """Run a step as Keras compiles it, once for all calls of `fit` after `compile`."""
        if self.run_eagerly:
            yield
            return
        traced = self._training or Traced()
        object.__setattr__(self, "_training", traced)
        with compiled(), traced.called():
            yield

    def evaluate(
        self, x: Any, y: Any = None, batch_size: int | None = None, verbose: Any = "auto", **options: Any
    ) -> Any:
        """Return the mean loss, and with metrics a list of it and them."""
        del verbose
        refuse("evaluate", **options)
        self._assert_compiled()
        self._begin()
        logs: dict[str, Any] = {}
        for data in chain.from_iterable(_epochs(x, y, batch_size, False, 1, None)):
            logs = self.test_step(data)
        values = [float(value) for value in logs.values()]
        return values[0] if len(values) == 1 else values

    def train_on_batch(self, x: Any, y: Any = None, **options: Any) -> Any:
        """Take one step on one batch; return the loss, with metrics a list, or by `return_dict` a dict."""
        return self._on_batch("train_on_batch", self.train_step, x, y, **options)

    def test_on_batch(self, x: Any, y: Any = None, **options: Any) -> Any:
        """Compute loss and metrics of one batch, as `train_on_batch` returns them."""
        return self._on_batch("test_on_batch", self.test_step, x, y, **options)

    def _on_batch(
        self, name: str, step: Any, x: Any, y: Any, reset_metrics: bool = True, return_dict: bool = False,
        **options: Any,
    ) -> Any:  # fmt: skip
        refuse(name, **options)
        self._assert_compiled()
        if reset_metrics:
            self._begin()
        (data,) = _batches_of_arrays(x, y, len(flatten(x)[0]), np.arange(len(flatten(x)[0])))
        with self._as_compiled():
            logs = {key: float(value) for key, value in step(data).items()}
        values = list(logs.values())
        return logs if return_dict else values[0] if len(values) == 1 else values

    def predict_on_batch(self, x: Any) -> Any:
        """Return the outputs for one batch as arrays."""
        return map_structure(lambda output: output.numpy(), self.predict_step((_tensors(x),)))

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", **options: Any) -> Any:
        """Return the outputs for all of x as arrays."""
        del verbose
        refuse("predict", **options)
        batches = chain.from_iterable(_epochs(x, None, batch_size, False, 1, None))
        parts = [self.predict_step(data) for data in batches]
        return map_structure(lambda *pieces: np.concatenate([piece.numpy() for piece in pieces]), *parts)


def unpacked(data: Any) -> tuple[Any, Any]:
    """Return the inputs and labels of a batch, None where it has no labels."""
    if not isinstance(data, tuple):
        return data, None
    if len(data) > 2:
        raise NotImplementedError("a batch with sample weights is not known here")
    return (data[0], data[1]) if len(data) == 2 else (data[0], None)


def _matched(labels: Any, predictions: Any) -> Any:
    """Return labels as losses and metrics are given them: of the predictions' rank, and dtype if of a kind.

    keras/engine/compile_utils.py, match_dtype_and_rank
    """
    if not (isinstance(labels, TensorLike) and isinstance(predictions, TensorLike)):
        return labels
    labels = as_tensor(labels)
    if (labels.ndim, predictions.ndim) == (1, 2):
        labels = OPERATIONS["reshape"](labels, shape=(-1, 1))
    kinds = labels.dtype, predictions.dtype
    if all(kind.is_floating for kind in kinds) or all(kind.is_integer for kind in kinds):
        labels = cast(labels, predictions.dtype)
    return labels


class _Progress:
    """The loss and the metrics of one pass over the data, as far as it has got."""

    def __init__(self, names: list[Any]) -> None:
        self._total, self._count, self._metrics = 0.0, 0, _Metrics(names)

    def after(self, x: Any, y: Any, loss: Any, predictions: Any) -> dict[str, float]:
        """Count one batch, and return the means so far."""
        size = len(flatten(x)[0])
        self._total += float(loss) * size
        self._count += size
        self._metrics.update(y, predictions)
        return {"loss": self._total / self._count, **self._metrics.result()}


class _Metrics:
    """The metrics of one pass over the data."""

    def __init__(self, names: list[Any]) -> None:
        self._given = {getattr(name, "name", str(name)): name for name in names}
        self._metrics: dict[str, Any] = {}

    def update(self, y: Any, predictions: Any) -> None:
        if not self._metrics:
            self._metrics = {name: metrics.get(one, y, predictions) for name, one in self._given.items()}
        for metric in self._metrics.values():
            metric.update_state(y, predictions)

    def result(self) -> dict[str, float]:
        return {name: float(metric.result()) for name, metric in self._metrics.items()}


def _epochs(
    x: Any, y: Any, batch_size: int | None, shuffle: bool, epochs: int, steps: int | None
) -> Iterator[_Counted]:
    """Yield the batches of each epoch.

    An epoch of so many steps that are not the whole dataset begins where the last one ended, and
    training ends with the data. An epoch is as long as the first one was.
    """
    orders = Traced(kept=True)

    def begin() -> Iterator[Any]:
        if _is_arrays(x):
            with orders.called():
                size = len(flatten(x)[0])
                order = OPERATIONS["shuffle"](np.arange(size), seed=None) if shuffle else np.arange(size)
            return _batches_of_arrays(x, y, batch_size, np.asarray(order))
        return (element if isinstance(element, tuple) else (element,) for element in x)

    length = int(x.cardinality()) if isinstance(x, Dataset) else UNKNOWN_CARDINALITY
    if steps is None and length == INFINITE_CARDINALITY:
        raise ValueError(
            "When providing an infinite dataset, you must specify the number of steps to run "
            "(if you did not intend to create an infinite dataset, make sure to not call `repeat()` on "
            "the dataset)."
        )
    if _is_arrays(x):
        is_anew, batches = steps is None, chain.from_iterable(begin() for _ in range(epochs))
    else:
        # Keras begins a pass that nobody draws from, which takes random numbers of a shuffle.
        is_anew, batches = isinstance(x, Dataset) and steps in (None, length), chain(begin())
    if steps is None and length >= 0:
        steps = length
    for _ in range(epochs):
        epoch = _Counted(islice(begin() if is_anew else batches, steps))
        yield epoch
        if steps is not None and epoch.count < steps:
            logger.warning(
                "Your input ran out of data; interrupting training. Make sure that your dataset or generator "
                "can generate at least `steps_per_epoch * epochs` batches (in this case, %d batches).",
                steps * epochs,
            )
            return
        steps = epoch.count


class _Counted:
    """An iterator that says how much it gave."""

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator, self.count = iterator, 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        element = next(self._iterator)
        self.count += 1
        return element


def _is_arrays(x: Any) -> bool:
    leaves = flatten(x)
    return bool(leaves) and isinstance(leaves[0], np.ndarray | TensorLike | list)


def _tensors(values: Any) -> Any:
    return map_structure(as_tensor, values)


def _batches_of_arrays(x: Any, y: Any, batch_size: int | None, order: Any) -> Iterator[Any]:
    arrays = map_structure(lambda leaf: as_tensor(leaf)._value, x)
    labels = map_structure(lambda leaf: as_tensor(leaf)._value, y) if y is not None else None
    step = batch_size or 32
    for start in range(0, len(order), step):
        chosen = order[start : start + step]
        batch = map_structure(lambda leaf, chosen=chosen: as_tensor(leaf[chosen]), arrays)
        if labels is None:
            yield (batch,)
        else:
            yield batch, map_structure(lambda leaf, chosen=chosen: as_tensor(leaf[chosen]), labels)
