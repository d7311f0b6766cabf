"""Writing checkpoints: what every format's writer keeps to.

A writer knows all specs before it writes a byte, so it rejects what it cannot represent before anything has
changed. It writes next to the target (`formats.store.local.staging`) and moves everything in at the end.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..core.chunks import PIECE, chunks_of, equal_bytes, view_of
from ..core.dtypes import INVALID
from ..core.spec import is_utf8
from ..errors import (
    CheckpointError,
    CheckpointExistsError,
    ConversionError,
    CorruptCheckpointError,
    DuplicateKeyError,
    TensorNotFoundError,
    UnknownFormatError,
    UnsupportedDtypeError,
    cast_or_leave_out,
    leave_out,
)
from ..store.local.links import followed
from ..store.local.refusals import refuse_irreplaceable
from ..store.local.spool import Spool
from ..store.local.staging import Staging
from ..store.ranges import Sum, buffers
from ..wire.crc32c import extend
from .checkpoint_files import CheckpointLocation
from .facts import Facts, Nothing
from .probe import Probe
from .public import CheckpointWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..core.chunks import Chunk
    from ..core.region import Extents
    from ..core.spec import TensorSpec
    from ..location import Location
    from ..store.journal import Claim, Journal
    from ..store.local.staged_file import StagedFile
    from ..store.local.staging_journal import StagingJournal
    from ..store.remote.bucket_staging import Uploading
    from ..store.remote.upload_journal import UploadJournal
    from .object_graph import ObjectGraph
    from .reader import Format, FormatReader


SHARD_SIZE = 2_000_000_000
"""The default size in bytes of an object in a store, for formats with shards."""


COMPRESSIONS = ("zstd",)
"""Codecs for the values of formats that `compresses`."""


class WriteTarget(NamedTuple):
    """The input of a writer: the path, all specs, and everything else the checkpoint will hold.

    `specs` are in the caller's order. `slices` has the extents of tensors that are stored in slices, spelled
    as they will be stored. `shard_size` is in bytes. `facts` are those that a reader of the format returns. A
    `rehearsal` writes nothing: it raises the same errors, and has the same notes. `prove_sent` compares what
    was sent to a store with the store's entry. With a `journal` it continues an interrupted conversion. If it
    `is_shared`, other processes send its objects. `compression` is the codec of chunks, one of COMPRESSIONS.
    """

    path: Location
    specs: tuple[TensorSpec, ...]
    overwrite: bool = False
    object_graph: ObjectGraph | None = None
    slices: Mapping[str, Sequence[Extents]] = {}
    shard_size: int | None = None
    facts: Facts = Nothing()
    rehearsal: bool = False
    prove_sent: bool = True
    journal: Journal | None = None
    is_shared: bool = False
    compression: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, rather than in a bucket (`formats.store.remote.bucket_staging`)."""
        return not self.path.is_object()

    @property
    def largest(self) -> int:
        """The bytes of the largest file, as far as the specs tell."""
        sizes = [spec.nbytes or 0 for spec in self.specs]
        return sum(sizes) if self.shard_size is None else max(self.shard_size, *sizes, 0)


