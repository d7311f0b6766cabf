"""Verifying a bundle: what contradicts itself in index, shards, object graph and data.

Structure comes first, since it says which bytes are worth reading: entries within
their shards, shards that are there, pieces that tile their tensor, an object graph
that agrees with the keys.  Then every byte is read once, in the order of the shards,
and held against its checksum.  Neighbours too small to be worth a read of their own
are read together.

What TensorFlow reads without harm is no finding: entries that share all their bytes,
bytes that belong to no entry, graphs with cycles and aliases.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..dtypes import INVALID
from ..errors import CheckpointError, ChecksumError, CorruptCheckpointError
from ..files import PIECE
from ..model import Finding, TensorSpec, Verification, key_text
from ..paths import SHARD, data_shards
from ..wire.crc32c import crc32c, mask
from . import payload
from .bundle import OBJECT_GRAPH_KEY, data_shard
from .keys import looks_object_based
from .slices import tiling_flaw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from .bundle import BundleEntry
    from .bundle_reader import BundleReader

__all__ = ["verify_bundle"]

T = TypeVar("T")
R = TypeVar("R")

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
    """The stretches of shards that have a checksum of their own, in columns.

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
        """Return the parts in the order in which they lie in the shards."""
        shard, offset = self.shard, self.offset
        return array("q", sorted(range(len(shard)), key=lambda part: shard[part] << 64 | offset[part]))


def verify_bundle(reader: BundleReader, jobs: int = 1) -> Iterator[Verification]:
    """Yield the steps of verifying; the last of a tensor's parts counts the tensor."""
    reader.specs  # noqa: B018  decodes every entry, so that what cannot be decoded is among the findings
    yield Verification(findings=tuple(reader.findings))
    structure = _Structure(reader)
    yield Verification(findings=tuple(structure.check()))
    yield from _verify_data(reader, structure, jobs)
    yield Verification(findings=tuple(_object_graph(reader)))


class _Structure:
    """The parts whose bytes can be read, and the findings that say why others cannot.

    `lost` are the tensors, by position, of which something cannot be read or is damaged.
    """

    def __init__(self, reader: BundleReader) -> None:
        self.reader = reader
        self.specs = list(reader.specs.values())
        self.parts = _Parts()
        self.order = array("q")
        self.pieces: dict[int, int] = {}
        self.lost: set[int] = set()
        self._sizes = _shard_sizes(reader)

    def check(self) -> Iterator[Finding]:
        positions = self.reader.index.tensors
        for number, spec in enumerate(self.specs):
            if spec.dtype is INVALID:
                self.lost.add(number)
                continue
            entry = self.reader.entry(spec.key, positions[spec.key])
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
        except CorruptCheckpointError as error:
            yield Finding.of(error, spec.key)
            return
        if tiling_flaw([region for region, _ in pieces], spec.shape) == "gap":
            # An optimizer that minimized a partitioned variable within a scope writes such slots.
            message = "its slices do not cover its shape; TensorFlow restores only what they hold"
            yield Finding("warning", "slice", message, spec.key, *place)
        if spec.dtype.name not in JOINABLE and len(pieces) > 1:
            message = (
                f"TensorFlow cannot join slices of {spec.dtype}; convert with --merge-slices to make it whole"
            )
            yield Finding("warning", "slice", message, spec.key, *place)
        self.pieces[number] = len(pieces)
        for _, piece in pieces:
            yield from self._part(number, piece.spec, piece.entry)

    def _part(self, number: int, spec: TensorSpec, entry: BundleEntry) -> Iterator[Finding]:
        """Take a part whose bytes are all there; yield what keeps it from being read."""
        index = self.reader.index
        if entry.shard not in self._sizes and entry.shard < index.header.num_shards:
            path = data_shard(index.prefix, entry.shard, index.header.num_shards)
            yield Finding("error", "shard-missing", "its data shard is missing", spec.key, path, entry.offset)
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
                message = "the index does not know this data shard; it may be left from another save"
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
        message = f"shares bytes with {other!r}, which ends at {parts.end(previous)}"
        path = data_shard(index.prefix, parts.shard[part], index.header.num_shards)
        return Finding("warning", "overlap", message, key, path, parts.offset[part])


