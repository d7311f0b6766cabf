"""The object graph as data: nodes with what they hold, and a tree that spans it.

In an object graph, objects are shared, edges form circles, and slot variables have no edges. The tree
takes the shortest path from the root to each node, as object paths do; a slot variable is below its
optimizer. All walks are loops, not recursion: a hostile graph is a chain of any length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import counted
from formats.keras.optimizers import KERAS2, KERAS3
from formats.keras.training_state import training_states
from formats.model.object_graph import ROOT, optimizer_nodes
from formats.model.object_keys import VARIABLE_VALUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.core.spec import TensorSpec
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import FormatReader


_LONGEST_LABEL = 1000
"""Characters of a variable's path in the names of its slots: there can be any number of them."""


class GraphNode(NamedTuple):
    """A node, and the tensors that are its attributes; `spec` is that of the first.

    `leaf` is the type of a tree's leaf that is not a tensor: text, None or an empty container. `slots` are
    (variable, name, slot variable) of an optimizer: those of its triples, and those in its lists or in its
    part of a tree, which are also its descendants.
    """

    id: int
    object_path: str | None
    kind: str | None
    keys: Sequence[str]
    spec: TensorSpec | None
    children: Sequence[tuple[str, int]]
    slots: Sequence[tuple[int, str, int]]
    color: str
    nbytes: int
    leaf: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the node as the JSON document shows it."""
        return {
            "id": self.id,
            "object_path": self.object_path,
            "kind": self.kind,
            "key": self.keys[0] if self.keys else None,
            "children": [{"name": name, "id": node} for name, node in self.children],
            "slots": [{"variable": v, "name": name, "id": node} for v, name, node in self.slots],
            "keys": list(self.keys),
            "dtype": self.spec.dtype.name if self.spec else None,
            "shape": list(self.spec.shape) if self.spec else None,
            "nbytes": self.nbytes,
        }

    @property
    def remark(self) -> str:
        """The data stored at the node: dtype and shape of its tensor, or the number of tensors."""
        if len(self.keys) > 1:
            return counted(len(self.keys), "tensor")
        return f"{self.spec.dtype} {list(self.spec.shape)}" if self.spec else self.leaf or ""


def graph_nodes(reader: FormatReader, graph: ObjectGraph) -> list[GraphNode]:
    """Return all nodes; colours are those of TensorFlow's checkpoint guide."""
    specs = reader.specs
    keys: dict[int, list[str]] = {}
    variables = set()
    for key, (number, attribute, _) in graph.tensors(specs).items():
        keys.setdefault(number, []).append(key)
        if attribute == VARIABLE_VALUE:
            variables.add(number)
    slots: dict[int, list[tuple[int, str, int]]] = {}
    for slot in graph.slots:
        slots.setdefault(slot.optimizer, []).append((slot.variable, slot.name, slot.node))
    optimizers = optimizer_nodes(graph)
    by_path = {graph.paths[number]: number for number in optimizers if number in graph.paths}
    owners = {key: number for key, (number, _, _) in graph.tensors(specs).items()}
    for state in training_states(graph, specs, reader.full_names):
        if state.generation in (KERAS2, KERAS3) and state.path in by_path:
            for (variable, name), key in state.slots.items():
                slots.setdefault(by_path[state.path], []).append(
                    (owners[variable], state.slot_name(name), owners[key])
                )
    slot_nodes = {slot.node for slot in graph.slots}
    nodes = []
    for number in range(len(graph.nodes)):
        own = keys.get(number, [])
        found = [specs[key] for key in own]
        kind = reader.kinds.get(own[0]) if own else "optimizer" if number in optimizers else None
        color = (
            "red"
            if number in optimizers
            else "orange"
            if number in slot_nodes or kind == "slot"
            else "blue"
            if number in variables
            else "black"
        )
        nodes.append(
            GraphNode(
                number,
                reader.object_paths.get(own[0]) if kind == "slot" else graph.paths.get(number),
                kind,
                own,
                found[0] if found else None,
                tuple(graph.children(number)),
                slots.get(number, ()),
                color,
                sum(spec.nbytes or 0 for spec in found),
            )
        )
    return nodes


class Span(NamedTuple):
    """A tree that spans a graph; nodes in breadth-first order, the unreachable left out.

    `branches` are (edge name, node) by parent, `below` the number of nodes under each,
    `nbytes` the bytes at and under each.
    """

    level: dict[int, int]
    branches: dict[int, list[tuple[str, int]]]
    parent: dict[int, int]
    below: dict[int, int]
    nbytes: dict[int, int]


def slot_label(nodes: list[GraphNode], variable: int, name: str) -> str:
    """Return what a slot variable is called at its optimizer."""
    path = nodes[variable].object_path or f"node {variable}"
    return f"{name} of {path if len(path) <= _LONGEST_LABEL else path[:_LONGEST_LABEL] + '…'}"


def span(nodes: list[GraphNode]) -> Span:
    """Return the tree of shortest ways from the root, slot variables at their optimizers."""
    level, parent = {ROOT: 0}, {ROOT: ROOT}
    branches: dict[int, list[tuple[str, int]]] = {}
    order = [ROOT]
    plain = {child for node in nodes for _, child in node.children}
    for number in order:
        for name, child in nodes[number].children:
            if child not in level:
                level[child], parent[child] = level[number] + 1, number
                branches.setdefault(number, []).append((name, child))
                order.append(child)
        for variable, name, slot in nodes[number].slots:
            if slot not in level and slot not in plain:
                level[slot], parent[slot] = level[number] + 1, number
                branches.setdefault(number, []).append((slot_label(nodes, variable, name), slot))
                order.append(slot)
    below = dict.fromkeys(order, 0)
    nbytes = {number: nodes[number].nbytes for number in order}
    for number in reversed(order[1:]):
        below[parent[number]] += below[number] + 1
        nbytes[parent[number]] += nbytes[number]
    return Span(level, branches, parent, below, nbytes)
