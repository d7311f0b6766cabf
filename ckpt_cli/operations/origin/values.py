"""The source's tensors as rules read them: whole, or the part that some rows of a weight are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from formats.model.reader import FormatReader

    Array = np.ndarray[Any, Any]

_MOST_HELD = 1 << 26
"""Bytes of source tensors that are kept for the next weight."""


class Rows(NamedTuple):
    """Some rows of a weight: from one to before another, along its first axis."""

    start: int
    stop: int


class Values:
    """Source tensors that were read; the last small ones are kept."""

    def __init__(self, reader: FormatReader) -> None:
        self._reader = reader
        self._held: dict[str, Array] = {}

    def __call__(self, key: str) -> Array:
        """Return a whole tensor."""
        found = self._held.get(key)
        if found is None:
            found = self._reader[key].read()
            if sum(each.nbytes for each in self._held.values()) + found.nbytes > _MOST_HELD:
                self._held.clear()
            if found.nbytes <= _MOST_HELD:
                self._held[key] = found
        return found

    def part(self, key: str, axis: int | None, rows: Rows | None) -> Array:
        """Return what some rows are made of that are along an axis; without rows, the whole tensor."""
        if rows is None or axis is None:
            return self(key)
        held = self._held.get(key)
        shape = self._reader.specs[key].shape
        index = tuple(slice(*rows, 1) if at == axis else slice(0, size, 1) for at, size in enumerate(shape))
        return self._reader[key].read_region(index) if held is None else held[index]
