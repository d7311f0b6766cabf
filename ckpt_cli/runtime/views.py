"""tf.train.CheckpointView and TrackableView: the objects of a checkpoint and of a program, side by side."""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any

from .graph_view import referred
from .reader import opened
from .trackable import Trackable
from .unknown import refuse

if TYPE_CHECKING:
    import os

__all__ = ["CheckpointView", "TrackableView"]

logger = logging.getLogger("ckpt_cli.runtime")


class TrackableView:
    """The objects that can be reached from a root, which is referred to weakly."""

    def __init__(self, root: Any) -> None:
        self._root_ref = root if isinstance(root, weakref.ref) else weakref.ref(root)

    @classmethod
    def children(cls, obj: Trackable, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        """Return the objects that an object refers to, by the names of the edges."""
        refuse("TrackableView.children", save_type=None if save_type == "checkpoint" else save_type, **kwargs)
        return dict(obj._trackable_children())

    @property
    def root(self) -> Any:
        root = referred(self._root_ref)
        assert root is not None
        return root

    def descendants(self) -> list[Any]:
        """Return the root and all objects below it, breadth first."""
        found = {id(self.root): self.root}
        queue = [self.root]
        for owner in queue:
            for child in self.children(owner).values():
                if id(child) not in found:
                    found[id(child)] = child
                    queue.append(child)
        return queue


class CheckpointView:
    """The objects of an object-based checkpoint, by the numbers of their nodes."""

    def __init__(self, save_path: str | os.PathLike[str]) -> None:
        with opened(str(save_path)) as reader:
            if not reader.format.has_object_graph:
                raise ValueError(
                    f'The specified checkpoint "{save_path}" does not appear to be object-based (saved with '
                    "TF2). Likely it was created with the TF1 name-based saver and does not contain an "
                    "object dependency graph."
                )
            graph: Any = reader.load_object_graph()  # type: ignore[attr-defined]
            self._edges = [[(e.local_name, e.node_id) for e in node.children] for node in graph.nodes]

    def children(self, node_id: int) -> dict[str, int]:
        """Return the nodes that a node refers to, by the names of the edges."""
        return dict(self._edges[node_id])

    def descendants(self) -> list[int]:
        """Return the nodes that can be reached from the root, breadth first."""
        found = {0: None}
        queue = [0]
        for node in queue:
            new = [child for _, child in self._edges[node] if child not in found]
            queue += dict.fromkeys(new)
            found.update(dict.fromkeys(new))
        return queue

    def match(self, obj: Any) -> dict[int, Any]:
        """Return the objects below `obj` that the checkpoint has at the same place, by node."""
        if not isinstance(obj, Trackable):
            raise ValueError(f"Expected a Trackable, got {obj} of type {type(obj)}.")  # noqa: TRY004
        found: dict[int, Any] = {0: obj}
        queue: list[tuple[int, Any]] = [(0, obj)]
        visited = set()
        for node, owner in queue:
            children = TrackableView.children(owner)
            for name, child in self.children(node).items():
                if child in visited or child == 0 or name not in children:
                    continue
                if child not in found:
                    found[child] = children[name]
                    queue.append((child, children[name]))
                elif found[child] is not children[name]:
                    logger.warning(
                        "Inconsistent references when matching the checkpoint into this object graph. The "
                        "referenced objects are: (%s and %s).", found[child], children[name],
                    )  # fmt: skip
            visited.add(node)
        return found

    def diff(self, obj: Any) -> tuple[dict[int, Any], list[int], list[Any]]:
        """Return what `match` does, the nodes that match nothing, and the objects that match no node."""
        found = self.match(obj)
        matched = {id(one) for one in found.values()}
        alone = [one for one in TrackableView(obj).descendants() if id(one) not in matched]
        return found, [node for node in self.descendants() if node not in found], alone
