"""compile, fit, evaluate, predict: the training loop a model brings along.

One `train_step` for each batch, eagerly.  There are no callbacks and no progress bars
here: this runtime trains to verify checkpoints, and programs that want more write the
loop themselves, as the checkpoint guide does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compiled import compiled
from ..nest import flatten, map_structure
from ..ops.elementwise import cast
from ..ops.random import generator_for
from ..tape import GradientTape
from ..tensor import OPERATIONS, TensorLike, as_tensor
from ..unknown import refuse
from . import losses, metrics, optimizers

__all__ = ["History", "Trainer"]


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
        for extra in self.losses:  # type: ignore[attr-defined]
            loss = loss + extra
        return loss

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
        for epoch in range(epochs):
            self._begin()
            logs: dict[str, Any] = {}
            for step, data in enumerate(_batches(x, y, batch_size, shuffle)):
                if steps_per_epoch is not None and step >= steps_per_epoch:
                    break
                with compiled(not self.run_eagerly):
                    logs = self.train_step(data)
            history.add(epoch, {name: float(value) for name, value in logs.items()})
        return history

    def evaluate(
        self, x: Any, y: Any = None, batch_size: int | None = None, verbose: Any = "auto", **options: Any
    ) -> Any:
        """Return the mean loss, and with metrics a list of it and them."""
        del verbose
        refuse("evaluate", **options)
        self._assert_compiled()
        self._begin()
        logs: dict[str, Any] = {}
        for data in _batches(x, y, batch_size, False):
            logs = self.test_step(data)
        values = [float(value) for value in logs.values()]
        return values[0] if len(values) == 1 else values

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", **options: Any) -> Any:
        """Return the outputs for all of x as arrays."""
        del verbose
        refuse("predict", **options)
        parts = [self.predict_step(data) for data in _batches(x, None, batch_size, False)]
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


def _batches(x: Any, y: Any, batch_size: int | None, shuffle: bool) -> Any:
    """Yield batches of arrays, or the elements of a dataset as they come."""
    leaves = flatten(x)
    if not (leaves and isinstance(leaves[0], np.ndarray | TensorLike | list)):
        for element in x:
            yield element if isinstance(element, tuple) else (element,)
        return
    arrays = map_structure(lambda leaf: as_tensor(leaf)._value, x)
    labels = map_structure(lambda leaf: as_tensor(leaf)._value, y) if y is not None else None
    size = len(flatten(arrays)[0])
    order = generator_for(None).permutation(size) if shuffle else np.arange(size)
    step = batch_size or 32
    for start in range(0, size, step):
        chosen = order[start : start + step]
        batch = map_structure(lambda leaf, chosen=chosen: as_tensor(leaf[chosen]), arrays)
        if labels is None:
            yield (batch,)
        else:
            yield batch, map_structure(lambda leaf, chosen=chosen: as_tensor(leaf[chosen]), labels)
