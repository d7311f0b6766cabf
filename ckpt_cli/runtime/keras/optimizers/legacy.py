"""Optimizers before Keras 2.11: hyperparameters are variables, and slots hang on the model's variables.

    optimizer
      iter                         int64
      beta_1 beta_2 decay ...      float32, in the order of their names
      slot variables               (variable, slot name) -> variable, in the object graph as triples

A slot is made when its variable's first gradient comes, or earlier, when a checkpoint
that holds it meets both the variable and the optimizer.
keras/src/optimizers/legacy/optimizer_v2.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ... import graphs
from ...indexed_slices import dense
from ...names import name_scope
from ...tensor import OPERATIONS
from ...trackable import AutoTrackable
from ...variable import Variable
from .gradients import apply_by_rows, clipped, computed, present
from .schedules import LearningRateSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SGD", "Adagrad", "Adam", "Optimizer", "RMSprop"]


class Optimizer(AutoTrackable):
    """Base; a subclass has its hyperparameters and slots, and applies one gradient to one variable."""

    _name: str
    _hyper: dict[str, Any]
    _slots: dict[int, tuple[Any, dict[str, Variable]]]
    _slot_names: list[str]
    _weights: list[Variable]
    _iterations: Variable | None

    def __init__(self, name: str, hyper: dict[str, Any], **kwargs: Any) -> None:
        rate = kwargs.pop("lr", None)
        self.clipnorm, self.clipvalue = kwargs.pop("clipnorm", None), kwargs.pop("clipvalue", None)
        self.global_clipnorm = kwargs.pop("global_clipnorm", None)
        values = {**hyper, "decay": kwargs.pop("decay", 0.0)}
        if rate is not None:
            values["learning_rate"] = rate
        if kwargs:
            raise TypeError(f"Unexpected keyword argument passed to optimizer: {sorted(kwargs)[0]}.")
        own = object.__setattr__  # What follows is no node of the graph.
        own(self, "_name", name)
        own(self, "_hyper", values)
        own(self, "_slots", {})
        own(self, "_slot_names", [])
        own(self, "_weights", [])
        own(self, "_iterations", None)

    def __getattr__(self, name: str) -> Any:
        if name == "lr":
            name = "learning_rate"
        hyper = self.__dict__.get("_hyper", {})
        if name not in hyper:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._create_hypers()
        return self.__dict__["_hyper"][name]

    def __setattr__(self, name: str, value: Any) -> None:
        name = "learning_rate" if name == "lr" else name
        hyper = self.__dict__.get("_hyper", {})
        if name not in hyper:
            super().__setattr__(name, value)
        elif isinstance(hyper[name], Variable) and not isinstance(value, LearningRateSchedule):
            hyper[name].assign(value)
        else:
            hyper[name] = value

    def _create_hypers(self) -> None:
        """Make variables of the hyperparameters, in the order of their names; a schedule stays what it is."""
        for name in sorted(self._hyper):
            value = self._hyper[name]
            if isinstance(value, Variable) or callable(value):
                continue
            self._hyper[name] = self._add_weight(name, value, "float32")

    def _scope(self) -> name_scope:
        """Return the scope of the optimizer's variables; in a graph it is within those that are open."""
        return name_scope(self._name if graphs.current() is not None else f"{self._name}/")

    def _add_weight(self, name: str, value: Any, dtype: str) -> Variable:
        # Hyperparameters are within the optimizer's name, whoever asks for them first.
        with self._scope():
            variable = Variable(value, name=name, dtype=dtype, trainable=False)
        self._track(variable, name)
        return variable

    @property
    def iterations(self) -> Any:
        """How many times gradients have been applied."""
        if self._iterations is None:
            step = self._add_weight("iter", 0, "int64")
            object.__setattr__(self, "_iterations", step)
            self._weights.append(step)
        return self._iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        if self._iterations is not None:
            raise RuntimeError(
                "Cannot set `iterations` to a new Variable after the Optimizer weights have been created."
            )
        object.__setattr__(self, "_iterations", variable)
        self._track(variable, "iterations")
        self._weights.append(variable)

    @property
    def weights(self) -> list[Any]:
        return list(self._weights)

    def variables(self) -> list[Any]:
        return list(self._weights)

    def get_slot_names(self) -> list[str]:
        return list(self._slot_names)

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """Return a slot variable; KeyError where there is none."""
        return self._slots[id(var)][1][slot_name]

    def _slot_or_none(self, var: Any, slot_name: str) -> Any:
        return self._slots.get(id(var), (None, {}))[1].get(slot_name)

    def add_slot(self, var: Any, slot_name: str, initializer: float = 0.0) -> Any:
        """Return a variable's slot, made if it is not there."""
        if slot_name not in self._slot_names:
            self._slot_names.append(slot_name)
        # The variable is kept beside its slots, so that its identity is nobody else's.
        _, slots = self._slots.setdefault(id(var), (var, {}))
        slot: Any = slots.get(slot_name)
        if slot is None:
            value = np.full_like(var._value, initializer)
            slot = Variable(value, name=f"{var._shared_name}/{slot_name}", dtype=var.dtype, trainable=False)
            slots[slot_name] = slot
            self._weights.append(slot)
        return slot

    def _create_or_restore_slot_variable(self, slot_name: str, variable: Any) -> Any:
        # A slot that a restore makes is in no scope, one that training makes in the optimizer's.
        with name_scope(None):
            return self.add_slot(variable, slot_name)

    def _create_slots(self, variables: list[Any]) -> None:
        raise NotImplementedError

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], name: str | None = None, **options: Any
    ) -> Any:
        """Take one step, and return the number of steps."""
        del name, options
        pairs = present(grads_and_vars)
        pairs = clipped(pairs, self.clipnorm, self.clipvalue, self.global_clipnorm)
        _ = self.iterations
        self._create_hypers()
        with self._scope():
            self._create_slots([variable for _, variable in pairs])
        for gradient, variable in pairs:
            self._update(gradient, variable)
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable))
        return self.iterations.assign_add(1)

    def _update(self, gradient: Any, variable: Any) -> None:
        raise NotImplementedError

    def _step(self) -> dict[str, Any]:
        """Return what every step's operation takes."""
        rate = self._hyper["learning_rate"]
        if callable(rate):
            rate = self._scheduled(
                rate(self.iterations) if isinstance(rate, LearningRateSchedule) else rate()
            )
        return {"lr": rate, "step": self.iterations, "decay": self._hyper["decay"]}

    def _scheduled(self, rate: Any) -> Variable:
        """Return a variable, no node of the graph, with this step's rate, which a replayed step looks up."""
        current: Variable | None = self.__dict__.get("_current_rate")
        if current is None:
            current = Variable(rate, name="current_learning_rate", dtype="float32", trainable=False)
            object.__setattr__(self, "_current_rate", current)
            graph = graphs.current()
            if graph is not None:
                graph.make_derived(current)
        return current.assign(rate)

    def minimize(
        self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None, tape: Any = None
    ) -> Any:
        del grad_loss
        return self.apply_gradients(computed(loss, var_list, tape), name=name)

    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """Take one step on what the open graph has recorded, as model functions of Estimators do."""
        graph = graphs.current()
        if graph is None or graph.tape is None:
            raise RuntimeError("get_updates needs a graph: call it within an Estimator's model_fn")
        gradients = graph.tape.gradient(loss, list(params))
        return [self.apply_gradients(zip(gradients, params, strict=True))]

    def get_weights(self) -> list[Any]:
        return [weight.numpy() for weight in self._weights]

    def set_weights(self, weights: list[Any]) -> None:
        for variable, value in zip(self._weights, weights, strict=True):
            variable.assign(value)

    def get_config(self) -> dict[str, Any]:
        values = {name: float(v.numpy()) if isinstance(v, Variable) else v for name, v in self._hyper.items()}
        return {"name": self._name, **values}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        return cls(**config)


