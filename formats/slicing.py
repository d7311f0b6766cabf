"""Reading a part of an array that lies in C order somewhere in a file.

What is read are runs of whole rows.  Where a row is long and only a part of it is
wanted, the row is entered; where rows are short, reading past what is not wanted is
cheaper than another call to the system.

A checksum covers all of a tensor, so where there is one, all of it goes by in chunks,
and only the part is kept: that costs the time of reading it whole, and the memory of
the part.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from .chunks import ChunkSource, array_chunks
from .errors import UnsupportedFeatureError
from .files import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np

    from .chunks import Chunk
    from .model import Index, TensorSpec

__all__ = [
    "Region",
    "allocate",
    "boxes",
    "fill",
    "fill_region",
    "full_index",
    "index_shape",
    "intersect",
    "keep_chunks",
    "keep_region",
    "normal_index",
    "region_chunks",
    "within",
]

Region = tuple[tuple[int, int], ...]
"""Start and stop in each dimension, both within the tensor."""

_LONG_ROW = 1 << 16
"""Bytes from which on a row is worth entering: sixteen pages."""


def full_index(shape: tuple[int, ...]) -> Index:
    """Return the index of everything."""
    return tuple(slice(0, dim, 1) for dim in shape)


def index_shape(index: Index) -> tuple[int, ...]:
    """Return the shape of what an index selects."""
    return tuple(len(range(part.start, part.stop, part.step)) for part in index)


def normal_index(index: Any, shape: tuple[int, ...]) -> tuple[Index, tuple[int, ...]]:
    """Return the region that an index of a shape selects, and the axes that integers in it take away.

    Raises IndexError for what does not fit, and for what would be more than a region:
    steps that go backward, new axes, lists and masks.
    """
    terms = list(index) if isinstance(index, tuple) else [index]
    dots = [at for at, term in enumerate(terms) if term is Ellipsis]
    if len(dots) > 1:
        raise IndexError("more than one ...")
    if len(terms) - len(dots) > len(shape):
        raise IndexError(f"{len(terms) - len(dots)} dimensions, the tensor has {len(shape)}")
    at, behind = (dots[0], dots[0] + 1) if dots else (len(terms), len(terms))
    terms[at:behind] = [slice(None)] * (len(shape) - len(terms) + len(dots))
    region, dropped = [], []
    for axis, (term, dim) in enumerate(zip(terms, shape, strict=True)):
        if isinstance(term, slice):
            start, stop, step = term.indices(dim) if term.step != 0 else (0, 0, 0)
            if step < 1:
                raise IndexError("steps go forward")
            region.append(slice(start, max(start, stop), step))
            continue
        if isinstance(term, bool) or getattr(term, "shape", None) or not hasattr(term, "__index__"):
            raise IndexError(f"{term!r} is neither an integer nor a slice nor ...")
        number = operator.index(term)
        if not -dim <= number < dim:
            raise IndexError(f"{number} is outside of dimension {axis}")
        region.append(slice(number % dim, number % dim + 1, 1))
        dropped.append(axis)
    return tuple(region), tuple(dropped)


def allocate(spec: TensorSpec, shape: tuple[int, ...], path: str) -> np.ndarray[Any, Any]:
    """Return an array of `shape` for values of a tensor.

    UnsupportedFeatureError where numpy has no array of this shape, or there is no memory for it.
    """
    import numpy as np

    try:
        return np.empty(shape, spec.dtype.numpy)
    except (ValueError, MemoryError) as error:
        message = f"no array can hold {spec.dtype} of shape {list(shape)}: {error}"
        raise UnsupportedFeatureError(message, path=path, key=spec.key) from error


def fill_region(
    read: Callable[[int, int], Chunk],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    index: Index,
    out: np.ndarray[Any, Any],
    *,
    base: int = 0,
) -> None:
    """Fill `out` with `index` of an array of `shape` and `dtype` that begins at byte `base`.

    `read(offset, size)` returns exactly `size` bytes, or raises.
    """
    _put(out, region_blocks(read, shape, dtype, index, base=base))


def _put(out: np.ndarray[Any, Any], blocks: Iterable[np.ndarray[Any, Any]]) -> None:
    flat, at = out.reshape(-1), 0
    for block in blocks:
        flat[at : at + block.size].reshape(block.shape)[...] = block
        at += block.size


def region_blocks(
    read: Callable[[int, int], Chunk],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    index: Index,
    *,
    base: int = 0,
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield what `fill_region` fills in, in C order, in blocks of at most a piece.

    Each `read` begins where the one before ended, or later: its source may be a stream.
    """
    import numpy as np

    if 0 in index_shape(index):
        return
    if not shape:
        yield np.frombuffer(read(base, dtype.itemsize), dtype)
        return
    rows = range(index[0].start, index[0].stop, index[0].step)
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    whole_rows = index_shape(index[1:]) == shape[1:]
    if len(shape) > 1 and (
        (row_bytes >= _LONG_ROW and not whole_rows) or row_bytes > PIECE or rows.step * row_bytes > PIECE
    ):
        for row in rows:
            yield from region_blocks(read, shape[1:], dtype, index[1:], base=base + row * row_bytes)
        return
    group = max(1, PIECE // (row_bytes * rows.step))
    for at in range(0, len(rows), group):
        part = rows[at : at + group]
        count = part[-1] - part[0] + 1
        block = np.frombuffer(read(base + part[0] * row_bytes, count * row_bytes), dtype)
        yield block.reshape(count, *shape[1:])[:: rows.step][(slice(None), *index[1:])]


# Of what is checked as a whole ----------------------------------------------------


def kept_blocks(spec: TensorSpec, chunks: Iterator[Chunk], index: Index) -> Iterator[np.ndarray[Any, Any]]:
    """Yield what `index` selects of a tensor that goes by in chunks, in C order, in blocks.

    All of the chunks go by, so that their source compares the checksum at their end.
    """
    source, passed = ChunkSource(chunks), 0

    def read(offset: int, size: int) -> Chunk:
        nonlocal passed
        source.skip(offset - passed)
        passed = offset + size
        return source.take(size)

    yield from region_blocks(read, spec.shape, spec.dtype.numpy, index)
    source.finish()


def keep_region(spec: TensorSpec, chunks: Iterator[Chunk], index: Index, path: str) -> np.ndarray[Any, Any]:
    """Return what `index` selects of a tensor that goes by in chunks, no more of it in memory."""
    out = allocate(spec, index_shape(index), path)
    _put(out, kept_blocks(spec, chunks, index))
    return out


def keep_chunks(spec: TensorSpec, chunks: Iterator[Chunk], index: Index, max_bytes: int) -> Iterator[Chunk]:
    """Yield the same as chunks of at most `max_bytes`."""
    for block in kept_blocks(spec, chunks, index):
        yield from array_chunks(block, max_bytes)


# Boxes ----------------------------------------------------------------------------


def within(index: Index, part: Index) -> Index:
    """Return the index of a whole that selects `part` of what `index` selects of it."""
    return tuple(
        slice(of.start + at.start * of.step, of.start + (at.stop - 1) * of.step + 1, of.step * at.step)
        for of, at in zip(index, part, strict=True)
    )


def boxes(shape: tuple[int, ...], elements: int) -> Iterator[Index]:
    """Yield boxes of at most `elements` that together cover a shape, in C order."""
    if math.prod(shape) <= elements:
        if math.prod(shape):
            yield full_index(shape)
        return
    row = math.prod(shape[1:])
    if row <= elements:
        rows = max(1, elements // row)
        for at in range(0, shape[0], rows):
            yield (slice(at, min(at + rows, shape[0]), 1), *full_index(shape[1:]))
        return
    for at in range(shape[0]):
        for rest in boxes(shape[1:], elements):
            yield (slice(at, at + 1, 1), *rest)


def region_chunks(
    read: Callable[[Index], np.ndarray[Any, Any]], index: Index, itemsize: int, max_bytes: int
) -> Iterator[Chunk]:
    """Yield a region as chunks, by a `read` of regions that costs no more than they have bytes."""
    for box in boxes(index_shape(index), max(1, max_bytes // itemsize)):
        yield from array_chunks(read(within(index, box)), max_bytes)


# Of pieces --------------------------------------------------------------------------


def intersect(left: Region, right: Region) -> Region | None:
    """Return what two regions share, or None."""
    shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(left, right, strict=True))
    return shared if all(start < stop for start, stop in shared) else None


def fill(
    out: np.ndarray[Any, Any],
    index: Index,
    pieces: Iterable[tuple[Region, Callable[[Index], np.ndarray[Any, Any]]]],
    *,
    complete: bool = True,
) -> int:
    """Fill `out` with `index` of a partitioned tensor and return how many elements were there.

    Each piece comes with what it covers and a function that returns a slice of it;
    pieces that hold nothing of what is wanted are not read.  Where the pieces are not
    `complete`, counting would take an overlap for a gap, so overlaps are looked for:
    ValueError.
    """
    import numpy as np

    taken = None if complete else np.zeros(out.shape, bool)
    wanted = tuple((part.start, part.stop) for part in index)
    filled = 0
    for region, read in pieces:
        shared = intersect(region, wanted)
        if shared is None:
            continue
        # Where the piece's part lands, and what of the piece that is, both with the index's steps.
        target, source = [], []
        for (low, high), (start, _), part in zip(shared, region, index, strict=True):
            first = low + (part.start - low) % part.step
            target.append(slice((first - part.start) // part.step, -(-(high - part.start) // part.step)))
            source.append(slice(first - start, high - start, part.step))
        if taken is not None:
            if taken[tuple(target)].any():
                raise ValueError("its slices overlap")
            taken[tuple(target)] = True
        where: tuple[Any, ...] = (*target, Ellipsis)  # the dots keep rank 0 an array
        into = out[where]
        if into.size:
            into[...] = read(tuple(source))
            filled += into.size
    return filled
