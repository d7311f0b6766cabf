"""How far two arrays of numbers are apart: in how many elements, and at most by how much.

Differences are computed in float64. For floating numbers float32 comes first, in which memory and processor
handle twice as many at a time. Rounding keeps the order: what is smaller in float32 is not larger in float64.
So float32 finds the few elements that can be the farthest apart, and float64 measures them.
"""

from __future__ import annotations

import contextlib
import math
import threading
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.store.work.task_context import larger_blocks

from ..look.moments import ROW, products, squares, widened

if TYPE_CHECKING:
    import numpy as np

    from formats.core.chunks import Chunk
    from formats.core.dtypes import DType


_BLOCK = 1 << 14
"""Elements looked at together in float64: arrays of 128 KB, had and given back for nothing."""

_NARROW_BLOCK = 1 << 18
"""The elements measured together in float32: a part of a piece, because threads queue up at every call."""

_FIRST = 1 << 10
"""Elements that tell what is far: of what comes after them, only what is farther counts."""

_FEW = 1 / 8
"""Part of a block that is sooner picked out than gone through whole."""


class Tolerance(NamedTuple):
    """How far apart values may be: `|a-b| <= atol + rtol*|b|`."""

    rtol: float = 0.0
    atol: float = 0.0


class Norms(NamedTuple):
    """The Euclidean norms of a-b, a and b, and the product of a and b, over the elements read so far.

    Elements that are equal and not finite (a NaN is equal to a NaN) are left out of all.  The product is a
    mantissa and an exponent of two: it may be beyond float64 where the norms are not.
    """

    distance: float = 0.0
    left: float = 0.0
    right: float = 0.0
    product: tuple[float, int] = (0.0, 0)

    def add(self, other: Norms) -> Norms:
        """Return the norms of both ranges together."""
        (mine, up), (its, other_up) = self.product, other.product
        most = max(up if mine else other_up, other_up if its else up)
        return Norms(
            math.hypot(self.distance, other.distance),
            math.hypot(self.left, other.left),
            math.hypot(self.right, other.right),
            (math.ldexp(mine, up - most) + math.ldexp(its, other_up - most), most),
        )

    @property
    def relative(self) -> float:
        """|a-b| / |b|: above zero if any element differs; NaN if a norm is beyond float64."""
        if self.distance == 0:
            return 0.0
        if not math.isfinite(self.right):
            return math.nan
        return max(self.distance / self.right, math.ulp(0)) if self.right else math.inf

    @property
    def cosine(self) -> float | None:
        """The cosine of the angle between a and b; None if both are zero, NaN if it cannot be computed."""
        if self.left == self.right == 0:
            return None
        if self.distance == 0:
            return 1.0
        if not (self.left and self.right and math.isfinite(self.left) and math.isfinite(self.right)):
            return math.nan
        (one, up), (other, other_up) = math.frexp(self.left), math.frexp(self.right)
        mantissa, exponent = self.product
        found = math.ldexp(mantissa / (one * other), exponent - up - other_up)
        return found if math.isnan(found) else max(-1.0, min(1.0, found))


class Difference(NamedTuple):
    """How two tensors differ: in how many elements, at most by how much.

    `max_abs` is the largest |a-b|, and `max_rel` the largest |a-b|/|b|; NaN if only one side is NaN. None is
    unknown: how much strings differ, and for a listing without values even how many elements do. `norms` are
    set if they were requested.
    """

    differing: int | None = None
    max_abs: float | None = None
    max_rel: float | None = None
    norms: Norms | None = None

    @property
    def rel_l2(self) -> float | None:
        """|a-b| / |b| as Euclidean norms: infinite if only b is zero, NaN if |b| is not finite."""
        return None if self.norms is None else self.norms.relative

    @property
    def cosine(self) -> float | None:
        """The cosine of the angle between them."""
        return None if self.norms is None else self.norms.cosine


SAME = Difference(0, 0.0, 0.0)

_SUM_BLOCK = 1 << 17
"""Elements whose squares are summed in one call, by one thread or two; twice as many by more."""

_SMALLEST = 1e-280
"""Below this, a sum may miss squares that are too small for float64."""


def norms(left: Chunk, right: Chunk, dtype: DType, *, are_equal: bool = False) -> Norms:
    """Return the norms of two ranges of bytes; NaN if only one side has a NaN or an infinity."""
    import numpy as np

    one, other = np.frombuffer(left, dtype.numpy), np.frombuffer(right, dtype.numpy)
    is_plain = dtype.family == "float" or (dtype.family in ("int", "uint") and dtype.itemsize != 8)
    with np.errstate(all="ignore"):
        if not is_plain:
            parts = range(0, one.size, ROW)
            found = [_careful_norms(one[at : at + ROW], other[at : at + ROW], dtype) for at in parts]
            return reduce(Norms.add, found, Norms())
        whole = one.size // ROW * ROW
        sums = [
            _row_sums(one[at:end], other[at:end], length, dtype, are_equal=are_equal)
            for at, end, length in ((0, whole, ROW), (whole, one.size, one.size - whole))
            if end > at
        ]
    return _total(
        np.concatenate([plain for plain, _ in sums] or [np.empty((0, 4))]), [n for _, c in sums for n in c]
    )


