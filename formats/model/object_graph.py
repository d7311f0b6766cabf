"""The object graph: which object of the program each tensor belongs to.

A string scalar, TrackableObjectGraph: nodes with named edges to other nodes, and
with attributes, which are the tensors.  Node 0 is the root, a node's id is its place.
Slot variables hang on no edge; their optimizer's node lists triples of variable,
slot name and slot variable.  Edges decide what a tensor is, not the text of its key.

A graph from a file may be malformed: ids may point nowhere, edges may form circles, names may repeat. `flaws`
reports that; all other code ignores edges that lead nowhere.
tensorflow/core/protobuf/trackable_object_graph.proto
"""

from __future__ import annotations

import bisect
import itertools
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..core.collector import collector_paused
from ..core.spec import is_utf8
from ..wire.messages import BoolValue, TrackableObject, TrackableObjectGraph
from ..wire.protobuf import iter_fields
from .object_keys import SUFFIXES, VARIABLE_VALUE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


_OPTIMIZER_EDGES = frozenset(("iter", "_iterations"))

ROOT = 0
_FEW_NODES = 1024
_LEAST_NODE = 8
"""Bytes that a node takes at least, with an edge that leads to it."""


class Slot(NamedTuple):
    """A slot variable: its optimizer, the variable it belongs to, its name, its own node."""

    optimizer: int
    variable: int
    name: str
    node: int


def most_path_characters(nodes: int) -> int:
    """Return how long all paths of a graph may be together.

    Those of a long chain of nodes grow with its square; what is behind goes without.
    """
    return (1 << 22) + 128 * nodes


class GraphFlaw(NamedTuple):
    """A contradiction in a graph, with its finding code."""

    severity: str
    code: str
    message: str
    key: str | None = None


def _texts(node: TrackableObject) -> Iterator[str]:
    """Yield what of a node is text, which protocol buffers want to be UTF-8."""
    for child in node.children:
        yield child.local_name
    for attribute in node.attributes:
        yield from (attribute.name, attribute.full_name, attribute.checkpoint_key)
    for slot in node.slot_variables:
        yield slot.slot_name
    if node.registered_saver is not None:
        yield from (node.registered_saver.name, node.registered_saver.object_name)


class KeyResolver:
    """Finds the tensors that an attribute's `checkpoint_key` stands for.

    It is the key itself, except for iterators and hash tables, where it is what
    the keys begin with.
    """

    def __init__(self, keys: Mapping[str, object]) -> None:
        self._keys = keys
        self._sorted: list[str] | None = None

    def __call__(self, checkpoint_key: str) -> list[str]:
        keys = self._keys
        if checkpoint_key in keys:
            return [checkpoint_key]
        suffixed = [checkpoint_key + suffix for suffix in SUFFIXES if checkpoint_key + suffix in keys]
        if suffixed or not checkpoint_key:
            return suffixed
        if self._sorted is None:
            self._sorted = sorted(keys)
        start = bisect.bisect_left(self._sorted, checkpoint_key)
        following = itertools.islice(self._sorted, start, None)
        return list(itertools.takewhile(lambda key: key.startswith(checkpoint_key), following))


