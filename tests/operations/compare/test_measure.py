"""How far arrays are apart: what is taken from float32 is what float64 says of every element."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ckpt_cli.operations.compare import measure
from ckpt_cli.operations.compare.measure import EQUAL, Difference, Tolerance, measured
from formats.core import dtypes
from formats.core.dtypes import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

FLOATS = [dtype for dtype in dtypes.DTYPES if dtype.is_floating]
TOLERANCES = [EQUAL, Tolerance(rtol=1e-6), Tolerance(atol=0.5), Tolerance(rtol=0.5, atol=1e-30)]
CHANGES = {
    "another": lambda right, other: other,
    "scaled": lambda right, other: right * right.dtype.type(1.5),
    "halved": lambda right, other: right / right.dtype.type(2),
    "neighbour": np.nextafter,
    "shifted": lambda right, other: right + other[:1],
    "from zero": lambda right, other: np.zeros_like(right),
    "the same but for one": lambda right, other: np.concatenate([right[:-1], other[-1:]]),
}


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Cut a few elements into several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        for name, elements in (("_BLOCK", 8), ("_NARROW_BLOCK", 16), ("_FIRST", 4), ("_FEW", 1 / 2)):
            patch.setattr(measure, name, elements)
        measure._room.cache_clear()
        yield
    measure._room.cache_clear()


def by_definition(left: np.ndarray, right: np.ndarray, tolerance: Tolerance) -> Difference:
    with np.errstate(all="ignore"):
        a, b = left.astype(np.float64), right.astype(np.float64)
        unequal = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        a, b = a[unequal], b[unequal]
        delta = np.abs(a - b)
        beyond = ~(np.isfinite(delta) & (delta <= tolerance.atol + tolerance.rtol * np.abs(b)))
        if not delta.size:
            return Difference(0, 0.0, 0.0)
        return Difference(int(np.count_nonzero(beyond)), float(delta.max()), float((delta / np.abs(b)).max()))


def check(left: np.ndarray, right: np.ndarray, dtype: dtypes.DType, tolerance: Tolerance = EQUAL) -> None:
    found = measured(left.view(np.uint8), right.view(np.uint8), dtype, tolerance)
    np.testing.assert_equal(found, by_definition(left, right, tolerance))


@given(
    data=st.data(),
    name=st.sampled_from(["float32", "float64"]),
    change=st.sampled_from(sorted(CHANGES)),
    tolerance=st.sampled_from(TOLERANCES),
    size=st.integers(1, 70),
)
def test_every_difference_is_that_of_float64(
    data: st.DataObject, name: str, change: str, tolerance: Tolerance, size: int
) -> None:
    elements = npst.from_dtype(np.dtype(name), allow_nan=data.draw(st.booleans()))
    values = npst.arrays(name, size, elements=elements, fill=st.nothing() if size < 8 else None)
    right, other = data.draw(values), data.draw(values)
    with np.errstate(all="ignore"):
        left = CHANGES[change](right, other)
    check(left, right, BY_NAME[name], tolerance)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("tolerance", TOLERANCES, ids=str)
def test_bits_of_every_kind_are_compared_as_float64(dtype: dtypes.DType, tolerance: Tolerance) -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        both = [generator.integers(0, 256, 40 * dtype.itemsize, np.uint8) for _ in range(2)]
        if dtype.name.startswith("float4"):
            both = [side % 16 for side in both]
        left, right = (side.view(dtype.numpy) for side in both)
        check(left, right, dtype, tolerance)
        check(left, left, dtype, tolerance)
        with np.errstate(all="ignore"):
            finite = np.isfinite(left) & np.isfinite(right)
        check(left[finite], right[finite], dtype, tolerance)


@pytest.mark.parametrize("spread", [1e-45, 1e-40, 1e-20, 1.0, 1e20, 3e38])
def test_values_of_every_size_are_compared_as_float64(spread: float) -> None:
    generator = np.random.default_rng(1)
    for _ in range(200):
        values = generator.standard_normal((2, 50)) * 10.0 ** generator.integers(-6, 6, (2, 50)) * spread
        with np.errstate(all="ignore"):
            left, right = values.astype(np.float32)
        check(left, right, BY_NAME["float32"])


@pytest.mark.parametrize("step", [1, -1])
def test_distances_that_are_one_in_float32_are_distinguished(step: int) -> None:
    right = np.full((27, 8), 0.5, np.float32)
    right[:, 3] = [2.0**-exponent for exponent in range(26, 53)][::step]
    left = np.where(right < 0.5, np.float32(-1), np.float32(0.25))
    found = measured(left.view(np.uint8), right.view(np.uint8), BY_NAME["float32"], EQUAL)
    assert found == Difference(27 * 8, 1 + 2.0**-26, 2.0**52 + 1)


def test_what_was_found_before_is_kept() -> None:
    left, right = np.float32([1.0, 2.0]), np.float32([1.5, 2.0])
    sides = left.view(np.uint8), right.view(np.uint8)
    before = Difference(3, 0.25, 7.0)
    assert measured(*sides, BY_NAME["float32"], EQUAL, before) == Difference(4, 0.5, 7.0)
    unknown = measured(*sides, BY_NAME["float32"], EQUAL, Difference(3, math.nan, math.nan))
    np.testing.assert_equal(unknown, Difference(4, math.nan, math.nan))


def test_a_quotient_is_found_that_float32_takes_for_the_largest_so_far() -> None:
    left, right = np.float32([-1.0]), np.float32([2.0**-24 - 2.0**-48])
    quotient = (1 + float(right[0])) / float(right[0])
    before = Difference(0, 2.0, math.nextafter(quotient, 0))
    found = measured(left.view(np.uint8), right.view(np.uint8), BY_NAME["float32"], EQUAL, before)
    assert found == Difference(1, 2.0, quotient)


@pytest.mark.parametrize(
    ("up", "other_up"),
    [(0, 0), (-1020, 0), (-1020, -1020), (1000, 1000), (1000, -1020), (-1020, 1000), (600, 3)],
)
def test_norms_and_cosine_of_numbers_of_any_size_are_the_exact_ones(up: int, other_up: int) -> None:
    chance = np.random.default_rng(7)
    one = np.ldexp(chance.standard_normal(50), up)
    other = np.ldexp(chance.standard_normal(50), other_up)
    found = measure.norms(one, other, BY_NAME["float64"])
    left, right = ([Fraction(float(number)) for number in each] for each in (one, other))
    # Scaled to integers, because a float cannot hold the squares.
    scale = Fraction(2) ** 4000
    squares = [
        sum(each * each for each in some)
        for some in (left, right, [a - b for a, b in zip(left, right, strict=True)])
    ]
    roots = [Fraction(math.isqrt(int(square * scale * scale))) / scale for square in squares]
    assert found.left == pytest.approx(float(roots[0]), rel=1e-12)
    assert found.right == pytest.approx(float(roots[1]), rel=1e-12)
    assert found.distance == pytest.approx(float(roots[2]), rel=1e-12)
    product = sum(a * b for a, b in zip(left, right, strict=True))
    assert found.cosine == pytest.approx(float(product / (roots[0] * roots[1])), rel=1e-9)
