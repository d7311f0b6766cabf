"""Writing a bundle: tensors into data shards as they come, the index at the end.

Data are stored in the order in which they are written, as TensorFlow does. A shard is full when the next
tensor would exceed the shard size. A tensor is split only at given extents, and each slice then counts as a
tensor. Chunks are checksummed and written as they pass, so memory does not grow with a tensor.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from ...core.chunks import PIECE, ChunkSource, view_of
from ...core.dtypes import STRING, VARIANT
from ...core.region import region_of, tiling_flaw, volume
from ...core.spec import TensorSpec, key_bytes
from ...errors import CheckpointNotFoundError, ConversionError, DuplicateKeyError
from ...model.checkpoint_files import CheckpointLocation, bundle, bundle_prefix, data_shards
from ...model.object_keys import GRAPH_KEY
from ...model.writer import FormatWriter, Placement, bounded, check_text
from ...store.local.refusals import refusing
from ...store.local.removing import scratch_file
from ...store.local.staged_file import StagedFile
from ...store.local.staging import Staging, remove_files
from ...store.remote.upload_journal import SentObject
from ...wire.coding import encode_fixed32, encode_varint
from ...wire.crc32c import extend, mask
from ...wire.messages import BundleHeaderProto, VersionDef
from .index import (
    BUNDLE_DTYPES,
    OBJECT_GRAPH_KEY,
    BundleEntry,
    BundleIndex,
    data_shard,
    encode_entry,
    refuse_shape,
)
from .links import followed_prefix
from .payload import length_bytes
from .shards import ELSEWHERE, ShardTransfer
from .slices import slice_key
from .staged import SentBundle, StagedBundle
from .tiling import scatter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ...core.chunks import Chunk
    from ...core.region import Extents, Region
    from ...location import Location
    from ...model.reader import Format, FormatReader
    from ...model.writer import WriteTarget
    from ...store.ranges import Sum
    from ...store.remote.upload import DelegatedUpload, Upload
    from ...store.remote.upload_journal import UploadJournal


_ShardRange = tuple[int, int, int]
"""A shard's number, an offset there, bytes."""

PRODUCER = 1
LISTED = "and TensorFlow can neither list nor restore such a checkpoint"
"""Why `check_text` refuses a key here."""

_MOST_IN_MEMORY = 16 * PIECE
"""Bytes of strings that wait in memory for all lengths to be known; more wait in a file."""

_RECENT = frozenset(
    ["float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int2", "uint2", "float4_e2m1fn"]
)
"""dtypes that TensorFlow 2.21 has and 2.15 has not, which ends the process that reads one."""

_NOT_JOINED = BUNDLE_DTYPES - {
    *("float32", "float64", "bfloat16", "complex64", "complex128", "bool", "int4", "int8", "int16", "int32"),
    *("int64", "uint4", "uint8", "qint8", "quint8", "qint32"),
}
"""dtypes whose slices TensorFlow can write, and then not put together again."""


def bundle_target(target: WriteTarget) -> WriteTarget:
    """Return a target whose path is the bundle's prefix, for any of its files."""
    prefix = bundle_prefix(target.path)
    if not os.path.basename(prefix) or prefix.is_folder():
        hint = f"name the checkpoint, for example {os.path.join(prefix, 'ckpt-1')}"
        message = (
            "this is a directory, but a TensorFlow checkpoint is named by the common prefix of its files"
        )
        raise ConversionError(message, path=target.path, hints=(hint,))
    return target._replace(path=prefix)


