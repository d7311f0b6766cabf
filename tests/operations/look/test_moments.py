"""Statistics do not depend on the threads, nor on the number of elements in a call of numpy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from ckpt_cli.operations.look.moments import ROW, Moments, Portion, block_size, squares, widened
from ckpt_cli.operations.look.stats import Statistics, statistics
from formats.core.dtypes import BY_NAME, DTYPES
from formats.store.work import workers
from formats.store.work.task_context import TASK_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZES = (1, 2, ROW - 1, ROW, ROW + 1, 9 * ROW + 5, 20 * ROW)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """Return what has this thread work as one of so many."""
    yield lambda count: setattr(TASK_FILES, "threads", count)
    TASK_FILES.threads = 1


def value_by_value(values: np.ndarray[Any, Any]) -> Statistics:
    """Return the statistics of finite float64 values, row after row as they were defined."""
    count, mean, deviations = 0, 0.0, 0.0
    for at in range(0, values.size, ROW):
        row = values[at : at + ROW]
        mean_of_row = float(row.sum()) / row.size
        row_deviations = float((row - mean_of_row) @ (row - mean_of_row))
        difference, together = mean_of_row - mean, count + row.size
        deviations += row_deviations + difference * difference * count * row.size / together
        mean += difference * row.size / together
        count = together
    l2 = math.sqrt(deviations + count * mean * mean)
    std = math.sqrt(deviations / count)
    zeros = int((values == 0).sum())
    return Statistics(float(values.min()), float(values.max()), mean, std, l2, zeros)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16", "int8", "uint64", "int32"])
def test_sums_go_by_rows(name: str, size: int, threads: Callable[[int], None]) -> None:
    dtype = BY_NAME[name]
    drawn = np.random.default_rng(size).normal(3, 20, size)
    values = (np.abs(drawn) if dtype.family == "uint" else drawn).astype(dtype.numpy)
    expected = value_by_value(values.astype(np.float64))
    for count in (1, 2, 3, 8, 40):
        threads(count)
        assert statistics([values], dtype) == expected


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.is_number], ids=str)
def test_any_bytes_have_the_same_statistics(dtype: Any, threads: Callable[[int], None]) -> None:
    """NaN and infinities are among random bytes of floating numbers."""
    raw = np.random.default_rng(1).integers(0, 256, (9 * ROW + 77) * dtype.itemsize, np.uint8)
    values = raw.astype(bool) if dtype.family == "bool" else raw.view(dtype.numpy)
    found = set()
    for count in (1, 2, 3, 8):
        threads(count)
        found.add(repr(statistics([values], dtype)))
    assert len(found) == 1


def test_a_zero_is_none_below_zero(threads: Callable[[int], None]) -> None:
    """Processors differ in which of two zeros they return as the smaller."""
    for count in (1, 8):
        threads(count)
        for values in ([-0.0, 0.0] * ROW, [0.0, -0.0] * ROW, [-0.0]):
            found = statistics([np.array(values, np.float32)], BY_NAME["float32"])
            assert found is not None
            assert (str(found.min), str(found.max)) == ("0.0", "0.0")


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "int4", "bfloat16"])
def test_widening_is_what_conversion_is(name: str) -> None:
    dtype = BY_NAME[name].numpy
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(widened(values), values.astype(np.float64))


def test_squares_are_the_product_of_a_row_with_itself() -> None:
    rows = np.random.default_rng(0).normal(size=(5, ROW))
    assert squares(rows).tolist() == [float(row @ row) for row in rows]


def test_calls_go_through_more_where_more_threads_work(threads: Callable[[int], None]) -> None:
    sizes = []
    for count in (1, 2, 4, 8, 64):
        threads(count)
        sizes.append(block_size())
    assert sizes == sorted(sizes)
    assert sizes[-1] > sizes[0]
    assert not any(size % ROW for size in sizes)


def test_threads_are_no_more_than_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "processors", lambda: 3)
    seen = set()
    with workers.workers(8) as pool:
        list(pool.map(lambda _: seen.add(TASK_FILES.threads), range(8), alone=True))
    assert seen == {3}
    assert TASK_FILES.threads == 1


def test_portions_are_merged_in_their_order() -> None:
    values = np.random.default_rng(0).normal(size=5 * ROW + 3)
    whole, parts = Moments(), Moments()
    whole.add(Portion().add(values))
    for at in range(0, values.size, ROW):
        parts.add(Portion().add(values[at : at + ROW]))
    assert vars(whole) == vars(parts)
