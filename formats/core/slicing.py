"""Read a part of an array that a file stores in C order.

Reads are runs of whole rows. If a row is long and only a part of it is wanted, only that part is read. If
rows are short, reading unwanted bytes is cheaper than another system call.

A checksum covers a whole tensor, so all of it is read in chunks, and only the part is kept. That takes the
time of reading the whole tensor, and the memory of the part.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..errors import UnsupportedFeatureError, exhausted
from .chunks import PIECE, ChunkSource, array_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    import numpy.typing as npt

    from .chunks import Chunk
    from .region import Index
    from .spec import TensorSpec
from .region import boxes, index_shape, within

_LONG_ROW = 1 << 16
"""Bytes from which on a row is worth entering: sixteen pages."""


def allocate(
    spec: TensorSpec, shape: tuple[int, ...], path: str, stored: npt.DTypeLike | None = None
) -> np.ndarray[Any, Any]:
    """Return an array of `shape` for values of a tensor, of its dtype, or as they are `stored`.

    UnsupportedFeatureError where numpy has no array of this shape, ResourceError if there is no
    memory for it.
    """
    import numpy as np

    try:
        return np.empty(shape, spec.dtype.numpy if stored is None else stored)
    except MemoryError as error:
        raise exhausted(error, path, spec.key) from error
    except ValueError as error:
        message = f"cannot create an array of {spec.dtype} with shape {list(shape)}: {error}"
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


def region_chunks(
    read: Callable[[Index], np.ndarray[Any, Any]], index: Index, itemsize: int, max_bytes: int
) -> Iterator[Chunk]:
    """Yield a region as chunks, by a `read` of regions that costs no more than they have bytes."""
    for box in boxes(index_shape(index), max(1, max_bytes // itemsize)):
        yield from array_chunks(read(within(index, box)), max_bytes)
