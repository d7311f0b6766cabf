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
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..dtypes import INVALID
from ..errors import CheckpointError, CorruptCheckpointError
from ..files import PIECE
from ..model import Finding, TensorSpec, Verification
from ..paths import SHARD, data_shards
from ..wire.crc32c import crc32c
from . import payload
from .bundle import BundleEntry, data_shard
from .keys import looks_object_based
from .slices import tiling_flaw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

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


class _Part(NamedTuple):
    """A stretch of a shard that holds a tensor, or a piece of one, with its own checksum."""

    entry: BundleEntry
    spec: TensorSpec


def verify_bundle(reader: BundleReader, jobs: int = 1) -> Iterator[Verification]:
    """Yield the steps of verifying; the last of a tensor's parts counts the tensor."""
    reader.specs  # noqa: B018  decodes every entry, so that what cannot be decoded is among the findings
    yield Verification(findings=tuple(reader.findings))
    structure = _Structure(reader)
    yield Verification(findings=tuple(structure.check()))
    yield from _verify_data(reader, structure, jobs)
    yield Verification(findings=tuple(_object_graph(reader)))


class _Structure:
    """The parts whose bytes can be read, and the findings that say why others cannot."""

    def __init__(self, reader: BundleReader) -> None:
        self.reader = reader
        self.parts: list[_Part] = []
        self.parts_of: dict[str, int] = {}
        self.lost: set[str] = set()
        self._sizes = _shard_sizes(reader)

    def check(self) -> Iterator[Finding]:
        for key, spec in self.reader.specs.items():
            if spec.dtype is INVALID:
                self.lost.add(key)
                continue
            findings = list(self._tensor(key, spec))
            if any(finding.severity == "error" for finding in findings):
                self.lost.add(key)
            yield from findings
        yield from self._shards()
        self.parts.sort(key=lambda part: (part.entry.shard, part.entry.offset))
        yield from self._overlaps()

    def _tensor(self, key: str, spec: TensorSpec) -> Iterator[Finding]:
        entry = self.reader.tensor(key).entry
        if not entry.slices:
            yield from self._part(_Part(entry, spec))
            return
        try:
            pieces = self.reader.pieces(spec, entry)
        except CorruptCheckpointError as error:
            yield Finding.of(error, key)
            return
        if tiling_flaw([region for region, _ in pieces], spec.shape) == "gap":
            # An optimizer that minimized a partitioned variable within a scope writes such slots.
            message = "its slices do not cover its shape; TensorFlow restores only what they hold"
            yield Finding("warning", "slice", message, key, self.reader.index.path)
        if spec.dtype.name not in JOINABLE and len(pieces) > 1:
            message = (
                f"TensorFlow cannot join slices of {spec.dtype}; convert with --merge-slices to make it whole"
            )
            yield Finding("warning", "slice", message, key, self.reader.index.path)
        for _, piece in pieces:
            yield from self._part(_Part(piece.entry, piece.spec))

    def _part(self, part: _Part) -> Iterator[Finding]:
        """Take a part whose bytes are all there; yield what keeps it from being read."""
        entry, spec = part
        index = self.reader.index
        self.parts_of[spec.key] = self.parts_of.get(spec.key, 0) + 1
        size = self._sizes.get(entry.shard)
        if size is None:
            if not 0 <= entry.shard < index.header.num_shards:
                message = f"in shard {entry.shard}, the header counts {index.header.num_shards}"
                yield Finding("error", "entry", message, spec.key, index.path)
            else:
                path = data_shard(index.prefix, entry.shard, index.header.num_shards)
                yield Finding(
                    "error", "shard-missing", "its data shard is missing", spec.key, path, entry.offset
                )
            return
        try:
            self.reader.check_size(spec, entry)
        except CheckpointError as error:
            yield Finding("error", error.code, error.message, spec.key, error.path, error.offset)
            return
        self.parts.append(part)

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
        previous: _Part | None = None
        for part in self.parts:
            entry = part.entry
            if previous is not None and previous.entry.shard == entry.shard and entry.size:
                before = previous.entry
                same = (before.offset, before.size) == (entry.offset, entry.size)
                if entry.offset < before.offset + before.size and not same:
                    end = before.offset + before.size
                    message = f"shares bytes with {previous.spec.key!r}, which ends at {end}"
                    path = data_shard(
                        self.reader.index.prefix, entry.shard, self.reader.index.header.num_shards
                    )
                    yield Finding("warning", "overlap", message, part.spec.key, path, entry.offset)
            if previous is None or _end(part) >= _end(previous) or previous.entry.shard != entry.shard:
                previous = part


