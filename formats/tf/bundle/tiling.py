"""Partitioned tensors as one stream: joining pieces, and cutting a stream into them.

A tensor's bytes are read once in C order, slab by slab. A slab is consecutive elements, at most a chunk of
them, in which no slice begins or ends along the first dimension; each of its parts is the next part of its
slice. So every slice is read, or written, from start to end, however the tensor was cut, and nothing larger
than a slab is in memory.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.chunks import PIECE
from ...core.region import volume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ...core.chunks import Chunk
    from ...core.region import Region


_Numbered = list[tuple[int, "Region"]]


class _Slab(NamedTuple):
    """A block of consecutive elements and, for each piece in it, the part that is the piece's."""

    shape: tuple[int, ...]
    parts: list[tuple[int, tuple[slice, ...]]]


def _bands(pieces: _Numbered) -> Iterator[tuple[int, int, _Numbered]]:
    """Yield (start, stop, slices) of the first dimension, cut at every start and end of a slice."""
    edges = sorted({edge for _, region in pieces for edge in region[0]})
    waiting = sorted(pieces, key=lambda piece: piece[1][0], reverse=True)
    active: _Numbered = []
    for start, stop in itertools.pairwise(edges):
        active = [piece for piece in active if piece[1][0][1] > start]
        while waiting and waiting[-1][1][0][0] <= start:
            active.append(waiting.pop())
        if active:
            yield start, stop, active


def _slabs(shape: tuple[int, ...], pieces: _Numbered, itemsize: int, max_bytes: int) -> Iterator[_Slab]:
    if not shape:
        yield _Slab((), [(number, ()) for number, _ in pieces])
        return
    row_bytes = math.prod(shape[1:]) * itemsize
    for start, stop, active in _bands(pieces):
        if row_bytes > max_bytes:
            below = [(number, region[1:]) for number, region in active]
            for _ in range(start, stop):
                yield from _slabs(shape[1:], below, itemsize, max_bytes)
            continue
        group = max(1, max_bytes // row_bytes)
        for at in range(start, stop, group):
            rows = min(group, stop - at)
            parts = [(n, (slice(0, rows), *(slice(*sides) for sides in region[1:]))) for n, region in active]
            yield _Slab((rows, *shape[1:]), parts)


def _numbered(regions: Sequence[Region]) -> _Numbered:
    return [(number, region) for number, region in enumerate(regions) if volume(region)]


def most_at_once(regions: Sequence[Region]) -> int:
    """Return the number of pieces that may be half done at the same time."""
    if not regions or not regions[0]:
        return 1
    return max((len(active) for _, _, active in _bands(_numbered(regions))), default=1)


def gather(
    shape: tuple[int, ...],
    regions: Sequence[Region],
    itemsize: int,
    take: Callable[[int, int], Chunk],
    max_bytes: int = PIECE,
) -> Iterator[Chunk]:
    """Yield the bytes of a tensor that `regions` tile; `take(piece, size)` gives a piece's next bytes."""
    import numpy as np

    item = np.dtype((np.void, itemsize))
    for slab in _slabs(shape, _numbered(regions), itemsize, max_bytes):
        if len(slab.parts) == 1:
            yield take(slab.parts[0][0], math.prod(slab.shape) * itemsize)
            continue
        out: np.ndarray[Any, Any] = np.empty(slab.shape, item)
        for number, index in slab.parts:
            part = out[index]
            part[...] = np.frombuffer(take(number, part.size * itemsize), item).reshape(part.shape)
        yield out.reshape(-1).view(np.uint8)


def scatter(
    shape: tuple[int, ...],
    regions: Sequence[Region],
    itemsize: int,
    take: Callable[[int], Chunk],
    max_bytes: int = PIECE,
) -> Iterator[tuple[int, Chunk]]:
    """Yield (piece, its next bytes) of a tensor that `regions` tile; `take(size)` gives the tensor's."""
    import numpy as np

    item = np.dtype((np.void, itemsize))
    for slab in _slabs(shape, _numbered(regions), itemsize, max_bytes):
        data = take(math.prod(slab.shape) * itemsize)
        if len(slab.parts) == 1:
            yield slab.parts[0][0], data
            continue
        array = np.frombuffer(data, item).reshape(slab.shape)
        for number, index in slab.parts:
            yield number, array[index].tobytes()
