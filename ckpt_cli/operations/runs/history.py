"""The data of a page about a run: its log as columns, and changes by layer and step, with norms and ratios.

Checksums alone show changes. To measure how far the weights moved, the changed weights of two consecutive
checkpoints are read in step. An update ratio is the norm of that movement divided by the norm of the weights
before it.
"""

from __future__ import annotations

import math
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.chunks import PIECE, ChunkSource, whole_elements
from formats.errors import CheckpointError
from formats.find.opening import open_location

from ..look.listing import separator_of, split_layer
from ..look.moments import ROW, block_size, squares, widened
from ..look.report import number
from .log import has_changed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from formats.core.chunks import Chunk
    from formats.core.dtypes import DType
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader
    from formats.model.tensor import LazyTensor
    from formats.store.ranges import FileRange
    from formats.store.work.workers import Workers

    from .curves import Curve
    from .log import LogRow, RunLog, Seen


_MOST_LAYERS = 400
"""Rows of the map: of more, layers that begin alike are one."""

_MOST_POINTS = 2000


class LayerHistory(NamedTuple):
    """A layer at one checkpoint; None is what is not known.

    The share of its tensors that changed, the norm of its weights, how far these moved by that
    norm before, and how many values are NaN or infinite.
    """

    changed: float | None
    norm: float | None
    ratio: float | None
    bad: int


class History:
    """Watches a run go by (`RunLog`); `rows` are by checkpoint, each by layer."""

    def __init__(self, workers: Workers) -> None:
        self.rows: dict[str, dict[str, LayerHistory]] = {}
        self.ratios: dict[str, float | None] = {}
        self._workers = workers
        self._depth: int | None = None
        self._last: dict[int, tuple[Mapping[str, Seen], CheckpointLocation]] = {}

    def watch(
        self,
        reader: FormatReader,
        before: Mapping[str, Seen],
        now: Mapping[str, Seen],
        trained: Collection[str],
    ) -> None:
        """Take in a checkpoint: what was found in the one before it and in this one, and its weights."""
        layers = self._layers(reader, now)
        weights = dict.fromkeys(key for key in trained if reader.specs[key].dtype.family == "float")
        moved = self._norms_of_changes(reader, before, now, weights)
        path = reader.location.path
        self.rows[path] = {
            layer: _count_shared_files(keys, [key for key in keys if key in weights], before, now, moved)
            for layer, keys in layers.items()
        }
        self.ratios[path] = _ratio(weights, before, moved)
        self._last[id(now)] = now, reader.location

    def _layers(self, reader: FormatReader, keys: Iterable[str]) -> dict[str, list[str]]:
        """Return the keys of each layer, cut off where there are too many; others than variables by kind."""
        paths, kinds = reader.object_paths, reader.kinds
        separator = separator_of(keys)
        named = {
            key: split_layer(paths.get(key, key))[0].split(separator)
            if kinds.get(key) == "variable"
            else [f"({kinds.get(key)})"]
            for key in keys
        }
        if self._depth is None:
            self._depth = max(map(len, named.values()), default=1)
            while (
                self._depth > 1
                and len({tuple(parts[: self._depth]) for parts in named.values()}) > _MOST_LAYERS
            ):
                self._depth -= 1
        layers: dict[str, list[str]] = {}
        for key, parts in named.items():
            layer = separator.join(parts[: self._depth])
            layers.setdefault(
                layer if layer in layers or len(layers) < _MOST_LAYERS else "(others)", []
            ).append(key)
        return layers

    def _norms_of_changes(
        self,
        reader: FormatReader,
        before: Mapping[str, Seen],
        now: Mapping[str, Seen],
        trained: Collection[str],
    ) -> dict[str, float]:
        """Return the norm of the difference of each weight, zero of what has not changed."""
        _, place = self._last.pop(id(before), (None, None))
        weights = [key for key in trained if key in before]
        same = {key: has_changed(before[key].fingerprint, now[key].fingerprint) for key in weights}
        found = {key: 0.0 for key in weights if same[key] is False}
        if place is None or not reader.format.has_values:
            return found
        try:
            with open_location(place) as other:
                keys = [key for key in weights if same[key] is not False and _are_equal(reader, other, key)]
                found.update(_distances(other, reader, keys, self._workers))
        except CheckpointError:
            return found  # the checkpoint's own row reports the error
        return found


def _are_equal(reader: FormatReader, other: FormatReader, key: str) -> bool:
    one, two = reader.specs[key], other.specs.get(key)
    return two is not None and (one.dtype, one.shape) == (two.dtype, two.shape)


def _count_shared_files(
    keys: Sequence[str],
    weights: Sequence[str],
    before: Mapping[str, Seen],
    now: Mapping[str, Seen],
    moved: Mapping[str, float],
) -> LayerHistory:
    fates = [has_changed(before[key].fingerprint, now[key].fingerprint) for key in keys if key in before]
    known = [fate for fate in fates if fate is not None]
    measures = [found for key in keys if (found := now[key].measure) is not None]
    return LayerHistory(
        sum(known) / len(known) if known else None,
        _norm(weights, now),
        _ratio(weights, before, moved),
        sum(found.nan + found.inf for found in measures),
    )


def _norm(keys: Collection[str], seen: Mapping[str, Seen]) -> float | None:
    found = [measure.l2 for key in keys if key in seen and (measure := seen[key].measure) is not None]
    known = [norm for norm in found if norm is not None]
    return math.hypot(*known) if known else None


