"""Moving tensors from one checkpoint into another: a plan, carrying it out, and the proof.

A plan names the source of values for each tensor of the target. It is made before anything is written, so
`--dry-run` prints the same plan that a real run executes. Executing it is a list of tasks and a last step. A
task copies a range of one tensor from the files of its source to the place that the writer has assigned, and
returns checksums. Tasks are independent, so any worker may run them at any time
(`formats.store.work.workers`). Data that cannot be read or written in ranges (strings, slices to be joined,
compressed values) is written in its turn while tasks are handed out. The last step writes the index. Before
the result is moved into place, it is opened again, and every tensor is compared with its source, bit for bit,
by tasks of the same kind.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from formats.core.chunks import chunks_of, same_bytes
from formats.core.region import region_of, tiling_flaw
from formats.core.words import counted
from formats.errors import (
    CheckpointNotFoundError,
    ConversionError,
    CorruptCheckpointError,
    UnknownFormatError,
    UnsupportedFeatureError,
    leave_out,
)
from formats.find.creating import create_writer
from formats.find.registry import format_named
from formats.model.object_keys import GRAPH_KEY
from formats.store.local.removing import cleaning_up
from formats.store.work.workers import SERIAL, Workers
from formats.tf.bundle.payload import chunks_checksum
from formats.tf.bundle.writer import BundleWriter
from formats.wire.crc32c import mask

from .bucket_tasks import can_be_shared, send_objects
from .lazy import LazyValues, cast
from .link import Shares, share
from .placement import ShardRange, laid_out, units
from .plan import FULL, NONE, Outcome
from .resume import Ledger, another_source, discarding_journal, finished, known
from .tasks import Copied, UnitRange, broken, compared, copied, different, done, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.core.chunks import Chunk
    from formats.core.region import Extents
    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader
    from formats.model.tensor import LazyTensor
    from formats.model.writer import FormatWriter
    from formats.store.journal import Journal
    from formats.store.ranges import FileRange

    from .placement import Name, WriteUnit
    from .plan import Move, Plan
    from .resume import Resume


_LAST = ShardRange(1 << 62, 0, 0)
"""The position of moves that have no place in the order."""


def cast_chunks(tensor: LazyTensor, spec: TensorSpec) -> Iterator[Chunk]:
    """Return a tensor's chunks in the dtype of `spec`."""
    return cast(tensor, spec.dtype).chunks()


def _chunks(move: Move) -> Iterator[Chunk]:
    if move.tensor is not None:
        return cast_chunks(move.tensor, move.spec)
    return chunks_of(move.spec, move.value)


def _checked_chunks(move: Move) -> Iterator[Chunk]:
    """Yield a move's chunks, compared with its spec as by a writer."""
    return chunks_of(move.spec, _chunks(move))


@contextmanager
def _ended_by_errors(journal: Journal | None) -> Iterator[None]:
    """Remove a journal if in the end nothing was staged in its directory."""
    try:
        yield
    except BaseException:
        if journal is not None:
            journal.remove()
        raise


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
        hints = (leave_out(spec.key), "to write this tensor whole, pass --merge-slices")
        message = "this tensor cannot be written in slices: they contain strings, or do not cover its shape"
        raise ConversionError(message, path=plan.target, key=spec.key, hints=hints)


def execute(
    plan: Plan,
    *,
    overwrite: bool = False,
    shard_size: int | None = None,
    compression: str | None = None,
    proof: str = FULL,
    workers: Workers = SERIAL,
    dry_run: bool = False,
    advance: Callable[[int], None] = lambda _: None,
    ways: Sequence[str] = (),
    resume: Resume | None = None,
) -> Outcome:
    """Write the plan's target and move it to its place.

    Nothing is left behind after a failure, and an old target is untouched. A dry run writes nothing, and
    raises the errors that the real run would raise before its first byte. `ways` are the ways in which a file
    of the sources may become a data shard of the target (`formats.tf.bundle.shards`); without any, all values
    are copied. With `resume`, finished work is kept after an interrupt, and used again. Raises
    CheckpointExistsError, ConversionError, and the errors of reading the source.
    """
    _refuse_at_once(plan, ways)
    create = _creator(plan, shard_size, workers, prove_sent=proof != NONE, resumes=resume is not None)
    create = partial(create, compression=compression)
    journal = None
    if resume is not None:
        rehearsed = create(overwrite=True, rehearsal=True)
        journal = resume.journal(plan, rehearsed)
        may_be_made = not overwrite and not journal.is_there
        if may_be_made and _is_made(plan, rehearsed, workers, advance):
            return known(journal, plan, dry_run=dry_run)
        with _ended_by_errors(journal):
            if not dry_run:
                journal.begin()
            if journal.is_done:
                if journal.is_doubtful and not _is_made(plan, rehearsed, workers, advance):
                    raise another_source(journal, plan)
                return finished(journal, plan, rehearsed, dry_run=dry_run)
            overwrite |= journal.has_moved
    with _ended_by_errors(journal):
        writer = create(overwrite=overwrite, rehearsal=dry_run, journal=None if dry_run else journal)
    if proof == FULL:
        _refuse_to_lose(writer)
    if dry_run:
        return _rehearsed(plan, writer, ways)
    return _carried_out(plan, writer, journal, ways=ways, proof=proof, workers=workers, advance=advance)


