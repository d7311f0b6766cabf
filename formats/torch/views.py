"""Tensors that are views of storages: their elements gathered by strides.

Element (i, j, ...) is at `first + i * stride[0] + j * stride[1] + ...`. A transposed tensor is its storage
with reversed strides, a row begins within its storage, and an expanded dimension has stride 0. Elements are
gathered in the order of the storage, in blocks of at most a piece, unless dimensions overlap.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..core.chunks import PIECE, ChunkSource, array_chunks, stored_chunks, whole_elements
from ..core.dtypes import raw_bytes
from ..core.region import full_index, index_shape
from ..core.slicing import allocate, region_chunks
from ..core.spec import TensorSpec
from ..errors import ChecksumError
from ..model.tensor import LazyTensor
from ..store.ranges import FileRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Index
    from .objects import ElementType, Storage, View
    from .storages import Container

Axes = list[tuple[int, int]]
"""Dimensions in storage order, the widest stride first: number of elements, distance between them."""


def span(axes: Iterable[tuple[int, int]]) -> int:
    """Return the number of elements from the first to the last, or 0 if there are none."""
    reach = 1
    for count, stride in axes:
        if not count:
            return 0
        reach += (count - 1) * stride
    return reach


def is_in_order(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements are in C order, each once, with or without gaps."""
    within = 1
    for count, stride in zip(reversed(shape), reversed(strides), strict=True):
        if count != 1:
            if stride < within:
                return False
            within = (count - 1) * stride + within
    return True


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether elements are in C order without gaps."""
    expected = 1
    for count, stride in zip(reversed(shape), reversed(strides), strict=True):
        if count == 0:
            return True
        if count != 1 and stride != expected:
            return False
        expected *= count
    return True


def stored_spec(key: str, kind: ElementType, shape: tuple[int, ...]) -> TensorSpec:
    """Return the spec of a tensor of one of torch's dtypes; with its bytes, where that is not mapped."""
    spec = TensorSpec(key, kind.values, shape)
    return spec._replace(stored=spec.size * kind.itemsize) if kind.values.is_unmapped else spec


def readable_spec(spec: TensorSpec, kind: ElementType) -> TensorSpec:
    """Return the spec that elements are gathered by: those that are not mapped are so many bytes."""
    return spec._replace(dtype=raw_bytes(kind.itemsize)) if spec.dtype.is_unmapped else spec


def view_flaw(view: View, container: Container) -> str | None:
    """Return what is wrong with a tensor that is not where its file has bytes of its storage."""
    storage = view.storage
    assert storage is not None
    size = container.size_of(storage)
    if size is None:
        return f"storage {storage.key!r:.60} is missing"
    if size < storage.nbytes:
        made = f"{storage.whole} {storage.type.name} need {storage.nbytes}"
        return f"storage {storage.key!r:.60} has {size} bytes, but {made}"
    reach = span(zip(view.shape, view.strides, strict=True))
    end = (view.first + reach) * view.type.itemsize if reach else 0
    if end > storage.elements * storage.type.itemsize:
        return (
            f"shape {list(view.shape)} with strides {list(view.strides)} reaches past the end of its storage"
        )
    return None


