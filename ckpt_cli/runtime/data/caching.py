"""Elements kept in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..nest import flatten
from .cursors import Cursor
from .recipe import Shared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .recipe import Element, Step
    from .saved import Sections

__all__ = ["Cached", "Memory"]


class Memory(Shared):
    """The cached elements of a dataset, all of them or none."""

    def __init__(self) -> None:
        self.elements: list[Element] | None = None

    def anew(self) -> Memory:
        return Memory()


class Cached(Cursor):
    """The elements of a first pass, which later passes do not make again.

    The memory is the dataset's: all of its iterators share it.  The pass that fills it
    keeps what it has drawn under `MemoryCacheImpl`; what a full one holds is under `MemoryCache`.
    """

    name = "MemoryCache"

    def __init__(self, inputs: Sequence[Step], memory: Memory) -> None:
        self._source, self._memory, self._at = inputs[0], memory, 0
        self._elements = [] if memory.elements is None else memory.elements
        self._input = self._source.open() if memory.elements is None else None

    def next(self) -> Element:
        if self._input is not None:
            try:
                self._elements.append(self._input.next())
            except StopIteration:
                self._memory.elements = self._elements
                raise
            self._at = len(self._elements)
        elif self._at < len(self._elements):
            self._at += 1
        else:
            raise StopIteration
        return self._elements[self._at - 1]

    def save(self, out: Sections, prefix: str) -> None:
        full, own = f"{prefix}::MemoryCache", f"{prefix}::MemoryCacheImpl"
        if self._memory.elements is not None:
            out.put(full, {"cache_completed": b""})
            _put_elements(out, full, self._memory.elements)
        if self._input is None:
            out.put(own, {"index": self._at})
            return
        if self._memory.elements is None:
            _put_elements(out, own, self._elements)
        self._input.save(out, own)

    def restore(self, state: Sections, prefix: str) -> None:
        full, own = f"{prefix}::MemoryCache", f"{prefix}::MemoryCacheImpl"
        is_full = state.has(full, "cache_completed")
        self._elements = self._restored(state, full if is_full else own)
        self._memory.elements = self._elements if is_full else None
        if state.has(own, "index"):
            self._input = None
            self._at = state.number(own, "index", most=len(self._elements))
        else:
            self._input = self._source.open()
            self._input.restore(state, own)

    def _restored(self, state: Sections, prefix: str) -> list[Element]:
        found = []
        for number in range(state.number(prefix, "num_elements")):
            place = f"{prefix}::{number}"
            size = state.number(place, "num_components")
            found.append(state.element(place, "component[{}]", size, self._source.structure))
        return found


def _put_elements(out: Sections, prefix: str, elements: Sequence[Element]) -> None:
    out.put(prefix, {"num_elements": len(elements)})
    for number, element in enumerate(elements):
        place = f"{prefix}::{number}"
        out.put(place, {"num_components": len(flatten(element))})
        out.put_element(place, "component[{}]", element)
