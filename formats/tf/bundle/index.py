"""TensorBundle V2: the index, which maps tensors to bytes of data shards.

    PREFIX.index:                  a table; its first key is empty
        ""                         BundleHeaderProto: number of shards, byte order, version
        KEY                        BundleEntryProto: dtype, shape, shard, offset, size, crc32c
        SLICE KEY (begins 00)      the entry of one piece of a partitioned tensor, whose own
                                   entry lists the pieces and holds no data
    PREFIX.data-SSSSS-of-NNNNN:    the tensors' bytes, without any framing

The index is decoded into columns: keys, and entries as stored, one after another. An entry is decoded when it
is needed. Its start, dtype and shape, is all that a listing needs, and repeats from tensor to tensor, so that
part is looked up. tensorflow/core/util/tensor_bundle/tensor_bundle.cc, core/protobuf/tensor_bundle.proto
"""

from __future__ import annotations

import bisect
import re
from array import array
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, overload

from ...core import dtypes
from ...core.collector import collector_paused
from ...core.dtypes import INVALID, DType
from ...core.spec import TensorSpec, is_utf8, key_bytes, key_text
from ...core.spec_table import Ascending, SpecRows, SpecTable, places_of
from ...core.words import counted
from ...errors import (
    CheckpointError,
    ConversionError,
    CorruptCheckpointError,
    UnsupportedFeatureError,
)
from ...model.checkpoint_files import data_shards
from ...model.object_keys import GRAPH_KEY
from ...model.verification import Finding
from ...store.siblings import SHARD
from ...wire.coding import decode_varint, encode_fixed32, encode_varint
from ...wire.limits import are_keys_too_long
from ...wire.messages import BundleEntryProto, BundleHeaderProto, Dim, TensorShapeProto
from ...wire.sstable import Table, is_found
from .slices import extents_of, slice_key, slice_proto

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...core.region import Extents
    from ...location import Location
    from ...wire.messages import VersionDef


OBJECT_GRAPH_KEY = GRAPH_KEY.encode()
BUNDLE_DTYPES = frozenset(dtype.name for dtype in dtypes.DTYPES if dtype.number)
READER_VERSION = 1
SLICE_KEY_BYTE = b"\0"
_LARGEST_SIZE = 1 << 63
_LARGEST_RANK = 254  # tensorflow/core/framework/tensor_shape.h: TensorShape::MaxDimensions

_PLACE = (
    rb"(?:\x18([\x80-\xff]{0,3}[\0-\x7f]))?(?:\x20([\x80-\xff]{0,8}[\0-\x7f]))?"
    rb"(?:\x28([\x80-\xff]{0,8}[\0-\x7f]))?(?:\x35(.{4}))?"
)
_BEGINS_PLAIN = re.compile(rb"\x08[\0-\x7f]\x12[\0-\x7f]", re.DOTALL)
_DIM_TAG, _SIZE_TAG = 0x12, 0x08
_PLACE_TAGS, _CHECKSUM_TAG = (b"\x18", b"\x20", b"\x28"), b"\x35"
_PLAIN_PLACE = re.compile(_PLACE, re.DOTALL)
"""An entry as TensorFlow writes nearly all: dtype and shape, shard, offset, size, checksum.

Each is there at most once, and none is negative.  Dtype and shape repeat from tensor
to tensor, so what they say is looked up; any other entry is decoded.
"""


def shard_name(base: str, shard: int, num_shards: int) -> str:
    """Return the name of a data shard of the bundle that is called `base` in its folder."""
    return f"{base}.data-{shard:05d}-of-{num_shards:05d}"


