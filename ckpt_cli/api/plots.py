"""Plots of results: as SVG, which a notebook shows without a library, or drawn by matplotlib."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.escape import escape as spelled

from ..render.tables import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Bars", "Lines", "draw", "svg"]

_INK, _WIDE, _TALL, _LONGEST_BAR = "#4a7bd6", 420, 130, 160
_MOST_BARS, _ROW, _NAME, _LETTERS = 12, 18, 390, 56
_TEXT = 'fill="currentColor" font-family="monospace" font-size="11"'


class Lines(NamedTuple):
    """A curve; a value that is unknown or not finite is left out."""

    title: str
    xs: Sequence[float]
    ys: Sequence[float | None]

    @property
    def points(self) -> list[tuple[float, float]]:
        pairs = zip(self.xs, self.ys, strict=True)
        return [(x, y) for x, y in pairs if y is not None and math.isfinite(y)]


class Bars(NamedTuple):
    """Values by name, those that are drawn first."""

    title: str
    rows: Sequence[tuple[str, float]]
    labels: Sequence[str]

    @property
    def shown(self) -> list[tuple[str, float, str]]:
        """The first rows, with their labels."""
        first = zip(self.rows, self.labels, strict=True)
        return [(name, value, label) for (name, value), label in first][:_MOST_BARS]


Plot = Lines | Bars


def svg(plots: Sequence[Plot]) -> str:
    """Return plots as SVG elements; those with nothing to draw are left out."""
    drawn = [_bars(plot) if isinstance(plot, Bars) else _lines(plot) for plot in plots]
    return "".join(drawn)


def _frame(title: str, width: float, height: float, inside: str) -> str:
    name = escape(spelled(title))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{name}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )
    return f'{head}<text x="0" y="12" {_TEXT}>{name}</text>{inside}</svg>'


def _lines(plot: Lines) -> str:
    points = plot.points
    if len(points) < 2:
        return ""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    left, top, right, bottom = 70, 24, _WIDE - 8, _TALL - 18

    def place(value: float, values: Sequence[float], start: float, end: float) -> float:
        low, high = min(values), max(values)
        return start + (end - start) * ((value - low) / (high - low) if high > low else 0.5)

    path = " ".join(f"{place(x, xs, left, right):.1f},{place(y, ys, bottom, top):.1f}" for x, y in points)
    labels = "".join(
        f'<text x="{left - 6}" y="{at + 4}" text-anchor="end" {_TEXT}>{value:.5g}</text>'
        for value, at in ((max(ys), top), (min(ys), bottom))
    )
    ends = (
        f'<text x="{left}" y="{_TALL - 4}" {_TEXT}>{min(xs):g}</text>'
        f'<text x="{right}" y="{_TALL - 4}" text-anchor="end" {_TEXT}>{max(xs):g}</text>'
    )
    line = f'<polyline points="{path}" fill="none" stroke="{_INK}" stroke-width="1.6"/>'
    return _frame(plot.title, _WIDE, _TALL, labels + ends + line)


def _bars(plot: Bars) -> str:
    shown = plot.shown
    if not shown:
        return ""
    most = max((value for _, value, _ in shown if math.isfinite(value)), default=0.0)
    inside = ""
    for at, (name, value, label) in enumerate(shown):
        y = 24 + at * _ROW
        share = min(value / most, 1.0) if most and math.isfinite(value) else float(not math.isfinite(value))
        width = max(1.0, share * _LONGEST_BAR)
        name_label = escape(cut(spelled(name), _LETTERS))
        inside += (
            f'<text x="{_NAME - 6}" y="{y + 10}" text-anchor="end" {_TEXT}>{name_label}</text>'
            f'<rect x="{_NAME}" y="{y}" width="{width:.1f}" height="{_ROW - 5}" fill="{_INK}"/>'
            f'<text x="{_NAME + width + 6:.1f}" y="{y + 10}" {_TEXT}>{escape(label)}</text>'
        )
    more = len(plot.rows) - len(shown)
    title = f"{plot.title}, {more:,} more not shown" if more else plot.title
    return _frame(title, _NAME + _LONGEST_BAR + 70, 24 + len(shown) * _ROW, inside)


def draw(plots: Sequence[Plot], axes: Any = None) -> Any:
    """Draw plots with matplotlib, and return their axes: one each, or `axes` for the first plot alone.

    Raises ImportError if matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        message = "plot() needs matplotlib; to install it: python -m pip install matplotlib"
        raise ImportError(message, name="matplotlib") from error
    if axes is not None:
        places = [axes]
    else:
        figure, found = plt.subplots(
            1, max(len(plots), 1), squeeze=False, figsize=(5.5 * max(len(plots), 1), 3.5)
        )
        figure.set_layout_engine("constrained")
        places = list(found[0])
    for plot, place in zip(plots, places, strict=False):
        place.set_title(spelled(plot.title))
        if isinstance(plot, Lines):
            place.plot([x for x, _ in plot.points], [y for _, y in plot.points], marker=".")
        else:
            shown = plot.shown[::-1]
            place.barh(
                [cut(spelled(name), _LETTERS) for name, _, _ in shown], [value for _, value, _ in shown]
            )
    return places[0] if axes is not None or len(places) == 1 else places