class Placement(NamedTuple):
    """The place for a tensor's bytes: at an offset of a staged file, in ranges that may be filled in any
    order.
    """

    file: StagedFile
    offset: int
    is_zipped: bool = False
    """Whether it is a member of a zip, which has a CRC-32."""

    @property
    def sum(self) -> Sum:
        """A new checksum for all bytes of this place."""
        return Sum(crc32=0 if self.is_zipped else None)

    def write(self, at: int, data: Chunk) -> None:
        self.file.write_at(self.offset + at, data)

    def returns(self, at: int, data: Chunk) -> bool:
        """Whether these bytes can be read back from where they were written."""
        _, buffer = buffers()
        for begin in range(0, len(data), PIECE):
            part = view_of(data)[begin : begin + PIECE]
            piece = buffer[: len(part)]
            if not self.file.read_back(self.offset + at + begin, piece.data) or not equal_bytes(part, piece):
                return False
        return True

    @property
    def name(self) -> str:
        """The staged file's name, by which a journal knows it."""
        return os.path.basename(self.file.path)

    def holds(self, at: int, claim: Claim) -> bool:
        """Whether what a journal claims to be there is there: all of it is read."""
        buffer, _ = buffers()
        crc = 0
        for begin in range(0, claim.size, PIECE):
            piece = buffer[: min(PIECE, claim.size - begin)]
            if not self.file.read_back(self.offset + at + begin, piece.data):
                return False
            crc = extend(crc, piece)
        return crc == claim.made

    def start_sync(self, begin: int, end: int) -> None:
        """Let the disk begin with a range that is written."""
        self.file.start_sync(self.offset + begin, end - begin)


ANOTHER_KEY = ("to rename this tensor, pass --sub or --map", "to leave this tensor out, pass --exclude")
"""Hints for a key that a format cannot have."""


def check_text(path: str, key: str, why: str, name: str | None = None) -> None:
    """Refuse a key, or the name made of it, that is not UTF-8; `why` says who wants that."""
    if not is_utf8(key if name is None else name):
        raise ConversionError(f"its name is not UTF-8, {why}", path=path, key=key, hints=ANOTHER_KEY)


