"""The optimizers before Keras 2.11: their slots, and what their step takes.

keras/src/optimizers/legacy/{gradient_descent,adam,adamax,nadam,adagrad,adadelta,rmsprop,ftrl}.py
"""

from __future__ import annotations

from typing import Any

from ...tensor import OPERATIONS
from .checks import check_ftrl
from .legacy_base import Optimizer
from .schedules import LearningRateSchedule

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop",
]  # fmt: skip

_EPSILON = 1e-7
"""keras.backend.epsilon(), which stands for an epsilon of 0 or None."""


class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's correction."""

    _operation = "apply_momentum"

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        **kwargs: Any,
    ) -> None:
        hyper = {"learning_rate": learning_rate, "momentum": momentum}
        super().__init__(name, hyper, {"nesterov": nesterov}, **kwargs)
        self._by_rows = callable(momentum) or momentum > 0

    def _kinds(self) -> tuple[str, ...]:
        return ("momentum",) if self._by_rows else ()

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        return {"accumulator": self.get_slot(variable, "momentum") if self._by_rows else None}


class Adam(Optimizer):
    """Adam; with `amsgrad`, the largest second moment so far is what divides."""

    _operation = "apply_adam"
    amsgrad: bool

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        **kwargs: Any,
    ) -> None:
        hyper = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
        super().__init__(name, hyper, {"epsilon": epsilon or _EPSILON, "amsgrad": amsgrad}, **kwargs)

    def _kinds(self) -> tuple[str, ...]:
        return ("m", "v", "vhat") if self.amsgrad else ("m", "v")

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        return {"vhat": None, **super()._slots_of(variable)}

    def _arguments(self) -> dict[str, Any]:
        arguments = super()._arguments()
        del arguments["amsgrad"]
        return arguments


class Adamax(Optimizer):
    """Adam with the largest gradient, decaying, in place of the mean square."""

    _operation = "apply_adamax"
    _by_rows = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "Adamax",
        **kwargs: Any,
    ) -> None:
        hyper = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
        super().__init__(name, hyper, {"epsilon": epsilon or _EPSILON}, **kwargs)

    def _kinds(self) -> tuple[str, ...]:
        return ("m", "v")

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        return {"m": self.get_slot(variable, "m"), "u": self.get_slot(variable, "v")}


class Nadam(Optimizer):
    """Adam with Nesterov's momentum, by a schedule whose decay is a number of its own.

    The product of its momentums so far is `momentum_cache`.
    """

    _operation = "apply_nadam"
    _by_rows = True
    _cache: Any  # a variable once the first slots are made

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "Nadam",
        **kwargs: Any,
    ) -> None:
        if isinstance(kwargs.get("lr", learning_rate), LearningRateSchedule):
            raise ValueError(  # noqa: TRY004  as Keras does
                "The Nadam optimizer does not support tf.keras.optimizers.LearningRateSchedules as the "
                "learning rate."
            )
        decay = kwargs.pop("schedule_decay", 0.004)
        kwargs["decay"] = decay
        hyper = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
        super().__init__(name, hyper, {"epsilon": epsilon or _EPSILON}, **kwargs)
        object.__setattr__(self, "_schedule", decay)
        object.__setattr__(self, "_cache", None)

    def _kinds(self) -> tuple[str, ...]:
        return ("m", "v")

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
        OPERATIONS["advance_product"](
            product=self._cache, step=self.iterations, beta_1=self._hyper["beta_1"], schedule=self._schedule
        )

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        return {**super()._slots_of(variable), "product": self._cache, "schedule": self._schedule}

    def _step(self) -> dict[str, Any]:
        return {**super()._step(), "decay": None}


class Adagrad(Optimizer):
    """Adagrad: every element's rate falls with the squares it has seen."""

    _operation = "apply_adagrad"
    initial_accumulator_value: float
    epsilon: float

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        if initial_accumulator_value < 0.0:
            raise ValueError(f"initial_accumulator_value must be non-negative: {initial_accumulator_value}")
        settings = {"initial_accumulator_value": initial_accumulator_value, "epsilon": epsilon or _EPSILON}
        super().__init__(name, {"learning_rate": learning_rate}, settings, **kwargs)

    def _kinds(self) -> tuple[str, ...]:
        return ("accumulator",)

    def _create_slots(self, variables: list[Any]) -> None:
        for variable in variables:
            self.add_slot(variable, "accumulator", self.initial_accumulator_value)

    def _arguments(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "inside": False}


class Adadelta(Optimizer):
    """Adadelta: a step is as large as the last ones were, whatever unit the gradients have."""

    _operation = "apply_adadelta"
    _by_rows = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        name: str = "Adadelta",
        **kwargs: Any,
    ) -> None:
        hyper = {"learning_rate": learning_rate, "rho": rho}
        super().__init__(name, hyper, {"epsilon": epsilon or _EPSILON}, **kwargs)

    def _kinds(self) -> tuple[str, ...]:
        return ("accum_grad", "accum_var")

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        return {
            "squares": self.get_slot(variable, "accum_grad"),
            "deltas": self.get_slot(variable, "accum_var"),
        }


class RMSprop(Optimizer):
    """RMSprop, with momentum, and centered around the mean gradient if wanted."""

    _operation = "apply_rmsprop"
    epsilon: float
    centered: bool

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        name: str = "RMSprop",
        **kwargs: Any,
    ) -> None:
        hyper = {"learning_rate": learning_rate, "rho": rho, "momentum": momentum}
        super().__init__(name, hyper, {"epsilon": epsilon or _EPSILON, "centered": centered}, **kwargs)
        # Without momentum the means of all rows move.
        self._by_rows = callable(momentum) or momentum > 0

    def _kinds(self) -> tuple[str, ...]:
        return ("rms", *(["momentum"] if self._by_rows else []), *(["mg"] if self.centered else []))

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        return {
            "rms": self.get_slot(variable, "rms"),
            "momentum": self.get_slot(variable, "momentum") if self._by_rows else None,
            "mean": self.get_slot(variable, "mg") if self.centered else None,
        }

    def _arguments(self) -> dict[str, Any]:
        # The fused kernel, used with momentum, adds epsilon under the root, the other path beside it.
        return {
            "rho": self._hyper["rho"],
            "factor": self._hyper["momentum"],
            "epsilon": self.epsilon,
            "inside": self._by_rows,
        }


class Ftrl(Optimizer):
    """Follow the regularized leader: weights made of sums over all gradients, with those near 0 at 0."""

    _operation = "apply_ftrl"
    _by_rows = True
    initial_accumulator_value: float
    l2_shrinkage_regularization_strength: float

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        name: str = "Ftrl",
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ) -> None:
        hyper = {
            "learning_rate_power": learning_rate_power,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
        }
        settings = {
            "initial_accumulator_value": initial_accumulator_value,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        check_ftrl(**hyper, **settings)
        super().__init__(name, {**hyper, "learning_rate": learning_rate, "beta": beta}, settings, **kwargs)

    def _kinds(self) -> tuple[str, ...]:
        return ("accumulator", "linear")

    def _create_slots(self, variables: list[Any]) -> None:
        for variable in variables:
            self.add_slot(variable, "accumulator", self.initial_accumulator_value)
            self.add_slot(variable, "linear")

    def _arguments(self) -> dict[str, Any]:
        return {
            "lr_power": self._hyper["learning_rate_power"],
            "l1": self._hyper["l1_regularization_strength"],
            "l2": self._hyper["l2_regularization_strength"],
            "l2_shrinkage": self.l2_shrinkage_regularization_strength,
            "beta": self._hyper["beta"],
        }