def _shard_sizes(reader: BundleReader) -> dict[int, int]:
    """Return the size of each data shard that is there.

    Only names that exist are looked at: a header can count two thousand million shards.
    """
    count = reader.index.header.num_shards
    sizes = {}
    for path in data_shards(reader.index.prefix):
        match = SHARD.fullmatch(path)
        if match and int(match["count"]) == count and int(match["shard"]) < count:
            sizes[int(match["shard"])] = os.stat(path).st_size
    return sizes


def _verify_data(reader: BundleReader, structure: _Structure, jobs: int) -> Iterator[Verification]:
    """Read every part once and hold it against its checksum."""
    parts, lost, left = structure.parts, structure.lost, structure.pieces
    for checked in _in_order(partial(_checksums, reader, structure), _batches(structure), jobs):
        findings = []
        tensors = nbytes = 0
        for part, found in checked:
            number = parts.tensor[part]
            nbytes += parts.size[part]
            left[number] = left.get(number, 1) - 1
            error = found if isinstance(found, CheckpointError) else _mismatch(reader, structure, part, found)
            if error is not None:
                lost.add(number)
                key = structure.specs[number].key
                findings.append(Finding("error", error.code, error.message, key, error.path, error.offset))
            if not left[number]:
                del left[number]
                tensors += number not in lost
        yield Verification(nbytes, tensors, tuple(findings))


def _mismatch(reader: BundleReader, structure: _Structure, part: int, crc: int) -> CheckpointError | None:
    parts = structure.parts
    stored = parts.crc32c[part]
    if mask(crc) == stored:
        return None
    index = reader.index
    path = data_shard(index.prefix, parts.shard[part], index.header.num_shards)
    message = f"checksum {mask(crc):#010x}, stored {stored:#010x}"
    return ChecksumError(message, path=path, offset=parts.offset[part], code="tensor-checksum")


def _batches(structure: _Structure) -> Iterator[list[int]]:
    """Yield parts one by one, or together where they are fixed-width neighbours within one piece."""
    parts, specs = structure.parts, structure.specs
    batch: list[int] = []
    for part in structure.order:
        alone = specs[parts.tensor[part]].dtype.itemsize is None
        if batch:
            apart = parts.shard[part] != parts.shard[batch[0]]
            if apart or alone or parts.end(part) - parts.offset[batch[0]] > PIECE:
                yield batch
                batch = []
        batch.append(part)
        if alone or parts.size[part] > PIECE:
            yield batch
            batch = []
    if batch:
        yield batch


def _in_order(work: Callable[[T], R], items: Iterator[T], jobs: int) -> Iterator[R]:
    """Yield `work(item)` of every item, in their order, `jobs` of them done at a time.

    Reading and checksumming release the interpreter's lock, so threads do it.
    """
    if jobs == 1:
        yield from map(work, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(jobs) as executor:
        ahead: deque[Future[R]] = deque()
        for item in items:
            ahead.append(executor.submit(work, item))
            if len(ahead) > 2 * jobs:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _checksums(
    reader: BundleReader, structure: _Structure, batch: list[int]
) -> list[tuple[int, int | CheckpointError]]:
    """Return the unmasked checksum of each part, or the error that reading it met."""
    parts = structure.parts
    shard, start = parts.shard[batch[0]], parts.offset[batch[0]]
    try:
        if len(batch) > 1:
            data = reader.read_bytes(shard, start, max(map(parts.end, batch)) - start)
            return [
                (part, crc32c(data[parts.offset[part] - start : parts.end(part) - start])) for part in batch
            ]
        part = batch[0]
        spec = structure.specs[parts.tensor[part]]
        crc = payload.checksum(
            lambda offset, size: reader.read_bytes(shard, start + offset, size),
            spec.dtype,
            parts.count[part],
            parts.size[part],
            big_endian=reader.index.big_endian,
        )
    except CheckpointError as error:
        return [(part, error) for part in batch]
    except ValueError as error:
        path = data_shard(reader.index.prefix, shard, reader.index.header.num_shards)
        return [(part, CorruptCheckpointError(str(error), path=path, offset=start, code="tensor-checksum"))]
    return [(part, crc)]


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
    if reader.format.name == "tf-name" and any(map(looks_object_based, reader.specs)):
        message = (
            "keys of an object-based checkpoint, but no object graph: TensorFlow restores nothing by them"
        )
        yield Finding("error", "graph-decode", message, None, reader.index.path)
