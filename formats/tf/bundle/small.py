"""Small tensors of a bundle. A bundle can have a hundred thousand of them.

    plain entry:  08 dtype, 12 length shape, [18 shard], [20 offset], [28 size], [35 crc32c: fixed32]
    place:        shard: int32, size: int32, offset: int64, checksum, unmasked: uint32

Reading them one by one would take longer for entries and system calls than for values. So numpy decodes the
placements of plain entries, which nearly all are, one field of thousands per step. A shard that is read
forward is read ahead. Any other entry, and any large tensor, has a size of -1 here.

All that is checked of a tensor is checked here, too, but what is wrong is not said:
every tensor can be read the long way, which says it.
tensorflow/core/protobuf/tensor_bundle.proto: BundleEntryProto
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ...errors import CheckpointError
from ...wire.crc32c import crc32c, unmask
from . import payload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...core.spec import TensorSpec
    from ...store.readahead import ReadAhead
    from .index import BundleIndex


Column: TypeAlias = np.ndarray[Any, np.dtype[Any]]

SMALL = 1 << 16
"""Bytes of a small tensor at most."""

PLACE = struct.Struct("=iiqI")
"""One place: shard, size, offset, checksum."""

_COLUMNS = np.dtype([("shard", "=i4"), ("size", "=i4"), ("offset", "=i8"), ("checksum", "=u4")])

PLACE_TAGS, CHECKSUM_TAG = (0x18, 0x20, 0x28), 0x35
"""Tags of the fields of a place, in their order."""

_BATCH = 1 << 14
"""Entries decoded together: a few MB of columns. Larger batches are not faster."""

_VARINT = 9
"""Bytes of a varint below 2**63 at most."""

_LONGEST = 4 + 0x7F + 3 * (1 + _VARINT) + 5
"""Bytes of a plain entry at most."""


class SmallTensors:
    """Reads small tensors from the shards that are open."""

    def __init__(self, index: BundleIndex, open_shards: Mapping[int, ReadAhead]) -> None:
        self._places = decode_places(index.values)
        self._open_shards = open_shards
        self._big_endian = index.big_endian

    def read(self, spec: TensorSpec, position: int) -> Column | None:
        """Return a tensor of fixed width whose entry is at a position of the index.

        None is for one that is not small, not in an open shard, or not sound.
        """
        shard, size, offset, checksum = PLACE.unpack_from(self._places, position * PLACE.size)
        ahead = self._open_shards.get(shard)
        if ahead is None or size < 0:
            return None
        try:
            data = ahead.read(offset, size)
            stored = np.ndarray(spec.shape, spec.dtype.numpy, data)
        except (CheckpointError, TypeError, ValueError):
            # The unreadable part may follow the tensor. Otherwise there are fewer bytes than values, or more
            # dimensions than numpy has.
            return None
        if stored.nbytes != size or crc32c(data) != checksum:
            return None
        values: Column = stored.copy()
        return payload.decode_numbers(values, big_endian=True) if self._big_endian else values


def decode_places(values: Sequence[bytes]) -> bytes:
    """Return the places that entries tell, one after the other."""
    batches = ([*values[at : at + _BATCH]] for at in range(0, len(values), _BATCH))
    return b"".join(map(_decode_batch, batches))


def _decode_batch(values: list[bytes]) -> bytes:
    plain, shard, offset, size, checksum = _columns(values)
    small = plain & (size <= SMALL)
    places = np.empty(len(values), _COLUMNS)
    places["shard"] = shard
    places["size"] = np.where(small, size, -1)
    places["offset"] = offset
    places["checksum"] = unmask(checksum)
    return places.tobytes()


def plain_places(values: list[bytes]) -> Iterator[tuple[int, int, int]]:
    """Yield shard, offset and masked checksum of entries; of one that is not plain a shard of -1."""
    plain, shard, offset, _, checksum = _columns(values)
    shard = np.where(plain, shard, -1)
    return zip(shard.tolist(), offset.tolist(), checksum.tolist(), strict=True)


def _columns(values: list[bytes]) -> tuple[Column, Column, Column, Column, Any]:
    """Return of entries whether they are plain, and the fields of the place of those that are."""
    values = [value if len(value) <= _LONGEST else b"" for value in values]
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(sizes)
    cursors = Cursors(b"".join(values), ends - sizes, ends)
    shard, offset, size = map(cursors.varint, PLACE_TAGS)
    checksum = cursors.fixed32(CHECKSUM_TAG)
    return cursors.ended & (shard < 1 << 31), shard, offset, size, checksum


class Cursors:
    """One position in each of many entries, which move on together; each begins behind dtype and shape.

    Those of entries that are not plain may run into the entry behind, and behind the
    last one into what is appended here; they end up elsewhere than where theirs ends.
    """

    def __init__(self, data: bytes, begins: Column, ends: Column) -> None:
        self._bytes = np.frombuffer(data + bytes(_LONGEST), np.uint8)
        self.ends = ends
        dtype, number, shape, shape_size = (self._bytes[begins + step] for step in range(4))
        self.plain = (dtype == 0x08) & (number < 0x80) & (shape == 0x12) & (shape_size < 0x80)
        self.at: Column = begins + 4 + (shape_size & 0x7F)

    @property
    def ended(self) -> Column:
        """Those that went through a plain entry and ended where it ends."""
        ended: Column = self.plain & (self.at == self.ends)
        return ended

    def _take(self, tag: int) -> Column:
        """Step over a tag where it is there, and return where."""
        there: Column = self._bytes[self.at] == tag
        self.at += there
        return there

    def varint(self, tag: int) -> Column:
        """Return a field, 0 where it is left out."""
        more = self._take(tag)
        column = np.zeros(len(more), np.int64)
        for shift in range(0, 7 * _VARINT, 7):
            byte = self._bytes[self.at]
            column |= ((byte & 0x7F) * more).astype(np.int64) << shift
            self.at += more
            more = more & (byte >= 0x80)
            if not more.any():
                break
        self.plain &= ~more
        return column

    def fixed32(self, tag: int) -> Column:
        """Return a field, 0 where it is left out."""
        there = self._take(tag)
        column = np.zeros(len(there), np.int64)
        for shift in range(0, 32, 8):
            column |= (self._bytes[self.at] * there).astype(np.int64) << shift
            self.at += there
        return column
