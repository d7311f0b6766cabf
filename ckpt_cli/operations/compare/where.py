"""Choose pairs of a comparison by an expression: first by their specs, before values are read, then by all
columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..look.listing import nothing_where
from ..select.selection import prove_graph
from .diff import DiffEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats import FormatReader

    from ..select.where import Where
    from .diff import Diff
    from .pairs import KeyPair

_OF_SPECS = {"from", "dtype", "shape", "nbytes"} | {
    f"{side}_{field}" for side in ("left", "right") for field in ("dtype", "shape")
}
_OF_RENAMES = {"dtype", "shape", "nbytes"}
"""The columns of an unpaired tensor that its possible pair after renames shares."""

_OF_GRAPH = ("kind", "object_path")


class ChosenPairs(NamedTuple):
    """An expression, and the checkpoints whose tensors it chooses."""

    where: Where
    left: FormatReader
    right: FormatReader
    finds_renames: bool = False
    """Whether tensors of one side may be paired later, by their values."""

    def before_values(self, pairs: list[KeyPair]) -> list[KeyPair]:
        """Return the pairs that may be chosen; the specs of the others are proved."""
        if not self.where.columns.keys().isdisjoint(_OF_GRAPH):
            prove_graph(self.left)
            prove_graph(self.right)
        kept: list[KeyPair] = []
        dropped: list[KeyPair] = []
        for pair in pairs:
            one = self.left.specs[pair.left] if pair.left is not None else None
            other = self.right.specs[pair.right] if pair.right is not None else None
            entry = DiffEntry(pair.key, "", pair.left if pair.left != pair.key else None, one, other)
            is_open = self.finds_renames and None in (one, other)
            names = _OF_RENAMES if is_open else {"key", *_OF_SPECS}
            known = {name: cell for name, cell in entry.row.items() if name in names}
            known |= {} if is_open else self._named(entry)
            (kept if self.where.may_hold(known) else dropped).append(pair)
        self.left.prove_specs(pair.left for pair in dropped if pair.left is not None)
        self.right.prove_specs(pair.right for pair in dropped if pair.right is not None)
        return kept

    def chosen(self, found: Diff) -> Diff:
        """Return a comparison with the entries that are chosen.

        Raises NothingSelectedError if there is none.
        """
        entries = [entry for entry in found.entries if self.where.holds({**entry.row, **self._named(entry)})]
        if not entries:
            raise nothing_where(self.where, self.right.location.path)
        return found._replace(entries=entries)

    def _named(self, entry: DiffEntry) -> dict[str, Any]:
        """Return the columns that come from the object graph."""
        reader, spec = (self.right, entry.right) if entry.right is not None else (self.left, entry.left)
        assert spec is not None
        by_column: dict[str, Callable[[str], Any]] = {
            "kind": reader.kinds.get,
            "object_path": reader.object_paths.get,
        }
        return {name: by_column[name](spec.key) for name in _OF_GRAPH if name in self.where.columns}
