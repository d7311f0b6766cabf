"""The tree of an Orbax or Flax checkpoint as nodes of a graph: a folder, a tensor or another leaf each.

A slot is where the tree has it, and a slot variable of its optimizer: pictures show it at its variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.orbax.facts import TreeFacts
from formats.orbax.kinds import slots_of
from formats.orbax.names import key_of, parts_of

from .tree import GraphNode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.model.reader import FormatReader
    from formats.orbax.names import Path


class _Tree(NamedTuple):
    """The number of each node by its path, and the children of each."""

    numbers: dict[Path, int]
    children: list[list[tuple[str, int]]]


def _grown(paths: Iterable[Path]) -> _Tree:
    """Return the tree of leaves, the root first."""
    tree = _Tree({(): 0}, [[]])
    for path in paths:
        parent = 0
        for at in range(1, len(path) + 1):
            number = tree.numbers.setdefault(path[:at], len(tree.children))
            if number == len(tree.children):
                tree.children.append([])
                tree.children[parent].append((key_of(path[at - 1 : at]), number))
            parent = number
    return tree


def tree_nodes(reader: FormatReader) -> list[GraphNode]:
    """Return all nodes of a tree of arrays; the names of edges are the parts of keys."""
    specs, facts = reader.specs, reader.facts
    tree_facts = facts if isinstance(facts, TreeFacts) else TreeFacts("")
    types = {**dict.fromkeys(tree_facts.values, "string"), **tree_facts.empty}
    paths = {key: tuple(parts_of(key)) for key in (*specs, *types)}
    tree = _grown(paths.values())
    keys = {tree.numbers[paths[key]]: key for key in specs}
    leaves = {tree.numbers[paths[key]]: kind for key, kind in types.items()}
    slots: dict[int, list[tuple[int, str, int]]] = {}
    for name, slot in slots_of({key: paths[key] for key in specs}, specs).items():
        variable = tree.numbers[paths[slot.variable]]
        slots.setdefault(tree.numbers[slot.optimizer], []).append(
            (variable, slot.name, tree.numbers[paths[name]])
        )
    nodes = []
    for path, number in tree.numbers.items():
        key, own = keys.get(number), slots.get(number, ())
        spec = None if key is None else specs[key]
        kind = "optimizer" if own else None if key is None else reader.kinds.get(key)
        color = "red" if own else "black" if key is None else "orange" if kind == "slot" else "blue"
        nodes.append(
            GraphNode(
                number,
                key_of(path),
                kind,
                [] if key is None else [key],
                spec,
                tree.children[number],
                own,
                color,
                0 if spec is None else spec.nbytes or 0,
                leaves.get(number),
            )
        )
    return nodes
