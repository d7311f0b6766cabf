"""A sketch of a tensor: statistics, a histogram and a heat map, from a single pass over its values.

    histogram    counts in bins whose width is a power of two, and whose edges are multiples of it.  Where
                 values come that do not fit, bins are put together two by two, so that the result
                 does not depend on the pieces that the values come in, and every value is counted
    heat map     the means of cells.  A tensor is slices of rows and columns, its last two axes; of many
                 slices some are taken, evenly spread.  A cell with a NaN or an infinity says so

Both are of bounded size, for a tensor of any size.
"""

from __future__ import annotations

import math
from contextlib import closing
from itertools import pairwise, tee
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CheckpointError

from ..select.slices import TensorSlice
from .stats import Statistics, checked_pieces, file_task, statistics

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Iterator, Sequence

    import numpy as np

    from formats.core.dtypes import DType
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers

    from .stats import FileTask


BINS = 64
"""Bins of a histogram; between half as many and all of them are in use."""

CELLS = 4096
"""Cells of a heat map, of all its slices together."""

_MOST_SLICES = 16
_LONGEST_SIDE = 128
_ONE_AT_A_TIME = Lock()
"""OpenBLAS wants a buffer for each thread that multiplies, and exits where it gets none."""


_BLOCK = 1 << 15
"""Elements that are counted together: more of them leave the processor's cache."""

_FINEST, _COARSEST = -960, 960
"""Exponents of the widths of bins, whose inverses float64 has."""

_MANTISSA = 52
"""Bits of float64's mantissa: bins that are finer tell values apart that are one."""


class StreamingHistogram(NamedTuple):
    """Counts of finite values: bin `n` is of those from `(first + n) * width` up to the next."""

    first: int
    width: float
    counts: list[int]


class HeatMap(NamedTuple):
    """Means of cells of `slices` of a tensor, whose numbers among `of` they are.

    `shape` is that of a slice, and `rows` and `columns` the number of cells. `cells` are signed bytes, row by
    row and slice by slice: -128 if a mean is not finite, otherwise in steps of `scale / 127`.
    """

    shape: tuple[int, int]
    slices: list[int]
    of: int
    rows: int
    columns: int
    scale: float
    cells: bytes


class Sketch(NamedTuple):
    """A sketch of a tensor; None for parts it cannot have: complex numbers have no order, and scalars no
    cells.
    """

    histogram: StreamingHistogram | None
    heat: HeatMap | None


class ReadResult(NamedTuple):
    """The result of reading a tensor: `flaw` says why that failed; strings have no statistics."""

    statistics: Statistics | None = None
    sketch: Sketch | None = None
    flaw: CheckpointError | None = None


class _Counting:
    """Counts values in bins, which become wider with the range of what was counted."""

    def __init__(self) -> None:
        import numpy as np

        self._exponent = _FINEST
        self._low, self._high = math.inf, -math.inf
        self._counts = np.zeros(BINS, np.int64)

    def _bin(self, value: float) -> int:
        return math.floor(math.ldexp(value, -self._exponent))

    def add(self, values: np.ndarray[Any, Any]) -> None:
        """Count what is finite of flat values, float32 or float64."""
        import numpy as np

        for at in range(0, values.size, _BLOCK):
            block = values[at : at + _BLOCK]
            low, high = float(block.min()), float(block.max())
            if not (math.isfinite(low) and math.isfinite(high)):
                block = block[np.isfinite(block)]
                if not block.size:
                    continue
                low, high = float(block.min()), float(block.max())
            self._reach(min(low, self._low), max(high, self._high))
            self._count(block)

    def _reach(self, low: float, high: float) -> None:
        """Widen the bins until they reach from the least to the largest value."""
        import numpy as np

        if (low, high) == (self._low, self._high):
            return
        first, exponent = 0 if self._low > self._high else self._bin(self._low), self._exponent
        size = max(abs(low), abs(high))
        largest = math.frexp(size)[1] if size else _FINEST
        self._exponent = min(max(exponent, largest - _MANTISSA, _FINEST), _COARSEST)
        while self._bin(high) - self._bin(low) >= BINS:
            self._exponent += 1
        counts = np.zeros(BINS, np.int64)
        base = self._bin(low)
        for number in np.flatnonzero(self._counts).tolist():
            counts[((first + number) >> (self._exponent - exponent)) - base] += self._counts[number]
        self._low, self._high, self._counts = low, high, counts

    def _count(self, block: np.ndarray[Any, Any]) -> None:
        import numpy as np

        base, last = self._bin(self._low), self._bin(self._high) - self._bin(self._low)
        # In float32 the numbers of bins are exact as long as neither they nor their scale are large.
        narrow = block.dtype == np.float32 and abs(base) < 1 << 20 and abs(self._exponent) < 100
        wide = block if narrow else block.astype(np.float64)
        kind = wide.dtype.type
        numbers = np.multiply(wide, kind(math.ldexp(1.0, -self._exponent)))
        np.floor(numbers, out=numbers)
        numbers -= kind(base)
        counts = np.bincount(numbers.astype(np.intp), minlength=BINS + 1)
        counts[last] += counts[last + 1 :].sum()  # values just below zero that became zero
        self._counts[: last + 1] += counts[: last + 1]

    def result(self) -> StreamingHistogram | None:
        if self._low > self._high:
            return None
        counts = self._counts[: self._bin(self._high) - self._bin(self._low) + 1]
        return StreamingHistogram(self._bin(self._low), math.ldexp(1.0, self._exponent), counts.tolist())


