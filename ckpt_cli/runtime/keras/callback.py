"""Callbacks: their methods, the list that calls them, and the history that `fit` returns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Callback", "CallbackList", "History", "Logs", "say"]

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
    """Callbacks in their order, which are called one after another with shared logs."""

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
    """The result of `fit`: the loss, and each metric, of every epoch."""

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