class BundleWriter(FormatWriter):
    """Writes a bundle, object-based or name-based; what the keys mean is not its business."""

    has_shards = True
    has_slices = True
    is_resumable = True

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        _check_keys(target)
        self._named = target.path
        self._first_shards: dict[str, int] = {}
        self._filling: list[StagedFile | Upload] = []
        self._starts_shard = False
        self._open_places: Counter[StagedFile | Upload] = Counter()
        self._delegated: dict[
            tuple[str, Extents | None], tuple[TensorSpec, DelegatedUpload, _ShardRange]
        ] = {}
        super().__init__(format, bounded(target))
        self.notes += _notes(target)

    def _start(self) -> None:
        header = BundleHeaderProto(version=VersionDef(producer=PRODUCER))
        self._bundle: StagedBundle | SentBundle
        if isinstance(self.staging, Staging):
            self._bundle = StagedBundle(self.staging, self._named, header)
        else:
            journal = cast("UploadJournal | None", self.target.journal)
            self._bundle = SentBundle(self.staging, header, _planned_shards(self.target), journal)

    @classmethod
    def followed(cls, path: Location) -> Location:
        return followed_prefix(path)

    @classmethod
    def existing(cls, path: Location) -> list[Location]:
        named = [name for name in (path + ".index", path) if name.is_file() or name.is_link()]
        return named + data_shards(path)

    @classmethod
    def location(cls, path: Location) -> CheckpointLocation:
        return bundle(path)

    def _shard(self, size: int) -> tuple[int, StagedFile | Upload]:
        """Return the number and the file of the shard that takes the next `size` bytes."""
        limit = self.target.shard_size
        last = self._bundle.last_shard
        full = limit is not None and last is not None and 0 < last.size > limit - size
        starts = self._starts_shard and limit is None
        if last is None or ((full or starts) and self._bundle.has_room):
            self._starts_shard = False
            last = self._bundle.add_shard()
            self._filling.append(last)
        return self._bundle.num_shards - 1, last

    def share(self, path: Location, ways: Sequence[str]) -> tuple[int, ShardTransfer]:
        """Let a whole file be a data shard; return its number, and how it came, if any way works.

        `ways` are those of `formats.tf.bundle.shards`. The next write begins a new shard.
        """
        if not isinstance(self._bundle, StagedBundle):
            return 0, ShardTransfer(None, ELSEWHERE)
        transfers = self._bundle.share(path, ways)
        return self._bundle.num_shards - 1, transfers

    def refer(  # noqa: PLR0917  a name, and the place in the order of the index
        self, key: str, extents: Extents | None, shard: int, offset: int, size: int, crc32c: int
    ) -> None:
        """Place a tensor, or slice, in a shared shard; it takes the tensor's turn, as `write` does.

        The masked checksum is that of its bytes there.
        """
        spec = self._begin(key) if extents is None else self._begin_slice(key, extents)
        self._add(spec, extents, (shard, offset, size), crc32c)
        self._end(key, extents)

    def index_flaw(self) -> str | None:
        """Return how the index that is written differs from what it is to say; None if it does not."""
        assert isinstance(self._bundle, StagedBundle)
        return self._bundle.index_flaw(self._bundle.num_shards)

    def start_shard(self) -> None:
        self._starts_shard = self._bundle.num_shards > 0

    def _close_full_shards(self) -> None:
        """Close all shards but the last, so that there may be more of them than open files."""
        full = [file for file in self._filling[:-1] if not self._open_places[file]]
        for file in full:
            file.close()
            self._filling.remove(file)

    def _add(self, spec: TensorSpec, extents: Extents | None, place: _ShardRange, crc32c: int) -> None:
        """Add the entry of a tensor, or slice, with this placement and masked checksum."""
        key = key_bytes(spec.key)
        stored = key if extents is None else slice_key(key, extents)
        if isinstance(self._bundle, SentBundle):
            self._bundle.add_row(place, crc32c)
        if extents is not None:
            self._first_shards[spec.key] = min(place[0], self._first_shards.get(spec.key, place[0]))
        self._bundle.entries[stored] = encode_entry(BundleEntry(spec.dtype, spec.shape, *place, crc32c))

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:
        if spec.dtype is STRING:
            place, crc = self._write_strings(chunks)
        elif spec.dtype is VARIANT:
            place, crc = self._write_variants(spec.stored or 0, chunks)
        else:
            size = spec.nbytes
            assert size is not None
            shard, file = self._shard(size)
            place = (shard, file.size, size)
            crc = 0
            for chunk in chunks:
                crc = extend(crc, chunk)
                file.write(chunk)
        self._add(spec, extents, place, mask(crc))
        self._close_full_shards()

    def was_sent(self, key: str, extents: Extents | None = None) -> bool:
        is_cut = extents is None and key in self.target.slices
        size = self.specs[key].nbytes
        if self.target.is_local or self.target.journal is None or is_cut or size is None:
            return False
        spec = self._begin(key) if extents is None else self._begin_slice(key, extents)
        shard, file = self._shard(spec.nbytes or 0)
        if not isinstance(file, SentObject) or spec.dtype.itemsize is None:
            return False
        row = file.next_row
        if row is None or row[:2] != (file.size, spec.nbytes):
            return False  # what is written then says so
        file.skip(row[1])
        self._add(spec, extents, (shard, row[0], row[1]), row[2])
        self._end(key, extents)
        self._close_full_shards()
        return True

    def _place(self, spec: TensorSpec) -> Placement | None:
        size = spec.nbytes
        if spec.dtype.itemsize is None or size is None:
            return None
        _, file = self._shard(size)
        assert isinstance(file, StagedFile)
        self._open_places[file] += 1
        return Placement(file, file.reserve(size))

    def _filled(self, spec: TensorSpec, place: Placement, extents: Extents | None, found: Sum) -> None:
        assert isinstance(self._bundle, StagedBundle)
        shard = self._bundle.number_of(place.file)
        self._add(spec, extents, (shard, place.offset, spec.nbytes or 0), mask(found.crc))
        self._open_places[place.file] -= 1
        self._close_full_shards()

    def write_summed(
        self, key: str, extents: Extents | None, chunks: Iterable[Chunk], crc: Callable[[], int]
    ) -> None:
        """Write a tensor, or slice, of fixed width into an object, as `write` does; the caller computes the
        checksum.

        `crc` returns the unmasked checksum of all chunks, when they have passed.
        """
        spec = self._begin(key) if extents is None else self._begin_slice(key, extents)
        self._state = "interrupted"
        shard, file = self._shard(spec.nbytes or 0)
        place = (shard, file.size, spec.nbytes or 0)
        for chunk in chunks:
            file.write(chunk)
        self._add(spec, extents, place, mask(crc()))
        self._end(key, extents)
        self._close_full_shards()

    def delegate(self, key: str, extents: Extents | None = None) -> DelegatedUpload:
        """Reserve room in an object that another process sends, and return that; it takes the tensor's turn.

        `sent` is called when it was sent.
        """
        from ...store.remote.upload import DelegatedUpload

        spec = self._begin(key) if extents is None else self._begin_slice(key, extents)
        size = spec.nbytes or 0
        shard, file = self._shard(size)
        assert isinstance(file, DelegatedUpload)
        self._open_places[file] += 1
        self._delegated[key, extents] = spec, file, (shard, file.reserve(size), size)
        self._end(key, extents)
        return file

    def sent(self, key: str, extents: Extents | None, crc: int) -> None:
        """Take note that what was handed over is there, with bytes of this unmasked checksum."""
        spec, file, place = self._delegated.pop((key, extents))
        self._add(spec, extents, place, mask(crc))
        self._open_places[file] -= 1
        self._close_full_shards()

    def _write_strings(self, elements: Iterable[Chunk]) -> tuple[tuple[int, int, int], int]:
        """Write strings, after all lengths are known, because the lengths precede them."""
        lengths, crc = bytearray(), 0
        with (
            refusing(self.target.path),
            scratch_file(_MOST_IN_MEMORY, self.staging.staged) as waiting,
        ):
            for element in elements:
                lengths += encode_varint(len(element))
                crc = extend(crc, length_bytes(len(element), "<"))
                waiting.write(view_of(element))
            checksum = encode_fixed32(mask(crc))
            size = len(lengths) + len(checksum) + waiting.tell()
            shard, file = self._shard(size)
            place = (shard, file.size, size)
            crc = extend(crc, checksum)
            file.write(bytes(lengths) + checksum)
            waiting.seek(0)
            while piece := waiting.read(PIECE):
                crc = extend(crc, piece)
                file.write(piece)
        return place, crc

    def _write_variants(self, expected: int, elements: Iterable[Chunk]) -> tuple[tuple[int, int, int], int]:
        """Write variants, each with the checksum so far behind it."""
        shard, file = self._shard(expected)
        offset, crc = file.size, 0
        for element in elements:
            # Of strings the checksum covers 4-byte lengths, of variants 8-byte ones.
            crc = extend(extend(crc, len(element).to_bytes(8, "little")), element)
            checksum = encode_fixed32(mask(crc))
            crc = extend(crc, checksum)
            for part in (encode_varint(len(element)), element, checksum):
                file.write(part)
        return (shard, offset, file.size - offset), crc

    def _write_in_slices(self, spec: TensorSpec, slices: Sequence[Extents], chunks: Iterator[Chunk]) -> None:
        regions = [region_of(extents, spec.shape) for extents in slices]
        itemsize = spec.dtype.itemsize
        if itemsize is None or tiling_flaw(regions, spec.shape):
            raise ValueError(f"tensor {spec.key!r}: write its slices one by one")
        sizes = [volume(region) * itemsize for region in regions]
        if isinstance(self.staging, Staging):
            places, crcs = self._fill_slices(spec, regions, sizes, chunks)
        else:
            places, crcs = self._send_slices(spec, regions, sizes, chunks)
        for extents, region, place, crc in zip(slices, regions, places, crcs, strict=True):
            piece = spec._replace(shape=tuple(stop - start for start, stop in region))
            self._add(piece, extents, place, mask(crc))
        self._close_full_shards()

    def _fill_slices(
        self, spec: TensorSpec, regions: Sequence[Region], sizes: Sequence[int], chunks: Iterator[Chunk]
    ) -> tuple[list[_ShardRange], list[int]]:
        """Write slices side by side at places of the shards; return the places, and checksums."""
        files, places = [], []
        for size in sizes:
            shard, file = self._shard(size)
            assert isinstance(file, StagedFile)
            files.append(file)
            places.append((shard, file.reserve(size), size))
        crcs, done = [0] * len(regions), [0] * len(regions)
        source = ChunkSource(chunks)
        for number, data in scatter(spec.shape, regions, spec.dtype.itemsize or 0, source.take):
            crcs[number] = extend(crcs[number], data)
            files[number].write_at(places[number][1] + done[number], data)
            done[number] += len(data)
        source.finish()
        return places, crcs

    def _send_slices(
        self, spec: TensorSpec, regions: Sequence[Region], sizes: Sequence[int], chunks: Iterator[Chunk]
    ) -> tuple[list[_ShardRange], list[int]]:
        """Have slices wait on this machine until the tensor is through, then send one after the other."""
        assert not isinstance(self.staging, Staging)
        waiting = self.staging.scratch("slices")
        starts = [waiting.reserve(size) for size in sizes]
        done = list(starts)
        source = ChunkSource(chunks)
        for number, data in scatter(spec.shape, regions, spec.dtype.itemsize or 0, source.take):
            waiting.write_at(done[number], data)
            done[number] += len(data)
        source.finish()
        waiting.close()
        places, crcs = [], []
        with refusing(self.target.path), open(waiting.path, "rb") as file:
            for size in sizes:
                shard, upload = self._shard(size)
                places.append((shard, upload.size, size))
                crc = 0
                for at in range(0, size, PIECE):
                    piece = file.read(min(PIECE, size - at))
                    crc = extend(crc, piece)
                    upload.write(piece)
                crcs.append(crc)
        os.unlink(waiting.path)
        return places, crcs

    def write_object_graph(self) -> None:
        if self.target.object_graph is not None and OBJECT_GRAPH_KEY not in self._bundle.entries:
            graph = TensorSpec(GRAPH_KEY, STRING, ())
            self._write(graph, None, iter([self.target.object_graph.encode()]))

    def _finish(self) -> None:
        assert not self._delegated
        self.write_object_graph()
        for key, slices in self.target.slices.items():
            spec = self.specs[key]
            # An empty tensor has no bytes there, but bundles merged by TensorFlow have the same entry.
            shard = self._first_shards.get(key, 0)
            whole = BundleEntry(spec.dtype, spec.shape, shard, 0, 0, 0, tuple(slices))
            self._bundle.entries[key_bytes(key)] = encode_entry(whole)
        if not self._bundle.num_shards:
            self._bundle.add_shard()
        self._bundle.finish()

    def _move_in(self) -> None:
        self._bundle.move_in()

    def is_described_by(self, found: FormatReader) -> bool:
        limit = self.target.shard_size
        return super().is_described_by(found) and (
            limit is None or _is_cut(BundleIndex(self.target.path), limit)
        )

    def tidy(self) -> None:
        path = self.target.path
        count = BundleIndex(path).header.num_shards
        own = {data_shard(path, shard, count) for shard in range(count)}
        remove_files(sorted(set(data_shards(path)) - own), path)


