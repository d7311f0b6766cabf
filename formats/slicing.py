"""Reading a part of an array that lies in C order somewhere in a file.

What is read are runs of whole rows.  Where a row is long and only a part of it is
wanted, the row is entered; where rows are short, reading past what is not wanted is
cheaper than another call to the system.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from .errors import UnsupportedFeatureError
from .files import PIECE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from .model import Index, TensorSpec

__all__ = ["allocate", "boxes", "fill_region", "full_index", "index_shape", "normal_index"]

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
    read: Callable[[int, int], bytes],
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
    import numpy as np

    if out.size == 0:
        return
    if not shape:
        out[...] = np.frombuffer(read(base, dtype.itemsize), dtype).reshape(())
        return
    rows = range(index[0].start, index[0].stop, index[0].step)
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    whole_rows = index_shape(index[1:]) == shape[1:]
    if len(shape) > 1 and (
        (row_bytes >= _LONG_ROW and not whole_rows) or row_bytes > PIECE or rows.step * row_bytes > PIECE
    ):
        for at, row in enumerate(rows):
            fill_region(read, shape[1:], dtype, index[1:], out[at], base=base + row * row_bytes)
        return
    group = max(1, PIECE // (row_bytes * rows.step))
    for at in range(0, len(rows), group):
        part = rows[at : at + group]
        count = part[-1] - part[0] + 1
        block = np.frombuffer(read(base + part[0] * row_bytes, count * row_bytes), dtype)
        out[at : at + group] = block.reshape(count, *shape[1:])[:: rows.step][(slice(None), *index[1:])]


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
