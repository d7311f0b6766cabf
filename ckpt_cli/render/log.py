"""The output of `ckpt log`: one line per checkpoint, curves below, and anomalies."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from . import base as render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..operations.runs.curves import Curve
    from ..operations.runs.log import LogRow


_TSV = ("name", "step", "modified", "changed", "unchanged", "l2", "nan", "loss")
_TICKS = "▁▂▃▄▅▆▇█"
_GAP = "·"
"""Stands for a number that is NaN or infinite."""

_WIDEST = 60
_MOST_LISTED = 5


def tsv_row(row: LogRow) -> list[object]:
    return [getattr(row, name) for name in _TSV]


def sparkline(values: Sequence[float], width: int = _WIDEST) -> str:
    """Return numbers as a line of bars, `width` of them at most: of what falls together, the mean."""
    count = min(len(values), width)
    bounds = [len(values) * at // count for at in range(count + 1)] if count else []
    means = [_mean(values[start:stop]) for start, stop in pairwise(bounds)]
    known = [mean for mean in means if mean is not None]
    if not known:
        return _GAP * count
    # Halves, since the distance between two floats can be more than a float holds.
    low, span = min(known) / 2, max(known) / 2 - min(known) / 2
    top = len(_TICKS) - 1
    heights = [None if mean is None else (mean / 2 - low) / span if span else 0.5 for mean in means]
    return "".join(_GAP if height is None else _TICKS[round(height * top)] for height in heights)


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean, divided before it is summed so that it is finite where all values are."""
    if not all(map(math.isfinite, values)):
        return None
    return math.fsum(value / len(values) for value in values)


def _columns(curve: Curve, *, has_metrics: bool = False) -> list[render.Column]:
    columns = [render.Column("NAME", fold=True), render.Column("STEP", right=True, worth=2)]
    columns.append(render.Column("MODIFIED", worth=0))
    number = render.escape(curve.tag.upper()) if curve.steps else "LOSS"
    worths = {"CHANGED": 1, "L2": 3, "NAN": None, number: 4 if curve.steps else -1}
    columns += [render.Column(name, right=True, worth=worth) for name, worth in worths.items()]
    columns += [render.Column("METRICS", worth=0)] if has_metrics else []
    return [*columns, render.Column("")]


class LinePrinter:
    """Prints a line for each checkpoint as it comes; the heading once, as wide as most lines will be."""

    _TYPICAL = (
        "model.ckpt-1000000",
        "1000000",
        "2026-01-31 12:00",
        "100%  1,000/1,000",
        "12345.6",
        "0",
        "0.12345",
    )

    def __init__(self) -> None:
        self._columns: list[render.Column] = []
        self._places: list[int] = []
        self._last: list[str] = []

    def show(self, row: LogRow, curve: Curve) -> None:
        """Print the line of a checkpoint; one with NaN says where the first is."""
        *cells, note = _cells(row, None)
        if row.first_nan is not None:
            note = f"NaN in {render.escape(row.first_nan)}"
        is_first = not self._columns
        if is_first:
            self._choose(_columns(curve)[:-1], cells)
        cells = [cells[at] for at in self._places]
        # Aligned with a line of typical width, so that all lines align from the first on.
        typical = [self._TYPICAL[at] for at in self._places]
        laid = render.laid_out(self._columns, [typical, *([self._last] if self._last else []), cells])
        self._last = cells
        if is_first and laid.heading is not None:
            render.lines([render.styled(laid.heading, bold=True)])
        *_, lines = laid.rows
        style: dict[str, Any] = {"fg": "red", "bold": True} if row.format is None or row.nan else {}
        if note:
            fits = render.width(f"{lines[-1]}  {note}") <= render.room()
            lines = [*lines[:-1], f"{lines[-1]}  {note}"] if fits else [*lines, f"    {note}"]
        render.lines(render.styled(line, **style) for line in lines)

    def _choose(self, columns: list[render.Column], cells: list[str]) -> None:
        """Choose the columns for all lines, which have one heading."""
        left_out = render.laid_out(columns, [self._TYPICAL, cells]).left_out
        self._places = [at for at, column in enumerate(columns) if column.name not in left_out]
        self._columns = [columns[at]._replace(worth=None, spare=False) for at in self._places]


def show(rows: list[LogRow], latest: str | None, curve: Curve, frozen: Sequence[str]) -> None:
    """Print the run as a table, curves and remarks."""
    styles = [
        "red" if row.format is None or row.nan else "green" if row.name == latest else "" for row in rows
    ]
    has_metrics = any(row.metrics for row in rows)
    lines = [_cells(row, latest, has_metrics=has_metrics) for row in rows]
    render.table(_columns(curve, has_metrics=has_metrics), lines, styles)
    _curves(rows, curve)
    first = next((row for row in rows if row.first_nan is not None), None)
    if first is not None:
        text = f"first NaN: {first.name}: {first.first_nan}"
        render.lines([render.styled(render.escape(text), fg="red", bold=True)])
    if frozen:
        more = f" and {len(frozen) - _MOST_LISTED:,} more" if len(frozen) > _MOST_LISTED else ""
        render.lines([f"frozen: {', '.join(map(render.escape, frozen[:_MOST_LISTED]))}{more}"])


def _cells(row: LogRow, latest: str | None, *, has_metrics: bool = False) -> list[str]:
    metrics = ", ".join(f"{render.escape(name)} {value:.5g}" for name, value in (row.metrics or {}).items())
    return [
        render.escape(row.name),
        "" if row.step is None else str(row.step),
        (row.modified or "")[:16].replace("T", " "),
        _share(row),
        _number(row.l2),
        "" if row.nan is None else f"{row.nan:,}",
        _number(row.loss),
        *[metrics][:has_metrics],
        "damaged" if row.format is None else "latest" if row.name == latest else "",
    ]


def _share(row: LogRow) -> str:
    """Return how many of the tensors changed, as `75%  3/4`."""
    if row.changed is None or row.unchanged is None:
        return ""
    count = row.changed + row.unchanged
    return f"{row.changed * 100 // count}%  {row.changed:,}/{count:,}" if count else "?"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def _curves(rows: list[LogRow], curve: Curve) -> None:
    norms = [row.l2 for row in rows if row.l2 is not None]
    found: list[tuple[str, Sequence[float], str]] = []
    if len(norms) > 1:
        found.append(("l2", norms, ""))
    moving = [row.untrained_l2 for row in rows if row.untrained_l2 is not None]
    if len(moving) > 1:
        found.append(("moving statistics, l2", moving, ""))
    if len(curve.values) > 1:
        found.append((curve.tag, curve.values, f"  steps {curve.steps[0]} to {curve.steps[-1]}"))
    if not found or not _has_bars():
        return
    found = [(render.escape(name), values, more) for name, values, more in found]
    width = max(render.width(name) for name, _, _ in found)
    render.lines(
        f"{render.pad(name, width)}  {sparkline(values)}  {values[0]:.5g} to {values[-1]:.5g}{more}"
        for name, values, more in found
    )


def _has_bars() -> bool:
    """Whether the terminal can show them."""
    encoding: Any = sys.stdout.encoding or "ascii"
    try:
        (_TICKS + _GAP).encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
