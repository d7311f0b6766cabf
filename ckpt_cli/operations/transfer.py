"""Moving tensors from one checkpoint into another: a plan, carrying it out, and the proof.

A plan says for each tensor of the target where its values come from.  It is made before
anything is written, so `--dry-run` prints the very plan that a real run executes.
Carrying it out streams every tensor in pieces; before the result is moved to its place
it is opened again and every tensor compared with its source, bit for bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import ConversionError, CorruptCheckpointError
from formats.tf.payload import chunks_checksum
from formats.wire.crc32c import mask
from formats.writing import create_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.chunks import Chunk
    from formats.model import CheckpointReader, LazyTensor, TensorSpec
    from formats.tf.object_graph import ObjectGraph
    from formats.tf.slices import Extents

__all__ = ["Dropped", "Move", "Plan", "cast_chunks", "execute", "same_tensor"]


class Move(NamedTuple):
    """One tensor of the target: its spec there, and where its values come from.

    `source` is the key in SRC, None for what the target has of its own; `tensor` holds
    the values, `value` does where they are made up.  Values are cast where the dtypes differ.
    """

    spec: TensorSpec
    source: str | None
    tensor: LazyTensor | None
    value: Any = None


class Dropped(NamedTuple):
    """A tensor of SRC that the target does not get, and why."""

    key: str
    reason: str


class Plan(NamedTuple):
    """Everything a conversion does.  `moves` stand in the order in which they are written."""

    source: str
    target: str
    format: str
    moves: tuple[Move, ...]
    dropped: tuple[Dropped, ...] = ()
    object_graph: ObjectGraph | None = None
    slices: Mapping[str, Sequence[Extents]] = {}
    metadata: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        return sum(move.spec.nbytes or 0 for move in self.moves)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield what becomes of each tensor, as the document of converting commands shows it."""
        for move in self.moves:
            spec = move.spec
            yield {
                "from": move.source,
                "to": spec.key,
                "dtype": spec.dtype.name,
                "shape": list(spec.shape),
            }


def cast_chunks(tensor: LazyTensor, spec: TensorSpec) -> Iterator[Chunk]:
    """Yield a tensor's chunks in the dtype of `spec`."""
    import numpy as np

    if tensor.spec.dtype is spec.dtype:
        yield from tensor.chunks()
        return
    have, want = tensor.spec.dtype.numpy, spec.dtype.numpy
    with np.errstate(over="ignore", invalid="ignore"):
        for chunk in tensor.chunks():
            yield np.frombuffer(chunk, have).astype(want).view(np.uint8)


def _chunks(move: Move) -> Iterator[Chunk]:
    if move.tensor is not None:
        return cast_chunks(move.tensor, move.spec)
    from formats.chunks import chunks_of

    return chunks_of(move.spec, move.value)


def execute(
    plan: Plan,
    *,
    overwrite: bool = False,
    shard_size: int | None = None,
    verify: bool = True,
    advance: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Write the plan's target and move it to its place; return notes for the person.

    Nothing is left behind where anything fails, and an old target is untouched.
    Raises CheckpointExistsError, ConversionError and what reading the source raises.
    """
    writer = create_checkpoint(
        plan.target,
        format=plan.format,
        specs=[move.spec for move in plan.moves],
        overwrite=overwrite,
        object_graph=plan.object_graph,
        slices=plan.slices,
        shard_size=shard_size,
        metadata=plan.metadata,
    )
    moves = {move.spec.key: move for move in plan.moves}
    with writer:
        for key in writer.order or tuple(moves):
            move = moves[key]
            if key in plan.slices and move.tensor is not None and move.tensor.pieces():
                for extents, piece in move.tensor.pieces():
                    part = move.spec._replace(shape=piece.spec.shape)
                    writer.write_slice(key, extents, cast_chunks(piece, part))
            else:
                writer.write(key, _chunks(move))
            advance(move.spec.nbytes or 0)
        if verify:
            with writer.reopen() as written:
                compare(plan, written, advance)
    return [*plan.notes, *writer.notes]


def compare(plan: Plan, written: CheckpointReader, advance: Callable[[int], None]) -> None:
    """Hold every written tensor against its source; ConversionError where one differs.

    Where both store a checksum of the same bytes, the source was held against its own
    while it was copied, so reading the written tensor against that one is the proof.
    """
    expected = {move.spec.key for move in plan.moves}
    surplus = set(written.specs) - expected - _graph_key(plan)
    missing = expected - set(written.specs)
    if surplus or missing:
        raise _broken(plan, f"{len(missing)} tensors are missing, {len(surplus)} are too many")
    for move in plan.moves:
        found = written[move.spec.key]
        if found.spec[:3] != move.spec[:3]:
            raise _broken(
                plan, f"written as {found!r}, expected {move.spec.dtype} {list(move.spec.shape)}", move
            )
        if move.spec.key in plan.slices and move.tensor is not None and move.tensor.pieces():
            pairs = zip(found.pieces(), move.tensor.pieces(), strict=True)
            same = all(_same_piece(mine, theirs, move.spec) for mine, theirs in pairs)
        else:
            same = same_tensor(found, move)
        if not same:
            raise _broken(plan, "its values differ from the source's", move)
        advance(move.spec.nbytes or 0)


def _graph_key(plan: Plan) -> set[str]:
    from formats.tf.bundle import OBJECT_GRAPH_KEY

    return {OBJECT_GRAPH_KEY.decode()} if plan.object_graph is not None else set()


def _broken(plan: Plan, message: str, move: Move | None = None) -> ConversionError:
    key = move.spec.key if move else None
    return ConversionError(f"verification failed: {message}", path=plan.target, key=key)


def _same_piece(
    mine: tuple[Extents, LazyTensor], theirs: tuple[Extents, LazyTensor], spec: TensorSpec
) -> bool:
    part = spec._replace(shape=theirs[1].spec.shape)
    return mine[0] == theirs[0] and same_tensor(mine[1], Move(part, None, theirs[1]))


def same_tensor(found: LazyTensor, move: Move) -> bool:
    """Whether a written tensor holds its source's values, all of it read."""
    if not found.has_values:
        _, crc = chunks_checksum(move.spec.dtype, _chunks(move))
        return found.stored.crc32c == mask(crc)
    source = move.tensor
    if source is not None and source.spec.dtype is move.spec.dtype:
        mine, theirs = found.stored.crc32c, source.stored.crc32c
        if mine is not None and mine == theirs:
            try:
                for _ in found.chunks():
                    pass
            except CorruptCheckpointError:
                return False
            return True
    if found.spec.dtype.itemsize is None:
        return all(a == b for a, b in zip(found.chunks(), _chunks(move), strict=True))
    return _same_bytes(found.chunks(), _chunks(move))


def _same_bytes(left: Iterator[Chunk], right: Iterator[Chunk]) -> bool:
    """Whether two streams are the same bytes, however they are cut."""
    from formats.chunks import equal_bytes, view_of

    mine: memoryview = memoryview(b"")
    for chunk in right:
        theirs = view_of(chunk)
        while len(theirs):
            if not mine:
                following = next(left, None)
                if following is None:
                    return False
                mine = view_of(following)
            size = min(len(mine), len(theirs))
            if not equal_bytes(mine[:size], theirs[:size]):
                return False
            mine, theirs = mine[size:], theirs[size:]
    return not len(mine) and next(left, None) is None
