"""Cursors that pass elements on as they are: all of them again, or some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cursors import Derived
from .recipe import INFINITE, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .functions import Mapping
    from .recipe import Element, Step
    from .saved import Sections

__all__ = ["Filtered", "Repeated", "RepeatedForever", "Sharded", "Skipped", "Taken"]


class Repeated(Derived):
    """Several passes over the input, each under a prefix of its own."""

    name = "FiniteRepeat"

    def __init__(self, inputs: Sequence[Step], times: int) -> None:
        super().__init__(inputs)
        self._times, self._pass = times, 0

    def next(self) -> Element:
        while self._pass < self._times:
            try:
                return self.draw()
            except StopIteration:
                self._pass += 1
                if self._pass < self._times:
                    self._input = self._source.open()
        raise StopIteration

    def inner(self, me: str) -> str:
        return f"{me}[{self._pass}]"

    def own(self, me: str) -> dict[str, int]:
        return {"i": self._pass}

    def take(self, state: Sections, me: str) -> None:
        self._pass = state.number(me, "i", most=self._times)

    @classmethod
    def length(cls, inputs: list[int], times: int) -> int:
        return inputs[0] * times if inputs[0] >= 0 else inputs[0]


class RepeatedForever(Repeated):
    name = "ForeverRepeat"

    def __init__(self, inputs: Sequence[Step], times: int = 1 << 62) -> None:
        super().__init__(inputs, times)

    def next(self) -> Element:
        try:
            return self.draw()
        except StopIteration:
            self._pass += 1
        self._input = self._source.open()
        return self.draw()  # A pass without an element is the end.

    @classmethod
    def length(cls, inputs: list[int], times: int = 0) -> int:
        return 0 if inputs[0] == 0 else INFINITE


class Taken(Derived):
    name = "FiniteTake"

    def __init__(self, inputs: Sequence[Step], most: int) -> None:
        super().__init__(inputs)
        self._most, self._count = most, 0

    def next(self) -> Element:
        if self._count >= self._most:
            self._input = None
        element = self.draw()
        self._count += 1
        return element

    def own(self, me: str) -> dict[str, int]:
        return {"i": self._count}

    def take(self, state: Sections, me: str) -> None:
        self._count = state.number(me, "i", most=self._most)

    @classmethod
    def length(cls, inputs: list[int], most: int) -> int:
        return inputs[0] if inputs[0] == UNKNOWN else most if inputs[0] == INFINITE else min(most, inputs[0])


class Skipped(Taken):
    name = "FiniteSkip"

    def next(self) -> Element:
        while self._count < self._most:
            self.draw()
            self._count += 1
        return self.draw()

    @classmethod
    def length(cls, inputs: list[int], most: int) -> int:
        return inputs[0] if inputs[0] < 0 else max(0, inputs[0] - most)


class Filtered(Derived):
    name = "Filter"

    def __init__(self, inputs: Sequence[Step], predicate: Mapping) -> None:
        super().__init__(inputs)
        self._predicate = predicate
        self._kept = self._dropped = 0

    def next(self) -> Element:
        while True:
            element = self.draw()
            if self._predicate.holds(element):
                self._kept += 1
                return element
            self._dropped += 1

    def own(self, me: str) -> dict[str, int]:
        self._predicate.refuse_stateful(self._source)
        return {"filtered_elements": self._kept, "dropped_elements": self._dropped}

    def take(self, state: Sections, me: str) -> None:
        self._kept = state.number(me, "filtered_elements")
        self._dropped = state.number(me, "dropped_elements")

    @classmethod
    def length(cls, inputs: list[int], predicate: Mapping) -> int:
        return inputs[0] if inputs[0] in (0, INFINITE) else UNKNOWN


class Sharded(Derived):
    """Every so manieth element."""

    name = "Shard"

    def __init__(self, inputs: Sequence[Step], shards: int, index: int) -> None:
        super().__init__(inputs)
        self._shards, self._index, self._next = shards, index, 0

    def next(self) -> Element:
        while self._next % self._shards != self._index:
            self.draw()
            self._next += 1
        element = self.draw()
        self._next += 1
        return element

    def own(self, me: str) -> dict[str, int]:
        return {} if self._input is None else {"next_index": self._next}

    def take(self, state: Sections, me: str) -> None:
        if self._input is not None:
            self._next = state.number(me, "next_index")

    @classmethod
    def length(cls, inputs: list[int], shards: int, index: int) -> int:
        return inputs[0] if inputs[0] < 0 else len(range(index, inputs[0], shards))
