"""The arithmetic of statistics: sums over rows of values, many rows in one call of numpy.

The rows alone decide the sums; the number of rows in a call does not.  It grows with the number of threads,
because threads wait for the interpreter's lock between two calls.  All calls used here release the lock, as
`python -m tests.benchmarks.locks` shows.
"""

from __future__ import annotations

import math
import threading
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any

from formats.store.work.task_context import larger_blocks

if TYPE_CHECKING:
    import numpy as np


ROW = 1 << 13
"""Values that are summed together; BLAS takes no threads for so few."""

_BLOCK = 1 << 16
"""Elements that a call goes through where one or two threads work: the cache holds them as float64."""

_NATIVE = frozenset("fdbBhHiIlLqQ")
"""Dtypes that the processor compares as they are."""


def block_size() -> int:
    """Return how many elements a call goes through in this thread, whole rows."""
    return _BLOCK * larger_blocks()


class _Scratch(threading.local):
    """Memory for a block, one per thread: allocating it each time costs more than filling it."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray[Any, Any]] = {}

    def array(self, kind: str, size: int, number: int = 0) -> np.ndarray[Any, Any]:
        import numpy as np

        found = self._arrays.get(f"{kind}{number}")
        if found is None or found.size < size:
            found = self._arrays[f"{kind}{number}"] = np.empty(1 << (size - 1).bit_length(), kind)
        return found[:size]


@cache
def _scratch() -> _Scratch:
    return _Scratch()


def widened(array: np.ndarray[Any, Any], number: int = 0) -> np.ndarray[Any, Any]:
    """Return a flat array as float64, complex numbers as magnitudes, until the next call in this thread.

    Arrays of different numbers do not share memory.
    """
    import numpy as np

    out = _scratch().array("d", array.size, number)
    if array.dtype.kind == "c":
        np.copyto(out, np.abs(array))
    elif array.dtype.itemsize == 1 and array.dtype.isbuiltin != 1:
        np.take(_table(array.dtype), array.view(np.uint8), out=out, mode="clip")
    else:
        np.copyto(out, array, casting="unsafe")
    return out


@cache
def _table(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return all values of a dtype of one byte, which are looked up six times as fast as converted."""
    import numpy as np

    values: np.ndarray[Any, Any] = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    return values


def products(rows: np.ndarray[Any, Any], others: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the inner product of each row and the other, of at most `ROW` float64 values.

    The product of two arrays of one dimension is the same number, and holds the lock.
    """
    import numpy as np

    found: np.ndarray[Any, Any] = np.matmul(rows[:, None, :], others[:, :, None])
    return found.ravel()


def squares(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the sum of the squares of each row, of at most `ROW` float64 values."""
    return products(rows, rows)


class Portion:
    """Partial results of consecutive values: bounds, counts, and moments by row; plain data.

    A row's moments are the number of its finite values, their mean, and the sum of their squared
    deviations from that.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[int, float, float]] = []
        self.low, self.high = math.inf, -math.inf
        self.seen = self.zeros = self.nan = self.inf = 0

    def add(self, array: np.ndarray[Any, Any]) -> Portion:
        """Take in a flat array, whose first value begins a row; return this portion."""
        block = block_size()
        for at in range(0, array.size, block):
            part = array[at : at + block]
            whole = part.size // ROW * ROW
            if whole:
                self._add_rows(part[:whole], ROW)
            if whole < part.size:
                self._add_rows(part[whole:], part.size - whole)
        return self

    def _add_rows(self, part: np.ndarray[Any, Any], length: int) -> None:
        """Take in rows of so many values each."""
        import numpy as np

        wide = widened(part)
        rows = wide.reshape(-1, length)
        totals = rows.sum(axis=1)
        compared = part if part.dtype.char in _NATIVE else wide
        self.zeros += int(np.count_nonzero(np.equal(compared, 0, out=_scratch().array("?", part.size))))
        if not np.isfinite(totals).all():
            for row in rows:
                self._add_row(row)
            return
        self.seen += part.size
        self._bound(compared)
        means = totals / length
        np.subtract(rows, means[:, None], out=rows)
        self.rows += zip(repeat(length), means.tolist(), squares(rows).tolist(), strict=False)

    def _add_row(self, values: np.ndarray[Any, Any]) -> None:
        """Take in a row in which there may be NaN or infinities, or whose sum is beyond float64."""
        import numpy as np

        total = float(values.sum())
        if not math.isfinite(total):
            missing = np.isnan(values)
            count = int(np.count_nonzero(missing))
            values = values[~missing] if count else values
            self.nan += count
            self.inf += int(np.count_nonzero(np.isinf(values)))
        self.seen += values.size
        if values.size:
            self._bound(values)
        if not math.isfinite(total):
            values = values[np.isfinite(values)]
            total = float(values.sum())
        if values.size:
            mean = total / values.size
            deviations = values - mean
            self.rows.append((values.size, mean, float(squares(deviations[None])[0])))

    def _bound(self, values: np.ndarray[Any, Any]) -> None:
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))


class Moments:
    """Puts portions together, in their order: bounds, counts, the mean and the squared deviations from it.

    Merging means and deviations, rather than summing squares, keeps the variance of
    values far from zero (Chan, Golub and LeVeque, 1979).
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.deviations = 0.0
        self.low, self.high = math.inf, -math.inf
        self.seen = self.zeros = self.nan = self.inf = 0

    @property
    def squared(self) -> float:
        """The sum of the squares of the finite values."""
        return self.deviations + self.count * self.mean * self.mean

    def add(self, portion: Portion) -> None:
        """Take in what comes next."""
        all_before, mean, deviations = self.count, self.mean, self.deviations
        for count, mean_of_row, squared in portion.rows:
            difference = mean_of_row - mean
            together = all_before + count
            deviations += squared + difference * difference * all_before * count / together
            mean += difference * count / together
            all_before = together
        self.count, self.mean, self.deviations = all_before, mean, deviations
        # A zero is always +0: processors differ in which of +0 and -0 they return as the smaller.
        self.low, self.high = min(self.low, portion.low) + 0.0, max(self.high, portion.high) + 0.0
        self.seen += portion.seen
        self.zeros += portion.zeros
        self.nan += portion.nan
        self.inf += portion.inf
