"""What `show` tells of a checkpoint, and of one tensor, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.dtypes import INVALID
from formats.model.location import step_of
from formats.store.paths import entry_at, name_of

from .stats import Statistics, statistics
from .values import as_json

if TYPE_CHECKING:
    import numpy as np

    from formats.model.reader import CheckpointReader

    from ..choose.parts import Part


BINS = 32


def _file(path: str) -> dict[str, Any]:
    found = entry_at(path)
    return {"name": name_of(path), "nbytes": found.size if found else None}  # a link can lead nowhere


def summary(reader: CheckpointReader) -> dict[str, Any]:
    """Return the document of `show PATH`."""
    kinds: dict[str, dict[str, int]] = {}
    dtypes: dict[str, dict[str, int]] = {}
    for key, spec in reader.specs.items():
        name = spec.dtype.name if spec.dtype is not INVALID else "unknown"
        for group, member in ((kinds, reader.kinds.get(key, "variable")), (dtypes, name)):
            counts = group.setdefault(member, {"tensors": 0, "nbytes": 0})
            counts["tensors"] += 1
            counts["nbytes"] += spec.nbytes or 0
    metadata = reader.facts.document()
    return {
        "path": reader.location.path,
        "format": reader.format.name,
        "producer": metadata.pop("producer", None),
        "step": step_of(reader.location.name),
        "files": [_file(path) for path in reader.files()],
        "kinds": kinds,
        "dtypes": dtypes,
        "metadata": metadata,
    }


def tensor(reader: CheckpointReader, part: Part, max_values: int) -> tuple[dict[str, Any], Statistics | None]:
    """Return the document of `show PATH KEY` and the statistics in it."""
    spec = part.spec._replace(shape=part.shape)
    found = statistics(part.arrays(reader), spec.dtype)
    shown = spec.dtype.name != "variant" and spec.size <= max_values
    fields = {
        "path": reader.location.path,
        "key": part.key,
        "dtype": spec.dtype.name,
        "shape": list(part.shape),
        "nbytes": spec.nbytes,
        "kind": reader.kinds.get(part.key),
        "stats": found._asdict() if found else None,
        "values": as_json(part.read(reader), spec.dtype) if shown else None,
    }
    if part.text:
        fields["slice"] = part.text
    return fields, found


class Histogram(NamedTuple):
    """Counts of finite values in bins of equal width from `low` to `high`."""

    low: float
    high: float
    counts: list[int]


def histogram(reader: CheckpointReader, part: Part, found: Statistics) -> Histogram | None:
    """Return how a tensor's finite values are spread, gone through in pieces; None without any."""
    import math

    import numpy as np

    if found.min is None or found.max is None:
        return None
    low, high = found.min, found.max
    if not (math.isfinite(low) and math.isfinite(high)):
        finite = [values[np.isfinite(values)] for values in _float_arrays(reader, part)]
        finite = [values for values in finite if values.size]
        if not finite:
            return None
        low, high = min(v.min() for v in finite), max(v.max() for v in finite)
    counts = np.zeros(BINS, np.int64)
    for values in _float_arrays(reader, part):
        counts += np.histogram(values[np.isfinite(values)], BINS, (float(low), float(high)))[0]
    return Histogram(float(low), float(high), counts.tolist())


def _float_arrays(reader: CheckpointReader, part: Part) -> Any:
    return (array.astype("f8") for array in part.arrays(reader))


def heat(array: np.ndarray[Any, Any], rows: int, columns: int) -> list[list[float]]:
    """Return a matrix averaged down to at most `rows` by `columns` cells."""
    import numpy as np

    values = np.nan_to_num(array.astype("f8"), nan=0.0, posinf=0.0, neginf=0.0)
    for axis, most in ((0, rows), (1, columns)):
        if values.shape[axis] > most:
            edges = np.linspace(0, values.shape[axis], most + 1).astype(int)
            sums = np.add.reduceat(values, edges[:-1], axis=axis)
            sizes = np.diff(edges).reshape((-1, 1) if axis == 0 else (1, -1))
            values = sums / sizes
    cells: list[list[float]] = values.tolist()
    return cells
