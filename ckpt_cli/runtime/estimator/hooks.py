"""Hooks: what is called around each step of a session, with TensorFlow's names and arguments.

    begin                 once, the model_fn has been called
    after_create_session  once, variables are restored
    before_run            each step: may ask for tensors and variables with SessionRunArgs
    after_run             each step: gets their values; may ask to stop
    end                   once, unless an error ended the session

A hook gets the value of a variable from before the step. tensorflow/python/training/session_run_hook.py,
basic_session_run_hooks.py
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "LoggingTensorHook", "NanLossDuringTrainingError", "NanTensorHook", "SecondOrStepTimer",
    "SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues",
    "StopAfterNStepsHook", "StopAtStepHook",
]  # fmt: skip

logger = logging.getLogger("ckpt_cli.runtime")


class SessionRunArgs(NamedTuple):
    """A hook's request: tensors and variables, or a structure of them."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """The values for a request, in its structure."""

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """One step, as hooks see it."""

    def __init__(self, original_args: SessionRunArgs, session: Any) -> None:
        self.original_args, self.session = original_args, session
        self.stop_requested = False

    def request_stop(self) -> None:
        """End the session after this step."""
        self.stop_requested = True


class SessionRunHook:
    """Base: does nothing."""

    def begin(self) -> None:
        """Run after the model_fn."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run once variables have their values."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Run before a step, and return the requested values."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Run after a step."""

    def end(self, session: Any) -> None:
        """Run after the last step."""


class SecondOrStepTimer:
    """Says at which steps it is time again; at the first, and never twice at one step."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if (every_secs is None) == (every_steps is None):
            raise ValueError("Either every_secs or every_steps should be provided, and not both.")
        self._every_secs, self._every_steps = every_secs, every_steps
        self._last_step: int | None = None
        self._last_time = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        if self._last_step is None:
            return True
        if self._last_step == step:
            return False
        if self._every_secs is not None:
            return time.time() >= self._last_time + self._every_secs
        assert self._every_steps is not None
        return step >= self._last_step + self._every_steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note a step; return the seconds and the steps since the one before, None where there was none."""
        now, last = time.time(), self._last_step
        elapsed = (None, None) if last is None else (now - self._last_time, step - last)
        self._last_step, self._last_time = step, now
        return elapsed

    def last_triggered_step(self) -> int | None:
        return self._last_step


def _global_step() -> Any:
    from ..compat.v1.train import get_global_step

    step = get_global_step()
    if step is None:
        raise RuntimeError("Global step should be created to use this hook.")
    return step


class StopAtStepHook(SessionRunHook):
    """Stops after so many steps, or at a step of the global count."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise ValueError("Exactly one of num_steps and last_step must be specified.")
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self) -> None:
        self._step = _global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._num_steps is not None:
            self._last_step = int(self._step) + self._num_steps

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        assert self._last_step is not None
        if int(self._step) >= self._last_step:
            run_context.request_stop()


class StopAfterNStepsHook(SessionRunHook):
    """Stops after this many batches, regardless of the global step: evaluation's `steps`."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


class NanLossDuringTrainingError(RuntimeError):
    """The loss is no longer a number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Raises, or stops, when the loss is not a number, before that can be saved."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fails = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not np.isnan(run_values.results):
            return
        message = "Model diverged with loss = NaN."
        if self._fails:
            logger.error(message)
            raise NanLossDuringTrainingError
        logger.warning(message)
        run_context.request_stop()


class LoggingTensorHook(SessionRunHook):
    """Logs tensors, every so many steps or seconds."""

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        if not isinstance(tensors, dict):
            tensors = {getattr(tensor, "name", str(index)): tensor for index, tensor in enumerate(tensors)}
        self._tensors, self._formatter, self._at_end = tensors, formatter, at_end
        is_timed = every_n_iter is not None or every_n_secs is not None
        self._timer = SecondOrStepTimer(every_n_secs, every_n_iter) if is_timed else None
        self._count = 0

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._is_due = self._timer is not None and self._timer.should_trigger_for_step(self._count)
        return SessionRunArgs(self._tensors) if self._is_due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if self._is_due:
            self._log(run_values.results)
        self._count += 1

    def _log(self, values: dict[str, Any]) -> None:
        seconds = None
        if self._timer is not None:
            seconds, _ = self._timer.update_last_triggered_step(self._count)
        if self._formatter is not None:
            logger.info(self._formatter(values))
            return
        told = ", ".join(f"{name} = {value}" for name, value in values.items())
        logger.info("%s%s", told, "" if seconds is None else f" ({seconds:.3f} sec)")

    def end(self, session: Any) -> None:
        if self._at_end:
            self._log(session.run(self._tensors))
