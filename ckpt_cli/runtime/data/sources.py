"""Sources: cursors that draw only from the arguments of their step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formats.tf.run.iterator_state import own_key

from ..nest import flatten, map_structure, pack_sequence_as
from ..tensor import Tensor
from .cursors import Cursor
from .recipe import UNKNOWN
from .saved import Sections, UnfitStateError, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .recipe import Element, Step

__all__ = ["Generated", "Nothing", "Ranged", "Single", "Slices", "first_row", "row"]


class Ranged(Cursor):
    name = "Range"

    def __init__(self, inputs: Sequence[Step], values: range, dtype: np.dtype[Any]) -> None:
        self._values, self._dtype, self._next = values, dtype, values.start

    def next(self) -> Element:
        if self._next not in self._values:
            raise StopIteration
        self._next += self._values.step
        return Tensor(np.array(self._next - self._values.step, self._dtype))

    def save(self, out: Sections, prefix: str) -> None:
        out.put(f"{prefix}::Range", {"next": self._next})

    def restore(self, state: Sections, prefix: str) -> None:
        self._next = state.number(f"{prefix}::Range", "next", least=-(1 << 63))
        if (self._next - self._values.start) % self._values.step:
            raise UnfitStateError(f"{prefix}::Range: next is {self._next}, which is not in {self._values}")

    @classmethod
    def length(cls, inputs: list[int], values: range, dtype: np.dtype[Any]) -> int:
        return len(values)

    @classmethod
    def sample(cls, inputs: list[Element], more: int, values: range, dtype: np.dtype[Any]) -> Element:
        return Tensor(np.array(values.start, dtype))


class Slices(Cursor):
    """The rows of tensors."""

    name = "TensorSlice"

    def __init__(self, inputs: Sequence[Step], tensors: Any, size: int) -> None:
        self._tensors, self._size, self._at = tensors, size, 0
        self._leaves = flatten(tensors)

    def next(self) -> Element:
        at = self._at
        if at >= self._size:
            raise StopIteration
        self._at = at + 1
        return pack_sequence_as(self._tensors, [Tensor(row(leaf, at)) for leaf in self._leaves])

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        out.put(me, {own_key(me, "index"): self._at})

    def restore(self, state: Sections, prefix: str) -> None:
        self._at = state.number(f"{prefix}::{self.name}", "index", most=self._size)

    @classmethod
    def length(cls, inputs: list[int], tensors: Any, size: int) -> int:
        return size

    @classmethod
    def sample(cls, inputs: list[Element], more: int, tensors: Any, size: int) -> Element:
        return map_structure(first_row, tensors)


class Single(Cursor):
    """One element."""

    name = "FromTensor"

    def __init__(self, inputs: Sequence[Step], element: Element) -> None:
        self._element, self._produced = element, False

    def next(self) -> Element:
        if self._produced:
            raise StopIteration
        self._produced = True
        return self._element

    def save(self, out: Sections, prefix: str) -> None:
        out.put(f"{prefix}::{self.name}", {"produced": int(self._produced)})

    def restore(self, state: Sections, prefix: str) -> None:
        self._produced = bool(state.number(f"{prefix}::{self.name}", "produced", most=1))

    @classmethod
    def length(cls, inputs: list[int], element: Element) -> int:
        return 1

    @classmethod
    def sample(cls, inputs: list[Element], more: int, element: Element) -> Element:
        return element


class Generated(Cursor):
    """The elements of a Python generator, whose position no state can store.

    `like` is the spec of an element, if it was given.
    """

    name = "Generator"
    can_be_sampled = False

    def __init__(self, inputs: Sequence[Step], elements: Callable[[], Iterator[Element]], like: Any) -> None:
        self._running = elements()

    def next(self) -> Element:
        return next(self._running)

    def save(self, out: Sections, prefix: str) -> None:
        raise refuse("PyFunc")

    def restore(self, state: Sections, prefix: str) -> None:
        raise refuse("PyFunc")

    @classmethod
    def length(cls, inputs: list[int], elements: Any, like: Any) -> int:
        return UNKNOWN

    @classmethod
    def sample(cls, inputs: list[Element], more: int, elements: Any, like: Any) -> Element:
        if like is None:
            return next(elements())
        return map_structure(lambda spec: _blank(spec, more), like)


def _blank(spec: Any, more: int) -> Tensor:
    """Return a tensor of a spec, whose open sizes are 1, or more."""
    value = np.empty([1 + more if size is None else size for size in spec.shape], spec.dtype.numpy_dtype)
    value[...] = b"" if value.dtype == object else 0
    return Tensor(value)


class Nothing(Cursor):
    """No elements, and no state."""

    name = "EmptyTake"

    def __init__(self, inputs: Sequence[Step]) -> None:
        pass

    def next(self) -> Element:
        raise StopIteration

    def save(self, out: Sections, prefix: str) -> None:
        pass

    def restore(self, state: Sections, prefix: str) -> None:
        pass

    @classmethod
    def length(cls, inputs: list[int], *settings: Any) -> int:
        return 0


def row(value: Any, at: int) -> Any:
    """Return a row as an array, of rank 0 and of strings too."""
    if value.dtype == object and value.ndim == 1:
        out = np.empty((), object)
        out[()] = value[at]
        return out
    return np.asarray(value[at])


def first_row(value: Any) -> Tensor:
    if len(value):
        return Tensor(row(value, 0))
    blank = np.empty(value.shape[1:], value.dtype)
    blank[...] = b"" if value.dtype == object else 0
    return Tensor(blank)