def _end(part: _Part) -> int:
    return part.entry.offset + part.entry.size


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
    left = dict(structure.parts_of)
    lost = structure.lost
    for checked in _in_order(partial(_checksums, reader), _batches(structure.parts), jobs):
        findings = []
        tensors = nbytes = 0
        for (entry, spec), crc in checked:
            nbytes += entry.size
            left[spec.key] -= 1
            try:
                if isinstance(crc, CheckpointError):
                    raise crc
                reader.check_crc(spec.key, entry, crc)
            except CheckpointError as error:
                lost.add(spec.key)
                findings.append(
                    Finding("error", error.code, error.message, spec.key, error.path, error.offset)
                )
            if not left[spec.key] and spec.key not in lost:
                tensors += 1
        yield Verification(nbytes, tensors, tuple(findings))


def _batches(parts: list[_Part]) -> Iterator[list[_Part]]:
    """Yield parts one by one, or together where they are fixed-width neighbours within one piece."""
    batch: list[_Part] = []
    for part in parts:
        entry = part.entry
        if batch:
            first = batch[0].entry
            joined = entry.offset + entry.size - first.offset
            if entry.shard != first.shard or joined > PIECE or part.spec.dtype.itemsize is None:
                yield batch
                batch = []
        batch.append(part)
        if entry.size > PIECE or part.spec.dtype.itemsize is None:
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


def _checksums(reader: BundleReader, batch: list[_Part]) -> list[tuple[_Part, int | CheckpointError]]:
    """Return the unmasked checksum of each part, or the error that reading it met."""
    first = batch[0].entry
    if len(batch) > 1:
        size = max(_end(part) for part in batch) - first.offset
        try:
            data = reader.read_bytes(first.shard, first.offset, size)
        except CheckpointError as error:
            return [(part, error) for part in batch]
        starts = (part.entry.offset - first.offset for part in batch)
        return [
            (part, crc32c(data[start : start + part.entry.size]))
            for part, start in zip(batch, starts, strict=True)
        ]
    part = batch[0]
    entry, spec = part

    def read(offset: int, size: int) -> bytes:
        return reader.read_bytes(entry.shard, entry.offset + offset, size)

    try:
        crc = payload.checksum(read, spec.dtype, spec.size, entry.size, big_endian=reader.index.big_endian)
    except CheckpointError as error:
        return [(part, error)]
    except ValueError as error:
        return [(part, reader.corrupt(spec.key, entry, str(error), "tensor-checksum"))]
    return [(part, crc)]


def _object_graph(reader: BundleReader) -> Iterator[Finding]:
    """Yield what is wrong with the object graph, or with there being none."""
    known = len(reader.findings)
    graph = reader.object_graph
    if graph is not None:
        for flaw in graph.flaws(reader.specs):
            yield Finding(flaw.severity, flaw.code, flaw.message, flaw.key, reader.index.path)
        return
    # A graph whose bytes are damaged has been found so already; one that cannot be decoded is found here.
    yield from (finding for finding in reader.findings[known:] if finding.code.startswith("graph"))
    if reader.format.name == "tf-name" and any(map(looks_object_based, reader.specs)):
        message = (
            "keys of an object-based checkpoint, but no object graph: TensorFlow restores nothing by them"
        )
        yield Finding("error", "graph-decode", message, None, reader.index.path)
