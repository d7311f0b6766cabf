"""The tensors of Flax's trees: ranges of a file, and numbers that opening has read."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..core.chunks import PIECE, array_chunks, stored_chunks
from ..core.dtypes import BY_NAME, DType
from ..core.region import full_index, index_shape
from ..core.slicing import allocate, fill_region, region_chunks
from ..core.spec import TensorSpec
from ..errors import CheckpointError
from ..model.tensor import LazyTensor
from ..store.base import CLOSED
from ..store.ranges import FileRange
from .flax_tree import ArrayLeaf, Complex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Index
    from ..store.base import File


def spec_of(key: str, leaf: Any) -> TensorSpec | None:
    """Return the spec of a leaf, or None if it is not a tensor."""
    if isinstance(leaf, ArrayLeaf):
        return TensorSpec(key, leaf.dtype, leaf.shape, leaf.nbytes)
    dtype = _number_dtype(leaf)
    return None if dtype is None else TensorSpec(key, dtype, ())


def _number_dtype(value: Any) -> DType | None:
    if isinstance(value, bool):
        return BY_NAME["bool"]
    if isinstance(value, int):
        return BY_NAME["int64" if value < 1 << 63 else "uint64"]
    if isinstance(value, float):
        return BY_NAME["float64"]
    return BY_NAME["complex128"] if isinstance(value, Complex) else None


def normalise(array: np.ndarray[Any, Any]) -> None:
    """Make bools 0 and 1, and clear the bits that numbers of less than a byte do not have."""
    import numpy as np

    if array.dtype == np.bool_:
        np.not_equal(array.view(np.uint8), 0, out=array)
    elif array.dtype.name in NARROW:
        array.view(np.uint8)[...] &= NARROW[array.dtype.name]


NARROW = {"int4": 15, "uint4": 15, "int2": 3, "uint2": 3, "float4_e2m1fn": 15}
"""Types of less than a byte, and the bits that they have of it."""


def is_plain(dtype: DType) -> bool:
    """Whether each pattern of bits is a value of its own."""
    return dtype.name != "bool" and dtype.name not in NARROW


class RangesTensor(LazyTensor):
    """An array whose bytes are one range of a file, or several."""

    def __init__(self, file: File, spec: TensorSpec, leaf: ArrayLeaf) -> None:
        super().__init__(spec)
        self._file = file
        self._parts = leaf.parts
        self._ends = [*accumulate(part.size for part in leaf.parts)]

    def _read(self, offset: int, size: int) -> bytes:
        """Return bytes of all parts in a row."""
        at = bisect_right(self._ends, offset)
        found = []
        while size:
            begin = self._ends[at] - self._parts[at].size
            count = min(size, self._ends[at] - offset)
            found.append(self._file.read_exactly(self._parts[at].offset + offset - begin, count))
            offset, size, at = offset + count, size - count, at + 1
        return found[0] if len(found) == 1 else b"".join(found)

    def read(self) -> np.ndarray[Any, Any]:
        values = self.file_range()
        return self.read_region(full_index(self.spec.shape)) if values is None else values.array(self.spec)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        out = allocate(self.spec, index_shape(index), self._file.path)
        fill_region(self._read, self.spec.shape, out.dtype, index, out)
        normalise(out)
        return out

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return region_chunks(self.read_region, index, self.spec.dtype.itemsize or 1, max_bytes)

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        if not is_plain(self.spec.dtype):
            yield from self.region_chunks(full_index(self.spec.shape), max_bytes)
            return
        size, itemsize = self._ends[-1], self.spec.dtype.itemsize or 1
        for part in self._parts:
            self._file.expect(part.offset, part.size)
        yield from stored_chunks(self._read, 0, size, itemsize, max_bytes)

    def file_range(self) -> FileRange | None:
        if not is_plain(self.spec.dtype) or len(self._parts) > 1:
            return None
        part = self._parts[0]
        return FileRange(self._file, part.offset, part.size, self.spec.key)


class NumberTensor(LazyTensor):
    """A number that was read when the file was opened."""

    def __init__(self, spec: TensorSpec, value: Any, path: str, is_closed: Callable[[], bool]) -> None:
        super().__init__(spec)
        self._value = value.value if isinstance(value, Complex) else value
        self._path = path
        self._is_closed = is_closed

    def read(self) -> np.ndarray[Any, Any]:
        import numpy as np

        if self._is_closed():
            raise CheckpointError(CLOSED, path=self._path)
        return np.array(self._value, self.spec.dtype.numpy)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        where: tuple[Any, ...] = (*index, ...)
        found: np.ndarray[Any, Any] = self.read()[where]
        return found

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return array_chunks(self.read(), max_bytes)
