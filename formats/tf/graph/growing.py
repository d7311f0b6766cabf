"""An object graph that grows: paths add nodes, which are numbered as TensorFlow does once all are there."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ...errors import ConversionError
from ...model.object_graph import ObjectGraph
from ...model.object_keys import (
    ATTRIBUTES,
    OPTIMIZER_SLOT,
    SAVE_COUNTER,
    TABLE,
    TABLE_SUFFIXES,
    VARIABLE_VALUE,
    escape,
    hides_attributes,
)
from ...wire.messages import (
    BoolValue,
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

_MOST_EDGES = 1000
"""Components of a name: each is a node whose key begins with all those above."""

_NAMELESS = "_"
"""The edge of an empty part of a name, as in `a//b` or `a/`: an edge needs a name."""

_HOLDS_VALUES = BoolValue(value=True)
"""The flag of every node, because each holds a value or leads to one."""


_UNNUMBERED = -1
_NO_EDGES: dict[str, GrowingNode] = {}
"""The edges of every node that has none yet, as most never do; it is never modified."""


class GrowingNode:
    """A node while the graph grows, `edge` leading to it from its parent.

    A node holds a variable, with this full name, or a hash table, with this name, or nothing, and
    `attributes` as well. `slots` are those of an optimizer: name, variable, and node of each. A million names
    make some millions of nodes, so the path, the beginning of a node's key, is computed on demand.
    """

    __slots__ = (
        "_slot_names",
        "attributes",
        "edge",
        "edges",
        "full_name",
        "number",
        "parent",
        "slots",
        "table",
    )

    def __init__(self, parent: GrowingNode | None = None, edge: str = "") -> None:
        self.parent = parent
        self.edge = edge
        self.edges: dict[str, GrowingNode] = _NO_EDGES
        self.full_name: str | None = None
        self.number = _UNNUMBERED
        self.table: str | None = None
        self.attributes: tuple[str, ...] = ()
        self.slots: list[tuple[str, GrowingNode, GrowingNode]] | None = None
        self._slot_names: dict[GrowingNode, set[str]] | None = None

    @property
    def path(self) -> str:
        edges = []
        node = self
        while node.parent is not None:
            edges.append(node.edge)
            node = node.parent
        return "/".join(map(escape, reversed(edges)))

    @property
    def key(self) -> str:
        return f"{self.path}/{ATTRIBUTES}/{VARIABLE_VALUE if self.table is None else TABLE}"

    def child(self, name: str) -> GrowingNode:
        found = self.edges.get(name)
        if found is None:
            found = GrowingNode(self, name)
            self.add_edge(name, found)
        return found

    def add_edge(self, name: str, child: GrowingNode) -> None:
        if not self.edges:
            self.edges = {}
        self.edges[name] = child

    def new_child(self, name: str) -> GrowingNode:
        return self.child(free_name(name, self.edges))

    def add_slot(self, name: str, variable: GrowingNode, full_name: str) -> GrowingNode:
        self.slots, self._slot_names = self.slots or [], self._slot_names or {}
        taken = self._slot_names.setdefault(variable, set())
        name = free_name(_edge_name(name), taken)
        taken.add(name)
        node = _Slot(variable, self, name)
        node.full_name = full_name
        self.slots.append((name, variable, node))
        return node


class _Slot(GrowingNode):
    """A slot variable, whose key begins with that of its variable."""

    __slots__ = ("optimizer",)

    def __init__(self, variable: GrowingNode, optimizer: GrowingNode, name: str) -> None:
        super().__init__(variable, name)
        self.optimizer = optimizer

    @property
    def path(self) -> str:
        assert self.parent is not None
        return f"{self.parent.path}/{OPTIMIZER_SLOT}/{self.optimizer.path}/{escape(self.edge)}"


def free_name(name: str, taken: Container[str]) -> str:
    """Return `name`, or the first of `name_1`, `name_2`, ... that is not taken."""
    number, found = 0, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def node_of(root: GrowingNode, name: str) -> GrowingNode:
    """Return the node of a name, which is below the root along the name's parts."""
    return node_at(root, name.split("/"))


