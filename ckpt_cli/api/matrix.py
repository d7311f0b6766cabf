"""`ckpt.diff(..., matrix=True)`: how far several checkpoints are apart."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from formats.find.opening import locate

from ..operations.compare.matrix import Matrix, MatrixOptions, distances
from ..operations.reporting import opened
from .tables import ResultTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.location import Location

    from ..operations.reporting import Reporter

__all__ = ["DiffMatrix", "distances_of"]


class DiffMatrix(ResultTable[tuple[float | None, ...]]):
    """The distances between several checkpoints: a sequence of rows.

    `rel_l2[i][j]` is `||i-j|| / ||j||` over the floating-point weights that both have, or None if they share
    none. `paths` names the checkpoints. `groups` maps each layer to such a table, and so each kind of other
    tensors, as `(slot)`. `copies` lists the pairs of
    paths whose tensors are all equal. `to_dict()` is the document of `ckpt diff --matrix --json`.
    """

    def __init__(self, found: Matrix, notes: Sequence[str] = (), warnings: Sequence[str] = ()) -> None:
        self.paths = tuple(found.paths)
        self.rel_l2 = found.rel_l2
        self.groups = {group.prefix: group.rel_l2 for group in found.groups}
        self.copies = [(self.paths[one], self.paths[other]) for one, other in sorted(found.copies)]
        self.notes, self.warnings = tuple(notes), tuple(warnings)
        self._found = found
        self._results = [tuple(row) for row in found.rel_l2]

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt diff --matrix --json`, without `schema`."""
        return self._found.document()

    def _title(self) -> str:
        return f"{len(self.paths):,} checkpoints, ||row - column|| / ||column||"

    def _names(self) -> Sequence[str]:
        return ("path", *(str(at + 1) for at in range(len(self.paths))))

    def _rows(self) -> Iterator[Sequence[Any]]:
        return ((path, *row) for path, row in zip(self.paths, self, strict=True))


def distances_of(paths: Sequence[Location], options: MatrixOptions, reporter: Reporter) -> Matrix:
    """Return how far the checkpoints at some paths are apart."""
    with ExitStack() as stack:
        readers = [stack.enter_context(opened(locate(path), reporter)) for path in paths]
        nbytes = sum(spec.nbytes or 0 for reader in readers for spec in reader.specs.values())
        # Each checkpoint is read once, and then with each that comes after it.
        total = nbytes + sum(
            (spec.nbytes or 0) * at for at, reader in enumerate(readers) for spec in reader.specs.values()
        )
        with reporter.progress(total, "checkpoints", ("comparing",)) as advance:
            return distances(readers, options, advance)
