"""Writing a bundle to a store with the help of other processes: a task sends one whole object.

Objects cannot be written in part, so a data shard is the task: its tensors, which the task reads itself, and
between them the bytes that this process holds (strings, the object graph). The index goes last, from this
process.
"""

from __future__ import annotations

from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from .placement import laid_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.core.chunks import Chunk
    from formats.store.base import Entry
    from formats.store.ranges import Sum
    from formats.store.remote.upload import DelegatedUpload, Maker
    from formats.store.work.workers import Workers
    from formats.tf.bundle.writer import BundleWriter

    from .lazy import LazyValues, Sums
    from .placement import Name, WriteUnit
    from .plan import Move, Plan


_MOST_WAITING = 64 << 20
"""Bytes of strings that wait in memory for their object; a plan with more is carried out by one process."""


class Whole(NamedTuple):
    """An object, and what it is made of; plain data."""

    maker: Maker
    pieces: tuple[bytes | LazyValues, ...]

    def nbytes(self) -> int:
        return sum(len(piece) if isinstance(piece, bytes) else piece.size for piece in self.pieces)


class WrittenObject(NamedTuple):
    """The object as stored, and the checksums of all values in it."""

    entry: Entry
    sums: list[Sums]


def can_be_shared(plan: Plan) -> bool:
    """Whether all data of a plan is read in ranges, except a few strings."""
    waiting = [len(plan.object_graph.encode())] if plan.object_graph is not None else []
    if plan.slices:
        return False
    for move in plan.moves:
        if move.spec.dtype.itemsize is None:
            specs = [move.spec, *([move.tensor.spec] if move.tensor is not None else [])]
            waiting += [spec.nbytes for spec in specs if spec.nbytes is not None]
        elif move.tensor is None or (values := values_here(move)) is None or not values.can_travel:
            return False
    return sum(waiting) <= _MOST_WAITING


def values_here(move: Move) -> LazyValues | None:
    """Return what a tensor's bytes are made of, where that is read in ranges."""
    from .placement import WriteUnit

    return WriteUnit(move).values


def sent(whole: Whole) -> WrittenObject:
    """Do one task."""
    sums: list[Sums] = []

    def chunks() -> Iterator[Chunk]:
        for piece in whole.pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                sums.append(piece.sums())
                yield from piece.pieces(0, piece.size, sums[-1])

    return WrittenObject(whole.maker.make(chunks()), sums)


class _Filling(NamedTuple):
    """An object that is being put together: its tensors in their order."""

    object: DelegatedUpload
    units: list[tuple[WriteUnit, LazyValues]]

    def whole(self) -> Whole:
        values = iter(values for _, values in self.units)
        pieces = tuple(next(values) if piece is None else piece for piece in self.object.pieces)
        return Whole(self.object.delegate(), pieces)


def send_objects(
    plan: Plan,
    writer: BundleWriter,
    workers: Workers,
    advance: Callable[[int], None],
    write: Callable[[WriteUnit], None],
) -> dict[Name, Sum]:
    """Have all data shards sent; return the checksums of what was read in ranges.

    `write` gives the writer what is not.
    """
    made: dict[Name, Sum] = {}
    waiting: deque[_Filling] = deque()

    def wholes() -> Iterator[Whole]:
        for filling in _fillings(plan, writer, workers, write):
            waiting.append(filling)
            yield filling.whole()

    with closing(workers.map(sent, wholes(), Whole.nbytes, alone=True)) as results:
        for entry, sums in results:
            filling = waiting.popleft()
            filling.object.arrived(entry)
            for (unit, values), found in zip(filling.units, sums, strict=True):
                values.check(found)
                writer.sent(*unit.name, found.made.crc)
                made[unit.name] = found.made
                advance(values.size)
    return made


def _fillings(
    plan: Plan, writer: BundleWriter, workers: Workers, write: Callable[[WriteUnit], None]
) -> Iterator[_Filling]:
    """Yield objects that have values in them, each when nothing more is added to it."""
    filling: _Filling | None = None
    for unit in laid_out(plan, writer):
        values = unit.values
        if values is None:
            workers.keep(unit.move.spec.nbytes or 0)
            write(unit)
        else:
            delegated = writer.delegate(*unit.name)
            if filling is not None and filling.object is not delegated:
                yield filling
                filling = None
            filling = filling or _Filling(delegated, [])
            filling.units.append((unit, values))
    writer.write_object_graph()
    if filling is not None:
        yield filling
