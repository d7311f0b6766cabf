"""Pieces of a partitioned tensor: their extents, their keys, and putting them together.

A slice has one extent a dimension: (start, length), where length -1 stands for the
whole dimension.  The same rows can be spelled either way, and the key of a slice
entry is made of the spelling that the full tensor's entry stores:

    slice key:  num(0), str(name), num(rank), (snum(start), snum(length)) a dimension

in the ordered code of `formats.wire.ordered_code`
(tensorflow/core/util/saved_tensor_slice_util.cc, tensorflow/core/framework/tensor_slice.cc).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from ..slicing import Region, intersect
from ..wire.ordered_code import decode_num, decode_snum, decode_str, encode_num, encode_snum, encode_str

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .messages import TensorSliceProto

__all__ = [
    "WHOLE",
    "Extents",
    "decode_slice_key",
    "extents_of",
    "region_of",
    "region_text",
    "slice_key",
    "slice_proto",
    "tiling_flaw",
]

WHOLE = -1

Extents = tuple[tuple[int, int], ...]

_MOST_CORNERS = 1 << 22
_MOST_COMPARISONS = 1 << 21


def extents_of(proto: TensorSliceProto) -> Extents:
    """Return extents as stored; an extent without a length is the whole dimension."""
    return tuple((e.start, WHOLE if e.length is None else e.length) for e in proto.extent)


def slice_proto(extents: Extents) -> TensorSliceProto:
    """Return the message of which `extents_of` gives the extents back."""
    from .messages import Extent, TensorSliceProto

    return TensorSliceProto(
        extent=[Extent(start=start, length=None if length == WHOLE else length) for start, length in extents]
    )


def slice_key(name: bytes, extents: Extents) -> bytes:
    """Return the key of a slice entry."""
    parts = [encode_num(0), encode_str(name), encode_num(len(extents))]
    parts += [encode_snum(number) for extent in extents for number in extent]
    return b"".join(parts)


def decode_slice_key(key: bytes) -> tuple[bytes, Extents]:
    """Return the name and the extents in a slice key; ValueError where it is none."""
    zero, position = decode_num(key, 0)
    if zero != 0:
        raise ValueError(f"slice key begins with {zero}")
    name, position = decode_str(key, position)
    rank, position = decode_num(key, position)
    numbers = []
    while position < len(key):
        number, position = decode_snum(key, position)
        numbers.append(number)
    if len(numbers) != 2 * rank:
        raise ValueError(f"slice key of rank {rank} with {len(numbers)} numbers")
    return name, tuple(zip(numbers[::2], numbers[1::2], strict=True))


def region_of(extents: Extents, shape: tuple[int, ...]) -> Region:
    """Return what a slice covers of a tensor of `shape`; ValueError where it does not fit."""
    if len(extents) != len(shape):
        raise ValueError(f"slice of rank {len(extents)} in a tensor of rank {len(shape)}")
    region = []
    for (start, length), dim in zip(extents, shape, strict=True):
        stop = dim if length == WHOLE else start + length
        if not 0 <= start <= stop <= dim:
            raise ValueError(f"slice {start}:{stop} in a dimension of {dim}")
        region.append((start, stop))
    return tuple(region)


def region_text(region: Region) -> str:
    """Return a region as Python spells it, `[0:2, 0:3]`."""
    return "[" + ", ".join(f"{start}:{stop}" for start, stop in region) + "]"


def volume(region: Region) -> int:
    return math.prod(stop - start for start, stop in region)


def tiling_flaw(regions: Sequence[Region], shape: tuple[int, ...]) -> str | None:
    """Return "overlap" or "gap" where regions do not cover a shape exactly once, else None.

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
        raise ValueError(f"a tensor cut along {len(split)} dimensions into {len(regions)} pieces")
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
    """Whether two regions share an element; ValueError where that takes too many comparisons to tell.

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
                raise ValueError(f"{len(regions)} pieces that leave gaps are too many to compare")
            if intersect(region, other) is not None:
                return True
    return False
