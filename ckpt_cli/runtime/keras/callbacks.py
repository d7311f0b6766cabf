"""Callbacks: what a program has to say while `fit` goes through its epochs.

keras/src/callbacks.py
"""

from __future__ import annotations

import logging
import math
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ..unknown import absent, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback", "LearningRateScheduler",
    "ModelCheckpoint", "TerminateOnNaN",
]  # fmt: skip

logger = logging.getLogger("ckpt_cli.runtime")

Logs = dict[str, float]


def say(text: str) -> None:
    """Print on standard output what Keras prints there."""
    sys.stdout.write(text)
    sys.stdout.flush()


class Callback:
    """Base: every method does nothing.  `model` and `params` are set before training begins."""

    model: Any
    params: dict[str, Any]

    def __init__(self) -> None:
        self.model = None
        self.params = {}

    def set_model(self, model: Any) -> None:
        self.model = model

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def on_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...

    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None: ...

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.on_batch_end(batch, logs)

    def on_train_begin(self, logs: Logs | None = None) -> None: ...

    def on_train_end(self, logs: Logs | None = None) -> None: ...

    def on_test_begin(self, logs: Logs | None = None) -> None: ...

    def on_test_end(self, logs: Logs | None = None) -> None: ...

    def on_predict_begin(self, logs: Logs | None = None) -> None: ...

    def on_predict_end(self, logs: Logs | None = None) -> None: ...

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None: ...

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None: ...

    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None: ...

    def on_predict_batch_begin(self, batch: int, logs: Logs | None = None) -> None: ...

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None: ...


class CallbackList:
    """Callbacks in their order, each told in turn of what happens, with logs that all of them share."""

    def __init__(self, callbacks: Iterable[Any], model: Any, **params: Any) -> None:
        self._callbacks = list(callbacks)
        for callback in self._callbacks:
            callback.set_params(params)
            callback.set_model(model)

    def tell(self, method: str, *what: Any, logs: Logs | None = None) -> None:
        logs = {} if logs is None else logs
        for callback in self._callbacks:
            getattr(callback, method)(*what, logs)


class History(Callback):
    """What `fit` returns: the loss, and each metric, of every epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.epoch = []

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(value)
        self.model._put("history", self)


class LambdaCallback(Callback):
    """Functions in place of methods."""

    def __init__(
        self,
        on_epoch_begin: Callable[..., Any] | None = None,
        on_epoch_end: Callable[..., Any] | None = None,
        on_batch_begin: Callable[..., Any] | None = None,
        on_batch_end: Callable[..., Any] | None = None,
        on_train_begin: Callable[..., Any] | None = None,
        on_train_end: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        given = {
            "on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, "on_batch_begin": on_batch_begin,
            "on_batch_end": on_batch_end, "on_train_begin": on_train_begin, "on_train_end": on_train_end,
            **kwargs,
        }  # fmt: skip
        self.__dict__.update({name: function for name, function in given.items() if function is not None})


class TerminateOnNaN(Callback):
    """Ends training at a loss that is no number, or infinite."""

    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            say(f"Batch {batch}: Invalid loss, terminating training" + "\n")
            self.model.stop_training = True


class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch: `schedule(epoch, rate)` returns it."""

    def __init__(self, schedule: Callable[..., Any], verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        optimizer = self.model.optimizer
        try:
            rate = self.schedule(epoch, float(optimizer.learning_rate))
        except TypeError:  # It takes the epoch alone.
            rate = self.schedule(epoch)
        if not isinstance(rate, float | np.floating) and getattr(rate, "shape", None) != ():
            raise ValueError(f'The output of the "schedule" function should be float. Got: {rate}')
        optimizer.learning_rate = float(rate)
        if self.verbose > 0:
            say(f"\nEpoch {epoch + 1}: LearningRateScheduler setting learning rate to {rate}." + "\n")

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate)


