"""Sharing a source's files with the bundle that is made of it: what `--link` does.

A bundle's index may point anywhere in a data shard. Some files store a tensor's bytes as a data shard would
(`LazyTensor.shard_range`). Such a file becomes a shard, as a clone or under a second name, and the index
points to the tensor in it. Tensors with other values, or stored in another way, go to a shard of the bundle's
own.

If the format has no checksum that the bundle can use, it is computed: the values are read, not written.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import counted
from formats.location import Location
from formats.model.checkpoint_files import bundle, bundle_prefix
from formats.store.ranges import FileRange, Sum, cut
from formats.tf.bundle.shards import HARD_LINKS, LINK, ShardTransfer, why_not_shared
from formats.wire.crc32c import mask

from .lazy import LazyValues, cast
from .placement import units
from .tasks import UnitRange, compared, done

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from formats.store.work.workers import Workers
    from formats.tf.bundle.writer import BundleWriter

    from .placement import WriteUnit
    from .plan import Plan


class _File(NamedTuple):
    """A shared file: how it was shared, if at all, and its number as a shard."""

    shard: int
    transfers: ShardTransfer

    @property
    def is_taken(self) -> bool:
        return self.transfers.way is not None


class Shares:
    """Counts the tensors and slices that stay in place, and the files that hold them.

    If a file cannot become a shard, its tensors are copied like all others. `left` is set once files are
    shared; it is None if no sharing was requested.
    """

    def __init__(self) -> None:
        self.left: list[WriteUnit] | None = None
        self._files: dict[str, _File] = {}
        self._counts = [0, 0]
        self._sizes = [0, 0]

    def __bool__(self) -> bool:
        return bool(self._counts[True])

    @property
    def nbytes(self) -> int:
        """Bytes of what stays where it is."""
        return self._sizes[True]

    def take(
        self, plan: Plan, writer: BundleWriter, ways: Sequence[str]
    ) -> Iterator[tuple[WriteUnit, FileRange]]:
        """Share files in the first of `ways` that works, and yield the units in them."""
        self.left = []
        for unit, found in _ranges(plan):
            if found is not None and found.size and found.file.path not in self._files:
                self._files[found.file.path] = _File(*writer.share(_location(found), ways))
            if found is not None and self._has(found):
                yield unit, found
                self._count(unit, shared=True)
            else:
                self.left.append(unit)
                self._count(unit, shared=False)

    def rehearse(self, plan: Plan) -> None:
        """Count what would be shared, as far as that is known without sharing."""
        for unit, found in _ranges(plan):
            if found is not None and found.size and found.file.path not in self._files:
                refusal = why_not_shared(_location(found), plan.target)
                self._files[found.file.path] = _File(0, ShardTransfer(None if refusal else "", refusal))
            self._count(unit, shared=found is not None and self._has(found))

    def _has(self, found: FileRange) -> bool:
        """Whether the file of a range is a shard."""
        file = self._files.get(found.file.path)
        return file is not None and file.is_taken

    def shard_of(self, found: FileRange) -> int:
        """Return the number of the shard that a range's file has become."""
        return self._files[found.file.path].shard

    def _count(self, unit: WriteUnit, *, shared: bool) -> None:
        self._counts[shared] += 1
        self._sizes[shared] += unit.move.spec.nbytes or 0

    def notes(self, plan: Plan, *, dry_run: bool = False) -> list[str]:
        """Return what a person should know of it."""
        unshared = [path for path, file in self._files.items() if not file.is_taken]
        taken = {path: file for path, file in self._files.items() if file.is_taken}
        (copied, new), (stay, old) = zip(self._counts, self._sizes, strict=True)
        notes = []
        if unshared:
            why = self._files[unshared[0]].transfers.refusal
            notes.append(f"copied {_named(unshared)}, which cannot be shared: {why}")
        elif not taken:
            notes.append(f"nothing is shared, so everything is copied: {plan.sources[0].format.unshared}")
        if taken:
            share, copy = ("would share", "would copy") if dry_run else ("shared", "copied")
            rest = f"; {copy} {counted(copied, 'tensor')} ({new:,} bytes)" if copied else ""
            notes.append(f"{share} {_named(taken)} ({counted(stay, 'tensor')}, {old:,} bytes){rest}")
        if any(file.transfers.way == LINK for file in taken.values()) and not _is_over_itself(plan):
            notes.append(HARD_LINKS)
        return notes


def _is_over_itself(plan: Plan) -> bool:
    """Whether the source is rewritten in place, and no other checkpoint has its files."""
    head = bundle(bundle_prefix(plan.target)).head
    return plan.sources[0].location.head.real() == head.real()


def _named(paths: Collection[str]) -> str:
    """Return the first of some paths, and how many more there are."""
    return next(iter(paths)) + (f" and {counted(len(paths) - 1, 'more file')}" if len(paths) > 1 else "")


def _ranges(plan: Plan) -> Iterator[tuple[WriteUnit, FileRange | None]]:
    """Yield all units with their `shard_range`, the empty ones last: no file is kept for these alone."""
    empty = []
    for unit in units(plan):
        found = shard_range(plan, unit)
        if found is not None and not found.size:
            empty.append((unit, found))
        else:
            yield unit, found
    yield from empty


def shard_range(plan: Plan, unit: WriteUnit) -> FileRange | None:
    """Return where a file holds the values of a unit as a data shard would, or None if they must be
    written.
    """
    move, extents = unit
    # TEMPLATE's own tensors are no reason to keep all of TEMPLATE's data as long as this bundle.
    if move.source is None or move.tensor is None or (extents is None and move.spec.key in plan.slices):
        return None
    found = cast(move.tensor, move.spec.dtype).shard_range()
    itemsize = move.spec.dtype.itemsize
    if found is None or (itemsize is not None and found.size != move.spec.size * itemsize):
        return None
    return found


def share(
    plan: Plan,
    writer: BundleWriter,
    ways: Sequence[str],
    workers: Workers,
    advance: Callable[[int], None],
) -> Shares:
    """Let all that can stay where it is be a part of the bundle that is written."""
    shares = Shares()

    def refer(unit: WriteUnit, found: FileRange, crc32c: int) -> None:
        writer.refer(*unit.name, shares.shard_of(found), found.offset, found.size, crc32c)

    def to_be_read() -> Iterator[tuple[WriteUnit, UnitRange]]:
        for unit, found in shares.take(plan, writer, ways):
            if found.crc32c is None and unit.values is not None:
                for begin, end in cut(found.size, workers.task_bytes):
                    yield unit, UnitRange(LazyValues(found.size, (found,)), begin, end)
                continue
            refer(unit, found, mask(_summed(unit)) if found.crc32c is None else found.crc32c)
            advance(found.size)

    compares = partial(compared, plan.target)
    with closing(done(compares, to_be_read(), workers, advance, local=plan.is_local)) as read:
        for unit, part, sums in read:
            part.values.check(sums)
            (source,) = part.values.sources
            assert isinstance(source, FileRange)
            refer(unit, source, mask(sums.made.crc))
    return shares


def _summed(unit: WriteUnit) -> int:
    """Return the unmasked checksum of values that what covers more is checked along with."""
    assert unit.move.tensor is not None
    total = Sum()
    for chunk in unit.move.tensor.chunks():
        total.extend(chunk)
    return total.crc


def _location(found: FileRange) -> Location:
    return Location(found.file.path, found.file.store)
