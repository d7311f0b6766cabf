"""Verifying a bundle: what contradicts itself in index, shards, object graph and data.

The structure is checked first, because it says which bytes can be read: entries within their shards, existing
shards, slices that tile their tensor, an object graph that agrees with the keys. Then every byte is read
once, in the order of the shards, and compared with its checksum. Small neighbours are read together, and
large parts in independent ranges.

TensorFlow reads some oddities correctly, so they are not findings: entries that share all their bytes,
bytes without an entry, and graphs with cycles and aliases.
"""

from __future__ import annotations

from array import array
from collections import deque
from contextlib import closing, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ...core.chunks import PIECE
from ...core.dtypes import INVALID
from ...core.region import region_text, tiling_flaw
from ...core.spec import TensorSpec, is_utf8, key_bytes, key_text
from ...errors import CheckpointError, ChecksumError, CorruptCheckpointError
from ...model.checkpoint_files import data_shards
from ...model.object_keys import looks_object_based
from ...model.verification import Finding, Verification
from ...store.ranges import Sum, cut
from ...store.siblings import SHARD
from ...store.work.task_context import TASK_FILES
from ...store.work.workers import SERIAL, Workers
from ...wire.crc32c import crc32c, extend, mask
from . import payload
from .index import OBJECT_GRAPH_KEY, data_shard
from .slices import decode_slice_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ...core.dtypes import DType
    from ...store.base import File
    from .index import BundleEntry
    from .reader import BundleReader


# TensorFlow's MaxShardSizePolicy writes such slices although its restore cannot join them.
JOINABLE = frozenset(
    [
        "float32",
        "float64",
        "int32",
        "uint8",
        "int16",
        "int8",
        "complex64",
        "complex128",
        "int64",
        "bool",
        "qint32",
        "quint8",
        "qint8",
        "bfloat16",
        "int4",
        "uint4",
    ]
)


class _Parts:
    """The ranges of shards that have their own checksum, in columns.

    A part is a tensor or a piece of one.  There can be a million, so they are numbers
    in arrays: `tensor` is a position among the specs, `count` the elements.
    """

    def __init__(self) -> None:
        self.tensor, self.shard, self.offset = array("q"), array("q"), array("q")
        self.size, self.count, self.crc32c = array("q"), array("q"), array("Q")

    def add(self, tensor: int, entry: BundleEntry, spec: TensorSpec) -> None:
        self.tensor.append(tensor)
        self.shard.append(entry.shard)
        self.offset.append(entry.offset)
        self.size.append(entry.size)
        self.count.append(spec.size)
        self.crc32c.append(entry.crc32c)

    def end(self, part: int) -> int:
        return self.offset[part] + self.size[part]

    def in_file_order(self) -> array[int]:
        """Return the parts in the order of the shards."""
        shard, offset = self.shard, self.offset
        order = range(len(shard))
        places = zip(shard, offset, strict=True)
        if all(place <= following for place, following in pairwise(places)):  # as writers leave them
            return array("q", order)
        return array("q", sorted(order, key=lambda part: shard[part] << 64 | offset[part]))


def verify_bundle(reader: BundleReader, workers: Workers = SERIAL) -> Iterator[Verification]:
    """Yield the steps of verifying; the last of a tensor's parts counts the tensor."""
    reader.specs  # noqa: B018  decodes every entry, so that what cannot be decoded is among the findings
    yield Verification(findings=tuple(reader.findings))
    yield Verification(findings=tuple(_keys(reader)))
    structure = _Structure(reader)
    yield Verification(findings=tuple(structure.check()))
    yield Verification(findings=tuple(_object_graph(reader)))
    yield from _verify_data(reader, structure, workers)


def verify_values(
    reader: BundleReader, shards: Collection[int], workers: Workers = SERIAL
) -> Iterator[Verification]:
    """Yield the steps of verifying the tensors alone, in these shards."""
    structure = _Structure(reader)
    yield Verification(findings=tuple(structure.check()))
    parts = structure.parts
    structure.order = array("q", (part for part in structure.order if parts.shard[part] in shards))
    yield from _verify_data(reader, structure, workers)


def _keys(reader: BundleReader) -> Iterator[Finding]:
    """Yield keys that TensorFlow's Python cannot list, which then lists and restores nothing at all."""
    index = reader.index
    for key, position in index.tensors.items():
        if is_utf8(key):
            continue
        place = index.path, index.place(position)
        try:
            name, _ = decode_slice_key(key_bytes(key))
        except ValueError:
            message = "its key is not UTF-8; TensorFlow can neither list nor restore it"
            yield Finding("error", "entry", message, key, *place)
        else:
            message = (
                f"the entry of {key_text(name)!r} does not list this slice; TensorFlow treats it as a tensor"
            )
            yield Finding("error", "slice", message, key, *place)


