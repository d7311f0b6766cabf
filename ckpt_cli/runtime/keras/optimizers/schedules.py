"""Learning rates that follow the step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.elementwise import cast
from ...tensor import OPERATIONS, Tensor, as_tensor
from ...unknown import refuse

__all__ = [
    "CosineDecay",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LearningRateSchedule",
    "PiecewiseConstantDecay",
]

_op = OPERATIONS


class LearningRateSchedule:
    """Base: called with the step, returns the learning rate."""

    def __call__(self, step: Any) -> Any:
        raise NotImplementedError("Learning rate schedule must override __call__")

    def get_config(self) -> dict[str, Any]:
        return dict(vars(self))


class ExponentialDecay(LearningRateSchedule):
    """initial · rate ** (step / steps), with `staircase` in whole powers."""

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.decay_rate, self.staircase, self.name = decay_rate, staircase, name

    def __call__(self, step: Any) -> Tensor:
        power = cast(step, "float32") / float(self.decay_steps)
        if self.staircase:
            power = _op["floor"](power)
        return self.initial_learning_rate * as_tensor(np.float32(self.decay_rate)) ** power


class InverseTimeDecay(ExponentialDecay):
    """initial / (1 + rate · step / steps)."""

    def __call__(self, step: Any) -> Tensor:
        power = cast(step, "float32") / float(self.decay_steps)
        if self.staircase:
            power = _op["floor"](power)
        return self.initial_learning_rate / (1 + self.decay_rate * power)


class PiecewiseConstantDecay(LearningRateSchedule):
    """The value of the interval in which the step lies; a boundary belongs to the interval before it."""

    def __init__(self, boundaries: list[float], values: list[float], name: str | None = None) -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values. Received: "
                f"boundaries={boundaries} of length {len(boundaries)}, and values={values} of length "
                f"{len(values)}."
            )
        self.boundaries, self.values, self.name = boundaries, values, name

    def __call__(self, step: Any) -> Tensor:
        place = _op["reduce_sum"](
            cast(cast(step, "float32") > np.array(self.boundaries, np.float32), "int32"),
            axis=None,
            keepdims=False,
        )
        return _op["gather"](np.array(self.values, np.float32), place, axis=0)


class CosineDecay(LearningRateSchedule):
    """initial · ((1 - alpha) · (1 + cos(pi · step / steps)) / 2 + alpha)."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: int, alpha: float = 0.0, name: str | None = None,
        warmup_target: float | None = None, warmup_steps: int = 0,
    ) -> None:  # fmt: skip
        refuse("CosineDecay", warmup_target=warmup_target, warmup_steps=warmup_steps)
        self.initial_learning_rate, self.decay_steps, self.alpha, self.name = (
            initial_learning_rate,
            decay_steps,
            alpha,
            name,
        )

    def __call__(self, step: Any) -> Tensor:
        done = _op["minimum"](cast(step, "float32"), float(self.decay_steps)) / float(self.decay_steps)
        cosine = 0.5 * (1 + _op["cos"](math.pi * done))
        return self.initial_learning_rate * ((1 - self.alpha) * cosine + self.alpha)
