"""Chunks that go through filters on their way into the file, each read, undone and checked once.

    written:     values -> filter 0 -> filter 1 -> ... -> the bytes of the chunk
    deflate      zlib, which makes up to 1032 bytes out of one
    shuffle      byte 0 of each element, then byte 1 of each, ...; what is left over at the end
    fletcher32   sums of 16-bit big-endian words, uint32 behind the bytes

The library inflates until a stream ends, regardless of the chunk's size, keeps no chunk larger than its
cache, and starts over for the next part. Here a chunk is inflated into memory of its own size, and one with
more or fewer bytes is damaged. The library still makes values of those bytes, because it knows all types. It
also undoes other filters (szip, nbit, scaleoffset, lzf); the size of a deflate around them is checked first.
H5Zdeflate.c, H5Zshuffle.c, H5Zfletcher32.c, H5checksum.c
"""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE
from ..core.region import fill

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from ..core.region import Index, Region


DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
_OWN = frozenset((DEFLATE, SHUFFLE, FLETCHER32))
_SLACK = 4096
"""Bytes that a filter of the library's may add to a chunk before it is deflated."""

_LARGEST_REFERENCE = 16
"""The bytes of a chunk for a string of variable length: its length, and its place in a heap."""

_WORDS = 1 << 16
"""Words summed at a time: their weighted sum stays below 2**48."""


class Filter(NamedTuple):
    """One filter of a dataset: its registered number, its name, its parameters."""

    code: int
    name: str
    values: tuple[int, ...]


def filters_of(plist: Any) -> tuple[Filter, ...]:
    """Return a dataset's filters, in the order in which they were applied."""
    out = []
    for number in range(plist.get_nfilters()):
        code, _, values, name = plist.get_filter(number)
        out.append(Filter(code, name.decode("ascii", "replace"), tuple(values)))
    return tuple(out)


