"""The order of changes: which matter most, and how far the values of a tensor or a layer are apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .layers import WEIGHTS
from .measure import Norms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .diff import DiffEntry

_WEIGHTS = {
    "damaged": 6,
    "shape": 5,
    "dtype": 4,
    "removed": 3,
    "added": 3,
    "value": 2,
    "renamed": 1,
    "same": 0,
}
"""The order of changes: those that prevent restoring come before those of training."""


def weight(entry: DiffEntry) -> tuple[int, bool, float]:
    """Return a key to sort entries by, the largest change last; of changed values, those of weights."""
    far = magnitude(entry) if entry.change == "value" else 0.0
    return _WEIGHTS[entry.change], is_weight(entry), far


def is_weight(entry: DiffEntry) -> bool:
    """Whether a tensor is a weight, and no optimizer slot, counter or other state."""
    return entry.kind in ("", WEIGHTS)


def weights_of(entries: Iterable[DiffEntry]) -> list[DiffEntry]:
    """Return the weights of a comparison; all tensors if it has no weights."""
    found = list(entries)
    return [entry for entry in found if is_weight(entry)] or found


def magnitude(entry: DiffEntry) -> float:
    """Return how far values are apart: infinitely where NaN came or went, not at all as a counter counts."""
    found = entry.difference
    return (
        distance_rank(found.max_abs if found.norms is None else found.rel_l2) if is_floating(entry) else 0.0
    )


def distance_rank(number: float | None) -> float:
    """Return a number to sort by: NaN, which came or went, is farther than all."""
    return 0.0 if number is None else math.inf if math.isnan(number) else number


def largest_magnitude(entries: Iterable[DiffEntry]) -> float:
    """Return the largest finite distance of tensors, the one that fills a bar."""
    sizes = (magnitude(entry) for entry in entries if entry.change == "value")
    return max((size for size in sizes if math.isfinite(size)), default=0.0)


def norms_of_changed(entries: Iterable[DiffEntry]) -> Norms | None:
    """Return how far floating values are apart altogether: those of the tensors that changed."""
    found = None
    for entry in entries:
        if entry.change == "value" and entry.difference.norms is not None and is_floating(entry):
            found = (found or Norms()).add(entry.difference.norms)
    return found


def layer_weight(entries: Iterable[DiffEntry]) -> tuple[int, bool, float]:
    """Return a key to sort layers by: that of the gravest change, then the distance of its values."""
    found = list(entries)
    norms = norms_of_changed(found)
    gravest = max(map(weight, found))
    far = max(weight(entry)[2] for entry in found) if norms is None else distance_rank(norms.relative)
    return *gravest[:2], far


def is_floating(entry: DiffEntry) -> bool:
    return entry.right is not None and entry.right.dtype.family in ("float", "complex")
