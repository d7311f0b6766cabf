"""How `ckpt diff --matrix` shows how far several checkpoints are apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from formats.core.words import short_names

from ..operations.compare.equal_layers import equal_layers
from ..operations.compare.gaps import gaps
from ..operations.compare.layers import MOST_ROWS, is_of_weights
from ..operations.look.listing import TOP_LEVEL
from . import base as render
from .tables import wrapped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..operations.compare.matrix import Matrix

FIELDS = ("prefix", "left", "right", "rel_l2")
"""The columns of rows for programs."""


def show(found: Matrix) -> None:
    """Print the distances of all pairs, of layers the largest, and what is equal."""
    names = short_names(found.paths)
    numbers = [str(at + 1) for at in range(len(names))]
    columns = [
        render.Column("", right=True),
        render.Column("CHECKPOINT", fold=True),
        *(render.Column(number, right=True, worth=-at) for at, number in enumerate(numbers)),
    ]
    rows = [
        [
            numbers[at],
            render.escape(name),
            *("-" if at == to else percent(cell) for to, cell in enumerate(row)),
        ]
        for at, (name, row) in enumerate(zip(names, found.rel_l2, strict=True))
    ]
    render.table(columns, rows)
    what = "weights, without optimizer slots and other state" if found.of_weights else "tensors"
    about = f"||row - column|| / ||column||, of floating-point {what}"
    render.lines([*(render.styled(line, dim=True) for line in wrapped(about, render.room())), ""])
    _layers(found, numbers)
    for sentence in (*gaps(found), *equal_layers(found)):
        render.lines(wrapped(render.escape(sentence), render.room()))


def _layers(found: Matrix, numbers: Sequence[str]) -> None:
    """Print by layer which pair is the farthest apart."""
    farthest = []
    for group in found.blocks:
        cells = [
            (cell, at, to)
            for at, row in enumerate(group.rel_l2)
            for to, cell in enumerate(row)
            if cell is not None and at != to
        ]
        cell, at, to = max(cells, key=lambda each: (_size(each[0]), -each[1], -each[2]))
        farthest.append((_size(cell), group.prefix, cell, f"{numbers[at]}, {numbers[to]}" if cell else "-"))
    farthest.sort(key=lambda each: (not is_of_weights(each[1]), -each[0]))
    others = sum(not is_of_weights(prefix) for _, prefix, _, _ in farthest)
    columns = [
        render.Column("LAYER", fold=True),
        render.Column("FARTHEST", right=True),
        render.Column("PAIR", worth=0, spare=True),
    ]
    rows = [[render.escape(prefix or TOP_LEVEL), percent(cell), pair] for _, prefix, cell, pair in farthest]
    layers = rows[: len(rows) - others]
    render.table(columns, [*layers[:MOST_ROWS], *rows[len(layers) :]])
    render.note_hidden_rows(len(layers) - MOST_ROWS, "layer")


def percent(number: float | None) -> str:
    """Return a distance in percent; `none` where there is none."""
    if number is None or not math.isfinite(number):
        return str(number).lower()
    return f"{100 * number:.3g}%"


def _size(number: float) -> float:
    return math.inf if math.isnan(number) else number