class FormatWriter(CheckpointWriter):
    """The writer of a format as commands use it; `CheckpointWriter` is the public part.

    A tensor that is written before its turn in `order`, where a format has one, is kept aside.

    A subclass writes into `staging`: in `_start` what goes first, in `_finish` what goes
    last.  `notes` are what a person should know of what is written.
    """

    format: Format
    order: tuple[str, ...] | None = None
    has_shards = False
    has_slices = False
    compresses = False
    """Whether values can be compressed."""

    is_sent_when_made = False
    """Whether it is made on this machine, and sent when it is whole: it is not written from front to back."""
    kept = 0
    """Bytes of tensors whose compressed chunks an interrupted conversion had already written."""

    is_resumable = False
    """Whether every number has a place known beforehand, so that another process can resume."""

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  the word of the field
        target = target._replace(path=self.followed(target.path))
        self.format = format
        self.target = target
        self.specs: dict[str, TensorSpec] = {spec.key: spec for spec in target.specs}
        keys = self.order or tuple(self.specs)
        whole: list[Extents] = []  # one shared empty list, because there can be a million
        self._unwritten = {key: list(target.slices[key]) if key in target.slices else whole for key in keys}
        self._turn = 0
        self._unfilled: dict[tuple[str, Extents | None], tuple[TensorSpec, Placement]] = {}
        self.notes: list[str] = []
        self._state = "open"
        existing = self.existing(target.path)
        if not existing and not target.path.is_folder():
            refuse_irreplaceable(target.path)  # a prefix can be the name of a device
        for found in existing:
            self.refuse_irreplaceable(found)
            if not target.overwrite:
                hints = ("pass --overwrite to replace it",)
                raise CheckpointExistsError("this path already exists", path=found, hints=hints)
        if target.shard_size is not None and not self.has_shards:
            hints = ("leave out --shard-size, or write a format that has shards, such as OUT --to tf-name",)
            raise ConversionError(f"{format.name} cannot be written in shards", path=target.path, hints=hints)
        if target.compression is not None and not self.compresses:
            hints = ("leave out --compress, or write a format that compresses, such as OUT --to orbax",)
            raise ConversionError(
                f"{format.name} cannot be written with compressed chunks", path=target.path, hints=hints
            )
        if target.slices and not self.has_slices:
            hints = (
                (
                    "to write every tensor whole, pass --merge-slices; to keep "
                    "the slices, write another format, such as --to tf-name"
                ),
            )
            raise ConversionError(f"{format.name} does not support slices", path=target.path, hints=hints)
        if self.is_sent_when_made and not target.is_local:
            from ..store.remote.upload import made_first

            self.notes.append(made_first(target.path))
        if target.rehearsal:
            self.location(target.path).head.require_access()
            self.location(target.path).head.require_container()
            self._state = "closed"
            return
        self.staging = self._begun(existing)
        self._held = Spool(self.staging)
        try:
            self._start()
        except BaseException:
            self.staging.remove()
            raise

    def _begun(self, existing: Sequence[str]) -> Staging | Uploading:
        """Return where new files are made, or what sends them."""
        target = self.target
        if target.is_local:
            return Staging(target.path, existing, cast("StagingJournal | None", target.journal))
        from ..store.remote.bucket_staging import Uploading

        head = self.location(target.path).head
        return Uploading(
            target.path,
            head,
            overwrite=target.overwrite,
            prove=target.prove_sent,
            largest=target.largest,
            journal=cast("UploadJournal | None", target.journal),
            is_shared=target.is_shared and self.has_slices,
        )

    @classmethod
    def followed(cls, path: Location) -> Location:
        """Return the path to write to, where `path` is a symbolic link: what that leads to."""
        return followed(path)

    @classmethod
    def existing(cls, path: Location) -> list[Location]:
        """Return the files that writing to `path` would replace."""
        return [path] if path.exists() else []

    @classmethod
    def refuse_irreplaceable(cls, path: Location) -> None:
        """Raise a CheckpointError where `path` is something that a checkpoint must not take the place of."""
        refuse_irreplaceable(path)

    @classmethod
    def location(cls, path: Location) -> CheckpointLocation:
        """Return the location of the checkpoint that is written as `path`."""
        return CheckpointLocation(path, path)

    def _start(self) -> None:
        """Write what comes before the tensors."""

    @abstractmethod
    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:
        """Write a tensor, or one slice of it, whose own shape `spec` then has."""

    def _write_in_slices(self, spec: TensorSpec, slices: Sequence[Extents], chunks: Iterator[Chunk]) -> None:
        """Write a tensor that comes whole and is kept in slices, where the format `has_slices`."""
        raise NotImplementedError

    @abstractmethod
    def _finish(self) -> None:
        """Write what comes after the tensors, so that the staged files are a checkpoint."""

    def _move_in(self) -> None:
        """Move what is staged to its place."""
        self.staging.move_in()

    def write(self, key: str, data: Any) -> None:
        """Write a tensor: an array of its dtype and shape, or its chunks (see `LazyTensor.chunks`)."""
        unordered = self.order is None or self._state != "open" or key not in self._unwritten
        if unordered or key == self._next_in_order():
            self._write_in_turn(key, data)
        elif key in self._held:
            raise ValueError(f"tensor {key!r} has already been written")
        else:
            self._state = "interrupted"
            self._held.hold(self.specs[key], chunks_of(self.specs[key], data))
            self._state = "open"
        while (waiting := self._next_in_order()) is not None and waiting in self._held:
            self._write_in_turn(waiting, self._held.release(waiting))

    def _next_in_order(self) -> str | None:
        """Return the key whose turn it is; None if there is no order, or nothing is left.

        Searching `_unwritten`, whose first element is always next, would skip all earlier ones at each turn.
        """
        order = self.order or ()
        while self._turn < len(order) and order[self._turn] not in self._unwritten:
            self._turn += 1
        return order[self._turn] if self._turn < len(order) else None

    def start_shard(self) -> None:
        """Begin another shard with what is written next, where no `shard_size` decides that."""

    def write_object_graph(self) -> None:
        """Write the object graph here; otherwise it is written after all tensors."""

    def _write_in_turn(self, key: str, data: Any) -> None:
        spec = self._begin(key)
        slices = self._unwritten[key]
        if slices != list(self.target.slices.get(key, ())):
            raise ValueError(f"tensor {key!r}: some of its slices have already been written")
        self._state = "interrupted"
        chunks = chunks_of(spec, data)
        if slices:
            self._write_in_slices(spec, slices, chunks)
        else:
            self._write(spec, None, chunks)
        self._end(key)

    def write_slice(self, key: str, extents: Extents, data: Any) -> None:
        """Write one slice of a tensor that `Target.slices` keeps in slices, as `write` does a tensor."""
        piece = self._begin_slice(key, extents)
        self._state = "interrupted"
        self._write(piece, extents, chunks_of(piece, data))
        self._end(key, extents)

    def was_sent(self, key: str, extents: Extents | None = None) -> bool:  # noqa: ARG002  only to stores
        """Whether a tensor, or slice, is in an object that was uploaded before; if so, it takes its turn."""
        return False

    def place(self, key: str, extents: Extents | None = None) -> Placement | None:
        """Return where the bytes of a tensor, or of a slice, go; None if they must be given to `write`.

        It takes the tensor's turn, as `write` does.  Fill the placement in any order, with
        fixed-width elements as `chunks` gives them, then call `filled`.
        """
        spec = self._begin(key) if extents is None else self._begin_slice(key, extents)
        place = self._place(spec) if self.staging.is_local or self.is_sent_when_made else None
        if place is not None:
            self._end(key, extents)
            self._unfilled[key, extents] = spec, place
        return place

    def filled(self, key: str, extents: Extents | None, found: Sum) -> None:
        """Take note that a place is filled, with bytes of this checksum."""
        self._filled(*self._unfilled.pop((key, extents)), extents, found)

    def _place(self, spec: TensorSpec) -> Placement | None:  # noqa: ARG002  most formats have none
        """Reserve the room of a fixed-width tensor, or of a slice, whose own shape `spec` then has."""
        return None

    def _filled(self, spec: TensorSpec, place: Placement, extents: Extents | None, found: Sum) -> None:
        """Note what a place has been filled with."""

    def _begin_slice(self, key: str, extents: Extents) -> TensorSpec:
        """Return the spec of a slice whose turn it is."""
        from ..core.region import region_of

        spec = self._begin(key)
        if extents not in self._unwritten[key]:
            raise ValueError(f"tensor {key!r}: slice {extents} was not declared")
        shape = tuple(stop - start for start, stop in region_of(extents, spec.shape))
        return spec._replace(shape=shape)

    def _begin(self, key: str) -> TensorSpec:
        if key not in self.specs:
            raise TensorNotFoundError("this tensor was not declared", path=self.target.path, key=key)
        if self._state != "open" or key not in self._unwritten:
            raise ValueError(f"tensor {key!r} has already been written, or the writer is {self._state}")
        if self.order is not None and key != self._next_in_order():
            raise ValueError(f"tensor {key!r} is out of order, see `order`")
        return self.specs[key]

    def _end(self, key: str, extents: Extents | None = None) -> None:
        if extents is not None:
            self._unwritten[key].remove(extents)
        if extents is None or not self._unwritten[key]:
            del self._unwritten[key]
        self._state = "open"

    def finish(self) -> None:
        """Write what goes last.  The checkpoint is whole then, but not yet in its place."""
        if self._state == "finished":
            return
        if self._state != "open":
            raise ValueError(f"{self.target.path}: the writer is {self._state}")
        if self._unwritten:
            missing = next(iter(self._unwritten))
            count = len(self._unwritten) - len(self._held)
            raise ValueError(f"{count} tensors have not been written, for example {missing!r}")
        if self._unfilled:
            missing, _ = next(iter(self._unfilled))
            raise ValueError(
                f"{len(self._unfilled)} placements are not filled, for example that of {missing!r}"
            )
        self._state = "interrupted"
        if isinstance(self.staging, Staging):
            self.staging.cut()
        self._finish()
        self.staging.sync()
        self._state = "finished"

    def reopen(self) -> FormatReader:
        """Return a reader of what was written, before it replaces the target if it `is_readable`.

        For a rehearsal, return a reader of the target; UnknownFormatError if it has another format.
        """
        if self.target.rehearsal:
            return self._reopened_in_place()
        if self._state != "closed":
            self.finish()
        with self.staging.opening() as path:
            return self.format.reader(Probe(self.location(path)), False)

    def _reopened_in_place(self) -> FormatReader:
        probe = Probe(self.location(self.target.path))
        try:
            if self.format.sniff(probe):
                return self.format.reader(probe, False)
            raise UnknownFormatError(f"this is not a {self.format.name} checkpoint", path=self.target.path)
        except CheckpointError:
            probe.close()
            raise

    def is_described_by(self, found: FormatReader) -> bool:
        """Whether the existing checkpoint has the metadata and shards that this rehearsal would write.

        Compare tensors and the object graph with their sources first.  Raises CorruptCheckpointError.
        """
        return self._has_facts(found.proved_facts())

    def _has_facts(self, found: Facts) -> bool:
        """Whether what a checkpoint says of itself is what this one would."""
        return _known_facts(found) == _known_facts(self.target.facts)

    @property
    def is_readable(self) -> bool:
        """Whether what was written can be read before it is in its place; one object of a store cannot."""
        return self.staging.is_readable

    @property
    def is_one_object(self) -> bool:
        """Whether all of it is one file, of its own or in a store."""
        return not self.has_shards

    def commit(self) -> None:
        """Move the checkpoint to its place; the target is the old or the new one at every instant."""
        try:
            self.finish()
            with self.staging.alone():
                found = self.staging.foreign(self.existing(self.target.path))
                if found and not self.target.overwrite:
                    raise CheckpointExistsError(
                        "another program created this path in the meantime", path=found[0]
                    )
                self._move_in()
            if self.target.journal is not None:
                self.target.journal.is_over = True
        finally:
            self.abandon()

    def tidy(self) -> None:
        """Remove what an interrupted `commit` has left in the way of what is in its place."""

    def withdraw(self) -> None:
        """Remove from its place what was written to a store, and then read back as something else."""
        assert not isinstance(self.staging, Staging)
        self.staging.withdraw()

    def abandon(self) -> None:
        """Remove what was staged, and all traces of it."""
        if self._state != "closed":
            self._state = "closed"
            self.staging.remove()


