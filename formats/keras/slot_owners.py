"""Whose the slots of an optimizer are that Keras lists by name or number, as a model's variables tell.

In HDF5 no edge leads from a slot to its variable.  Legacy optimizers name it; those since 2.11 list
slots in the order in which they make them, for the trained variables in the model's order.
"""

from __future__ import annotations

from itertools import compress, product
from typing import TYPE_CHECKING

from ..errors import CheckpointError
from .facts import keras_facts
from .match import fill
from .model import ModelError, from_config, trained_order
from .optimizer_state import stored_optimizer
from .optimizers import LEGACY
from .variable_layout import give_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..model.reader import FormatReader
    from .model import Unit, Variable
    from .optimizer_state import StoredOptimizer
    from .optimizers import Optimizer as Row
    from .optimizers import SlotKind


_Owners = list[tuple["Variable", str]]
"""The variable of each slot, and the slot's meaning."""


def owned(optimizer: StoredOptimizer, model: Unit, shapes: Mapping[str, tuple[int, ...]]) -> StoredOptimizer:
    """Return an optimizer with the variable and the meaning of each slot.

    `shapes` are those of all tensors: what does not fit is of another model, and stays unknown.
    """
    if optimizer.row is None:
        return optimizer
    found = _by_key(optimizer, model) if optimizer.owners else _told(optimizer, optimizer.row, model)
    fits = len(found) == len(optimizer.slots) and all(
        variable.key is not None and slot.key is not None and shapes[variable.key] == shapes[slot.key]
        for slot, (variable, _) in zip(optimizer.slots, found, strict=True)
    )
    if not fits:
        return optimizer
    pairs = zip(optimizer.slots, found, strict=True)
    return optimizer._replace(held={(id(variable), meaning): slot for slot, (variable, meaning) in pairs})


def _by_key(optimizer: StoredOptimizer, model: Unit) -> _Owners:
    variables = {variable.key: variable for variable in model.all_variables()}
    return [(variables[key], meaning) for key, meaning in optimizer.owners if key in variables]


def _told(optimizer: StoredOptimizer, row: Row, model: Unit) -> _Owners:
    """Return whose the slots are; nothing where neither names nor the order tell it."""
    return _by_name(optimizer, row, model) or _by_order(optimizer, row, model)


def _by_name(optimizer: StoredOptimizer, row: Row, model: Unit) -> _Owners:
    """Return whose a legacy optimizer's slots are, where the names of all say it."""
    if optimizer.generation != LEGACY:
        return []
    meanings = row.meanings(LEGACY)
    variables = {variable.full_name: variable for variable in model.all_variables()}
    found = [
        (variables.get(_owner(optimizer.name, slot)), meanings.get(slot.name)) for slot in optimizer.slots
    ]
    known = [(variable, meaning) for variable, meaning in found if variable is not None and meaning]
    return known if len(known) == len(found) else []


def _owner(optimizer: str, slot: Variable) -> str:
    """Return the full name of the variable that a legacy optimizer's slot belongs to."""
    above, _, owner = f"/{slot.full_name}".partition(f"/{optimizer}/")  # which scopes may precede
    return (owner or above[1:]).removesuffix(f"/{slot.name}")


def _by_order(optimizer: StoredOptimizer, row: Row, model: Unit) -> _Owners:
    """Return whose the slots are, by the order in which the optimizer makes them."""
    trained = trained_order(model)
    groups = _groups(optimizer, row, len(trained))
    return [(variable, meaning) for group in groups for variable in trained for meaning in group]


def _groups(optimizer: StoredOptimizer, row: Row, trained: int) -> Sequence[tuple[str, ...]]:
    """Return the groups of slots that there are; none where not even their number tells it."""
    every = row.listed(optimizer.generation)
    choices = product(*(_may_be_there(optimizer, row.slot(group[0])) for group in every))
    found = [tuple(compress(every, chosen)) for chosen in choices]
    fitting = [groups for groups in found if sum(map(len, groups)) * trained == len(optimizer.slots)]
    return fitting[0] if len(fitting) == 1 else ()


def _may_be_there(optimizer: StoredOptimizer, slot: SlotKind) -> tuple[bool, ...]:
    """Return whether there are slots of a meaning, by settings or names; both where those do not tell."""
    if not slot.name(optimizer.generation):
        return (False,)
    if not slot.made_by or optimizer.generation in slot.idle_in:
        return (True,)
    if optimizer.settings:
        return (bool(optimizer.settings.get(slot.made_by)),)
    spoken = {held.name for held in optimizer.slots if held.name}
    return (bool(spoken & {slot.keras2, slot.legacy}),) if spoken else (True, False)


def slot_paths(source: FormatReader) -> dict[str, str]:
    """Return what people call the slots of a Keras file, by key: `dense/kernel (m of optimizer)`.

    There are none where the file has no configuration, or nothing tells whose the slots are.
    """
    try:
        config = keras_facts(source.facts).config
        optimizer = stored_optimizer(source) if config is not None else None
        row = optimizer.row if optimizer is not None else None
        if config is None or optimizer is None or row is None:
            return {}
        model = from_config(config)
        fill(model, source)
    except (ModelError, CheckpointError):
        return {}  # names are a help: who needs the model is told what is wrong with it
    give_names(model)
    held = owned(optimizer, model, {key: spec.shape for key, spec in source.specs.items()}).held
    keys = {id(variable): variable.key for variable in model.all_variables()}
    return {
        slot.key: f"{keys[owner]} ({row.slot(meaning).spoken(optimizer.generation)} of optimizer)"
        for (owner, meaning), slot in held.items()
        if slot.key is not None
    }
