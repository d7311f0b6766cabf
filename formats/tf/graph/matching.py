"""TensorFlow's matching of graphs: which node of a checkpoint each object of a program gets.

Both graphs are walked together from their roots, breadth-first, along edges of equal name. If the target
lacks such an edge, the restoration is deferred until the object exists, which is not an error. Slot variables
have no edges: they are found through their variable and their optimizer, once both have a partner.

    bind(0, root)
      -> for each edge of node 0, in file order:
           child has a partner already    -> nothing (the first path wins)
           target has an edge of the name -> partners
           else, if values lie below      -> deferred at the target
      -> slot variables of each new partner
      -> the same for each new pair

The target is anything that answers `RestoreTarget`: live objects in the runtime, another
checkpoint's object graph in `ckpt match` (`GraphTarget`).
tensorflow/python/checkpoint/restore.py: _queue_children_for_restoration, _queue_slot_variables
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ...model.object_graph import most_path_characters

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping

    from ...model.object_graph import ObjectGraph
    from ...wire.messages import TrackableObject


T = TypeVar("T")


class RestoreTarget(Protocol[T]):
    """The side that is restored into."""

    def child(self, owner: T, name: str) -> T | None:
        """Return the object at an edge of `owner`, None if there is none."""

    def defer(self, owner: T, name: str, node: int) -> None:
        """Keep for later that `node` belongs to what will hang on this edge."""

    def slot(self, optimizer: T, variable: T, name: str, node: int) -> T | None:
        """Return an optimizer's slot variable, made if it can be; None if there is none."""

    def inconsistent(self, node: int, first: T, second: T) -> None:
        """Note that two objects claim one node; the first keeps it."""


class _SlotRequest(NamedTuple):
    """A slot variable that waits for its optimizer (`partner` is the variable then) or its variable."""

    optimizer: int
    name: str
    node: int


class _WaitingSlot(NamedTuple, Generic[T]):
    variable: T
    name: str
    node: int


def has_values(node: TrackableObject) -> bool:
    """Whether values are at or below a node, by its flag, or, in files without the flag, by its subtree."""
    if node.has_checkpoint_values is not None:
        return bool(node.has_checkpoint_values.value)
    return bool(node.children or node.attributes or node.slot_variables or node.registered_saver)


class Matching(Generic[T]):
    """One restore: which partners the nodes of a checkpoint's graph have found so far.

    `bound` holds the partners; it may be a mapping with weak values.  `matched` are the
    nodes that ever had one.  `slot_requests` are the slot variables whose variable has not
    come, `waiting_slots` those whose optimizer has not.
    """

    def __init__(self, graph: ObjectGraph, target: RestoreTarget[T], bound: MutableMapping[int, T]) -> None:
        self.graph = graph
        self.target = target
        self.bound = bound
        self.matched: set[int] = set()
        self.slot_requests: dict[int, list[_SlotRequest]] = {}
        self.waiting_slots: dict[int, list[_WaitingSlot[T]]] = {}
        for slot in graph.slots:
            request = _SlotRequest(slot.optimizer, slot.name, slot.node)
            self.slot_requests.setdefault(slot.variable, []).append(request)

    def bind(self, node: int, partner: T) -> bool:
        """Make two partners; False if the node has one already."""
        self.matched.add(node)
        current = self.bound.get(node)
        if current is None:
            self.bound[node] = partner
            return True
        if current is not partner:
            self.target.inconsistent(node, current, partner)
        return False

    def match(self, node: int, partner: T) -> Iterator[tuple[int, T]]:
        """Match a node and all that can be reached from it; yield each new pair, breadth-first.

        A pair is yielded before its children are matched.
        """
        if not self.bind(node, partner):
            return
        queue = deque([(node, partner)])
        while queue:
            node, partner = queue.popleft()
            yield node, partner
            queue.extend(self._children(node, partner))
            queue.extend(self._slots(node, partner))

    def _children(self, node: int, partner: T) -> Iterator[tuple[int, T]]:
        for name, child in self.graph.children(node):
            if self.bound.get(child) is not None:
                continue
            found = self.target.child(partner, name)
            if found is None:
                if has_values(self.graph.nodes[child]):
                    self.target.defer(partner, name, child)
            elif self.bind(child, found):
                yield child, found

    def _slots(self, node: int, partner: T) -> Iterator[tuple[int, T]]:
        for waiting in self.waiting_slots.pop(node, ()):
            yield from self._slot(partner, waiting.variable, waiting.name, waiting.node)
        for request in self.slot_requests.pop(node, ()):
            optimizer = self.bound.get(request.optimizer)
            if optimizer is None:
                waiting = _WaitingSlot(partner, request.name, request.node)
                self.waiting_slots.setdefault(request.optimizer, []).append(waiting)
            else:
                yield from self._slot(optimizer, partner, request.name, request.node)

    def _slot(self, optimizer: T, variable: T, name: str, node: int) -> Iterator[tuple[int, T]]:
        found = self.target.slot(optimizer, variable, name, node)
        if found is not None and self.bind(node, found):
            yield node, found


class GraphTarget:
    """Another checkpoint's object graph as the target: its nodes are what is restored into."""

    def __init__(self, graph: ObjectGraph) -> None:
        self.graph = graph
        self.deferred: list[tuple[int, str, int]] = []
        self.conflicts: list[tuple[int, int, int]] = []
        self._slots = {(slot.optimizer, slot.variable, slot.name): slot.node for slot in graph.slots}
        self._edges: dict[int, dict[str, int]] = {}

    def child(self, owner: int, name: str) -> int | None:
        edges = self._edges.get(owner)
        if edges is None:
            edges = self._edges[owner] = {}
            for edge, node in self.graph.children(owner):
                edges.setdefault(edge, node)
        return edges.get(name)

    def defer(self, owner: int, name: str, node: int) -> None:
        self.deferred.append((owner, name, node))

    def slot(self, optimizer: int, variable: int, name: str, node: int) -> int | None:  # noqa: ARG002  protocol
        return self._slots.get((optimizer, variable, name))

    def inconsistent(self, node: int, first: int, second: int) -> None:
        self.conflicts.append((node, first, second))


def display_names(graph: ObjectGraph) -> dict[int, str]:
    """Return what TensorFlow's messages call each node: `(root).net.l1`, or whose state a slot is.

    As with object paths, what is at the end of a very long chain goes without.
    """
    names: dict[int, str] = {}
    left = most_path_characters(len(graph.nodes))
    for node, came_from in graph.reachable().items():
        if came_from is None:
            names[node] = "(root)"
        elif came_from[0] in names and left >= 0:
            names[node] = f"{names[came_from[0]]}.{came_from[1]}"
            left -= len(names[node])
    for slot in graph.slots:
        if slot.optimizer in names and slot.variable in names and left >= 0:
            names[slot.node] = f"{names[slot.optimizer]}'s state '{slot.name}' for {names[slot.variable]}"
            left -= len(names[slot.node])
    return names
