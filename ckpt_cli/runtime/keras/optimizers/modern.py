"""Optimizers of Keras 2.11 and later: their state in a list, `_variables`.

    optimizer
      _variables      iteration, then for each trainable variable its slots, m v m v ...
      _iterations     int64
      _learning_rate  float32
      _index_dict     (no edges)
      _momentums ...  the slots again, one list for each kind

Which slot belongs to which variable is told by the order alone, so an optimizer is
built for a list of variables, once, when the first gradients come.
keras/src/optimizers/optimizer.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...names import name_scope
from ...ops.elementwise import cast
from ...tensor import OPERATIONS
from ...trackable import AutoTrackable
from ...variable import Variable
from .gradients import clipped, computed, present
from .schedules import LearningRateSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SGD", "Adagrad", "Adam", "Optimizer", "RMSprop"]


class Optimizer(AutoTrackable):
    """Base; a subclass says which slots it has and applies one gradient to one variable."""

    _index: dict[int, int]
    """Place of each variable among the slots, by identity; `_index_dict` is its empty node in the graph."""

    def __init__(
        self,
        name: str,
        learning_rate: Any,
        weight_decay: float | None = None,
        clipnorm: float | None = None,
        clipvalue: float | None = None,
        global_clipnorm: float | None = None,
        use_ema: bool = False,
        ema_momentum: float = 0.99,
        ema_overwrite_frequency: int | None = None,
        jit_compile: bool = True,
        **kwargs: Any,
    ) -> None:
        del ema_momentum, ema_overwrite_frequency, jit_compile
        for unknown in kwargs:
            if unknown in ("decay", "gradient_aggregator", "gradient_transformers"):
                raise ValueError(
                    f"{unknown} is deprecated in the new Keras optimizer, please check the docstring for "
                    "valid arguments, "
                    f"or use the legacy optimizer, e.g., tf.keras.optimizers.legacy.{type(self).__name__}."
                )
            raise TypeError(
                f"{unknown} is not a valid argument, kwargs should be empty  for "
                "`optimizer_experimental.Optimizer`."
            )
        if use_ema:
            raise NotImplementedError("use_ema=True is not known here")
        if clipnorm is not None and global_clipnorm is not None:
            raise ValueError("At most one of `clipnorm` and `global_clipnorm` can be set.")
        self.name = name
        self.weight_decay, self.clipnorm = weight_decay, clipnorm
        self.clipvalue, self.global_clipnorm = clipvalue, global_clipnorm
        self._built = False
        self._variables: Any = []
        self._iterations: Any = Variable(0, name="iteration", dtype="int64", trainable=False)
        self._variables.append(self._iterations)
        self._learning_rate: Any = self._make_learning_rate(learning_rate)

    def _make_learning_rate(self, learning_rate: Any) -> Any:
        if isinstance(learning_rate, LearningRateSchedule):
            self._current_learning_rate = Variable(
                learning_rate(self._iterations), name="current_learning_rate", trainable=False
            )
            return learning_rate
        return Variable(learning_rate, name="learning_rate", dtype="float32", trainable=False)

    @property
    def iterations(self) -> Any:
        """How many times gradients have been applied."""
        return self._iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        if self._built:
            raise RuntimeError(
                "Cannot set `iterations` to a new Variable after the Optimizer weights have been created."
            )
        self._iterations = variable

    @property
    def learning_rate(self) -> Any:
        scheduled = isinstance(self._learning_rate, LearningRateSchedule)
        return self._current_learning_rate if scheduled else self._learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if isinstance(value, LearningRateSchedule):
            self._learning_rate = value
        elif isinstance(self._learning_rate, LearningRateSchedule):
            raise TypeError(
                "This optimizer was created with a `LearningRateSchedule` object as its `learning_rate` "
                "constructor "
                "argument, hence its learning rate is not settable."
            )
        else:
            self._learning_rate.assign(value)

    lr = learning_rate

    @property
    def variables(self) -> Any:
        return _CallableList(self._variables)

    def _create_or_restore_slot_variable(self, **kwargs: Any) -> Any:
        raise ValueError(
            "You are trying to restore a checkpoint from a legacy Keras optimizer into a v2.11+ Optimizer, "
            "which can cause "
            "errors. Please update the optimizer referenced in your code to be an instance of "
            "`tf.keras.optimizers.legacy.Optimizer`, e.g.: "
            f"`tf.keras.optimizers.legacy.{type(self).__name__}`."
        )

    def build(self, var_list: Sequence[Any]) -> None:
        """Make the slots for these variables; done once."""
        if self._built:
            return
        places = {id(variable): index for index, variable in enumerate(var_list)}
        object.__setattr__(self, "_index", places)
        self._index_dict: Any = {}
        self._build_slots(list(var_list))
        self._built = True

    def _build_slots(self, variables: list[Any]) -> None:
        raise NotImplementedError

    def add_variable_from_reference(
        self, model_variable: Any, variable_name: str, initial_value: Any = None
    ) -> Any:
        """Make a variable of a model variable's shape, zeros unless told, and note it in `_variables`."""
        value = np.zeros_like(model_variable._value) if initial_value is None else initial_value
        name = f"{variable_name}/{model_variable._shared_name}"
        variable = Variable(value, name=name, dtype=model_variable.dtype, trainable=False)
        self._variables.append(variable)
        return variable

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], name: str | None = None, **options: Any
    ) -> Any:
        """Take one step, and return the number of steps."""
        del options
        pairs = list(grads_and_vars)
        if isinstance(self._learning_rate, LearningRateSchedule):
            self._current_learning_rate.assign(self._learning_rate(self._iterations))
        if not pairs:
            return self._iterations
        if not self._built:
            with name_scope(name or self.name):
                self.build([variable for _, variable in pairs])
        pairs = clipped(present(pairs), self.clipnorm, self.clipvalue, self.global_clipnorm)
        if self.weight_decay is not None:
            for _, variable in pairs:
                variable.assign_sub(variable * self.weight_decay * cast(self.learning_rate, variable.dtype))
        index = self._index
        for gradient, variable in pairs:
            if id(variable) not in index:
                raise KeyError(
                    f"The optimizer cannot recognize variable {variable.name}. This usually means you are "
                    "trying to call "
                    "the optimizer to update different parts of the model separately. Please call "
                    "`optimizer.build(variables)` with the full list of trainable variables before the "
                    "training loop or "
                    f"use legacy optimizer `tf.keras.optimizers.legacy.{type(self).__name__}."
                )
            self._update(gradient, variable, index[id(variable)])
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable))
        return self._iterations.assign_add(1)

    def _update(self, gradient: Any, variable: Any, index: int) -> None:
        raise NotImplementedError

    def _step(self) -> dict[str, Any]:
        """Return what every step's operation takes; there is no decay here."""
        return {"lr": self.learning_rate, "step": self._iterations, "decay": None}

    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> None:
        self.apply_gradients(computed(loss, var_list, tape))

    def get_config(self) -> dict[str, Any]:
        rate = self._learning_rate
        rate = float(rate.numpy()) if isinstance(rate, Variable) else rate
        common = {"name": self.name, "weight_decay": self.weight_decay, "clipnorm": self.clipnorm}
        return common | {
            "clipvalue": self.clipvalue,
            "global_clipnorm": self.global_clipnorm,
            "learning_rate": rate,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        return cls(**config)


class _CallableList(list[Any]):
    """A list that can be called, for programs that still write `optimizer.variables()`."""

    def __call__(self) -> list[Any]:
        return list(self)


def _slots_of(optimizer: Optimizer, variables: list[Any], kinds: dict[str, str]) -> None:
    """Give each variable its slots, all of one variable in a row; `kinds`: attributes to name prefixes."""
    for attribute in kinds:
        setattr(optimizer, attribute, [])
    for variable in variables:
        for attribute, prefix in kinds.items():
            getattr(optimizer, attribute).append(optimizer.add_variable_from_reference(variable, prefix))


class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's correction; momentums are kept even if not used."""

    momentums: list[Variable]

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
        super().__init__(name, learning_rate, **kwargs)
        self.momentum, self.nesterov = momentum, nesterov

    def _build_slots(self, variables: list[Any]) -> None:
        _slots_of(self, variables, {"momentums": "m"})

    def _update(self, gradient: Any, variable: Any, index: int) -> None:
        accumulator = self.momentums[index]
        OPERATIONS["apply_momentum"](
            gradient,
            variable=variable,
            accumulator=accumulator,
            momentum=self.momentum,
            nesterov=self.nesterov,
            **self._step(),
        )

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"momentum": self.momentum, "nesterov": self.nesterov}


