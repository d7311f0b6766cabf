"""Mapping and prefetching: steps for which TensorFlow makes elements in advance."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from formats.tf.run.iterator_state import own_key

from ..nest import flatten, map_structure
from ..tensor import Tensor
from .batching import Batched, element_of, gathered, repeated, stacked
from .cursors import Cursor, refuse_error
from .saved import UnfitStateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .functions import Mapping
    from .recipe import Element, Step
    from .saved import Sections

__all__ = [
    "END", "Ahead", "BatchesAhead", "Mapped", "MappedAhead", "MappedBatches", "Prefetched",
    "PrefetchedNothing", "Repacked",
]  # fmt: skip


class Mapped(Cursor):
    """Applies a function to each element; it has no values of its own."""

    name = "Map"

    def __init__(self, inputs: Sequence[Step], function: Mapping) -> None:
        self._source, self._function = inputs[0], function
        self._input = inputs[0].open()

    def next(self) -> Element:
        return self._function(self._input.next())

    def save(self, out: Sections, prefix: str) -> None:
        self._function.refuse_stateful(self._source)
        self._input.save(out, f"{prefix}::{self.name}")

    def restore(self, state: Sections, prefix: str) -> None:
        self._input.restore(state, f"{prefix}::{self.name}")

    @classmethod
    def sample(cls, inputs: list[Element], more: int, function: Mapping, *rest: Any) -> Element:
        return function.sample(inputs[0])


class Repacked(Mapped):
    """Components in another structure: TensorFlow, which has them in a row, leaves such a step out."""

    name = "Repacked"

    def save(self, out: Sections, prefix: str) -> None:
        self._input.save(out, prefix)

    def restore(self, state: Sections, prefix: str) -> None:
        self._input.restore(state, prefix)


END = object()
"""Marks the end of the input among elements made in advance."""


class Ahead(Cursor):
    """A cursor that TensorFlow lets run ahead.

    Nothing here does, but a state may hold elements that were made and not yet given out;
    they come first.
    """

    def __init__(self, inputs: Sequence[Step]) -> None:
        self._source = inputs[0]
        self._input = self._source.open()
        self._ready: deque[Element] = deque()

    @abstractmethod
    def made(self) -> Element:
        """Return an element that is not among those made ahead."""

    def next(self) -> Element:
        if not self._ready:
            return self.made()
        if self._ready[0] is END:
            raise StopIteration
        return self._ready.popleft()

    @abstractmethod
    def save_ready(self, out: Sections, me: str) -> None:
        """Write the elements made ahead."""

    @abstractmethod
    def restore_ready(self, state: Sections, me: str) -> Iterator[Element]:
        """Yield the elements made ahead."""

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        self.save_ready(out, me)
        self._input.save(out, me)

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        self._ready = deque(self.restore_ready(state, me))
        self._input.restore(state, me)


class Prefetched(Ahead):
    name = "Prefetch"

    def made(self) -> Element:
        return self._input.next()

    def save_ready(self, out: Sections, me: str) -> None:
        out.put(me, {"buffer_size": len(self._ready)})
        for number, element in enumerate(self._ready):
            place = f"{me}::{number}"
            out.put(place, {"status.code": 0, "buffer.size": len(flatten(element))})
            out.put_element(place, "buffer[{}]", element)

    def restore_ready(self, state: Sections, me: str) -> Iterator[Element]:
        for number in range(state.number(me, "buffer_size")):
            place = f"{me}::{number}"
            refuse_error(state, place, "status.code")
            size = state.number(place, "buffer.size")
            yield state.element(place, "buffer[{}]", size, self._source.structure)


class PrefetchedNothing(Prefetched):
    """A prefetch of no elements: 2.15 leaves the step out, 2.21 does not, so the state has both."""

    def save(self, out: Sections, prefix: str) -> None:
        super().save(out, prefix)
        self._input.save(out, prefix)

    def restore(self, state: Sections, prefix: str) -> None:
        if state.has(f"{prefix}::{self.name}"):
            super().restore(state, prefix)
        else:
            self._input.restore(state, prefix)


class MappedAhead(Ahead):
    """Applies a function to each element, where TensorFlow processes several at a time."""

    name = "ParallelMapV2"

    def __init__(self, inputs: Sequence[Step], function: Mapping) -> None:
        super().__init__(inputs)
        self._function = function

    def made(self) -> Element:
        return self._function(self._input.next())

    def save_ready(self, out: Sections, me: str) -> None:
        self._function.refuse_stateful(self._source)
        out.put(me, {"invocation_results_size": len(self._ready)})
        for number, element in enumerate(self._ready):
            place = f"{me}_invocation_results[{number}]"
            is_end = element is END
            out.put(place, {"_code": 0, "size": 0 if is_end else len(flatten(element))})
            if not is_end:
                out.put_element(place, "[{}]", element)
            out.put(place, {"end_of_input": int(is_end)})

    def restore_ready(self, state: Sections, me: str) -> Iterator[Element]:
        for number in range(state.number(me, "invocation_results_size")):
            place = f"{me}_invocation_results[{number}]"
            refuse_error(state, place, "_code")
            if state.number(place, "end_of_input", most=1):
                yield END
                return
            structure = self._function.sample(self._source.structure)
            yield state.element(place, "[{}]", state.number(place, "size"), structure)

    @classmethod
    def sample(cls, inputs: list[Element], more: int, function: Mapping) -> Element:
        return function.sample(inputs[0])


class BatchesAhead(Ahead):
    """Batches, where TensorFlow makes several at a time."""

    name = "ParallelBatch"
    finished: ClassVar[tuple[str, int | bytes]] = ("call_finished", b"")
    """The key and the value by which TensorFlow knows that a batch is complete."""

    def __init__(self, inputs: Sequence[Step], size: int, drops: bool) -> None:
        super().__init__(inputs)
        self._size, self._drops = size, drops

    def draw(self) -> Element:
        """Return an element of a batch."""
        return self._input.next()

    def drawn_structure(self) -> Element:
        """Return what an element of a batch looks like."""
        return self._source.structure

    def made(self) -> Element:
        return stacked(gathered(self.draw, self._size, self._drops))

    def save_ready(self, out: Sections, me: str) -> None:
        self.save_results(out, me, list(self._ready))

    def save_results(self, out: Sections, me: str, results: list[Element]) -> None:
        out.put(me, {"batch_results_size": len(results)})
        for number, batch in enumerate(results):
            self._save_result(out, me, f"batch_results_{number}", batch)

    def _save_result(self, out: Sections, me: str, result: str, batch: Element) -> None:
        leaves = [] if batch is END else flatten(batch)
        finished, value = self.finished
        out.put(
            me, {f"{result}_{finished}": value, f"{result}_num_elements": len(leaves[0]) if leaves else 0}
        )
        if batch is END:
            out.put(me, {f"{result}_end_of_input": b""})
        else:
            out.put(me, {f"{result}_output_allocated": b""})
            out.put_element(own_key(me, result), "output_{}", batch)
        values = {f"{result}_output_size": len(leaves), f"{result}_status_code": 0}
        out.put(me, {own_key(me, key): value for key, value in values.items()})

    def restore_ready(self, state: Sections, me: str) -> Iterator[Element]:
        for number in range(state.number(me, "batch_results_size")):
            result = f"batch_results_{number}"
            refuse_error(state, me, f"{result}_status_code")
            rows = state.number(me, f"{result}_num_elements", most=self._size)
            batch = self._restored(state, me, result, rows) if rows else None
            if rows == self._size:
                yield batch
                continue
            if state.has(me, f"{result}_end_of_input"):
                if rows and not self._drops:
                    yield batch
                yield END
            elif rows:
                self.go_on_with(me, [element_of(batch, number) for number in range(rows)])
            return

    def go_on_with(self, me: str, elements: list[Element]) -> None:
        """Take the elements of a batch that has only been begun."""
        raise UnfitStateError(f"{me}: a batch of {len(elements)} elements that is not the last")

    def _restored(self, state: Sections, me: str, result: str, rows: int) -> Element:
        like = repeated(self.drawn_structure(), rows)
        size = state.number(me, f"{result}_output_size")
        batch = state.element(own_key(me, result), "output_{}", size, like)
        if any(leaf.ndim == 0 or len(leaf) < rows for leaf in flatten(batch)):
            raise UnfitStateError(f"{me}: a batch of fewer than {rows} elements")
        return map_structure(lambda leaf: Tensor(leaf._value[:rows]), batch)

    @classmethod
    def length(cls, inputs: list[int], *settings: Any) -> int:
        return Batched.length(inputs, *settings)

    @classmethod
    def sample(cls, inputs: list[Element], more: int, *settings: Any) -> Element:
        return Batched.sample(inputs, more, *settings)


class MappedBatches(BatchesAhead):
    """Batches of what a function makes of elements: TensorFlow makes one step of the two.

    The last of the batches that a state holds may only have been begun.
    """

    name = "MapAndBatch"
    finished = ("num_calls", 0)

    def __init__(self, inputs: Sequence[Step], function: Mapping, size: int, drops: bool) -> None:
        super().__init__(inputs, size, drops)
        self._function = function
        self._begun: deque[Element] = deque()

    def draw(self) -> Element:
        return self._begun.popleft() if self._begun else self._function(self._input.next())

    def drawn_structure(self) -> Element:
        return self._function.sample(self._source.structure)

    def save_ready(self, out: Sections, me: str) -> None:
        self._function.refuse_stateful(self._source)
        begun = [stacked(list(self._begun))] if self._begun else []
        self.save_results(out, me, [*self._ready, *begun])
        out.put(me, {"call_counter": len(self._begun)})
        if self._begun:
            missing = self._size - len(self._begun)
            out.put(me, {f"batch_results_{len(self._ready)}_num_calls": missing})

    def go_on_with(self, me: str, elements: list[Element]) -> None:
        self._begun.extend(elements)

    @classmethod
    def length(cls, inputs: list[int], function: Mapping, *settings: Any) -> int:
        return super().length(inputs, *settings)

    @classmethod
    def sample(cls, inputs: list[Element], more: int, function: Mapping, *settings: Any) -> Element:
        return super().sample([function.sample(inputs[0])], more, *settings)
