"""An object graph for a checkpoint that has lost tensors, or the graph itself.

The rest of an intact graph is the graph without the objects whose values are lost: a program would look for
the values of an attribute, and fail. Edges that lead nowhere are removed too.

If the graph is lost, the keys still describe it, because each was made of the edge names that led to its
object when it was saved:

    net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE
        root -> net -> l1 -> kernel, with the attribute VARIABLE_VALUE
    net/l1/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE
        slot m of root -> optimizer for that kernel

Other edges to the same objects, and full names, are in no key. A program that restores through the same edges
finds everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...model.object_graph import ROOT, KeyResolver, ObjectGraph
from ...model.object_keys import ATTRIBUTES, OPTIMIZER_SLOT, SUFFIXES, unescape
from ...wire.messages import (
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)
from .prune import prune

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_REPORTED = frozenset(("graph-key", "graph-node"))
"""Findings that a trimmed graph no longer has."""


def claimed_keys(graph: ObjectGraph, keys: Mapping[str, object]) -> list[str]:
    """Return the keys that the graph names and that are not among `keys`."""
    resolve = KeyResolver(keys)
    named = dict.fromkeys(attribute.checkpoint_key for node in graph.nodes for attribute in node.attributes)
    return [key for key in named if key and not resolve(key)]


def without_lost(graph: ObjectGraph, keys: Mapping[str, object], kept: Mapping[str, object]) -> ObjectGraph:
    """Return the graph of the tensors that are `kept`, of all `keys`; the same where nothing has to go.

    A key that the graph names and an intact index lacks is not a loss, because TensorFlow ignores it.
    """
    lost = claimed_keys(graph, kept)
    flawed = any(flaw.code in _REPORTED and flaw.severity == "error" for flaw in graph.flaws(kept))
    if not flawed and len(lost) == len(claimed_keys(graph, keys)):
        return graph
    every: dict[str, object] = {**keys, **dict.fromkeys(lost)}
    owners = graph.tensors(every)
    nodes = {number for key, (number, _, _) in owners.items() if key in kept}
    # A variable without its value stays where its slots do: they hang on it.
    needed = {slot.variable for slot in graph.slots if slot.node in nodes}
    held = {key: None for key, (number, _, _) in owners.items() if number in needed}
    pruned = prune(graph, every, {**kept, **held})
    resolve = KeyResolver(kept)
    for node in pruned.nodes:
        node.attributes = [found for found in node.attributes if resolve(found.checkpoint_key)]
    return pruned


def graph_of_keys(keys: Iterable[str]) -> tuple[ObjectGraph, list[str]]:
    """Return the graph that object-based keys tell, and the keys that tell nothing."""
    nodes = _SalvagedNodes()
    unplaced = []
    for key in keys:
        path, found, attribute = key.rpartition(f"/{ATTRIBUTES}/")
        if not found:
            unplaced.append(key)
            continue
        variable, is_slot, slot = path.partition(f"/{OPTIMIZER_SLOT}/")
        is_slot = is_slot if "/" in slot else ""
        node = nodes.slot(variable, *slot.rsplit("/", 1)) if is_slot else nodes.at(path)
        suffix = next((suffix for suffix in SUFFIXES if attribute.endswith(suffix)), "")
        stem = key.removesuffix(suffix)
        known = {each.checkpoint_key for each in nodes.proto.nodes[node].attributes}
        if stem not in known:
            name = attribute.removesuffix(suffix)
            nodes.proto.nodes[node].attributes.append(SerializedTensor(name=name, checkpoint_key=stem))
    graph = ObjectGraph(nodes.proto)
    graph.mark_checkpoint_values()
    return graph, unplaced


class _SalvagedNodes:
    """A graph that grows by paths, as keys spell them."""

    def __init__(self) -> None:
        self.proto = TrackableObjectGraph(nodes=[TrackableObject()])
        self._by_path = {"": ROOT}

    def _new(self) -> int:
        self.proto.nodes.append(TrackableObject())
        return len(self.proto.nodes) - 1

    def at(self, path: str) -> int:
        if path not in self._by_path:
            above, _, name = path.rpartition("/")
            parent = self.at(above)
            self._by_path[path] = self._new()
            reference = ObjectReference(node_id=self._by_path[path], local_name=unescape(name))
            self.proto.nodes[parent].children.append(reference)
        return self._by_path[path]

    def slot(self, variable: str, optimizer: str, name: str) -> int:
        owner, original, node = self.at(optimizer), self.at(variable), self._new()
        reference = SlotVariableReference(
            original_variable_node_id=original, slot_name=unescape(name), slot_variable_node_id=node
        )
        self.proto.nodes[owner].slot_variables.append(reference)
        return node
