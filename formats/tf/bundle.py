"""TensorBundle V2: the index that says which bytes of which data shard are which tensor.

    PREFIX.index:                  a table; its first key is empty
        ""                         BundleHeaderProto: number of shards, byte order, version
        KEY                        BundleEntryProto: dtype, shape, shard, offset, size, crc32c
        SLICE KEY (begins 00)      the entry of one piece of a partitioned tensor, whose own
                                   entry lists the pieces and holds no data
    PREFIX.data-SSSSS-of-NNNNN:    the tensors' bytes, without any framing

The index is decoded into columns: keys, and entries as they are stored.  An entry is
decoded when somebody asks for it; what a listing needs of it, dtype and shape, stands
at its beginning and repeats from tensor to tensor, so that part is looked up, not
decoded again.
tensorflow/core/util/tensor_bundle/tensor_bundle.cc, core/protobuf/tensor_bundle.proto
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .. import dtypes
from ..dtypes import INVALID, DType
from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..files import RandomAccessFile
from ..model import Finding, TensorSpec, key_text
from ..paths import SHARD, data_shards
from ..wire.sstable import Table
from .messages import BundleEntryProto, BundleHeaderProto, TensorShapeProto
from .slices import Extents, extents_of, slice_key

__all__ = ["OBJECT_GRAPH_KEY", "BundleEntry", "BundleIndex", "data_shard", "decode_shape"]

OBJECT_GRAPH_KEY = b"_CHECKPOINTABLE_OBJECT_GRAPH"
READER_VERSION = 1
SLICE_KEY_BYTE = b"\0"
_LARGEST_SIZE = 1 << 63
_LARGEST_RANK = 254  # tensorflow/core/framework/tensor_shape.h: TensorShape::MaxDimensions

# What follows dtype and shape in nearly every entry: shard, offset, size, checksum, each at most
# once, none negative.  Anything else is decoded: a field given twice counts as it comes last.
_PLAIN_TAIL = re.compile(
    rb"(?:\x18[\x80-\xff]{0,3}[\0-\x7f])?(?:\x20[\x80-\xff]{0,8}[\0-\x7f])?"
    rb"(?:\x28[\x80-\xff]{0,8}[\0-\x7f])?(?:\x35.{4})?",
    re.DOTALL,
)


def data_shard(prefix: str, shard: int, num_shards: int) -> str:
    """Return the path of a data shard."""
    return f"{prefix}.data-{shard:05d}-of-{num_shards:05d}"


class BundleEntry(NamedTuple):
    """One entry of the index, decoded.  `slices` is not empty for a partitioned tensor's own entry."""

    dtype: DType
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc32c: int
    slices: tuple[Extents, ...] = ()


