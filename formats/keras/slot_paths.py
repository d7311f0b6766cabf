"""Readable names for the slots of a Keras file, from its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CheckpointError
from .facts import keras_facts
from .match import fill
from .model import ModelError, from_config
from .optimizer_state import stored_state
from .slot_owners import owned_slots
from .variable_layout import give_names

if TYPE_CHECKING:
    from ..model.reader import FormatReader


def slot_paths(source: FormatReader) -> dict[str, str]:
    """Return what people call the slots of a Keras file, by key: `dense/kernel (m of optimizer)`.

    There are none if the file has no configuration, or if the owners of slots are unknown.
    """
    try:
        config = keras_facts(source.facts).config
        state = stored_state(source) if config is not None else None
        row = state.row if state is not None else None
        if config is None or state is None or row is None:
            return {}
        model = from_config(config)
        fill(model, source)
    except (ModelError, CheckpointError):
        return {}  # names are optional here; code that needs the model gets the error
    give_names(model)
    held = owned_slots(state, model, {key: spec.shape for key, spec in source.specs.items()})
    keys = {id(variable): variable.key for variable in model.all_variables()}
    return {
        key: f"{keys[owner]} ({row.slot(meaning).common_name(state.generation)} of optimizer)"
        for (owner, meaning), key in held.items()
    }