def _refuse_at_once(plan: Plan, ways: Sequence[str]) -> None:
    """Refuse what no writer need be asked about: no shards to share, a source without values."""
    if ways and not format_named(plan.format).is_bundle:
        hints = ("remove --link, or write a format with data shards: --to tf-object or --to tf-name",)
        raise ConversionError(f"{plan.format} has no data shards to share", path=plan.target, hints=hints)
    for move in plan.moves:
        if move.tensor is not None and not move.tensor.has_values:
            move.tensor.read()  # A listing says so, before anything is written.


def _creator(
    plan: Plan, shard_size: int | None, workers: Workers, *, prove_sent: bool, resumes: bool
) -> Callable[..., FormatWriter]:
    """Return what makes a plan's writer, once to rehearse and once to write."""
    is_bucket = plan.target.is_object() and format_named(plan.format).is_bundle
    return partial(
        create_writer,
        plan.target,
        format=plan.format,
        specs=[move.spec for move in _in_order(plan)],
        object_graph=plan.object_graph,
        slices=plan.slices,
        shard_size=shard_size,
        facts=plan.facts,
        prove_sent=prove_sent,
        is_shared=is_bucket and workers.shares_all and not resumes and can_be_shared(plan),
    )


def _rehearsed(plan: Plan, writer: FormatWriter, ways: Sequence[str]) -> Outcome:
    """Return what a dry run comes to."""
    shares = Shares()
    if ways:
        shares.rehearse(plan)
    return Outcome([*plan.notes, *writer.notes, *(shares.notes(plan, dry_run=True) if ways else ())])


def _carried_out(
    plan: Plan,
    writer: FormatWriter,
    journal: Journal | None,
    *,
    ways: Sequence[str],
    proof: str,
    workers: Workers,
    advance: Callable[[int], None],
) -> Outcome:
    """Share, copy and compare all tensors, and move the target into place."""
    shares, ledger = Shares(), Ledger(journal)
    with _about(plan.source), writer, discarding_journal(journal, plan):
        if ways:
            assert isinstance(writer, BundleWriter)
            shares = share(plan, writer, ways, workers, advance)
        made = _copy(plan, writer, shares, ledger, workers, advance, proves=proof == FULL)
        writer.finish()
        ledger.kept += writer.kept
        is_compared = proof == FULL and writer.is_readable
        if is_compared:
            with writer.reopen() as written:
                if shares:
                    assert isinstance(writer, BundleWriter)
                    _check_index(plan, writer)
                    advance(shares.nbytes)
                _compare(plan, written, shares, made, workers, advance)
        plan.check_unchanged()
    if proof == FULL and not is_compared:
        _compare_in_place(plan, writer, made, workers, advance)
    notes = [*plan.notes, *writer.notes, *(shares.notes(plan) if ways else ()), *ledger.notes(plan)]
    return Outcome(notes, bool(shares))


def _refuse_to_lose(writer: FormatWriter) -> None:
    """Refuse to read back one object of a store in place of another, which would be gone by then."""
    target = writer.target
    if target.is_local or not writer.is_one_object:
        return
    for found in writer.existing(target.path):
        writer.abandon()
        hints = ("compare checksums with --verify sent, or choose another name",)
        message = (
            "this object would be lost if the new one is faulty: the store replaces it "
            "before ckpt can read the new one back"
        )
        raise ConversionError(message, path=found, hints=hints)


def _in_order(plan: Plan) -> Sequence[Move]:
    """Return the moves in the order in which they will be written, as far as the placement fixes it."""
    if not plan.target.is_object():
        return plan.moves  # the shard of a tensor need not be known beforehand
    layout = plan.layout()
    return sorted(plan.moves, key=lambda move: layout.get((move.spec.key, None), _LAST))


_ANOTHER = (
    CheckpointNotFoundError,
    ConversionError,
    CorruptCheckpointError,
    UnknownFormatError,
    UnsupportedFeatureError,
)
"""The errors if the target holds anything but the planned output."""


