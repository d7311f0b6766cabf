"""Callbacks: what a program has to say while `fit` goes through its epochs.

keras/src/callbacks.py
"""

from __future__ import annotations

import csv
import logging
import math
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np

from ..checkpoint import Checkpoint
from ..manager import CheckpointManager
from ..unknown import absent, refuse
from ..variable import Variable
from .callback import Callback, CallbackList, History, Logs, say

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BackupAndRestore", "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback",
    "LearningRateScheduler", "ModelCheckpoint", "ReduceLROnPlateau", "TerminateOnNaN",
]  # fmt: skip

logger = logging.getLogger("ckpt_cli.runtime")


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
    """Ends training if the loss is NaN or infinite."""

    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            say(f"Batch {batch}: Invalid loss, terminating training" + "\n")
            self.model.stop_training = True


def _rate_of(model: Any) -> Any:
    """Return the learning rate as a NumPy number, as Keras does."""
    return np.float32(model.optimizer.learning_rate)


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
            logs["lr"] = _rate_of(self.model)


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
    """Saves the model, or its weights, after each epoch or so many batches; perhaps only if they are better.

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
        if save_freq != "epoch" and type(save_freq) is not int:
            raise ValueError(
                f'Unrecognized save_freq: {save_freq}. Expected save_freq are "epoch" or integer values'
            )
        super().__init__(monitor, mode, lambda name: "acc" in name or name.startswith("fmeasure"))
        self.filepath, self.verbose, self.options = os.fspath(filepath), verbose, options
        self.save_best_only, self.save_freq = save_best_only, save_freq
        self.save_weights_only = save_weights_only
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
        if self.save_weights_only:
            self.model.save_weights(path, overwrite=True, options=self.options)
        else:
            refuse("ModelCheckpoint", options=self.options)
            self.model.save(path, overwrite=True)

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


class ReduceLROnPlateau(_Monitor):
    """Lowers the learning rate by a factor when a number has not got better for `patience` epochs."""

    def __init__(
        self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0,
        mode: str = "auto", min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0, **kwargs: Any,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError(f"ReduceLROnPlateau does not support a factor >= 1.0. Got {factor}")
        min_delta = kwargs.pop("epsilon", min_delta)
        refuse("ReduceLROnPlateau", **kwargs)
        super().__init__(monitor, mode, lambda name: "acc" in name)
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.min_delta, self.cooldown, self.min_lr = min_delta, cooldown, min_lr
        self.on_train_begin()

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self.wait = self.cooldown_counter = 0
        self.best = -math.inf if self.rises else math.inf

    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = {} if logs is None else logs
        logs["lr"] = _rate_of(self.model)
        current = logs.get(self.monitor)
        if current is None:
            known = ",".join(logs)
            logger.warning(
                "Learning rate reduction is conditioned on metric `%s` which is not available. Available "
                "metrics are: %s", self.monitor, known,
            )  # fmt: skip
            return
        if self.in_cooldown():
            self.cooldown_counter -= 1
            self.wait = 0
        if current > self.best + self.min_delta if self.rises else current < self.best - self.min_delta:
            self.best, self.wait = current, 0
        elif not self.in_cooldown():
            self.wait += 1
            if self.wait >= self.patience and logs["lr"] > np.float32(self.min_lr):
                self._reduce(epoch, float(logs["lr"]))

    def _reduce(self, epoch: int, rate: float) -> None:
        rate = max(rate * self.factor, self.min_lr)
        self.model.optimizer.learning_rate = rate
        if self.verbose > 0:
            say(f"\nEpoch {epoch + 1}: ReduceLROnPlateau reducing learning rate to {rate}." + "\n")
        self.cooldown_counter, self.wait = self.cooldown, 0


class CSVLogger(Callback):
    """Writes the numbers of each epoch to a CSV file."""

    def __init__(self, filename: Any, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename, self.sep, self.append = os.fspath(filename), separator, append
        self.keys: list[str] | None = None
        self._has_header = False

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if self.append and os.path.exists(self.filename):
            self._has_header = self._has_header or os.path.getsize(self.filename) > 0
        self.csv_file = open(self.filename, "a" if self.append else "w", encoding="utf-8", newline="")  # noqa: SIM115
        self._is_begun = False

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        logs = logs or {}
        if self.keys is None:
            self.keys = sorted(logs)
            if not any(key.startswith("val_") for key in self.keys):
                self.keys += [f"val_{key}" for key in self.keys]
        writer = csv.writer(self.csv_file, delimiter=self.sep)
        if not self._is_begun and not self._has_header:
            writer.writerow(["epoch", *self.keys])
        self._is_begun = True
        writer.writerow([epoch, *(_in_csv(logs.get(key, "NA")) for key in self.keys)])
        self.csv_file.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.csv_file.close()


def _in_csv(value: Any) -> Any:
    return f'"[{", ".join(map(str, value))}]"' if np.ndim(value) and not isinstance(value, str) else value


class BackupAndRestore(Callback):
    """Saves model and optimizer while `fit` trains; a `fit` that was interrupted continues from there.

        <backup_dir>/chief/ckpt-N    model, ckpt_saved_epoch, ckpt_saved_batch, train_counter

    keras/src/distribute/worker_training_state.py
    """

    def __init__(
        self, backup_dir: Any, save_freq: Any = "epoch", delete_checkpoint: bool = True,
        save_before_preemption: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        refuse("BackupAndRestore", save_before_preemption=save_before_preemption)
        if not save_freq:
            raise ValueError("Either `save_freq` or `save_before_preemption` must be set.")
        self.backup_dir, self.save_freq, self.delete_checkpoint = backup_dir, save_freq, delete_checkpoint
        self._batches = 0

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._epoch = Variable(-1, dtype="int64", name="ckpt_saved_epoch")
        self._batch = Variable(-1, dtype="int64", name="ckpt_saved_batch")
        self._counter = Variable(0, dtype="int64", trainable=False)
        checkpoint = Checkpoint(
            model=self.model, ckpt_saved_epoch=self._epoch, ckpt_saved_batch=self._batch,
            train_counter=self._counter,
        )  # fmt: skip
        directory = os.path.join(os.fspath(self.backup_dir), "chief")
        self._manager = CheckpointManager(checkpoint, directory, max_to_keep=1)
        self._manager.restore_or_initialize()
        self.model._put("_resumed", self._resumed)

    def _resumed(self, initial_epoch: int, steps: int | None) -> tuple[int, int]:
        """Return the epoch and its step to begin with."""
        epoch, batch = int(self._epoch), int(self._batch)
        if self.save_freq == "epoch":
            return (epoch + 1 if epoch >= 0 else initial_epoch), 0
        if batch < 0:
            return initial_epoch, 0
        return (epoch + 1, 0) if steps is not None and batch == steps - 1 else (epoch, batch + 1)

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self._batch.assign(batch)

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._counter.assign_add(1)
        if self.save_freq != "epoch":
            self._batches += 1
            if self._batches >= self.save_freq:
                self._batches = 0
                self._manager.save()

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch.assign(epoch)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self.save_freq == "epoch":
            self._manager.save()

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.delete_checkpoint:
            shutil.rmtree(self._manager.directory, ignore_errors=True)
        del self.model.__dict__["_resumed"]


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
