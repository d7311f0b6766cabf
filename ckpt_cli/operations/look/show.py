"""The data of `show` about a checkpoint, and about one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.dtypes import VARIANT, from_numpy
from formats.location import other_names
from formats.model.hub_config import hub_config
from formats.model.orbax_files import step_at

from .stats import Statistics, statistics
from .values import as_json

if TYPE_CHECKING:
    import numpy as np

    from formats.location import Location
    from formats.model.reader import FormatReader
    from formats.tf.run.iterator_state import State
    from formats.tf.run.pipeline import Pipeline

    from ..select.slices import TensorSlice


BINS = 32


def _file(path: Location) -> dict[str, Any]:
    found = path.entry()
    return {"name": path.name, "nbytes": found.size if found else None}  # a link can lead nowhere


def summary(reader: FormatReader) -> dict[str, Any]:
    """Return the document of `show PATH`."""
    kinds: dict[str, dict[str, int]] = {}
    dtypes: dict[str, dict[str, int]] = {}
    for key, spec in reader.specs.items():
        name = spec.type_name or "unknown"
        for group, member in ((kinds, reader.kinds.get(key, "variable")), (dtypes, name)):
            counts = group.setdefault(member, {"tensors": 0, "nbytes": 0})
            counts["tensors"] += 1
            counts["nbytes"] += 0 if key in reader.tied else spec.stored_nbytes or 0
    metadata = reader.facts.document()
    config = hub_config(reader.location)
    if config is not None:
        metadata["config"] = config
    return {
        "path": reader.location.path,
        "format": reader.format.name,
        "producer": metadata.pop("producer", None),
        "step": step_at(reader.location),
        "files": [_file(path) for path in reader.files()],
        "shared": [{"name": path.name, "with": names} for path, names in other_names(reader.files()).items()],
        "kinds": kinds,
        "dtypes": dtypes,
        "metadata": metadata,
    }


class Shown(NamedTuple):
    """The document of `show PATH KEY`, the statistics in it, and the pipeline of an iterator's state."""

    fields: dict[str, Any]
    statistics: Statistics | None
    pipeline: Pipeline | None


def tensor(reader: FormatReader, part: TensorSlice, max_values: int) -> Shown:
    """Return the data of `show PATH KEY`."""
    spec = part.spec._replace(shape=part.shape)
    if part.text and spec.dtype.is_unmapped:
        part.read(reader)  # raises the error: the bytes of a part are unknown
    found = statistics(part.arrays(reader), spec.dtype)
    shown = spec.dtype is not VARIANT and spec.dtype.is_mapped and spec.size <= max_values
    fields = {
        "path": reader.location.path,
        "key": part.key,
        "dtype": spec.dtype_name,
        "shape": list(part.shape),
        "nbytes": spec.nbytes,
        "kind": reader.kinds.get(part.key),
        "stats": found._asdict() if found else None,
        "values": as_json(part.read(reader), spec.dtype) if shown else None,
        **spec.stored_document,
    }
    pipeline = None
    if part.text:
        fields["slice"] = part.text
    else:
        pipeline = iterator(reader, part.key)
    if pipeline is not None:
        fields["iterator"] = _iterator(pipeline)
    return Shown(fields, found, pipeline)


LARGEST_ITERATOR = 1 << 28
"""The largest decoded state in bytes: a larger one consists mostly of buffered elements."""


def iterator(reader: FormatReader, key: str) -> Pipeline | None:
    """Return the pipeline of an iterator's state; None of everything else, and of what is not understood."""
    state = iterator_state(reader, key)
    if state is None:
        return None
    from formats.tf.run.pipeline import pipeline

    return pipeline(state)


def iterator_state(reader: FormatReader, key: str) -> State | None:
    """Return the decoded state of an iterator, or None if it is not one, or not understood."""
    spec = reader.specs[key]
    if spec.dtype is not VARIANT or len(spec.shape) != 1 or (spec.nbytes or 0) > LARGEST_ITERATOR:
        return None
    from formats.tf.run.iterator_state import decode

    elements = reader[key].read()
    try:
        return decode(elements)
    except ValueError:
        return None  # variants of another type are copied, and compared by their bytes


def _iterator(found: Pipeline) -> dict[str, Any]:
    position = found.position
    fields = None
    if position is not None:
        passes = list(position.passes)
        fields = {"passes": passes, "unit": position.unit, "next": position.element, "step": position.step}
    steps = [
        {
            "step": step.name,
            "depth": step.depth,
            "numbers": step.numbers,
            "held": [list(map(_component, element)) for element in step.held],
        }
        for step in found.steps
    ]
    return {"pipeline": str(found), "has_ended": found.has_ended, "position": fields, "steps": steps}


def _component(value: np.ndarray[Any, Any]) -> dict[str, Any]:
    dtype = from_numpy(value.dtype)
    return {"dtype": dtype.name if dtype else None, "shape": list(value.shape)}


class Histogram(NamedTuple):
    """Counts of finite values in bins of equal width from `low` to `high`."""

    low: float
    high: float
    counts: list[int]


def histogram(reader: FormatReader, part: TensorSlice, found: Statistics) -> Histogram | None:
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


def _float_arrays(reader: FormatReader, part: TensorSlice) -> Any:
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
