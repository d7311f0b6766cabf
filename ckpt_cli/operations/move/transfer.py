"""Moving tensors from one checkpoint into another: a plan, carrying it out, and the proof.

A plan says for each tensor of the target where its values come from.  It is made before
anything is written, so `--dry-run` prints the very plan that a real run executes.
Carrying it out is a list of tasks and a last step.  A task copies a range of one tensor
from the files that its values lie in to the place that the writer has given it, and
returns checksums; tasks do not depend on each other, so it does not matter who does them,
or when (`formats.store.workers`).  What cannot be read or written in ranges (strings, slices to
be joined, compressed values) is written in its turn while tasks are handed out.  The last
step writes the index.  Before the result is moved to its place it is opened again and
every tensor compared with its source, bit for bit, by tasks of the same kind.
"""

from __future__ import annotations

from collections import deque
from contextlib import closing, contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.chunks import equal_bytes, view_of
from formats.core.region import region_of, tiling_flaw
from formats.core.words import counted
from formats.errors import ConversionError, CorruptCheckpointError, leave_out
from formats.find.creating import create_checkpoint
from formats.model.facts import Facts, Nothing
from formats.store.ranges import buffers, cut
from formats.store.workers import SERIAL, Workers
from formats.tf.bundle.payload import chunks_checksum
from formats.wire.crc32c import mask

from .computed import Sums, Values, cast
from .layout import laid_out, units

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from formats.core.chunks import Chunk
    from formats.core.region import Extents
    from formats.core.spec import TensorSpec
    from formats.model.object_graph import ObjectGraph
    from formats.model.reader import CheckpointReader
    from formats.model.tensor import LazyTensor
    from formats.model.writer import CheckpointWriter, Place
    from formats.store.ranges import FileRange

    from .layout import Layout, Unit


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
    """Everything a conversion does.

    `moves` stand in the order in which they are written, unless `layout` says where they
    lie in the bundle that is written again.  `sources` are the open checkpoints that
    values come from, none of which may change meanwhile.
    """

    source: str
    target: str
    format: str
    moves: tuple[Move, ...]
    dropped: tuple[Dropped, ...] = ()
    object_graph: ObjectGraph | None = None
    slices: Mapping[str, Sequence[Extents]] = {}
    facts: Facts = Nothing()
    notes: tuple[str, ...] = ()
    sources: tuple[CheckpointReader, ...] = ()
    layout: Layout = MappingProxyType({})

    @property
    def nbytes(self) -> int:
        return sum(move.spec.nbytes or 0 for move in self.moves)

    def check_unchanged(self) -> None:
        """Raise a CheckpointError where a source was written to, or replaced, since it was opened."""
        for source in self.sources:
            source.check_unchanged()

    def document(self, *, verified: bool) -> dict[str, Any]:
        """Return the JSON document that converting commands print."""
        return {
            "source": self.source,
            "target": self.target,
            "format": self.format,
            "tensors": list(self.rows()),
            "dropped": [dropped._asdict() for dropped in self.dropped],
            **verification(verified=verified),
        }

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


def verification(*, verified: bool, shared: bool = False) -> dict[str, Any]:
    """Return what a document says of how the result was compared with its source.

    Data shards that are `shared` with it are the same files, and were not read.
    """
    return {"verified": verified, "verification": ("linked" if shared else "full") if verified else "none"}


def cast_chunks(tensor: LazyTensor, spec: TensorSpec) -> Iterator[Chunk]:
    """Return a tensor's chunks in the dtype of `spec`."""
    return cast(tensor, spec.dtype).chunks()


def _chunks(move: Move) -> Iterator[Chunk]:
    if move.tensor is not None:
        return cast_chunks(move.tensor, move.spec)
    from formats.core.chunks import chunks_of

    return chunks_of(move.spec, move.value)


class _Part(NamedTuple):
    """A range of a unit's bytes.  Copied, it goes to `place`; compared, it is held against `other`."""

    unit: Unit
    values: Values
    begin: int
    end: int
    place: Place | None = None
    other: FileRange | None = None


@contextmanager
def _about(path: str) -> Iterator[None]:
    """Let what a tensor's values turn out not to allow name the checkpoint that they are in."""
    try:
        yield
    except ConversionError as error:
        error.path = error.path or path
        raise