def _ratio(keys: Collection[str], before: Mapping[str, Seen], moved: Mapping[str, float]) -> float | None:
    """Return how far weights moved by their norm before; None if that of one of them is not known."""
    norm = _norm(keys, before)
    if not norm or not all(key in moved for key in keys if key in before):
        return None
    return math.hypot(*(moved[key] for key in keys if key in moved)) / norm


# How far weights moved ------------------------------------------------------------------


class _PairTask(NamedTuple):
    """Two tensors that files store contiguously; plain data."""

    left: FileRange
    right: FileRange
    dtype: DType


def _distances(
    left: FormatReader, right: FormatReader, keys: Sequence[str], workers: Workers
) -> Iterator[tuple[str, float]]:
    """Yield the norms of differences; nothing of what cannot be read."""
    tasks = [_task(left[key], right[key]) for key in keys]
    mapped = workers.map(
        _do,
        tasks,
        lambda task: task.left.size * 2 if task else 0,
        forks=left.is_local and right.is_local,
    )
    with closing(mapped) as results:
        for key, task, result in zip(keys, tasks, results, strict=True):
            found = result if task is not None else _streamed(left[key], right[key])
            if found is not None:
                yield key, found


def _task(left: LazyTensor, right: LazyTensor) -> _PairTask | None:
    try:
        one, other = left.file_range(), right.file_range()
    except CheckpointError:
        return None
    return _PairTask(one, other, left.spec.dtype) if one is not None and other is not None else None


def _do(task: _PairTask | None) -> float | None:
    """Return the norm of a difference, or None if one side is damaged, which the log reports."""
    if task is None:
        return None
    from formats.store.ranges import buffers

    sums, total = (task.left.sum(), task.right.sum()), 0.0
    try:
        for begin in range(0, task.left.size, PIECE):
            end, pieces = min(begin + PIECE, task.left.size), []
            for side, found, room in zip((task.left, task.right), sums, buffers(), strict=True):
                pieces.append(side.read(begin, end, room))
                if side.is_checked:
                    found.extend(pieces[-1])
            total += _squares(task.dtype, *pieces)
        for side, found in zip((task.left, task.right), sums, strict=True):
            side.check(found)
    except CheckpointError:
        return None
    return math.sqrt(total)


def _streamed(left: LazyTensor, right: LazyTensor) -> float | None:
    dtype, nbytes = left.spec.dtype, left.spec.nbytes
    assert dtype.itemsize is not None
    assert nbytes is not None
    sides, total = (ChunkSource(left.chunks()), ChunkSource(right.chunks())), 0.0
    step = whole_elements(PIECE, dtype.itemsize)
    try:
        for at in range(0, nbytes, step):
            total += _squares(dtype, *(side.take(min(step, nbytes - at)) for side in sides))
        for side in sides:
            side.finish()
    except CheckpointError:
        return None
    return math.sqrt(total)


def _squares(dtype: DType, left: Chunk, right: Chunk) -> float:
    """Return the sum of the squares of differences, in float64."""
    import numpy as np

    one, other = np.frombuffer(left, dtype.numpy), np.frombuffer(right, dtype.numpy)
    block, found = block_size(), []
    with np.errstate(all="ignore"):
        for at in range(0, one.size, block):
            delta = one[at : at + block].astype(np.float64)
            delta -= widened(other[at : at + block])
            whole = delta.size // ROW * ROW
            found += squares(delta[:whole].reshape(-1, ROW)).tolist()
            found += squares(delta[None, whole:]).tolist()
    return sum(found)


# As a page has it -----------------------------------------------------------------------


def history_document(
    directory: Location, name: str, run: RunLog, rows: Sequence[LogRow], seen: History
) -> dict[str, Any]:
    """Return the page's data about a run."""
    curve = run.curve
    layers = sorted({layer for row in rows for layer in seen.rows.get(row.path, ())}, key=_order)
    by_layer = {
        field: [[_of(seen, row, layer, field) for row in rows] for layer in layers]
        for field in LayerHistory._fields
    }
    return {
        "what": "run",
        "name": name,
        "path": directory,
        "checkpoints": [
            {
                field: number(value) if isinstance(value, float) else value
                for field, value in row._asdict().items()
            }
            | {"ratio": number(seen.ratios.get(row.path))}
            for row in rows
        ],
        "layers": layers,
        "by_layer": by_layer,
        "frozen": run.frozen,
        "loss": {"tag": curve.tag or None, "points": _thinned(curve)},
        "findings": list(run.warnings),
        "sketches": {},
    }


def _order(layer: str) -> tuple[bool, list[tuple[int, str]]]:
    """Sort layer_2 before layer_10, and everything but variables last."""
    parts = re.split(r"(\d{1,9})", layer)
    return layer.startswith("("), [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _of(seen: History, row: LogRow, layer: str, field: str) -> float | int | str | None:
    change = seen.rows.get(row.path, {}).get(layer)
    return number(getattr(change, field)) if change is not None else None


def _thinned(curve: Curve) -> list[list[float | int | str | None]]:
    """Return the points of a curve; of very many, the smallest and the largest of each range."""
    points = list(zip(curve.steps, curve.values, strict=True))
    per_group = max(1, 2 * len(points) // _MOST_POINTS)
    if per_group > 2:
        groups = [points[at : at + per_group] for at in range(0, len(points), per_group)]
        ends = [(min(group, key=_value), max(group, key=_value)) for group in groups]
        points = [point for pair in ends for point in sorted(set(pair))]
    return [[step, number(value)] for step, value in points]


def _value(point: tuple[int, float]) -> float:
    return point[1]