def _planned_shards(target: WriteTarget) -> int:
    """Return how many shards take all tensors in their order, as far as their sizes are known.

    Raises CheckpointError if there may be shards whose names cannot be listed.
    """
    if target.overwrite:
        with suppress(CheckpointNotFoundError):
            target.path.parent.listing()
    sizes = []
    for spec in target.specs:
        regions = [region_of(extents, spec.shape) for extents in target.slices.get(spec.key, ())]
        sizes += [volume(region) * (spec.dtype.itemsize or 0) for region in regions] or [spec.nbytes or 0]
    if target.object_graph is not None:
        sizes.append(len(target.object_graph.encode()))
    count, filled = 1, 0
    for size in sizes:
        if 0 < filled > (target.shard_size or 0) - size:
            count, filled = count + 1, 0
        filled += size
    return count


def _is_cut(index: BundleIndex, limit: int) -> bool:
    """Whether shards begin where the next tensor would carry the last past its size, and nowhere else."""
    entries = map(index.entry, range(len(index.values)))
    shard = filled = 0
    for found, _, size in sorted(
        (entry.shard, entry.offset, entry.size) for entry in entries if not entry.slices
    ):
        is_full = 0 < filled > limit - size
        if found != shard + is_full:
            return False
        shard, filled = found, size if is_full else filled + size
    return shard + 1 == index.header.num_shards


