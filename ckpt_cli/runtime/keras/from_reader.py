"""Weights out of an open checkpoint of any format into a model made from a configuration.

    keras-h5                  layer by layer, each one's weights in their order
    keras, keras-weights      by object path, as `weights_file` walks the model
    tf-object                 by the edges of the object graph, the model being its root or a child
    the others                by the keys, or full names, of the checkpoint that has the configuration

All weights are found, of the right shapes, before one is assigned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formats.errors import UnsupportedFeatureError
from formats.keras.facts import keras_facts
from formats.keras.layers import edge_spellings
from formats.model.reader import Family

from ..graph_view import GraphView
from ..variable import Variable
from .hdf5 import _own_weights, _weights
from .weights_file import _own_variables, _walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import CheckpointReader

    from .model import Model

__all__ = ["assign", "assign_weights", "weights_by_key"]

_TOP_LEVEL = "top_level_model_weights"


def weights_by_key(model: Model, reader: CheckpointReader) -> dict[str, Any]:
    """Return the model's variables by their keys in a Keras checkpoint."""
    if reader.format.name == "keras-h5":
        found = _by_layer(model, reader)
    else:
        walks = (_by_path(model, reader, keras3=keras3) for keras3 in (False, True))
        found = max(walks, key=len)  # that by which the file was written finds more
    missing = [
        variable.name for variable in model.weights if all(variable is not one for one in found.values())
    ]
    if missing:
        message = f"{len(missing)} weights of the model are not in it, {missing[0]!r} for one"
        raise UnsupportedFeatureError(message, path=reader.location.path)
    return found


def _by_layer(model: Model, reader: CheckpointReader) -> dict[str, Any]:
    stored = [(layer.name, layer.keys) for layer in keras_facts(reader.facts).layers if layer.weights]
    own = [keys for name, keys in stored if name == _TOP_LEVEL]
    keys_of_layers = [keys for name, keys in stored if name != _TOP_LEVEL]
    layers = [_weights(layer) for layer in model.layers if layer.weights]
    groups = [*zip(layers, keys_of_layers, strict=False), *zip([_own_weights(model)], own, strict=False)]
    return {
        key: variable
        for variables, keys in groups
        if len(variables) == len(keys)
        for key, variable in zip(keys, variables, strict=True)
    }


def _by_path(model: Model, reader: CheckpointReader, *, keras3: bool) -> dict[str, Any]:
    places = (
        (f"{place}/vars/{number}".lstrip("/"), variable)
        for place, owner in _walk(model, keras3=keras3)
        for number, variable in enumerate(_own_variables(owner))
    )
    return {key: variable for key, variable in places if key in reader}


def assign_weights(model: Model, reader: CheckpointReader, named: Mapping[str, Any]) -> dict[str, Any]:
    """Give a model the weights of a checkpoint, and return its variables by the keys there.

    `named` are its variables by the keys of the checkpoint with the configuration.
    Raises UnsupportedFeatureError where some are missing or have other shapes.
    """
    if reader.format.family is Family.KERAS:
        pairs = weights_by_key(model, reader)
    elif reader.object_graph is not None:
        pairs = _by_graph(model, reader)
    else:
        pairs = {key: variable for key, variable in named.items() if key in reader}
        if len(pairs) < len(named):
            message = f"{len(named) - len(pairs)} of the model's {len(named)} weights are not in it by name"
            raise UnsupportedFeatureError(message, path=reader.location.path)
    assign(reader, pairs)
    return pairs


def assign(reader: CheckpointReader, pairs: Mapping[str, Any]) -> None:
    """Assign tensors to variables, all or, where a shape is another, none."""
    for key, variable in pairs.items():
        if variable.shape != reader.specs[key].shape:
            message = f"shape {list(reader.specs[key].shape)}, the model's weight has {list(variable.shape)}"
            raise UnsupportedFeatureError(message, path=reader.location.path, key=key)
    for key, variable in pairs.items():
        variable.assign(np.asarray(reader[key].read()).astype(variable._value.dtype))


def _by_graph(model: Model, reader: CheckpointReader) -> dict[str, Any]:
    """Return the model's variables by key, the model being the root of the graph or a child of it."""
    graph = reader.object_graph
    assert graph is not None
    owners = graph.tensors(dict.fromkeys(reader.specs))
    key_of = {number: key for key, (number, _, _) in owners.items()}
    live = GraphView(model).graph()
    variables = [number for number, one in enumerate(live.objects) if isinstance(one, Variable)]
    for start in (0, *(node for _, node in graph.children(0))):
        bound = {0: start}
        for number, edges in enumerate(live.edges):  # breadth first, so an owner comes before its children
            for name, child in edges if number in bound else ():
                there = _child(graph, bound[number], name)
                if there is not None:
                    bound.setdefault(child, there)
        keys = {number: key_of.get(bound[number]) for number in variables if number in bound}
        if len(keys) == len(variables) and all(keys.values()):
            return {str(key): live.objects[number] for number, key in keys.items()}
    message = f"its object graph is not that of model {model.name!r}"
    raise UnsupportedFeatureError(message, path=reader.location.path)


def _child(graph: ObjectGraph, node: int, name: str) -> int | None:
    """Return the child that an edge of ours leads to, under the name that Keras 2 or Keras 3 gives it.

    Keras 3 has its layers in a list `_operations`, inputs included; a Sequential keeps a
    Functional of its layers; kernels and embeddings are private attributes.
    """
    edges = dict(graph.children(node))
    for spelling in edge_spellings(name):
        if spelling in edges:
            return edges[spelling]
    functional = edges.get("_functional")
    holder = dict(graph.children(functional)) if functional is not None else edges
    if not name.startswith("layer-") or "_operations" not in holder:
        return None
    number = int(name.removeprefix("layer-")) + (functional is not None)  # ours leaves out the input
    return dict(graph.children(holder["_operations"])).get(str(number))
