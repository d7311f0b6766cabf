"""The data of a page about several checkpoints: their distances, and a column of tensors for each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from formats.core.words import first_of, short_names
from formats.model.checkpoint_files import step_of

from ..look.flaws import Flaws
from ..look.report import Page, number
from ..select.selection import NothingSelectedError
from .equal_layers import equal_layers
from .gaps import gaps
from .layers import is_of_weights
from .matrix import distances

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.errors import CheckpointError
    from formats.model.reader import FormatReader

    from .matrix import Matrix, MatrixOptions

_FIELDS = ("l2", "mean", "std", "min", "max", "nan")
"""The statistics that a page has of each tensor."""


def several(readers: Sequence[FormatReader], options: MatrixOptions, advance: Callable[[int], None]) -> Page:
    """Return the page's data about several checkpoints; damaged tensors are named and left out."""
    flaws, damage = Flaws(), list[str]()

    def on_damage(error: CheckpointError) -> None:
        flaws.add(error)
        damage.append(str(error))

    try:
        found = distances(readers, options, advance, on_damage)
    except NothingSelectedError:
        if flaws.count:
            raise flaws.first[0] from None
        raise
    names = short_names(found.paths)
    steps = [step_of(reader.location.name) for reader in readers]
    is_run = None not in steps and len(set(steps)) == len(steps)
    return Page(
        {
            "what": "several",
            "name": f"{len(names):,} checkpoints: {first_of(names)}",
            "path": found.paths[0],
            "others": [*found.paths[1:]],
            "names": names,
            "xs": steps if is_run else list(range(1, len(names) + 1)),
            "rel_l2": _numbers(found.rel_l2),
            "groups": [{"prefix": group.prefix, "rel_l2": _numbers(group.rel_l2)} for group in found.groups],
            "remarks": [*damage, *gaps(found), *equal_layers(found)],
            "sketches": {},
            **_tensors(found),
        },
        flaws,
    )


def _numbers(table: Sequence[Sequence[float | None]]) -> list[list[Any]]:
    return [[number(cell) for cell in row] for row in table]


def _tensors(found: Matrix) -> dict[str, Any]:
    """Return tensors with their statistics in each checkpoint, and norms of layers and of all."""
    names = dict.fromkeys(name for side in found.statistics for name in side)
    rows = []
    squares: dict[str, list[list[float]]] = {}
    for name in names:
        cells = [side.get(name) for side in found.statistics]
        spec = next(cell[0] for cell in cells if cell is not None)
        values = {
            field: [number(getattr(cell[1], field)) if cell is not None else None for cell in cells]
            for field in _FIELDS
        }
        rows.append({"name": name, "dtype": spec.dtype_name, "shape": [*spec.shape], **values})
        norms = squares.setdefault(found.layers[name], [[] for _ in cells])
        for norm, cell in zip(norms, cells, strict=True):
            norm.extend([cell[1].l2] if cell is not None and cell[1].l2 is not None else [])
    counted_in = [layer for layer in squares if not found.of_weights or is_of_weights(layer)]
    total = [
        math.hypot(*(one for layer in counted_in for one in squares[layer][at]))
        for at in range(len(found.paths))
    ]
    return {
        "tensors": rows,
        "norms": {
            layer: [number(math.hypot(*norm)) if norm else None for norm in norms]
            for layer, norms in squares.items()
        },
        "total": [number(norm) for norm in total],
    }