class _Structure:
    """The parts whose bytes can be read, and the findings that say why others cannot.

    `lost` are the tensors, by position, with a part that cannot be read or is damaged.
    """

    def __init__(self, reader: BundleReader) -> None:
        self.reader = reader
        self.specs = reader.specs.rows
        self.parts = _Parts()
        self.order = array("q")
        self.pieces: dict[int, int] = {}
        self.lost: set[int] = set()
        self._sizes = _shard_sizes(reader)

    def expect_all_of(self, shard: int) -> None:
        """Say that a shard will be read from its beginning to its end, if it can be."""
        with suppress(CheckpointError):  # the reader of the file reports it
            self.reader.expect(shard, 0, self._sizes.get(shard, 0))

    def check(self) -> Iterator[Finding]:
        positions = self.reader.index.positions
        for number, (spec, position) in enumerate(zip(self.specs, positions, strict=True)):
            if spec.dtype is INVALID:
                self.lost.add(number)
                continue
            entry = self.reader.entry(spec.key, position)
            for finding in self._tensor(number, spec, entry):
                if finding.severity == "error":
                    self.lost.add(number)
                yield finding
        yield from self._shards()
        self.order = self.parts.in_file_order()
        yield from self._overlaps()

    def _tensor(self, number: int, spec: TensorSpec, entry: BundleEntry) -> Iterator[Finding]:
        if not entry.slices:
            yield from self._part(number, spec, entry)
            return
        place = self.reader.entry_place(spec.key)
        try:
            pieces = self.reader.pieces(spec, entry)
        except CheckpointError as error:
            yield Finding("error", error.code, error.message, error.key or spec.key, error.path, error.offset)
            return
        if tiling_flaw([region for region, _ in pieces], spec.shape) == "gap":
            # An optimizer that minimized a partitioned variable within a scope writes such slots.
            severity = "warning" if self.reader.kinds[spec.key] == "slot" else "error"
            message = (
                "the slices do not cover the shape of the tensor; TensorFlow restores only the covered part"
            )
            yield Finding(severity, "slice", message, spec.key, *place)
        if spec.dtype.name not in JOINABLE and len(pieces) > 1:
            message = (
                f"TensorFlow cannot join slices of {spec.dtype}; convert with --merge-slices to join them"
            )
            yield Finding("warning", "slice", message, spec.key, *place)
        self.pieces[number] = len(pieces)
        for region, piece in pieces:
            if piece.entry.shape != piece.spec.shape:
                message = f"its slice {region_text(region)} is stored with shape {list(piece.entry.shape)}"
                yield Finding("error", "slice", message, spec.key, *place)
                continue
            yield from self._part(number, piece.spec, piece.entry)

    def _part(self, number: int, spec: TensorSpec, entry: BundleEntry) -> Iterator[Finding]:
        """Take a part whose bytes are all there; yield what keeps it from being read."""
        index = self.reader.index
        if entry.shard not in self._sizes and entry.shard < index.header.num_shards:
            path = data_shard(index.prefix, entry.shard, index.header.num_shards)
            if path.is_missing():  # otherwise it cannot be opened, or the directory cannot be listed
                message = "its data shard is missing"
                yield Finding("error", "shard-missing", message, spec.key, path, entry.offset)
                return
        try:
            self.reader.check_size(spec, entry)
        except CheckpointError as error:
            yield Finding("error", error.code, error.message, spec.key, error.path, error.offset)
            return
        self.parts.add(number, entry, spec)

    def _shards(self) -> Iterator[Finding]:
        """Yield data shards that belong to another save."""
        prefix, count = self.reader.index.prefix, self.reader.index.header.num_shards
        used = {data_shard(prefix, shard, count) for shard in self._sizes}
        for path in data_shards(prefix):
            match = SHARD.fullmatch(path)
            if (
                path not in used
                and match
                and not (int(match["count"]) == count and int(match["shard"]) < count)
            ):
                message = "the index does not use this data shard; it may be left over from another save"
                yield Finding("warning", "shard-surplus", message, None, path)

    def _overlaps(self) -> Iterator[Finding]:
        """Yield parts that share some bytes, but not all: two names for one tensor are fine."""
        parts = self.parts
        previous = -1
        for part in self.order:
            neighbours = previous >= 0 and parts.shard[previous] == parts.shard[part]
            if neighbours and parts.size[part] and parts.offset[part] < parts.end(previous):
                same = (parts.offset[previous], parts.size[previous]) == (
                    parts.offset[part],
                    parts.size[part],
                )
                if not same:
                    yield self._overlap(part, previous)
            if not neighbours or parts.end(part) >= parts.end(previous):
                previous = part

    def _overlap(self, part: int, previous: int) -> Finding:
        parts, index = self.parts, self.reader.index
        key, other = (self.specs[parts.tensor[number]].key for number in (part, previous))
        message = f"the tensor overlaps {other!r}, which ends at byte {parts.end(previous)}"
        path = data_shard(index.prefix, parts.shard[part], index.header.num_shards)
        return Finding("warning", "overlap", message, key, path, parts.offset[part])


