"""Tensors of zarr arrays, read chunk by chunk.

Each chunk is decoded once where a row of chunks fits in memory; of larger rows, a part is read at a time,
and chunks that several parts need are decoded again.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..core.chunks import PIECE, array_chunks, stored_chunks
from ..core.region import boxes, fill, full_index, index_shape, within
from ..core.slicing import allocate
from ..errors import CorruptCheckpointError
from ..model.tensor import LazyTensor
from ..model.verification import missing_chunk
from ..store.ranges import DecodedRange, FileRange
from ..store.work.workers import TASK_BYTES
from .flax_tensors import is_plain, normalise
from .ocdbt import StoredRange
from .zarr import is_absent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Index, Region
    from ..core.spec import TensorSpec
    from .values import TreeValues, Value
    from .zarr import ShardIndex, ZarrArray

_BAND = 24 << 20
"""Bytes of a tensor that are held while it is read in pieces, or two chunks of it."""

_MOST_EACH = 40 << 20
"""Bytes that a thread may hold of a tensor: a row of chunks, and a chunk before and after it is decoded."""

_MOST_INDEXES = 64
"""Indexes of shards that are kept."""

Cell = tuple[int, ...]


class ZarrTensor(LazyTensor):
    """An array of chunks."""

    def __init__(self, values: TreeValues, spec: TensorSpec, name: str, array: ZarrArray) -> None:
        super().__init__(spec)
        self._values = values
        self._name = name
        self._array = array
        self._indexes: dict[Cell, np.ndarray[Any, Any]] = {}
        self._lock = Lock()
        self.unstored = 0
        """Chunks that were read and are not stored, so that they hold the fill value."""

    @property
    def path(self) -> str:
        return self._values.files.folder

    def read(self) -> np.ndarray[Any, Any]:
        return self.read_region(full_index(self.spec.shape))

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        out = allocate(self.spec, index_shape(index), self.path, self._array.numpy)
        self._values.files.require_open()  # small values are in memory
        fill(out, index, self._pieces(self._cells(index)))
        normalise(out)
        return out

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        stored = self._whole()
        if stored is not None:
            itemsize = self._array.dtype.itemsize or 1
            yield from stored_chunks(partial(self._part, stored), 0, stored.size, itemsize, max_bytes)
            return
        if self._has_rows_in_chunks and self._array.cell_bytes >= PIECE:
            yield from self._row_chunks(max_bytes)
            return
        yield from self.region_chunks(full_index(self.spec.shape), max_bytes)

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        for box in self._bands(index_shape(index)):
            yield from array_chunks(self.read_region(within(index, box)), max_bytes)

    def file_range(self) -> FileRange | None:
        stored = self._whole()
        file = None if stored is None else self._values.files.kept(stored.file)
        if stored is None or file is None:
            return None
        return FileRange(file, stored.offset, stored.size, self.spec.key)

    def decoded_range(self) -> DecodedRange | None:
        """Return the values as blocks of whole rows of chunks; None where a thread needs too much memory."""
        array, shape = self._array, self.spec.shape
        if not shape or 0 in shape or array.dtype.is_unmapped:
            return None
        row = array.cell[0] * (array.nbytes // shape[0])
        held = array.cell_bytes if self._has_rows_in_chunks else 2 * array.cell_bytes
        if row + held > _MOST_EACH:
            return None
        step = max(1, TASK_BYTES // row) * row
        return DecodedRange(array.nbytes, step, self.spec.key, self._values.memory, self._rows)

    @property
    def _has_rows_in_chunks(self) -> bool:
        """Whether a chunk has whole rows of the tensor as they are, so that it needs no copying."""
        array, shape = self._array, self.spec.shape
        is_one_piece = array.order == "C" and array.cell[1:] == shape[1:]
        is_unchanged = not array.codecs.is_big and is_plain(array.dtype) and not array.dtype.is_unmapped
        return bool(shape) and 0 not in shape and is_one_piece and is_unchanged

    def _row_chunks(self, max_bytes: int) -> Iterator[Chunk]:
        """Yield the tensor in pieces, with one chunk in memory."""
        for cell in self._cells(full_index(self.spec.shape)):
            rows = self.spec.shape[0] - cell[0] * self._array.cell[0]
            yield from array_chunks(self._decoded(cell)[:rows], max_bytes)

    def _rows(self, begin: int, end: int) -> np.ndarray[Any, Any]:
        """Return the bytes of rows of chunks, in the thread's memory.  Raises CorruptCheckpointError."""
        memory, row = self._values.memory, self._array.nbytes // self.spec.shape[0]
        index = (slice(begin // row, end // row, 1), *full_index(self.spec.shape[1:]))
        self._values.files.require_open()
        if self._has_rows_in_chunks:
            size = self._array.cell_bytes
            out = memory.take("block", -(-(end - begin) // size) * size)
            for number, cell in enumerate(self._cells(index)):
                self._decode_into(cell, out[number * size : (number + 1) * size])
            return out[: end - begin]
        out = memory.take("block", end - begin)
        values = out.view(self._array.numpy).reshape(index_shape(index))
        fill(values, index, self._pieces(self._cells(index)))
        normalise(values)
        return out

    def _decode_into(self, cell: Cell, out: np.ndarray[Any, Any]) -> None:
        """Fill `out` with the bytes of a chunk.  Raises CorruptCheckpointError."""
        stored = self._located(cell)
        if stored is None:
            out.view(self._array.numpy).reshape(self._array.cell)[...] = self._decoded(cell)
            return
        value, begin, size = stored
        is_raw = not self._array.codecs.steps and size == len(out)
        data = out if is_raw else self._values.memory.take("stored", size)
        self._values.read_into(value, begin, data.data)
        if is_raw:
            return
        try:
            self._array.codecs.decode_into(data.data, out.data)
        except ValueError as error:
            raise self._corrupt(f"chunk {list(cell)}: {error}") from error

    def _whole(self) -> StoredRange | None:
        """Return where all elements are stored as they are, one after the other; None where they are not."""
        array = self._array
        is_raw = not array.codecs.steps and not array.codecs.is_big and array.shard is None
        is_one = array.order == "C" and array.cell == self.spec.shape
        if not (is_raw and is_one and is_plain(self.spec.dtype) and self.spec.dtype.is_mapped):
            return None
        self._values.files.require_open()
        found = self._found((0,) * self.spec.rank)
        return found if isinstance(found, StoredRange) and found.size == array.nbytes else None

    def _part(self, stored: StoredRange, offset: int, size: int) -> bytes:
        return self._values.read(stored, offset, offset + size)

    def _bands(self, shape: tuple[int, ...]) -> Iterator[Index]:
        """Yield boxes that cover a shape: rows of chunks, as many as fit, or parts of a row."""
        itemsize = self._array.dtype.itemsize or 1
        most = max(_BAND, 2 * self._array.cell_bytes) // itemsize
        rows = self._array.cell[0] if shape else 0
        row = math.prod(shape[1:])
        if not shape or rows * row > most or not row:
            yield from boxes(shape, most)
            return
        step = max(1, most // (rows * row)) * rows
        for at in range(0, shape[0], step):
            yield (slice(at, min(at + step, shape[0]), 1), *full_index(shape[1:]))

    def _cells(self, index: Index) -> Iterator[Cell]:
        """Yield the positions of the chunks that an index needs, in order."""
        ranges = [
            range(part.start // size, (part.stop - 1) // size + 1)
            for part, size in zip(index, self._array.cell, strict=True)
            if part.stop > part.start
        ]
        if len(ranges) == len(index):
            yield from itertools.product(*ranges)

    def _pieces(
        self, cells: Iterator[Cell]
    ) -> Iterator[tuple[Region, Callable[[Index], np.ndarray[Any, Any]]]]:
        for cell in cells:
            region = tuple(
                (at * size, min((at + 1) * size, dim))
                for at, size, dim in zip(cell, self._array.cell, self.spec.shape, strict=True)
            )
            yield region, lambda part, cell=cell: self._decoded(cell)[(*part, ...)]  # type: ignore[misc]

    def _decoded(self, cell: Cell) -> np.ndarray[Any, Any]:
        """Return the elements of a chunk.  Raises CorruptCheckpointError."""
        try:
            stored = self._stored(cell)
            if stored is not None:
                return self._array.elements(stored)
            filled = self._array.filled()
            if filled is not None:
                self.unstored += 1
                return filled
        except ValueError as error:
            raise self._corrupt(f"chunk {list(cell)}: {error}", "tensor-size") from error
        raise self._corrupt(missing_chunk(cell), "shard-missing")

    def _stored(self, cell: Cell) -> bytes | None:
        """Return a chunk as it is stored; None where it is not."""
        found = self._located(cell)
        if found is None:
            return None
        value, begin, size = found
        return self._values.read(value, begin, begin + size)

    def _located(self, cell: Cell) -> tuple[Value, int, int] | None:
        """Return the value that has a chunk, its offset there and its size; None where it is not stored."""
        shard = self._array.shard
        largest = self._array.codecs.largest(self._array.cell_bytes)
        if shard is not None:
            return self._in_shard(cell, shard, largest)
        value = self._found(cell)
        if value is None:
            return None
        if _size(value) > largest:
            raise self._corrupt(f"chunk {list(cell)} has {_size(value)} bytes; expected at most {largest}")
        return value, 0, _size(value)

    def _in_shard(self, cell: Cell, shard: ShardIndex, largest: int) -> tuple[Value, int, int] | None:
        """Return the same of an inner chunk of a shard."""
        outer = tuple(at // count for at, count in zip(cell, shard.counts, strict=True))
        inner = tuple(at % count for at, count in zip(cell, shard.counts, strict=True))
        value = self._found(outer)
        if value is None:
            return None
        ranges = self._index(outer, shard, value)
        number = 0
        for at, count in zip(inner, shard.counts, strict=True):
            number = number * count + at
        offset, length = map(int, ranges[number])
        if is_absent(offset, length):
            return None
        if length > largest or offset + length > _size(value):
            message = (
                f"chunk {list(cell)} needs {length} bytes from offset {offset} of a shard of {_size(value)}"
            )
            raise self._corrupt(message)
        return value, offset, length

    def _index(self, outer: Cell, shard: ShardIndex, value: Value) -> np.ndarray[Any, Any]:
        with self._lock:
            found = self._indexes.get(outer)
        if found is not None:
            return found
        size = _size(value)
        if shard.nbytes > size:
            raise self._corrupt(
                f"shard {list(outer)} has {size} bytes, but its index alone needs {shard.nbytes}"
            )
        begin = size - shard.nbytes if shard.is_at_end else 0
        try:
            found = shard.ranges(self._values.read(value, begin, begin + shard.nbytes))
        except ValueError as error:
            raise self._corrupt(f"index of shard {list(outer)}: {error}", "block-checksum") from error
        with self._lock:
            if len(self._indexes) == _MOST_INDEXES:
                self._indexes.clear()
            self._indexes[outer] = found
        return found

    def _found(self, position: Cell) -> Value | None:
        return self._values.find(f"{self._name}/{self._array.chunk_key(position)}")

    def _corrupt(self, message: str, code: str = "tensor-size") -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self.path, key=self.spec.key, code=code)


def _size(value: Value) -> int:
    return len(value) if isinstance(value, bytes) else value.size
