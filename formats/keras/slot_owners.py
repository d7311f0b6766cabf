"""The owners of slots that Keras lists by name or number, from a model's variables.

In HDF5 no edge leads from a slot to its variable.  Legacy optimizers name it; those since 2.11 list
slots in the order in which they make them, for the trained variables in the model's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress, product
from typing import TYPE_CHECKING

from .model import trained_order
from .optimizers import LEGACY, OPTIMIZERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .model import Unit, Variable
    from .optimizers import Optimizer as Row
    from .optimizers import SlotKind
    from .training_state import TrainingState


_Owners = list[tuple["Variable", str]]
"""The variable of each slot, and the slot's meaning."""

_NAMES = frozenset(slot.keras2 for row in OPTIMIZERS for slot in row.slots) - {""}


Held = Mapping[tuple[int, str], str]
"""The key of the slot of each variable, by the variable's identity and the slot's meaning."""


def owned_slots(state: TrainingState, model: Unit, shapes: Mapping[str, tuple[int, ...]]) -> Held:
    """Return the slots of a model's variables, or none if the owners are unknown.

    `shapes` are those of all tensors: what does not fit is of another model, and stays unknown.
    """
    slots, row = state.ordered, state.row
    if row is None:
        return {}
    found = _by_key(state, row, model) or _by_name(state, row, model) or _by_order(state, row, model)
    fits = len(found) == len(slots) and all(
        variable.key is not None and shapes[variable.key] == shapes[key]
        for key, (variable, _) in zip(slots, found, strict=True)
    )
    pairs = zip(slots, found, strict=True) if fits else ()
    return {(id(variable), meaning): key for key, (variable, meaning) in pairs}


def are_owners_known(state: TrainingState, held: Held) -> bool:
    """Whether the owners are known; for gradient descent, which may have no slots, they are."""
    row = state.row
    return bool(held) or (not state.ordered and row is not None and all(one.made_by for one in row.slots))


def idle_slots(state: TrainingState, held: Held) -> set[str]:
    """Return the keys of slots that are made without need."""
    idle = state.idle_meanings
    return {key for (_, meaning), key in held.items() if meaning in idle}


def owned(state: TrainingState, model: Unit, shapes: Mapping[str, tuple[int, ...]]) -> TrainingState:
    """Return an optimizer with the slots of a model's variables, as an object graph would tell them."""
    held = owned_slots(state, model, shapes)
    if not are_owners_known(state, held) or state.row is None:
        return state._replace(known=(), slots={}, unowned=state.ordered)
    keys = {id(variable): variable.key or "" for variable in model.all_variables()}
    names = {meaning: name for name, meaning in state.row.meanings(state.generation).items()}
    slots = {(keys[owner], names[meaning]): key for (owner, meaning), key in held.items()}
    return state._replace(slots=slots, unowned=())


def _by_key(state: TrainingState, row: Row, model: Unit) -> _Owners:
    """Return the owners of the slots in an object graph."""
    if not state.slots:
        return []
    variables = {variable.key: variable for variable in model.all_variables()}
    meanings = row.meanings(state.generation)
    owners = {
        key: (variables[variable], meanings[name])
        for (variable, name), key in state.slots.items()
        if variable in variables
    }
    return [owners[key] for key in state.ordered if key in owners]


def _by_name(state: TrainingState, row: Row, model: Unit) -> _Owners:
    """Return whose a legacy optimizer's slots are, where the names of all say it."""
    if state.generation != LEGACY or state.slots:
        return []
    meanings = row.meanings(LEGACY)
    variables = {variable.full_name: variable for variable in model.all_variables()}
    slots = state.ordered
    found = [(variables.get(_owner(state, key)), meanings.get(_slot_name(state, key))) for key in slots]
    known = [(variable, meaning) for variable, meaning in found if variable is not None and meaning]
    return known if len(known) == len(found) else []


def _owner(state: TrainingState, slot: str) -> str:
    """Return the full name of the variable that a legacy optimizer's slot belongs to."""
    full_name = f"/{state.names.get(slot, '')}"
    above, _, owner = full_name.partition(f"/{state.called}/")  # which scopes may precede
    return (owner or above[1:]).removesuffix(f"/{_slot_name(state, slot)}")


def _slot_name(state: TrainingState, slot: str) -> str:
    """Return the slot in a full name: `m` in `Adam/m/kernel`, `m/kernel` and legacy `Adam/kernel/m`."""
    parts = state.names.get(slot, "").split("/")
    return (
        parts[-1] if state.generation == LEGACY else next((part for part in parts[:2] if part in _NAMES), "")
    )


def _by_order(state: TrainingState, row: Row, model: Unit) -> _Owners:
    """Return whose the slots are, by the order in which the optimizer makes them."""
    if state.slots:
        return []
    trained = trained_order(model)
    groups = _groups(state, row, len(trained))
    return [(variable, meaning) for group in groups for variable in trained for meaning in group]


def _groups(state: TrainingState, row: Row, trained: int) -> Sequence[tuple[str, ...]]:
    """Return the groups of existing slots, or none if not even their number shows them."""
    every, number = row.listed(state.generation), len(state.ordered)
    choices = product(*(_may_be_there(state, row.slot(group[0])) for group in every))
    found = [tuple(compress(every, chosen)) for chosen in choices]
    fitting = [groups for groups in found if sum(map(len, groups)) * trained == number]
    return fitting[0] if len(fitting) == 1 else ()


def _may_be_there(state: TrainingState, slot: SlotKind) -> tuple[bool, ...]:
    """Return whether there are slots of a meaning, by settings or names; both where those do not tell."""
    if not slot.name(state.generation):
        return (False,)
    if not slot.made_by or state.generation in slot.idle_in:
        return (True,)
    if state.settings:
        return (bool(state.settings.get(slot.made_by)),)
    slot_names = {_slot_name(state, key) for key in state.ordered} - {""}
    return (bool(slot_names & {slot.keras2, slot.legacy}),) if slot_names else (True, False)
