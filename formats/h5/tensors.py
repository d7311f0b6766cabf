"""The values of datasets, in whole, in slices, in bounded pieces.

    layout       where values lie
    compact      in the dataset's own header
    contiguous   in one piece, or nowhere yet: then every element is the fill value
    chunked      in boxes of one shape, absent ones being fill; filtered, see formats.h5.filtered
    virtual      in other datasets; external storage, in other files: both are refused

Declaring a shape costs nothing, and storing a chunk of zeros next to nothing. So both are compared with the
stored size before memory is allocated. Contiguous values must be within the file. As in Keras, more than 4
GiB from less than a thousandth of that is rejected. A filtered chunk is in memory as a whole, so one larger
than `LARGEST_CHUNK` must have at least a quarter of its size in the file.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE, array_chunks, stored_chunks
from ..core.dtypes import STRING
from ..core.region import boxes, full_index, index_shape, within
from ..core.slicing import allocate, fill_region, region_chunks
from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..model.tensor import LazyTensor
from ..store.ranges import FileRange
from .filtered import FilteredChunks, filters_of
from .library.damage import damage
from .names import string_memory_type
from .safe import CHUNK_CACHE
from .specs import RAW, check_library_place, outline

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Index
    from ..core.spec import TensorSpec
    from .filtered import Filter
    from .node import Node
    from .safe import H5File


_MOST_UNEXPLAINED = 4 << 30
_MOST_EXPANSION = 1000
LARGEST_PIECE = 32 << 20
"""Bytes of a dataset that are held at a time where it goes by, except where its chunks are larger."""

LARGEST_CHUNK = 64 << 20
"""Bytes of a filtered chunk, or of a row of chunks, that are held; of a file with more values, more."""

_MOST_OF_STORED = 4
_MOST_PARTS = 16
"""Parts that a row of chunks is read in where it is too large to be held; each inflates the row again."""

_FILTERS = frozenset((1, 2, 3, 4, 5, 6, 32000))
"""deflate, shuffle, fletcher32, szip, nbit, scaleoffset, and h5py's lzf: what needs no plug-in."""

_STRINGS_AT_ONCE = 4096

_REPACK = "if you trust the file, store it in smaller chunks: h5repack -l CHUNK=1024x1024 IN OUT"


class _DatasetLayout(NamedTuple):
    """How a dataset is stored: bytes in the file, the shape of its chunks if it has some, filtered ones."""

    stored: int
    chunk: tuple[int, ...] | None
    filtered: FilteredChunks | None = None

    @property
    def most_held(self) -> int:
        return max(LARGEST_CHUNK, _MOST_OF_STORED * self.stored)


