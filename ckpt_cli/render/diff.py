"""The output of `ckpt diff`: by layer, the largest change first, or one line per tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from formats.core.words import counted, natural_order

from ..operations.compare.diff import MEASURES
from ..operations.compare.layers import MOST_ROWS, blocks, is_of_weights, layer_and_leaf
from ..operations.compare.ranking import (
    distance_rank,
    is_floating,
    is_weight,
    largest_magnitude,
    layer_weight,
    magnitude,
    norms_of_changed,
    weight,
)
from ..operations.look.listing import TOP_LEVEL
from . import base as render
from .tables import Column, lay_out, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from formats import TensorSpec

    from ..operations.compare.diff import Diff, DiffEntry


_MARKS = {"added": "+", "removed": "-", "renamed": ">", "shape": "!", "dtype": "!", "value": "~", "same": "="}
_STYLES: dict[str, dict[str, Any]] = {
    "added": {"fg": "green"},
    "removed": {"fg": "red"},
    "renamed": {"fg": "cyan"},
    "shape": {"fg": "magenta"},
    "dtype": {"fg": "magenta"},
    "value": {"fg": "yellow"},
    "same": {"dim": True},
}
_BAR, _SHORTEST_STAT, _LONGEST_STAT = 12, 10, 50
"""Characters of the longest bar: of a table; of `--stat` in a narrow terminal and in a wide one."""
_STAT = (Column("", fold=True),)


# For programs -------------------------------------------------------------------


FIELDS = (
    *("change", "key", "from", "left_dtype", "left_shape", "right_dtype", "right_shape"),
    *MEASURES,
)
"""The columns of `row`."""


def row(entry: DiffEntry) -> list[object]:
    """Return TSV: change, key, left key if another, both dtypes and shapes, and how far values are apart.

    That is max_abs, max_rel, differing, rel_l2 and cosine.
    """
    specs = [*_spec_cells(entry.left), *_spec_cells(entry.right)]
    return [entry.change, entry.key, entry.source, *specs, *entry.measures]


def _spec_cells(spec: TensorSpec | None) -> list[object]:
    if spec is None:
        return [None, None]
    return [spec.dtype_name, ",".join(map(str, spec.shape))]


def stat_row(entry: DiffEntry) -> list[object]:
    """Return TSV: elements changed, elements there are, change, key."""
    return [_changed(entry), _size(entry), entry.change, entry.key]


def _size(entry: DiffEntry) -> int:
    return max(spec.size for spec in (entry.left, entry.right) if spec is not None)


def _changed(entry: DiffEntry) -> int | None:
    """Return how many elements changed: all of what was added, removed or has another shape or dtype."""
    if entry.change == "value":
        return entry.difference.differing
    return 0 if entry.change in ("same", "renamed") else _size(entry)


# For people ---------------------------------------------------------------------


_COLUMNS = (
    Column("", fold=True),
    Column(""),
    Column("", prose=True),
    Column("cos", worth=6),
    Column("bars", worth=3, spare=True),
    Column("max", worth=4, spare=True),
    Column("max rel", worth=2, spare=True),
    Column("differing", worth=1, spare=True),
)
"""Of a change: its tensor, dtype and shape, what it is or how far values are apart, in how many elements."""

_SAME_SPECS = (_COLUMNS[0], Column("", worth=5, spare=True), *_COLUMNS[2:])
"""The columns if only values changed: how far they are apart matters more than dtypes and shapes."""

_LAYERS = (
    Column("LAYER", fold=True),
    Column("REL", right=True),
    Column("COSINE", right=True, worth=2),
    Column("CHANGED", right=True, worth=1, spare=True),
    Column("", worth=0, spare=True),
)
_APART = "; layers have only weights, and names in parentheses are kinds of other tensors"


def by_layer(entries: list[DiffEntry], names: Mapping[str, str]) -> None:
    """Print how far layers are apart, then their changes, the layer of the largest change first."""
    groups: dict[str, list[tuple[str, DiffEntry]]] = {}
    for entry in entries:
        layer, leaf = layer_and_leaf(names.get(entry.key, entry.key), entry.kind)
        groups.setdefault(layer, []).append((leaf, entry))
    for members in groups.values():
        members.sort(key=lambda member: natural_order(member[0]))
        members.sort(key=lambda member: weight(member[1]), reverse=True)
    _layer_table({layer: [entry for _, entry in members] for layer, members in groups.items()})
    largest = _scales(entries)
    named = sorted(groups.items(), key=lambda group: natural_order(group[0]))
    ordered = sorted(named, key=lambda group: layer_weight(entry for _, entry in group[1]), reverse=True)
    shown = [member for _, members in ordered for member in members]
    cells = [_cells(f"  {_mark(entry, leaf)}", entry, largest[is_weight(entry)]) for leaf, entry in shown]
    laid = render.laid_out(_columns(entries), cells)
    for layer, members in ordered:
        render.title(layer or TOP_LEVEL)
        for (_, entry), row in zip(members, laid.rows, strict=False):
            render.lines([render.styled(line.rstrip(), **_style(entry)) for line in row])
    render.note_hidden_columns(laid)


def _scales(entries: Sequence[DiffEntry]) -> dict[bool, float]:
    """Return the distance that fills a bar: of weights, and of tensors of other kinds."""
    return {
        are_weights: largest_magnitude(entry for entry in entries if is_weight(entry) is are_weights)
        for are_weights in (True, False)
    }


def largest_first(entries: Iterable[DiffEntry]) -> list[DiffEntry]:
    """Return the largest changes first; of changed values, those of weights before others."""
    return sorted(entries, key=weight, reverse=True)


def in_order(entries: list[DiffEntry], names: Mapping[str, str]) -> None:
    """Print changes in the order that they have, a line each."""
    largest = largest_magnitude(entries)
    cells = [_cells(_mark(entry, names.get(entry.key, entry.key)), entry, largest) for entry in entries]
    laid = render.laid_out(_columns(entries), cells)
    for entry, row in zip(entries, laid.rows, strict=False):
        render.lines([render.styled(line.rstrip(), **_style(entry)) for line in row])
    render.note_hidden_columns(laid)


def _columns(entries: Iterable[DiffEntry]) -> Sequence[Column]:
    return _SAME_SPECS if all(entry.change in ("value", "same") for entry in entries) else _COLUMNS


def _layer_table(groups: Mapping[str, list[DiffEntry]]) -> None:
    """Print how far changed values of each layer are apart, the farthest first; of one, its tensors do."""
    found = {layer: norms_of_changed(entries) for layer, entries in groups.items()}
    rows_of = blocks([layer for layer, norms in found.items() if norms is not None])
    merged: dict[str, list[DiffEntry]] = {}
    for layer, row in rows_of.items():
        merged.setdefault(row, []).extend(groups[layer])
    known = {layer: norms for layer, some in merged.items() if (norms := norms_of_changed(some)) is not None}
    if len(known) < 2:
        return
    ordered = sorted(known, key=natural_order)
    ordered.sort(key=lambda layer: distance_rank(known[layer].relative), reverse=True)
    layers, others = ([each for each in ordered if is_of_weights(each) is what] for what in (True, False))
    most = max(
        (far for each in layers if math.isfinite(far := distance_rank(known[each].relative))), default=0.0
    )
    rows = [
        [
            render.escape(layer or TOP_LEVEL),
            _percent(known[layer].relative),
            _cosine(known[layer].cosine),
            str(sum(entry.change == "value" for entry in merged[layer])),
            _bar(distance_rank(known[layer].relative), most) if is_of_weights(layer) else "",
        ]
        for layer in [*layers[:MOST_ROWS], *others]
    ]
    render.table(_LAYERS, rows)
    if len(layers) > MOST_ROWS:
        render.lines([f"and {counted(len(layers) - MOST_ROWS, 'more layer')}"])
    about = "REL: ||left - right|| / ||right|| of changed tensors"
    render.lines(wrapped(about + (_APART if layers and others else ""), render.room()))
    render.lines([""])


def _style(entry: DiffEntry) -> dict[str, Any]:
    """Return the colour of a change; red and bold where NaN or infinity came or went."""
    gone_bad = entry.change == "value" and not math.isfinite(entry.difference.max_abs or 0.0)
    return {"fg": "red", "bold": True} if gone_bad else _STYLES[entry.change]


def _mark(entry: DiffEntry, name: str) -> str:
    return f"{_MARKS[entry.change]} {render.escape(name)}"


def _cells(name: str, entry: DiffEntry, largest: float) -> list[str]:
    return [name, _specs(entry), *(_change_text(entry, largest) + [""] * 5)[:6]]


def _change_text(entry: DiffEntry, largest: float) -> list[str]:
    """Return what became of a tensor: in words, or how far values are apart."""
    found = entry.difference
    if entry.change == "renamed" or (entry.source and entry.change == "same"):
        return [f"from {render.escape(entry.source or '')}"]
    if entry.apart is not None:
        return [render.escape(entry.apart)]
    if entry.change != "value":
        return [entry.change]
    if found.differing is None:
        return [entry.unknown_reason]
    count = f"{found.differing:,} of {_size(entry):,}"
    if found.max_abs is None or found.max_rel is None:
        return [count]
    return [
        f"rel {_percent(found.rel_l2)}" if found.norms else "value",
        f"cos {_cosine(found.cosine)}" if found.norms else "",
        _bar(magnitude(entry), largest),
        f"max {found.max_abs:.3g}",
        f"max rel {found.max_rel:.3g}",
        count,
    ]


def _percent(number: float | None) -> str:
    if number is None or not math.isfinite(number):
        return "?" if number is None else str(number)
    return f"{100 * number:.3g}%"


def _cosine(number: float | None) -> str:
    """Return a cosine with as many digits as tell it from 1."""
    if number is None:
        return "-"
    if number != number or number == 1:  # noqa: PLR0124  NaN
        return f"{number:g}"
    apart = max(1 - abs(number), 1e-15)
    return f"{number:.{max(4, 1 - math.floor(math.log10(apart)))}f}"


def _bar(size: float, largest: float) -> str:
    share = 1.0 if not math.isfinite(size) else size / largest if largest else 0.0
    return "█" * max(int(size > 0), round(share * _BAR))


def _specs(entry: DiffEntry) -> str:
    """Return `float32 [3, 4]`, or what became of it: `float32 -> float16 [3, 4]`."""
    sides = [spec for spec in (entry.left, entry.right) if spec is not None]
    dtypes = list(dict.fromkeys(spec.type_name or "?" for spec in sides))
    shapes = list(dict.fromkeys(str(list(spec.shape)) for spec in sides))
    return f"{' -> '.join(dtypes)} {' -> '.join(shapes)}"


def stat(entries: list[DiffEntry], names: Mapping[str, str]) -> None:
    """Print one line per tensor, as `git diff --stat` does for files, with the distance as a bar."""
    if not entries:
        return
    labels = [render.escape(names.get(entry.key, entry.key)) for entry in entries]
    texts = [_stat_text(entry) for entry in entries]
    digits = max(map(len, texts))
    beside = digits + len(" ") + len(" | ") + len(" ")
    # A name that leaves no room for the shortest bar is shortened, or has its own line, as in tables.
    rows = [*lay_out(_STAT, [[label] for label in labels], render.room() - beside - _SHORTEST_STAT).rows]
    width = max(render.width(row[-1]) for row in rows)
    room = min(_LONGEST_STAT, max(_SHORTEST_STAT, render.room() - width - beside))
    most = largest_magnitude(entries)
    for entry, row, text in zip(entries, rows, texts, strict=True):
        size = magnitude(entry)
        length = room if not math.isfinite(size) else math.ceil(size / most * room) if most else 0
        bar = render.styled(_MARKS[entry.change] * (length or 1), **_STYLES[entry.change])
        render.lines([*row[:-1], f" {render.pad(row[-1], width)} | {text.rjust(digits)} {bar}"])


def _stat_text(entry: DiffEntry) -> str:
    """Return how far values are apart; where that is not known, or no float, how many elements changed."""
    if entry.change == "value" and entry.difference.norms is not None and is_floating(entry):
        return _percent(entry.difference.rel_l2)
    count = _changed(entry)
    return "?" if count is None else f"{count:,}"


def summary_line(found: Diff) -> None:
    """Print how many tensors had which fate."""
    style = {"changed": "value"}
    parts = [render.styled(words, **_STYLES[style.get(name, name)]) for name, _, words in found.counts]
    render.lines([", ".join(parts)])
