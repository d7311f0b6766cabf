"""Statistics of tensors, in float64, of values that pass once."""

from __future__ import annotations

import math
from contextlib import closing
from itertools import tee
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CheckpointError
from formats.store.ranges import Sum, cut, large_buffer

from ..select.columns import NUMBER, SHAPE, TEXT
from ..select.slices import TensorSlice
from .moments import Moments, Portion, block_size

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    import numpy as np

    from formats.core.dtypes import DType
    from formats.model.reader import FormatReader
    from formats.store.ranges import FileRange
    from formats.store.work.workers import Workers


class Statistics(NamedTuple):
    """The statistics of a tensor's values; null if it has none, or none with an order.

    NaN are counted and left out of everything else; `std` is the population's, `l2` the Euclidean norm.
    Complex numbers have only `l2` and the counts.
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


COLUMNS = {
    "key": TEXT,
    "dtype": TEXT,
    "shape": SHAPE,
    "nbytes": NUMBER,
    "kind": TEXT,
    "object_path": TEXT,
    **dict.fromkeys(Statistics._fields, NUMBER),
}
"""The columns of statistics, and the other columns of tensors."""


def statistics(arrays: Iterable[np.ndarray[Any, Any]], dtype: DType) -> Statistics | None:
    """Return the statistics of a tensor that comes in flat arrays; None for strings and variants."""
    return _result(dtype, _moments(arrays)) if dtype.is_number else None


def finite_l2(reader: FormatReader, key: str) -> float:
    """Return the Euclidean norm of a tensor's finite values."""
    return math.sqrt(_moments(TensorSlice(key, reader.specs[key]).arrays(reader)).squared)


def _moments(arrays: Iterable[np.ndarray[Any, Any]]) -> Moments:
    import numpy as np

    moments = Moments()
    with np.errstate(invalid="ignore", over="ignore"):
        for array in arrays:
            moments.add(Portion().add(array))
    return moments


class FileTask(NamedTuple):
    """The values of a tensor that a file stores unchanged; plain data."""

    values: FileRange
    dtype: DType


class _RangeTask(NamedTuple):
    """A range of a tensor's values, its last one or not; plain data.

    Without a `task` it stands for a tensor that the caller reads itself.
    """

    key: str
    task: FileTask | None
    begin: int = 0
    end: int = 0
    is_last: bool = True

    @property
    def nbytes(self) -> int:
        return self.end - self.begin


def statistics_of(
    reader: FormatReader, keys: Sequence[str], workers: Workers
) -> Generator[tuple[str, Statistics]]:
    """Yield the statistics of numeric tensors, in this order, for any number of workers.

    Tensors that are stored in one piece are handed out in ranges; the others are read here,
    when it is their turn.
    """
    tasks, done = tee(_range_tasks(reader, keys, workers.task_bytes))
    moments, sums = Moments(), Sum()
    mapped = workers.map(_do_range, tasks, lambda task: task.nbytes, forks=reader.is_local)
    with closing(mapped) as results:
        for task, result in zip(done, results, strict=True):
            found: Statistics | None = None
            if task.task is None or result is None:
                workers.keep(reader.specs[task.key].nbytes or 0)
                found = _here(reader, task.key)
            else:
                moments.add(result[0])
                sums.add(result[1])
                if not task.is_last:
                    continue
                task.task.values.check(sums)
                found = _result(task.task.dtype, moments)
                moments, sums = Moments(), Sum()
            assert found is not None
            yield task.key, found


def _range_tasks(reader: FormatReader, keys: Iterable[str], step: int) -> Iterator[_RangeTask]:
    for key in keys:
        task = file_task(reader, key)
        if task is None:
            yield _RangeTask(key, None)
            continue
        size = task.values.size
        for begin, end in cut(size, step):
            yield _RangeTask(key, task, begin, end, end == size)


def _do_range(task: _RangeTask) -> tuple[Portion, Sum] | None:
    """Do one task: return what the values come to, and their checksum."""
    import numpy as np

    if task.task is None:
        return None
    portion, seen = Portion(), task.task.values.sum()
    with np.errstate(invalid="ignore", over="ignore"):
        for piece in _pieces(task.task, task.begin, task.end, seen):
            portion.add(piece)
    return portion, seen


def _here(reader: FormatReader, key: str) -> Statistics | None:
    spec = reader.specs[key]
    return statistics(TensorSlice(key, spec).arrays(reader), spec.dtype)


def file_task(reader: FormatReader, key: str) -> FileTask | None:
    """Return the task of reading a tensor, or None for one that is read, and its errors reported, in its
    turn.
    """
    try:
        values = reader[key].file_range()
    except CheckpointError:
        # Reading raises it again in its turn, so that messages do not depend on how far the reader is ahead.
        return None
    return None if values is None else FileTask(values, reader.specs[key].dtype)


def do_task(task: FileTask | None) -> Statistics | None:
    """Do one task; None, which keeps a place among tasks, comes to nothing."""
    return None if task is None else statistics(checked_pieces(task), task.dtype)


def checked_pieces(task: FileTask) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the values in pieces; the checksum is compared when the last has passed."""
    seen = task.values.sum()
    yield from _pieces(task, 0, task.values.size, seen)
    task.values.check(seen)


def _pieces(task: FileTask, begin: int, end: int, seen: Sum) -> Iterator[np.ndarray[Any, Any]]:
    """Yield a range of the values in pieces; each is valid until the next one is requested."""
    values, room = task.values, large_buffer()
    step = min(room.size, block_size() * task.dtype.numpy.itemsize)
    values.expect(begin, end)
    for at in range(begin, end, step):
        piece = values.read(at, min(at + step, end), room)
        if values.is_checked:
            seen.extend(piece)
        yield piece.view(task.dtype.numpy)


def _result(dtype: DType, found: Moments) -> Statistics:
    seen, zeros, nan, inf = found.seen, found.zeros, found.nan, found.inf
    if not seen:
        return Statistics(zeros=zeros, nan=nan, inf=inf)
    l2 = math.inf if inf else math.sqrt(found.squared)
    if dtype.family == "complex":
        return Statistics(l2=l2, zeros=zeros, nan=nan, inf=inf)
    bounds = found.low, found.high
    if inf:
        # An infinite bound is the mean; both of them have none.
        return Statistics(*bounds, sum(bounds), math.nan, l2, zeros, nan, inf)
    std = math.sqrt(found.deviations / found.count)
    return Statistics(*bounds, found.mean, std, l2, zeros, nan, inf)
