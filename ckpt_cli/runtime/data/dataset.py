"""Datasets: recipes for elements, which are tensors or structures of tensors.

Each method returns a dataset of one step more.  Nothing runs before an iterator draws, and
an iterator runs what TensorFlow would make of the recipe (`rewriting`).
"""

from __future__ import annotations

import builtins
import itertools
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes
from ..errors import InvalidArgumentError, UnimplementedError
from ..io import glob as matching
from ..nest import flatten, map_structure, map_up_to
from ..ops.random import operation_seeds
from ..specs import TensorSpec
from ..tensor import Tensor, as_tensor
from .ahead import BatchesAhead, Mapped, Prefetched, PrefetchedNothing
from .batching import Batched, PaddedBatches, Unbatched
from .caching import Cached, Memory
from .combining import Concatenated, Zipped
from .functions import Mapping, as_element
from .interleaving import Interleaved, InterleavedAhead
from .iterators import OwnedIterator
from .nesting import FlatMapped, Windowed
from .passing import Filtered, Repeated, RepeatedForever, Sharded, Skipped, Taken
from .recipe import INFINITE, UNKNOWN, Step
from .rewriting import as_it_is
from .shuffling import Seeds, Shuffled
from .sources import Generated, Nothing, Ranged, Single, Slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .cursors import Cursor

__all__ = ["AUTOTUNE", "Dataset", "DatasetSpec"]

AUTOTUNE = -1
_COUNTED = ("int32", "int64", "object")


