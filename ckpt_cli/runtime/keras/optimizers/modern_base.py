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

import re
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

__all__ = ["Optimizer"]


class Optimizer(AutoTrackable):
    """Base; a subclass says which slots it has, and which operation takes its step.

    `settings` are its hyperparameters, kept as attributes of their names.
    """

    _operation: str
    """The row of the table of operations that applies one gradient to one variable."""

    if TYPE_CHECKING:  # settings, and the lists that `_add_slots` makes

        def __getattr__(self, name: str) -> Any: ...

    _settings: tuple[str, ...]
    _index: dict[int, int]
    """Place of each variable among the slots, by identity; `_index_dict` is its empty node in the graph."""

    def __init__(
        self,
        name: str,
        learning_rate: Any,
        settings: dict[str, Any],
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
            raise NotImplementedError("use_ema=True is not supported")
        self.use_ema, self.ema_momentum, self.jit_compile = use_ema, ema_momentum, False
        self.ema_overwrite_frequency = ema_overwrite_frequency
        if clipnorm is not None and global_clipnorm is not None:
            raise ValueError("At most one of `clipnorm` and `global_clipnorm` can be set.")
        self.name = name
        self.weight_decay, self.clipnorm = weight_decay, clipnorm
        self.clipvalue, self.global_clipnorm = clipvalue, global_clipnorm
        object.__setattr__(self, "_settings", tuple(settings))  # no node of the graph
        for key, value in settings.items():
            setattr(self, key, value)
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

    def _slots(self, index: int) -> dict[str, Any]:
        """Return the slots of the variable at an index, as the operation calls them."""
        raise NotImplementedError

    def _add_slots(
        self, variables: list[Any], initial: dict[str, float] | None = None, /, **prefixes: str
    ) -> None:
        """Give each variable its slots, all of one variable in a row.

        `prefixes` are what names begin with, by the attributes that list the slots.
        """
        for attribute in prefixes:
            setattr(self, attribute, [])
        for variable in variables:
            for attribute, prefix in prefixes.items():
                value = np.full_like(variable._value, (initial or {}).get(attribute, 0))
                getattr(self, attribute).append(self.add_variable_from_reference(variable, prefix, value))

    def add_variable_from_reference(
        self, model_variable: Any, variable_name: str, initial_value: Any = None
    ) -> Any:
        """Make a variable of a model variable's shape, zeros unless told, and note it in `_variables`."""
        value = np.zeros_like(model_variable._value) if initial_value is None else initial_value
        name = f"{variable_name}/{model_variable._shared_name}"
        variable = Variable(value, name=name, dtype=model_variable.dtype, trainable=False)
        self._variables.append(variable)
        return variable

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Leave variables as they are, and those of which a regular expression is found in the name."""
        if self._built:
            raise ValueError(
                "`exclude_from_weight_decay()` can only be configued before the optimizer is built."
            )
        self._exclude_from_weight_decay = list(map(_key, var_list or ()))
        self._exclude_from_weight_decay_names = var_names or []

    def _decays(self, variable: Any) -> bool:
        names: Any = getattr(self, "_exclude_from_weight_decay_names", ())
        return _key(variable) not in getattr(self, "_exclude_from_weight_decay", ()) and not any(
            re.search(name, variable.name) for name in names
        )

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], name: str | None = None, **options: Any
    ) -> Any:
        """Take one step, and return the number of steps."""
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
            for variable in (variable for _, variable in pairs if self._decays(variable)):
                variable.assign_sub(variable * self.weight_decay * cast(self.learning_rate, variable.dtype))
        index, common = self._index, {**self._arguments(), **self._step()}
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
            self._update(gradient, variable, index[id(variable)], common)
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable))
        return self._iterations.assign_add(1)

    def _update(self, gradient: Any, variable: Any, index: int, common: dict[str, Any]) -> None:
        OPERATIONS[self._operation](gradient, variable=variable, **self._slots(index), **common)

    def _arguments(self) -> dict[str, Any]:
        """Return the hyperparameters, as the operation calls them."""
        return {name: getattr(self, name) for name in self._settings}

    def _step(self) -> dict[str, Any]:
        """Return what every step's operation takes; there is no decay here."""
        return {"lr": self.learning_rate, "step": self._iterations, "decay": None}

    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> None:
        self.apply_gradients(computed(loss, var_list, tape))

    def get_config(self) -> dict[str, Any]:
        rate = self._learning_rate
        rate = float(rate.numpy()) if isinstance(rate, Variable) else rate
        names = (
            "name", "weight_decay", "clipnorm", "global_clipnorm", "clipvalue", "use_ema", "ema_momentum",
            "ema_overwrite_frequency", "jit_compile",
        )  # fmt: skip
        return {
            **{name: getattr(self, name) for name in names},
            "is_legacy_optimizer": False,
            "learning_rate": rate,
            **{name: getattr(self, name) for name in self._settings},
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Optimizer:
        return cls(**config)


def _key(variable: Any) -> str:
    """Return what tells a variable apart, as text, which a list in the graph may hold."""
    return f"{variable._shared_name}_{id(variable)}"


class _CallableList(list[Any]):
    """A list that can be called, for programs that still write `optimizer.variables()`."""

    def __call__(self) -> list[Any]:
        return list(self)
