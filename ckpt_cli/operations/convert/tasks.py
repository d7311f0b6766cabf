"""The tasks that carrying out a plan is cut into, and what they add up to.

A task reads a range of one tensor from the files of its source, and returns checksums. It is data: files,
ranges, numbers. Its unit stays with the process that hands it out. Tasks are independent, so any worker may
run them at any time (`formats.store.work.workers`).
"""

from __future__ import annotations

from collections import deque
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from formats.core.chunks import PIECE, equal_bytes
from formats.errors import ConversionError
from formats.store.ranges import buffers

from .lazy import READ_BACK

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from formats.model.writer import Placement
    from formats.store.journal import Claim
    from formats.store.ranges import FileRange, Sum
    from formats.store.work.workers import Workers

    from .lazy import LazyValues, Sums
    from .placement import WriteUnit


class UnitRange(NamedTuple):
    """A range of a unit's bytes. A copy goes to `place`; a comparison is with `other`.

    A copy is read back at once if that `proves` it.

    A range in a journal is not copied again if its bytes are there. If it is `doubtful` whether they came
    from this source, the source is read again, too.
    """

    values: LazyValues
    begin: int
    end: int
    place: Placement | None = None
    other: FileRange | None = None
    claim: Claim | None = None
    is_doubtful: bool = False
    proves: bool = False

    @property
    def is_in_place(self) -> bool:
        """Whether what is claimed came of these values, and is there."""
        assert self.place is not None
        assert self.claim is not None
        if self.is_doubtful:
            sums = self.values.sums(zipped=self.place.is_zipped)
            for _ in self.values.pieces(self.begin, self.end, sums):
                pass
            if sums.made.crc != self.claim.made:
                return False
        return self.place.holds(self.begin, self.claim)


class Copied(NamedTuple):
    """The checksum of a unit's bytes and, where all were read back, the place that they are in."""

    sum: Sum
    place: Placement | None = None

    @classmethod
    def of(cls, part: UnitRange, sums: Sums) -> Copied:
        """Return what copying has come to, of a unit's last part and the checksums of the whole."""
        return cls(sums.made, part.place if sums.is_proved else None)

    def is_at(self, found: FileRange) -> bool:
        """Whether these are the bytes that a reader of what was written finds there."""
        place = self.place
        return (
            place is not None
            and found.file.identity[:2] == place.file.number
            and found.file.where(found.offset) == place.offset
            and found.size == self.sum.size
        )


def overlap(copies: Iterable[Copied]) -> bool:
    """Whether places overlap: then what was read back from one may have been written over by another."""
    places = sorted(
        (*copy.place.file.number, copy.place.offset, copy.sum.size)
        for copy in copies
        if copy.place is not None and copy.sum.size
    )
    return any(one[:2] == other[:2] and one[2] + one[3] > other[2] for one, other in pairwise(places))


def copied(part: UnitRange) -> Sums:
    """Do one task."""
    assert part.place is not None
    if part.claim is not None:
        claimed = part.values.claimed(part.begin, part.end, part.claim)
        if claimed is not None and part.is_in_place:
            return claimed
    sums, at = part.values.sums(zipped=part.place.is_zipped), part.begin
    sums.is_proved = part.proves and part.place.file.shares_memory
    for piece in part.values.pieces(part.begin, part.end, sums, READ_BACK if sums.is_proved else PIECE):
        part.place.write(at, piece)
        sums.is_proved = sums.is_proved and part.place.returns(at, piece)
        at += len(piece)
    part.place.start_sync(part.begin, at)
    return sums


def done(
    work: Callable[[UnitRange], Sums],
    parts: Iterable[tuple[WriteUnit, UnitRange]],
    workers: Workers,
    advance: Callable[[int], None],
    note: Callable[[UnitRange, Sums], None] = lambda *_: None,
    *,
    local: bool = False,
) -> Generator[tuple[WriteUnit, UnitRange, Sums]]:
    """Have parts worked on; yield each unit with its last part and the checksums of the whole.

    `note` is called with each part and its own checksums as soon as it is done, in any order. `local` says
    that sources and target are on this machine. A caller that
    stops early must close this generator: parts in progress would otherwise continue into files that are
    removed.
    """
    waiting: deque[tuple[WriteUnit, UnitRange]] = deque()

    def noted() -> Iterator[UnitRange]:
        for pair in parts:
            waiting.append(pair)
            yield pair[1]

    total = None
    mapped = workers.map(
        work,
        noted(),
        lambda part: part.end - part.begin,
        lambda part: part.place and part.place.file,
        report=note,
        local=local,
    )
    with closing(mapped) as results:
        for sums in results:
            unit, part = waiting.popleft()
            total = sums if total is None else total.add(sums)
            if part.end == part.values.size:
                yield unit, part, total
                total = None
            advance(part.end - part.begin)


def compared(target: str, part: UnitRange) -> Sums:
    """Do one task; ConversionError if the bytes are not the same."""
    zipped = part.other is not None and part.other.crc32 is not None
    sums, at = part.values.sums(zipped=zipped), part.begin
    _, buffer = buffers()
    if part.other is not None:
        part.other.expect(part.begin, part.end)
    for piece in part.values.pieces(part.begin, part.end, sums):
        if part.other is not None and not equal_bytes(piece, part.other.read(at, at + len(piece), buffer)):
            raise different(target, part.other.key)
        at += len(piece)
    return sums


def broken(target: str, message: str, key: str | None = None) -> ConversionError:
    """Return what is raised where the proof fails, about a tensor where its key is given."""
    return ConversionError(f"verification failed: {message}", path=target, key=key)


def different(target: str, key: str) -> ConversionError:
    """Return what is raised where a tensor is not its source's."""
    return broken(target, "the values differ from those of the source", key)
