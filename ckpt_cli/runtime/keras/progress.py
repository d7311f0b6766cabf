"""The output of `fit`, `evaluate` and `predict`: a bar by default, a line per epoch with verbose=2.

keras/src/utils/generic_utils.py (Progbar), keras/src/callbacks.py (ProgbarLogger)
"""

from __future__ import annotations

import time

import numpy as np

from .callback import Callback, Logs, say

__all__ = ["ProgbarLogger"]

_WIDTH = 30
_INTERVAL = 0.05
"""Seconds between two updates of the bar."""


def _duration(seconds: float, unit: str) -> str:
    if seconds >= 1 or seconds == 0:
        return f" {seconds:.0f}s/{unit}"
    return f" {seconds * 1e3:.0f}ms/{unit}" if seconds >= 1e-3 else f" {seconds * 1e6:.0f}us/{unit}"


def _remaining(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    if seconds > 3600:
        return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}" if seconds > 60 else f"{rest}s"


class _Bar:
    """The progress of one epoch; `as_is` are the names of values that are means already."""

    def __init__(self, target: int | None, verbose: int) -> None:
        self.target, self._verbose, self.as_is = target, verbose, set[str]()
        self._values: dict[str, tuple[float, int]] = {}
        self._seen = self._columns = 0
        self._start, self._updated = time.time(), 0.0
        self._after_first: float | None = None

    def update(self, current: int, values: Logs, *, is_last: bool) -> None:
        for name, value in values.items():
            total, count = self._values.get(name, (0.0, 0))
            new = max(current - self._seen, 1)
            self._values[name] = (value, 1) if name in self.as_is else (total + value * new, count + new)
        self._seen, now = current, time.time()
        if self._verbose == 1:
            if now - self._updated < _INTERVAL and not is_last:
                return
            self._show_bar(current, now, is_last)
        elif self._verbose == 2 and is_last:
            self._show_line(current, now)
        self._updated = now

    def _show_bar(self, current: int, now: float, is_last: bool) -> None:
        columns, bar = self._columns, f"{current:7d}/Unknown"
        if self.target is not None:
            done = int(_WIDTH * (current / self.target))
            arrow = "=" * (done - 1) + (">" if current < self.target else "=") if done else ""
            bar = f"{self._count(current)} [{arrow}{'.' * (_WIDTH - done)}]"
        each = self._seconds_per_step(current, now)
        if self.target is None or is_last:
            text = f" - {now - self._start:.0f}s{_duration(each, 'step')}"
        else:
            text = f" - ETA: {_remaining(each * (self.target - current))}"
        text += self._shown()
        self._columns = len(bar) + len(text)
        rest = " " * (columns - self._columns)
        say("\b" * columns + "\r" + bar + text + rest + ("\n" if is_last else ""))

    def _show_line(self, current: int, now: float) -> None:
        taken = now - self._start
        times = f" -{_duration(taken, 'epoch')} -{_duration(taken / current, 'step')}"
        say(f"{self._count(current)} - {taken:.0f}s{self._shown()}{times}\n")

    def _count(self, current: int) -> str:
        assert self.target is not None
        return f"{current:{int(np.log10(self.target)) + 1}d}/{self.target}"

    def _shown(self) -> str:
        means = {name: total / max(1, count) for name, (total, count) in self._values.items()}
        # A line shows negative values like small ones; a bar does not.
        sizes = {name: abs(mean) if self._verbose == 1 else mean for name, mean in means.items()}
        return "".join(
            f" - {name}: {mean:.4f}" if sizes[name] > 1e-3 else f" - {name}: {mean:.4e}"
            for name, mean in means.items()
        )

    def _seconds_per_step(self, current: int, now: float) -> float:
        """Return how long a step takes; the first one, which is not typical, counts only by itself."""
        if not current:
            return 0
        if self._after_first is not None and current > 1:
            return (now - self._after_first) / (current - 1)
        if current == 1:
            self._after_first = now
        return (now - self._start) / current


class ProgbarLogger(Callback):
    """Prints the progress of training, or of evaluation and prediction by themselves."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: _Bar | None = None
        self._seen, self._is_fit = 0, False

    def set_params(self, params: dict[str, object]) -> None:
        super().set_params(params)
        self._target: int | None = self.params["steps"]

    def _begin(self) -> None:
        self._seen, self._bar = 0, _Bar(self._target, self.params["verbose"])

    def _update(self, batch: int, logs: Logs | None) -> None:
        self._seen = batch + 1
        if self._bar is not None and self.params["verbose"] == 1:
            self._know_metrics(self._bar)
            self._bar.update(self._seen, logs or {}, is_last=False)

    def _end(self, logs: Logs | None) -> None:
        assert self._bar is not None
        self._know_metrics(self._bar)
        self._target = self._bar.target = self._target or self._seen
        self._bar.update(self._target, logs or {}, is_last=True)

    def _know_metrics(self, bar: _Bar) -> None:
        # Metrics that are given by name exist after the first batch.
        bar.as_is |= {metric.name for metric in self.model.metrics}

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._is_fit = True

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._begin()
        if self.params["epochs"] > 1:
            say(f"Epoch {epoch + 1}/{self.params['epochs']}\n")

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._update(batch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._end(logs)

    def on_test_begin(self, logs: Logs | None = None) -> None:
        if not self._is_fit:
            self._begin()

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        if not self._is_fit:
            self._update(batch, logs)

    def on_test_end(self, logs: Logs | None = None) -> None:
        if not self._is_fit:
            self._end(logs)

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        self._begin()

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._update(batch, None)

    def on_predict_end(self, logs: Logs | None = None) -> None:
        self._end(None)