def _shard_sizes(reader: BundleReader) -> dict[int, int]:
    """Return the size of each data shard that is listed and can be looked at.

    Only names that exist are looked at: a header can count two thousand million shards.
    """
    count = reader.index.header.num_shards
    sizes = {}
    for path in data_shards(reader.index.prefix):
        match = SHARD.fullmatch(path)
        if match and int(match["count"]) == count and int(match["shard"]) < count:
            found = path.entry()
            if found is not None:  # replaced by another save's just now, or a link to nowhere
                sizes[int(match["shard"])] = found.size
    return sizes


class _TaskRange(NamedTuple):
    """The bytes that one task reads: bytes from the start of the first part, or a range of a single part."""

    parts: list[int]
    begin: int
    end: int


class _Elements(NamedTuple):
    """How strings and variants are stored, whose checksum is not that of their bytes."""

    dtype: DType
    number: int
    big_endian: bool


class _VerifyTask(NamedTuple):
    """A range as data: the placement of its parts in an open file, or the error from opening it.

    `offset` is that of the first part, `begin` and `end` are counted from there, and `places` are offset and
    size of each of several parts.  `expected` bytes are read in a row.
    """

    file: File | CheckpointError
    offset: int
    begin: int
    end: int
    expected: int
    places: array[int]
    elements: _Elements | None = None


def _verify_data(reader: BundleReader, structure: _Structure, workers: Workers) -> Iterator[Verification]:
    """Read every part once, and compare it with its checksum."""
    tally = _Tally(reader, structure)
    waiting: deque[_TaskRange] = deque()

    def tasks() -> Iterator[_VerifyTask]:
        for task_range in _task_ranges(structure, workers.task_bytes):
            waiting.append(task_range)
            yield _task(reader, structure, task_range)

    mapped = workers.map(_checksums, tasks(), lambda task: task.end - task.begin, local=reader.is_local)
    with closing(mapped) as results:
        for found in results:
            yield tally.add(waiting.popleft(), found)


class _Tally:
    """Puts ranges together to parts and parts to tensors."""

    def __init__(self, reader: BundleReader, structure: _Structure) -> None:
        self._reader = reader
        self._structure = structure
        self._sum = Sum()
        self._error: CheckpointError | None = None

    def add(self, task_range: _TaskRange, checked: list[int | CheckpointError]) -> Verification:
        """Return what is known after the next task, of the unmasked checksums that it made, or its errors."""
        structure = self._structure
        parts, lost, left = structure.parts, structure.lost, structure.pieces
        findings = []
        tensors = nbytes = 0
        alone = len(task_range.parts) == 1
        for part, found in zip(task_range.parts, checked, strict=True):
            begin, end = (task_range.begin, task_range.end) if alone else (0, parts.size[part])
            nbytes += end - begin
            if isinstance(found, CheckpointError):
                self._error = self._error or found
            else:
                self._sum.add(Sum(found, end - begin))
            if end < parts.size[part]:
                continue
            error = self._error or _mismatch(self._reader, structure, part, self._sum.crc)
            self._sum, self._error = Sum(), None
            number = parts.tensor[part]
            left[number] = left.get(number, 1) - 1
            if error is not None:
                lost.add(number)
                key = structure.specs[number].key
                findings.append(Finding("error", error.code, error.message, key, error.path, error.offset))
            if not left[number]:
                del left[number]
                tensors += number not in lost
        return Verification(nbytes, tensors, tuple(findings))


def _mismatch(reader: BundleReader, structure: _Structure, part: int, crc: int) -> CheckpointError | None:
    parts = structure.parts
    stored = parts.crc32c[part]
    if mask(crc) == stored:
        return None
    index = reader.index
    path = data_shard(index.prefix, parts.shard[part], index.header.num_shards)
    message = f"the data has checksum {mask(crc):#010x}, but the stored one is {stored:#010x}"
    return ChecksumError(message, path=path, offset=parts.offset[part], code="tensor-checksum")


