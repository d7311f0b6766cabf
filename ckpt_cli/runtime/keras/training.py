"""compile, fit, evaluate, predict: the training loop a model brings along.

One `train_step` for each batch, eagerly.  There are no callbacks and no progress bars
here: this runtime trains to verify checkpoints, and programs that want more write the
loop themselves, as the checkpoint guide does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..nest import flatten, map_structure
from ..ops.random import generator_for
from ..tape import GradientTape
from ..tensor import TensorLike, as_tensor
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

    def compile(
        self, optimizer: Any = "rmsprop", loss: Any = None, metrics: Any = None, **options: Any
    ) -> None:
        """Say what to train with."""
        (
            options.pop("run_eagerly", None),
            options.pop("jit_compile", None),
            options.pop("steps_per_execution", None),
        )
        refuse("compile", **options)
        self.optimizer = optimizers.get(optimizer)
        object.__setattr__(self, "loss", None if loss is None else losses.get(loss))
        object.__setattr__(self, "_metric_names", list(metrics or []))

    def _compiled(self) -> Any:
        if getattr(self, "optimizer", None) is None or getattr(self, "loss", None) is None:
            raise RuntimeError(
                "You must compile your model before training/testing. Use `model.compile(optimizer, loss)`."
            )
        return self.loss

    def train_step(self, x: Any, y: Any) -> Any:
        """Take one step on one batch; return the loss and the predictions."""
        loss_function = self._compiled()
        with GradientTape() as tape:
            predictions = self(x, training=True)  # type: ignore[operator]
            loss = loss_function(y, predictions)
            for extra in self.losses:  # type: ignore[attr-defined]
                loss = loss + extra
        variables = self.trainable_variables  # type: ignore[attr-defined]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss, predictions

    def fit(
        self, x: Any, y: Any = None, batch_size: int | None = None, epochs: int = 1, verbose: Any = "auto",
        shuffle: bool = True, steps_per_epoch: int | None = None, **options: Any,
    ) -> History:  # fmt: skip
        """Train for some epochs over arrays or a dataset of (x, y)."""
        del verbose
        refuse("fit", **options)
        self._compiled()
        history = History()
        for epoch in range(epochs):
            total, count, seen = 0.0, 0, _Metrics(self._metric_names)  # type: ignore[attr-defined]
            for step, (batch_x, batch_y) in enumerate(_batches(x, y, batch_size, shuffle)):
                if steps_per_epoch is not None and step >= steps_per_epoch:
                    break
                loss, predictions = self.train_step(batch_x, batch_y)
                size = len(flatten(batch_x)[0])
                total, count = total + float(loss) * size, count + size
                seen.update(batch_y, predictions)
            history.add(epoch, {"loss": total / max(count, 1), **seen.result()})
        return history

    def evaluate(
        self, x: Any, y: Any = None, batch_size: int | None = None, verbose: Any = "auto", **options: Any
    ) -> Any:
        """Return the mean loss, and with metrics a list of it and them."""
        del verbose
        refuse("evaluate", **options)
        loss_function = self._compiled()
        total, count, seen = 0.0, 0, _Metrics(self._metric_names)  # type: ignore[attr-defined]
        for batch_x, batch_y in _batches(x, y, batch_size, False):
            predictions = self(batch_x, training=False)  # type: ignore[operator]
            size = len(flatten(batch_x)[0])
            total, count = total + float(loss_function(batch_y, predictions)) * size, count + size
            seen.update(batch_y, predictions)
        loss = total / max(count, 1)
        return [loss, *seen.result().values()] if seen.result() else loss

    def predict(self, x: Any, batch_size: int | None = None, verbose: Any = "auto", **options: Any) -> Any:
        """Return the outputs for all of x as arrays."""
        del verbose
        refuse("predict", **options)
        parts = [self(batch, training=False) for batch, _ in _batches(x, None, batch_size, False)]  # type: ignore[operator]
        return map_structure(lambda *pieces: np.concatenate([piece.numpy() for piece in pieces]), *parts)


class _Metrics:
    """The metrics of one pass over the data."""

    def __init__(self, names: list[Any]) -> None:
        self._metrics = {getattr(name, "name", str(name)): metrics.get(name) for name in names}

    def update(self, y: Any, predictions: Any) -> None:
        for metric in self._metrics.values():
            metric.update_state(y, predictions)

    def result(self) -> dict[str, float]:
        return {name: float(metric.result()) for name, metric in self._metrics.items()}


def _batches(x: Any, y: Any, batch_size: int | None, shuffle: bool) -> Any:
    """Yield batches of arrays, or the elements of a dataset as they come."""
    leaves = flatten(x)
    if not (leaves and isinstance(leaves[0], np.ndarray | TensorLike | list)):
        for element in x:
            yield element if isinstance(element, tuple) and len(element) == 2 else (element, None)
        return
    arrays = map_structure(lambda leaf: as_tensor(leaf)._value, x)
    labels = map_structure(lambda leaf: as_tensor(leaf)._value, y) if y is not None else None
    size = len(flatten(arrays)[0])
    order = generator_for(None).permutation(size) if shuffle else np.arange(size)
    step = batch_size or 32
    for start in range(0, size, step):
        chosen = order[start : start + step]
        batch = map_structure(lambda leaf, chosen=chosen: as_tensor(leaf[chosen]), arrays)
        yield (
            batch,
            map_structure(lambda leaf, chosen=chosen: as_tensor(leaf[chosen]), labels)
            if labels is not None
            else None,
        )
