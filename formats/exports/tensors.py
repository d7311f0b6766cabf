"""The tensors of exported models: values as they are stored, and values computed from stored blocks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from ..core.chunks import PIECE, stored_chunks
from ..core.region import full_index, index_shape
from ..core.slicing import allocate, fill_region, region_chunks
from ..errors import UnsupportedFeatureError, leave_out
from ..model.tensor import LazyTensor
from ..store.ranges import FileRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Index
    from ..core.spec import TensorSpec
    from ..errors import CheckpointError
    from .stored import StoredRanges

_BLOCK_BYTES = 1 << 17
"""Stored bytes that are decoded at a time: their values stay in the processor's cache."""


class Codec(Protocol):
    """How values are computed from stored bytes."""

    block: int
    """Elements that are stored together; their number of bytes is `nbytes`."""

    nbytes: int

    def decode(self, raw: bytes, first: int) -> np.ndarray[Any, Any]:
        """Return the values of whole blocks; `first` is the number of the first element.

        If the last block is cut off at the end of the tensor, the values beyond it are arbitrary.
        """


class StoredTensor(LazyTensor):
    """A tensor whose values are stored as they are, little-endian."""

    def __init__(self, spec: TensorSpec, data: StoredRanges) -> None:
        super().__init__(spec)
        self._data = data

    def read(self) -> np.ndarray[Any, Any]:
        values = self.file_range()
        return self.read_region(full_index(self.spec.shape)) if values is None else values.array(self.spec)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        out = allocate(self.spec, index_shape(index), self._data.path)
        fill_region(self._data.read, self.spec.shape, out.dtype, index, out)
        return out

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return region_chunks(self.read_region, index, self.spec.dtype.itemsize or 1, max_bytes)

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        self._data.expect()
        itemsize = self.spec.dtype.itemsize or 1
        yield from stored_chunks(self._data.read, 0, self._data.size, itemsize, max_bytes)

    def file_range(self) -> FileRange | None:
        if len(self._data.parts) != 1:
            return None
        part = self._data.parts[0]
        return FileRange(part.file, part.offset, part.size, self.spec.key)


class DecodedTensor(LazyTensor):
    """A tensor whose values are computed from stored blocks, a piece at a time."""

    def __init__(self, spec: TensorSpec, data: StoredRanges, codec: Codec) -> None:
        super().__init__(spec)
        self._data = data
        self._codec = codec

    def _decoded(self, first: int, last: int) -> np.ndarray[Any, Any]:
        """Return the values of the elements from `first` to before `last`, in a row."""
        block, nbytes = self._codec.block, self._codec.nbytes
        begin, end = first // block, -(-last // block)
        raw = self._data.read(begin * nbytes, (end - begin) * nbytes)
        return self._codec.decode(raw, begin * block)[first - begin * block : last - begin * block]

    def _values(self, offset: int, size: int) -> Chunk:
        """Return bytes of the values, as if they were stored."""
        import numpy as np

        itemsize = self.spec.dtype.itemsize or 1
        found = self._decoded(offset // itemsize, (offset + size) // itemsize)
        return np.ascontiguousarray(found).view(np.uint8)

    def stored_rows(self, first: int, last: int) -> tuple[np.ndarray[Any, Any], int]:
        import numpy as np

        block, nbytes = self._codec.block, self._codec.nbytes
        size = math.prod(self.spec.shape[1:])
        raw = self._data.read(first * size // block * nbytes, (last - first) * size // block * nbytes)
        return np.frombuffer(raw, np.uint8).reshape(-1, nbytes), block

    def read(self) -> np.ndarray[Any, Any]:
        out = allocate(self.spec, self.spec.shape, self._data.path)
        self._data.expect()
        flat, step = out.reshape(-1), max(1, _BLOCK_BYTES // self._codec.nbytes) * self._codec.block
        for at in range(0, flat.size, step):
            end = min(at + step, flat.size)
            flat[at:end] = self._decoded(at, end)
        return out

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        if index == full_index(self.spec.shape):
            return self.read()
        out = allocate(self.spec, index_shape(index), self._data.path)
        fill_region(self._values, self.spec.shape, out.dtype, index, out)
        return out

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return region_chunks(self.read_region, index, self.spec.dtype.itemsize or 1, max_bytes)

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        self._data.expect()
        nbytes, itemsize = self.spec.nbytes or 0, self.spec.dtype.itemsize or 1
        yield from stored_chunks(self._values, 0, nbytes, itemsize, max_bytes)  # type: ignore[arg-type]


class RejectedTensor(LazyTensor):
    """A tensor that is listed, and whose values cannot be read for a reason that is known."""

    def __init__(self, spec: TensorSpec, why: str, path: str) -> None:
        super().__init__(spec)
        self._why = why
        self._path = path

    def _refuse(self) -> NoReturn:
        hints = (leave_out(self.spec.key),)
        raise UnsupportedFeatureError(self._why, path=self._path, key=self.spec.key, hints=hints)

    def read(self) -> np.ndarray[Any, Any]:
        self._refuse()

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:  # noqa: ARG002  no part of it, either
        self._refuse()


class UnavailableTensor(LazyTensor):
    """A tensor in a file that is missing."""

    def __init__(self, spec: TensorSpec, data: StoredRanges, error: CheckpointError) -> None:
        super().__init__(spec)
        del data
        self._error = error

    def read(self) -> np.ndarray[Any, Any]:
        error = self._error
        raise type(error)(error.message, path=error.path, key=self.spec.key, code=error.code)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:  # noqa: ARG002  no part of it, either
        return self.read()