def _is_made(plan: Plan, rehearsed: FormatWriter, workers: Workers, advance: Callable[[int], None]) -> bool:
    """Whether the target already holds the planned output, as after a kill that came once the journal was
    gone.
    """
    if not rehearsed.existing(rehearsed.target.path):
        return False
    try:
        with rehearsed.reopen() as found:
            _compare(plan, found, Shares(), {}, workers, advance)
            graph = [*found[GRAPH_KEY].chunks()] if plan.object_graph is not None else []
            is_same = graph == ([] if plan.object_graph is None else [plan.object_graph.encode()])
            return is_same and rehearsed.is_described_by(found)
    except _ANOTHER:
        return False


def _compare_in_place(
    plan: Plan,
    writer: FormatWriter,
    made: Mapping[Name, Copied],
    workers: Workers,
    advance: Callable[[int], None],
) -> None:
    """Compare the one object that could not be read before it was published; delete it if it differs."""
    try:
        with writer.reopen() as written:
            _compare(plan, written, Shares(), made, workers, advance)
    except BaseException:
        with cleaning_up(writer.target.path):
            writer.withdraw()
        raise


# Copying --------------------------------------------------------------------------


def _copy(  # noqa: PLR0917  what goes where, then who does it
    plan: Plan,
    writer: FormatWriter,
    shares: Shares,
    ledger: Ledger,
    workers: Workers,
    advance: Callable[[int], None],
    *,
    proves: bool,
) -> dict[Name, Copied]:
    """Write all tensors that are not shared; return what has become of what could be written in ranges.

    The order of placements is the plan's. If the copy `proves` it, each thread reads back at
    once what it has written, while it is cached and others write.
    """
    if not writer.target.is_local and writer.target.is_shared:
        assert isinstance(writer, BundleWriter)
        sent = send_objects(plan, writer, workers, advance, partial(_write, plan, writer, advance))
        return {name: Copied(found) for name, found in sent.items()}
    made: dict[Name, Copied] = {}
    copies = _copies(plan, writer, shares, ledger, workers, advance, proves=proves)
    with closing(done(copied, copies, workers, advance, ledger.note, local=plan.is_local)) as written:
        for unit, part, sums in written:
            part.values.check(sums)
            writer.filled(*unit.name, sums.made)
            made[unit.name] = Copied.of(part, sums)
    return made | ledger.streamed


def _copies(  # noqa: PLR0917  what goes where, then who does it
    plan: Plan,
    writer: FormatWriter,
    shares: Shares,
    ledger: Ledger,
    workers: Workers,
    advance: Callable[[int], None],
    *,
    proves: bool,
) -> Iterator[tuple[WriteUnit, UnitRange]]:
    """Yield the parts of all that can be copied in ranges; write everything else when its turn comes."""
    for unit in laid_out(plan, writer) if shares.left is None else shares.left:
        move, extents = unit
        if writer.was_sent(*unit.name):
            ledger.kept += move.spec.nbytes or 0
            advance(move.spec.nbytes or 0)
            continue
        is_one = extents is not None or move.spec.key not in plan.slices
        values = unit.values if is_one else None
        place = writer.place(*unit.name) if is_one and move.spec.dtype.itemsize is not None else None
        if values is not None and place is not None:
            for begin, end in values.ranges(workers.task_bytes):
                claim = ledger.claim(place, begin, end)
                yield unit, UnitRange(values, begin, end, place, None, claim, ledger.is_doubtful, proves)
            continue
        workers.keep(move.spec.nbytes or 0)
        if place is not None:
            chunks = partial(_checked_chunks, move)
            found = ledger.stream(place, move.spec.nbytes or 0, chunks, proves=proves)
            ledger.streamed[unit.name] = found
            writer.filled(*unit.name, found.sum)
            advance(move.spec.nbytes or 0)
            continue
        if values is not None and isinstance(writer, BundleWriter):
            _send(writer, unit, values)
            advance(values.size)
            continue
        _write(plan, writer, advance, unit)


def _send(writer: BundleWriter, unit: WriteUnit, values: LazyValues) -> None:
    """Write into an object what is read in ranges; what is read and what is written have one checksum."""
    sums = values.sums()
    writer.write_summed(*unit.name, values.pieces(0, values.size, sums), lambda: sums.made.crc)
    values.check(sums)


def _write(plan: Plan, writer: FormatWriter, advance: Callable[[int], None], unit: WriteUnit) -> None:
    """Give the writer what it has no place for."""
    move, extents = unit
    if extents is None:
        if plan.slices.get(move.spec.key):
            _check_tiles(plan, move.spec)
        writer.write(move.spec.key, _chunks(move))
    else:
        writer.write_slice(move.spec.key, extents, _chunks(move))
    advance(move.spec.nbytes or 0)


