"""Statistics of tensors, in float64, gone through once in pieces that fit the processor's cache."""

from __future__ import annotations

import math
from contextlib import closing
from itertools import tee
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CheckpointError

from ..select.slices import TensorSlice

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    import numpy as np

    from formats.core.dtypes import DType
    from formats.model.reader import CheckpointReader
    from formats.store.ranges import FileRange
    from formats.store.work.workers import Workers


class Statistics(NamedTuple):
    """What is told of a tensor's values; null where it has none, or none that can be ordered.

    NaN are counted and left out of everything else; `std` is the population's, `l2` the
    Euclidean norm.  Of complex numbers only `l2` and the counts are told.
    """

    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = None
    l2: float | None = None
    zeros: int = 0
    nan: int = 0
    inf: int = 0

    def _repr_html_(self) -> str:
        from formats.core.notebook import table

        return table(self._fields, [self], 1)


_BLOCK = 1 << 13
"""Elements that are looked at together."""


class _Moments:
    """Count, sum and sum of squared deviations, put together piece by piece.

    Merging means and deviations, rather than summing squares, keeps the variance of
    values far from zero (Chan, Golub and LeVeque, 1979).
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.deviations = 0.0

    def add(self, values: np.ndarray[Any, Any], total: float) -> None:
        """Take finite float64 values, whose sum is `total`; the array is overwritten."""
        import numpy as np

        count = len(values)
        mean = total / count
        np.subtract(values, mean, out=values)
        difference = mean - self.mean
        together = self.count + count
        self.deviations += float(values @ values) + difference * difference * self.count * count / together
        self.mean += difference * count / together
        self.count = together


def statistics(arrays: Iterable[np.ndarray[Any, Any]], dtype: DType) -> Statistics | None:
    """Return the statistics of a tensor that comes in flat arrays; None for strings and variants."""
    import numpy as np

    if not dtype.is_number:
        return None
    low, high = math.inf, -math.inf
    zeros = nan = inf = seen = 0
    moments = _Moments()
    with np.errstate(invalid="ignore", over="ignore"):
        for array in _blocks(arrays):
            values = _real(array)
            total = float(values.sum())
            zeros += len(values) - int(np.count_nonzero(values))
            if not math.isfinite(total):
                values, skipped = _without_nan(values)
                nan += skipped
                inf += int(np.count_nonzero(np.isinf(values)))
            if not values.size:
                continue
            seen += len(values)
            low, high = min(low, float(values.min())), max(high, float(values.max()))
            if not math.isfinite(total):
                values = values[np.isfinite(values)]
                total = float(values.sum())
            if values.size:
                moments.add(values, total)
    return _result(dtype, moments, (low, high), (seen, zeros, nan, inf))


class FileTask(NamedTuple):
    """The values of a tensor that lie in a file just as they are; plain data."""

    values: FileRange
    dtype: DType


def statistics_of(
    reader: CheckpointReader, keys: Sequence[str], workers: Workers
) -> Generator[tuple[str, Statistics]]:
    """Yield the statistics of tensors of numbers, in this order, whoever works on them.

    Tensors whose values lie in a file in one piece are handed out; the others are read here,
    when it is their turn.
    """
    tasks, done = tee(file_task(reader, key) for key in keys)
    with closing(workers.map(do_task, tasks, lambda task: task.values.size if task else 0)) as results:
        for key, task, result in zip(keys, done, results, strict=True):
            found = _here(reader, key) if task is None else result
            if task is None:
                workers.keep(reader.specs[key].nbytes or 0)
            assert found is not None
            yield key, found


def _here(reader: CheckpointReader, key: str) -> Statistics | None:
    spec = reader.specs[key]
    return statistics(TensorSlice(key, spec).arrays(reader), spec.dtype)


def file_task(reader: CheckpointReader, key: str) -> FileTask | None:
    """Return the task of reading a tensor; None for one that is read, and its flaws told, in its turn."""
    try:
        values = reader[key].file_range()
    except CheckpointError:
        return None  # Raised again by reading it: what is said must not depend on how far ahead one looks.
    return None if values is None else FileTask(values, reader.specs[key].dtype)


def do_task(task: FileTask | None) -> Statistics | None:
    """Do one task; None, which keeps a place among tasks, comes to nothing."""
    return None if task is None else statistics(checked_pieces(task), task.dtype)


def checked_pieces(task: FileTask) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the values in pieces; the checksum is compared when the last has passed."""
    from formats.core.chunks import PIECE
    from formats.store.ranges import buffers

    values = task.values
    seen = values.sum()
    room = buffers()[0]
    values.expect(0, values.size)
    for begin in range(0, values.size, PIECE):
        piece = values.read(begin, min(begin + PIECE, values.size), room)
        if values.is_checked:
            seen.extend(piece)
        yield piece.view(task.dtype.numpy)
    values.check(seen)


def _blocks(arrays: Iterable[np.ndarray[Any, Any]]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield arrays in parts that the cache holds as float64, and that BLAS takes no threads for."""
    for array in arrays:
        for at in range(0, array.size, _BLOCK):
            yield array[at : at + _BLOCK]


def _real(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array as float64 of its own; of complex numbers their magnitudes."""
    import numpy as np

    return np.abs(array).astype(np.float64) if array.dtype.kind == "c" else array.astype(np.float64)


def _without_nan(values: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    import numpy as np

    missing = np.isnan(values)
    count = int(np.count_nonzero(missing))
    return (values[~missing], count) if count else (values, 0)


def _result(
    dtype: DType,
    moments: _Moments,
    bounds: tuple[float, float],
    counts: tuple[int, int, int, int],
) -> Statistics:
    seen, zeros, nan, inf = counts
    if not seen:
        return Statistics(zeros=zeros, nan=nan, inf=inf)
    squares = moments.deviations + moments.count * moments.mean * moments.mean
    l2 = math.inf if inf else math.sqrt(squares)
    if dtype.family == "complex":
        return Statistics(l2=l2, zeros=zeros, nan=nan, inf=inf)
    if inf:
        # An infinite bound is the mean; both of them have none.
        return Statistics(*bounds, sum(bounds), math.nan, l2, zeros, nan, inf)
    std = math.sqrt(moments.deviations / moments.count)
    return Statistics(*bounds, moments.mean, std, l2, zeros, nan, inf)
