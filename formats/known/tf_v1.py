"""tf-v1: the checkpoints of TensorFlow before 0.12, still written on request and read by every release.

    PREFIX, or PREFIX-SSSSS-of-NNNNN:   tables, each complete in itself
        ""                              SavedTensorSlices.meta: name, shape, dtype and slices of each tensor
        SLICE KEY                       SavedTensorSlices.data: one slice, values in a TensorProto

Metadata and data share the file. Every tensor is stored as slices; a tensor that is not partitioned is a
single slice of empty extents. A partitioned tensor's slices may be in different shards. Each shard lists
its own. Values are in the typed field of their dtype, packed: floats unchanged, integers as varints, halves
as varints of their bits. A block holds whole slices, so reading one takes the memory of a slice.

TensorFlow's Python reader refuses half and complex tensors and partitioned ones; its
restore operation does not, and neither does this.
tensorflow/core/util/{saved_tensor_slice.proto,tensor_slice_reader.cc,tensor_slice_writer.cc}
"""

from __future__ import annotations

import bisect
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core import dtypes
from ..core.dtypes import INVALID, STRING
from ..core.region import Extents, Region, fill, full_index, index_shape, region_of, tiling_flaw
from ..core.slicing import allocate
from ..core.spec import Stored, TensorSpec, key_bytes
from ..errors import SHARD_MISSING, CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..location import Location, looked_into
from ..model.foreign import CUT_OFF
from ..model.name_kinds import name_kinds
from ..model.reader import Family, Format, FormatReader
from ..model.tensor import LazyTensor
from ..model.verification import Finding, Verification
from ..store.siblings import V1_SHARD
from ..store.work.workers import SERIAL, Workers
from ..tf.bundle.index import EntryError, decode_shape, refusal_of
from ..tf.bundle.slices import extents_of, slice_key
from ..tf.v1.values import VALUE_FIELDS, decode_values
from ..wire.limits import KeySizes
from ..wire.messages import SavedSliceMeta, SavedTensorSlices, TensorSliceProto
from ..wire.sstable import Table, is_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np

    from ..core.region import Index
    from ..model.facts import Facts
    from ..model.probe import Probe
    from ..model.writer import FormatWriter, WriteTarget
    from ..store.base import File
    from ..wire.sstable import BlockHandle