def _row_sums(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], length: int, dtype: DType, *, are_equal: bool
) -> tuple[np.ndarray[Any, Any], list[Norms]]:
    """Return sums by row of so many values, and the norms of rows whose squares float64 cannot hold.

    The sums are the squares of a-b, a and b, and the product of a and b. They depend on the rows alone, not
    on how many are summed at a time.
    """
    import numpy as np

    sums = np.zeros((one.size // length, 4))
    step = max(_SUM_BLOCK * min(larger_blocks(), 2) // length, 1) * length
    for at in range(0, one.size, step):
        rows = slice(at // length, (at + step) // length)
        a = widened(one[at : at + step]).reshape(-1, length)
        sums[rows, 1] = squares(a)
        if are_equal:
            continue
        b = widened(other[at : at + step], 1).reshape(-1, length)
        sums[rows, 2], sums[rows, 3] = squares(b), products(a, b)
        np.subtract(a, b, out=a)
        sums[rows, 0] = squares(a)
    if are_equal:
        sums[:, 2] = sums[:, 3] = sums[:, 1]
    is_fine = np.all((sums[:, 1:3] > _SMALLEST) & (sums[:, 1:3] < math.inf), axis=1)
    if not are_equal:
        distance = sums[:, 0]
        for number in np.flatnonzero(is_fine & ~((distance > _SMALLEST) & (distance < math.inf))):
            row = slice(number * length, (number + 1) * length)
            is_fine[number] = not distance[number] and np.array_equal(one[row], other[row])
    careful = []
    for number in np.flatnonzero(~is_fine):
        row = slice(number * length, (number + 1) * length)
        careful.append(_careful_norms(one[row], other[row], dtype))
    return sums[is_fine], careful


def _total(sums: np.ndarray[Any, Any], careful: list[Norms]) -> Norms:
    """Return the norms of all rows."""
    columns = sums.T.tolist()
    totals = [math.inf]
    with contextlib.suppress(OverflowError):  # of sums that are finite, one by one
        totals = [math.fsum(each) for each in columns]
    rows = [totals] if all(map(math.isfinite, totals)) else zip(*columns, strict=True)
    plain = [
        Norms(math.sqrt(distance), math.sqrt(left), math.sqrt(right), math.frexp(product))
        for distance, left, right, product in rows
    ]
    return reduce(Norms.add, [*plain, *careful], Norms())


def _careful_norms(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], dtype: DType) -> Norms:
    """Return norms of any numbers, which are scaled below one before they are squared."""
    import numpy as np

    equal = one == other
    if dtype.family in ("float", "complex"):
        equal |= np.isnan(one) & np.isnan(other)
    distances = np.where(equal, 0.0, _distance(one, other, dtype))
    left, right = _wide(one, dtype), _wide(other, dtype)
    left, right = (np.where(equal & ~np.isfinite(each), 0.0, each) for each in (left, right))
    largest = [float(np.abs(each).max(initial=0.0)) for each in (left, right)]
    product = math.nan, 0
    if all(map(math.isfinite, largest)):
        up, other_up = (math.frexp(each)[1] for each in largest)
        # In two steps, because float64 cannot hold 2 ** 1074.
        small, smaller = (
            each * 2.0 ** -(power // 2) * 2.0 ** -(power - power // 2)
            for each, power in ((left, up), (right, other_up))
        )
        product = float(np.vdot(small, smaller).real), up + other_up
    return Norms(_norm(distances), _norm(np.abs(left)), _norm(np.abs(right)), product)


def _norm(values: np.ndarray[Any, Any]) -> float:
    """Return a Euclidean norm, of numbers also whose squares are none."""
    import numpy as np

    largest = float(values.max(initial=0.0))
    if not largest or not math.isfinite(largest):
        return math.nan if largest else 0.0
    scaled = values / largest
    return largest * math.sqrt(float(np.vdot(scaled, scaled)))


EQUAL = Tolerance()


def measured(
    left: Chunk, right: Chunk, dtype: DType, tolerance: Tolerance, found: Difference = SAME
) -> Difference:
    """Add how two ranges of bytes differ as numbers to an earlier result; a NaN equals a NaN.

    For an unmapped type only the fact of a difference is known.
    """
    import numpy as np

    if dtype.is_unmapped:
        return Difference()
    one, other = np.frombuffer(left, dtype.numpy), np.frombuffer(right, dtype.numpy)
    at = 0
    with np.errstate(all="ignore"):
        if dtype.family == "float" and tolerance == EQUAL:
            if not found.max_rel:
                at = _FIRST
                found = together(found, _measure_blocks(one[:at], other[:at], dtype, tolerance))
            while at < one.size:
                end = at + _NARROW_BLOCK
                more = _measure_narrow(one[at:end], other[at:end], dtype, found)
                if more is None:
                    break  # and what follows is like it
                found = together(found, more)
                at = end
        return together(found, _measure_blocks(one[at:], other[at:], dtype, tolerance))


def _measure_blocks(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], dtype: DType, tolerance: Tolerance
) -> Difference:
    found = SAME
    for at in range(0, left.size, _BLOCK):
        block = left[at : at + _BLOCK], right[at : at + _BLOCK]
        more = _measure_finite(*block, tolerance) if dtype.family == "float" else None
        found = together(found, more or _measure(*block, dtype, tolerance))
    return found


def together(one: Difference, other: Difference) -> Difference:
    """Combine the differences of two parts of a tensor."""
    if one.differing is None or other.differing is None:
        return Difference()
    differing = one.differing + other.differing
    return Difference(differing, _larger(one.max_abs, other.max_abs), _larger(one.max_rel, other.max_rel))


def _larger(one: float | None, other: float | None) -> float | None:
    """Return the larger of two numbers; NaN, where one is, as numpy's `max` has it."""
    if one is None or other is None:
        return None  # of a type that is not mapped
    return one if math.isnan(one) or one > other else other


# In float32 -----------------------------------------------------------------------


class _Room(threading.local):
    """Arrays for a block, in each thread: new memory for every block costs a tenth of the time."""

    def __init__(self) -> None:
        import numpy as np

        self.arrays = {
            kind: (np.empty(_NARROW_BLOCK, kind), np.empty(_NARROW_BLOCK, kind), np.empty(_NARROW_BLOCK, "?"))
            for kind in (np.float32, np.float64)
        }


@cache
def _room() -> _Room:
    return _Room()


def _measure_narrow(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], dtype: DType, found: Difference
) -> Difference | None:
    """Return what `_measure_finite` does, of no more than was found before.

    None if not all differences are finite, or much would have to be looked at in float64.
    """
    import numpy as np

    # Of float64 itself there is nothing narrower, but it, too, is spared a division of everything.
    kind = np.float64 if dtype.itemsize == 8 else np.float32
    one, other = left.astype(kind, copy=False), right.astype(kind, copy=False)
    distance, size, far = (array[: one.size] for array in _room().arrays[kind])
    np.abs(np.subtract(one, other, out=distance), out=distance)
    largest = distance.max()
    if not largest or not math.isfinite(largest):
        return None if largest else SAME
    np.less(np.abs(other, out=size), _nearer(largest, found.max_rel), out=far)
    if largest >= kind(found.max_abs):
        far |= distance == largest
    if np.count_nonzero(far) > _FEW * far.size:
        return None
    # Equal elements have a distance of zero, in bits too, and integers are counted faster.
    differing = np.count_nonzero(distance.view(f"i{distance.itemsize}"))
    places = np.flatnonzero(far)
    one, other = one[places], other[places]
    delta = _distance(one, other, dtype)
    # Of two zeros the quotient is NaN, which fmax passes over.
    relative = np.fmax.reduce(delta / np.abs(_wide(other, dtype)), initial=0)
    return Difference(int(differing), float(delta.max(initial=0)), float(relative))


def _nearer(distance: Any, quotient: float | None) -> Any:
    """Return below what |b| must be for a larger |a-b|/|b|, if no |a-b| rounds to more than `distance`."""
    import numpy as np

    kind = type(distance)
    if quotient == math.inf:
        return kind(0)
    infinity = kind(math.inf)
    return np.nextafter(kind(np.nextafter(distance, infinity) / np.float64(quotient)), infinity)


# In float64 -----------------------------------------------------------------------


def _measure_finite(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], tolerance: Tolerance
) -> Difference | None:
    """Return what `_measure` does, in half as many passes; None if not all differences are finite."""
    import numpy as np

    one, other = left.astype("f8"), right.astype("f8")
    delta = np.subtract(one, other, out=one)
    largest = max(float(delta.max()), -float(delta.min()))
    if not largest or not math.isfinite(largest):
        return None if largest else SAME
    if tolerance == EQUAL:
        beyond = left != right
    else:
        beyond = np.abs(delta) > tolerance.atol + tolerance.rtol * np.abs(other)
    relative = np.divide(delta, other, out=delta)
    # Of two zeros the quotient is NaN, which fmax and fmin pass over.
    furthest = max(float(np.fmax.reduce(relative)), -float(np.fmin.reduce(relative)))
    return Difference(int(np.count_nonzero(beyond)), largest, furthest)


def _measure(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], dtype: DType, tolerance: Tolerance
) -> Difference:
    """Return how two flat arrays differ, in float64, a NaN being equal to a NaN."""
    import numpy as np

    # Equal elements are left out first; infinities of one sign are equal, and their difference is NaN.
    unequal = left != right
    left, right = left[unequal], right[unequal]
    if dtype.family in ("float", "complex"):
        numbers = ~(np.isnan(left) & np.isnan(right))
        left, right = left[numbers], right[numbers]
    if not left.size:
        return SAME
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