# The proof ------------------------------------------------------------------------


def _compare(  # noqa: PLR0917  what is compared, then who does it
    plan: Plan,
    written: FormatReader,
    shares: Shares,
    made: Mapping[Name, Copied],
    workers: Workers,
    advance: Callable[[int], None],
) -> None:
    """Compare every written tensor with its source; ConversionError if one differs.

    A range that was read back on the way, with equal bytes, must be where a reader of the output looks for
    it, with the checksum of those bytes, and in no other tensor's range. For the rest, if target and source
    store checksums, the source's bytes were compared with theirs on the way, so comparing the written bytes
    with the same checksum is the proof. Otherwise both are read again and compared, byte by byte; checksums
    that were compared on the way are not compared twice. Shared data exists only once, so only the index is
    compared with its placement.
    """
    _check_specs(plan, written)
    comparisons = _comparisons(plan, written, shares, made, workers, advance)
    compares = partial(compared, plan.target)
    with closing(done(compares, comparisons, workers, advance, local=plan.is_local)) as read:
        for unit, part, sums in read:
            if part.other is None:
                same = sums.made.crc == made[unit.name].sum.crc
            else:
                part.values.check(sums)
                same = part.other.fits(sums.made)
            if not same:
                raise different(plan.target, unit.move.spec.key)


def _check_index(plan: Plan, writer: BundleWriter) -> None:
    """Compare the written index with the plan for shared data, and everything else."""
    flaw = writer.index_flaw()
    if flaw is not None:
        raise broken(plan.target, flaw)


def _check_specs(plan: Plan, written: FormatReader) -> None:
    """Hold keys, dtypes, shapes and slices against the plan."""
    missing = {move.spec.key: move.spec for move in plan.moves}
    surplus = 0
    for keys, numbers, specs, _ in written.columns():
        for key, number in zip(keys, numbers, strict=True):
            expected, found = missing.pop(key, None), specs[number]
            if expected is None:
                surplus += key != GRAPH_KEY or plan.object_graph is None
            elif found[1:3] != expected[1:3]:
                message = f"the tensor was written as {found.dtype} {list(found.shape)}"
                message = f"{message}; expected {expected.dtype} {list(expected.shape)}"
                raise broken(plan.target, message, key)
    if surplus or missing:
        raise broken(
            plan.target,
            (f"{counted(len(missing), 'tensor is', 'tensors are')} missing, and {surplus:,} are too many"),
        )
    for key, extents in plan.slices.items():
        slices = {piece for piece, _ in written[key].pieces()}
        if slices != set(extents):
            message = f"the tensor was written in {len(slices)} slices that differ from the plan"
            raise broken(plan.target, message, key)
    if plan.object_graph is not None:
        for _ in written[GRAPH_KEY].chunks():  # against the checksum of what was encoded
            pass


def _comparisons(  # noqa: PLR0917  as `_compare`
    plan: Plan,
    written: FormatReader,
    shares: Shares,
    made: Mapping[Name, Copied],
    workers: Workers,
    advance: Callable[[int], None],
) -> Iterator[tuple[WriteUnit, UnitRange]]:
    """Yield the parts of all that can be compared in ranges; compare everything else when its turn comes."""
    pieces: dict[Extents, LazyTensor] = {}
    may_be_proved = not overlap(made.values())
    for unit in units(plan) if shares.left is None else shares.left:
        move, extents = unit
        found = written[move.spec.key]
        if extents is not None:
            pieces = pieces if extents in pieces else dict(found.pieces())
            found = pieces.pop(extents)
        mine, values = found.file_range() if found.has_values else None, unit.values
        passed = made.get(unit.name)
        if mine is not None and passed is not None and _is_read_back(plan, mine, passed) and may_be_proved:
            advance(mine.size)
            continue
        if mine is not None and values is not None:
            proven = passed is not None and all(each.is_checked for each in (mine, *values.sources))
            if passed is not None:
                mine, values = mine.unchecked, values.unchecked
            for begin, end in values.ranges(workers.task_bytes):
                if proven:
                    yield unit, UnitRange(LazyValues(mine.size, (mine,)), begin, end)
                else:
                    yield unit, UnitRange(values, begin, end, other=mine)
            continue
        workers.keep(move.spec.nbytes or 0)
        if not same_tensor(found, move):
            raise different(plan.target, move.spec.key)
        advance(move.spec.nbytes or 0)


def _is_read_back(plan: Plan, found: FileRange, passed: Copied) -> bool:
    """Whether a tensor was read back from where a reader finds it; ConversionError for another checksum."""
    if not found.fits(passed.sum):
        raise different(plan.target, found.key)
    return passed.is_at(found)


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
    return same_bytes(found.chunks(), _chunks(move))