class FilteredChunks:
    """The chunks of one dataset.  ValueError if one is not what the dataset says."""

    def __init__(self, dataset: Any, chunk: tuple[int, ...], filters: tuple[Filter, ...]) -> None:
        self.chunk = chunk
        self._dataset = dataset
        self._filters = filters
        self._type = dataset.get_type()
        self._is_exact = not _is_of_references(self._type)
        itemsize = int(self._type.get_size()) if self._is_exact else _LARGEST_REFERENCE
        self.nbytes = math.prod(chunk) * itemsize
        codes = {found.code for found in filters}
        self.has_deflate = DEFLATE in codes
        self.are_undone_here = self.has_deflate and codes <= _OWN

    def fill(self, index: Index, out: np.ndarray[Any, Any], memory_type: Any) -> None:
        """Fill `out` with an index's elements as `memory_type`; what is not stored has the fill value."""
        if self._stored is not None:
            out[...] = self._fill_value(out.dtype)
        pieces = (
            (self._region(corner), partial(self._part, corner, out.dtype, memory_type))
            for corner in self._corners(index)
        )
        fill(out, index, pieces)

    def check(self, index: Index) -> None:
        """Compare the chunks of an index with their size, as far as possible before the library reads
        them.
        """
        for corner in self._corners(index):
            self._bytes(corner)

    # Which ------------------------------------------------------------------------------

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self._dataset.get_space().get_simple_extent_dims())

    @cached_property
    def _stored(self) -> frozenset[tuple[int, ...]] | None:
        """Where the chunks begin that are there; None if all are."""
        there = math.prod(-(-dim // size) for dim, size in zip(self._shape, self.chunk, strict=True))
        if self._dataset.get_num_chunks() >= there:
            return None
        found: list[tuple[int, ...]] = []
        self._dataset.chunk_iter(lambda info: found.append(info.chunk_offset))
        return frozenset(found)

    def _corners(self, index: Index) -> Iterable[tuple[int, ...]]:
        """Return where the chunks begin that are there and hold some of an index."""
        grid = [
            range(part.start // size * size, part.stop, size)
            for part, size in zip(index, self.chunk, strict=True)
        ]
        if self._stored is None:
            return itertools.product(*grid)
        if math.prod(map(len, grid)) <= len(self._stored):
            return (corner for corner in itertools.product(*grid) if corner in self._stored)
        stored = sorted(self._stored)
        return (corner for corner in stored if all(at in side for at, side in zip(corner, grid, strict=True)))

    def _region(self, corner: tuple[int, ...]) -> Region:
        sides = zip(corner, self.chunk, self._shape, strict=True)
        return tuple((at, min(at + size, dim)) for at, size, dim in sides)

    # Values -----------------------------------------------------------------------------

    def _part(
        self, corner: tuple[int, ...], dtype: np.dtype[Any], memory_type: Any, index: Index
    ) -> np.ndarray[Any, Any]:
        import numpy as np
        from h5py import h5t

        data = self._bytes(corner)
        if not self._type.equal(memory_type):
            count = math.prod(self.chunk)
            room = np.zeros(max(self.nbytes, count * dtype.itemsize), np.uint8)
            room[: self.nbytes] = data
            h5t.convert(self._type, memory_type, count, room)
            data = room[: count * dtype.itemsize]
        return data.view(dtype).reshape(self.chunk)[index]

    def _fill_value(self, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        import numpy as np
        from h5py import h5d

        value: np.ndarray[Any, Any] = np.zeros((), dtype)
        plist = self._dataset.get_create_plist()
        if plist.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED:
            plist.get_fill_value(value)
        return value

    def _bytes(self, corner: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return a chunk's bytes, its filters undone as far as they are undone here."""
        import numpy as np

        skipped, stored = self._dataset.read_direct_chunk(corner)
        data = np.frombuffer(stored, np.uint8)
        for number in reversed(range(len(self._filters))):
            found = self._filters[number]
            if found.code not in _OWN:
                return data
            if not skipped >> number & 1:
                data = self._undone(found, data, inner=self._filters[:number])
        if len(data) != self.nbytes and self._is_exact:
            raise ValueError(f"its chunk at {list(corner)} has {len(data)} bytes; expected {self.nbytes}")
        return data

    def _undone(
        self, found: Filter, data: np.ndarray[Any, Any], inner: tuple[Filter, ...]
    ) -> np.ndarray[Any, Any]:
        if found.code == FLETCHER32:
            return _summed(data)
        if found.code == SHUFFLE:
            return _unshuffled(data, found.values[0] if found.values else 1)
        # Inside of a deflate there may be a checksum, and what filters add that are not undone here.
        own = all(other.code in _OWN for other in inner)
        sums = 4 * sum(other.code == FLETCHER32 for other in inner)
        return _inflated(data, self.nbytes + sums + (0 if own else _SLACK))


def _is_of_references(type_id: Any) -> bool:
    from h5py import h5t

    return bool(type_id.get_class() == h5t.STRING and type_id.is_variable_str())


def _inflated(data: np.ndarray[Any, Any], most: int) -> np.ndarray[Any, Any]:
    """Return what a zlib stream comes to, in memory of that size; ValueError if it is more than `most`."""
    import numpy as np

    out: np.ndarray[Any, Any] = np.empty(most, np.uint8)
    size = 0
    for piece in _stream(data):
        if size + len(piece) > most:
            raise ValueError(f"a chunk inflates to more than {most} bytes")
        out[size : size + len(piece)] = np.frombuffer(piece, np.uint8)
        size += len(piece)
    return out[:size]


def _stream(data: np.ndarray[Any, Any]) -> Iterator[bytes]:
    """Yield what a zlib stream comes to, in bounded pieces; ValueError if it is damaged or cut off."""
    inflate, at = zlib.decompressobj(), 0
    try:
        while not inflate.eof:
            waiting = inflate.unconsumed_tail
            if not waiting:
                waiting, at = data[at : at + PIECE].tobytes(), at + PIECE
            piece = inflate.decompress(waiting, PIECE)
            if not piece and not waiting:
                raise ValueError("a chunk cannot be inflated: its stream is incomplete")
            yield piece
    except zlib.error as error:
        raise ValueError(f"a chunk cannot be inflated: {error}") from error


def _unshuffled(data: np.ndarray[Any, Any], itemsize: int) -> np.ndarray[Any, Any]:
    import numpy as np

    if itemsize < 2 or len(data) < itemsize:
        return data
    whole = len(data) // itemsize * itemsize
    out: np.ndarray[Any, Any] = np.empty(len(data), np.uint8)
    out[:whole].reshape(-1, itemsize)[...] = data[:whole].reshape(itemsize, -1).T
    out[whole:] = data[whole:]
    return out


def _summed(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what a Fletcher32 checksum is behind of; ValueError if it is another."""
    if len(data) < 4:
        raise ValueError(f"a chunk has {len(data)} bytes, too few for its checksum")
    (stored,) = struct.unpack("<I", data[-4:].tobytes())
    found = fletcher32(data[:-4])
    # The library before 1.6.3 swapped bytes on little-endian machines, and all later ones take that, too.
    swapped = (found & 0x00FF00FF) << 8 | (found & 0xFF00FF00) >> 8
    if stored not in (found, swapped):
        raise ValueError(f"a chunk has checksum {found:#010x}, but the stored one is {stored:#010x}")
    return data[:-4]


def fletcher32(data: np.ndarray[Any, Any]) -> int:
    """Return the Fletcher32 checksum of bytes, as HDF5 has it: in ones' complement, zero for zeros alone."""
    import numpy as np

    even = len(data) // 2 * 2
    one = other = 0
    parts = [data[at : min(at + 2 * _WORDS, even)].view(">u2") for at in range(0, even, 2 * _WORDS)]
    if len(data) % 2:
        parts.append(np.array([int(data[-1]) << 8], ">u2"))
    for words in parts:
        wide = words.astype(np.uint64)
        weights = np.arange(len(words), 0, -1).astype(np.uint64)
        other = _folded(other + len(words) * one + int(wide @ weights))
        one = _folded(one + int(wide.sum()))
    return other << 16 | one


def _folded(total: int) -> int:
    """Return a sum with its carries added, below 2**16."""
    return (total - 1) % 0xFFFF + 1 if total else 0
