"""An optimizer's state as the list that Keras makes of it, which .h5, .weights.h5 and graphs have in common.

    Keras 2, since 2.11    iteration, then slots, as its class makes them
    Keras 2, legacy        iter, and slots by variable: all of one name, then all of the next
    Keras 3                iteration, learning rate, then slots

A slot is written by its meaning for its variable (`optimizers`), where the target's Keras lists it. State of
unknown meaning goes only to the same generation, as it is listed; elsewhere it has no place (`NoPlaceError`).
keras/src/optimizers/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING

from ..errors import ConversionError
from .between_generations import flaw_between
from .config import snake_case
from .match import UNNAMED
from .model import Variable, legacy_order, trained_order
from .optimizers import BY_NAME, KERAS2, KERAS3, LEGACY, TITLES, named, state_of
from .slot_owners import are_owners_known, idle_slots, owned_slots
from .training_state import (
    GOOD_STEPS,
    ITERATIONS,
    LEARNING_RATE,
    LOSS_SCALE,
    MOMENTUM_PRODUCT,
    UNKNOWN_CLASS,
    TrainingState,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model.reader import FormatReader
    from .model import Unit
    from .optimizer_settings import Wanted
    from .optimizers import Optimizer as Row
    from .optimizers import SlotKind


OPTIMIZER = "optimizer"
WRAPPER = {
    ITERATIONS: "iteration",
    LEARNING_RATE: "learning_rate",
    GOOD_STEPS: "step_counter",
    LOSS_SCALE: "dynamic_scale",
}
"""The numbers of Keras 3's LossScaleOptimizer in its order, and what it calls them."""

SCALER = "loss_scale_optimizer"
_OF_BOTH = (ITERATIONS, LEARNING_RATE)
"""Numbers that the wrapper of Keras 3 has in addition to those of the optimizer in it, and does not use."""

_COUNTED = re.compile(r"_\d+$")

Held = Mapping[tuple[int, str], Variable]
"""The slot of each variable of the model, by its identity and the slot's meaning."""


class NoPlaceError(ConversionError):
    """A layout has no place for an optimizer's state; the message says why."""


def from_list(
    generation: str,
    name: str,
    numbers: Mapping[str, str],
    keys: Sequence[str],
    wrapper: Mapping[str, str] | None = None,
) -> TrainingState:
    """Return an optimizer that stores a list of keys: its numbers and slots, which a model distinguishes."""
    slots = tuple(key for key in keys if key not in numbers.values())
    theirs = wrapper or {}
    held = {
        each: tuple(key for one in (numbers, theirs) if (key := one.get(each)) is not None)
        for each in (*numbers, *(other for other in theirs if other not in numbers))
    }
    state = TrainingState(generation, OPTIMIZER, name, (), {}, held, slots, wrapper=theirs)
    return state._replace(listed=tuple(keys)) if generation != LEGACY else state


def wrapper_of(keys: Sequence[str]) -> dict[str, str]:
    """Return the keys of a LossScaleOptimizer's own numbers, by what they are."""
    return dict(zip(WRAPPER, keys, strict=True))


def with_product(numbers: dict[str, str], keys: Sequence[str], source: FormatReader) -> dict[str, str]:
    """Return numbers with the product of momentums, a scalar that Keras 3's Nadam has behind its slots."""
    slots = keys[len(numbers) :]
    if slots and not source.specs[slots[-1]].shape and len(slots) % 2:
        return numbers | {MOMENTUM_PRODUCT: slots[-1]}
    return numbers


def cased(name: str) -> str:
    """Return the class that an optimizer of Keras 3 is named after: `rm_sprop_1` after RMSprop."""
    base = _COUNTED.sub("", name)
    return next((known for known in BY_NAME if snake_case(known) == base), name)


