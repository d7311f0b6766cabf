"""Batches, padded ones, and elements out of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from formats.tf.run.iterator_state import own_key

from ..errors import DataLossError, InvalidArgumentError
from ..nest import flatten, map_structure, pack_sequence_as
from ..tensor import Tensor
from .cursors import Derived
from .recipe import INFINITE, UNKNOWN
from .saved import Sections, UnfitStateError
from .sources import first_row, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .recipe import Element, Step

__all__ = ["Batched", "PaddedBatches", "Unbatched", "element_of", "gathered", "repeated", "stacked"]


class Batched(Derived):
    name = "BatchV2"

    def __init__(self, inputs: Sequence[Step], size: int, drops: bool) -> None:
        super().__init__(inputs)
        self._size, self._drops = size, drops

    def next(self) -> Element:
        return stacked(gathered(self.draw, self._size, self._drops))

    @classmethod
    def length(cls, inputs: list[int], size: int, drops: bool) -> int:
        if inputs[0] < 0:
            return inputs[0]
        return inputs[0] // size if drops else -(-inputs[0] // size)

    @classmethod
    def sample(cls, inputs: list[Element], more: int, size: int, drops: bool) -> Element:
        return repeated(inputs[0], size if drops else size + more)


class PaddedBatches(Derived):
    """Batches of elements that are padded at their ends to the same shape."""

    name = "PaddedBatchV2"
    ended = "exhausted"

    def __init__(self, inputs: Sequence[Step], size: int, drops: bool, shapes: Any, fillings: Any) -> None:
        super().__init__(inputs)
        self._size, self._drops, self._shapes, self._fillings = size, drops, shapes, fillings

    def next(self) -> Element:
        return _padded(gathered(self.draw, self._size, self._drops), self._shapes, self._fillings)

    @classmethod
    def length(cls, inputs: list[int], size: int, drops: bool, *rest: Any) -> int:
        return Batched.length(inputs, size, drops)

    @classmethod
    def sample(
        cls, inputs: list[Element], more: int, size: int, drops: bool, shapes: Any, fillings: Any
    ) -> Element:
        padded = _padded([inputs[0]], shapes, fillings, more)
        return map_structure(
            lambda leaf: _broadcast(Tensor(leaf._value[0]), size if drops else size + more), padded
        )


class Unbatched(Derived):
    name = "Unbatch"

    def __init__(self, inputs: Sequence[Step]) -> None:
        super().__init__(inputs)
        self._batch: Element = None
        self._at = self._size = 0

    def next(self) -> Element:
        while self._at >= self._size:
            self._at = self._size = 0
            self._batch = self.draw()
            self._size = len(flatten(self._batch)[0])
        at = self._at
        self._at += 1
        return element_of(self._batch, at)

    def save(self, out: Sections, prefix: str) -> None:
        me = f"{prefix}::{self.name}"
        values = {"input_impl_empty": int(self._input is None), "current_index": self._at, "n": self._size}
        out.put(me, {own_key(me, key): value for key, value in values.items()})
        if self._at < self._size:
            out.put_element(me, own_key(me, "tensors[{}]"), self._batch)
        if self._input is not None:
            self._input.save(out, me)

    def take(self, state: Sections, me: str) -> None:
        self._size = state.number(me, "n", most=1 << 62)
        self._at = state.number(me, "current_index", most=self._size)
        if self._at < self._size:
            batch = self._source.structure
            self._batch = state.element(me, "tensors[{}]", len(flatten(batch)), batch)
            if any(leaf.ndim == 0 or len(leaf) != self._size for leaf in flatten(self._batch)):
                raise UnfitStateError(f"{me}: a batch of other than {self._size} elements")

    @classmethod
    def length(cls, inputs: list[int]) -> int:
        return inputs[0] if inputs[0] in (0, INFINITE) else UNKNOWN

    @classmethod
    def sample(cls, inputs: list[Element], more: int) -> Element:
        return map_structure(lambda leaf: first_row(leaf._value), inputs[0])


def element_of(batch: Element, at: int) -> Element:
    """Return one element of a batch."""
    return map_structure(lambda leaf: Tensor(row(leaf._value, at)), batch)


def gathered(draw: Any, size: int, drops: bool) -> list[Element]:
    """Return the elements of a batch; StopIteration where there is none."""
    parts: list[Element] = []
    while len(parts) < size:
        try:
            parts.append(draw())
        except StopIteration:
            break
    if not parts or (drops and len(parts) < size):
        raise StopIteration
    return parts


def stacked(parts: list[Element]) -> Element:
    columns = zip(*map(flatten, parts), strict=True)
    stacked = [Tensor(_stack(column, number)) for number, column in enumerate(columns)]
    return pack_sequence_as(parts[0], stacked)


def _stack(column: tuple[Tensor, ...], component: int) -> Any:
    values = [leaf._value for leaf in column]
    shape = values[0].shape
    for number, value in enumerate(values):
        if value.shape != shape:
            raise InvalidArgumentError(
                f"Cannot batch tensors with different shapes in component {component}. "
                f"First element had shape {list(shape)} and element {number} had shape "
                f"{list(value.shape)}."
            )
    if values[0].dtype == object:
        out = np.empty((len(values), *shape), object)
        for number, value in enumerate(values):
            out[number] = value if value.ndim else value.item()
        return out
    return np.array(values)


def _broadcast(leaf: Tensor, rows: int) -> Tensor:
    return Tensor(np.broadcast_to(leaf._value, (rows, *leaf._value.shape)))


def repeated(element: Element, rows: int) -> Element:
    """Return a batch of one element many times, which takes no memory."""
    return map_structure(lambda leaf: _broadcast(leaf, rows), element)


def _padded(parts: list[Element], shapes: Any, fillings: Any, more: int = 0) -> Element:
    """Return elements stacked, each padded to a shape, in which None is the size of the longest."""
    rows = [flatten(part) for part in parts]
    if shapes is None:
        shapes = [(None,) * leaf.ndim for leaf in rows[0]]
    if fillings is None:
        fillings = [b"" if leaf._value.dtype == object else 0 for leaf in rows[0]]
    padded = [
        Tensor(_padded_stack([one[place]._value for one in rows], shape, filling, more))
        for place, (shape, filling) in enumerate(zip(shapes, fillings, strict=True))
    ]
    return pack_sequence_as(parts[0], padded)


def _padded_stack(values: list[Any], shape: tuple[int | None, ...], filling: Any, more: int) -> Any:
    if any(value.ndim != len(shape) for value in values):
        raise InvalidArgumentError(
            f"All elements in a batch must have the same rank as the padded shape {shape}: "
            f"{[value.shape for value in values]}"
        )
    # An axis without a size is as long as the longest element is: it varies.
    longest = [max(sizes) + more for sizes in zip(*(value.shape for value in values), strict=True)]
    sizes = [long if wanted is None else wanted for long, wanted in zip(longest, shape, strict=True)]
    out = np.empty((len(values), *sizes), values[0].dtype)
    out[...] = filling
    for number, value in enumerate(values):
        if any(size > wanted for size, wanted in zip(value.shape, sizes, strict=True)):
            raise DataLossError("Attempted to pad to a smaller size than the input element.")
        place: Any = (number, *map(slice, value.shape))
        out[place] = value if value.ndim else value.item()
    return out
