"""A conversion as data: the source of the values of each tensor of the target.

A plan is made before anything is written, so `--dry-run` prints the very plan that a real run
executes (`transfer`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.model.facts import Facts, Nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.core.region import Extents
    from formats.core.spec import TensorSpec
    from formats.location import Location
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import FormatReader
    from formats.model.tensor import LazyTensor

    from .placement import Layout


FULL, SENT, NONE = "full", "sent", "none"
"""How output is verified: read back and compared, compared with the store's entry, or not at all."""


def usual_proof(target: Location) -> str:
    """Return the default verification of a target."""
    return SENT if target.is_object() else FULL


class Move(NamedTuple):
    """One tensor of the target: its spec there, and where its values come from.

    `source` is the key in SRC, None for what the target has of its own; `tensor` holds
    the values, `value` does where they are made up.  Values are cast where the dtypes differ.
    """

    spec: TensorSpec
    source: str | None
    tensor: LazyTensor | None
    value: Any = None
    also: tuple[str, ...] = ()
    """Keys of other tensors of SRC that it is made of, where it is made of several."""

    operations: str = ""
    """The operations on its axes, as maps spell them."""


class Dropped(NamedTuple):
    """A tensor of SRC that the target does not get, and why."""

    key: str
    reason: str


class Plan(NamedTuple):
    """Everything a conversion does.

    `moves` are in the order of writing, unless `layout`, which is evaluated when values are copied, gives
    their placement in a bundle that is written again. `sources` are the open checkpoints that hold the
    values; none of them may change meanwhile.
    """

    source: str
    target: Location
    format: str
    moves: tuple[Move, ...]
    dropped: tuple[Dropped, ...] = ()
    object_graph: ObjectGraph | None = None
    slices: Mapping[str, Sequence[Extents]] = {}
    facts: Facts = Nothing()
    notes: tuple[str, ...] = ()
    sources: tuple[FormatReader, ...] = ()
    layout: Callable[[], Layout] = dict
    warnings: tuple[str, ...] = ()
    """Warnings about written tensors that do not come from SRC."""

    beside: Mapping[str, Location | bytes] = {}
    """Files to copy next to the target, or their contents, by name, unless that name exists."""

    @property
    def nbytes(self) -> int:
        return sum(move.spec.nbytes or 0 for move in self.moves)

    @property
    def is_local(self) -> bool:
        """Whether the sources and the target are on this machine."""
        return not self.target.is_object() and all(source.is_local for source in self.sources)

    def check_unchanged(self) -> None:
        """Raise a CheckpointError if a source was written to, or replaced, since it was opened."""
        for source in self.sources:
            source.check_unchanged()

    def document(self, proof: str, *, shared: bool = False) -> dict[str, Any]:
        """Return the JSON document that converting commands print."""
        return {
            "source": self.source,
            "target": self.target,
            "format": self.format,
            "tensors": list(self.rows()),
            "dropped": [dropped._asdict() for dropped in self.dropped],
            **verification(proof, shared=shared),
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what becomes of each tensor, as the document of converting commands shows it."""
        for move in self.moves:
            spec = move.spec
            yield {
                "from": move.source,
                "to": spec.key,
                "dtype": spec.dtype_name,
                "shape": list(spec.shape),
                **spec.stored_document,
                **({"also": list(move.also)} if move.also else {}),
                **({"operations": move.operations} if move.operations else {}),
            }


class Outcome(NamedTuple):
    """The result of executing a plan: notes, and whether its data are shared with SRC's."""

    notes: list[str]
    shared: bool = False


def verification(proof: str, *, shared: bool = False) -> dict[str, Any]:
    """Return what a document says of how the result was compared with its source.

    `shared` data shards are SRC's own files, so there are no new bytes to compare.
    """
    return {"verified": proof != NONE, "verification": "linked" if shared and proof != NONE else proof}
