"""The order in which a plan is written, and the placement of tensors in a bundle that is written again.

Tensors have the order of the plan, or the writer's. A bundle that becomes one of its own format keeps its
order and its number of shards: unchanged tensors keep TensorFlow's bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from formats.core.region import Extents
from formats.model.object_keys import GRAPH_KEY
from formats.tf.bundle.slices import slice_key

from .lazy import LazyValues, values_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.model.reader import FormatReader
    from formats.model.tensor import LazyTensor
    from formats.model.writer import FormatWriter

    from .plan import Move, Plan


class ShardRange(NamedTuple):
    """A place in a bundle; what is empty shares its offset with what follows it."""

    shard: int
    offset: int
    nbytes: int


Name = tuple[str, Extents | None]
"""A tensor's key in the target; of a slice, which one, too."""

Layout = Mapping[Name, ShardRange]
"""The place of each tensor and slice; empty if no placement must be kept."""

_GRAPH: Name = (GRAPH_KEY, None)


def layout_of(reader: FormatReader, names: Iterable[tuple[str, str]]) -> Layout:
    """Return the placement of a bundle's tensors; `names` gives their keys in the target and in the
    bundle.
    """
    layout: dict[Name, ShardRange] = {}
    if not reader.format.is_bundle:
        return layout
    for new, old in names:
        tensor = reader[old]
        ranges: dict[Name, ShardRange] = {
            (new, extents): _shard_range(piece) for extents, piece in tensor.pieces()
        }
        layout.update(ranges)
        layout[new, None] = min(ranges.values()) if ranges else _shard_range(tensor)
    if reader.object_graph is not None:
        layout[_GRAPH] = _shard_range(reader[GRAPH_KEY])
    return layout


def _shard_range(tensor: LazyTensor) -> ShardRange:
    stored = tensor.stored
    return ShardRange(stored.shard or 0, stored.offset or 0, tensor.spec.nbytes or 0)


class WriteUnit(NamedTuple):
    """A unit of writing: a move, or one slice of it, with the slice's own shape in its spec."""

    move: Move
    extents: Extents | None = None

    @property
    def name(self) -> tuple[str, Extents | None]:
        return self.move.spec.key, self.extents

    @property
    def values(self) -> LazyValues | None:
        return values_of(self.move.tensor, self.move.spec) if self.move.tensor is not None else None


def units(plan: Plan, order: Iterable[str] | None = None) -> Iterator[WriteUnit]:
    """Yield the units to write: slices one by one if the source has them, too."""
    moves = {move.spec.key: move for move in plan.moves}
    for key in order or moves:
        move = moves[key]
        pieces = move.tensor.pieces() if key in plan.slices and move.tensor is not None else []
        if order is not None:  # tensors in an order have their slices in that of their keys
            pieces.sort(key=lambda piece: slice_key(b"", piece[0]))
        for extents, piece in pieces:
            yield WriteUnit(
                move._replace(spec=move.spec._replace(shape=piece.spec.shape), tensor=piece), extents
            )
        if not pieces:
            yield WriteUnit(move)


def laid_out(plan: Plan, writer: FormatWriter) -> Iterator[WriteUnit]:
    """Yield the units in order; begin shards, and write the graph, where the placement does."""
    layout = {} if writer.order is not None else plan.layout()
    if not layout:
        yield from units(plan, writer.order)
        return
    new: list[WriteUnit] = []
    placed: list[tuple[ShardRange, WriteUnit | None]] = []
    for unit in units(plan):
        position = layout.get(unit.name)
        if position is None:
            new.append(unit)
        else:
            placed.append((position, unit))
    if plan.object_graph is not None and _GRAPH in layout:
        placed.append((layout[_GRAPH], None))
    placed.sort(key=itemgetter(0))
    for number, (position, known) in enumerate(placed):
        if number and position.shard != placed[number - 1][0].shard:
            writer.start_shard()
        if known is None:
            writer.write_object_graph()
        else:
            yield known
    yield from new