class _Monitor(Callback):
    """Looks at one number of the logs, which is to fall, or to rise where `mode` or its name says so."""

    def __init__(self, monitor: str, mode: str, rising: Callable[[str], bool]) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            logger.warning("%s mode %s is unknown, fallback to auto mode.", type(self).__name__, mode)
            mode = "auto"
        self.monitor = monitor
        self.rises = mode == "max" or (mode == "auto" and rising(monitor))
        self.best: float = -math.inf if self.rises else math.inf

    def is_better(self, value: float, other: float, least: float = 0.0) -> bool:
        """Whether a value is better than another, by more than the least that counts."""
        return bool(value - least > other if self.rises else value + least < other)


class ModelCheckpoint(_Monitor):
    """Saves the weights after each epoch, or so many batches; with `save_best_only`, if they are better.

    `filepath` may have places for `epoch`, `batch` and what the logs have.
    """

    def __init__(
        self,
        filepath: Any,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        options: Any = None,
        initial_value_threshold: float | None = None,
        **kwargs: Any,
    ) -> None:
        refuse("ModelCheckpoint", **kwargs)
        if not save_weights_only:
            raise NotImplementedError("ModelCheckpoint: save_weights_only=False is not supported")
        if save_freq != "epoch" and type(save_freq) is not int:
            raise ValueError(
                f'Unrecognized save_freq: {save_freq}. Expected save_freq are "epoch" or integer values'
            )
        super().__init__(monitor, mode, lambda name: "acc" in name or name.startswith("fmeasure"))
        self.filepath, self.verbose, self.options = os.fspath(filepath), verbose, options
        self.save_best_only, self.save_freq = save_best_only, save_freq
        if initial_value_threshold is not None:
            self.best = initial_value_threshold
        self._epoch = self._batches = 0

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._batches += 1
        if self.save_freq != "epoch" and self._batches >= self.save_freq:
            self._batches = 0
            self._save({"batch": batch + 1, **(logs or {})})

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_freq == "epoch":
            self._save(logs or {})

    def _save(self, logs: dict[str, Any]) -> None:
        try:
            path = self.filepath.format(epoch=self._epoch + 1, **logs)
        except KeyError as error:
            raise KeyError(
                f'Failed to format this callback filepath: "{self.filepath}". Reason: {error}'
            ) from error
        if self.save_best_only:
            current = logs.get(self.monitor)
            if current is None:
                logger.warning("Can save best model only with %s available, skipping.", self.monitor)
                return
            if not self.is_better(current, self.best):
                self._say(f"{self.monitor} did not improve from {self.best:.5f}")
                return
            self._say(
                f"{self.monitor} improved from {self.best:.5f} to {current:.5f}, saving model to {path}"
            )
            self.best = current
        else:
            self._say(f"saving model to {path}")
        self.model.save_weights(path, overwrite=True, options=self.options)

    def _say(self, what: str) -> None:
        if self.verbose > 0:
            say(f"\nEpoch {self._epoch + 1}: {what}" + "\n")


class EarlyStopping(_Monitor):
    """Ends training when a number has not got better for more than `patience` epochs."""

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        def rising(name: str) -> bool:
            return name.endswith(("acc", "accuracy", "auc"))

        super().__init__(monitor, mode, rising)
        self.min_delta, self.patience, self.verbose = abs(min_delta), patience, verbose
        self.baseline, self.start_from_epoch = baseline, start_from_epoch
        self.restore_best_weights = restore_best_weights
        self.best_weights: list[Any] | None = None
        self.wait = self.stopped_epoch = self.best_epoch = 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best = -math.inf if self.rises else math.inf
        self.best_weights = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        current = (logs or {}).get(self.monitor)
        if current is None:
            logger.warning("Early stopping conditioned on metric `%s` which is not available.", self.monitor)
            return
        if epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights = self.model.get_weights()
        self.wait += 1
        if self.is_better(current, self.best, self.min_delta):
            self.best, self.best_epoch = current, epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            if self.baseline is None or self.is_better(current, self.baseline, self.min_delta):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True
            if self.best_weights is not None:
                if self.verbose > 0:
                    epoch = self.best_epoch + 1
                    say(f"Restoring model weights from the end of the best epoch: {epoch}." + "\n")
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.stopped_epoch > 0 and self.verbose > 0:
            say(f"Epoch {self.stopped_epoch + 1}: early stopping" + "\n")


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