class SGD(Optimizer):
    """Gradient descent, with momentum and Nesterov's correction."""

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        **kwargs: Any,
    ) -> None:
        super().__init__(name, {"learning_rate": learning_rate, "momentum": momentum}, **kwargs)
        self.nesterov = nesterov
        self._has_momentum = callable(momentum) or momentum > 0

    def _create_slots(self, variables: list[Any]) -> None:
        for variable in variables if self._has_momentum else ():
            self.add_slot(variable, "momentum")

    def _update(self, gradient: Any, variable: Any) -> None:
        if not self._has_momentum:
            gradient = dense(gradient)
        apply_by_rows(
            "apply_momentum",
            gradient,
            variable=variable,
            accumulator=self.get_slot(variable, "momentum") if self._has_momentum else None,
            momentum=self._hyper["momentum"],
            nesterov=self.nesterov,
            **self._step(),
        )

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"nesterov": self.nesterov}


class Adam(Optimizer):
    """Adam; with `amsgrad`, the largest second moment so far is what divides."""

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
        super().__init__(name, {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}, **kwargs)
        self.epsilon, self.amsgrad = epsilon or 1e-7, amsgrad

    def _create_slots(self, variables: list[Any]) -> None:
        for name in ("m", "v", "vhat") if self.amsgrad else ("m", "v"):
            for variable in variables:
                self.add_slot(variable, name)

    def _update(self, gradient: Any, variable: Any) -> None:
        OPERATIONS["apply_adam"](
            gradient,
            variable=variable,
            m=self.get_slot(variable, "m"),
            v=self.get_slot(variable, "v"),
            vhat=self.get_slot(variable, "vhat") if self.amsgrad else None,
            beta_1=self._hyper["beta_1"],
            beta_2=self._hyper["beta_2"],
            epsilon=self.epsilon,
            **self._step(),
        )

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"epsilon": self.epsilon, "amsgrad": self.amsgrad}


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
        if initial_accumulator_value < 0.0:
            raise ValueError(f"initial_accumulator_value must be non-negative: {initial_accumulator_value}")
        super().__init__(name, {"learning_rate": learning_rate}, **kwargs)
        self._initial, self.epsilon = initial_accumulator_value, epsilon or 1e-7

    def _create_slots(self, variables: list[Any]) -> None:
        for variable in variables:
            self.add_slot(variable, "accumulator", self._initial)

    def _update(self, gradient: Any, variable: Any) -> None:
        slot = self.get_slot(variable, "accumulator")
        OPERATIONS["apply_adagrad"](
            gradient, variable=variable, accumulator=slot, epsilon=self.epsilon, inside=False, **self._step()
        )

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"initial_accumulator_value": self._initial, "epsilon": self.epsilon}


