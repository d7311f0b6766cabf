"""Whose the slots of an optimizer are that Keras lists by name or number, as a model's variables tell.

In HDF5 no edge leads from a slot to its variable.  Legacy optimizers name it; those since 2.11 list
slots in the order in which they make them, for the trained variables in the model's order.
"""

from __future__ import annotations

from itertools import compress, product
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CheckpointError
from .facts import keras_facts
from .match import fill
from .model import ModelError, from_config, trained_order
from .optimizer_state import optimizer_state
from .optimizers import LEGACY, named
from .variable_layout import give_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..model.reader import FormatReader
    from .model import Unit, Variable
    from .optimizers import Optimizer as Row
    from .optimizers import SlotKind


Owners = list[tuple["Variable", str]]
"""The variable of each slot, and the slot's meaning."""


class SlotList(NamedTuple):
    """Slots in the order stored, of an optimizer of a known class; `settings` are its configuration's."""

    row: Row
    generation: str
    optimizer: str
    slots: Sequence[Variable]
    settings: Mapping[str, Any]

    def owners(self, model: Unit) -> Owners:
        """Return whose the slots are; nothing where neither names nor the order tell it."""
        return self._by_name(model) or self._by_order(model)

    def _by_name(self, model: Unit) -> Owners:
        """Return whose a legacy optimizer's slots are, where the names of all say it."""
        if self.generation != LEGACY:
            return []
        meanings = self.row.meanings(LEGACY)
        variables = {variable.full_name: variable for variable in model.all_variables()}
        found = [(variables.get(self._owner(slot)), meanings.get(slot.name)) for slot in self.slots]
        known = [(variable, meaning) for variable, meaning in found if variable is not None and meaning]
        return known if len(known) == len(found) else []

    def _owner(self, slot: Variable) -> str:
        """Return the full name of the variable that a legacy optimizer's slot belongs to."""
        above, _, owner = f"/{slot.full_name}".partition(f"/{self.optimizer}/")  # which scopes may precede
        return (owner or above[1:]).removesuffix(f"/{slot.name}")

    def _by_order(self, model: Unit) -> Owners:
        """Return whose the slots are, by the order in which the optimizer makes them."""
        trained = trained_order(model)
        groups = self._groups(len(trained))
        return [(variable, meaning) for group in groups for variable in trained for meaning in group]

    def _groups(self, trained: int) -> Sequence[tuple[str, ...]]:
        """Return the groups of slots that there are; none where not even their number tells it."""
        every = self.row.listed(self.generation)
        choices = product(*(self._may_be_there(self.row.slot(group[0])) for group in every))
        found = [tuple(compress(every, chosen)) for chosen in choices]
        fitting = [groups for groups in found if sum(map(len, groups)) * trained == len(self.slots)]
        return fitting[0] if len(fitting) == 1 else ()

    def _may_be_there(self, slot: SlotKind) -> tuple[bool, ...]:
        """Return whether there are slots of a meaning, by settings or names; both where those do not tell."""
        if not slot.name(self.generation):
            return (False,)
        if not slot.made_by or self.generation in slot.idle_in:
            return (True,)
        if self.settings:
            return (bool(self.settings.get(slot.made_by)),)
        spoken = {held.name for held in self.slots if held.name}
        return (bool(spoken & {slot.keras2, slot.legacy}),) if spoken else (True, False)


def fits(slots: Sequence[Variable], owners: Owners, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether each slot has an owner of its shape; `shapes` are those of all tensors by key."""
    return len(owners) == len(slots) and all(
        variable.key is not None and slot.key is not None and shapes[variable.key] == shapes[slot.key]
        for slot, (variable, _) in zip(slots, owners, strict=True)
    )


def slot_paths(source: FormatReader) -> dict[str, str]:
    """Return what people call the slots of a Keras file, by key: `dense/kernel (m of optimizer)`.

    There are none where the file has no configuration, or nothing tells whose the slots are.
    """
    try:
        config = keras_facts(source.facts).config
        state = optimizer_state(source) if config is not None else None
        row = named(state.name) if state is not None else None
        if config is None or state is None or row is None:
            return {}
        model = from_config(config)
        fill(model, source)
    except (ModelError, CheckpointError):
        return {}  # names are a help: who needs the model is told what is wrong with it
    give_names(model)
    owners = SlotList(row, state.generation, state.name, state.slots, state.settings).owners(model)
    if not fits(state.slots, owners, {key: spec.shape for key, spec in source.specs.items()}):
        return {}
    return {
        slot.key: f"{variable.key} ({row.slot(meaning).spoken(state.generation)} of optimizer)"
        for slot, (variable, meaning) in zip(state.slots, owners, strict=True)
        if slot.key is not None
    }
