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

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formats.keras.optimizers import LEGACY, SlotKind

from ... import graphs
from ...indexed_slices import dense
from ...names import name_scope
from ...trackable import AutoTrackable
from ...unknown import refuse
from ...variable import Variable
from .arguments import plain, row_of, with_signature, without_schedules
from .gradients import NOT_OF_STEPS, apply_by_rows, computed, present, slot_argument, transformed
from .schedules import LearningRateSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Optimizer"]


_VARIABLES = frozenset(
    ("learning_rate", "momentum", "beta_1", "beta_2", "rho", "learning_rate_power", "beta",
     "l1_regularization_strength", "l2_regularization_strength")
)  # fmt: skip
"""Hyperparameters that become variables."""

_OPTIONS = ("clipnorm", "clipvalue", "global_clipnorm")
_EPSILON = 1e-7
"""keras.backend.epsilon(), which stands for an epsilon of 0 or None."""


class Optimizer(AutoTrackable):
    """Base; a subclass has its hyperparameters with their defaults, and what operation takes its step."""

    _operation: str
    """The row of the table of operations that applies one gradient to one variable."""

    _own: ClassVar[dict[str, Any]] = {}
    """Hyperparameters of a class with their defaults, and where another argument follows its name, that."""

    _by_rows: bool = False
    """Whether a gradient of some rows leaves the others alone, with `_rows` behind the operation's name."""

    _takes_lr = True
    _in_config: tuple[str, ...] = ()
    """The order of the hyperparameters in configurations, where it is another than that of the arguments."""

    _defaults: ClassVar[dict[str, Any]]
    _settings: tuple[str, ...]
    _name: str
    _hyper: dict[str, Any]
    _slots: dict[int, tuple[Any, dict[str, Variable]]]
    _slot_names: list[str]
    _weights: list[Variable]
    _iterations: Variable | None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_own" in cls.__dict__:
            with_signature(cls, cls._own if "name" in cls._own else {**cls._own, "name": cls.__name__})

    def __init__(
        self,
        name: Any = None,
        gradient_aggregator: Any = None,
        gradient_transformers: Any = None,
        **kwargs: Any,
    ) -> None:
        given = {"gradient_aggregator": gradient_aggregator, "gradient_transformers": gradient_transformers}
        self._begin({"name": name}, {**given, **kwargs})

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        values = dict(values)
        own = object.__setattr__  # The following attributes are not nodes of the graph.
        refuse(type(self).__name__, gradient_aggregator=others.pop("gradient_aggregator", None))
        own(self, "gradient_transformers", list(others.pop("gradient_transformers", None) or ()))
        _check(others)
        for name in _OPTIONS:
            own(self, name, others.get(name))
        if "lr" in others and self._takes_lr:
            values["learning_rate"] = others["lr"]
        own(self, "_name", values.pop("name"))
        own(self, "_initial_decay", others.get("decay", 0.0))
        if "epsilon" in values:
            values["epsilon"] = values["epsilon"] or _EPSILON
        hyper = {name: value for name, value in values.items() if name in _VARIABLES}
        own(self, "_hyper", {**hyper, "decay": self._initial_decay} if hyper else {})
        own(self, "_slots", {})
        own(self, "_slot_names", [])
        own(self, "_weights", [])
        own(self, "_iterations", None)
        own(self, "_settings", tuple(name for name in values if name not in _VARIABLES))
        for name in self._settings:
            own(self, name, values[name])

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
        # Hyperparameters are in the optimizer's scope, regardless of what reads them first.
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
        """Return a variable's slot, created as needed."""
        if slot_name not in self._slot_names:
            self._slot_names.append(slot_name)
        # The variable is kept with its slots, so that its id stays unique.
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

    @property
    def _kept(self) -> list[SlotKind]:
        """The slots of a variable, in the order in which each is made for all variables."""
        row = row_of(type(self))
        slots = [row.slot(meaning) for group in row.listed(LEGACY) for meaning in group]
        return [slot for slot in slots if not slot.made_by or self._is_on(slot.made_by)]

    def _is_on(self, name: str) -> bool:
        value: Any = self._hyper.get(name, self.__dict__.get(name))
        return callable(value) or bool(value > 0)

    def _kinds(self) -> tuple[str, ...]:
        return tuple(slot.legacy for slot in self._kept)

    def _create_slots(self, variables: list[Any]) -> None:
        kept = self._kept
        groups = [kept] if row_of(type(self)).interleaved else [[slot] for slot in kept]
        for slots in groups:
            for variable in variables:
                for slot in slots:
                    first = self.__dict__.get("initial_accumulator_value", 0.0)
                    self.add_slot(variable, slot.legacy, first if slot.meaning == "accumulator" else 0.0)

    def _slots_of(self, variable: Any) -> dict[str, Any]:
        """Return a variable's slots, as the operation calls them."""
        slots = [slot for slot in row_of(type(self)).slots if slot.legacy]
        return {slot_argument(slot): self._slot_or_none(variable, slot.legacy) for slot in slots}

    def _arguments(self) -> dict[str, Any]:
        """Return the hyperparameters that the operation takes."""
        values = {**self._hyper, **{name: getattr(self, name) for name in self._settings}}
        return {
            name: value() if callable(value) else value
            for name, value in values.items()
            if name not in NOT_OF_STEPS and name != "decay"
        }

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], name: str | None = None, **options: Any
    ) -> Any:
        """Take one step, and return the number of steps."""
        pairs = present(grads_and_vars)
        if not pairs:
            return None
        pairs = transformed(
            pairs, self.clipvalue, self.clipnorm, self.global_clipnorm, self.gradient_transformers
        )
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
        what = {"variable": variable, **self._slots_of(variable), **self._arguments(), **self._step()}
        apply_by_rows(self._operation, gradient if self._by_rows else dense(gradient), **what)

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
        return self.apply_gradients(computed(loss, var_list, tape, grad_loss), name=name)

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
        clips = {name: value for name in _OPTIONS if (value := getattr(self, name)) is not None}
        rate = {"learning_rate": plain(self._hyper["learning_rate"]), "decay": self._initial_decay}
        own = {
            name: plain(self._hyper[name] if name in self._hyper else self.__dict__[name])
            for name in self._in_config or self._own
            if name != "learning_rate"
        }
        return {"name": self._name, **clips, **rate, **own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Optimizer:
        return cls(**without_schedules(config, custom_objects))


def _check(others: dict[str, Any]) -> None:
    allowed = {*_OPTIONS, "lr", "decay"}
    for name, value in others.items():
        if name not in allowed:
            raise TypeError(
                f"Unexpected keyword argument passed to optimizer: {name}. Allowed kwargs are {allowed}."
            )
        if value is not None and value < 0:
            raise ValueError(f"Expected {name} >= 0, received: {value}")
    norm, of_all = others.get("clipnorm"), others.get("global_clipnorm")
    if norm is not None and of_all is not None:
        raise ValueError(
            "Cannot accept both `clipnorm` and `global_clipnorm`. Received: "
            f"`clipnorm`={norm}, `global_clipnorm`={of_all}."
        )
