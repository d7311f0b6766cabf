"""How `ckpt diff` shows what changed: by layer, the largest change first, or a line a tensor."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from formats.core.words import natural_order

from ..operations.look.listing import split_layer
from . import base as render
from .tables import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
_WEIGHTS = {"shape": 5, "dtype": 4, "removed": 3, "added": 3, "value": 2, "renamed": 1, "same": 0}
"""What to look at first: what keeps a checkpoint from being restored comes before what training does."""

_BAR, _LONGEST_STAT = 12, 50
"""Characters of the longest bar."""
_TOP_LEVEL = "(top level)"


# For programs -------------------------------------------------------------------


def row(entry: DiffEntry) -> list[object]:
    """Return TSV: change, key, left key if another, both dtypes and shapes, max_abs, max_rel, differing."""
    specs = [*_spec_cells(entry.left), *_spec_cells(entry.right)]
    found = entry.difference
    return [entry.change, entry.key, entry.source, *specs, found.max_abs, found.max_rel, found.differing]


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
    Column("max", worth=2),
    Column("rel", worth=1),
    Column("bars", worth=0),
)
"""Of a change: its tensor, dtype and shape, how much differs, how far."""


def by_layer(entries: list[DiffEntry], names: Mapping[str, str]) -> None:
    """Print changes grouped by layer, the layer of the largest change first."""
    groups: dict[str, list[tuple[str, DiffEntry]]] = {}
    for entry in entries:
        layer, leaf = split_layer(names.get(entry.key, entry.key))
        groups.setdefault(layer, []).append((leaf, entry))
    for members in groups.values():
        members.sort(key=lambda member: natural_order(member[0]))
        members.sort(key=lambda member: _weight(member[1]), reverse=True)
    largest = _largest(entries)
    named = sorted(groups.items(), key=lambda group: natural_order(group[0]))
    ordered = sorted(named, key=lambda group: _weight(group[1][0][1]), reverse=True)
    cells = [_cells(leaf, entry, largest) for _, members in ordered for leaf, entry in members]
    laid = render.laid_out(_COLUMNS, cells)
    for layer, members in ordered:
        render.title(layer or _TOP_LEVEL)
        for (_, entry), row in zip(members, laid.rows, strict=False):
            render.lines([render.styled(line.rstrip(), **_style(entry)) for line in row])
    render.say_left_out(laid)


def _style(entry: DiffEntry) -> dict[str, Any]:
    """Return the colour of a change; red and bold where NaN or infinity came or went."""
    gone_bad = entry.change == "value" and not math.isfinite(entry.difference.max_abs or 0.0)
    return {"fg": "red", "bold": True} if gone_bad else _STYLES[entry.change]


def _magnitude(entry: DiffEntry) -> float:
    """Return how much a value changed: infinitely where NaN came or went, not at all as a counter counts."""
    found = entry.difference.max_abs
    if found is None or entry.right is None or entry.right.dtype.family not in ("float", "complex"):
        return 0.0
    return math.inf if math.isnan(found) else found


def _weight(entry: DiffEntry) -> tuple[int, float]:
    return _WEIGHTS[entry.change], _magnitude(entry) if entry.change == "value" else 0.0


def _largest(entries: Iterable[DiffEntry]) -> float:
    sizes = (_magnitude(entry) for entry in entries if entry.change == "value")
    return max((size for size in sizes if math.isfinite(size)), default=0.0)


def _cells(leaf: str, entry: DiffEntry, largest: float) -> list[str]:
    mark = f"  {_MARKS[entry.change]} {render.escape(leaf)}"
    found = entry.difference
    if entry.change == "renamed" or (entry.source and entry.change == "same"):
        return [mark, _specs(entry), f"from {render.escape(entry.source or '')}", "", "", ""]
    if entry.apart is not None:
        return [mark, _specs(entry), render.escape(entry.apart), "", "", ""]
    if entry.change != "value":
        return [mark, _specs(entry), entry.change, "", "", ""]
    if found.differing is None:
        return [mark, _specs(entry), entry.untold, "", "", ""]
    count = f"{found.differing:,} of {_size(entry):,}"
    if found.max_abs is None or found.max_rel is None:
        return [mark, _specs(entry), count, "", "", ""]
    return [
        mark,
        _specs(entry),
        count,
        f"max {found.max_abs:.3g}",
        f"rel {found.max_rel:.3g}",
        _bar(entry, largest),
    ]


def _bar(entry: DiffEntry, largest: float) -> str:
    size = _magnitude(entry)
    share = 1.0 if not math.isfinite(size) else size / largest if largest else 0.0
    return "█" * max(int(size > 0), round(share * _BAR))


def _specs(entry: DiffEntry) -> str:
    """Return `float32 [3, 4]`, or what became of it: `float32 -> float16 [3, 4]`."""
    sides = [spec for spec in (entry.left, entry.right) if spec is not None]
    dtypes = list(dict.fromkeys(spec.type_name or "?" for spec in sides))
    shapes = list(dict.fromkeys(str(list(spec.shape)) for spec in sides))
    return f"{' -> '.join(dtypes)} {' -> '.join(shapes)}"


def stat(entries: list[DiffEntry], names: Mapping[str, str]) -> None:
    """Print a line a tensor, as `git diff --stat` does for files: elements changed, in a bar."""
    if not entries:
        return
    labels = [render.escape(names.get(entry.key, entry.key)) for entry in entries]
    counts = [_changed(entry) for entry in entries]
    texts = ["?" if count is None else f"{count:,}" for count in counts]
    width, digits = max(map(render.width, labels)), max(map(len, texts))
    room = min(_LONGEST_STAT, max(10, render.room() - width - digits - 6))
    most = max((count or 0 for count in counts), default=0)
    for entry, label, count, text in zip(entries, labels, counts, texts, strict=True):
        length = math.ceil((count or 0) / most * room) if most else 0
        bar = render.styled(_MARKS[entry.change] * (length or 1), **_STYLES[entry.change])
        render.lines([f" {render.pad(label, width)} | {text.rjust(digits)} {bar}"])


def summary_line(found: Diff) -> None:
    """Print how many tensors had which fate."""
    style = {"changed": "value"}
    parts = [render.styled(words, **_STYLES[style.get(name, name)]) for name, _, words in found.counts]
    render.lines([", ".join(parts)])
