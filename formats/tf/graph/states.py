"""The state of every optimizer of a checkpoint, by its object graph or, where it has none, by names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...keras.training_state import training_states
from ...model.object_keys import VARIABLE_VALUE
from . import state_in_names

if TYPE_CHECKING:
    from ...keras.training_state import TrainingState
    from ...model.object_graph import ObjectGraph
    from ...model.reader import FormatReader


def states_of(reader: FormatReader) -> list[TrainingState] | None:
    """Return the state of each optimizer that a checkpoint has; None if its layout is unknown."""
    if reader.object_graph is not None:
        return training_states(reader.object_graph, reader.specs, reader.full_names)
    return state_in_names.read(reader)


def objects_of(reader: FormatReader) -> tuple[ObjectGraph, dict[int, str]] | None:
    """Return a checkpoint's object graph, one of its names where it has none, and the keys of variables.

    These are by the nodes that hold them.  None if neither can be had.
    """
    graph, names = reader.object_graph, {key: key for key in reader.specs}
    if graph is None:
        invented = state_in_names.graph_of_names(reader)
        if invented is None:
            return None
        graph, names = invented.graph, {key: name for name, key in invented.keys.items()}
    owners = graph.tensors(dict.fromkeys(names))
    return graph, {node: names[key] for key, (node, name, _) in owners.items() if name == VARIABLE_VALUE}