class ObjectGraph:
    """A decoded object graph, and what follows from it."""

    def __init__(self, proto: TrackableObjectGraph) -> None:
        self.proto = proto
        self.nodes: list[TrackableObject] = proto.nodes

    @classmethod
    def decode(cls, data: bytes) -> ObjectGraph:
        """Return the graph in a serialized TrackableObjectGraph; ValueError if there is none."""
        count = sum(number == 1 for number, *_ in iter_fields(data))
        if count > _FEW_NODES + len(data) // _LEAST_NODE:
            raise ValueError(
                f"it declares {count} nodes, but its {len(data)} bytes are too few for their edges"
            )
        with collector_paused():
            graph = cls(TrackableObjectGraph.decode(data))
        if not graph.nodes:
            raise ValueError("it has no nodes; a root node is required")
        return graph

    def encode(self) -> bytes:
        """Return the graph as a serialized TrackableObjectGraph, unknown fields and all."""
        return self.proto.encode()

    def holding(self) -> set[int]:
        """Return the nodes that hold values, or one below them does."""
        parents: dict[int, list[int]] = {}
        for number in range(len(self.nodes)):
            for _, child in self.children(number):
                parents.setdefault(child, []).append(number)
        waiting = [
            number
            for number, node in enumerate(self.nodes)
            if node.attributes or node.slot_variables or node.registered_saver is not None
        ]
        holding = set(waiting)
        while waiting:
            above = [parent for parent in parents.get(waiting.pop(), ()) if parent not in holding]
            holding.update(above)
            waiting += above
        return holding

    def mark_checkpoint_values(self) -> None:
        """Say of every node whether it or one below it holds values, as TensorFlow does when it saves.

        A node that is wrongly said to hold none is passed over when objects are restored
        as they are created, and its values are lost.
        """
        holding = self.holding()
        for number, node in enumerate(self.nodes):
            node.has_checkpoint_values = BoolValue(value=number in holding)

    def children(self, node: int) -> Iterator[tuple[str, int]]:
        """Yield (edge name, node id) of the edges of a node that lead somewhere."""
        count = len(self.nodes)
        for child in self.nodes[node].children:
            if 0 <= child.node_id < count:
                yield child.local_name, child.node_id

    @cached_property
    def slots(self) -> list[Slot]:
        """All slot triples whose nodes exist."""
        nodes = range(len(self.nodes))
        return [
            Slot(optimizer, slot.original_variable_node_id, slot.slot_name, slot.slot_variable_node_id)
            for optimizer, node in enumerate(self.nodes)
            for slot in node.slot_variables
            if slot.original_variable_node_id in nodes and slot.slot_variable_node_id in nodes
        ]

    def reachable(
        self, start: Iterable[int] = (ROOT,), without: Collection[int] = ()
    ) -> dict[int, tuple[int, str] | None]:
        """Return the nodes reached breadth-first, each with the parent and the edge that reached it first."""
        found: dict[int, tuple[int, str] | None] = {node: None for node in start if node not in without}
        queue = list(found)
        for node in queue:
            for name, child in self.children(node):
                if child not in found and child not in without:
                    found[child] = node, name
                    queue.append(child)
        return found

    @cached_property
    def paths(self) -> dict[int, str]:
        """Object path by node: the edge names of the shortest way from the root, slots by their variable."""
        paths: dict[int, str] = {}
        left = most_path_characters(len(self.nodes))
        for node, came_from in self.reachable().items():
            if came_from is None:
                paths[node] = ""
                continue
            parent, name = came_from
            if parent in paths and left >= 0:
                paths[node] = f"{paths[parent]}/{name}" if parent != ROOT else name
                left -= len(paths[node])
        for slot in self.slots:
            if slot.node not in paths and slot.variable in paths and slot.optimizer in paths and left >= 0:
                paths[slot.node] = f"{paths[slot.variable]} ({slot.name} of {paths[slot.optimizer]})"
                left -= len(paths[slot.node])
        return paths

    def tensors(self, keys: Mapping[str, object]) -> dict[str, tuple[int, str, str]]:
        """Return, for each of `keys` that an attribute stands for: node id, attribute name, full name."""
        found: dict[str, tuple[int, str, str]] = {}
        claimed: set[str] = set()  # A key claimed again finds nothing new, and finding can mean a search.
        resolve = KeyResolver(keys)
        for number, node in enumerate(self.nodes):
            for attribute in node.attributes:
                if attribute.checkpoint_key in claimed:
                    continue
                claimed.add(attribute.checkpoint_key)
                for key in resolve(attribute.checkpoint_key):
                    found.setdefault(key, (number, attribute.name, attribute.full_name))
        return found

    def flaws(self, keys: Mapping[str, object]) -> Iterator[GraphFlaw]:
        """Yield what contradicts itself, or the `keys` of the checkpoint."""
        owners: dict[str, int] = {}
        resolve = KeyResolver(keys)
        for number, node in enumerate(self.nodes):
            for text in _texts(node):
                if not is_utf8(text):
                    message = f"{text!r} at node {number} is not UTF-8: TensorFlow cannot decode the graph"
                    yield GraphFlaw("error", "graph-decode", message)
            yield from _flaws_of_edges(number, node, len(self.nodes))
            yield from _flaws_of_slots(number, node, len(self.nodes))
            yield from _flaws_of_attributes(number, node, owners, resolve)


def optimizer_nodes(graph: ObjectGraph) -> set[int]:
    """Return the optimizers: nodes with slot triples, or with an edge that counts iterations."""
    return {
        number
        for number, node in enumerate(graph.nodes)
        if node.slot_variables or any(child.local_name in _OPTIMIZER_EDGES for child in node.children)
    }


def _flaws_of_edges(number: int, node: TrackableObject, count: int) -> Iterator[GraphFlaw]:
    """Yield edges of a node that lead to none of `count` nodes, or two of one name to different ones."""
    names: dict[str, int] = {}
    for child in node.children:
        if not 0 <= child.node_id < count:
            message = (
                f"edge {child.local_name!r} of node {number} points to node {child.node_id}, "
                f"but the graph has only {count} nodes"
            )
            yield GraphFlaw("error", "graph-node", message)
        if names.setdefault(child.local_name, child.node_id) != child.node_id:
            message = f"two edges {child.local_name!r} of node {number} point to different nodes"
            yield GraphFlaw("error", "graph-duplicate", message)


def _flaws_of_slots(number: int, node: TrackableObject, count: int) -> Iterator[GraphFlaw]:
    """Yield slot variables of a node whose variable or slot is none of `count` nodes."""
    for slot in node.slot_variables:
        ends = ("variable", slot.original_variable_node_id), ("slot variable", slot.slot_variable_node_id)
        for what, target in ends:
            if not 0 <= target < count:
                message = (
                    f"slot {slot.slot_name!r} of node {number}: the {what} is node {target}, "
                    f"but the graph has only {count} nodes"
                )
                yield GraphFlaw("error", "graph-node", message)


def _flaws_of_attributes(
    number: int, node: TrackableObject, owners: dict[str, int], resolve: KeyResolver
) -> Iterator[GraphFlaw]:
    """Yield attributes of a node without a key in the index, or with another node's; adds to `owners`."""
    for attribute in node.attributes:
        key = attribute.checkpoint_key
        if key not in owners and not resolve(key):
            message = f"attribute {attribute.name!r} of node {number} has a key that is not in the index"
            # A variable without its value fails every restore, other state only its own object's.
            severity = "error" if attribute.name == VARIABLE_VALUE else "warning"
            yield GraphFlaw(severity, "graph-key", message, key)
        if owners.setdefault(key, number) != number:
            message = f"nodes {owners[key]} and {number} claim the same key"
            yield GraphFlaw("warning", "graph-duplicate", message, key)
