"""The optimizers of Keras 2.11 and later: their hyperparameters, and what their step takes.

keras/src/optimizers/{sgd,adam,adamw,adamax,nadam,adagrad,adadelta,rmsprop,ftrl,lion}.py
"""

from __future__ import annotations

from typing import Any, ClassVar

from ...compiled import refuse_compiled
from ...tensor import OPERATIONS
from ...variable import Variable
from .arguments import check_ftrl
from .modern_base import Optimizer

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "Optimizer", "RMSprop",
]  # fmt: skip

_BETAS = {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}


class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's correction; momentums are kept even if not used."""

    _operation = "apply_momentum"
    _own: ClassVar[dict[str, Any]] = {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False}

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        if isinstance(values["momentum"], int | float) and not 0 <= values["momentum"] <= 1:
            raise ValueError("`momentum` must be between [0, 1].")
        super()._begin(values, others)


class Adam(Optimizer):
    """Adam; with `amsgrad`, the largest second moment so far is what divides."""

    _operation = "apply_adam"
    _own: ClassVar[dict[str, Any]] = {**_BETAS, "amsgrad": False}


class AdamW(Adam):
    """Adam with a decay of weights that is not part of the gradient."""

    _own: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.001,
        "weight_decay": 0.004,
        **_BETAS,
        "amsgrad": False,
    }
    _changed: ClassVar[dict[str, Any]] = {"weight_decay": 0.004}

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        if values["weight_decay"] is None:
            raise ValueError("Missing value of `weight_decay` which is required and must be a float value.")
        super()._begin(values, others)


class Adamax(Optimizer):
    """Adam with the largest gradient, decaying, in place of the mean square."""

    _operation = "apply_adamax"
    _own: ClassVar[dict[str, Any]] = _BETAS


class Nadam(Optimizer):
    """Adam with Nesterov's momentum, by a schedule.

    Keras counts in a number of Python's how often the schedule was advanced, which a compiled step
    has only once: there it computes something else each time, and is rejected here.
    """

    _operation = "apply_nadam"
    _own: ClassVar[dict[str, Any]] = _BETAS

    def _build_slots(self, variables: list[Any]) -> None:
        self._u_product: Any = Variable(1.0, dtype=variables[0].dtype)
        self._u_product_counter = 1
        super()._build_slots(variables)

    def _update(self, gradient: Any, variable: Any, index: int, common: dict[str, Any]) -> None:
        refuse_compiled("Nadam", "compile(run_eagerly=True), a plain function, or legacy.Nadam")
        if self._u_product_counter != int(self._iterations.numpy()) + 2:
            OPERATIONS["advance_product"](product=self._u_product, step=self._iterations, beta_1=self.beta_1)
            self._u_product_counter += 1
        super()._update(gradient, variable, index, {**common, "product": self._u_product})


class Adagrad(Optimizer):
    """Adagrad: every element's rate falls with the squares it has seen."""

    _operation, _by_rows = "apply_adagrad", True
    _own: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.001,
        "initial_accumulator_value": 0.1,
        "epsilon": 1e-7,
    }

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "inside": True}


class Adadelta(Optimizer):
    """Adadelta: a step is as large as the last ones, whatever the scale of the gradients."""

    _operation = "apply_adadelta"
    _own: ClassVar[dict[str, Any]] = {"learning_rate": 0.001, "rho": 0.95, "epsilon": 1e-7}


class RMSprop(Optimizer):
    """RMSprop, with momentum, and centered around the mean gradient if wanted."""

    _operation = "apply_rmsprop"
    _own: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.001, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False,
    }  # fmt: skip
    _changed: ClassVar[dict[str, Any]] = {"ema_overwrite_frequency": 100}

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "inside": True}


class Ftrl(Optimizer):
    """Follow the regularized leader: weights made of sums over all gradients, with those near 0 at 0."""

    _operation = "apply_ftrl"
    _own: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.001, "learning_rate_power": -0.5, "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0, "l2_regularization_strength": 0.0,
        "l2_shrinkage_regularization_strength": 0.0, "beta": 0.0,
    }  # fmt: skip

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        check_ftrl(values)
        super()._begin(values, others)


class Lion(Optimizer):
    """Lion: steps of one size, by the sign of a mean of gradients."""

    _operation = "apply_lion"
    _own: ClassVar[dict[str, Any]] = {"learning_rate": 0.0001, "beta_1": 0.9, "beta_2": 0.99}

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        beta = values["beta_1"]
        if not 0 < beta <= 1:
            raise ValueError(
                f"`beta_1`={beta} must be between ]0, 1]. Otherwise, the optimizer degenerates to SignSGD."
            )
        super()._begin(values, others)
