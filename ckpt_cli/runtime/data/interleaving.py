"""Interleaving: some elements of each of several pipelines, in turn.

A place holds the pipeline of one element of the input. When that ends, the pipeline of the next element takes
the place: at its next turn, or at once if TensorFlow interleaves in parallel. The elements come in the same
order. tensorflow/core/kernels/data/{interleave,parallel_interleave}_dataset_op.cc
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..nest import flatten
from .cursors import refuse_error
from .nesting import Inner, Nesting
from .saved import Sections, UnfitStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .functions import Mapping
    from .recipe import Step

__all__ = ["Interleaved", "InterleavedAhead"]


class _InTurn(Nesting):
    """Several pipelines in turn, some elements of each: what both ways have in common.

    `_places` hold pipelines, or nothing after their end. `_place` is the current one, `_within` the number of
    elements from it in this turn, and `_entered` the number of pipelines so far.
    """

    def __init__(
        self,
        inputs: Sequence[Step],
        function: Mapping,
        rewrite: Callable[[Step], Step],
        cycle: int,
        block: int,
    ) -> None:
        super().__init__(inputs, function, rewrite)
        self._places: list[Any] = [None] * cycle
        self._block = block
        self._place = self._within = self._entered = 0
        self._has_ended = False

    def next(self) -> Any:
        while self._goes_on():
            current = self._places[self._place]
            if current is None:
                self._pass_empty()
                continue
            try:
                element = current.next()
            except StopIteration:
                self._places[self._place] = self._following()
                self._turn()
                continue
            self._within += 1
            if self._within == self._block:
                self._turn()
            return element
        raise StopIteration

    def _goes_on(self) -> bool:
        """Whether there may be another element."""
        raise NotImplementedError

    def _pass_empty(self) -> None:
        """Fill the place whose turn it is, or go past it."""
        raise NotImplementedError

    def _following(self) -> Any:
        """Return what takes the place of a pipeline that has ended, at once."""
        raise NotImplementedError

    def _turn(self) -> None:
        """Move to the next place."""
        raise NotImplementedError


class Interleaved(_InTurn):
    """Several pipelines in turn, some elements of each; one that ends makes room for the next."""

    name = "Interleave"

    def _goes_on(self) -> bool:
        return not self._has_ended or any(self._places)

    def _pass_empty(self) -> None:
        """Enter the pipeline of the next element, or go past a place that stays empty."""
        if self._has_ended:
            self._turn()
            return
        try:
            element = self._input.next()  # type: ignore[union-attr]
        except StopIteration:
            self._has_ended = True
            return
        self._places[self._place] = self.entered(element)
        self._entered += 1

    def _following(self) -> None:
        """Leave the place empty until its turn comes again."""

    def _turn(self) -> None:
        self._within = 0
        self._place = (self._place + 1) % len(self._places)

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        self._function.refuse_stateful(self._source)
        values = {
            "cycle_index": self._place,
            "block_index": self._within,
            "end_of_input": int(self._has_ended),
            "num_open": sum(inner is not None for inner in self._places),
            "next_input_element_index": self._entered,
            "last_checkpointed_input_element_index": -1,
        }
        out.put(me, values)
        self._input.save(out, me)  # type: ignore[union-attr]
        for place, inner in enumerate(self._places):
            out.put(me, {f"current_elements_uninitialized[{place}]": int(inner is None)})
            if inner is not None:
                out.put(me, {f"args_size[{place}]": len(flatten(inner.element))})
                out.put_element(me, f"args_list_[{place}][{{}}]", inner.element)
                inner.save(out, f"{me}[{place}]")

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        if state.has(me, f"current_elements_uninitialized[{len(self._places)}]"):
            raise UnfitStateError(f"{me}: more than {len(self._places)} pipelines at a time")
        self._place = state.number(me, "cycle_index", most=len(self._places) - 1)
        self._within = state.number(me, "block_index", most=self._block - 1)
        self._has_ended = bool(state.number(me, "end_of_input", most=1))
        self._input.restore(state, me)  # type: ignore[union-attr]
        for place in range(len(self._places)):
            if not state.number(me, f"current_elements_uninitialized[{place}]", most=1):
                keys = f"args_size[{place}]", f"args_list_[{place}][{{}}]"
                self._places[place] = self.restored(state, me, *keys, f"{me}[{place}]")
        entered = "next_input_element_index"  # Of 2.21 alone.
        self._entered = state.number(me, entered) if state.has(me, entered) else sum(map(bool, self._places))


@dataclass
class Place:
    """A place of a parallel interleave: results made in advance, and a pipeline unless it has ended."""

    number: int
    inner: Inner | None
    ready: deque[Any] = field(default_factory=deque)

    def next(self) -> Any:
        if self.ready:
            return self.ready.popleft()
        if self.inner is None:
            raise StopIteration
        return self.inner.next()


class InterleavedAhead(_InTurn):
    """Several pipelines in turn, where TensorFlow runs them ahead and has begun the next ones."""

    name = "ParallelInterleaveV4"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._waiting: deque[Place] = deque()

    def _goes_on(self) -> bool:
        """Whether there may be another element; the first pipelines are all entered at once."""
        if not any(self._places):
            self._places = [self._following() for _ in self._places]
        return any(self._places)

    def _pass_empty(self) -> None:
        self._turn()

    def _following(self) -> Place | None:
        if self._waiting:
            return self._waiting.popleft()
        if self._has_ended:
            return None
        self._entered += 1
        try:
            element = self._input.next()  # type: ignore[union-attr]
        except StopIteration:
            self._has_ended = True
            return None
        return Place(self._entered - 1, self.entered(element))

    def _turn(self) -> None:
        """Move to the next place that is not empty."""
        self._within = 0
        count = len(self._places)
        following = ((self._place + step) % count for step in range(1, count + 1))
        self._place = next((place for place in following if self._places[place]), 0)

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        self._function.refuse_stateful(self._source)
        values = {
            "block_index": self._within,
            "cycle_index": self._place,
            "end_of_input": int(self._has_ended),
            "element_id_counter": self._entered,
            "current_elements.size": len(self._places),
            "future_elements.size": len(self._waiting),
        }
        out.put(me, values)
        self._input.save(out, me)  # type: ignore[union-attr]
        for kind, places in (("current", self._places), ("future", self._waiting)):
            for number, place in enumerate(places):
                section = f"{me}::{kind}_elements::{number}"
                out.put(section, {"element_uninitialized": int(place is None)})
                if place is not None:
                    _save_place(out, me, section, place)

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        size = state.number(me, "current_elements.size")
        if size != len(self._places):
            raise UnfitStateError(f"{me}: {size} pipelines at a time, expected {len(self._places)}")
        self._within = state.number(me, "block_index", most=self._block - 1)
        self._place = max(0, state.number(me, "cycle_index", least=-1, most=size - 1))  # -1 at the end.
        self._has_ended = bool(state.number(me, "end_of_input", most=1))
        self._entered = state.number(me, "element_id_counter")
        self._input.restore(state, me)  # type: ignore[union-attr]
        for number in range(size):
            self._places[number] = self._restored_place(state, me, f"{me}::current_elements::{number}")
        for number in range(state.number(me, "future_elements.size")):
            place = self._restored_place(state, me, f"{me}::future_elements::{number}")
            if place is None:
                raise UnfitStateError(f"{me}: a waiting pipeline is missing")
            self._waiting.append(place)

    def _restored_place(self, state: Sections, me: str, section: str) -> Place | None:
        if state.number(section, "element_uninitialized", most=1):
            return None
        place = Place(0, None)
        if state.number(section, "restore_iterator", most=1):
            place.number = state.number(section, ".id", most=self._entered)
            keys = ".inputs.size", ".inputs[{}]"
            place.inner = self.restored(state, section, *keys, f"{me}[{place.number}]")
        elif state.has(section, ".inputs.size"):
            raise UnfitStateError(f"{section}: the pipeline of an element is missing")
        for number in range(state.number(section, ".results.size")):
            result = f".results[{number}]"
            refuse_error(state, section, f"{result}.code")
            size = state.number(section, f"{result}.size")
            place.ready.append(state.element(section, f"{result}[{{}}]", size, self._made))
        return place

    @property
    def _made(self) -> Any:
        """What an element looks like."""
        return self._function.step(self._source.structure).structure


def _save_place(out: Sections, me: str, section: str, place: Place) -> None:
    if place.inner is not None:
        out.put(section, {".id": place.number, ".inputs.size": len(flatten(place.inner.element))})
        out.put_element(section, ".inputs[{}]", place.inner.element)
        place.inner.save(out, f"{me}[{place.number}]")
    out.put(section, {"restore_iterator": int(place.inner is not None), ".results.size": len(place.ready)})
    for number, element in enumerate(place.ready):
        result = f".results[{number}]"
        out.put(section, {f"{result}.code": 0, f"{result}.size": len(flatten(element))})
        out.put_element(section, f"{result}[{{}}]", element)
        out.put(section, {f"{result}.is_ready": b""})
