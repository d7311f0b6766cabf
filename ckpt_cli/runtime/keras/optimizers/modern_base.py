"""Optimizers of Keras 2.11 and later: their state in a list, `_variables`.

    optimizer
      _variables      iteration, then for each trainable variable its slots, m v m v ...
      _iterations     int64
      _learning_rate  float32
      _index_dict     (no edges)
      _momentums ...  the slots again, one list for each kind

Only the order shows which slot belongs to which variable, so an optimizer is built for a list of variables,
once, with the first gradients. keras/src/optimizers/optimizer.py
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from formats.keras.optimizers import AVERAGE, KERAS2, SlotKind

from ...indexed_slices import dense
from ...names import name_scope
from ...ops.elementwise import cast
from ...tensor import OPERATIONS, as_tensor
from ...trackable import AutoTrackable
from ...variable import Variable
from .arguments import plain, row_of, with_signature, without_schedules
from .gradients import NOT_OF_STEPS, apply_by_rows, clipped, computed, present, slot_argument
from .schedules import LearningRateSchedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Optimizer"]


_COMMON: dict[str, Any] = {
    "weight_decay": None, "clipnorm": None, "clipvalue": None, "global_clipnorm": None, "use_ema": False,
    "ema_momentum": 0.99, "ema_overwrite_frequency": None, "jit_compile": True,
}  # fmt: skip
"""Arguments of every optimizer, behind its own, with their defaults."""


class Optimizer(AutoTrackable):
    """Base; a subclass has its hyperparameters with their defaults, and what operation takes its step."""

    _operation: str
    """The row of the table of operations that applies one gradient to one variable."""

    _own: ClassVar[dict[str, Any]] = {}
    _changed: ClassVar[dict[str, Any]] = {}
    """Hyperparameters of a class with their defaults, and other defaults of common ones."""

    _by_rows: bool = False
    """Whether a gradient of some rows leaves the others alone, with `_rows` behind the operation's name."""

    if TYPE_CHECKING:  # settings, and the lists of slots

        def __getattr__(self, name: str) -> Any: ...

    _defaults: ClassVar[dict[str, Any]]
    _settings: tuple[str, ...]
    _index: dict[int, int]
    """Place of each variable among the slots, by identity; `_index_dict` is its empty node in the graph."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_own" in cls.__dict__:
            with_signature(cls, {**cls._own, **_COMMON, **cls._changed, "name": cls.__name__})

    def __init__(self, name: Any, weight_decay: Any = 0, **kwargs: Any) -> None:
        known = {key: kwargs.pop(key, default) for key, default in _COMMON.items()}
        self._begin({**known, "name": name, "weight_decay": weight_decay}, kwargs)

    def _begin(self, values: dict[str, Any], others: dict[str, Any]) -> None:
        self._reject(others)
        _check_averaging(values)
        if values["clipnorm"] is not None and values["global_clipnorm"] is not None:
            raise ValueError("At most one of `clipnorm` and `global_clipnorm` can be set.")
        for key, value in values.items():
            if key in self._own and callable(value) and key != "learning_rate":
                as_tensor(value)  # raises, as it does in Keras
            if key not in ("learning_rate", "jit_compile"):
                setattr(self, key, value)
        self.jit_compile = False  # as on a machine without a GPU
        own = object.__setattr__  # the attributes below are not nodes of the graph
        own(self, "_settings", tuple(key for key in self._own if key not in ("learning_rate", *_COMMON)))
        own(self, "_slots_of", [])
        self._built = False
        self._variables: Any = []
        self._iterations: Any = Variable(0, name="iteration", dtype="int64", trainable=False)
        self._variables.append(self._iterations)
        if "learning_rate" in values:
            self._learning_rate: Any = self._build_learning_rate(values["learning_rate"])

    def _reject(self, others: dict[str, Any]) -> None:
        # Keras takes these two and does nothing with them.
        for unknown in others.keys() - {"lr", "is_legacy_optimizer"}:
            if unknown in ("decay", "gradient_aggregator", "gradient_transformers"):
                raise ValueError(
                    f"{unknown} is deprecated in the new Keras optimizer, please check the docstring for "
                    "valid arguments, or use the legacy optimizer, e.g., "
                    f"tf.keras.optimizers.legacy.{type(self).__name__}."
                )
            raise TypeError(
                f"{unknown} is not a valid argument, kwargs should be empty  for "
                "`optimizer_experimental.Optimizer`."
            )

    def _build_learning_rate(self, learning_rate: Any) -> Any:
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
        """Make the lists of slots, all slots of a group for one variable in a row."""
        if not self._own:
            return  # a class of a program's own makes what it needs
        row = row_of(type(self))
        kept: list[dict[str, Any]] = [{} for _ in variables]
        for group in row.listed(KERAS2):
            slots = [slot for meaning in group if (slot := row.slot(meaning)).list2]
            for slot in slots:
                if self._makes(slot) or row.name == "RMSprop" != slot.meaning != AVERAGE:
                    setattr(self, slot.list2, [])
            pairs = list(zip(variables, kept, strict=True))
            for variable, own, slot in ((*pair, one) for pair in pairs for one in slots):
                made = self._new_slot(slot, variable) if self._makes(slot) else None
                if slot.meaning != AVERAGE:
                    own[slot_argument(slot)] = made
        object.__setattr__(self, "_slots_of", kept)

    def _makes(self, slot: SlotKind) -> bool:
        return not slot.made_by or KERAS2 in slot.idle_in or getattr(self, slot.made_by) > 0

    def _new_slot(self, slot: SlotKind, variable: Any) -> Any:
        first = getattr(self, "initial_accumulator_value", 0) if slot.meaning == "accumulator" else 0
        value = variable._value if slot.meaning == AVERAGE else np.full_like(variable._value, first)
        made = self.add_variable_from_reference(variable, slot.keras2, initial_value=value)
        getattr(self, slot.list2).append(made)
        return made

    def add_variable_from_reference(
        self, model_variable: Any, variable_name: str, shape: Any = None, initial_value: Any = None
    ) -> Any:
        """Make a variable of a model variable's shape, zeros by default, and add it to `_variables`."""
        if initial_value is None:
            of_shape = model_variable._value.shape if shape is None else tuple(shape)
            initial_value = np.zeros(of_shape, model_variable._value.dtype)
        name = f"{variable_name}/{model_variable._shared_name}"
        variable = Variable(initial_value, name=name, dtype=model_variable.dtype, trainable=False)
        self._variables.append(variable)
        return variable

    def exclude_from_weight_decay(self, var_list: Any = None, var_names: Any = None) -> None:
        """Exclude variables, and those whose name matches a regular expression."""
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
        common = {**self._arguments(), **self._step()}
        for gradient, variable in pairs:
            if id(variable) not in self._index:
                raise KeyError(
                    f"The optimizer cannot recognize variable {variable.name}. This usually means you are "
                    "trying to call the optimizer to update different parts of the model separately. Please "
                    "call `optimizer.build(variables)` with the full list of trainable variables before the "
                    "training loop or use legacy optimizer "
                    f"`tf.keras.optimizers.legacy.{type(self).__name__}."
                )
            self._update(gradient, variable, self._index[id(variable)], common)
        changed = [variable for _, variable in pairs]
        if self.use_ema:
            self._average(changed)
        steps = self._iterations.assign_add(1)
        for variable in changed:
            if variable.constraint is not None:
                variable.assign(variable.constraint(variable))
        return steps

    def _average(self, variables: list[Any]) -> None:
        """Count variables in their moving averages, which replace them every so many steps."""
        averages, share = self._model_variables_moving_average, self.ema_momentum
        for variable in variables:
            average = averages[self._index[id(variable)]]
            average.assign(share * average + (1 - share) * variable)
            if self.ema_overwrite_frequency:
                is_due = (self._iterations + 1) % self.ema_overwrite_frequency == 0
                variable.assign(OPERATIONS["select"](is_due, average, variable))

    def finalize_variable_values(self, var_list: Sequence[Any]) -> None:
        """With `use_ema`, give variables the values of their averages, as `fit` does when it ends."""
        for variable in var_list if self.use_ema else ():
            variable.assign(self._model_variables_moving_average[self._index[id(variable)]])

    def update_step(self, gradient: Any, variable: Any) -> None:
        """Apply a gradient to a variable; for a class of a program's own to write."""
        raise NotImplementedError

    def _update(self, gradient: Any, variable: Any, index: int, common: dict[str, Any]) -> None:
        if not self._own:
            self.update_step(gradient, variable)
            return
        gradient = gradient if self._by_rows else dense(gradient)
        apply_by_rows(self._operation, gradient, variable=variable, **self._slots_of[index], **common)

    def _arguments(self) -> dict[str, Any]:
        """Return the hyperparameters that the operation takes."""
        return {name: getattr(self, name) for name in self._settings if name not in NOT_OF_STEPS}

    def _step(self) -> dict[str, Any]:
        """Return what every step's operation takes; there is no decay here."""
        return {"lr": self.learning_rate, "step": self._iterations, "decay": None} if self._own else {}

    def minimize(self, loss: Any, var_list: Any, tape: Any = None) -> None:
        self.apply_gradients(computed(loss, var_list, tape))

    def set_weights(self, weights: list[Any]) -> None:
        """Assign the variables of the optimizer, as far as there are values."""
        if not self._built:
            raise ValueError(
                "You are calling `set_weights()` on an optimizer that has not yet been built. Please call "
                "`optimizer.build(trainable_variables)` to create the optimizer weights before calling "
                "`set_weights()`."
            )
        for variable, weight in zip(self._variables, weights, strict=False):
            if variable.shape != weight.shape:
                raise ValueError(
                    f"Optimizer variable {_key(variable)} has shape {variable.shape} not compatible with "
                    f"provided weight shape {weight.shape}."
                )
            variable.assign(weight)

    def get_config(self) -> dict[str, Any]:
        names = (
            "name", "weight_decay", "clipnorm", "global_clipnorm", "clipvalue", "use_ema", "ema_momentum",
            "ema_overwrite_frequency", "jit_compile",
        )  # fmt: skip
        config = {**{name: getattr(self, name) for name in names}, "is_legacy_optimizer": False}
        if not self._own:
            return config
        own = {name: plain(getattr(self, name)) for name in self._settings}
        return {**config, "learning_rate": plain(self._learning_rate), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Optimizer:
        return cls(**without_schedules(config, custom_objects))


def _check_averaging(values: dict[str, Any]) -> None:
    if not values["use_ema"]:
        return
    momentum, frequency = values["ema_momentum"], values["ema_overwrite_frequency"]
    if not 0 <= momentum <= 1:
        raise ValueError(f"`ema_momentum` must be in the range [0, 1]. Received: ema_momentum={momentum}")
    if frequency and (not isinstance(frequency, int) or frequency < 1):
        raise ValueError(
            "`ema_overwrite_frequency` must be an integer > 1 or None. Received: "
            f"ema_overwrite_frequency={frequency}"
        )


def _key(variable: Any) -> str:
    """Return a unique text for a variable, which a list in the graph may hold."""
    return f"{variable._shared_name}_{id(variable)}"


class _CallableList(list[Any]):
    """A list that can be called, for programs that still write `optimizer.variables()`."""

    def __call__(self) -> list[Any]:
        return self