class Dataset:
    """A recipe for elements."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def __iter__(self) -> Any:
        return OwnedIterator(self)

    def afresh(self) -> OwnedIterator:
        """Return an iterator like the first one, regardless of earlier iterators."""
        return OwnedIterator(Dataset(self.step.anew()))

    def _then(self, kind: type[Cursor], *settings: Any) -> Dataset:
        return Dataset(Step(kind, (self.step,), settings))

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of the rows of tensors, which all have as many."""
        tensors = map_structure(lambda leaf: as_tensor(leaf)._value, as_element(tensors))
        sizes = {len(leaf) if leaf.ndim else -1 for leaf in flatten(tensors)}
        if len(sizes) != 1 or -1 in sizes:
            raise ValueError(
                f"Dimensions {sorted(sizes)} are not compatible: every tensor needs the same number of rows."
            )
        return Dataset(Step(Slices, (), (tensors, *sizes)))

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of one element."""
        return Dataset(Step(Single, (), (as_element(tensors),)))

    @staticmethod
    def range(*args: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Dataset:
        if not 1 <= len(args) <= 3:
            raise ValueError(
                f"Invalid `args`. The length of `args` should be between 1 and 3 but was {len(args)}."
            )
        values = builtins.range(*(int(as_tensor(bound, np.dtype(np.int64))) for bound in args))
        return Dataset(Step(Ranged, (), (values, dtypes.as_numpy(output_type))))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Return a dataset of what a generator yields; its iterators cannot be saved, as TensorFlow's."""
        like = output_signature
        if like is None and output_shapes is not None:
            shapes = iter(_shapes(output_shapes, output_types))
            like = map_structure(lambda kind: TensorSpec(next(shapes), kind), output_types)
        types = output_types if like is None else map_structure(lambda spec: spec.dtype, like)
        arguments = tuple(as_tensor(one).numpy() for one in args or ())

        def elements() -> Iterator[Any]:
            for element in generator(*arguments):
                yield _fitting(_typed(element, types), like)

        return Dataset(Step(Generated, (), (elements, like)))

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Return a dataset of elements side by side, as long as its shortest part."""
        structure = datasets if datasets is not None else args[0] if len(args) == 1 else args
        steps = tuple(part.step for part in flatten(structure))
        return Dataset(Step(Zipped, steps, (map_structure(lambda _: None, structure),)))

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        times = -1 if count is None else int(count)
        if times < 0:
            return self._then(RepeatedForever)
        if times == 0:
            return self._then(Nothing)
        return self if times == 1 else self._then(Repeated, times)

    def batch(
        self,
        batch_size: Any,
        drop_remainder: bool = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        kind = Batched if num_parallel_calls is None else BatchesAhead
        return self._then(kind, _positive("batch_size", batch_size), bool(drop_remainder))

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Return batches of elements padded at their ends, to the longest of a batch or to given shapes."""
        shapes = None if padded_shapes is None else _shapes(padded_shapes, self.step.structure)
        fillings = None if padding_values is None else _fillings(padding_values, self.step.structure)
        size = _positive("batch_size", batch_size)
        return self._then(PaddedBatches, size, bool(drop_remainder), shapes, fillings)

    def unbatch(self, name: str | None = None) -> Dataset:
        return self._then(Unbatched)

    def shuffle(
        self,
        buffer_size: Any,
        seed: Any = None,
        reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return the elements drawn at random from a buffer that is refilled in order."""
        if int(buffer_size) == UNKNOWN:
            raise UnimplementedError("shuffle: a buffer of unknown size is not implemented; give its size.")
        size = _positive("buffer_size", buffer_size)
        reshuffles = reshuffle_each_iteration is not False
        seeds = Seeds(*operation_seeds(None if seed is None else int(seed)), reshuffles)
        return self._then(Shuffled, size, seeds)

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return what a function makes of each element; a tuple is spread over its arguments."""
        return self._then(Mapped, Mapping(map_func))

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """Return the elements of the datasets that a function makes of elements, one after the other."""
        return self._then(FlatMapped, Mapping(map_func), as_it_is)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return elements of several such datasets in turn.

        By default of as many as there are processors. In parallel TensorFlow chooses no more than it
        makes calls at a time, and where it is to choose that, too, a third of the processors.
        """
        calls = None if num_parallel_calls is None else int(num_parallel_calls)
        cycle = AUTOTUNE if cycle_length is None else int(cycle_length)
        if cycle == AUTOTUNE:
            cycle = _cycle(calls)
        elif calls is not None and calls > cycle:
            raise InvalidArgumentError(
                "If `cycle_length` is set to a fixed value, `num_parallel_calls` must be either "
                "`tf.data.AUTOTUNE` or a value less than or equal to `cycle_length`. However, "
                f"`num_parallel_calls` is {calls} and `cycle_length` is {cycle}"
            )
        block = 1 if block_length is None else _positive("block_length", block_length)
        kind = Interleaved if calls is None else InterleavedAhead
        return self._then(kind, Mapping(map_func), as_it_is, _positive("cycle_length", cycle), block)

    def window(
        self,
        size: Any,
        shift: Any = None,
        stride: Any = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Return datasets of `size` elements each, one for every component of an element."""
        size = _positive("size", size)
        moved = size if shift is None else _positive("shift", shift)
        return self._then(Windowed, size, moved, _positive("stride", stride), bool(drop_remainder), Dataset)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        return self._then(Filtered, Mapping(predicate))

    def take(self, count: Any, name: str | None = None) -> Dataset:
        most = int(count)
        return self if most < 0 else self._then(Taken, most) if most else self._then(Nothing)

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        most = int(count)
        return self if most == 0 else self._then(Skipped, most) if most > 0 else self._then(Nothing)

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Return every `num_shards`th element, from the one at `index` on."""
        shards, place = _positive("num_shards", num_shards), int(index)
        if not 0 <= place < shards:
            raise InvalidArgumentError(
                f"index must be between 0 and {shards - 1} (currently index = {place})."
            )
        return self if shards == 1 else self._then(Sharded, shards, place)

    def enumerate(self, start: Any = 0, name: str | None = None) -> Dataset:
        return Dataset.zip((Dataset.range(int(start), np.iinfo(np.int64).max), self))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        return Dataset(Step(Concatenated, (self.step, dataset.step)))

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Dataset:
        """Return the same elements: nothing here runs ahead, but the step has its place in what is saved."""
        if int(buffer_size) < -1:
            raise InvalidArgumentError(f"buffer_size must be >= -1, got {buffer_size}")
        return self._then(Prefetched if int(buffer_size) else PrefetchedNothing)

    def cache(self, filename: str = "", name: str | None = None) -> Dataset:
        """Return the same elements, made once and kept in memory."""
        if filename:
            raise UnimplementedError("cache: a cache in a file is not implemented; leave out the filename.")
        return self._then(Cached, Memory())

    def apply(self, transformation_func: Callable[[Dataset], Any]) -> Dataset:
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"`transformation_func` must return a `tf.data.Dataset`. Got {type(dataset)}.")
        return dataset

    def with_options(self, options: Any, name: str | None = None) -> Dataset:
        """Return the same elements: options say how TensorFlow makes them."""
        return self

    def _made_by(self, elements: Callable[[], Iterator[Any]]) -> Dataset:
        return Dataset(Step(Generated, (), (elements, self.element_spec)))

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Return the elements before the first that is not wanted; its iterators cannot be saved."""
        wanted = Mapping(predicate)
        return self._made_by(lambda: itertools.takewhile(wanted.holds, iter(self)))

    def unique(self, name: str | None = None) -> Dataset:
        """Return each element once, where it comes first; its iterators cannot be saved."""

        def elements() -> Iterator[Any]:
            seen = set()
            for element in self:
                if isinstance(element, tuple | dict) or element._value.dtype.name not in _COUNTED:
                    raise TypeError("`tf.data.Dataset.unique` only supports integers and strings alone")
                key = element._value.tobytes() if element.dtype != dtypes.string else element.numpy()
                if key not in seen:
                    seen.add(key)
                    yield element

        return self._made_by(elements)

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: Any = None, name: str | None = None
    ) -> Dataset:
        """Return a dataset of the names of files that match, shuffled by default."""
        given = as_tensor(file_pattern).numpy()
        found = matching([given] if isinstance(given, bytes) else given.ravel().tolist())
        if not found:
            raise InvalidArgumentError(f"No files matched pattern: {file_pattern}")
        dataset = Dataset.from_tensor_slices(found)
        return dataset if shuffle is not None and not shuffle else dataset.shuffle(len(found), seed)

    def as_numpy_iterator(self) -> Iterator[Any]:
        for element in self:
            yield map_structure(lambda leaf: leaf.numpy(), element)

    def cardinality(self) -> Tensor:
        """Return how many elements there are: -1 for endless, -2 where it takes a pass to know."""
        return as_tensor(np.int64(self.step.length()))

    def __len__(self) -> int:
        length = self.step.length()
        if length < 0:
            raise TypeError(f"The dataset {'is infinite' if length == INFINITE else 'length is unknown'}.")
        return length

    def __bool__(self) -> bool:
        return True

    def reduce(self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None) -> Any:
        state = map_structure(as_tensor, initial_state)
        for element in self:
            state = reduce_func(state, element)
        return state

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of an element, with None for sizes that are not the same in all."""
        return map_structure(_spec, self.step.sample(), self.step.sample(more=1))

    def __repr__(self) -> str:
        return f"<Dataset {self.step}>"


class DatasetSpec:
    """The spec of the elements in a dataset that is itself an element."""

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and self.element_spec == other.element_spec

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}, TensorShape([]))"


def _spec(leaf: Any, longer: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return DatasetSpec(leaf.element_spec)
    sizes = [one if one == other else None for one, other in zip(leaf.shape, longer.shape, strict=True)]
    return TensorSpec(sizes, leaf.dtype)


def _cycle(calls: int | None) -> int:
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if calls is None:
        return processors
    return -(-processors // 3) if calls == AUTOTUNE else min(calls, processors)


def _positive(name: str, value: Any) -> int:
    number = int(as_tensor(value, np.dtype(np.int64)))
    if number <= 0:
        raise InvalidArgumentError(f"{name} must be greater than zero.")
    return number


def _fitting(element: Any, like: Any) -> Any:
    """Return an element of a generator, whose shapes must be the declared ones."""
    for spec, leaf in builtins.zip(flatten(like), flatten(element), strict=False):
        if like is not None and not spec.shape.is_compatible_with(leaf.shape):
            raise InvalidArgumentError(
                f"`generator` yielded an element of shape {leaf.shape}, where an element of {spec.shape} "
                "was expected."
            )
    return element


def _typed(element: Any, types: Any) -> Any:
    if types is None:
        return map_structure(as_tensor, element)
    try:
        return map_up_to(lambda kind, leaf: as_tensor(leaf, dtypes.as_numpy(kind)), types, element)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{type(error).__name__}: {error}") from error


def _shapes(shapes: Any, structure: Any) -> list[tuple[int | None, ...]]:
    """Return a shape for each component, None for a size of -1 or None."""

    def pick(like: Any, given: Any) -> list[Any]:
        if isinstance(like, dict):
            return [one for key in sorted(like) for one in pick(like[key], given[key])]
        if isinstance(like, tuple):
            return [one for part, own in zip(like, given, strict=True) for one in pick(part, own)]
        sizes = [given] if isinstance(given, int) else given
        return [tuple(None if size is None or int(size) < 0 else int(size) for size in sizes)]

    return pick(structure, shapes)


def _fillings(values: Any, structure: Any) -> list[Any]:
    """Return what each component is padded with; one value is for all."""
    leaves = flatten(structure)
    given = flatten(values) if isinstance(values, dict | tuple) else [values] * len(leaves)
    blanks = [b"" if leaf.dtype == dtypes.string else 0 for leaf in leaves]
    fillings = [None if value is None else as_tensor(value) for value in given]
    for filling, leaf in zip(fillings, leaves, strict=True):
        if filling is not None and filling.dtype != leaf.dtype:
            raise TypeError(
                f"Invalid `padding_values`. Its type {filling.dtype!r} does not match type {leaf.dtype!r} of "
                "the corresponding input component."
            )
    return [
        blank if filling is None else filling.numpy() for filling, blank in zip(fillings, blanks, strict=True)
    ]