class TorchTensor(LazyTensor):
    """One view of a storage."""

    def __init__(self, container: Container, spec: TensorSpec, view: View) -> None:
        super().__init__(spec)
        self._container = container
        self._view = view

    @property
    def _storage(self) -> Storage:
        assert self._view.storage is not None
        return self._view.storage

    @property
    def _begin(self) -> int:
        """The offset of the first element in the storage, in bytes."""
        return self._storage.begin * self._storage.type.itemsize + self._view.first * self._view.type.itemsize

    @cached_property
    def _is_as_stored(self) -> bool:
        """Whether chunks are bytes of the storage just as they are."""
        view = self._view
        is_changed = view.conjugated or view.negated or self.spec.dtype.name == "bool"
        is_swapped = self._container.is_swapped and view.type.itemsize > 1
        return not is_changed and not is_swapped and is_contiguous(view.shape, view.strides)

    @property
    def _is_all(self) -> bool:
        """Whether they are all bytes that the file has of the storage."""
        is_whole = self._begin == 0 and self.spec.nbytes == self._container.size_of(self._storage)
        return is_whole and self._is_as_stored

    def read(self) -> np.ndarray[Any, Any]:
        import numpy as np

        if not self._is_all:
            return self.read_region(full_index(self.spec.shape))
        out = allocate(self.spec, self.spec.shape, self._container.path)
        flat, at = out.reshape(-1).view(np.uint8), 0
        for piece in self._pieces():
            flat[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
        return out

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        size, itemsize = self.spec.nbytes or 0, self._view.type.itemsize
        if self._is_all:
            source, step = ChunkSource(self._pieces()), whole_elements(max_bytes, itemsize)
            for at in range(0, size, step):
                yield source.take(min(step, size - at))
            source.finish()
        elif self._is_as_stored:
            self._prove()
            yield from stored_chunks(self._source(), self._begin, size, itemsize, max_bytes)
        elif is_in_order(self._view.shape, self._view.strides):
            yield from self.region_chunks(full_index(self.spec.shape), max_bytes)
        else:
            yield from array_chunks(self.read(), max_bytes)

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        if is_in_order(self._view.shape, self._view.strides):
            return region_chunks(self.read_region, index, self._view.type.itemsize, max_bytes)
        return super().region_chunks(index, max_bytes)

    def file_range(self) -> FileRange | None:
        return self.shard_range() if self._is_all else None

    def shard_range(self) -> FileRange | None:
        if not self._is_as_stored:
            return None
        found = self._range()
        return found._replace(crc32=self._container.crc32(self._storage)) if found and self._is_all else found

    def digest_range(self) -> FileRange | None:
        if self.spec.dtype.name != "bool":
            return self.file_range()
        if not is_contiguous(self._view.shape, self._view.strides):
            return None
        self._prove()
        return self._range()

    def _range(self) -> FileRange | None:
        """Return the range of contiguous elements, or None if they are deflated."""
        offset = self._container.offset_of(self._storage)
        if offset is None:
            return None
        return FileRange(self._container.file, offset + self._begin, self.spec.nbytes or 0, self.spec.key)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        import numpy as np

        self._prove()
        out = allocate(self.spec, index_shape(index), self._container.path)
        if out.size:
            self._gather(index, out)
        if self._view.conjugated and np.iscomplexobj(out):
            np.conjugate(out, out=out)
        if self._view.negated:
            np.negative(out, out=out)
        return out

    def _gather(self, index: Index, out: np.ndarray[Any, Any]) -> None:
        import numpy as np

        strides, itemsize = self._view.strides, self._view.type.itemsize
        first = sum(part.start * stride for part, stride in zip(index, strides, strict=True))
        steps = [part.step * stride for part, stride in zip(index, strides, strict=True)]
        # Of an expanded dimension one element is read, which then stands for all.
        counts = [count if step else 1 for count, step in zip(out.shape, steps, strict=True)]
        order = sorted(range(out.ndim), key=lambda axis: -steps[axis])
        axes = [(counts[axis], steps[axis]) for axis in order]
        is_bool = out.dtype == np.bool_
        stored = np.dtype(np.uint8) if is_bool else out.dtype
        if self._container.is_swapped and itemsize > 1:
            stored = stored.newbyteorder(">")
        blocks = StorageBlocks(self._source(), stored)
        blocks.fill(self._begin + first * itemsize, axes, out.transpose(order))

    def _prove(self) -> None:
        try:
            self._container.prove(self._storage)
        except ChecksumError as error:
            error.key = self.spec.key
            raise

    def _pieces(self) -> Iterator[bytes]:
        try:
            yield from self._container.pieces(self._storage)
        except ChecksumError as error:
            error.key = self.spec.key
            raise

    def _source(self) -> Callable[[int, int], bytes]:
        return self._container.source(self._storage)


class StorageBlocks:
    """Elements of a storage, read in blocks that begin where the one before ended, or later."""

    def __init__(self, read: Callable[[int, int], bytes], dtype: np.dtype[Any]) -> None:
        self._read = read
        self._dtype = dtype

    def fill(self, at: int, axes: Axes, out: np.ndarray[Any, Any]) -> None:
        """Fill an array, whose dimensions are `axes`, with the elements that begin at byte `at`."""
        itemsize = self._dtype.itemsize
        inner = span(axes[1:])
        if span(axes) * itemsize <= PIECE or axes[0][1] < inner:
            self._fill_at_once(at, axes, out)
            return
        count, stride = axes[0]
        group = 1 + max(0, PIECE // itemsize - inner) // stride
        for begin in range(0, count, group):
            if group == 1:
                self.fill(at + begin * stride * itemsize, axes[1:], out[begin, ...])
                continue
            part = out[begin : begin + group]
            self.fill(at + begin * stride * itemsize, [(len(part), stride), *axes[1:]], part)

    def _fill_at_once(self, at: int, axes: Axes, out: np.ndarray[Any, Any]) -> None:
        import numpy as np

        itemsize = self._dtype.itemsize
        raw = self._read(at, span(axes) * itemsize)
        shape = [count for count, _ in axes]
        strides = [stride * itemsize for _, stride in axes]
        block: np.ndarray[Any, Any] = np.ndarray(shape, self._dtype, raw, 0, strides)
        out[...] = block if out.dtype != np.bool_ else block != 0