class RMSprop(Optimizer):
    """RMSprop, with momentum, and centered around the mean gradient if wanted."""

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
        super().__init__(name, {"learning_rate": learning_rate, "rho": rho, "momentum": momentum}, **kwargs)
        self.epsilon, self.centered = epsilon or 1e-7, centered
        self._has_momentum = callable(momentum) or momentum > 0

    def _create_slots(self, variables: list[Any]) -> None:
        names = ["rms"] + ["momentum"] * self._has_momentum + ["mg"] * self.centered
        for name in names:
            for variable in variables:
                self.add_slot(variable, name)

    def _update(self, gradient: Any, variable: Any) -> None:
        if not self._has_momentum:  # Without it the means of all rows move.
            gradient = dense(gradient)
        apply_by_rows(
            "apply_rmsprop",
            gradient,
            variable=variable,
            rms=self.get_slot(variable, "rms"),
            momentum=self.get_slot(variable, "momentum") if self._has_momentum else None,
            mean=self.get_slot(variable, "mg") if self.centered else None,
            rho=self._hyper["rho"],
            factor=self._hyper["momentum"],
            epsilon=self.epsilon,
            # The fused kernel, used with momentum, adds epsilon under the root, the other path beside it.
            inside=self._has_momentum,
            **self._step(),
        )

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"epsilon": self.epsilon, "centered": self.centered}
