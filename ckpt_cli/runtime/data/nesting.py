"""Datasets made of elements, and elements that are datasets: flat_map, window; `interleaving` has the other.

A cursor here is inside another pipeline, which a function makes from an element. Its state has the element,
from which the function makes the pipeline again, and then the pipeline's own state.
tensorflow/core/kernels/data/{flat_map,window}_dataset_op.cc, window_dataset.cc
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ..nest import flatten, map_structure
from .cursors import Cursor, Derived
from .recipe import UNKNOWN, Step
from .saved import Sections, UnfitStateError, refuse
from .shuffling import Shuffled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..tensor import Tensor
    from .functions import Mapping

__all__ = ["FlatMapped", "Inner", "Nesting", "WindowRows", "Windowed"]


class Inner:
    """A pipeline made of an element, and where in it one is."""

    def __init__(self, function: Mapping, rewrite: Callable[[Step], Step], element: Any) -> None:
        self.element = element
        self._step = rewrite(function.step(element))
        self.cursor = self._step.open()

    def next(self) -> Any:
        return self.cursor.next()

    def save(self, out: Sections, prefix: str) -> None:
        if any(issubclass(step.kind, Shuffled) for step in self._step.walk()):
            raise refuse("DummySeedGenerator")  # It would have to be saved for each of the pipelines.
        self.cursor.save(out, prefix)


class Nesting(Cursor):
    """A cursor over pipelines that a function makes of elements.

    `rewrite` makes of a recipe what TensorFlow makes of it within a function.
    """

    def __init__(
        self, inputs: Sequence[Step], function: Mapping, rewrite: Callable[[Step], Step], *settings: Any
    ) -> None:
        self._source, self._function, self._rewrite = inputs[0], function, rewrite
        self._input: Cursor | None = self._source.open()

    def entered(self, element: Any) -> Inner:
        return Inner(self._function, self._rewrite, element)

    def restored(self, state: Sections, section: str, count: str, key: str, prefix: str) -> Inner:
        """Return the pipeline of an element, which a section has under a key, where it was at a prefix."""
        components = state.number(section, count)
        inner = self.entered(state.element(section, key, components, self._source.structure))
        inner.cursor.restore(state, prefix)
        return inner

    @classmethod
    def length(cls, inputs: list[int], *settings: Any) -> int:
        return 0 if inputs[0] == 0 else UNKNOWN

    @classmethod
    def sample(cls, inputs: list[Any], more: int, function: Mapping, *settings: Any) -> Any:
        return function.step(inputs[0]).sample(more)


class FlatMapped(Nesting):
    """One pipeline after the other."""

    name = "FlatMap"

    def __init__(self, inputs: Sequence[Step], function: Mapping, rewrite: Callable[[Step], Step]) -> None:
        super().__init__(inputs, function, rewrite)
        self._inner: Inner | None = None
        self._entered = 0

    def next(self) -> Any:
        while self._input is not None:
            try:
                if self._inner is None:
                    self._inner = self.entered(self._input.next())
                    self._entered += 1
            except StopIteration:
                self._input = None
                break
            try:
                return self._inner.next()
            except StopIteration:
                self._inner = None
        raise StopIteration

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        self._function.refuse_stateful(self._source)
        out.put(me, {"exhausted": int(self._input is None)})
        if self._input is None:
            return
        out.put(me, {"element_index": self._entered})
        out.put(me, {"current_element_iterator_uninitialized": int(self._inner is None)})
        self._input.save(out, me)
        if self._inner is not None:
            out.put(me, {"inputs_size": len(flatten(self._inner.element))})
            out.put_element(me, "inputs[{}]", self._inner.element)
            self._inner.save(out, f"{me}[{self._entered - 1}]")

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        if state.number(me, "exhausted", most=1):
            self._input = None
            return
        self._input = self._source.open()
        self._input.restore(state, me)
        self._entered = state.number(me, "element_index")
        if not state.number(me, "current_element_iterator_uninitialized", most=1):
            prefix = f"{me}[{self._entered - 1}]"
            self._inner = self.restored(state, me, "inputs_size", "inputs[{}]", prefix)


class WindowRows(Cursor):
    """The elements of a window, each a tensor."""

    name = "Window"

    def __init__(self, inputs: Sequence[Step], rows: tuple[Tensor, ...]) -> None:
        self._rows, self._at = rows, 0

    def next(self) -> Tensor:
        if self._at >= len(self._rows):
            raise StopIteration
        self._at += 1
        return self._rows[self._at - 1]

    def save(self, out: Sections, prefix: str) -> None:
        out.put(f"{prefix}::{self.name}", {"i": self._at})

    def restore(self, state: Sections, prefix: str) -> None:
        self._at = state.number(f"{prefix}::{self.name}", "i", most=len(self._rows))

    @classmethod
    def length(cls, inputs: list[int], rows: tuple[Tensor, ...]) -> int:
        return len(rows)

    @classmethod
    def sample(cls, inputs: list[Any], more: int, rows: tuple[Tensor, ...]) -> Tensor:
        return rows[0]

    @classmethod
    def held(cls, rows: tuple[Tensor, ...]) -> Sequence[Tensor]:
        return rows


class Windowed(Derived):
    """Datasets of so many elements each, one of each component; `wrap` makes a dataset of a recipe."""

    name = "Window"

    def __init__(
        self,
        inputs: Sequence[Step],
        size: int,
        shift: int,
        stride: int,
        drops: bool,
        wrap: Callable[[Step], Any],
    ) -> None:
        super().__init__(inputs)
        self._reach = (size - 1) * stride + 1
        self._shift, self._stride, self._drops, self._wrap = shift, stride, drops, wrap
        self._buffer: deque[Any] = deque()

    def next(self) -> Any:
        try:
            while len(self._buffer) < self._reach:
                self._buffer.append(self.draw())
        except StopIteration:
            if not self._buffer or self._drops:
                raise
        window = windows(list(self._buffer)[:: self._stride], self._wrap)
        self._move()
        return window

    def _move(self) -> None:
        """Drop what is before the next window, of the input too where that is farther on."""
        beyond = self._shift - len(self._buffer)
        for _ in range(min(self._shift, len(self._buffer))):
            self._buffer.popleft()
        try:
            for _ in range(beyond):
                self.draw()
        except StopIteration:
            pass  # The next window finds the end.

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        if self._input is None:
            out.put(me, {self.ended: b""})
        else:
            self._input.save(out, me)
        out.put(me, {"buffer_size": len(self._buffer)})
        for number, element in enumerate(self._buffer):
            out.put(me, {f"buffer[{number}].code": 0, f"buffer[{number}].size": len(flatten(element))})
            out.put_element(me, f"buffer[{number}][{{}}]", element)

    def restore(self, state: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        if state.has(me, self.ended):
            self._input = None
        for number in range(state.number(me, "buffer_size", most=self._reach)):
            if code := state.number(me, f"buffer[{number}].code"):
                raise UnfitStateError(f"{me}: an element that could not be made, error {code}")
            size = state.number(me, f"buffer[{number}].size")
            key = f"buffer[{number}][{{}}]"
            self._buffer.append(state.element(me, key, size, self._source.structure))
        if self._input is not None:
            self._input.restore(state, me)

    @classmethod
    def length(cls, inputs: list[int], size: int, shift: int, stride: int, drops: bool, wrap: Any) -> int:
        if inputs[0] < 0:
            return inputs[0]
        reach = (size - 1) * stride + 1
        if drops:
            return max(0, (inputs[0] - reach) // shift + 1)
        return -(-inputs[0] // shift)

    @classmethod
    def sample(
        cls, inputs: list[Any], more: int, size: int, shift: int, stride: int, drops: bool, wrap: Any
    ) -> Any:
        return windows([inputs[0]], wrap)


def windows(elements: list[Any], wrap: Callable[[Step], Any]) -> Any:
    """Return elements as a structure of datasets, one of each component."""
    return map_structure(lambda *rows: wrap(Step(WindowRows, (), (rows,))), *elements)
