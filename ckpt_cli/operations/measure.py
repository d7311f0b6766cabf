"""How far two arrays of numbers are apart: in how many elements, and at most by how much.

Differences are those of float64.  Of floating numbers they are taken in float32 first,
in which memory holds and the processor handles twice as many at a time.  Rounding keeps
the order: what is smaller in float32 is not larger in float64.  So float32 tells which
few elements can be the farthest apart, and float64 by how much they are.
"""

from __future__ import annotations

import math
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from formats.chunks import Chunk
    from formats.dtypes import DType

__all__ = ["EQUAL", "SAME", "Difference", "Tolerance", "measured", "together"]

_BLOCK = 1 << 16
"""Elements looked at together: arrays of them fit in the processor's cache, and are worth a call to numpy."""

_FIRST = 1 << 10
"""Elements that tell what is far: of what comes after them, only what is farther counts."""

_FEW = 1 / 8
"""Part of a block that is sooner picked out than gone through whole."""


class Tolerance(NamedTuple):
    """How far apart values may be: `|a-b| <= atol + rtol*|b|`."""

    rtol: float = 0.0
    atol: float = 0.0


class Difference(NamedTuple):
    """How two tensors differ: in how many elements, at most by how much.

    `max_abs` is the largest |a-b|, `max_rel` the largest |a-b|/|b|; NaN where a NaN
    stands on one side only.  None is what cannot be told: of strings how much they
    differ, of a listing without values even in how many places.
    """

    differing: int | None = None
    max_abs: float | None = None
    max_rel: float | None = None


SAME = Difference(0, 0.0, 0.0)
EQUAL = Tolerance()


def measured(
    left: Chunk, right: Chunk, dtype: DType, tolerance: Tolerance, found: Difference = SAME
) -> Difference:
    """Return what was found and how two stretches of bytes differ as numbers, a NaN being equal to a NaN."""
    import numpy as np

    one, other = np.frombuffer(left, dtype.numpy), np.frombuffer(right, dtype.numpy)
    with np.errstate(all="ignore"):
        begin, end = 0, _BLOCK if found.max_rel else _FIRST
        while begin < one.size:
            block = one[begin:end], other[begin:end]
            more = _measure_floats(*block, dtype, tolerance, found) if dtype.family == "float" else None
            found = together(found, more or _measure(*block, dtype, tolerance))
            begin, end = end, end + _BLOCK
    return found


def together(one: Difference, other: Difference) -> Difference:
    """Return how two tensors differ of which that is known of two parts."""
    assert one.differing is not None
    assert other.differing is not None
    differing = one.differing + other.differing
    return Difference(differing, _larger(one.max_abs, other.max_abs), _larger(one.max_rel, other.max_rel))


def _larger(one: float | None, other: float | None) -> float:
    """Return the larger of two numbers; NaN, where one is, as numpy's `max` has it."""
    assert one is not None
    assert other is not None
    return one if math.isnan(one) or one > other else other


# Floating numbers -----------------------------------------------------------------


class _Room(threading.local):
    """Arrays for a block, in each thread: new memory for every block costs a tenth of the time."""

    def __init__(self) -> None:
        import numpy as np

        self.arrays = {
            kind: (np.empty(_BLOCK, kind), np.empty(_BLOCK, kind), np.empty(_BLOCK, np.bool_))
            for kind in (np.float32, np.float64)
        }


@cache
def _room() -> _Room:
    return _Room()


def _measure_floats(
    left: np.ndarray[Any, Any],
    right: np.ndarray[Any, Any],
    dtype: DType,
    tolerance: Tolerance,
    found: Difference,
) -> Difference | None:
    """Return what `_measure` does, of no more than was found already; None where not all is finite."""
    import numpy as np

    kind = np.float64 if dtype.itemsize == 8 else np.float32
    one, other = left.astype(kind, copy=False), right.astype(kind, copy=False)
    distance, size, near = (array[: one.size] for array in _room().arrays[kind])
    np.abs(np.subtract(one, other, out=distance), out=distance)
    largest = distance.max()
    if not largest or not math.isfinite(largest):
        return None if largest else SAME
    if tolerance == EQUAL:
        # What is equal has a distance of zero, in bits, too, and integers are counted faster.
        differing = np.count_nonzero(distance.view(np.int64 if dtype.itemsize == 8 else np.int32))
    else:
        within = tolerance.atol + tolerance.rtol * np.abs(_wide(other, dtype))
        differing = np.count_nonzero(_distance(one, other, dtype) > within)
    max_abs = max_rel = 0.0
    if largest >= kind(found.max_abs):
        max_abs = _distance(*_picked(one, other, distance == largest), dtype).max()
    np.less(np.abs(other, out=size), _nearer(largest, found.max_rel), out=near)
    one, other = _picked(one, other, near)
    if one.size:
        # Of two zeros the quotient is NaN, which fmax passes over.
        max_rel = np.fmax.reduce(_distance(one, other, dtype) / np.abs(_wide(other, dtype)), initial=0)
    return Difference(int(differing), float(max_abs), float(max_rel))


def _nearer(distance: Any, quotient: float | None) -> Any:
    """Return below what |b| must be for a larger |a-b|/|b|, if no |a-b| rounds to more than `distance`."""
    import numpy as np

    kind = type(distance)
    infinity = kind(np.inf)
    return np.nextafter(kind(np.nextafter(distance, infinity) / np.float64(quotient)), infinity)


def _picked(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], chosen: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the chosen elements, or all: where many are chosen, picking them takes longer."""
    import numpy as np

    places = np.flatnonzero(chosen)
    return (one, other) if places.size > _FEW * chosen.size else (one[places], other[places])


# Numbers of any kind --------------------------------------------------------------


def _measure(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], dtype: DType, tolerance: Tolerance
) -> Difference:
    """Return how two flat arrays differ, in float64, a NaN being equal to a NaN."""
    import numpy as np

    # What is equal is left out first; infinities of one sign are equal, and their difference is none.
    unequal = left != right
    left, right = left[unequal], right[unequal]
    if dtype.family in ("float", "complex"):
        numbers = ~(np.isnan(left) & np.isnan(right))
        left, right = left[numbers], right[numbers]
    if not left.size:
        return SAME
    with np.errstate(all="ignore"):
        delta = _distance(left, right, dtype)
        size = np.abs(_wide(right, dtype))
        within = (delta <= tolerance.atol + tolerance.rtol * size) & np.isfinite(delta)
        relative = delta / size
    return Difference(int(np.count_nonzero(~within)), float(delta.max()), float(relative.max()))


def _wide(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    return array.astype("c16" if dtype.family == "complex" else "f8", copy=False)


def _distance(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return |left - right| as float64, of 64-bit integers without passing through float64 first."""
    import numpy as np

    if dtype.family in ("int", "uint") and dtype.itemsize == 8:
        one, other = left.view(np.uint64), right.view(np.uint64)
        return np.where(left > right, one - other, other - one).astype("f8")
    distance: np.ndarray[Any, Any] = np.abs(_wide(left, dtype) - _wide(right, dtype))
    return distance
