"""An object graph without the tensors that are left out of a copy.

A node keeps its place in the program as long as something below it is kept.  One that
has lost all its values goes, with the edges and slot triples that lead to it, since
TensorFlow would look for what it says is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...model.object_graph import ROOT, ObjectGraph
from ...wire.messages import (
    BoolValue,
    ObjectReference,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)

if TYPE_CHECKING:
    from collections.abc import Container, Mapping


def prune(graph: ObjectGraph, keys: Mapping[str, object], kept: Container[str]) -> ObjectGraph:
    """Return the graph of a checkpoint after only the `kept` of all `keys` remain."""
    owners = graph.tensors(keys)
    had = _holding(graph, {number for number, _, _ in owners.values()})
    has = _holding(graph, {number for key, (number, _, _) in owners.items() if key in kept})
    staying = [n for n in range(len(graph.nodes)) if n == ROOT or n in has or n not in had]
    numbers = {old: new for new, old in enumerate(staying)}
    left = {number for key, (number, _, _) in owners.items() if key in kept}
    return ObjectGraph(
        TrackableObjectGraph(
            nodes=[_without(graph.nodes[old], old in left, old in has, numbers) for old in staying],
            unknown=graph.proto.unknown,
        )
    )


def _holding(graph: ObjectGraph, values: set[int]) -> set[int]:
    """Return the nodes that hold values or lead to ones that do."""
    parents: dict[int, list[int]] = {}
    for number in range(len(graph.nodes)):
        for _, child in graph.children(number):
            parents.setdefault(child, []).append(number)
    for slot in graph.slots:
        parents.setdefault(slot.node, []).append(slot.optimizer)
    found = set(values)
    queue = list(values)
    for node in queue:
        for parent in parents.get(node, ()):
            if parent not in found:
                found.add(parent)
                queue.append(parent)
    return found


def _without(
    node: TrackableObject, has_value: bool, holds: bool, numbers: Mapping[int, int]
) -> TrackableObject:
    children = [
        ObjectReference(node_id=numbers[child.node_id], local_name=child.local_name, unknown=child.unknown)
        for child in node.children
        if child.node_id in numbers
    ]
    slots = [
        SlotVariableReference(
            original_variable_node_id=numbers[slot.original_variable_node_id],
            slot_name=slot.slot_name,
            slot_variable_node_id=numbers[slot.slot_variable_node_id],
            unknown=slot.unknown,
        )
        for slot in node.slot_variables
        if slot.original_variable_node_id in numbers and slot.slot_variable_node_id in numbers
    ]
    has_flag = node.has_checkpoint_values is not None
    return TrackableObject(
        children=children,
        attributes=list(node.attributes) if has_value else [],
        slot_variables=slots,
        registered_saver=node.registered_saver,
        has_checkpoint_values=BoolValue(value=holds) if has_flag else None,
        unknown=node.unknown,
    )