def _check_tiles(plan: Plan, spec: TensorSpec) -> None:
    """Refuse to cut a tensor that comes whole into slices that do not cover it, or of strings."""
    regions = [region_of(extents, spec.shape) for extents in plan.slices[spec.key]]
    if spec.dtype.itemsize is None or tiling_flaw(regions, spec.shape):
        hints = (leave_out(spec.key), "or write it whole: --merge-slices")
        message = (
            "its slices do not cover its shape, or are of strings; values for the whole cannot be cut so"
        )
        raise ConversionError(message, path=plan.target, key=spec.key, hints=hints)


def execute(
    plan: Plan,
    *,
    overwrite: bool = False,
    shard_size: int | None = None,
    verify: bool = True,
    workers: Workers = SERIAL,
    dry_run: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> list[str]:
    """Write the plan's target and move it to its place; return notes for the person.

    Nothing is left behind where anything fails, and an old target is untouched.  A dry
    run writes nothing, and refuses what the real one would before its first byte.
    Raises CheckpointExistsError, ConversionError and what reading the source raises.
    """
    for move in plan.moves:
        if move.tensor is not None and not move.tensor.has_values:
            move.tensor.read()  # A listing says so, before anything is written.
    writer = create_checkpoint(
        plan.target,
        format=plan.format,
        specs=[move.spec for move in plan.moves],
        overwrite=overwrite,
        object_graph=plan.object_graph,
        slices=plan.slices,
        shard_size=shard_size,
        facts=plan.facts,
        rehearsal=dry_run,
    )
    if dry_run:
        return [*plan.notes, *writer.notes]
    with _about(plan.source), writer:
        made = _copy(plan, writer, workers, advance)
        if verify:
            with writer.reopen() as written:
                _compare(plan, written, made, workers, advance)
        writer.finish()
        plan.check_unchanged()
    return [*plan.notes, *writer.notes]


# Copying --------------------------------------------------------------------------


def _copy(
    plan: Plan, writer: CheckpointWriter, workers: Workers, advance: Callable[[int], None]
) -> dict[tuple[str, Extents | None], int]:
    """Write all tensors; return the masked checksums of what could be written in ranges.

    The order of what is laid out is the plan's, whoever does the copying.
    """
    made: dict[tuple[str, Extents | None], int] = {}
    with closing(_done(_copy_part, _copies(plan, writer, advance), workers, advance)) as done:
        for part, sums in done:
            part.values.check(sums)
            writer.filled(*part.unit.name, sums.made.crc)
            made[part.unit.name] = mask(sums.made.crc)
    return made


def _copies(plan: Plan, writer: CheckpointWriter, advance: Callable[[int], None]) -> Iterator[_Part]:
    """Yield the parts of all that can be copied in ranges; write everything else when its turn comes."""
    for unit in laid_out(plan, writer):
        move, extents = unit
        values = None if extents is None and move.spec.key in plan.slices else unit.values
        place = writer.place(*unit.name) if values is not None else None
        if values is not None and place is not None:
            for begin, end in cut(values.size):
                yield _Part(unit, values, begin, end, place)
            continue
        if extents is None:
            if plan.slices.get(move.spec.key):
                _check_tiles(plan, move.spec)
            writer.write(move.spec.key, _chunks(move))
        else:
            writer.write_slice(move.spec.key, extents, _chunks(move))
        advance(move.spec.nbytes or 0)


def _copy_part(part: _Part) -> Sums:
    """Do one task."""
    assert part.place is not None
    sums, at = Sums(len(part.values.sources)), part.begin
    for piece in part.values.pieces(part.begin, part.end, sums):
        part.place.write(at, piece)
        at += len(piece)
    part.place.start_sync(part.begin, at)
    return sums


def _done(
    work: Callable[[_Part], Sums], parts: Iterable[_Part], workers: Workers, advance: Callable[[int], None]
) -> Generator[tuple[_Part, Sums]]:
    """Have parts worked on; yield the last of each unit with the checksums of the whole.

    Whoever stops before the end closes this: parts that are being copied would go on into
    files that are removed.
    """
    waiting: deque[_Part] = deque()

    def noted() -> Iterator[_Part]:
        for part in parts:
            waiting.append(part)
            yield part

    total = None
    with closing(workers.map(work, noted(), lambda part: part.end - part.begin)) as results:
        for sums in results:
            part = waiting.popleft()
            total = sums if total is None else total.add(sums)
            if part.end == part.values.size:
                yield part, total
                total = None
            advance(part.end - part.begin)


# The proof ------------------------------------------------------------------------


def _compare(
    plan: Plan,
    written: CheckpointReader,
    made: Mapping[tuple[str, Extents | None], int],
    workers: Workers,
    advance: Callable[[int], None],
) -> None:
    """Hold every written tensor against its source; ConversionError where one differs.

    Where target and source store checksums, what came from the source was held against
    its own on the way, so reading what was written against the checksum that passed is
    the proof.  Otherwise both are read again and compared, byte by byte.
    """
    _check_specs(plan, written)
    comparisons = _comparisons(plan, written, made, advance)
    with closing(_done(partial(_compare_part, plan.target), comparisons, workers, advance)) as done:
        for part, sums in done:
            if part.other is None:
                same = mask(sums.made.crc) == made[part.unit.name]
            else:
                part.values.check(sums)
                same = part.other.crc32c in (None, mask(sums.made.crc))
            if not same:
                raise _different(plan.target, part.unit)


def _check_specs(plan: Plan, written: CheckpointReader) -> None:
    """Hold keys, dtypes, shapes and slices against the plan."""
    expected = {move.spec.key for move in plan.moves}
    surplus = set(written.specs) - expected - _graph_key(plan)
    missing = expected - set(written.specs)
    if surplus or missing:
        raise _broken(plan.target, f"{counted(len(missing), 'tensor')} missing, {len(surplus):,} too many")
    for move in plan.moves:
        found = written[move.spec.key]
        slices = [extents for extents, _ in found.pieces()] if move.spec.key in plan.slices else []
        if set(slices) != set(plan.slices.get(move.spec.key, ())):
            raise _broken(
                plan.target, f"written in {len(slices)} slices, which are not those asked for", move
            )
        if found.spec[:3] != move.spec[:3]:
            message = f"written as {found!r}, expected {move.spec.dtype} {list(move.spec.shape)}"
            raise _broken(plan.target, message, move)


def _comparisons(
    plan: Plan,
    written: CheckpointReader,
    made: Mapping[tuple[str, Extents | None], int],
    advance: Callable[[int], None],
) -> Iterator[_Part]:
    """Yield the parts of all that can be compared in ranges; compare everything else when its turn comes."""
    pieces: dict[Extents, LazyTensor] = {}
    for unit in units(plan):
        move, extents = unit
        found = written[move.spec.key]
        if extents is not None:
            pieces = pieces if extents in pieces else dict(found.pieces())
            found = pieces.pop(extents)
        mine, values = found.file_range() if found.has_values else None, unit.values
        if mine is not None and values is not None:
            proven = mine.crc32c is not None and all(source.crc32c is not None for source in values.sources)
            for begin, end in cut(mine.size):
                if proven and unit.name in made:
                    yield _Part(unit, Values(mine.size, (mine,)), begin, end)
                else:
                    yield _Part(unit, values, begin, end, other=mine)
            continue
        if not same_tensor(found, move):
            raise _different(plan.target, unit)
        advance(move.spec.nbytes or 0)


def _compare_part(target: str, part: _Part) -> Sums:
    """Do one task; ConversionError where the bytes are not the same."""
    sums, at = Sums(len(part.values.sources)), part.begin
    _, buffer = buffers()
    for piece in part.values.pieces(part.begin, part.end, sums):
        if part.other is not None and not equal_bytes(piece, part.other.read(at, at + len(piece), buffer)):
            raise _different(target, part.unit)
        at += len(piece)
    return sums


def _graph_key(plan: Plan) -> set[str]:
    from formats.tf.bundle.index import OBJECT_GRAPH_KEY

    return {OBJECT_GRAPH_KEY.decode()} if plan.object_graph is not None else set()


def _broken(target: str, message: str, move: Move | None = None) -> ConversionError:
    key = move.spec.key if move else None
    return ConversionError(f"verification failed: {message}", path=target, key=key)


def _different(target: str, unit: Unit) -> ConversionError:
    return _broken(target, "its values differ from the source's", unit.move)


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