def _known_facts(facts: Facts) -> dict[str, Any]:
    """Return the facts that are not empty."""
    return {name: value for name, value in facts.document().items() if value}


def bounded(target: WriteTarget) -> WriteTarget:
    """Return the target with a shard size: formats with shards have a limit in a store even without an
    option.
    """
    if target.is_local or target.shard_size is not None:
        return target
    return target._replace(shard_size=SHARD_SIZE)


def check_specs(target: WriteTarget, into: Format) -> None:
    """Refuse two tensors of one key, and dtypes and numbers of dimensions that a format does not have."""
    keys: set[str] = set()
    for spec in target.specs:
        if spec.key in keys:
            raise DuplicateKeyError("two tensors have this key", path=target.path, key=spec.key)
        keys.add(spec.key)
        if spec.dtype is INVALID:
            raise CorruptCheckpointError(
                "the entry of this tensor cannot be decoded", path=target.path, key=spec.key
            )
        if not into.holds(spec.dtype):
            hints = cast_or_leave_out(spec.key, castable=spec.dtype.is_floating)
            message = f"{into.name} cannot store {spec.dtype} tensors"
            raise UnsupportedDtypeError(message, path=target.path, key=spec.key, hints=hints)
        if into.most_dimensions is not None and spec.rank > into.most_dimensions:
            message = (
                f"the tensor has {spec.rank} dimensions, but "
                f"{into.name} supports at most {into.most_dimensions}"
            )
            raise ConversionError(message, path=target.path, key=spec.key, hints=(leave_out(spec.key),))
    for key in target.slices:
        if key not in keys:
            message = "slices of a tensor that was not declared"
            raise TensorNotFoundError(message, path=target.path, key=key)
