"""Cursors: a place in a pass over a dataset, its state, and being put into a state.

A cursor draws from the cursors of the datasets its own is made of, and its state holds
theirs.  What a pass is given beside that is its number: a shuffled pass is shuffled by
(seed, number), so that a later one can be begun anew from its number alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from . import dtypes
from .nest import flatten, map_structure
from .tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Batched",
    "Concatenated",
    "Counting",
    "Cursor",
    "Derived",
    "Filtered",
    "Generated",
    "Mapped",
    "Repeated",
    "Several",
    "Shuffled",
    "Skipped",
    "Slices",
    "Source",
    "Taken",
    "Unbatched",
    "Zipped",
]

Element = Any
State = dict[str, Any]


class Cursor(ABC):
    """A place in a pass over a dataset."""

    @abstractmethod
    def next(self) -> Element:
        """Return the next element; StopIteration at the end, and ever after."""

    @abstractmethod
    def state(self) -> State:
        """Return what `restore` needs to be here again: JSON with arrays in it."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Go back to where a state was taken."""


def _call(function: Callable[..., Any], element: Element) -> Any:
    return function(*element) if isinstance(element, tuple) else function(element)


class Slices(Cursor):
    def __init__(self, tensors: Any, size: int) -> None:
        self._tensors, self._size, self._at = tensors, size, 0

    def next(self) -> Element:
        at = self._at
        if at >= self._size:
            raise StopIteration
        self._at = at + 1
        return map_structure(lambda leaf: as_tensor(leaf[at]), self._tensors)

    def state(self) -> State:
        return {"at": self._at}

    def restore(self, state: State) -> None:
        self._at = int(state["at"])


class Counting(Cursor):
    def __init__(self, start: int) -> None:
        self._at = start

    def next(self) -> Element:
        self._at += 1
        return as_tensor(np.int64(self._at - 1))

    def state(self) -> State:
        return {"at": self._at}

    def restore(self, state: State) -> None:
        self._at = int(state["at"])


class Generated(Cursor):
    def __init__(self, generator: Callable[..., Any], types: Any) -> None:
        self._make, self._types, self._done = generator, types, 0
        self._running = iter(generator())

    def next(self) -> Element:
        element = next(self._running)
        self._done += 1
        if self._types is None:
            return map_structure(as_tensor, element)
        return map_structure(lambda leaf, kind: as_tensor(leaf, dtypes.as_numpy(kind)), element, self._types)

    def state(self) -> State:
        return {"done": self._done}

    def restore(self, state: State) -> None:
        self._running, self._done = iter(self._make()), 0
        for _ in range(int(state["done"])):
            self.next()


class Source(Protocol):
    """What cursors know of a dataset."""

    pipeline: str

    @property
    def element_spec(self) -> Any: ...

    def open(self, number: int) -> Cursor:
        """Return a cursor at the beginning of the pass of this number."""


class Derived(Cursor):
    """A cursor that draws from another, and by default has no state beside that one's."""

    def __init__(self, dataset: Source, number: int) -> None:
        self._dataset, self._number = dataset, number
        self._source = dataset.open(number)

    def state(self) -> State:
        return {"source": self._source.state()}

    def restore(self, state: State) -> None:
        self._source.restore(state["source"])


class Repeated(Derived):
    def __init__(self, dataset: Source, number: int, times: int | None) -> None:
        super().__init__(dataset, number)
        self._times, self._round, self._is_empty = times, 0, True

    def _is_over(self) -> bool:
        return self._times is not None and self._round >= self._times

    def next(self) -> Element:
        while not self._is_over():
            try:
                element = self._source.next()
            except StopIteration:
                if self._is_empty:
                    raise
                self._round += 1
                self._is_empty = True
                self._source = self._dataset.open(self._number + self._round)
                continue
            self._is_empty = False
            return element
        raise StopIteration

    def state(self) -> State:
        return {**super().state(), "round": self._round, "empty": self._is_empty, "number": self._number}

    def restore(self, state: State) -> None:
        self._round, self._is_empty, self._number = (
            int(state["round"]),
            bool(state["empty"]),
            int(state["number"]),
        )
        self._source = self._dataset.open(self._number + self._round)
        super().restore(state)


class Batched(Derived):
    def __init__(self, dataset: Source, number: int, size: int, drops: bool) -> None:
        super().__init__(dataset, number)
        self._size, self._drops = size, drops

    def next(self) -> Element:
        parts: list[Element] = []
        while len(parts) < self._size:
            try:
                parts.append(self._source.next())
            except StopIteration:
                break
        if not parts or (self._drops and len(parts) < self._size):
            raise StopIteration
        return map_structure(lambda *leaves: Tensor(_stacked([leaf._value for leaf in leaves])), *parts)