class _Shard:
    """One file of a V1 checkpoint: its table, and slices by key."""

    def __init__(self, path: Location, open_table: Callable[[File], Table]) -> None:
        self.path = path
        match = V1_SHARD.fullmatch(path)
        self.number = int(match["shard"]) if match else 0
        self.file = path.open()
        self.table = open_table(self.file)
        self._last_keys = [last for last, _ in self.table.index]
        self._cached: tuple[int, dict[bytes, bytes]] = (-1, {})

    def meta(self) -> list[SavedSliceMeta]:
        """Return what the shard says of its tensors; CorruptCheckpointError if it does not."""
        value = self.get(b"")
        try:
            meta = SavedTensorSlices.decode(value).meta if value is not None else None
        except ValueError as error:
            raise self.corrupt(f"metadata: {error}", 0, "header") from error
        if meta is None:
            raise self.corrupt("the file has no metadata under the empty key", 0, "header")
        refusal = refusal_of(meta.versions, self.path)
        if refusal is not None:
            raise refusal
        return meta.tensor

    def handle(self, key: bytes) -> BlockHandle | None:
        """Return the block that holds `key`, if any does."""
        at = bisect.bisect_left(self._last_keys, key)
        return self.table.index[at][1] if at < len(self._last_keys) else None

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, keeping the block it was in: small tensors share blocks."""
        at = bisect.bisect_left(self._last_keys, key)
        if at == len(self._last_keys):
            return None
        block = self._cached  # another thread may put another in its place
        if block[0] != at:
            entries = self.table.entries(self.table.index[at][1])
            self._cached = block = at, dict(reversed(entries))  # of a key that comes twice, the first
        return block[1].get(key)

    def close(self) -> None:
        self.file.close()
        self._cached = (-1, {})

    def corrupt(
        self, message: str, offset: int | None, code: str, key: str | None = None
    ) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self.path, key=key, offset=offset, code=code)


class _Piece(NamedTuple):
    """One stored slice: the shard it is in, its extents as stored, what it covers."""

    shard: _Shard
    extents: Extents
    region: Region


class V1Tensor(LazyTensor):
    """A tensor of a V1 checkpoint."""

    def __init__(self, spec: TensorSpec, pieces: list[_Piece]) -> None:
        super().__init__(spec)
        self._pieces = pieces

    @property
    def stored(self) -> Stored:
        return Stored(self._pieces[0].shard.number) if len(self._pieces) == 1 else Stored()

    def read(self) -> np.ndarray[Any, Any]:
        return self.read_region(full_index(self.spec.shape))

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        import numpy as np

        whole = tuple((0, dim) for dim in self.spec.shape)
        if len(self._pieces) == 1 and self._pieces[0].region == whole:
            values = self.piece_values(self._pieces[0])
            where: tuple[Any, ...] = (*index, Ellipsis)  # the dots keep a scalar string an array
            return np.array(values[where], order="C")
        path = self._pieces[0].shard.path
        try:
            flaw = tiling_flaw([piece.region for piece in self._pieces], self.spec.shape)
        except ValueError as error:
            raise UnsupportedFeatureError(str(error), path=path, key=self.spec.key, code="slice") from error
        if flaw == "overlap":
            raise self._pieces[0].shard.corrupt("its slices overlap", None, "slice", self.spec.key)
        out = allocate(self.spec, index_shape(index), path)
        pieces = ((piece.region, partial(self._some, piece)) for piece in self._pieces)
        filled = fill(out, index, pieces)
        if filled != out.size:
            message = f"its slices contain only {filled} of the {out.size} requested elements"
            raise self._pieces[0].shard.corrupt(message, None, "slice", self.spec.key)
        return out

    def pieces(self) -> list[tuple[Extents, LazyTensor]]:
        whole = tuple((0, dim) for dim in self.spec.shape)
        if [piece.region for piece in self._pieces] == [whole]:
            return []
        out: list[tuple[Extents, LazyTensor]] = []
        for piece in self._pieces:
            shape = tuple(stop - start for start, stop in piece.region)
            alone = piece._replace(region=tuple((0, dim) for dim in shape))
            out.append((piece.extents, V1Tensor(self.spec._replace(shape=shape), [alone])))
        return out

    def _some(self, piece: _Piece, index: Index) -> np.ndarray[Any, Any]:
        return self.piece_values(piece)[index]

    def piece_values(self, piece: _Piece) -> np.ndarray[Any, Any]:
        """Return one stored slice; CorruptCheckpointError if it is missing or malformed."""
        key = slice_key(key_bytes(self.spec.key), piece.extents)
        handle = piece.shard.handle(key)
        offset = handle.offset if handle else None

        def corrupt(message: str, code: str) -> CorruptCheckpointError:
            return piece.shard.corrupt(message, offset, code, self.spec.key)

        try:
            value = piece.shard.get(key)
        except CorruptCheckpointError as error:
            error.key = self.spec.key
            raise
        if value is None:
            raise corrupt("its data is not in the file", "entry")
        try:
            saved = SavedTensorSlices.decode(value).data
            if saved is None:
                raise corrupt("the entry has no data", "entry")
            named, extents = saved.name, extents_of(saved.slice or TensorSliceProto())
            values = decode_values(saved.data or b"", self.spec.dtype)
        except ValueError as error:
            raise corrupt(f"its data cannot be decoded: {error}", "entry") from error
        if named != self.spec.key or extents not in ((), piece.extents):
            raise corrupt(f"its data is labelled as {named!r}, slice {list(extents)}", "entry")
        shape = tuple(stop - start for start, stop in piece.region)
        expected = TensorSpec(self.spec.key, self.spec.dtype, shape).size
        if len(values) != expected:
            raise corrupt(
                f"the slice has {len(values)} values, but shape {list(shape)} needs {expected}", "tensor-size"
            )
        try:
            return values.reshape(shape)
        except ValueError as error:  # more dimensions, or larger ones, than numpy has
            message = f"no array can hold {self.spec.dtype} of shape {list(shape)}: {error}"
            raise UnsupportedFeatureError(message, path=piece.shard.path, key=self.spec.key) from error


class V1Reader(FormatReader):
    """A V1 checkpoint, in one file or in shards."""

    def __init__(self, probe: Probe, *, lenient: bool = False) -> None:
        self.location = probe.location
        self.findings: list[Finding] = []
        self._lenient = lenient
        self._shards: list[_Shard] = []
        self._pieces: dict[str, list[_Piece]] = {}
        self._specs: dict[str, TensorSpec] = {}
        self._sizes = KeySizes()
        for path in looked_into(self._shard_paths(), lambda path: path):
            try:
                shard = _Shard(path, self._open_table)
                self._shards.append(shard)
                for meta in shard.meta():
                    self._count(shard, meta.name)
                    self._add(shard, meta)
            except CheckpointError as error:
                if not lenient:
                    raise
                self.findings.append(Finding.of(error))
        if not self._specs and self.findings:
            first = self.findings[0]
            raise CorruptCheckpointError(first.message, path=first.file, offset=first.offset, code=first.code)

    def _open_table(self, file: File) -> Table:
        return Table(file.read, file.size, file.path)

    def _shard_paths(self) -> list[Location]:
        """Return the shards that are there; a missing one is a finding."""
        found = self.location.files()
        match = V1_SHARD.fullmatch(self.location.head)
        if self.location.head == self.location.path or match is None:  # for every name, also NAME.index
            return [self.location.head]
        count = int(match["count"])
        if len(found) < count:
            there = {int(found_match["shard"]) for path in found if (found_match := V1_SHARD.fullmatch(path))}
            missing = next(number for number in range(count) if number not in there)
            name = f"{match['prefix']}-{missing:05d}-of-{match['count']}"
            lost = count - len(found)
            more = f", and {lost - 1:,} more of {count:,}" if lost > 1 else ""
            message = f"shard {name.rpartition('/')[2]} is missing{more}; its tensors are unknown"
            self.findings.append(Finding("error", SHARD_MISSING, message, None, name))
        return found

    def _count(self, shard: _Shard, key: str) -> None:
        try:
            self._sizes.add(() if key in self._specs else (key,))
        except ValueError as error:
            raise shard.corrupt(f"metadata: {error}", 0, "header") from error

    def _add(self, shard: _Shard, meta: SavedSliceMeta) -> None:
        key = meta.name
        dtype = dtypes.BY_NUMBER.get(meta.type)
        try:
            shape = decode_shape(meta.shape)
            if dtype is None or dtype.name not in VALUE_FIELDS:
                raise EntryError("dtype", f"dtype number {meta.type} is not valid in V1 checkpoints")
            spec = TensorSpec(key, dtype, shape)
            seen = self._specs.setdefault(key, spec)
            if (seen.dtype, seen.shape) != (dtype, shape):
                raise EntryError(
                    "slice",
                    f"the shards disagree: one has {seen.dtype} "
                    f"{list(seen.shape)}, another {dtype} {list(shape)}",
                )
            for proto in meta.slice:
                extents = extents_of(proto)
                self._pieces.setdefault(key, []).append(_Piece(shard, extents, region_of(extents, shape)))
        except ValueError as error:
            code = error.code if isinstance(error, EntryError) else "slice"
            self.findings.append(Finding("error", code, str(error), key, shard.path))
            self._specs[key] = TensorSpec(key, INVALID, ())

    @property
    def format(self) -> Format:  # type: ignore[override]
        return FORMAT

    @cached_property
    def specs(self) -> Mapping[str, TensorSpec]:
        return {key: self._with_size(self._specs[key]) for key in sorted(self._specs, key=key_bytes)}

    def _with_size(self, spec: TensorSpec) -> TensorSpec:
        """Add the size of strings, which only the data show."""
        pieces = self._pieces.get(spec.key)
        if spec.dtype is not STRING or not pieces:  # reading a tensor without slices reports that
            return spec
        try:
            values = V1Tensor(spec, pieces).read()
        except CorruptCheckpointError as error:
            self.findings.append(Finding.of(error, spec.key))
            return spec
        return spec._replace(stored=sum(map(len, values.reshape(-1))))

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        return name_kinds(self.specs)

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        return {key: key for key in self.specs}

    def tensor(self, key: str) -> V1Tensor:
        pieces = self._pieces.get(key)
        if not pieces:
            message = "the metadata lists no slice of this tensor"
            raise CorruptCheckpointError(message, path=self.location.path, key=key, code="slice")
        return V1Tensor(self.specs[key], pieces)

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  one table, one cache of blocks
        yield Verification(findings=tuple(self.findings))
        for shard in self._shards:
            yield Verification(findings=tuple(self._key_order(shard)))
        for key, spec in self.specs.items():
            if spec.dtype is INVALID:
                continue
            pieces = self._pieces.get(key, [])
            findings = list(self._tiling(spec, pieces))
            sound = bool(pieces) and not findings
            for piece in pieces:
                try:
                    self.tensor(key).piece_values(piece)
                except CorruptCheckpointError as error:
                    findings.append(Finding.of(error, key))
                    sound = False
            yield Verification(spec.nbytes or 0, int(sound), tuple(findings))

    def _tiling(self, spec: TensorSpec, pieces: list[_Piece]) -> Iterator[Finding]:
        """Yield what is wrong with a tensor's slices; gaps are expected where shards are missing."""
        try:
            flaw = tiling_flaw([piece.region for piece in pieces], spec.shape)
        except ValueError as error:
            yield Finding("warning", "slice", str(error), spec.key, self.location.path)
            return
        if flaw == "overlap":
            yield Finding("error", "slice", "its slices overlap", spec.key, self.location.path)
        elif flaw == "gap":
            yield Finding(
                "error",
                "slice",
                "the slices do not cover the shape of the tensor",
                spec.key,
                self.location.path,
            )

    def _key_order(self, shard: _Shard) -> Iterator[Finding]:
        last = None
        before: bytes | None = None
        for bound, handle in shard.table.index:
            above, before = before, bound
            try:
                entries = shard.table.entries(handle)
            except CorruptCheckpointError as error:
                if all(error.offset != finding.offset for finding in self.findings):
                    yield Finding.of(error)
                continue
            for key, _ in entries:
                if last is not None and key <= last:
                    yield Finding(
                        "error",
                        "key-order",
                        f"key {key!r} comes after {last!r}",
                        None,
                        shard.path,
                        handle.offset,
                    )
                last = key
            if not is_found([key for key, _ in entries], above, bound):
                message = "wrong bounds in the index block hide this block; TensorFlow cannot find all keys"
                yield Finding("error", "key-order", message, None, shard.path, handle.offset)

    @cached_property
    def facts(self) -> Facts:
        from ..tf.bundle.producer import producer_of

        sharded = V1_SHARD.fullmatch(self.location.path)
        return producer_of(self.location.path.of(sharded["prefix"]) if sharded else self.location.path)

    def close(self) -> None:
        for shard in self._shards:
            shard.close()


