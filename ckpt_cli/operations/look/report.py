"""The data of a page about a checkpoint: its tensors in columns, the drawn ones, its object graph.

Columns, because a page holds a hundred thousand tensors: keys, dtypes and shapes are spelled once.
A number is given with eight digits, which is more than a page shows and what float32 has.
"""

from __future__ import annotations

import base64
import math
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.spec import KINDS

from ..graph.folding import foldable
from ..graph.tree import graph_nodes, span
from ..graph.trees import tree_nodes
from ..select.selection import Selection, choose
from .flaws import Flaws
from .listing import Tensors, separator_of, total
from .show import summary
from .sketch import CELLS, look_at
from .stats import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers

    from .sketch import HeatMap, Sketch, StreamingHistogram


MOST_DRAWN = 500
"""Tensors that are drawn unless others are chosen by name: the largest."""

_ALL_CELLS = 500 * CELLS
"""Cells of all heat maps of a page together: three megabytes."""

_FEWEST_CELLS = 64


class Page(NamedTuple):
    """The data of a page, and why some of it could not be read."""

    document: dict[str, Any]
    flaws: Flaws


def number(value: float | None) -> float | int | str | None:
    """Return a number as a page has it: eight digits, whole ones as they are, text where JSON has none."""
    if value is None or isinstance(value, int):
        return value
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return float(f"{value:.8g}")


def checkpoint(
    reader: FormatReader,
    matches: Sequence[str] = (),
    *,
    workers: Workers,
    advance: Callable[[int], None] = lambda _: None,
) -> Page:
    """Return the page's data about a checkpoint; `matches` are patterns of tensors to draw.

    Raises NothingSelectedError if one of them matches nothing. Damaged tensors are reported.
    """
    specs = list(reader.specs.values())
    keys = [spec.key for spec in specs]
    drawn = drawn_keys(reader, specs, matches)
    columns: dict[str, list[Any]] = {name: [] for name in Statistics._fields}
    nothing = [None] * len(columns)
    sketches: dict[int, dict[str, Any]] = {}
    broken: dict[int, str] = {}
    flaws = Flaws()
    with closing(look_at(reader, keys, drawn, cells_of(len(drawn)), workers)) as found:
        for at, (_, looked) in enumerate(found):
            for column, value in zip(columns.values(), looked.statistics or nothing, strict=True):
                column.append(number(value))
            if looked.flaw is not None:
                broken[at] = str(looked.flaw)
                flaws.add(looked.flaw)
            if looked.sketch is not None:
                sketches[at] = sketch_document(looked.sketch)
            advance(specs[at].nbytes or 0)
    document = {
        **about(reader),
        "tensors": {**spec_columns(reader, specs), "statistics": columns},
        "matches": list(matches),
        "sketches": sketches,
        "broken": broken,
        "graph": _graph(reader, {key: at for at, key in enumerate(keys)}),
    }
    return Page({"what": "checkpoint", **document}, flaws)


def drawn_keys(reader: FormatReader, specs: Iterable[TensorSpec], matches: Sequence[str]) -> set[str]:
    """Return the keys of the tensors that are drawn: the largest of those given, and those that match."""
    numbers = [spec for spec in specs if spec.dtype.is_number]
    largest = sorted(numbers, key=lambda spec: -(spec.nbytes or 0))[:MOST_DRAWN]
    chosen = choose(reader, Selection(keep=tuple(matches))) if matches else []
    return {spec.key for spec in largest} | set(chosen)


def cells_of(count: int) -> int:
    """Return how many cells a heat map has, where there are so many of them."""
    return min(CELLS, max(_FEWEST_CELLS, _ALL_CELLS // max(1, count)))


def about(reader: FormatReader) -> dict[str, Any]:
    """Return what a checkpoint is: what `show` prints of it, and what reading it came across."""
    found = summary(reader)
    return {
        **{name: found[name] for name in ("path", "format", "producer", "step", "files", "kinds", "dtypes")},
        "name": reader.location.name,
        "title": reader.format.title,
        "has_checksums": reader.has_checksums,
        "metadata": {name: value for name, value in found["metadata"].items() if _is_short(value)},
        "findings": [finding.text for finding in reader.findings],
        "missing": reader.missing_files(),
        "total": total(Tensors(reader, next(reader.columns()))),
    }


def _is_short(value: object) -> bool:
    return isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) <= 200)


def spec_columns(reader: FormatReader, specs: Sequence[TensorSpec]) -> dict[str, Any]:
    """Return tensors in columns: a name is null where it is the key, a spec the number of one of `specs`."""
    known: dict[tuple[str | None, tuple[int, ...]], int] = {}
    paths, kinds = reader.object_paths, reader.kinds
    names, numbers, sizes, sorts = [], [], [], []
    for spec in specs:
        path = paths.get(spec.key)
        names.append(path if path != spec.key else None)
        numbers.append(known.setdefault((spec.type_name, spec.shape), len(known)))
        sizes.append(spec.nbytes)
        kind = kinds.get(spec.key)
        sorts.append(KINDS.index(kind) if kind is not None else -1)
    return {
        "keys": [spec.key for spec in specs],
        "names": names,
        "separator": separator_of(spec.key for spec in specs),
        "specs": [[dtype, list(shape)] for dtype, shape in known],
        "spec": numbers,
        "nbytes": sizes,
        "kinds": KINDS,
        "kind": sorts,
    }


def sketch_document(sketch: Sketch) -> dict[str, Any]:
    """Return what is drawn of a tensor."""
    return {
        "histogram": _histogram(sketch.histogram) if sketch.histogram is not None else None,
        "heat": _heat(sketch.heat) if sketch.heat is not None else None,
    }


def _histogram(found: StreamingHistogram) -> dict[str, Any]:
    return {"first": found.first, "width": found.width, "counts": found.counts}


def _heat(found: HeatMap) -> dict[str, Any]:
    cells = base64.b64encode(found.cells).decode()
    return {**found._asdict(), "scale": number(found.scale), "cells": cells}


def _graph(reader: FormatReader, numbers: dict[str, int]) -> dict[str, Any] | None:
    """Return the object graph, or the tree of arrays, and of each node its tensors."""
    graph = reader.object_graph
    if graph is None and not reader.format.is_tree:
        return None
    nodes = tree_nodes(reader) if graph is None else graph_nodes(reader, graph)
    return {
        **foldable(nodes, span(nodes)),
        "tensors": [[numbers[key] for key in node.keys] for node in nodes],
    }
