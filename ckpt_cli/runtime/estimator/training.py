"""train_and_evaluate: training, and an evaluation of what was saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..unknown import refuse
from .saving import CheckpointSaverListener

if TYPE_CHECKING:
    from collections.abc import Callable

    from .estimator import Estimator

__all__ = ["EvalSpec", "TrainSpec", "train_and_evaluate"]


class TrainSpec(NamedTuple):
    """The input of training, and its last step."""

    input_fn: Callable[..., Any]
    max_steps: int | None = None
    hooks: Any = ()
    saving_listeners: Any = ()


class EvalSpec(NamedTuple):
    """The input of evaluation, and its number of batches."""

    input_fn: Callable[..., Any]
    steps: int | None = 100
    name: str | None = None
    hooks: Any = ()
    exporters: Any = None
    start_delay_secs: int = 120
    throttle_secs: int = 600


class _Evaluating(CheckpointSaverListener):
    """Evaluates each checkpoint that is `throttle_secs` from the last evaluation, and the last one."""

    def __init__(self, estimator: Estimator, spec: EvalSpec) -> None:
        from .hooks import SecondOrStepTimer

        self._estimator, self._spec = estimator, spec
        self._timer = SecondOrStepTimer(every_secs=spec.throttle_secs)
        self._is_first = True
        self.result: dict[str, Any] | None = None
        self._evaluated: int | None = None

    def after_save(self, session: Any, global_step_value: int) -> None:
        if self._is_first:
            self._is_first = False
            self._timer.update_last_triggered_step(global_step_value)
        elif self._timer.should_trigger_for_step(global_step_value):
            self._evaluate(global_step_value)

    def end(self, session: Any, global_step_value: int) -> None:
        if self._evaluated != global_step_value:
            self._evaluate(global_step_value)

    def _evaluate(self, step: int) -> None:
        self._evaluated = step
        self._timer.update_last_triggered_step(step)
        self.result = self._estimator.evaluate(
            self._spec.input_fn, self._spec.steps, self._spec.hooks, name=self._spec.name
        )


def train_and_evaluate(
    estimator: Estimator, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[dict[str, Any] | None, list[Any]]:
    """Train, evaluate on the way and at the end, and return the last metrics."""
    refuse("EvalSpec", exporters=eval_spec.exporters)
    evaluating = _Evaluating(estimator, eval_spec)
    estimator.train(
        train_spec.input_fn,
        hooks=train_spec.hooks,
        max_steps=train_spec.max_steps,
        saving_listeners=[*train_spec.saving_listeners, evaluating],
    )
    return evaluating.result, []