def data_shard(prefix: Location, shard: int, num_shards: int) -> Location:
    """Return the location of a data shard."""
    return prefix.of(shard_name(prefix, shard, num_shards))


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
    """An error in one entry, with its finding code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def decode_shape(proto: TensorShapeProto | None) -> tuple[int, ...]:
    """Return a shape; a missing one and one of unknown rank are scalars, as TensorFlow takes them.

    Raises EntryError for negative dimensions, for more than 2**63 elements and more than 254 dimensions,
    and for dimensions whose names are not UTF-8: TensorFlow decodes no entry with such a name.
    """
    if proto is not None and not all(is_utf8(dim.name) for dim in proto.dim):
        raise EntryError("entry", "the entry cannot be decoded: the name of a dimension is not UTF-8")
    if proto is None or proto.unknown_rank:
        return ()
    return checked_shape(tuple(dim.size for dim in proto.dim))


def checked_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape that TensorFlow has; EntryError, as `decode_shape` says, for another.

    A dimension of 0 does not make up for others: what they count alone must be below 2**63.
    """
    if len(shape) > _LARGEST_RANK:
        raise EntryError(
            "shape", f"the shape has {len(shape)} dimensions, but TensorFlow allows at most {_LARGEST_RANK}"
        )
    size = 1
    for dim in shape:
        if dim < 0:
            raise EntryError("shape", f"the shape {list(shape)} has a negative dimension")
        size *= dim or 1
    if size >= _LARGEST_SIZE:
        raise EntryError("shape", f"the shape {list(shape)} has more than 2**63 elements")
    return shape


def _plain_shape(raw: bytes) -> tuple[int, ...] | None:
    """Return the dimensions of an encoded shape that has nothing else; None if a message must tell it.

    There can be as many shapes as tensors, of dozens of dimensions each.
    """
    shape = []
    at, end = 0, len(raw)
    try:
        while at < end:
            tag, size = raw[at], raw[at + 1]
            at += 2 + size
            if tag != _DIM_TAG or at > end or (size and raw[at - size] != _SIZE_TAG):
                return None
            dim, stop = decode_varint(raw, at - size + 1, at) if size else (0, at)
            if stop != at or dim >= _LARGEST_SIZE:
                return None
            shape.append(dim)
    except (IndexError, ValueError):
        return None
    return tuple(shape)


def encode_shape(shape: tuple[int, ...]) -> TensorShapeProto:
    """Return a shape as a message: of a scalar an empty one, and a dimension of 0 as an empty Dim."""
    return TensorShapeProto(dim=[Dim(size=dim) for dim in shape])


def refuse_shape(path: str, spec: TensorSpec) -> None:
    """Refuse to write a shape that TensorFlow does not have; raises ConversionError."""
    try:
        checked_shape(spec.shape)
    except EntryError as flaw:
        hints = ("to leave this tensor out, pass --exclude with its key in SRC",)
        raise ConversionError(str(flaw), path=path, key=spec.key, hints=hints) from flaw


def encode_entry(entry: BundleEntry) -> bytes:
    """Return an entry as TensorFlow writes it; `decode_entry` is the inverse."""
    # As BundleEntryProto would encode it, but there are a hundred thousand, alike in dtype and shape.
    value = _encode_head(entry.dtype.number, entry.shape)
    for tag, number in zip(_PLACE_TAGS, (entry.shard, entry.offset, entry.size), strict=True):
        if number:
            value += tag + encode_varint(number)
    if entry.crc32c:
        value += _CHECKSUM_TAG + encode_fixed32(entry.crc32c)
    if entry.slices:
        value += BundleEntryProto(slices=[slice_proto(extents) for extents in entry.slices]).encode()
    return value


@lru_cache(1 << 12)
def _encode_head(dtype: int, shape: tuple[int, ...]) -> bytes:
    return BundleEntryProto(dtype=dtype, shape=encode_shape(shape)).encode()


def _plain_fields(value: bytes) -> tuple[int, tuple[int, ...] | None, re.Match[bytes] | None]:
    """Return of an entry where dtype and shape end, the dimensions, and the place; None if not plain."""
    end = 4 + value[3] if _BEGINS_PLAIN.match(value) else len(value) + 1
    rest = _PLAIN_PLACE.fullmatch(value, end) if end <= len(value) else None
    return end, _plain_shape(value[4:end]) if rest else None, rest


def decode_entry(value: bytes) -> BundleEntry:
    """Return an entry; EntryError if it is malformed or its dtype unknown."""
    _, dims, rest = _plain_fields(value)
    if rest is not None and dims is not None and value[1] in dtypes.BY_NUMBER:
        return _placed(dtypes.BY_NUMBER[value[1]], checked_shape(dims), rest)
    try:
        proto = BundleEntryProto.decode(value)
    except ValueError as error:
        raise EntryError("entry", f"the entry cannot be decoded: {error}") from error
    shape = decode_shape(proto.shape)
    dtype = dtypes.BY_NUMBER.get(proto.dtype)
    if dtype is None:
        raise EntryError("dtype", f"the dtype number {proto.dtype} is unknown")
    slices = tuple(extents_of(piece) for piece in proto.slices)
    entry = BundleEntry(dtype, shape, proto.shard_id, proto.offset, proto.size, proto.crc32c, slices)
    if min(entry.shard, entry.offset, entry.size) < 0:
        place = f"shard {entry.shard}, offset {entry.offset}, size {entry.size}"
        raise EntryError("entry", f"the entry has a negative number: {place}")
    return entry


