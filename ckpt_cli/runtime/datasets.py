"""Datasets: pipelines of elements, and iterators that can be saved and go on where they were.

A dataset is a recipe; an iterator of it is a chain of cursors, each of which can tell
its state and be put into one.  What is saved of an iterator is the chain's state as
JSON, with the recipe's name, so that a state is not put into another pipeline.

    {"pipeline": "batch(repeat(slices))", "state": {...}}

TensorFlow saves its iterators as variants of its own; those are not understood here.
A pass over a shuffled dataset is shuffled by (seed, number of the pass), so that a
pass can be begun anew from its number alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .cursors import (
    Batched,
    Concatenated,
    Counting,
    Cursor,
    Derived,
    Filtered,
    Generated,
    Mapped,
    Repeated,
    Shuffled,
    Skipped,
    Slices,
    Taken,
    Unbatched,
    Zipped,
)
from .nest import flatten, map_structure
from .ops.random import generator_for
from .tensor import Tensor, as_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["AUTOTUNE", "Dataset"]

AUTOTUNE = -1


class Dataset:
    """A recipe for elements, which are tensors or structures of tensors."""

    def __init__(
        self, name: str, open_cursor: Callable[[int], Cursor], length: Callable[[], int] | None = None
    ) -> None:
        self.pipeline = name
        self._open = open_cursor
        self._length = length
        self._passes = 0

    def __iter__(self) -> Any:
        from .iterators import OwnedIterator

        number = self._passes
        self._passes += 1
        return OwnedIterator(self, number)

    def open(self, number: int) -> Cursor:
        """Return a cursor at the beginning of a pass."""
        return self._open(number)

    def _derived(
        self, name: str, cursor: type[Derived], *arguments: Any, length: Callable[[], int] | None = None
    ) -> Dataset:
        return Dataset(f"{name}({self.pipeline})", lambda number: cursor(self, number, *arguments), length)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of the rows of tensors, which all have as many."""
        del name
        tensors = map_structure(lambda leaf: as_tensor(leaf)._value, _plain(tensors))
        sizes = {len(leaf) if leaf.ndim else -1 for leaf in flatten(tensors)}
        if len(sizes) != 1 or -1 in sizes:
            raise ValueError(
                f"Dimensions {sorted(sizes)} are not compatible: every tensor needs the same number of rows."
            )
        (size,) = sizes
        return Dataset("slices", lambda _: Slices(tensors, size), lambda: size)

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of one element."""
        del name
        return Dataset.from_tensor_slices(
            map_structure(lambda leaf: as_tensor(leaf)._value[None], _plain(tensors))
        )

    @staticmethod
    def range(*bounds: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Dataset:
        del name
        values = np.arange(*(int(bound) for bound in bounds)).astype(dtypes.as_numpy(output_type))
        return Dataset("range", lambda _: Slices(values, len(values)), lambda: len(values))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any], output_types: Any = None, output_signature: Any = None, **options: Any
    ) -> Dataset:
        """Return a dataset of what a generator yields; it is restored by going through it again."""
        del output_signature, options
        return Dataset("generator", lambda _: Generated(generator, output_types))

    @staticmethod
    def zip(*datasets: Any, name: str | None = None) -> Dataset:
        """Return a dataset of elements side by side, as long as its shortest part."""
        del name
        structure = datasets[0] if len(datasets) == 1 else tuple(datasets)
        parts: list[Dataset] = flatten(structure)
        label = ",".join(part.pipeline for part in parts)
        return Dataset(
            f"zip({label})", lambda number: Zipped(structure, number), lambda: min(map(len, parts))
        )

    def repeat(self, count: int | None = None, name: str | None = None) -> Dataset:
        del name
        times = None if count is None or int(count) < 0 else int(count)
        return self._derived(
            "repeat", Repeated, times, length=None if times is None else lambda: len(self) * times
        )

    def batch(self, batch_size: Any, drop_remainder: bool = False, **options: Any) -> Dataset:
        del options
        size = int(batch_size)
        if size <= 0:
            raise ValueError("batch_size must be greater than zero.")
        return self._derived(
            "batch", Batched, size, drop_remainder,
            length=lambda: len(self) // size if drop_remainder else -(-len(self) // size),
        )  # fmt: skip

    def unbatch(self, name: str | None = None) -> Dataset:
        del name
        return self._derived("unbatch", Unbatched)

    def shuffle(
        self,
        buffer_size: Any,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return the elements drawn at random from a buffer that is refilled in order."""
        del name
        if seed is None:
            seed = int(generator_for(None).integers(2**31))
        reshuffles = reshuffle_each_iteration is not False
        return self._derived(
            "shuffle", Shuffled, int(buffer_size), int(seed), reshuffles, length=self._length
        )

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None, **options: Any) -> Dataset:
        """Return what a function makes of each element; a tuple is spread over its arguments."""
        del num_parallel_calls, options
        return self._derived("map", Mapped, map_func, length=self._length)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        del name
        return self._derived("filter", Filtered, predicate)

    def take(self, count: Any, name: str | None = None) -> Dataset:
        del name
        most = int(count)
        return self._derived(
            "take", Taken, most, length=lambda: len(self) if most < 0 else min(most, len(self))
        )

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        del name
        return self._derived("skip", Skipped, int(count), length=lambda: max(0, len(self) - int(count)))

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        del name
        return Dataset.zip(_counting(start), self)

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        del name
        label = f"concatenate({self.pipeline},{dataset.pipeline})"
        return Dataset(
            label, lambda number: Concatenated([self, dataset], number), lambda: len(self) + len(dataset)
        )

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Dataset:
        """Return the same dataset: nothing here runs ahead."""
        del buffer_size, name
        return self

    def cache(self, filename: str = "", name: str | None = None) -> Dataset:
        """Return the same dataset: its elements are made again."""
        del filename, name
        return self

    def as_numpy_iterator(self) -> Iterator[Any]:
        for element in self:
            yield map_structure(lambda leaf: leaf.numpy(), element)

    def cardinality(self) -> Tensor:
        """Return how many elements there are: -1 for endless, -2 where it takes a pass to know."""
        if self._length is None:
            return as_tensor(np.int64(-1 if self.pipeline.startswith("repeat") else -2))
        try:
            return as_tensor(np.int64(len(self)))
        except TypeError:
            return as_tensor(np.int64(-1))

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError(
                "The dataset is infinite." if "repeat" in self.pipeline else "The dataset length is unknown."
            )
        return self._length()

    def __bool__(self) -> bool:
        return True

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
        del name
        state = map_structure(as_tensor, initial_state)
        for element in self:
            state = reduce_func(state, element)
        return state

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of an element, found by looking at the first."""
        from .specs import TensorSpec

        return map_structure(lambda leaf: TensorSpec(leaf.shape, leaf.dtype), self.open(0).next())

    def __repr__(self) -> str:
        return f"<Dataset {self.pipeline}>"


def _counting(start: int) -> Dataset:
    return Dataset("count", lambda _: Counting(start))


def _plain(value: Any) -> Any:
    """Return a structure in which lists of numbers are arrays and not structures."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        parts = [_plain(one) for one in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return as_tensor(value)
