"""Parts of a tensor: regions, the extents that say what a slice of it covers, and putting slices together.

A slice has one extent a dimension: (start, length), where length -1 stands for the
whole dimension.  The same rows can be spelled either way.
"""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np

WHOLE = -1

Extents = tuple[tuple[int, int], ...]

_MOST_CORNERS = 1 << 22

_MOST_COMPARISONS = 1 << 21

Region = tuple[tuple[int, int], ...]
"""Start and stop in each dimension, both within the tensor."""

Index = tuple[slice, ...]
"""A region: for each dimension one slice within it, of step 1 or more."""


def region_of(extents: Extents, shape: tuple[int, ...]) -> Region:
    """Return what a slice covers of a tensor of `shape`; ValueError if it does not fit."""
    if len(extents) != len(shape):
        raise ValueError(f"the slice has {len(extents)} dimensions, but the tensor has {len(shape)}")
    region = []
    for (start, length), dim in zip(extents, shape, strict=True):
        stop = dim if length == WHOLE else start + length
        if not 0 <= start <= stop <= dim:
            raise ValueError(f"slice {start}:{stop} does not fit a dimension of size {dim}")
        region.append((start, stop))
    return tuple(region)


def region_text(region: Region) -> str:
    """Return a region as Python spells it, `[0:2, 0:3]`."""
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in region) + "]"


def volume(region: Region) -> int:
    return math.prod(stop - start for start, stop in region)


def tiling_flaw(regions: Sequence[Region], shape: tuple[int, ...]) -> str | None:
    """Return "overlap" or "gap" if regions do not cover a shape exactly once, otherwise None.

    Give each corner of a region the sign of its parity.  The signed corners of all
    regions add up to those of the whole exactly where every element is covered once,
    so one pass decides, however the tensor was cut.
    """
    covered = sum(map(volume, regions))
    total = math.prod(shape)
    if covered != total:
        return "overlap" if covered > total or _any_overlap(regions) else "gap"
    if total == 0:
        return None
    split = [d for d, dim in enumerate(shape) if any(region[d] != (0, dim) for region in regions)]
    if len(regions) > _MOST_CORNERS >> len(split):
        raise ValueError(f"too many pieces to check: {len(regions)}, along {len(split)} dimensions")
    corners: dict[tuple[int, ...], int] = {}
    whole = tuple((0, dim) for dim in shape)
    for region, weight in [*((region, 1) for region in regions), (whole, -1)]:
        if volume(region) == 0:
            continue
        for sides in itertools.product((0, 1), repeat=len(split)):
            corner = tuple(region[d][side] for d, side in zip(split, sides, strict=True))
            corners[corner] = corners.get(corner, 0) + weight * (-1) ** sum(sides)
    return "overlap" if any(corners.values()) else None


def _any_overlap(regions: Sequence[Region]) -> bool:
    """Whether two regions share an element; ValueError if that takes too many comparisons to tell.

    In the order of their starts along one dimension, a region can only overlap those that
    start before it ends.
    """
    if not regions or not regions[0]:
        return len(regions) > 1
    axis = max(range(len(regions[0])), key=lambda d: len({region[d] for region in regions}))
    ordered = sorted(regions, key=lambda region: region[axis])
    comparisons = 0
    for at, region in enumerate(ordered):
        for other in itertools.islice(ordered, at + 1, None):
            if other[axis][0] >= region[axis][1]:
                break
            comparisons += 1
            if comparisons > _MOST_COMPARISONS:
                raise ValueError(f"too many pieces to check: {len(regions)}, with gaps between them")
            if intersect(region, other) is not None:
                return True
    return False


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
        raise IndexError("more than one '...'")
    if len(terms) - len(dots) > len(shape):
        raise IndexError(
            f"the slice has {len(terms) - len(dots)} dimensions, but the tensor has {len(shape)}"
        )
    at, behind = (dots[0], dots[0] + 1) if dots else (len(terms), len(terms))
    terms[at:behind] = [slice(None)] * (len(shape) - len(terms) + len(dots))
    region, dropped = [], []
    for axis, (term, dim) in enumerate(zip(terms, shape, strict=True)):
        if isinstance(term, slice):
            if term.step is not None and operator.index(term.step) < 1:
                raise IndexError("the step must be positive")
            start, stop, step = term.indices(dim)
            region.append(slice(start, max(start, stop), step))
            continue
        if isinstance(term, bool) or getattr(term, "shape", None) or not hasattr(term, "__index__"):
            raise IndexError(f"{term!r} is not an integer, a slice or '...'")
        number = operator.index(term)
        if not -dim <= number < dim:
            raise IndexError(f"index {number} is out of range for dimension {axis}")
        region.append(slice(number % dim, number % dim + 1, 1))
        dropped.append(axis)
    return tuple(region), tuple(dropped)


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


def intersect(left: Region, right: Region) -> Region | None:
    """Return what two regions share, or None."""
    shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(left, right, strict=True))
    return shared if all(start < stop for start, stop in shared) else None


def fill(
    out: np.ndarray[Any, Any],
    index: Index,
    pieces: Iterable[tuple[Region, Callable[[Index], np.ndarray[Any, Any]]]],
) -> int:
    """Fill `out` with `index` of a partitioned tensor and return how many elements were there.

    Each piece comes with its region and a function that returns a slice of it. Pieces outside the index are
    not read. Pieces may not overlap: the count would confuse an overlap with a gap.
    """
    wanted = tuple((part.start, part.stop) for part in index)
    filled = 0
    for region, read in pieces:
        shared = intersect(region, wanted)
        if shared is None:
            continue
        # The destination of the piece's part, and that part of the piece, both with the index's steps.
        target, source = [], []
        for (low, high), (start, _), part in zip(shared, region, index, strict=True):
            first = low + (part.start - low) % part.step
            target.append(slice((first - part.start) // part.step, -(-(high - part.start) // part.step)))
            source.append(slice(first - start, high - start, part.step))
        where: tuple[Any, ...] = (*target, Ellipsis)  # the dots keep rank 0 an array
        into = out[where]
        if into.size:
            into[...] = read(tuple(source))
            filled += into.size
    return filled
