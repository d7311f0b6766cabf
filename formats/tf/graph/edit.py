"""Object graphs under other paths: nodes hung up elsewhere, and the keys that follow.

A node whose path changes keeps its number, its attributes and its subtree. If the parent stays, the edge is
renamed. Otherwise the new parent, which is created as needed, gets the edge, and nodes left empty are
removed. All other edges stay: they are other paths to the object. A namedtuple has each field under its name
and under its index, so the index edge follows the name.

    attribute's key   <path>/.ATTRIBUTES/<name>, and what begins with it
    slot's key        <variable's path>/.OPTIMIZER_SLOT/<optimizer's path>/<slot>/.ATTRIBUTES/<name>

Only the part of a key before `/.ATTRIBUTES/` is replaced: TensorFlow looks up the rest by the name that the
live object uses, which some files escape twice. A node whose path does not change keeps its key, even an
inconsistent one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConversionError, DuplicateKeyError
from ...model.object_graph import ROOT, KeyResolver, ObjectGraph
from ...model.object_keys import ATTRIBUTES, OPTIMIZER_SLOT, escape, unescape
from ...wire.messages import BoolValue, ObjectReference, TrackableObject
from .plan import GraphRenamePlan, holds_something, in_words, make_plan, parent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_TAIL = f"/{ATTRIBUTES}/"
_SLOT = f"/{OPTIMIZER_SLOT}/"


class EditedGraph(NamedTuple):
    """A graph with other paths, and all keys of the checkpoint, old to new."""

    graph: ObjectGraph
    keys: dict[str, str]


def edit_graph(
    graph: ObjectGraph,
    keys: Iterable[str],
    moves: Mapping[int, str],
    *,
    slot_names: Mapping[int, str] | None = None,
    full_names: Mapping[str, str] | None = None,
) -> EditedGraph:
    """Return a graph in which nodes have the paths of `moves`, escaped, and every key's new name.

    `keys` are those of the checkpoint.  `slot_names` gives slot variables' nodes other
    slot names, `full_names` replaces full names.  The given graph is not changed.
    Raises ConversionError for what cannot be done, DuplicateKeyError where two tensors
    end on one key.
    """
    plan = make_plan(graph, moves)
    # Unchanged nodes are shared with the given graph: there can be a hundred thousand.
    edited = ObjectGraph(graph.proto.replace(nodes=list(graph.nodes)))
    if slot_names:
        _rename_slots(edited, slot_names)
    known = dict.fromkeys(keys)
    new_keys, renamed = _follow(graph, _new_stems(graph, plan, slot_names or {}), known)
    _rename_attributes(edited, new_keys, full_names or {})
    del new_keys
    if plan.old != plan.new:
        edited = _NodeMover(edited, plan).run()
    return EditedGraph(edited, _without_duplicates({key: renamed.get(key, key) for key in known}))


def _rename_slots(graph: ObjectGraph, names: Mapping[int, str]) -> None:
    for number, trackable in enumerate(graph.nodes):
        if any(slot.slot_variable_node_id in names for slot in trackable.slot_variables):
            slots = [
                slot.replace(slot_name=names.get(slot.slot_variable_node_id, slot.slot_name))
                for slot in trackable.slot_variables
            ]
            graph.nodes[number] = trackable.replace(slot_variables=slots)


def _rename_attributes(graph: ObjectGraph, keys: Mapping[str, str], full_names: Mapping[str, str]) -> None:
    for number, trackable in enumerate(graph.nodes):
        if any(each.checkpoint_key in keys or each.full_name in full_names for each in trackable.attributes):
            attributes = [
                each.replace(
                    checkpoint_key=keys.get(each.checkpoint_key, each.checkpoint_key),
                    full_name=full_names.get(each.full_name, each.full_name),
                )
                for each in trackable.attributes
            ]
            graph.nodes[number] = trackable.replace(attributes=attributes)


# Keys -----------------------------------------------------------------------------


def _new_stems(
    graph: ObjectGraph, plan: GraphRenamePlan, slot_names: Mapping[int, str]
) -> dict[int, tuple[str | None, str | None]]:
    """Return the part before `/.ATTRIBUTES/` in the keys of nodes: by their path, as a slot."""
    stems: dict[int, tuple[str | None, str | None]] = {
        node: (path, None) for node, path in plan.new.items() if path != plan.old[node]
    }
    for slot in graph.slots:
        around = (slot.variable, slot.optimizer)
        if not all(node in plan.new for node in around):
            continue
        if slot.node in slot_names or any(plan.new[node] != plan.old[node] for node in around):
            name = escape(slot_names.get(slot.node, slot.name))
            stem = f"{plan.new[slot.variable]}{_SLOT}{plan.new[slot.optimizer]}/{name}"
            stems[slot.node] = (stems.get(slot.node, (None, None))[0], stem)
    return stems


def _follow(
    graph: ObjectGraph,
    stems: Mapping[int, tuple[str | None, str | None]],
    keys: Mapping[str, object],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the new keys of attributes, and those of the tensors behind them, old to new."""
    resolve = KeyResolver(keys)
    new_keys: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for number in sorted(stems):
        by_path, as_slot = stems[number]
        for attribute in graph.nodes[number].attributes:
            key = attribute.checkpoint_key
            at = key.rfind(_TAIL)
            stem = as_slot if _SLOT in key[: max(at, 0)] or by_path is None else by_path
            if at < 0 or stem is None or key in new_keys:
                continue
            new_keys[key] = stem + key[at:]
            for tensor in resolve(key):
                # A key is one text, however many know it.
                new_key = new_keys[key] if tensor == key else new_keys[key] + tensor[len(key) :]
                renamed.setdefault(tensor, new_key)
    return new_keys, renamed


