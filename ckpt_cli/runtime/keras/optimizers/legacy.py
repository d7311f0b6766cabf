"""The optimizers before Keras 2.11: their hyperparameters, and what their step takes.

keras/src/optimizers/legacy/{gradient_descent,adam,adamax,nadam,adagrad,adadelta,rmsprop,ftrl}.py
"""

from __future__ import annotations

from typing import Any, ClassVar

from ...tensor import OPERATIONS
from .arguments import check_ftrl
from .legacy_base import Optimizer
from .schedules import LearningRateSchedule

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop"]

_BETAS = {"learning_rate": 0.001, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7}


class _WithMomentum(Optimizer):
    """Base of those that keep a momentum where it is not 0, and then move only the rows of a gradient."""

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        momentum = values["momentum"]
        if isinstance(momentum, int | float) and not 0 <= momentum <= 1:
            raise ValueError(
                f"`momentum` must be between [0, 1]. Received: momentum={momentum} (of type "
                f"{type(momentum)})."
            )
        super()._begin(values, others)
        self._by_rows = self._is_on("momentum")


class SGD(_WithMomentum):
    """Gradient descent, with momentum and Nesterov's correction."""

    _operation = "apply_momentum"
    _own: ClassVar[dict[str, Any]] = {"learning_rate": 0.01, "momentum": 0.0, "nesterov": False}


class Adam(Optimizer):
    """Adam; with `amsgrad`, the largest second moment so far is what divides."""

    _operation = "apply_adam"
    _own: ClassVar[dict[str, Any]] = {**_BETAS, "amsgrad": False}


class Adamax(Optimizer):
    """Adam with the largest gradient, decaying, in place of the mean square."""

    _operation, _by_rows = "apply_adamax", True
    _own: ClassVar[dict[str, Any]] = _BETAS


class Nadam(Optimizer):
    """Adam with Nesterov's momentum, by a schedule whose decay is a number of its own.

    The product of its momentums so far is `momentum_cache`.
    """

    _operation, _by_rows = "apply_nadam", True
    _own: ClassVar[dict[str, Any]] = _BETAS
    _cache: Any  # a variable once the first slots are made

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        if isinstance(others.get("lr", values["learning_rate"]), LearningRateSchedule):
            raise ValueError(  # noqa: TRY004  as Keras does
                "The Nadam optimizer does not support tf.keras.optimizers.LearningRateSchedules as the "
                "learning rate."
            )
        others = dict(others)
        others["decay"] = others.pop("schedule_decay", 0.004)
        super()._begin(values, others)
        object.__setattr__(self, "_cache", None)

    def restore_cache(self, product: float, dtype: Any = "float32") -> None:
        """Let the product of momentums so far be this."""
        cache = self._add_weight("momentum_cache", product, dtype)
        object.__setattr__(self, "_cache", cache)
        self._weights.append(cache)

    def _create_slots(self, variables: list[Any]) -> None:
        if self._cache is None:
            self.restore_cache(1.0, variables[0].dtype)
        super()._create_slots(variables)
        # Once a step, before the first variable moves.
        beta_1, schedule = self._arguments()["beta_1"], self._initial_decay
        OPERATIONS["advance_product"](
            product=self._cache, step=self.iterations, beta_1=beta_1, schedule=schedule
        )

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        return {**super()._slots_of(variable), "product": self._cache, "schedule": self._initial_decay}

    def _step(self) -> dict[str, Any]:
        return {**super()._step(), "decay": None}


class Adagrad(Optimizer):
    """Adagrad: every element's rate falls with the squares it has seen."""

    _operation = "apply_adagrad"
    _own: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.001,
        "initial_accumulator_value": 0.1,
        "epsilon": 1e-7,
    }

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        if values["initial_accumulator_value"] < 0.0:
            raise ValueError(
                f"initial_accumulator_value must be non-negative: {values['initial_accumulator_value']}"
            )
        super()._begin(values, others)

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "inside": False}


class Adadelta(Optimizer):
    """Adadelta: a step is as large as the last ones, whatever the scale of the gradients."""

    _operation, _by_rows = "apply_adadelta", True
    _own: ClassVar[dict[str, Any]] = {"learning_rate": 0.001, "rho": 0.95, "epsilon": 1e-7}


class RMSprop(_WithMomentum):
    """RMSprop, with momentum, and centered around the mean gradient if wanted."""

    _operation = "apply_rmsprop"
    _own: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.001, "rho": 0.9, "momentum": 0.0, "epsilon": 1e-7, "centered": False,
    }  # fmt: skip

    def _arguments(self) -> dict[str, Any]:
        # The fused kernel, used with momentum, adds epsilon under the root, the other path after it.
        return {**super()._arguments(), "inside": self._by_rows}


class Ftrl(Optimizer):
    """Follow the regularized leader: weights made of sums over all gradients, with those near 0 at 0."""

    _operation, _by_rows, _takes_lr = "apply_ftrl", True, False
    _in_config = (
        "initial_accumulator_value", "learning_rate_power", "l1_regularization_strength",
        "l2_regularization_strength", "beta", "l2_shrinkage_regularization_strength",
    )  # fmt: skip
    _own: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.001, "learning_rate_power": -0.5, "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0, "l2_regularization_strength": 0.0, "name": "Ftrl",
        "l2_shrinkage_regularization_strength": 0.0, "beta": 0.0,
    }  # fmt: skip

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        check_ftrl(values)
        super()._begin(values, others)
