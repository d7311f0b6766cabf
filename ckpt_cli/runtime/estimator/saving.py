"""The hooks that leave something in a run directory: checkpoints, and events for TensorBoard.

model.ckpt-<step>     at the beginning, unless it is what was restored, then every so
                      many seconds or steps, and at the end
events.out.tfevents.* START and CHECKPOINT as they happen, `loss` of the first step and
                      every save_summary_steps, `global_step/sec` every log_step_count_steps
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from formats.location import parse_location
from formats.tf.run.events import CHECKPOINT, START, EventWriter

from ..unknown import refuse
from .hooks import SecondOrStepTimer, SessionRunArgs, SessionRunHook, _global_step

if TYPE_CHECKING:
    from .hooks import SessionRunContext, SessionRunValues

__all__ = ["CheckpointSaverHook", "CheckpointSaverListener", "RunEvents", "StepCounterHook", "SummaryHook"]

logger = logging.getLogger("ckpt_cli.runtime")
_MOST_WARNINGS = 5


class RunEvents:
    """The event file of one call; made when there is something to tell."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._writer: EventWriter | None = None

    @property
    def writer(self) -> EventWriter:
        if self._writer is None:
            self._writer = EventWriter(self.directory)
        return self._writer

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class CheckpointSaverListener:
    """The base of listeners to saves; it does nothing."""

    def begin(self) -> None:
        """Run before training."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Run before a save."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """Run after a save, and return True to stop training."""

    def end(self, session: Any, global_step_value: int) -> None:
        """Run after the last save."""


class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint at the beginning, every so often, and at the end."""

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Any = None,
        save_graph_def: bool = True,
        events: RunEvents | None = None,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver, self._scaffold = saver, scaffold
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or ())
        self._owns_events = events is None
        self._events = events if events is not None else RunEvents(checkpoint_dir)

    def add_listeners(self, listeners: Any) -> None:
        self._listeners += [one for one in listeners if one not in self._listeners]

    def begin(self) -> None:
        self._step = _global_step()
        for listener in self._listeners:
            listener.begin()

    def _get_saver(self) -> Any:
        return self._saver if self._saver is not None else self._scaffold.saver

    def after_create_session(self, session: Any, coord: Any) -> None:
        step = int(self._step)
        # A checkpoint that was just restored is not written again: it may hold more than this model does.
        if self._get_saver().restored_from != parse_location(f"{self._save_path}-{step}").real():
            self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(self._step)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session: Any) -> None:
        step = int(self._step)
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)
        if self._owns_events:
            self._events.close()

    def _save(self, session: Any, step: int) -> bool:
        """Save a checkpoint; return whether a listener wants training to stop."""
        for listener in self._listeners:
            listener.before_save(session, step)
        logger.info("Saving checkpoints for %d into %s.", step, self._save_path)
        self._get_saver().save(session, self._save_path, global_step=step)
        self._events.writer.session_log(step, CHECKPOINT, self._save_path)
        wishes = [listener.after_save(session, step) for listener in self._listeners]
        return any(wishes)


class SummaryHook(SessionRunHook):
    """Writes the loss of the first step, and of every n-th after it, under the step that it leads to."""

    def __init__(self, events: RunEvents, tensors: dict[str, Any], save_steps: int) -> None:
        self._events, self._tensors = events, tensors
        self._timer = SecondOrStepTimer(every_steps=save_steps)
        self._is_first = True

    def begin(self) -> None:
        self._step = _global_step()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        self._is_due = self._is_first or self._timer.should_trigger_for_step(int(self._step) + 1)
        return SessionRunArgs(self._tensors) if self._is_due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(self._step)
        if self._is_first:
            self._events.writer.session_log(step, START)
        self._is_first = False
        if self._is_due:
            self._timer.update_last_triggered_step(step)
            self._events.writer.scalars(step, run_values.results)


class StepCounterHook(SessionRunHook):
    """Writes the number of steps per second, and warns if the global step does not move."""

    def __init__(
        self, every_n_steps: int | None = 100, every_n_secs: float | None = None,
        output_dir: str | None = None, summary_writer: Any = None, events: RunEvents | None = None,
    ) -> None:  # fmt: skip
        refuse("StepCounterHook", summary_writer=summary_writer)
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_steps)
        self._owns_events = events is None
        self._events = events if events is not None or output_dir is None else RunEvents(output_dir)
        self._warnings = 0

    def begin(self) -> None:
        self._step = _global_step()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(self._step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        step = int(self._step)
        if self._timer.should_trigger_for_step(step):
            seconds, steps = self._timer.update_last_triggered_step(step)
            if seconds is not None and steps is not None:
                rate = steps / max(seconds, 1e-9)
                if self._events is not None:
                    self._events.writer.scalars(step, {"global_step/sec": rate})
                logger.info("global_step/sec: %g", rate)
        if step == int(run_values.results) and self._warnings < _MOST_WARNINGS:
            self._warnings += 1
            logger.warning(
                "It seems that global step (tf.train.get_global_step) has not been increased. Current value "
                "(could be stable): %s. You could increase the global step by passing "
                "tf.train.get_global_step() to Optimizer.apply_gradients or Optimizer.minimize.",
                step,
            )

    def end(self, session: Any) -> None:
        if self._owns_events and self._events is not None:
            self._events.close()