class H5Tensor(LazyTensor):
    """One dataset of an HDF5 file."""

    def __init__(self, file: H5File, spec: TensorSpec, place: str, soft: int = 0) -> None:
        super().__init__(spec)
        self._file = file
        self._place = place
        self._soft = soft

    def read(self) -> np.ndarray[Any, Any]:
        values = self.file_range()
        return self.read_region(full_index(self.spec.shape)) if values is None else values.array(self.spec)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        self._file.check_values()
        offset = self._offset
        if offset is not None:
            out = allocate(self.spec, index_shape(index), self._file.path)
            fill_region(self._file.read_exactly, self.spec.shape, out.dtype, index, out, base=offset)
            return out
        dataset = self._open()
        with self._damage():
            return self._read(dataset, self._check(dataset), index)

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        """Yield the tensor in pieces, no more of it in memory at a time than `LARGEST_CHUNK` says.

        One read may exceed `max_bytes`, so that a compressed chunk is not inflated again for each of its
        rows.
        """
        self._file.check_values()
        if self.spec.dtype is STRING:
            yield from array_chunks(self.read(), max_bytes)
            return
        itemsize = self.spec.dtype.itemsize or 1
        offset = self._offset
        if offset is not None:
            size = self.spec.size * itemsize
            yield from stored_chunks(self._file.read_exactly, offset, size, itemsize, max_bytes)
            return
        yield from self._banded(full_index(self.spec.shape), max_bytes)

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        if self.spec.dtype is STRING:
            return super().region_chunks(index, max_bytes)
        if self._offset is not None:
            return region_chunks(self.read_region, index, self.spec.dtype.itemsize or 1, max_bytes)
        return self._banded(index, max_bytes)

    def _banded(self, index: Index, max_bytes: int) -> Iterator[Chunk]:
        self._file.check_values()
        dataset = self._open()
        with self._damage():
            layout = self._check(dataset)
            bands = self._bands(layout, index)
        for band in bands:
            with self._damage():
                part = self._read(dataset, layout, band)
            yield from array_chunks(part, max_bytes)

    def _bands(self, layout: _DatasetLayout, index: Index) -> Iterator[Index]:
        """Return parts of an index that make it up in C order, of whole rows of filtered chunks."""
        shape, itemsize = index_shape(index), self.spec.dtype.itemsize or 1
        if layout.filtered is None or 0 in shape or not shape:
            return (within(index, box) for box in boxes(shape, max(1, LARGEST_PIECE // itemsize)))
        row = math.prod(shape[1:]) * itemsize
        high = layout.filtered.chunk[0]
        if high * row <= layout.most_held:
            return _rows(index, max(high, LARGEST_PIECE // row // high * high))
        if min(high, shape[0]) * row > _MOST_PARTS * layout.most_held:
            message = (
                f"its chunks of {high} rows span {high * row} bytes, but only {layout.stored} are stored"
            )
            raise self._refused(message, _REPACK)
        return (within(index, box) for box in boxes(shape, layout.most_held // itemsize))

    def file_range(self) -> FileRange | None:
        return None if self.spec.dtype.name == "bool" else self.digest_range()

    def digest_range(self) -> FileRange | None:
        offset = self._stored_offset if self._file.values is not None else None
        if offset is None or self._file.values is None:
            return None
        return FileRange(self._file.values, offset, self.spec.nbytes or 0, self.spec.key)

    @property
    def _offset(self) -> int | None:
        """Return the offset of contiguous values that need no conversion; None for others."""
        return None if self.spec.dtype.name == "bool" else self._stored_offset

    @cached_property
    def _stored_offset(self) -> int | None:
        """Return `_offset`, also of bools, whose bytes may be other than 0 and 1.

        All of them are in the file.  Raises CorruptCheckpointError.
        """
        if self.spec.dtype.itemsize is None:
            return None
        dataset = self._node()
        found = outline(self._file, dataset)
        if found is None:
            return self._offset_by_library()
        offset, size = found.layout.offset, self.spec.nbytes or 0
        if (
            offset is None
            or found[:3] != (self.spec.dtype, 0, self.spec.shape)
            or found.layout.stored != size
        ):
            return None
        if offset + size > self._file.size:
            message = (
                f"the tensor ends at byte {offset + size}, but the file has only {self._file.size} bytes"
            )
            raise self._corrupt(message, "tensor-size")
        return offset

    def _offset_by_library(self) -> int | None:
        from h5py import h5d, h5t

        name = self.spec.dtype.name
        dataset = self._open()
        with self._damage():
            self._check(dataset)
            type_id, offset = dataset.get_type(), dataset.get_offset()
            if (
                offset is None
                or dataset.get_storage_size() != self.spec.nbytes
                or dataset.get_create_plist().get_layout() != h5d.CONTIGUOUS
            ):
                return None
            plain = type_id.get_size() == self.spec.dtype.itemsize and not _is_big_endian(type_id)
            if not plain or (name not in RAW and not type_id.equal(h5t.py_create(self.spec.dtype.numpy))):
                return None
            return int(offset)

    def _damage(self) -> Any:
        return damage(self._file.path, f"dataset {self._place!r}", self.spec.key)

    def _node(self) -> Node:
        with self._damage():
            dataset = self._file.find(self._place, soft=self._soft)
        if dataset is None or not dataset.is_dataset:
            raise self._corrupt(f"no dataset {self._place!r}")
        return dataset

    def _open(self) -> Any:
        """Return the library's handle of the dataset."""
        dataset = self._node()
        with self._damage():
            return dataset.id

    def _corrupt(self, message: str, code: str = "hdf5-read") -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self._file.path, key=self.spec.key, code=code)

    def _refused(self, message: str, *hints: str) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            message, path=self._file.path, key=self.spec.key, code="hdf5-read", hints=hints
        )

    # Before memory is taken ----------------------------------------------------------

    def _check(self, dataset: Any) -> _DatasetLayout:
        """Hold layout, filters, shape and chunks against the file, before anything is allocated."""
        from h5py import h5d

        plist = dataset.get_create_plist()
        layout = plist.get_layout()
        check_library_place(self._file, dataset, self._place)
        stored = int(dataset.get_storage_size())
        itemsize = int(dataset.get_type().get_size())
        nbytes = self.spec.size * itemsize
        if stored > self._file.size:
            raise self._corrupt(
                f"the tensor has {stored} stored bytes, but the file has only {self._file.size}",
                "tensor-size",
            )
        chunk = tuple(plist.get_chunk()) if layout == h5d.CHUNKED else None
        largest = max(nbytes, math.prod(chunk) * itemsize if chunk else 0)
        if largest > _MOST_UNEXPLAINED and stored < largest // _MOST_EXPANSION:
            raise self._refused(
                f"{stored} stored bytes expand to {largest}, which is implausible for weights"
            )
        filters = filters_of(plist)
        if chunk is None or not filters:
            return _DatasetLayout(stored, chunk)
        found = _DatasetLayout(stored, chunk, FilteredChunks(dataset, chunk, filters))
        assert found.filtered is not None
        if found.filtered.nbytes > found.most_held:
            raise self._refused(
                f"one chunk expands to {found.filtered.nbytes} bytes, but only {stored} are stored", _REPACK
            )
        self._check_filters(filters)
        return found

    def _check_filters(self, filters: tuple[Filter, ...]) -> None:
        from h5py import h5z

        for filter_ in filters:
            called = f"filter {filter_.code}" + (f" ({filter_.name})" if filter_.name else "")
            # Asking for one that is not the library's own would have it look for a plug-in.
            if filter_.code not in _FILTERS or not h5z.filter_avail(filter_.code):
                raise self._refused(f"its values need {called}, which is not installed")
        codes = [filter_.code for filter_ in filters]
        if len(set(codes)) < len(codes):
            raise self._refused("its values use one filter more than once, which is not supported", _REPACK)

    # Values ----------------------------------------------------------------------------

    def _read(self, dataset: Any, layout: _DatasetLayout, index: Index) -> np.ndarray[Any, Any]:
        import numpy as np
        from h5py import h5t

        if self.spec.dtype is STRING:
            return self._read_strings(dataset, layout, index)
        out = allocate(self.spec, index_shape(index), self._file.path)
        if out.size == 0:
            return out
        raw = self.spec.dtype.name in RAW or out.dtype.kind == "V"
        target = out.view(f"V{out.itemsize}") if raw else out
        memory_type = dataset.get_type() if raw else h5t.py_create(out.dtype)
        self._fill(dataset, layout.filtered, index, target, memory_type)
        if self.spec.dtype.name in RAW and _is_big_endian(dataset.get_type()):
            out.view(f"u{out.itemsize}").byteswap(inplace=True)
        if out.dtype == np.bool_:
            # The file may have any bytes: numpy does not define bools other than 0 and 1.
            np.not_equal(out.view(np.uint8), 0, out=out)
        return out

    def _fill(
        self,
        dataset: Any,
        filtered: FilteredChunks | None,
        index: Index,
        out: np.ndarray[Any, Any],
        memory_type: Any,
    ) -> None:
        from h5py import h5s

        # The library writes elements of the memory type, however large those of the array are.
        if memory_type.get_size() != out.itemsize:
            raise ValueError(f"the elements have {memory_type.get_size()} bytes; expected {out.itemsize}")
        space = dataset.get_space()
        if space.get_simple_extent_dims() != self.spec.shape:
            raise ValueError(f"the shape is {space.get_simple_extent_dims()}; expected {self.spec.shape}")
        if filtered is not None and filtered.are_undone_here and not out.dtype.hasobject:
            filtered.fill(index, out, memory_type)
            return
        if filtered is not None and filtered.has_deflate:
            filtered.check(index)
        memory = h5s.create_simple(out.shape) if out.shape else h5s.create(h5s.SCALAR)
        if out.shape:
            start = tuple(part.start for part in index)
            stride = tuple(part.step for part in index)
            space.select_hyperslab(start, out.shape, stride)
        dataset.read(memory, space, out, memory_type)

    def _read_strings(self, dataset: Any, layout: _DatasetLayout, index: Index) -> np.ndarray[Any, Any]:
        """Return strings as an object array of bytes, a bounded number at a time."""
        import numpy as np

        out = allocate(self.spec, index_shape(index), self._file.path, object)
        type_id, filtered = dataset.get_type(), layout.filtered
        if type_id.is_variable_str():
            # A chunk that is kept is not inflated again for the next strings of it.
            dataset = self._file.guarded(dataset, max(CHUNK_CACHE, filtered.nbytes) if filtered else None)
            type_id = dataset.get_type()
        memory_type = string_memory_type(type_id)
        if out.size == 0:
            return out
        if type_id.is_variable_str():
            at_once = min(_STRINGS_AT_ONCE, LARGEST_PIECE // max(1, self._file.largest_string))
        else:
            at_once = (max(PIECE, filtered.nbytes) if filtered else PIECE) // max(1, type_id.get_size())
        total = 0
        for part in boxes(out.shape, max(1, at_once)):
            piece = np.empty(
                index_shape(part), object if type_id.is_variable_str() else f"S{type_id.get_size()}"
            )
            self._fill(dataset, filtered, within(index, part), piece, memory_type)
            if piece.dtype == object:
                piece = _as_bytes(piece)
                total += sum(map(len, piece.reshape(-1)))
                if total > self._file.size:  # many may be said to be one and the same
                    raise ValueError("its strings have more bytes than the file")
            # The ellipsis makes numpy assign elements: to a scalar it would assign the array itself.
            elements: Any = (*part, ...)
            out[elements] = piece
        return out

    # Verifying ---------------------------------------------------------------------------

    def scan(self) -> Iterator[int]:
        """Read all that is stored in bounded pieces, and yield how many bytes each had.

        Raises CorruptCheckpointError where something cannot be read, UnsupportedFeatureError
        where it is too large to be held for a look.
        """
        dataset = self._open()
        with self._damage():
            layout = self._check(dataset)
            if layout.stored == 0 and layout.chunk is None and dataset.get_offset() is None:
                return  # contiguous or compact, never written: nothing is stored
            itemsize = int(dataset.get_type().get_size())
            boxes = self._stored_boxes(dataset, layout, itemsize)
        for box in boxes:
            with self._damage():
                self._read(dataset, layout, box)
            yield math.prod(index_shape(box)) * itemsize

    def _stored_boxes(self, dataset: Any, layout: _DatasetLayout, itemsize: int) -> Iterator[Index]:
        """Return the boxes that together are all that is stored: chunks that are there, or ranges of rows."""
        shape, chunk = self.spec.shape, layout.chunk
        if chunk is None or not shape:
            return boxes(shape, max(1, PIECE // itemsize))
        found: list[tuple[tuple[int, ...], int]] = []
        dataset.chunk_iter(lambda info: found.append((info.chunk_offset, info.size)))
        if sum(size for _, size in found) > self._file.size:
            raise self._corrupt(
                f"its {len(found)} chunks overlap: together they have more bytes than the file", "overlap"
            )
        corners = (
            corner for corner, _ in found if all(at < dim for at, dim in zip(corner, shape, strict=True))
        )
        whole = (
            tuple(
                slice(at, min(at + size, dim), 1) for at, size, dim in zip(corner, chunk, shape, strict=True)
            )
            for corner in corners
        )
        if layout.filtered is not None:
            return whole
        at_once = max(1, LARGEST_PIECE // itemsize)
        return (within(box, part) for box in whole for part in boxes(index_shape(box), at_once))


def _rows(index: Index, rows: int) -> Iterator[Index]:
    """Yield parts of an index that end where a multiple of `rows` of its tensor's rows does."""
    first, rest = index[0], full_index(index_shape(index[1:]))
    for low in range(first.start // rows * rows, first.stop, rows):
        begin = max(0, -(-(low - first.start) // first.step))
        end = -(-(min(low + rows, first.stop) - first.start) // first.step)
        if begin < end:
            yield within(index, (slice(begin, end, 1), *rest))


def _is_big_endian(type_id: Any) -> bool:
    from h5py import h5t

    return bool(type_id.get_class() == h5t.FLOAT and type_id.get_order() == h5t.ORDER_BE)


def _as_bytes(strings: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return object elements as bytes: h5py returns None, or 0, for a missing string."""
    import numpy as np

    out = np.empty(strings.shape, object)
    for at, value in np.ndenumerate(strings):
        out[at] = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value or b""
    return out


def unreadable(error: CheckpointError) -> bool:
    """Whether an error says that a dataset was not looked at, rather than that it is damaged."""
    return isinstance(error, UnsupportedFeatureError)