def _placed(dtype: DType, shape: tuple[int, ...], place: re.Match[bytes]) -> BundleEntry:
    """Return an entry from its dtype, its shape, and the match of its placement."""
    shard, offset, size, crc32c = place.groups()
    stored = int.from_bytes(crc32c, "little") if crc32c else 0
    return BundleEntry(dtype, shape, _varint(shard), _varint(offset), _varint(size), stored)


def header_flaws(header: BundleHeaderProto, path: str) -> Iterator[CheckpointError]:
    """Yield what keeps a bundle with this header from being read."""
    refusal = refusal_of(header.version, path)
    if refusal is not None:
        yield refusal
    if header.endianness not in (0, 1):
        message = f"the header has endianness {header.endianness}; expected 0 or 1"
        yield CorruptCheckpointError(message, path=path, offset=0, code="header")
    if header.num_shards < 0:
        message = f"the header declares {header.num_shards} data shards; expected at least 0"
        yield CorruptCheckpointError(message, path=path, offset=0, code="header")


def _varint(raw: bytes | None) -> int:
    """Return a varint that is there whole, or 0 where it is left out."""
    if raw is None:
        return 0
    if len(raw) == 1:
        return raw[0]
    value = 0
    for byte in reversed(raw):
        value = value << 7 | byte & 0x7F
    return value


def refusal_of(version: VersionDef | None, path: str) -> CheckpointError | None:
    """Return the error of a version that TensorFlow does not read, of a bundle or a V1 file."""
    if version is None:
        return None
    if version.min_consumer > READER_VERSION or READER_VERSION in version.bad_consumers:
        message = (
            "the checkpoint needs a reader of version "
            f"{version.min_consumer}, but ckpt supports version {READER_VERSION}"
        )
        hints = ("upgrade ckpt; a newer TensorFlow wrote this checkpoint",)
        return UnsupportedFeatureError(message, path=path, offset=0, code="header", hints=hints)
    if version.producer < 0:
        message = f"the producer version {version.producer} is negative"
        return CorruptCheckpointError(message, path=path, offset=0, code="header")
    return None


class IndexValues(Sequence[bytes]):
    """The entries of an index as they are stored, in one piece of memory."""

    def __init__(self, values: Iterable[bytes] = ()) -> None:
        self._data = b""
        self._behind: list[bytes] = []
        self._ends = array("q", [0])
        self.extend(list(values))

    def extend(self, values: list[bytes]) -> None:
        """Add entries behind those that are there."""
        ends = accumulate(map(len, values), initial=self._ends.pop())
        self._ends.extend(ends)
        self._behind.append(b"".join(values))

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        if self._behind:
            self._data = b"".join((self._data, *self._behind))
            self._behind.clear()
        return self._data[self._ends[at] : self._ends[at + 1]]

    def __len__(self) -> int:
        return len(self._ends) - 1


