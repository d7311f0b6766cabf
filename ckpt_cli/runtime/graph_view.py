"""The object graph of live objects, numbered as TensorFlow numbers it.

    nodes:  breadth-first from the root, a trackable's children in its own order;
            behind them the slot variables, by optimizer, slot name, variable
    path:   the escaped edge names of the first way found; a slot's is its variable's
            path, `.OPTIMIZER_SLOT`, its optimizer's path, and its name

A checkpoint made with `root=` hangs further children on the root (`attached`).
tensorflow/python/checkpoint/util.py: serialize_slot_variables
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.model.object_keys import OPTIMIZER_SLOT, escape

if TYPE_CHECKING:
    from .trackable import Trackable

__all__ = ["GraphView", "LiveGraph", "LiveSlot", "referred"]


class LiveSlot(NamedTuple):
    """A slot variable by node ids."""

    optimizer: int
    variable: int
    name: str
    node: int


class LiveGraph(NamedTuple):
    """The graph at one moment: objects by node id, their edges, their paths, their slots."""

    objects: list[Trackable]
    edges: list[list[tuple[str, int]]]
    paths: list[str]
    slots: list[LiveSlot]


def referred(value: Any) -> Any:
    """Return what a weak reference refers to, None where that is gone; anything else as it is."""
    return value() if isinstance(value, weakref.ref) else value


class GraphView:
    """A root and what a checkpoint attaches to it, which may be weak references and may become more."""

    def __init__(self, root: Trackable, attached: list[tuple[str, Any]] | None = None) -> None:
        self.root = root
        self._attached = attached if attached is not None else []

    @property
    def attached(self) -> list[tuple[str, Trackable]]:
        return [(name, referred(child)) for name, child in self._attached]

    def children(self, trackable: Trackable) -> list[tuple[str, Trackable]]:
        children = list(trackable._trackable_children().items())
        return children + self.attached if trackable is self.root else children

    def graph(self) -> LiveGraph:
        """Return the graph as it is now; ValueError where something in it cannot be saved."""
        objects: list[Trackable] = [self.root]
        ids = {id(self.root): 0}
        paths, edges = [""], []
        for owner in objects:
            out = []
            path = paths[ids[id(owner)]]
            for name, child in self.children(owner):
                number = ids.get(id(child))
                if number is None:
                    number = ids[id(child)] = len(objects)
                    objects.append(child)
                    paths.append(f"{path}/{escape(name)}" if path else escape(name))
                out.append((name, number))
            edges.append(out)
        live = LiveGraph(objects, edges, paths, [])
        self._add_slots(live, ids)
        return live

    def _add_slots(self, live: LiveGraph, ids: dict[int, int]) -> None:
        """Append the slot variables of variables and optimizers that are both in the graph."""
        reachable = list(live.objects)
        for optimizer, owner in enumerate(reachable):
            slot_names = getattr(owner, "get_slot_names", None)
            for name in slot_names() if slot_names is not None else ():
                for variable, original in enumerate(reachable):
                    slot = owner._slot_or_none(original, name)  # type: ignore[attr-defined]
                    if slot is None:
                        continue
                    if id(slot) in ids:
                        raise NotImplementedError(
                            f"A slot variable was reused as a dependency of a Trackable object: {slot}. "
                            "This is not "
                            "currently allowed. File a feature request if this limitation bothers you."
                        )
                    node = ids[id(slot)] = len(live.objects)
                    live.objects.append(slot)
                    live.edges.append([])
                    where = f"{OPTIMIZER_SLOT}/{live.paths[optimizer]}/{escape(name)}"
                    live.paths.append(f"{live.paths[variable]}/{where}")
                    live.slots.append(LiveSlot(optimizer, variable, name, node))