def _check_keys(target: WriteTarget) -> None:
    """Refuse what cannot be a key of the index, and what would be twice."""
    keys: set[bytes] = set()
    for spec in target.specs:
        key = key_bytes(spec.key)
        slices = target.slices.get(spec.key, ())
        refuse_shape(target.path, spec)
        for extents in slices:
            try:
                region_of(extents, spec.shape)
            except ValueError as error:
                raise ConversionError(str(error), path=target.path, key=spec.key) from error
        for stored in (key, *(slice_key(key, extents) for extents in slices)):
            if not stored:
                message = "the key is empty; TensorFlow reserves the empty key for the header"
                raise ConversionError(message, path=target.path, key="")
            if stored in keys:
                message = "two entries of the index have this key"
                raise DuplicateKeyError(message, path=target.path, key=spec.key)
            keys.add(stored)
    for spec in target.specs:  # a slice's own key is not, and equal keys are reported as duplicates
        check_text(target.path, spec.key, LISTED)


def _notes(target: WriteTarget) -> list[str]:
    """Return what TensorFlow will make difficulties with."""
    notes = []
    recent = sorted({spec.dtype.name for spec in target.specs} & _RECENT)
    if recent:
        notes.append(f"TensorFlow 2.15 crashes when it reads {', '.join(recent)}; 2.21 reads it")
    split = sorted({s.dtype.name for s in target.specs if s.key in target.slices} & _NOT_JOINED)
    if split:
        notes.append(
            f"TensorFlow cannot restore slices of {', '.join(split)}; to join them, pass --merge-slices"
        )
    if set(os.path.basename(target.path)) & set("*?[]"):
        notes.append(f"{target.path}: TensorFlow treats this prefix as a glob pattern and will not find it")
    return notes