class StateList:
    """An optimizer's state for the model that it is of; `wanted` is what the target's configuration says."""

    def __init__(
        self,
        state: TrainingState,
        model: Unit,
        shapes: Mapping[str, tuple[int, ...]],
        wanted: Wanted | None,
    ) -> None:
        self.state = state
        self.model = model
        self.wanted = wanted
        held = owned_slots(state, model, shapes)
        self.are_owners_known = are_owners_known(state, held)
        self.idle = idle_slots(state, held)
        names = {key: state.names.get(key, "") for key in state.ordered}
        self.slots = {
            key: Variable("", False, "" if name == UNNAMED else name, key) for key, name in names.items()
        }
        self.held: Held = {at: self.slots[key] for at, key in held.items()}
        self.iteration = self._number(ITERATIONS) or Variable(ITERATIONS, False)
        self.rates = {name: one for name in state.rates if (one := self._number(name)) is not None}
        self.product = self._number(MOMENTUM_PRODUCT)
        self.scaling = self._scaling()

    def _number(self, name: str) -> Variable | None:
        """Return a number as a variable: what is given comes before what is stored."""
        key = self.state.number(name)
        full_name = self.state.names.get(key or name, "")
        if name in self.state.values:
            return Variable(name, False, full_name, value=self.state.values[name])
        return Variable(name, False, full_name, key) if key is not None else None

    def _scaling(self) -> dict[str, Variable]:
        """Return the numbers of a LossScaleOptimizer by meaning: those stored, or those that it starts with.

        They are empty if the loss scale is unknown, or does not change.
        """
        state = self.state
        start = {ITERATIONS: 0.0, LEARNING_RATE: 0.0, GOOD_STEPS: 0.0}
        found: dict[str, Variable] = {}
        for what, name in WRAPPER.items():
            key = state.wrapper.get(what) or (state.number(what) if what not in _OF_BOTH else None)
            value = None if key is not None else state.values.get(what) if what == LOSS_SCALE else start[what]
            found[what] = Variable(name, False, f"{SCALER}/{name}", key, value)
        return found if state.scaled and found[LOSS_SCALE].is_given else {}

    @property
    def counts(self) -> list[Variable]:
        """The numbers that are whole."""
        return [self.iteration, *(self.scaling[what] for what in (ITERATIONS, GOOD_STEPS) if self.scaling)]

    # In a generation ----------------------------------------------------------------------

    def listed(self, generation: str) -> list[tuple[Variable, str]]:
        """Return the list that a generation has, each with its full name.

        Raises NoPlaceError if that is not known.
        """
        mine, wanted = self.state, self.wanted
        rate = self.rates.get(LEARNING_RATE)
        self._check_wrapper(generation)
        held = self.filled(generation)
        if wanted is not None:
            self._check(wanted, generation, held)
        slots = self._slots(generation, held)
        if wanted is not None and wanted.is_scheduled:
            rate = None
        elif generation == KERAS3 and rate is None and (wanted is not None or mine.generation != KERAS3):
            message = "Keras 3 stores the learning rate with the slots, but SRC does not store it"
            raise NoPlaceError(message, hints=("pass the learning rate with --learning-rate R",))
        is_nadam = mine.row is not None and mine.row.name == "Nadam"
        if generation != KERAS2 and is_nadam and self.product is None:
            message = f"{TITLES[mine.generation]} does not save the product of Nadam's momentums"
            raise NoPlaceError(message)
        prefix = self._prefix(generation)
        heads = {KERAS2: "iteration", LEGACY: f"{prefix}/iter", KERAS3: f"{prefix}/iteration"}
        listed = [(self.iteration, heads[generation])]
        if generation == KERAS3 and rate is not None:
            listed.append((rate, f"{prefix}/{LEARNING_RATE}"))
        if generation == LEGACY and self.product is not None:
            listed.append((self.product, f"{prefix}/momentum_cache"))
        listed += slots
        if generation == KERAS3 and self.product is not None:
            listed.append((self.product, "variable"))
        return listed

    def _check_wrapper(self, generation: str) -> None:
        """Raise NoPlaceError if only one side has a LossScaleOptimizer, or nothing has its loss scale."""
        mine, wanted = self.state, self.wanted
        may_differ = wanted is None or (mine.scaled and wanted.may_be_scaled)
        if wanted is not None and wanted.is_scaled != mine.scaled and not may_differ:
            side, other = (
                ("SRC's", "the configuration's") if mine.scaled else ("the configuration's", "SRC's")
            )
            raise NoPlaceError(f"{side} optimizer is inside a LossScaleOptimizer, but {other} is not")
        if mine.scaled and generation == KERAS3 and not self.scaling:
            message = "the optimizer is inside a LossScaleOptimizer, and SRC does not store the loss scale"
            raise NoPlaceError(message)

    def _check(self, wanted: Wanted, generation: str, held: Held) -> None:
        """Raise NoPlaceError if the configuration's optimizer would take these slots for others."""
        row, other, called = self.state.row, wanted.row, wanted.called
        mine = row or named(self.state.called)
        of_one_class = snake_case(self.state.called) == snake_case(called)
        if not of_one_class and (mine is None or other is None or state_of(mine) != state_of(other)):
            raise NoPlaceError(f"the configuration's optimizer is {called}")
        if row is None and other is not None:
            raise NoPlaceError(f"these are not the slots of the configuration's {called}")
        if row is None or not self.are_owners_known:
            return
        have = {meaning for _, meaning in held if self._is_kept(row, meaning, generation)}
        want = wanted.meanings(generation)
        for these, what in ((have - want, "does not keep {}"), (want - have, "keeps {}, but SRC does not")):
            if these:
                names = " and ".join(sorted(these))
                raise NoPlaceError(f"the configuration's {called} {what.format(names)}")

    def _slots(self, generation: str, held: Held) -> list[tuple[Variable, str]]:
        """Return the slots of a generation in its order, each with its full name."""
        mine = self.state
        row = mine.row
        if row is None or not self.are_owners_known:
            if generation != mine.generation:
                raise NoPlaceError(self.unknown)
            prefix = self._prefix(generation)
            return [
                (slot, slot.full_name or f"{prefix}/slot_{at}") for at, slot in enumerate(self.slots.values())
            ]
        flaw = flaw_between(row, mine.generation, generation)
        if flaw is not None:
            raise NoPlaceError(flaw)
        listed = []
        for group in row.listed(generation):
            for variable, meaning in product(legacy_order(self.model), group):
                slot = held.get((id(variable), meaning))
                if slot is not None and self._is_kept(row, meaning, generation):
                    if not slot.full_name or generation != mine.generation:
                        slot.full_name = self._full_name(generation, row.slot(meaning), variable)
                    listed.append((slot, slot.full_name))
        return listed

    def _is_kept(self, row: Row, meaning: str, generation: str) -> bool:
        """Whether a generation has slots of a meaning, though they may be made without need."""
        return meaning not in self.state.idle_meanings or generation in row.slot(meaning).idle_in

    @property
    def unknown(self) -> str:
        if self.state.row is None:
            return f"ckpt does not know the slots of {self.state.called or UNKNOWN_CLASS}"
        return "SRC does not identify these slots; pass --config with a file of the compiled model"

    def filled(self, generation: str) -> Held:
        """Return the slots, with zeros for those that another generation makes without need."""
        mine = self.state
        if mine.row is None or not self.are_owners_known or generation == mine.generation:
            return self.held
        have = {meaning for _, meaning in self.held}
        added = {
            (id(variable), slot.meaning): Variable(slot.name(generation), False, value=0.0, like=variable.key)
            for slot in mine.row.slots
            if generation in slot.idle_in and slot.meaning not in have
            for variable in trained_order(self.model)
        }
        return {**self.held, **added}

    def _prefix(self, generation: str) -> str:
        """Return the prefix of its variables' names; no program needs it, so any will do."""
        name = self.state.called or "optimizer"
        return snake_case(name) if generation == KERAS3 else name

    def _full_name(self, generation: str, slot: SlotKind, variable: Variable) -> str:
        prefix = self._prefix(generation)
        if generation == LEGACY:
            return f"{prefix}/{variable.full_name}/{slot.legacy}"
        if generation == KERAS2:
            return f"{prefix}/{slot.keras2}/{variable.full_name}"
        return f"{prefix}/{variable.full_name.replace('/', '_')}_{slot.keras3}"

    def wrapped(self) -> list[tuple[Variable, str]]:
        """Return the numbers that a LossScaleOptimizer of Keras 3 lists before others, with their names."""
        return [(variable, variable.full_name) for variable in self.scaling.values()]
