"""Restoring: carrying a matching out on live objects.

A restore has a number, higher than any before. The matching finds pairs of node and object. The values of all
pairs found at once are read and compared with the objects before the first is assigned, so that a wrong shape
leaves everything unchanged. An object that a later restore has already reached is skipped.

Values without an object yet are kept at the object that would hold it. The restore lives as long as something
waits for it. If it ends with unused values, it warns, unless that was expected.
"""

from __future__ import annotations

import itertools
import logging
import weakref
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from formats.tf.graph.matching import Matching, display_names

from .custom_state import state_of
from .errors import NotFoundError
from .reader import opened

if TYPE_CHECKING:
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import FormatReader

    from .trackable import Trackable

__all__ = ["NameBasedRestore", "Partners", "Restore", "next_uid"]

logger = logging.getLogger("ckpt_cli.runtime")

_uids = itertools.count(1)


def next_uid() -> int:
    """Return the number of a new restore."""
    return next(_uids)


class Partners(MutableMapping[int, Any]):
    """Objects by node id, held weakly where they can be: a restore keeps nothing alive.

    Tuples cannot be referred to weakly; they are kept.
    """

    def __init__(self) -> None:
        self._references: dict[int, Any] = {}

    def __setitem__(self, node: int, partner: Any) -> None:
        if isinstance(partner, tuple):
            self._references[node] = lambda: partner
        else:
            self._references[node] = weakref.ref(partner)

    def __getitem__(self, node: int) -> Any:
        partner = self._references[node]()
        if partner is None:
            raise KeyError(node)
        return partner

    def __delitem__(self, node: int) -> None:
        del self._references[node]

    def __iter__(self) -> Iterator[int]:
        return (node for node, reference in self._references.items() if reference() is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Position:
    """A node that waits at an object for a child to come."""

    def __init__(self, restore: Restore, node: int) -> None:
        self._restore = restore
        self._node = node

    @property
    def restore_uid(self) -> int:
        return self._restore.restore_uid

    def restore(self, trackable: Trackable) -> None:
        self._restore.restore(self._node, trackable)


class _Report:
    """The warning of a restore that ended; separate, so that it does not keep the restore alive."""

    def __init__(self, graph: ObjectGraph, matched: set[int], unused: dict[int, list[str]]) -> None:
        self.expects_partial = False
        self._graph, self._matched, self._unused = graph, matched, unused

    def __call__(self) -> None:
        if self.expects_partial:
            return
        names = display_names(self._graph)
        nodes = enumerate(self._graph.nodes)
        lost = [
            names.get(number, f"node {number}")
            for number, node in nodes
            if node.attributes and number not in self._matched
        ]
        unused = [(names.get(number, f"node {number}"), what) for number, what in self._unused.items()]
        if not lost and not unused:
            return
        logger.warning(
            "Detecting that an object or model or tf.train.Checkpoint is being deleted with unrestored "
            "values. See the "
            "following logs for the specific values in question. To silence these warnings, use "
            "`status.expect_partial()`."
        )
        for name in lost:
            logger.warning("Value in checkpoint could not be found in the restored object: %s", name)
        for name, what in unused:
            message = (
                "An attribute in the restored object could not be found in the checkpoint. "
                "Object: %s, attribute: %s"
            )
            logger.warning(message, name, what)


class Restore:
    """One object-based restore, and the target of its matching."""

    def __init__(self, path: str, graph: ObjectGraph) -> None:
        self.path = path
        self.graph = graph
        self.restore_uid = next_uid()
        self.unused_attributes: dict[int, list[str]] = {}
        self.conflicts = Partners()
        # Weakly, or the two would wait for the cyclic collector, and the report with them.
        self.matching: Matching[Any] = Matching(graph, weakref.proxy(self), Partners())
        self.report = _Report(graph, self.matching.matched, self.unused_attributes)
        weakref.finalize(self, self.report)

    def restore(self, node: int, trackable: Trackable, reader: FormatReader | None = None) -> None:
        """Match a node with an object, and restore both and all below them."""
        if reader is None:
            with opened(self.path) as own:
                self.restore(node, trackable, own)
            return
        reached: list[tuple[Trackable, int]] = []
        wanted: list[tuple[Any, str, str, int]] = []
        done = False
        try:
            for number, partner in self.matching.match(node, trackable):
                if self.restore_uid > partner._update_uid:
                    reached.append((partner, partner._update_uid))
                    partner._update_uid = self.restore_uid
                    wanted += self._attributes(number, partner)
            self._assign(wanted, reader)
            done = True
        finally:
            if not done:  # Nothing was assigned, so nothing may say that it was.
                for partner, uid in reached:
                    partner._update_uid = uid

    def _attributes(self, number: int, partner: Trackable) -> Iterator[tuple[Any, str, str, int]]:
        """Yield what of a node its partner can take; note the rest."""
        attributes = self.graph.nodes[number].attributes
        if not attributes:
            return
        state = state_of(partner)
        known = state._restorable()
        missing = set(state._required()) - {attribute.name for attribute in attributes}
        if missing:
            where = attributes[0].checkpoint_key.rpartition("/")[0]
            raise NotFoundError(f"Key {where}/{min(missing)} not found in checkpoint")
        for attribute in attributes:
            if attribute.name in known:
                yield state, attribute.name, attribute.checkpoint_key + state._key_suffix, number
            elif not state._required():
                self.unused_attributes.setdefault(number, []).append(attribute.name)

    def _assign(self, wanted: list[tuple[Any, str, str, int]], reader: FormatReader) -> None:
        """Read and check everything, then assign everything."""
        ready = []
        for partner, name, key, number in wanted:
            if key not in reader:
                raise NotFoundError(f"Key {key} not found in checkpoint")
            spec = reader.specs[key]
            if partner._understands(name, spec):
                partner._check_restored(name, spec)
                ready.append((partner, name, key))
            else:
                self.unused_attributes.setdefault(number, []).append(name)
        values = [partner._decode_restored(name, reader[key].read()) for partner, name, key in ready]
        for (partner, name, _), value in zip(ready, values, strict=True):
            partner._take_restored(name, value)

    # The interface that the matching requires of its target.

    def child(self, owner: Trackable, name: str) -> Trackable | None:
        return owner._lookup_child(name)

    def defer(self, owner: Trackable, name: str, node: int) -> None:
        owner._defer(name, _Position(self, node))

    def slot(self, optimizer: Any, variable: Any, name: str, node: int) -> Any | None:
        make = getattr(optimizer, "_create_or_restore_slot_variable", None)
        if make is None:  # another object is in the optimizer's place, only to hold its values
            return None
        return make(slot_name=name, variable=variable)

    def inconsistent(self, node: int, first: Any, second: Any) -> None:
        self.conflicts[len(self.conflicts)] = second
        logger.warning(
            "Inconsistent references when loading the checkpoint into this object graph. For example, in "
            "the saved "
            "checkpoint object, `model.layer.weight` and `model.layer_copy.weight` reference the same "
            "variable, while in "
            "the current object these are two different variables. The referenced variables are:(%s and %s).",
            first,
            second,
        )


class NameBasedRestore:
    """A restore from a checkpoint without an object graph: variables by their full names."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.restore_uid = next_uid()
        self.missing: list[tuple[Trackable, str]] = []

    def restore(self, trackable: Trackable, reader: FormatReader | None = None) -> None:
        """Restore one object, unless a later restore has reached it."""
        if trackable._update_uid >= self.restore_uid:
            return
        if trackable._restorable():
            if reader is None:
                with opened(self.path) as own:
                    self._restore_values(trackable, own)
            else:
                self._restore_values(trackable, reader)
        trackable._update_uid = self.restore_uid

    def _restore_values(self, trackable: Trackable, reader: FormatReader) -> None:
        name = trackable._full_name()
        for attribute in trackable._restorable():
            if name and name in reader:
                trackable._check_restored(attribute, reader.specs[name])
                trackable._take_restored(attribute, reader[name].read())
            else:
                self.missing.append((trackable, name or attribute))