def node_at(root: GrowingNode, parts: Sequence[str]) -> GrowingNode:
    """Return the node at the end of a path; missing nodes are created."""
    if len(parts) > _MOST_EDGES + 1:
        raise ConversionError(f"its path has more than {_MOST_EDGES} edges", key="/".join(parts)[:100] + "…")
    node = root
    for part in parts:  # the same below every layer, and kept once
        node = node.child(sys.intern(part))
    return node


def _edge_name(part: str) -> str:
    """Return a part of a name as an edge or a slot is called; itself, nearly always."""
    if hides_attributes(part):
        return f"{part.removesuffix(ATTRIBUTES)}_{ATTRIBUTES[1:]}"
    return part or _NAMELESS


def name_edges(root: GrowingNode, counter: GrowingNode | None = None, *, hidden: bool = False) -> None:
    """Give the parts of names that cannot be edges others, and all nodes their paths.

    The save counter's edge is for `counter` alone.  With `hidden`, edges are kept that TensorFlow restores
    nothing below: an object-based checkpoint had them.
    """
    waiting = [root]
    for node in waiting:
        for part in list(node.edges):
            edge = part if hidden and part else _edge_name(part)
            takes_counter = node is root and part == SAVE_COUNTER and node.edges[part] is not counter
            if edge != part or takes_counter:
                edge = free_name(edge, {*node.edges, SAVE_COUNTER})
                node.edges = {edge if name == part else name: child for name, child in node.edges.items()}
        for edge, child in node.edges.items():
            child.edge = edge
            waiting.append(child)


# Numbering -------------------------------------------------------------------------


def numbered(root: GrowingNode, counter: GrowingNode | None = None) -> tuple[ObjectGraph, dict[str, str]]:
    """Return the graph as TensorFlow numbers it, breadth-first and slots last, and the keys of all names.

    A `counter` without a name has no key among them. Edges are consumed, so that they are not in memory
    twice.
    """
    order = [root]
    root.number = 0
    for node in order:
        for child in node.edges.values():
            if child.number == _UNNUMBERED:
                child.number = len(order)
                order.append(child)
    for node in list(order):
        for _, _, slot in _by_number(node):
            slot.number = len(order)
            order.append(slot)
    keys: dict[str, str] = {}
    protos = []
    for node in order:
        key = "" if node.full_name is None and node.table is None else node.key
        protos.append(_proto(node, key))
        if node.full_name is not None and node is not counter:
            keys[node.full_name] = key
        if node.table is not None:
            keys |= {node.table + suffix: key + suffix for suffix in TABLE_SUFFIXES}
        node.edges = _NO_EDGES
    return ObjectGraph(TrackableObjectGraph(nodes=protos)), keys


def _by_number(node: GrowingNode) -> list[tuple[str, GrowingNode, GrowingNode]]:
    """Return the slots of a node in the order in which TensorFlow numbers them."""
    return sorted(node.slots or (), key=lambda slot: (slot[0], slot[1].number))


def _proto(node: GrowingNode, key: str) -> TrackableObject:
    """Return the message of a node that is numbered, as are all that it speaks of."""
    proto = TrackableObject.decode(b"")  # it has no lists of its own, because nearly all would be empty
    proto.has_checkpoint_values = _HOLDS_VALUES
    if node.edges:
        proto.children = [
            ObjectReference(node_id=child.number, local_name=name) for name, child in node.edges.items()
        ]
    if node.full_name is not None:
        proto.attributes = [
            SerializedTensor(name=VARIABLE_VALUE, full_name=node.full_name, checkpoint_key=key)
        ]
    if node.table is not None:
        # TensorFlow gives a table no full name: its own differ from program to program.
        proto.attributes = [SerializedTensor(name=TABLE, checkpoint_key=key)]
    for name in node.attributes:
        attribute = SerializedTensor(name=name, checkpoint_key=f"{node.path}/{ATTRIBUTES}/{name}")
        proto.attributes = [*proto.attributes, attribute]
    if node.slots:
        proto.slot_variables = [
            SlotVariableReference(
                original_variable_node_id=variable.number,
                slot_name=name,
                slot_variable_node_id=slot.number,
            )
            for name, variable, slot in _by_number(node)
        ]
    return proto
