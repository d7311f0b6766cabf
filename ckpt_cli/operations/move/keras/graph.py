"""The object graph that Keras 2 writes of a model: `save_weights` of a Sequential or Functional one.

    model       for each layer layer_with_weights-K, of those with weights, and layer-N, of all
    layer       its variables and parts by attribute
    root        `optimizer`, where there is one, and `root`, which leads back to it

Nodes are numbered breadth-first, and the first way to a variable is its key, so keys read
`layer_with_weights-0/kernel`.  tensorflow/python/checkpoint/graph_view.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.model.object_graph import ObjectGraph
from formats.model.object_keys import ATTRIBUTES, OPTIMIZER_SLOT, VARIABLE_VALUE, escape
from formats.wire.messages import (
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)

from .model import Unit, Variable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .model import Placed


SlotOf = tuple[str, Variable, Variable]
"""A slot variable: the slot's name, the variable it belongs to, itself."""

OPTIMIZER = "optimizer"


def _edges(node: Unit | Variable) -> Iterator[tuple[str, Unit | Variable]]:
    """Yield a node's edges, but for those to variables that are left out."""
    if isinstance(node, Variable):
        return
    number = 0
    for place, layer in enumerate(node.layers):
        if layer.has_weights():
            yield f"layer_with_weights-{number}", layer
            number += 1
        if node.numbered:
            yield f"layer-{place}", layer
    for name, target, _ in node.edges:
        if isinstance(target, Unit) or target.is_given:
            yield name, target


def graph_of(
    model: Unit, optimizer: Unit | None = None, slots: Sequence[SlotOf] = ()
) -> tuple[ObjectGraph, list[Placed]]:
    """Return the graph of a model, and the key of each variable that has values."""
    nodes: list[Unit | Variable] = [model]
    numbers = {id(model): 0}
    paths = [""]
    protos = [TrackableObject()]

    def add(node: Unit | Variable, path: str) -> int:
        numbers[id(node)] = len(nodes)
        nodes.append(node)
        paths.append(path)
        protos.append(TrackableObject())
        return numbers[id(node)]

    for number, node in enumerate(nodes):
        edges = list(_edges(node))
        if number == 0:
            edges += [(OPTIMIZER, optimizer)] if optimizer is not None else []
            edges.append(("root", model))
        for name, target in edges:
            child = numbers.get(id(target))
            if child is None:
                above = f"{paths[number]}/" if paths[number] else ""
                child = add(target, above + escape(name))
            protos[number].children.append(ObjectReference(node_id=child, local_name=name))
    for slot, variable, held in slots:
        assert optimizer is not None
        path = f"{paths[numbers[id(variable)]]}/{OPTIMIZER_SLOT}/{OPTIMIZER}/{escape(slot)}"
        reference = SlotVariableReference(
            original_variable_node_id=numbers[id(variable)],
            slot_name=slot,
            slot_variable_node_id=add(held, path),
        )
        protos[numbers[id(optimizer)]].slot_variables.append(reference)
    placed: list[Placed] = []
    for proto, node, path in zip(protos, nodes, paths, strict=True):
        if isinstance(node, Variable):
            key = f"{path}/{ATTRIBUTES}/{VARIABLE_VALUE}"
            attribute = SerializedTensor(name=VARIABLE_VALUE, full_name=node.full_name, checkpoint_key=key)
            proto.attributes.append(attribute)
            placed.append((node, key))
    graph = ObjectGraph(TrackableObjectGraph(nodes=protos))
    graph.mark_checkpoint_values()
    return graph, placed
