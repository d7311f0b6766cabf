"""Several inputs: side by side, or one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..nest import pack_sequence_as
from .cursors import Cursor
from .recipe import INFINITE, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .recipe import Element, Step
    from .saved import Sections

__all__ = ["Concatenated", "Zipped"]


class Zipped(Cursor):
    """Elements of several inputs side by side, as long as the shortest."""

    name = "Zip"

    def __init__(self, inputs: Sequence[Step], structure: Any) -> None:
        self._sources, self._structure = inputs, structure
        self._inputs: list[Cursor] | None = [one.open() for one in inputs]

    def next(self) -> Element:
        if self._inputs is None:
            raise StopIteration
        try:
            elements = [one.next() for one in self._inputs]
        except StopIteration:
            self._inputs = None
            raise
        return pack_sequence_as(self._structure, elements)

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        out.put(me, {"input_impls_empty": int(self._inputs is None)})
        for number, one in enumerate(self._inputs or ()):
            one.save(out, f"{me}[{number}]")

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        if state.number(me, "input_impls_empty", most=1):
            self._inputs = None
        for number, one in enumerate(self._inputs or ()):
            one.restore(state, f"{me}[{number}]")

    @classmethod
    def length(cls, inputs: list[int], structure: Any) -> int:
        if UNKNOWN in inputs:
            return UNKNOWN
        finite = [length for length in inputs if length != INFINITE]
        return min(finite) if finite else INFINITE

    @classmethod
    def sample(cls, inputs: list[Element], more: int, structure: Any) -> Element:
        return pack_sequence_as(structure, inputs)


class Concatenated(Cursor):
    """One input after the other; 2.15 keeps the one it is at, 2.21 each that has been begun."""

    name = "Concatenate"

    def __init__(self, inputs: Sequence[Step]) -> None:
        self._sources, self._at = inputs, 0
        self._input: Cursor | None = inputs[0].open()

    def next(self) -> Element:
        while self._input is not None:
            try:
                return self._input.next()
            except StopIteration:
                self._at += 1
                self._input = self._sources[self._at].open() if self._at < len(self._sources) else None
        raise StopIteration

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        out.put(me, {"i": self._at, "element_count": 0, "input_impl_uninitialized": int(self._input is None)})
        for number in range(len(self._sources)):
            out.put(me, {f"input_impl_uninitialized[{number}]": int(number != self._at)})
        if self._input is not None:
            self._input.save(out, f"{me}[{self._at}]")

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        self._at = state.number(me, "i", most=len(self._sources))
        self._input = self._sources[self._at].open() if self._at < len(self._sources) else None
        if self._input is not None:
            self._input.restore(state, f"{me}[{self._at}]")

    @classmethod
    def length(cls, inputs: list[int]) -> int:
        return INFINITE if INFINITE in inputs else UNKNOWN if UNKNOWN in inputs else sum(inputs)
