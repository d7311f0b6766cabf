"""The state of every optimizer of a checkpoint, by its object graph or, where it has none, by names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...keras.training_state import training_states
from ...model.object_keys import VARIABLE_VALUE
from ...model.reader import Family
from .invent import invent_graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...keras.training_state import TrainingState
    from ...model.object_graph import ObjectGraph
    from ...model.reader import FormatReader
    from .invent import Invented


def states_of(reader: FormatReader) -> list[TrainingState] | None:
    """Return the state of each optimizer that a checkpoint has; None where its layout is unknown."""
    if reader.object_graph is not None:
        return training_states(reader.object_graph, reader.specs, reader.full_names)
    invented = _invented(reader)
    if invented is None:
        return None
    names = {key: name for name, key in invented.keys.items()}
    specs = {key: reader.specs[name]._replace(key=key) for key, name in names.items()}
    return [_renamed(state, names) for state in training_states(invented.graph, specs, names)]


def objects_of(reader: FormatReader) -> tuple[ObjectGraph, dict[int, str]] | None:
    """Return a checkpoint's object graph, one of its names where it has none, and the keys of variables.

    These are by the nodes that hold them.  None where neither can be had.
    """
    graph, names = reader.object_graph, {key: key for key in reader.specs}
    if graph is None:
        invented = _invented(reader)
        if invented is None:
            return None
        graph, names = invented.graph, {key: name for name, key in invented.keys.items()}
    owners = graph.tensors(dict.fromkeys(names))
    return graph, {node: names[key] for key, (node, name, _) in owners.items() if name == VARIABLE_VALUE}


def _invented(reader: FormatReader) -> Invented | None:
    if reader.format.family is Family.KERAS:
        return None
    own, kinds = reader.own_keys, reader.kinds
    keys = {own.get(key, key): key for key in reader.specs if kinds.get(key) != "graph"}
    invented = invent_graph({name: reader.specs[key]._replace(key=name) for name, key in keys.items()})
    if invented.is_export:
        return None
    return invented._replace(keys={keys[name]: key for name, key in invented.keys.items()})


def _renamed(state: TrainingState, names: Mapping[str, str]) -> TrainingState:
    return state._replace(
        slots={(names[owner], slot): names[key] for (owner, slot), key in state.slots.items()},
        numbers={name: tuple(names[key] for key in keys) for name, keys in state.numbers.items()},
    )