class Adam(Optimizer):
    """Adam; with `amsgrad`, the largest second moment so far is what divides."""

    _momentums: list[Variable]
    _velocities: list[Variable]
    _velocity_hats: list[Variable]

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
        super().__init__(name, learning_rate, **kwargs)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad

    def _build_slots(self, variables: list[Any]) -> None:
        _slots_of(self, variables, {"_momentums": "m", "_velocities": "v"})
        if self.amsgrad:
            _slots_of(self, variables, {"_velocity_hats": "vhat"})

    def _update(self, gradient: Any, variable: Any, index: int) -> None:
        OPERATIONS["apply_adam"](
            gradient,
            variable=variable,
            m=self._momentums[index],
            v=self._velocities[index],
            vhat=self._velocity_hats[index] if self.amsgrad else None,
            beta_1=self.beta_1,
            beta_2=self.beta_2,
            epsilon=self.epsilon,
            **self._step(),
        )

    def get_config(self) -> dict[str, Any]:
        own = {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon, "amsgrad": self.amsgrad}
        return super().get_config() | own


class Adagrad(Optimizer):
    """Adagrad: every element's rate falls with the squares it has seen."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, learning_rate, **kwargs)
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon

    def _build_slots(self, variables: list[Any]) -> None:
        self._accumulators: Any = []
        for variable in variables:
            value = np.full_like(variable._value, self.initial_accumulator_value)
            self._accumulators.append(self.add_variable_from_reference(variable, "accumulator", value))

    def _update(self, gradient: Any, variable: Any, index: int) -> None:
        accumulator = self._accumulators[index]
        OPERATIONS["apply_adagrad"](
            gradient,
            variable=variable,
            accumulator=accumulator,
            epsilon=self.epsilon,
            inside=True,
            **self._step(),
        )

    def get_config(self) -> dict[str, Any]:
        own = {"initial_accumulator_value": self.initial_accumulator_value, "epsilon": self.epsilon}
        return super().get_config() | own


class RMSprop(Optimizer):
    """RMSprop, with momentum, and centered around the mean gradient if wanted."""

    _velocities: list[Variable]
    _momentums: list[Variable]
    _average_gradients: list[Variable]

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
        super().__init__(name, learning_rate, **kwargs)
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered

    def _build_slots(self, variables: list[Any]) -> None:
        # Here one kind of slot is made for all variables before the next kind.
        _slots_of(self, variables, {"_velocities": "velocity"})
        _slots_of(self, variables if self.momentum > 0 else [], {"_momentums": "momentum"})
        _slots_of(self, variables if self.centered else [], {"_average_gradients": "average_gradient"})

    def _update(self, gradient: Any, variable: Any, index: int) -> None:
        OPERATIONS["apply_rmsprop"](
            gradient,
            variable=variable,
            rms=self._velocities[index],
            momentum=self._momentums[index] if self.momentum > 0 else None,
            mean=self._average_gradients[index] if self.centered else None,
            rho=self.rho,
            factor=self.momentum,
            epsilon=self.epsilon,
            inside=True,
            **self._step(),
        )

    def get_config(self) -> dict[str, Any]:
        own: dict[str, Any] = {"rho": self.rho, "momentum": self.momentum, "epsilon": self.epsilon}
        return super().get_config() | own | {"centered": self.centered}
