"""The optimizers of Keras 2.11 and later: their slots, and what their step takes.

keras/src/optimizers/{sgd,adam,adamw,adamax,nadam,adagrad,adadelta,rmsprop,ftrl,lion}.py
"""

from __future__ import annotations

from typing import Any

from ...compiled import refuse_compiled
from ...tensor import OPERATIONS
from ...variable import Variable
from .checks import check_ftrl
from .modern_base import Optimizer

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "Optimizer", "RMSprop",
]  # fmt: skip


class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's correction; momentums are kept even if not used."""

    _operation = "apply_momentum"

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        **kwargs: Any,
    ) -> None:
        if isinstance(momentum, int | float) and not 0 <= momentum <= 1:
            raise ValueError("`momentum` must be between [0, 1].")
        super().__init__(name, learning_rate, {"momentum": momentum, "nesterov": nesterov}, **kwargs)

    def _build_slots(self, variables: list[Any]) -> None:
        self._add_slots(variables, momentums="m")

    def _slots(self, index: int) -> dict[str, Any]:
        return {"accumulator": self.momentums[index]}


class Adam(Optimizer):
    """Adam; with `amsgrad`, the largest second moment so far is what divides."""

    _operation = "apply_adam"

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
        settings = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon, "amsgrad": amsgrad}
        super().__init__(name, learning_rate, settings, **kwargs)

    def _build_slots(self, variables: list[Any]) -> None:
        self._add_slots(variables, _momentums="m", _velocities="v")
        if self.amsgrad:
            self._add_slots(variables, _velocity_hats="vhat")

    def _slots(self, index: int) -> dict[str, Any]:
        hats = self._velocity_hats[index] if self.amsgrad else None
        return {"m": self._momentums[index], "v": self._velocities[index], "vhat": hats}

    def _arguments(self) -> dict[str, Any]:
        return {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}


class AdamW(Adam):
    """Adam with a decay of weights that is no part of the gradient."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float | None = 0.004,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "AdamW",
        **kwargs: Any,
    ) -> None:
        if weight_decay is None:
            raise ValueError("Missing value of `weight_decay` which is required and must be a float value.")
        super().__init__(
            learning_rate, beta_1, beta_2, epsilon, amsgrad, name, weight_decay=weight_decay, **kwargs
        )


class _OfMoments(Optimizer):
    """What is made as Adam is, less amsgrad; its name is that of its class."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        settings = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}
        super().__init__(name or type(self).__name__, learning_rate, settings, **kwargs)


class Adamax(_OfMoments):
    """Adam with the largest gradient, decaying, in place of the mean square."""

    _operation = "apply_adamax"

    def _build_slots(self, variables: list[Any]) -> None:
        self._add_slots(variables, _m="m", _u="u")

    def _slots(self, index: int) -> dict[str, Any]:
        return {"m": self._m[index], "u": self._u[index]}


class Nadam(_OfMoments):
    """Adam with Nesterov's momentum; the product of its momentums is a variable beside the lists.

    How often that was multiplied is counted in a number that no checkpoint has.  So after a
    restore each variable multiplies it once more, in Keras as here.  Compiled, Keras counts while
    it traces, and computes something else.
    """

    _operation = "apply_nadam"

    def _build_slots(self, variables: list[Any]) -> None:
        self._u_product: Any = Variable(1.0, dtype=variables[0].dtype)
        self._u_product_counter = 1
        self._add_slots(variables, _momentums="m", _velocities="v")

    def _slots(self, index: int) -> dict[str, Any]:
        return {"m": self._momentums[index], "v": self._velocities[index], "product": self._u_product}

    def _update(self, gradient: Any, variable: Any, index: int, common: dict[str, Any]) -> None:
        refuse_compiled("Nadam", "compile(run_eagerly=True), a plain function, or legacy.Nadam")
        if self._u_product_counter != int(self._iterations.numpy()) + 2:
            OPERATIONS["advance_product"](product=self._u_product, step=self._iterations, beta_1=self.beta_1)
            self._u_product_counter += 1
        super()._update(gradient, variable, index, common)