class EntryError(ValueError):
    """What is wrong with one entry, with its finding code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def decode_shape(proto: TensorShapeProto | None) -> tuple[int, ...]:
    """Return a shape; a missing one and one of unknown rank are scalars, as TensorFlow takes them.

    Raises EntryError for negative dimensions, for more than 2**63 elements and more than 254 dimensions.
    """
    if proto is None or proto.unknown_rank:
        return ()
    if len(proto.dim) > _LARGEST_RANK:
        raise EntryError(
            "shape", f"shape of {len(proto.dim)} dimensions, TensorFlow has at most {_LARGEST_RANK}"
        )
    shape = tuple(dim.size for dim in proto.dim)
    size = 1
    for dim in shape:
        if dim < 0:
            raise EntryError("shape", f"shape {list(shape)} has a negative dimension")
        size *= dim or 1
    if size >= _LARGEST_SIZE:
        raise EntryError("shape", f"shape {list(shape)} has more than 2**63 elements")
    return shape


def decode_entry(value: bytes) -> BundleEntry:
    """Return an entry; EntryError where it is malformed or its dtype unknown."""
    try:
        proto = BundleEntryProto.decode(value)
    except ValueError as error:
        raise EntryError("entry", f"entry cannot be decoded: {error}") from error
    shape = decode_shape(proto.shape)
    dtype = dtypes.BY_NUMBER.get(proto.dtype)
    if dtype is None:
        raise EntryError("dtype", f"dtype number {proto.dtype} is not known")
    slices = tuple(extents_of(piece) for piece in proto.slices)
    entry = BundleEntry(dtype, shape, proto.shard_id, proto.offset, proto.size, proto.crc32c, slices)
    if min(entry.shard, entry.offset, entry.size) < 0:
        place = f"shard {entry.shard}, offset {entry.offset}, size {entry.size}"
        raise EntryError("entry", f"negative place: {place}")
    return entry


class BundleIndex:
    """An index, read and checked as a whole; no data shard is touched.

    `keys` and `values` are the columns, in the order of the file; `tensors` gives the
    position of each tensor in them, and leaves out the pieces of partitioned ones.
    Opening raises for damage that hides keys, unless `lenient`; what does not hide
    keys is in `findings`.
    """

    def __init__(self, prefix: str, *, lenient: bool = False) -> None:
        self.prefix = prefix
        self.path = prefix + ".index"
        self.findings: list[Finding] = []
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self._lenient = lenient
        self._specs_seen: dict[bytes, tuple[DType, tuple[int, ...]]] = {}
        with RandomAccessFile(self.path) as file:
            self.size = file.size
            self._read(Table(file.read, file.size, self.path))
        self.header = self._take_header()
        self.big_endian = self.header.endianness == 1
        self.tensors: dict[str, int] = {}
        self.slice_entries: dict[bytes, int] = {}
        self._sort_out()

    def _flaw(self, error: CheckpointError) -> None:
        if not self._lenient:
            raise error
        self.findings.append(Finding("error", error.code, error.message, error.key, error.path, error.offset))

    def _read(self, table: Table) -> None:
        last = None
        unsorted: list[tuple[bytes, bytes, int]] = []
        for _, handle in table.index:
            try:
                entries = table.entries(handle)
            except CorruptCheckpointError as error:
                self._flaw(error)
                continue
            for key, _ in entries:
                if last is not None and key <= last:
                    unsorted.append((key, last, handle.offset))
                last = key
            self.keys += [key for key, _ in entries]
            self.values += [value for _, value in entries]
        if unsorted:
            key, before, offset = unsorted[0]
            where = f"{len(unsorted)} keys out of order, the first after {key_text(before)!r}"
            message = f"{where}: TensorFlow does not find them"
            self.findings.append(Finding("error", "key-order", message, key_text(key), self.path, offset))

    def _take_header(self) -> BundleHeaderProto:
        """Return the header and take it out of the columns.

        TensorFlow takes whatever comes first for the header; a table without one would
        lose its first tensor without a word.
        """
        try:
            position = self.keys.index(b"")
        except ValueError:
            # A damaged block may have taken the header with it, and has been found already.
            if not any(finding.code == "block-checksum" for finding in self.findings):
                what = "no header entry (an empty key)"
                self._flaw(CorruptCheckpointError(what, path=self.path, offset=0, code="header"))
            return BundleHeaderProto(num_shards=self._count_shards())
        value = self.values[position]
        del self.keys[position], self.values[position]
        try:
            header = BundleHeaderProto.decode(value)
        except ValueError as error:
            self._flaw(CorruptCheckpointError(f"header: {error}", path=self.path, offset=0, code="header"))
            return BundleHeaderProto(num_shards=0)
        version = header.version
        newer = version is not None and (
            version.min_consumer > READER_VERSION or READER_VERSION in version.bad_consumers
        )
        if newer and version is not None:
            message = f"asks for readers of version {version.min_consumer}, this one is {READER_VERSION}"
            hints = ("a newer TensorFlow wrote this; upgrade ckpt",)
            self._flaw(UnsupportedFeatureError(message, path=self.path, offset=0, code="header", hints=hints))
        if header.endianness not in (0, 1):
            message = f"endianness {header.endianness}, expected 0 or 1"
            self._flaw(CorruptCheckpointError(message, path=self.path, offset=0, code="header"))
        if header.num_shards < 0:
            message = f"{header.num_shards} data shards"
            self._flaw(CorruptCheckpointError(message, path=self.path, offset=0, code="header"))
        return header

    def _count_shards(self) -> int:
        """Return how many data shards the names of those that are there speak of; 0 where they disagree."""
        counts = {
            int(match["count"]) for path in data_shards(self.prefix) if (match := SHARD.fullmatch(path))
        }
        return counts.pop() if len(counts) == 1 else 0

    def _sort_out(self) -> None:
        """Tell tensors from the pieces of partitioned ones.

        A slice key is known by being derivable from some entry's list of slices; a key
        that merely begins with a zero byte is a tensor like any other.
        """
        first = self._first_occurrences()
        if not any(key.startswith(SLICE_KEY_BYTE) for key in first):
            self.tensors = dict(zip(map(key_text, first), first.values(), strict=True))
            return
        for key, position in list(first.items()):
            entry = self.entry_or_none(position)
            for extents in entry.slices if entry else ():
                piece = slice_key(key, extents)
                if piece in first:
                    self.slice_entries[piece] = first[piece]
        self.tensors = {key_text(k): at for k, at in first.items() if k not in self.slice_entries}

    def _first_occurrences(self) -> dict[bytes, int]:
        """Return positions by key, in key order.

        Of a key that occurs twice it is the first, as TensorFlow finds it.
        """
        keys = self.keys
        if not any(finding.code == "key-order" for finding in self.findings):
            return dict(zip(keys, range(len(keys)), strict=True))
        positions: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            positions.setdefault(key, position)
        return dict(sorted(positions.items()))

    def entry(self, position: int) -> BundleEntry:
        """Return the decoded entry at a position; EntryError where it cannot be."""
        return decode_entry(self.values[position])

    def entry_or_none(self, position: int) -> BundleEntry | None:
        try:
            return self.entry(position)
        except EntryError:
            return None

    def spec(self, key: str, position: int) -> TensorSpec:
        """Return the spec of a tensor, INVALID where its entry cannot be decoded."""
        value = self.values[position]
        # dtype (tags below 128, so 08 xx), then shape (12, length): 4 bytes and the shape's.
        if value[:1] == b"\x08" and value[2:3] == b"\x12" and len(value) > 3 and value[:4].isascii():
            head = value[: 4 + value[3]]
            seen = self._specs_seen.get(head)
            if seen is not None and seen[0].itemsize is not None and _PLAIN_TAIL.fullmatch(value, len(head)):
                return TensorSpec(key, *seen)
        else:
            head = b""
        try:
            entry = self.entry(position)
        except EntryError as flaw:
            if not any(finding.key == key and finding.code == flaw.code for finding in self.findings):
                self.findings.append(Finding("error", flaw.code, str(flaw), key, self.path))
            return TensorSpec(key, INVALID, _shape_or_scalar(value))
        if head and _PLAIN_TAIL.fullmatch(value, len(head)):
            self._specs_seen[head] = entry.dtype, entry.shape
        return TensorSpec(key, entry.dtype, entry.shape, entry.size)


def _shape_or_scalar(value: bytes) -> tuple[int, ...]:
    """Return the shape of an entry whose dtype is not known, if it can be told."""
    try:
        return decode_shape(BundleEntryProto.decode(value).shape)
    except ValueError:
        return ()