def _without_duplicates(keys: dict[str, str]) -> dict[str, str]:
    """Return renamed keys; DuplicateKeyError where two are the same."""
    owners: dict[str, str] = {}
    for old, new in keys.items():
        if owners.setdefault(new, old) != old:
            message = f"{owners[new]!r} and {old!r} would both become this key"
            raise DuplicateKeyError(message, key=new)
    return keys


# Edges ----------------------------------------------------------------------------


class _NodeMover:
    """Hangs the nodes of a graph up as a plan says.

    The graph is changed in place, its messages are not: they are those of another graph, too.
    """

    def __init__(self, graph: ObjectGraph, plan: GraphRenamePlan) -> None:
        self._graph = graph
        self._plan = plan
        self._count = len(graph.nodes)
        self._touched: set[int] = set()
        self._owned: set[int] = set()
        self._edges: dict[int, dict[str, int]] = {}
        # If several nodes end on one path, the others dissolve in the one that stays.
        self._at = {path: node for node, path in plan.new.items() if node not in plan.dissolved}

    def run(self) -> ObjectGraph:
        waiting = self._take_down()
        for node, edge in waiting:
            self._hang(self._find(parent_of(self._plan.new[node])), edge)
        for node in self._plan.dissolved:
            self._pass_on_edges(node)
        for node in self._touched:
            self._check_names(node)
        self._check_ways([node for node, _ in waiting])
        self._mark_values()
        return self._without(self._emptied())

    def _set_children(self, node: int, edges: list[ObjectReference]) -> None:
        """Give a node these edges, in a list that it has for itself."""
        self._owned.add(node)
        self._graph.nodes[node] = self._graph.nodes[node].replace(children=edges)

    def _take_down(self) -> list[tuple[int, ObjectReference]]:
        """Rename the edges that stay at their parent, and take down and return all others that move."""
        tree, old, new, dissolved = self._plan
        waiting = []
        for number, trackable in enumerate(self._graph.nodes):
            is_namedtuple = _is_namedtuple(trackable)
            staying, gone = [], set[int]()
            for edge in trackable.children:
                node = edge.node_id
                is_way = node in old and tree[node] == (number, edge.local_name)
                if not is_way or (old[node] == new[node] and number not in dissolved):
                    staying.append(edge)
                    continue
                self._touched.add(number)
                if node in dissolved:
                    continue
                moved = edge.replace(local_name=unescape(new[node].rpartition("/")[2]))
                if number not in dissolved and parent_of(new[node]) == new.get(number):
                    staying.append(moved)
                else:
                    waiting.append((node, moved))
                    gone.add(node)
            if number in self._touched:
                left = [
                    edge
                    for edge in staying
                    if not (is_namedtuple and edge.node_id in gone and edge.local_name.isdigit())
                ]
                self._set_children(number, left)
        order = {node: place for place, node in enumerate(tree)}
        return sorted(waiting, key=lambda item: order[item[0]])

    def _hang(self, parent: int, edge: ObjectReference) -> None:
        self._touched.add(parent)
        self._edges_of(parent)[edge.local_name] = edge.node_id
        if parent not in self._owned:
            self._set_children(parent, list(self._graph.nodes[parent].children))
        self._graph.nodes[parent].children.append(edge)

    def _edges_of(self, node: int) -> dict[str, int]:
        """Return a node's edges by name, after all removals."""
        edges = self._edges.get(node)
        if edges is None:
            children = self._graph.nodes[node].children
            edges = self._edges[node] = {edge.local_name: edge.node_id for edge in children}
        return edges

    def _find(self, path: str) -> int:
        """Return the node at a path, made if there is none; edges that stay are ways to it, too."""
        missing: list[str] = []
        while path not in self._at:
            parent, _, name = path.rpartition("/")
            missing.append(name)
            path = parent
        node = self._at[path]
        for name in reversed(missing):
            below = self._edges_of(node).get(unescape(name))
            if below is None or not 0 <= below < len(self._graph.nodes):
                below = len(self._graph.nodes)
                self._graph.nodes.append(TrackableObject())
                self._hang(node, ObjectReference(node_id=below, local_name=unescape(name)))
            path = f"{path}/{name}" if path else name
            self._at[path] = node = below
        return node

    def _pass_on_edges(self, node: int) -> None:
        """Give the edges left at a node that dissolves to the one it dissolves in."""
        parent = self._find(self._plan.new[node])
        for edge in self._graph.nodes[node].children:
            if self._edges_of(parent).get(edge.local_name) != edge.node_id:
                self._hang(parent, edge)
        self._set_children(node, [])
        self._edges.pop(node, None)

    def _check_names(self, number: int) -> None:
        """Refuse two edges of one name, unless they lead to one node: then one is enough."""
        names: dict[str, int] = {}
        edges: list[ObjectReference] = []
        for edge in self._graph.nodes[number].children:
            there = names.setdefault(edge.local_name, edge.node_id)
            if there != edge.node_id:
                where = self._plan.new.get(number)
                name = f"{in_words(where)}/{edge.local_name}" if where else edge.local_name
                raise ConversionError(f"two objects would be named {name!r}")
            if len(names) > len(edges):
                edges.append(edge)
        self._set_children(number, edges)

    def _check_ways(self, moved: list[int]) -> None:
        """Refuse nodes that their new path leads to only by way of themselves."""
        edges: dict[int, dict[str, int]] = {}
        at: dict[str, int] = {"": ROOT}
        places: dict[int, list[str]] = {}
        for node in moved:
            path = parent_of(self._plan.new[node])
            below: list[str] = []
            while path not in at:
                below.append(path)
                path = parent_of(path)
            for longer in reversed(below):
                above = at[path]
                if above not in edges:
                    edges[above] = dict(self._graph.children(above))
                # A broken file can have several edges of one name.
                at[longer] = edges[above].get(unescape(longer[len(path) :].removeprefix("/")), node)
                places.setdefault(at[longer], []).append(longer)
                path = longer
            if any(self._plan.new[node].startswith(f"{place}/") for place in places.get(node, ())):
                old, new = in_words(self._plan.old[node]), in_words(self._plan.new[node])
                raise ConversionError(f"{old!r} cannot become {new!r}: it would contain itself")

    def _emptied(self) -> set[int]:
        """Return the nodes that have dissolved, and those that are left without anything."""
        nodes = self._graph.nodes
        empty = [number for number in self._touched if not any(True for _ in self._graph.children(number))]
        if not empty and not self._plan.dissolved:
            return set()
        parents: dict[int, list[int]] = {}
        left = dict.fromkeys(range(len(nodes)), 0)
        for number in left:
            for _, child in self._graph.children(number):
                parents.setdefault(child, []).append(number)
                left[number] += 1
        # The nodes of a slot triple stay in place, although only a broken file lists containers there.
        kept = {node for slot in self._graph.slots for node in (slot.variable, slot.node)} | {ROOT}
        gone = self._plan.dissolved - kept
        while empty:
            number = empty.pop()
            if holds_something(nodes[number]) or number in gone or number in kept:
                continue
            gone.add(number)
            for parent in parents.get(number, ()):
                left[parent] -= 1
                if not left[parent]:
                    empty.append(parent)
        return gone

    def _mark_values(self) -> None:
        """Correct what nodes say of values below them; new nodes say it where others do."""
        nodes = self._graph.nodes
        if all(node.has_checkpoint_values is None for node in nodes):
            return
        holding = self._graph.holding()
        for node in nodes[self._count :]:
            node.has_checkpoint_values = BoolValue()
        for number, node in enumerate(nodes):
            flag = node.has_checkpoint_values
            if flag is not None and flag.value != (number in holding):
                nodes[number] = node.replace(has_checkpoint_values=flag.replace(value=number in holding))

    def _without(self, gone: set[int]) -> ObjectGraph:
        """Return the graph without these nodes, all references renumbered."""
        if not gone:
            return ObjectGraph(self._graph.proto)
        nodes = self._graph.nodes
        numbers = {old: new for new, old in enumerate(n for n in range(len(nodes)) if n not in gone)}
        left = [_renumbered(nodes[old], gone, numbers) for old in numbers]
        return ObjectGraph(self._graph.proto.replace(nodes=left))


def _renumbered(node: TrackableObject, gone: set[int], numbers: Mapping[int, int]) -> TrackableObject:
    """Return a node with all references renumbered, and without edges to nodes that go."""
    return node.replace(
        children=[
            edge.replace(node_id=numbers.get(edge.node_id, edge.node_id))
            for edge in node.children
            if edge.node_id not in gone
        ],
        slot_variables=[
            slot.replace(
                original_variable_node_id=numbers.get(
                    slot.original_variable_node_id, slot.original_variable_node_id
                ),
                slot_variable_node_id=numbers.get(slot.slot_variable_node_id, slot.slot_variable_node_id),
            )
            for slot in node.slot_variables
        ],
    )


def _is_namedtuple(trackable: TrackableObject) -> bool:
    """Whether all edges of a node are there twice: by name, and by index to the same nodes."""
    named = [edge.node_id for edge in trackable.children if not edge.local_name.isdigit()]
    indexed = [edge.node_id for edge in trackable.children if edge.local_name.isdigit()]
    return named == indexed