class Adagrad(Optimizer):
    """Adagrad: every element's rate falls with the squares it has seen."""

    _operation = "apply_adagrad"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        settings = {"initial_accumulator_value": initial_accumulator_value, "epsilon": epsilon}
        super().__init__(name, learning_rate, settings, **kwargs)

    def _build_slots(self, variables: list[Any]) -> None:
        initial = {"_accumulators": self.initial_accumulator_value}
        self._add_slots(variables, initial, _accumulators="accumulator")

    def _slots(self, index: int) -> dict[str, Any]:
        return {"accumulator": self._accumulators[index]}

    def _arguments(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "inside": True}


class Adadelta(Optimizer):
    """Adadelta: a step is as large as the last ones were, whatever unit the gradients have."""

    _operation = "apply_adadelta"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        name: str = "Adadelta",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, learning_rate, {"rho": rho, "epsilon": epsilon}, **kwargs)

    def _build_slots(self, variables: list[Any]) -> None:
        self._add_slots(
            variables, _accumulated_grads="accumulated_grad", _accumulated_delta_vars="accumulated_delta_var"
        )

    def _slots(self, index: int) -> dict[str, Any]:
        return {"squares": self._accumulated_grads[index], "deltas": self._accumulated_delta_vars[index]}


class RMSprop(Optimizer):
    """RMSprop, with momentum, and centered around the mean gradient if wanted."""

    _operation = "apply_rmsprop"

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
        settings = {"rho": rho, "momentum": momentum, "epsilon": epsilon, "centered": centered}
        kwargs.setdefault("ema_overwrite_frequency", 100)
        super().__init__(name, learning_rate, settings, **kwargs)

    def _build_slots(self, variables: list[Any]) -> None:
        # Here one kind of slot is made for all variables before the next kind.
        self._add_slots(variables, _velocities="velocity")
        self._add_slots(variables if self.momentum > 0 else [], _momentums="momentum")
        self._add_slots(variables if self.centered else [], _average_gradients="average_gradient")

    def _slots(self, index: int) -> dict[str, Any]:
        return {
            "rms": self._velocities[index],
            "momentum": self._momentums[index] if self.momentum > 0 else None,
            "mean": self._average_gradients[index] if self.centered else None,
        }

    def _arguments(self) -> dict[str, Any]:
        return {"rho": self.rho, "factor": self.momentum, "epsilon": self.epsilon, "inside": True}


class Ftrl(Optimizer):
    """Follow the regularized leader: weights made of sums over all gradients, with those near 0 at 0."""

    _operation = "apply_ftrl"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        name: str = "Ftrl",
        **kwargs: Any,
    ) -> None:
        settings = {
            "learning_rate_power": learning_rate_power,
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        check_ftrl(**settings)
        super().__init__(name, learning_rate, {**settings, "beta": beta}, **kwargs)

    def _build_slots(self, variables: list[Any]) -> None:
        initial = {"_accumulators": self.initial_accumulator_value}
        self._add_slots(variables, initial, _accumulators="accumulator", _linears="linear")

    def _slots(self, index: int) -> dict[str, Any]:
        return {"accumulator": self._accumulators[index], "linear": self._linears[index]}

    def _arguments(self) -> dict[str, Any]:
        return {
            "lr_power": self.learning_rate_power,
            "l1": self.l1_regularization_strength,
            "l2": self.l2_regularization_strength,
            "l2_shrinkage": self.l2_shrinkage_regularization_strength,
            "beta": self.beta,
        }


class Lion(Optimizer):
    """Lion: steps of one size, by the sign of a mean of gradients."""

    _operation = "apply_lion"

    def __init__(
        self,
        learning_rate: Any = 0.0001,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        name: str = "Lion",
        **kwargs: Any,
    ) -> None:
        if not 0 < beta_1 <= 1:
            raise ValueError(
                f"`beta_1`={beta_1} must be between ]0, 1]. Otherwise, the optimizer degenerates to SignSGD."
            )
        super().__init__(name, learning_rate, {"beta_1": beta_1, "beta_2": beta_2}, **kwargs)

    def _build_slots(self, variables: list[Any]) -> None:
        self._add_slots(variables, momentums="m")

    def _slots(self, index: int) -> dict[str, Any]:
        return {"m": self.momentums[index]}