class _Warming:
    """Takes the means of the cells of a heat map, from values in their order."""

    def __init__(self, shape: tuple[int, ...], cells: int) -> None:
        import numpy as np

        sides = [1, 1, *(side for side in shape if side != 1)]
        self._height, self._width = sides[-2], sides[-1]
        self._slices = math.prod(sides[:-2])
        count = min(self._slices, _MOST_SLICES, max(1, cells // 16))
        self._chosen = [number * self._slices // count for number in range(count)]
        self._rows, self._columns = _cut_up(self._height, self._width, cells // count)
        self._edges = _edges(self._width, self._columns)
        self._widths = np.diff([*self._edges, self._width])
        self._bands = list(self._cut_bands())
        self._sums = np.zeros((len(self._bands), self._columns))
        self._band, self._at = 0, 0

    def _cut_bands(self) -> Iterator[tuple[int, int]]:
        """Yield where the rows of a row of cells begin and end, counted in elements."""
        edges = [*_edges(self._height, self._rows).tolist(), self._height]
        for number in self._chosen:
            for begin, end in pairwise(edges):
                first = number * self._height
                yield (first + begin) * self._width, (first + end) * self._width

    def add(self, values: np.ndarray[Any, Any]) -> None:
        """Take in what comes next, float32 or float64."""
        begin, end = self._at, self._at + values.size
        self._at = end
        while self._band < len(self._bands):
            first, last = self._bands[self._band]
            if first >= end:
                return
            part = values[max(first, begin) - begin : min(last, end) - begin]
            self._add_rows(part, (max(first, begin) - first) % self._width, (last - first) // self._width)
            if last > end:
                return
            self._band += 1

    def _add_rows(self, values: np.ndarray[Any, Any], column: int, height: int) -> None:
        """Take in a part of a band of that many rows, which begins in a column."""
        import numpy as np

        width = self._width
        head = min((width - column) % width, values.size)
        self._add_row(values[:head], column, height)
        whole = (values.size - head) // width
        if whole:
            rows = values[head : head + whole * width].reshape(whole, width)
            ones = np.full(whole, 1 / height, rows.dtype)
            with _ONE_AT_A_TIME:
                sums = ones @ rows if whole > 1 else rows[0] / height
            self._add_row(sums, 0, 1)
        self._add_row(values[head + whole * width :], 0, height)

    def _add_row(self, values: np.ndarray[Any, Any], column: int, height: int) -> None:
        """Take in a part of one row, which begins in a column."""
        import numpy as np

        if not values.size:
            return
        first = int(np.searchsorted(self._edges, column, "right")) - 1
        last = int(np.searchsorted(self._edges, column + values.size, "left"))
        starts = np.maximum(self._edges[first:last] - column, 0)
        shares = values.astype(np.float64)
        shares /= height
        sums = np.add.reduceat(shares, starts)
        self._sums[self._band, first:last] += sums / self._widths[first:last]

    def result(self) -> HeatMap:
        import numpy as np

        sums = self._sums
        finite = np.isfinite(sums)
        scale = float(np.abs(sums[finite]).max(initial=0.0))
        steps = np.rint(np.where(finite, sums, 0.0) / (scale or 1.0) * 127)
        cells = np.where(finite, steps, -128).astype(np.int8)
        shape = self._height, self._width
        return HeatMap(shape, self._chosen, self._slices, self._rows, self._columns, scale, cells.tobytes())


def _cut_up(height: int, width: int, cells: int) -> tuple[int, int]:
    """Return into how many rows and columns of cells a matrix is cut: near a square, unless it is narrow."""
    side = max(1, math.isqrt(cells))
    rows = min(height, side)
    columns = min(width, max(side, cells // max(1, rows)), _LONGEST_SIDE)
    return min(height, max(rows, cells // max(1, columns)), _LONGEST_SIDE), columns


def _edges(size: int, parts: int) -> np.ndarray[Any, Any]:
    """Return where each of these parts begins."""
    import numpy as np

    return np.array([part * size // parts for part in range(parts)], np.int64)


class _Sketching:
    """Looks at the values of a tensor as they pass by."""

    def __init__(self, shape: tuple[int, ...], dtype: DType, cells: int) -> None:
        ordered = dtype.is_number and dtype.family != "complex"
        size = math.prod(shape)
        self._counting = _Counting() if ordered else None
        self._warming = _Warming(shape, cells) if ordered and size > 1 else None

    def watch(self, arrays: Iterable[np.ndarray[Any, Any]]) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the arrays again."""
        import numpy as np

        for array in arrays:
            if self._counting is not None and array.size:
                is_narrow = array.dtype.kind in "fV" and array.itemsize <= 4
                with np.errstate(invalid="ignore", over="ignore", under="ignore"):
                    values = array.astype(np.float32 if is_narrow else np.float64, copy=False)
                    self._counting.add(values)
                    if self._warming is not None:
                        self._warming.add(values)
            yield array

    def result(self) -> Sketch:
        return Sketch(
            self._counting.result() if self._counting is not None else None,
            self._warming.result() if self._warming is not None else None,
        )


def look(
    arrays: Iterable[np.ndarray[Any, Any]], shape: tuple[int, ...], dtype: DType, cells: int
) -> ReadResult:
    """Return what values come to that arrive in flat arrays; with no `cells`, statistics alone.

    An error in reading them is the flaw.
    """
    sketching = _Sketching(shape, dtype, cells) if cells else None
    try:
        found = statistics(sketching.watch(arrays) if sketching is not None else arrays, dtype)
    except CheckpointError as error:
        return ReadResult(flaw=error)
    return ReadResult(found, sketching.result() if sketching is not None else None)


class _SketchTask(NamedTuple):
    """A tensor to sketch; None for values that only the calling process can read. Plain data."""

    values: FileTask | None
    shape: tuple[int, ...]
    cells: int

    @property
    def nbytes(self) -> int:
        return self.values.values.size if self.values is not None else 0


def look_at(
    reader: FormatReader, keys: Sequence[str], sketched: Collection[str], cells: int, workers: Workers
) -> Generator[tuple[str, ReadResult]]:
    """Yield the result for each tensor, in this order, for any number of workers.

    Each is read once.  Those of `sketched` are drawn, in heat maps of so many cells.
    """

    def task(key: str) -> _SketchTask:
        spec = reader.specs[key]
        readable = spec.dtype.is_number
        return _SketchTask(
            file_task(reader, key) if readable else None, spec.shape, cells * (key in sketched)
        )

    tasks, done = tee(map(task, keys))
    with closing(workers.map(_do, tasks, lambda task: task.nbytes, forks=reader.is_local)) as results:
        for key, task_of_key, found in zip(keys, done, results, strict=True):
            yield key, found or _here(reader, key, task_of_key.cells)


def _do(task: _SketchTask) -> ReadResult | None:
    if task.values is None:
        return None
    return look(checked_pieces(task.values), task.shape, task.values.dtype, task.cells)


def _here(reader: FormatReader, key: str, cells: int) -> ReadResult:
    """Sketch data that no file stores contiguously; for strings the result is only that they can be read."""
    spec = reader.specs[key]
    try:
        if spec.dtype.is_unmapped:
            return ReadResult()
        reader[key]  # says why a tensor has no dtype
        if not spec.dtype.is_number:
            return ReadResult()
        return look(TensorSlice(key, spec).arrays(reader), spec.shape, spec.dtype, cells)
    except CheckpointError as error:
        return ReadResult(flaw=error)