def _stacked(values: list[Any]) -> Any:
    if values[0].dtype == object:
        out = np.empty((len(values), *values[0].shape), object)
        for number, value in enumerate(values):
            out[number] = value if value.ndim else value.item()
        return out
    return np.array(values)


class Unbatched(Derived):
    def __init__(self, dataset: Source, number: int) -> None:
        super().__init__(dataset, number)
        self._batch: Any = None
        self._at = 0

    def next(self) -> Element:
        while self._batch is None or self._at >= len(flatten(self._batch)[0]):
            self._batch, self._at = self._source.next(), 0
        at = self._at
        self._at += 1
        return map_structure(lambda leaf: leaf[at], self._batch)

    def state(self) -> State:
        batch = None if self._batch is None else map_structure(lambda leaf: leaf._value, self._batch)
        return {**super().state(), "at": self._at, "batch": batch}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._at = int(state["at"])
        self._batch = None if state["batch"] is None else map_structure(as_tensor, state["batch"])


class Shuffled(Derived):
    def __init__(self, dataset: Source, number: int, size: int, seed: int, reshuffles: bool) -> None:
        super().__init__(dataset, number)
        self._size, self._seed, self._reshuffles = size, seed, reshuffles
        self._buffer: list[Element] = []
        self._is_drained = False
        self._seeded()

    def _seeded(self) -> None:
        self._generator = np.random.default_rng([self._seed, self._number if self._reshuffles else 0])

    def next(self) -> Element:
        while not self._is_drained and len(self._buffer) < self._size:
            try:
                self._buffer.append(self._source.next())
            except StopIteration:
                self._is_drained = True
        if not self._buffer:
            raise StopIteration
        place = int(self._generator.integers(len(self._buffer)))
        chosen = self._buffer[place]
        last = self._buffer.pop()
        if place < len(self._buffer):
            self._buffer[place] = last
        return chosen

    def state(self) -> State:
        buffer = [map_structure(lambda leaf: leaf._value, element) for element in self._buffer]
        own = {"seed": self._seed, "number": self._number, "drained": self._is_drained}
        random = self._generator.bit_generator.state
        return {**super().state(), **own, "buffer": buffer, "random": random}

    def restore(self, state: State) -> None:
        self._seed, self._number, self._is_drained = (
            int(state["seed"]),
            int(state["number"]),
            bool(state["drained"]),
        )
        self._source = self._dataset.open(self._number)
        super().restore(state)
        self._buffer = [map_structure(as_tensor, element) for element in state["buffer"]]
        self._seeded()
        self._generator.bit_generator.state = state["random"]


class Mapped(Derived):
    def __init__(self, dataset: Source, number: int, function: Callable[..., Any]) -> None:
        super().__init__(dataset, number)
        self._function = function

    def next(self) -> Element:
        made = _call(self._function, self._source.next())
        if isinstance(made, list):
            made = tuple(made)
        return map_structure(lambda leaf: leaf if leaf.__class__ is Tensor else as_tensor(leaf), made)


class Filtered(Mapped):
    def next(self) -> Element:
        while True:
            element = self._source.next()
            if bool(_call(self._function, element)):
                return element


class Taken(Derived):
    def __init__(self, dataset: Source, number: int, most: int) -> None:
        super().__init__(dataset, number)
        self._most, self._count = most, 0

    def next(self) -> Element:
        if 0 <= self._most <= self._count:
            raise StopIteration
        element = self._source.next()
        self._count += 1
        return element

    def state(self) -> State:
        return {**super().state(), "count": self._count}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._count = int(state["count"])


class Skipped(Taken):
    def next(self) -> Element:
        while self._count < self._most:
            self._count += 1
            self._source.next()
        return self._source.next()


class Several(Cursor):
    """A cursor that draws from several."""

    def __init__(self, datasets: list[Source], number: int) -> None:
        self._sources = [dataset.open(number) for dataset in datasets]

    def state(self) -> State:
        return {"sources": [source.state() for source in self._sources]}

    def restore(self, state: State) -> None:
        for source, own in zip(self._sources, state["sources"], strict=True):
            source.restore(own)


class Zipped(Several):
    def __init__(self, structure: Any, number: int) -> None:
        super().__init__(flatten(structure), number)
        self._structure = structure

    def next(self) -> Element:
        elements = iter([source.next() for source in self._sources])
        return map_structure(lambda _: next(elements), self._structure)


class Concatenated(Several):
    def __init__(self, datasets: list[Source], number: int) -> None:
        super().__init__(datasets, number)
        self._at = 0

    def next(self) -> Element:
        while self._at < len(self._sources):
            try:
                return self._sources[self._at].next()
            except StopIteration:
                self._at += 1
        raise StopIteration

    def state(self) -> State:
        return {**super().state(), "at": self._at}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._at = int(state["at"])
