"""Reading the tensors of a bundle: whole, in slices, partitioned or not.

Data shards are opened when a tensor in them is read, and a bounded number stays open.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter, OrderedDict
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...core.chunks import PIECE
from ...core.dtypes import INVALID
from ...core.region import (
    Region,
    fill,
    full_index,
    index_shape,
    intersect,
    region_of,
    region_text,
    tiling_flaw,
    volume,
)
from ...core.slicing import allocate, keep_chunks, keep_region
from ...core.spec import SpecColumns, Stored, TensorSpec, key_bytes, spec_columns
from ...core.spec_table import new_tuple
from ...core.words import counted
from ...errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ...model.checkpoint_files import data_shards
from ...model.expansion import expansion_flaw
from ...model.facts import Nothing
from ...model.reader import FormatReader
from ...model.tensor import LazyTensor
from ...model.verification import Finding
from ...store.base import CLOSED
from ...store.ranges import FileRange, Sum
from ...store.readahead import ReadAhead
from ...store.work.workers import SERIAL, Workers
from ...wire.coding import encode_fixed32
from ...wire.crc32c import extend, spelled, unmask
from . import payload
from .index import BundleEntry, BundleIndex, EntryError, data_shard
from .slices import slice_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy as np

    from ...core.chunks import Chunk
    from ...core.region import Extents, Index
    from ...core.spec_table import SpecTable
    from ...location import Location
    from ...model.checkpoint_files import CheckpointLocation
    from ...model.facts import Facts
    from ...model.probe import Probe
    from ...model.verification import Verification
    from ...store.base import File
    from ...wire.messages import BundleHeaderProto
    from .small import SmallTensors


_MOST_OPEN_SHARDS = 64
"""With one range read ahead in each, they hold 16 MiB."""


_MANY_BLOCKS = 16
"""Blocks, 4 MiB as TensorFlow writes them, of an index that is worth the import of numpy to be listed."""


_BATCH = 1 << 12
"""Entries whose places are worth the import of numpy."""


class BundleTensor(LazyTensor):
    """One tensor of a bundle."""

    __slots__ = ("_entry", "_position", "_reader")

    def __init__(self, reader: BundleReader, spec: TensorSpec, position: int) -> None:
        self.spec = spec
        self._reader = reader
        self._position = position
        self._entry: BundleEntry | None = None

    @property
    def entry(self) -> BundleEntry:
        if self._entry is not None:
            return self._entry
        entry = self._reader.entry(self.spec.key, self._position)
        if entry.slices:  # any other is decoded in no time, and would be kept for each of a million tensors
            self._entry = entry
        return entry

    @property
    def stored(self) -> Stored:
        entry = self.entry
        if entry.slices:
            return Stored()
        return Stored(entry.shard, entry.offset, entry.crc32c, self._reader.index.big_endian)

    def read(self) -> np.ndarray[Any, Any]:
        reader, spec = self._reader, self.spec
        if spec.dtype.itemsize is None:
            return self._read_elements(full_index(spec.shape))
        small = reader.small.read(spec, self._position)
        return self._read_whole() if small is None else small

    def _read_whole(self) -> np.ndarray[Any, Any]:
        """Return a tensor of fixed width, of any size. Raises the error that describes its damage."""
        reader, spec, entry = self._reader, self.spec, self.entry
        if entry.slices:
            return self._assemble(full_index(spec.shape))
        reader.check_size(spec, entry)
        values = reader.data_range(spec.key, entry).array(spec)
        return payload.decode_numbers(values, big_endian=reader.index.big_endian)

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        if self.spec.dtype.itemsize is None:
            return self._read_elements(index)
        if index == full_index(self.spec.shape):
            return self.read()
        if self.entry.slices:
            return self._assemble(index)
        self._reader.check_size(self.spec, self.entry)
        return keep_region(self.spec, self.chunks(), index, self._reader.index.path)

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        # Strings are checked before the first is returned, and slices, if some are missing, as they are read.
        if self.spec.dtype.itemsize is None or not self._is_complete():
            return super().region_chunks(index, max_bytes)
        return keep_chunks(self.spec, self.chunks(), index, max_bytes)

    def _is_complete(self) -> bool:
        slices = self.entry.slices
        return not slices or self._reader.covered(self.spec, self.entry) == self.spec.size

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        from .stream import stream_elements, stream_numbers

        if self.spec.dtype.itemsize is not None:
            return stream_numbers(self._reader, self.spec, self.entry, max_bytes)
        if self.entry.slices:
            return iter(self.read().reshape(-1))
        return stream_elements(self._reader, self.spec, self.entry)

    def file_range(self) -> FileRange | None:
        itemsize, entry = self.spec.dtype.itemsize, self.entry
        if itemsize is None or entry.slices or (self._reader.index.big_endian and itemsize > 1):
            return None
        self._reader.check_size(self.spec, entry)
        return self._reader.data_range(self.spec.key, entry)

    def shard_range(self) -> FileRange | None:
        entry = self.entry
        if entry.slices or (self._reader.index.big_endian and self.spec.dtype.itemsize != 1):
            return None
        self._reader.check_size(self.spec, entry)
        return self._reader.data_range(self.spec.key, entry)

    def known_digest(self, algorithm: str) -> str | None:
        itemsize, entry = self.spec.dtype.itemsize, self.entry
        if algorithm != "crc32c" or itemsize is None or entry.slices:
            return None
        return None if self._reader.index.big_endian else spelled("crc32c", unmask(entry.crc32c))

    def index_digest(self) -> str:
        entry = self.entry
        if not entry.slices:
            return self.known_digest("crc32c") or spelled("stored", entry.crc32c)
        sums = ((slice_key(key_bytes(self.spec.key), extents), extents) for extents in entry.slices)
        crc = 0
        for key, extents in sorted(sums):
            position = self._reader.index.slice_entries.get(key)
            if position is None:
                message = f"the index has no entry for its slice {extents}"
                raise self._reader.corrupt(self.spec.key, entry, message, "slice")
            stored = self._reader.entry(self.spec.key, position).crc32c
            crc = extend(extend(crc, key), encode_fixed32(stored))
        return spelled("slices", crc)

    def pieces(self) -> list[tuple[Extents, LazyTensor]]:
        if self._reader.index.is_plain(self._position):
            return []
        entry = self.entry
        if not entry.slices:
            return []
        pieces = self._reader.pieces(self.spec, entry)
        return [(extents, piece) for extents, (_, piece) in zip(entry.slices, pieces, strict=True)]

    def _read_bytes(self, offset: int, size: int) -> bytes:
        entry = self.entry
        return self._reader.read_bytes(entry.shard, entry.offset + offset, size)

    def _read_elements(self, index: Index) -> np.ndarray[Any, Any]:
        """Return strings or variants, whose checksum is that of the whole tensor."""
        import numpy as np

        spec, entry, big_endian = self.spec, self.entry, self._reader.index.big_endian
        if entry.slices:
            return self._assemble(index)
        self._reader.check_size(spec, entry)
        try:
            crc = payload.checksum(self._read_bytes, spec.dtype, spec.size, entry.size, big_endian=big_endian)
            places = payload.elements(
                self._read_bytes, spec.dtype, spec.size, entry.size, big_endian=big_endian
            )
        except ValueError as error:
            raise self._reader.corrupt(spec.key, entry, str(error), "tensor-checksum") from error
        self._reader.check_crc(spec.key, entry, crc)
        out = allocate(self.spec, index_shape(index), self._reader.index.path)
        chosen = np.arange(spec.size).reshape(allocate(self.spec, spec.shape, self._reader.index.path).shape)[
            index
        ]
        for at, number in np.ndenumerate(chosen):
            out[at] = self._read_bytes(*places[number])
        return out

    def _assemble(self, index: Index) -> np.ndarray[Any, Any]:
        """Return a part of a partitioned tensor, from the pieces that hold some of it."""
        self._reader.check_size(self.spec, self.entry)
        pieces = self._reader.pieces(self.spec, self.entry)
        wanted = tuple((part.start, part.stop) for part in index)
        needed = [(region, piece) for region, piece in pieces if intersect(region, wanted) is not None]
        for _, piece in needed:
            self._reader.check_size(piece.spec, piece.entry)
        out = allocate(self.spec, index_shape(index), self._reader.index.path)
        filled = fill(out, index, ((region, piece.read_region) for region, piece in needed))
        if filled != out.size:
            message = f"its slices contain only {filled} of the {out.size} requested elements"
            raise self._reader.corrupt(self.spec.key, self.entry, message, "slice")
        return out


class BundleReader(FormatReader):
    """A bundle, object-based or name-based; what the keys mean is the subclass's."""

    def __init__(self, probe: Probe, *, lenient: bool = False) -> None:
        self._lenient = lenient
        self._table = probe.table
        self._begin(probe.location, [])

    def begin(self, location: CheckpointLocation, index: BundleIndex) -> None:
        """Take an index, which need not be that of a file."""
        self.index = index
        self._begin(location, index.findings)

    def _begin(self, location: CheckpointLocation, findings: list[Finding]) -> None:
        self.location = location
        self.findings = findings
        self._unread_facts: list[Finding] = []
        self.open_shards: OrderedDict[int, ReadAhead] = OrderedDict()
        self._copies: Mapping[int, Location] = {}
        self._expansions: dict[tuple[int, int], str | None] = {}
        self._lock = threading.Lock()
        self._closed = False

    @cached_property
    def index(self) -> BundleIndex:
        """The index, which is read at its first use; `load` uses it."""
        table, self._table = self._table, None  # it holds the file's bytes
        self.findings.clear()  # the columns' findings are found again
        return BundleIndex(self.location.path, lenient=self._lenient, table=table, findings=self.findings)

    @cached_property
    def header(self) -> BundleHeaderProto:
        return self.index.header

    def load(self) -> None:
        self.index  # noqa: B018

    @cached_property
    def facts(self) -> Facts:
        from .producer import producer_of
        from .saved_model import read_saved_model, saved_model_folder

        prefix = self.location.path
        folder = saved_model_folder(prefix)
        if folder is None:
            return producer_of(prefix)
        try:
            return read_saved_model(folder)
        except CheckpointError as error:
            self._unread_facts.append(Finding.of(error))
            self.findings += self._unread_facts
            return Nothing()

    def facts_findings(self) -> Sequence[Finding]:
        self.facts  # noqa: B018  reads what there is
        return self._unread_facts

    @cached_property
    def specs(self) -> SpecTable:
        return self.index.specs()

    @property
    def is_long(self) -> bool:
        if "index" in self.__dict__ or self._lenient or self._table is None:
            return False
        return len(self._table.index) >= _MANY_BLOCKS

    def columns(self) -> Iterator[SpecColumns]:
        table = self._table
        if not self.is_long or table is None:
            yield self.specs.rows.columns
            return
        from .columns import IndexColumns, NoChecksumsError  # which need numpy

        yielded, listed = 0, IndexColumns(table, self.findings)
        try:
            for block in listed.blocks():
                self.header = listed.header
                yield block
                yielded += len(block.keys)
        except NoChecksumsError:
            positions = zip(self.index.positions, self.specs.rows, strict=True)
            yield spec_columns((spec for position, spec in positions if position >= yielded), listed.specs)

    @cached_property
    def small(self) -> SmallTensors:
        from .small import SmallTensors  # needs numpy, which a listing does not

        return SmallTensors(self.index, self.open_shards)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each key: a reader of values looks up a hundred thousand in a row."""
        return {key: number for number, key in enumerate(self.specs)}

    @cached_property
    def _columns(self) -> tuple[Sequence[int], list[TensorSpec], Sequence[int]]:
        """For each tensor the number of its spec, those specs, and the position of its entry."""
        columns = self.specs.rows.columns
        return columns.numbers, columns.specs, self.index.positions

    def __getitem__(self, key: str) -> LazyTensor:
        # As any reader does it, but a key is looked up once, not three times, and what it needs is at hand.
        number = self._numbers.get(key)
        if number is None:
            return super().__getitem__(key)
        numbers, specs, positions = self._columns
        shared = specs[numbers[number]]
        if shared.dtype is INVALID:
            return super().__getitem__(key)
        return BundleTensor(self, new_tuple(TensorSpec, (key, *shared[1:])), positions[number])

    def tensor(self, key: str) -> BundleTensor:
        return BundleTensor(self, self.specs[key], self.index.tensors[key])

    def places(self, keys: Iterable[str]) -> Iterator[Stored]:
        left = map(self.index.tensors.__getitem__, keys)
        while batch := list(islice(left, _BATCH)):
            if len(batch) == _BATCH:
                yield from self._many_places(batch)
            else:
                yield from map(self._place_at, batch)

    def _many_places(self, positions: list[int]) -> Iterator[Stored]:
        """Yield the places of many entries, which are decoded together."""
        from .small import plain_places  # which needs numpy

        values, big_endian = self.index.values, self.index.big_endian
        found = plain_places([values[position] for position in positions])
        for position, (shard, offset, checksum) in zip(positions, found, strict=True):
            is_plain = shard >= 0
            yield Stored(shard, offset, checksum, big_endian) if is_plain else self._place_at(position)

    def _place_at(self, position: int) -> Stored:
        entry = self.index.entry_or_none(position)
        if entry is None or entry.slices:
            return Stored()
        return Stored(entry.shard, entry.offset, entry.crc32c, self.index.big_endian)

    def entry(self, key: str, position: int) -> BundleEntry:
        """Return the entry at a position of the index, as `CorruptCheckpointError` if it is not one."""
        try:
            return self.index.entry(position)
        except EntryError as flaw:
            place = self.index.place(position)
            raise CorruptCheckpointError(
                str(flaw), path=self.index.path, key=key, offset=place, code=flaw.code
            ) from flaw

    def pieces(self, spec: TensorSpec, entry: BundleEntry) -> list[tuple[Region, BundleTensor]]:
        """Return the pieces of a partitioned tensor and what each covers.

        Raises CorruptCheckpointError if a piece is missing or does not fit, and where pieces overlap.
        """
        out = []
        for extents in entry.slices:
            key = slice_key(key_bytes(spec.key), extents)
            try:
                region = region_of(extents, spec.shape)
            except ValueError as error:
                raise self.corrupt(spec.key, entry, str(error), "slice") from error
            position = self.index.slice_entries.get(key)
            if position is None:
                message = f"the index has no entry for its slice {region_text(region)}"
                raise self.corrupt(spec.key, entry, message, "slice")
            shape = tuple(stop - start for start, stop in region)
            piece_spec = TensorSpec(spec.key, spec.dtype, shape)
            piece = BundleTensor(self, piece_spec, position)
            if piece.entry.slices:
                message = f"its slice {region_text(region)} is itself split into slices"
                raise self.corrupt(spec.key, entry, message, "slice")
            if piece.entry.dtype is not spec.dtype:
                message = f"its slice {region_text(region)} is {piece.entry.dtype}; expected {spec.dtype}"
                raise self.corrupt(spec.key, piece.entry, message, "slice")
            out.append((region, BundleTensor(self, piece_spec._replace(stored=piece.entry.size), position)))
        regions = [region for region, _ in out]
        try:
            overlap = tiling_flaw(regions, spec.shape) == "overlap"
        except ValueError as error:
            raise UnsupportedFeatureError(
                str(error), path=self.index.path, key=spec.key, code="slice"
            ) from error
        if overlap:
            raise self.corrupt(spec.key, entry, "its slices overlap", "slice")
        return out

    def covered(self, spec: TensorSpec, entry: BundleEntry) -> int:
        """Return how many elements the pieces of a partitioned tensor hold."""
        return sum(volume(region) for region, _ in self.pieces(spec, entry))

    def shard(self, shard: int, key: str | None = None) -> File:
        """Return an open data shard; `key` is the tensor that an error is to name."""
        with self._lock:
            return self._open_shard(shard, key).file

    def _open_shard(self, shard: int, key: str | None) -> ReadAhead:
        ahead = self.open_shards.get(shard)
        if ahead is None:
            if self._closed:
                raise CheckpointError(CLOSED, path=self.location.path, key=key)
            num_shards = self.index.header.num_shards
            if not 0 <= shard < num_shards:
                message = (
                    f"the entry names shard {shard}, but the header declares {counted(num_shards, 'shard')}"
                )
                place = self.index.place(self.index.tensors[key]) if key is not None else None
                raise CorruptCheckpointError(
                    message, path=self.index.path, key=key, offset=place, code="entry"
                )
            try:
                path, copy = data_shard(self.index.prefix, shard, num_shards), self._copies.get(shard)
                file = path.open()
                if copy is not None:
                    from .shards import ComparedFile

                    file = ComparedFile(file, copy.open())
                ahead = ReadAhead(file)
            except CheckpointError as error:
                error.key = key
                raise
            self._check_expansion(shard, file, key)
            if len(self.open_shards) >= _MOST_OPEN_SHARDS:
                # Another thread may still read from it; it is closed after the last read.
                self.open_shards.popitem(last=False)
            self.open_shards[shard] = ahead
        return ahead

    def _check_expansion(self, shard: int, file: File, key: str | None) -> None:
        """Reject a shard whose entries share the same bytes too often to be read in reasonable time."""
        known = (shard, file.size)
        if known not in self._expansions:  # every tensor asks
            self._expansions[known] = self._expansion_of(shard, file.size)
        flaw = self._expansions[known]
        if flaw is not None:
            file.close()
            raise UnsupportedFeatureError(flaw, path=file.path, key=key, code="tensor-size")

    def _expansion_of(self, shard: int, stored: int) -> str | None:
        """Return what is wrong with the sizes of a shard's entries, compared with its `stored` bytes."""
        if expansion_flaw(self._nbytes, stored) is None:
            return None
        ranges = zip(*self._entry_ranges.get(shard, ((), ())), strict=True)
        return expansion_flaw(sum(size for offset, size in ranges if offset + size <= stored), stored)

    @cached_property
    def _nbytes(self) -> int:
        """The size of all tensors in bytes, over all shards."""
        _, numbers, specs, _ = self.specs.rows.columns
        return sum(count * (specs[number].nbytes or 0) for number, count in Counter(numbers).items())

    @cached_property
    def _entry_ranges(self) -> dict[int, tuple[array[int], array[int]]]:
        """Offsets and sizes of all entries, by shard."""
        found: dict[int, tuple[array[int], array[int]]] = {}
        for position in range(len(self.index.values)):
            entry = self.index.entry_or_none(position)
            if entry is not None and not entry.slices:
                offsets, sizes = found.setdefault(entry.shard, (array("Q"), array("Q")))
                offsets.append(entry.offset)
                sizes.append(entry.size)
        return found

    @contextmanager
    def compared_with(self, copies: Mapping[int, Location]) -> Iterator[None]:
        """Read these shards, by number, together with copies of them in this block.

        CorruptCheckpointError is what reading raises then where a byte differs.
        """
        self._close_shards()
        self._copies = copies
        try:
            yield
        finally:
            self._copies = {}
            self._close_shards()

    def data_range(self, key: str, entry: BundleEntry) -> FileRange:
        """Return the range of an entry's bytes, with their stored checksum."""
        return FileRange(self.shard(entry.shard, key), entry.offset, entry.size, key, entry.crc32c)

    def expect(self, shard: int, offset: int, size: int) -> None:
        self.shard(shard).expect(offset, size)

    def read_bytes(self, shard: int, offset: int, size: int) -> bytes:
        return self.shard(shard).read_exactly(offset, size)

    def check_size(self, spec: TensorSpec, entry: BundleEntry) -> None:
        """Compare an entry's size with its shape and its shard before memory is allocated."""
        if entry.slices:
            elements_stored = self.covered(spec, entry)
            if elements_stored < spec.size and spec.size * (spec.dtype.itemsize or 1) > 64 * PIECE:
                message = f"its slices contain only {elements_stored} of its {spec.size} elements"
                raise self.corrupt(spec.key, entry, message, "slice")
            return
        itemsize = spec.dtype.itemsize
        if itemsize is not None and entry.size != spec.size * itemsize:
            expected = spec.size * itemsize
            message = (
                f"the tensor has {entry.size} stored bytes, but "
                f"{spec.dtype} of shape {list(spec.shape)} needs {expected}"
            )
            raise self.corrupt(spec.key, entry, message, "tensor-size")
        if itemsize is None and spec.size > entry.size:
            message = f"the tensor has {entry.size} stored bytes, which is too few for {spec.size} elements"
            raise self.corrupt(spec.key, entry, message, "tensor-size")
        file = self.shard(entry.shard, spec.key)
        if entry.offset + entry.size > file.size:
            message = (
                f"the tensor ends at byte {entry.offset + entry.size}, "
                f"but the shard has only {file.size} bytes"
            )
            raise CorruptCheckpointError(
                message, path=file.path, key=spec.key, offset=entry.offset, code="shard-short"
            )

    def check_crc(self, key: str, entry: BundleEntry, crc: int) -> None:
        self.data_range(key, entry).check(Sum(crc))

    def corrupt(self, key: str, entry: BundleEntry, message: str, code: str) -> CorruptCheckpointError:
        in_index = code in ("slice", "tensor-size")
        path, offset = self.entry_place(key) if in_index else self.data_place(key, entry)
        return CorruptCheckpointError(message, path=path, key=key, offset=offset, code=code)

    def entry_place(self, key: str) -> tuple[str, int | None]:
        """Return the index file and the offset of the block that holds a tensor's entry."""
        return self.index.path, self.index.place(self.index.tensors[key])

    def data_place(self, key: str, entry: BundleEntry) -> tuple[str, int | None]:
        """Return the data shard and the offset of a tensor's bytes; of one in slices, its entry's place."""
        if entry.slices:
            return self.entry_place(key)
        return data_shard(self.index.prefix, entry.shard, self.index.header.num_shards), entry.offset

    @property
    def is_index_alone(self) -> bool:
        return bool(self.specs) and not data_shards(self.location.path)

    def missing_files(self) -> Sequence[Location]:
        """Return the data shards that hold tensors and are missing.

        If the number of existing shards equals the header's count, none is missing, and no entry needs to be
        decoded.
        """
        prefix, count = self.location.path, self.header.num_shards
        there = set(data_shards(prefix))
        if sum(path.endswith(f"-of-{count:05d}") for path in there) >= count:
            return []
        entries = map(self.index.entry_or_none, range(len(self.index.values)))
        used = {entry.shard for entry in entries if entry and not entry.slices and entry.shard < count}
        expected = (data_shard(prefix, shard, count) for shard in sorted(used))
        return [path for path in expected if path not in there and path.is_missing()]

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        from .verify import verify_bundle

        return verify_bundle(self, workers)

    def close(self) -> None:
        self._closed = True
        self._close_shards()

    def _close_shards(self) -> None:
        with self._lock:
            for ahead in self.open_shards.values():
                ahead.file.close()
            self.open_shards.clear()