def _task_ranges(structure: _Structure, step: int) -> Iterator[_TaskRange]:
    """Yield what tasks read: fixed-width neighbours within one piece together, large parts in ranges."""
    parts, specs = structure.parts, structure.specs
    batch: list[int] = []
    expected = -1

    def whole() -> _TaskRange:
        return _TaskRange(batch, 0, max(map(parts.end, batch)) - parts.offset[batch[0]])

    for part in structure.order:
        alone = specs[parts.tensor[part]].dtype.itemsize is None
        if parts.shard[part] != expected:
            expected = parts.shard[part]
            structure.expect_all_of(expected)
        if batch:
            apart = parts.shard[part] != parts.shard[batch[0]]
            if apart or alone or parts.end(part) - parts.offset[batch[0]] > PIECE:
                yield whole()
                batch = []
        if alone:
            yield _TaskRange([part], 0, parts.size[part])
        elif parts.size[part] > PIECE:
            for begin, end in cut(parts.size[part], step):
                yield _TaskRange([part], begin, end)
        else:
            batch.append(part)
    if batch:
        yield whole()


def _task(reader: BundleReader, structure: _Structure, task_range: _TaskRange) -> _VerifyTask:
    """Return the task of reading a range."""
    parts, first = structure.parts, task_range.parts[0]
    start = parts.offset[first]
    try:
        file: File | CheckpointError = reader.shard(parts.shard[first])
    except CheckpointError as error:
        file = error
    dtype = structure.specs[parts.tensor[first]].dtype
    elements, places = None, array("q")
    if len(task_range.parts) > 1:
        places.extend(
            value for part in task_range.parts for value in (parts.offset[part] - start, parts.size[part])
        )
    elif dtype.itemsize is None:
        elements = _Elements(dtype, parts.count[first], reader.index.big_endian)
    return _VerifyTask(file, start, task_range.begin, task_range.end, parts.size[first], places, elements)


def _checksums(task: _VerifyTask) -> list[int | CheckpointError]:
    """Do one task: return the unmasked checksum of each part, or of a range of one, or an error for each."""
    count = len(task.places) // 2 or 1
    if isinstance(task.file, CheckpointError):
        return [task.file] * count
    try:
        if not task.places:
            return [_checksum(task, task.file)]
        data = task.file.read_exactly(task.offset, task.end)
        places = zip(task.places[::2], task.places[1::2], strict=True)
        return [crc32c(data[begin : begin + size]) for begin, size in places]
    except CheckpointError as error:
        return [error] * count


def _checksum(task: _VerifyTask, file: File) -> int:
    """Return the unmasked checksum of one part or a range of it."""
    start = task.offset
    if task.elements is not None:
        dtype, count, big_endian = task.elements
        try:
            return payload.checksum(
                lambda offset, size: file.read_exactly(start + offset, size),
                dtype,
                count,
                task.end,
                big_endian=big_endian,
            )
        except ValueError as error:
            message = str(error)
            raise CorruptCheckpointError(
                message, path=file.path, offset=start, code="tensor-checksum"
            ) from error
    crc = 0
    if TASK_FILES.has_travelled:
        file.expect(start + task.begin, task.end - task.begin)
    else:
        file.expect(start, task.expected)
    for at in range(task.begin, task.end, PIECE):
        crc = extend(crc, file.read_exactly(start + at, min(PIECE, task.end - at)))
    return crc


def _object_graph(reader: BundleReader) -> Iterator[Finding]:
    """Yield what is wrong with the object graph, or with there being none."""
    known = len(reader.findings)
    graph = reader.object_graph
    if graph is not None:
        key = key_text(OBJECT_GRAPH_KEY)
        path, offset = reader.data_place(key, reader.tensor(key).entry)
        for flaw in graph.flaws(reader.specs):
            yield Finding(flaw.severity, flaw.code, flaw.message, flaw.key, path, offset)
        return
    # A graph whose bytes are damaged has been found so already; one that cannot be decoded is found here.
    yield from (finding for finding in reader.findings[known:] if finding.code.startswith("graph"))
    if not reader.format.has_object_graph and any(map(looks_object_based, reader.specs)):
        message = "the keys are object-based, but the object graph is missing, so TensorFlow restores nothing"
        yield Finding("error", "graph-decode", message, None, reader.index.path)
