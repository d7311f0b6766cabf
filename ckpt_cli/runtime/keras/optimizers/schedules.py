"""Learning rates that follow the step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.elementwise import cast
from ...tensor import OPERATIONS, Tensor, as_tensor

__all__ = [
    "CosineDecay", "ExponentialDecay", "InverseTimeDecay", "LearningRateSchedule",
    "PiecewiseConstantDecay", "PolynomialDecay",
]  # fmt: skip

_op = OPERATIONS


class LearningRateSchedule:
    """Base: called with the step, returns the learning rate."""

    def __call__(self, step: Any) -> Any:
        raise NotImplementedError("Learning rate schedule must override __call__")

    def get_config(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRateSchedule:
        return cls(**config)


def schedules_by_name() -> dict[str, Any]:
    """Return the classes of schedules, as configurations name them."""
    return {name: globals()[name] for name in __all__ if name[0].isupper()}


def _done(step: Any, steps: Any) -> Tensor:
    return cast(step, "float32") / float(steps)


class ExponentialDecay(LearningRateSchedule):
    """initial · rate ** (step / steps), with `staircase` in whole powers."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False,
        name: str | None = None,
    ) -> None:  # fmt: skip
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.decay_rate, self.staircase, self.name = decay_rate, staircase, name

    def _power(self, step: Any) -> Any:
        power = _done(step, self.decay_steps)
        return _op["floor"](power) if self.staircase else power

    def __call__(self, step: Any) -> Tensor:
        return self.initial_learning_rate * as_tensor(np.float32(self.decay_rate)) ** self._power(step)


class InverseTimeDecay(ExponentialDecay):
    """initial / (1 + rate · step / steps)."""

    def __call__(self, step: Any) -> Tensor:
        return self.initial_learning_rate / (1 + self.decay_rate * self._power(step))


class PiecewiseConstantDecay(LearningRateSchedule):
    """The value of the interval that contains the step; a boundary belongs to the interval before it."""

    def __init__(self, boundaries: list[float], values: list[float], name: str | None = None) -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values. Received: "
                f"boundaries={boundaries} of length {len(boundaries)}, and values={values} of length "
                f"{len(values)}."
            )
        self.boundaries, self.values, self.name = boundaries, values, name

    def __call__(self, step: Any) -> Tensor:
        is_behind = cast(step, "float32") > np.array(self.boundaries, np.float32)
        place = _op["reduce_sum"](cast(is_behind, "int32"), axis=None, keepdims=False)
        return _op["gather"](np.array(self.values, np.float32), place, axis=0)


class CosineDecay(LearningRateSchedule):
    """initial · ((1 - alpha) · (1 + cos(pi · step / steps)) / 2 + alpha), after a warmup if there is one."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: int, alpha: float = 0.0, name: str | None = None,
        warmup_target: float | None = None, warmup_steps: int = 0,
    ) -> None:  # fmt: skip
        self.initial_learning_rate, self.decay_steps, self.alpha = initial_learning_rate, decay_steps, alpha
        self.name, self.warmup_target, self.warmup_steps = name, warmup_target, warmup_steps

    def _decayed(self, step: Any, highest: float) -> Any:
        cosine = 0.5 * (1 + _op["cos"](math.pi * _done(step, self.decay_steps)))
        return highest * ((1 - self.alpha) * cosine + self.alpha)

    def __call__(self, step: Any) -> Tensor:
        step = cast(step, "float32")
        if self.warmup_target is None:
            return self._decayed(_op["minimum"](step, float(self.decay_steps)), self.initial_learning_rate)
        last = float(self.decay_steps + self.warmup_steps)
        step = _op["minimum"](step, last)
        rise = self.warmup_target - self.initial_learning_rate
        return _op["select"](
            step < float(self.warmup_steps),
            rise * _done(step, self.warmup_steps) + self.initial_learning_rate,
            self._decayed(step - float(self.warmup_steps), self.warmup_target),
        )


class PolynomialDecay(LearningRateSchedule):
    """(initial - end) · (1 - step / steps) ** power + end; with `cycle`, over as many steps as it takes."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: int, end_learning_rate: float = 0.0001,
        power: float = 1.0, cycle: bool = False, name: str | None = None,
    ) -> None:  # fmt: skip
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.end_learning_rate, self.power, self.cycle, self.name = end_learning_rate, power, cycle, name

    def __call__(self, step: Any) -> Tensor:
        step, steps = cast(step, "float32"), as_tensor(np.float32(self.decay_steps))
        if self.cycle:
            steps = steps * _op["maximum"](_op["ceil"](step / steps), 1.0)
        else:
            step = _op["minimum"](step, steps)
        share = (1 - step / steps) ** self.power
        return (self.initial_learning_rate - self.end_learning_rate) * share + self.end_learning_rate