class _RemainsReader(V1Reader):
    """A V1 checkpoint whose blocks are found by walking its files, where their indexes do not tell."""

    def _open_table(self, file: File) -> Table:
        from ..tf.v1.salvage import walked_table

        try:
            return super()._open_table(file)
        except CheckpointError as error:
            self.findings.append(Finding("error", error.code, error.message, None, file.path, error.offset))
        return walked_table(file, self.findings)


def _salvage(probe: Probe, finding: Finding) -> V1Reader | None:  # noqa: ARG001  its reader finds it again
    from ..tf.v1.salvage import begins_as_v1

    return _RemainsReader(probe, lenient=True) if begins_as_v1(probe.location.head) else None


def _sniff(probe: Probe) -> bool:
    return probe.is_v1


def _open(probe: Probe, lenient: bool) -> V1Reader:
    probe.close()  # the reader opens each shard by itself
    return V1Reader(probe, lenient=lenient)


def _refusal(probe: Probe) -> CheckpointError | None:
    """Name a V1 checkpoint that was cut off: its first entry is there, and the footer is not."""
    if not (probe.head.startswith(b"\0\0") and b"\x0a" in probe.head[:16]):
        return None
    message = "the file begins like a V1 checkpoint, but its footer is missing"
    path = probe.location.head
    return CorruptCheckpointError(message, path=path, offset=probe.size, code="footer", hints=CUT_OFF)


def _create(target: WriteTarget) -> FormatWriter:
    from ..tf.v1.writer import V1Writer

    return V1Writer(FORMAT, target)


FORMAT = Format(
    "tf-v1",
    "TensorFlow V1 checkpoint",
    Family.TENSORFLOW,
    (),
    _sniff,
    _open,
    _create,
    frozenset(VALUE_FIELDS),
    _salvage,
    _refusal,
    unshared="a V1 checkpoint stores its values in compressed blocks",
)
