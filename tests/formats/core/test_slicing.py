from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.core.chunks import PIECE
from formats.core.region import full_index, index_shape, normal_index
from formats.core.slicing import fill_region
from tests.support import same


def region(array: np.ndarray[Any, Any], index: tuple[slice, ...], base: int = 0) -> tuple[Any, int]:
    """Return the part of an array that `fill_region` reads, and how many bytes it requested."""
    data = bytes(base) + array.tobytes()
    asked = 0

    def read(offset: int, size: int) -> bytes:
        nonlocal asked
        assert base <= offset
        assert offset + size <= len(data)
        assert 0 < size <= PIECE
        asked += size
        return data[offset : offset + size]

    out = np.empty(index_shape(index), array.dtype)
    fill_region(read, array.shape, array.dtype, index, out, base=base)
    return out, asked


indexes = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 4)).map(
    lambda numbers: slice(min(numbers[:2]), max(numbers[:2]), numbers[2])
)


@given(st.data(), st.sampled_from(["float32", "int8", "complex128"]), st.integers(0, 9))
def test_regions_are_numpys_slices(data: st.DataObject, dtype: str, base: int) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 6), max_size=4)))
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    index = []
    for dim in shape:
        start = data.draw(st.integers(0, dim))
        index.append(slice(start, data.draw(st.integers(start, dim)), data.draw(st.integers(1, 4))))
    found, asked = region(array, tuple(index), base)
    assert same(found, array[(*index, ...)])
    assert asked <= array.nbytes
    if found.size == 0:
        assert asked == 0


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (slice(None, None, 0), "the step must be positive"),
        (slice(None, None, -1), "the step must be positive"),
        (slice(3, 1, np.int64(-2)), "the step must be positive"),
        ((..., ...), "more than one"),
        ((0, 0, 0), "the slice has 3 dimensions, but the tensor has 2"),
        ((0, ..., 0, 0), "the slice has 3 dimensions, but the tensor has 2"),
        (4, "index 4 is out of range for dimension 0"),
        ((0, -7), "index -7 is out of range for dimension 1"),
        (True, "is not an integer"),
        ([0], "is not an integer"),
        (None, "is not an integer"),
        (1.0, "is not an integer"),
        (np.array([1]), "is not an integer"),
    ],
)
def test_what_is_not_a_region_is_an_index_error(index: Any, words: str) -> None:
    with pytest.raises(IndexError, match=words):
        normal_index(index, (4, 6))


@pytest.mark.parametrize(
    "index",
    [
        (),
        ...,
        3,
        -4,
        np.int64(2),
        np.array(1),
        slice(1),
        (slice(None, None, 1), 5),
        (slice(3, 1), slice(-2, None)),
        (slice(None, None, np.int64(2)), slice(1, 99, 3)),
        (..., -6),
        (1, ...),
        (1, ..., 2),
        (slice(4, 0), ..., slice(9, 12)),
    ],
)
def test_a_region_is_numpys(index: Any) -> None:
    array = np.arange(24).reshape(4, 6)
    part, dropped = normal_index(index, array.shape)
    found = array[part]
    assert found.shape == index_shape(part)
    assert same(found.squeeze(dropped), np.asarray(array[index]))


@given(st.lists(indexes, max_size=3).map(tuple))
def test_shape_of_an_index_is_numpys(index: tuple[slice, ...]) -> None:
    assert index_shape(index) == np.empty((6,) * len(index), np.int8)[index].shape


@given(st.data())
def test_a_normal_index_selects_what_numpys_does(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 4), max_size=3)))
    array = np.arange(math.prod(shape)).reshape(shape)
    number = st.integers(-6, 6)
    part = st.builds(slice, st.none() | number, st.none() | number, st.none() | st.integers(-2, 3))
    index = tuple(data.draw(st.lists(part | number | st.just(...) | st.none() | st.booleans(), max_size=4)))
    taken = any(term is None or isinstance(term, bool) for term in index)
    backward = any(isinstance(term, slice) and (term.step or 1) < 0 for term in index)
    try:
        expected = np.asarray(array[index])
    except (IndexError, ValueError):  # ValueError: a step of 0
        expected = None
    if expected is None or taken or backward:
        with pytest.raises(IndexError):
            normal_index(index, shape)
        return
    region, dropped = normal_index(index, shape)
    assert all(0 <= at.start <= at.stop and at.step > 0 for at in region)
    assert same(array[(*region, ...)].squeeze(dropped), expected)


def test_full_index_is_everything() -> None:
    assert index_shape(full_index((3, 0, 2))) == (3, 0, 2)
    assert full_index(()) == ()


@pytest.mark.parametrize(
    ("shape", "index", "most"),
    [
        ((1000, 1000), (slice(0, 10, 1), slice(0, 1000, 1)), 40_000),  # whole rows: no more than they are
        ((1000, 1000), (slice(990, 1000, 1), slice(0, 3, 1)), 40_000),  # short rows are read whole
        ((16, 1 << 18), (slice(3, 5, 1), slice(7, 9, 1)), 16),  # long rows are entered
        ((4, 1 << 18), (slice(0, 4, 1), slice(0, 1 << 18, 1 << 17)), 4 * 2 * 4 << 17),
        ((4, 4, 1 << 16), (slice(1, 2, 1), slice(2, 3, 1), slice(5, 6, 1)), 4),
        ((1 << 20,), (slice(1 << 19, (1 << 19) + 5, 1),), 20),
        ((1 << 20,), (slice(0, 1 << 20, 1 << 19),), 2 * 4),  # far apart: each by itself
        ((3, 1 << 19), (slice(0, 3, 1), slice(0, 1 << 19, 1)), 3 * 4 << 19),  # more than one piece a row
    ],
)
def test_no_more_is_read_than_needed(shape: tuple[int, ...], index: tuple[slice, ...], most: int) -> None:
    array = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    found, asked = region(array, index)
    assert same(found, np.ascontiguousarray(array[index]))
    assert asked <= most


def test_scalar_reads_its_one_element() -> None:
    found, asked = region(np.array(7, np.int64), (), base=3)
    assert (found.shape, found.item(), asked) == ((), 7, 8)


def test_numbers_reach_from_the_end_to_the_last_element() -> None:
    for number in (-4, -1, 0, 3):
        region, dropped = normal_index((number,), (4,))
        assert (region, dropped) == ((slice(number % 4, number % 4 + 1, 1),), (0,))
    for number in (-5, 4):
        with pytest.raises(IndexError, match=f"index {number} is out of range for dimension 0"):
            normal_index((number,), (4,))