class BundleIndex:
    """An index, read and checked as a whole; no data shard is touched.

    `values` are the entries, in the order of the file; `tensors` gives the position of
    each tensor among them, and `slice_entries` those of the pieces of partitioned ones.
    Opening raises for damage that hides keys, unless `lenient`; what does not hide
    keys is in `findings`, added to those given.  A `table` that a probe has open is read on from.
    """

    def __init__(
        self,
        prefix: Location,
        *,
        lenient: bool = False,
        table: Table | None = None,
        findings: list[Finding] | None = None,
    ) -> None:
        self.prefix = prefix
        self.path = prefix + ".index"
        self.findings: list[Finding] = [] if findings is None else findings
        self.values = IndexValues()
        self._begin(lenient=lenient)
        with ExitStack() as stack:
            if table is None:
                file = stack.enter_context(self.path.open())
                table = Table(file.read, file.size, self.path)
            stack.enter_context(collector_paused())
            self.size = table.size
            keys, header = self._read(table)
            self.header = self._decode_header(header)
            self.big_endian = self.header.endianness == 1
            self._sort_out(keys)

    def _begin(self, *, lenient: bool) -> None:
        self._lenient = lenient
        self._heads: dict[bytes, tuple[DType, tuple[int, ...]]] = {}
        self._blocks: list[tuple[int, int]] = []
        self.tensors: Mapping[str, int] = {}
        self.slice_entries: dict[bytes, int] = {}

    def _flaw(self, error: CheckpointError) -> None:
        if not self._lenient:
            raise error
        self.findings.append(Finding.of(error))

    def _read(self, table: Table) -> tuple[list[str], bytes | None]:
        """Read all blocks. Return the keys as text, each once, and the header if there is one.

        TensorFlow takes the first entry for the header, so a table without one would silently lose its first
        tensor.
        """
        keys: list[str] = []
        header = last = None
        before: bytes | None = None
        unsorted = size = 0
        first = (b"", b"", 0)
        hidden: list[int] = []
        for bound, handle in table.index:
            above, before = before, bound
            try:
                found, values = table.columns(handle)
                size += sum(map(len, found))
                if are_keys_too_long(size, len(keys) + len(found)):
                    message = f"the keys up to this one have {size} bytes, which is over the limit"
                    raise CorruptCheckpointError(
                        message, path=self.path, offset=handle.offset, code="block-checksum"
                    )
            except CorruptCheckpointError as error:
                self._flaw(error)
                continue
            for key in found:
                if last is not None and key <= last:
                    first = first if unsorted else (key, last, handle.offset)
                    unsorted += 1
                last = key
            if not is_found(found, above, bound):
                hidden.append(handle.offset)
            if header is None and b"" in found:
                at = found.index(b"")
                header = values.pop(at)
                del found[at]
            self._blocks.append((len(keys), handle.offset))
            keys += map(key_text, found)
            self.values.extend(values)
        if unsorted:
            key, before, offset = first
            where = (
                f"{counted(unsorted, 'key is', 'keys are')} out of "
                f"order, beginning with the key after {key_text(before)!r}"
            )
            message = f"{where}. TensorFlow cannot find these keys"
            self.findings.append(Finding("error", "key-order", message, key_text(key), self.path, offset))
        elif hidden:
            blocks = counted(len(hidden), "block")
            message = f"wrong bounds in the index block hide {blocks}; TensorFlow cannot find all keys"
            self.findings.append(Finding("error", "key-order", message, None, self.path, hidden[0]))
        return keys, header

    def _decode_header(self, value: bytes | None) -> BundleHeaderProto:
        """Return the header, or a substitute if there is none."""
        if value is None:
            # A damaged block may have taken the header with it, and has been found already.
            if not any(finding.code == "block-checksum" for finding in self.findings):
                what = "the index has no header entry (the entry with the empty key)"
                self._flaw(CorruptCheckpointError(what, path=self.path, offset=0, code="header"))
            return BundleHeaderProto(num_shards=self._count_shards())
        try:
            header = BundleHeaderProto.decode(value)
        except ValueError as error:
            self._flaw(CorruptCheckpointError(f"header: {error}", path=self.path, offset=0, code="header"))
            return BundleHeaderProto(num_shards=0)
        for flaw in header_flaws(header, self.path):
            self._flaw(flaw)
        return header

    def _count_shards(self) -> int:
        """Return how many data shards the names of those that are there speak of; 0 where they disagree."""
        counts = {
            int(match["count"]) for path in data_shards(self.prefix) if (match := SHARD.fullmatch(path))
        }
        return counts.pop() if len(counts) == 1 else 0

    def _sort_out(self, keys: list[str]) -> None:
        """Tell tensors from the pieces of partitioned ones.

        A slice key is known by being derivable from some entry's list of slices; a key
        that merely begins with a zero byte is a tensor like any other.
        """
        in_order = not any(finding.code == "key-order" for finding in self.findings)
        # Slice keys sort before all that do not begin with a zero byte.
        if in_order and not (keys and keys[0].startswith(SLICE_KEY_BYTE.decode())):
            self.tensors = places_of(keys)
            return
        first = _first_occurrences(map(key_bytes, keys))
        for key, position in list(first.items()):
            entry = self.entry_or_none(position)
            for extents in entry.slices if entry else ():
                piece = slice_key(key, extents)
                if piece in first:
                    self.slice_entries[piece] = first[piece]
        self.tensors = {key_text(k): at for k, at in first.items() if k not in self.slice_entries}

    @cached_property
    def positions(self) -> Sequence[int]:
        """The positions of all tensors in their order."""
        return range(len(self.tensors)) if isinstance(self.tensors, Ascending) else [*self.tensors.values()]

    @property
    def keys(self) -> list[bytes]:
        """The keys of `values`, as stored, those of slices among them."""
        keys = [b""] * len(self.values)
        for text, position in self.tensors.items():
            keys[position] = key_bytes(text)
        for key, position in self.slice_entries.items():
            keys[position] = key
        return keys

    def entry(self, position: int) -> BundleEntry:
        """Return the decoded entry at a position; EntryError if it cannot be."""
        value = self.values[position]
        end = 4 + value[3] if len(value) > 3 else 0  # where an entry that was seen has its place
        known = self._heads.get(value[:end])
        place = _PLAIN_PLACE.fullmatch(value, end) if known else None
        if known is None or place is None:
            return self._decode(value)
        return _placed(*known, place)

    def _decode(self, value: bytes) -> BundleEntry:
        """Return a decoded entry, and take note of what its head says of others."""
        entry = decode_entry(value)
        end, dims, rest = _plain_fields(value)
        if rest is not None and dims is not None:
            self._heads[value[:end]] = entry.dtype, entry.shape
        return entry

    def is_plain(self, position: int) -> bool:
        """Whether an entry is known to be of a tensor in one piece, without decoding all of it."""
        value = self.values[position]
        end = 4 + value[3] if len(value) > 3 else 0
        return value[:end] in self._heads and _PLAIN_PLACE.fullmatch(value, end) is not None

    def place(self, position: int) -> int | None:
        """Return the offset, in the index file, of the block that holds an entry."""
        at = bisect.bisect_right(self._blocks, position, key=lambda block: block[0])
        return self._blocks[at - 1][1] if at else None

    def entry_or_none(self, position: int) -> BundleEntry | None:
        try:
            return self.entry(position)
        except EntryError:
            return None

    def specs(self) -> SpecTable:
        """Return the specs of all tensors by key, INVALID where an entry cannot be decoded."""
        # This loop is what `ckpt ls` of 100,000 tensors waits for, so it names its globals.
        values, is_place = self.values, _PLAIN_PLACE.fullmatch
        keys, numbers = [*self.tensors], array("i")
        numbered: dict[TensorSpec, int] = {}
        heads: dict[bytes, int] = {}
        with collector_paused():
            for key, position in self.tensors.items():
                value = values[position]
                end = 4 + value[3] if len(value) > 3 else 0  # where an entry that was seen has its place
                number = heads.get(value[:end])
                if number is None or not is_place(value, end):
                    spec = self._decode_spec(key, position)
                    number = numbered.setdefault(spec, len(numbered))
                    if spec.dtype.itemsize is not None and self._heads.get(value[:end]) == spec[1:3]:
                        heads[value[:end]] = number
                numbers.append(number)
        in_order = self.tensors if isinstance(self.tensors, Ascending) else places_of(keys)
        return SpecTable(SpecRows(keys, numbers, list(numbered)), in_order)

    def _decode_spec(self, key: str, position: int) -> TensorSpec:
        """Return the spec from an entry, with an empty key, and record errors as findings."""
        try:
            entry = self.entry(position)
        except EntryError as flaw:
            self.findings.append(Finding("error", flaw.code, str(flaw), key, self.path, self.place(position)))
            return TensorSpec("", INVALID, shape_or_scalar(self.values[position]))
        stored = entry.size if entry.dtype.itemsize is None else None
        return TensorSpec("", entry.dtype, entry.shape, stored)


def _first_occurrences(keys: Iterable[bytes]) -> dict[bytes, int]:
    """Return positions by key, in key order.

    Of a key that occurs twice it is the first, as TensorFlow finds it.
    """
    positions: dict[bytes, int] = {}
    for position, key in enumerate(keys):
        positions.setdefault(key, position)
    return dict(sorted(positions.items()))


def shape_or_scalar(value: bytes) -> tuple[int, ...]:
    """Return the shape of an entry whose dtype is unknown, or () if it cannot be decoded."""
    try:
        return decode_shape(BundleEntryProto.decode(value).shape)
    except ValueError:
        return ()
