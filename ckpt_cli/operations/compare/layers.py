"""The layer that a tensor belongs to, and the rows of a table of many layers.

Only weights belong to layers. Optimizer slots, counters and other state change by other amounts, so each of
these kinds is a group of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..look.listing import split_layer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from formats.model.reader import FormatReader

    from .diff import DiffEntry

MOST_ROWS = 20
"""The layers that a table on a terminal shows."""

WEIGHTS = "variable"
"""The kind of tensors that belong to layers."""

_GROUPS = {kind: f"({kind})" for kind in ("slot", "optimizer", "state", "graph")}


def layer_and_leaf(name: str, kind: str | None) -> tuple[str, str]:
    """Return layer and leaf of a weight; for other tensors, the group of their kind and their name."""
    group = _GROUPS.get(kind or WEIGHTS)
    return split_layer(name) if group is None else (group, name)


def is_of_weights(layer: str) -> bool:
    """Whether a layer has weights, and is not the group of another kind."""
    return layer not in _GROUPS.values()


def with_kinds(entries: Iterable[DiffEntry], left: FormatReader, right: FormatReader) -> list[DiffEntry]:
    """Return the entries of a comparison with the kinds of their tensors."""
    found = []
    for entry in entries:
        reader, spec = (right, entry.right) if entry.right is not None else (left, entry.left)
        found.append(entry if spec is None else entry._replace(kind=reader.kinds.get(spec.key) or WEIGHTS))
    return found


_PART = re.compile(r"[^/.]*[/.]|[^/.]+")
_NUMBERED = re.compile(r".*\d[/.]?", re.DOTALL)


def blocks(layers: Collection[str], most: int = MOST_ROWS) -> dict[str, str]:
    """Return the row of each layer in a table: if there are more than `most`, the block that it is in.

    A block is the path up to a number, as in `encoder.layer.3` and `bert/encoder/layer_3`. If all layers have
    one block in common, their blocks are those inside it.
    """
    if len(layers) <= most:
        return {layer: layer for layer in layers}
    parts = {layer: _PART.findall(layer) if is_of_weights(layer) else [layer] for layer in layers}
    found = {layer: layer for layer in layers}
    for count in range(1, max(map(len, parts.values())) + 1):
        cut = {layer: _through_number(some, count) for layer, some in parts.items()}
        if len({row for row in cut.values() if is_of_weights(row)}) > 2:
            return cut
    return found


def _through_number(parts: list[str], count: int) -> str:
    """Return a path up to its number of this count; without one the whole path."""
    for at, part in enumerate(parts):
        count -= _NUMBERED.fullmatch(part) is not None
        if not count:
            return "".join(parts[: at + 1]).rstrip("/.")
    return "".join(parts)
