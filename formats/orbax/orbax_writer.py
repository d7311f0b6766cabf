"""Writing Orbax checkpoints: zarr 2, a folder for each tensor, raw chunks or zstd frames.

    DIR/_METADATA and the rest      see `formats.orbax.orbax_tree`
    DIR/NAME/.zarray                see `formats.orbax.zarr`
    DIR/NAME/0.0                    chunks
    DIR/commit_success.txt          without which a checkpoint in a bucket is unfinished: it goes last

    STEP/_CHECKPOINT_METADATA       if DIR is named like a step: the tree is in STEP/default
    STEP/ITEM/_METADATA             the items of a step that was read

A chunk has at most `shard_size` bytes.  Its elements follow one another in the tensor, so that each chunk
is written from its beginning to its end.  A compressed one is made in memory, so it has at most 16 MiB.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NamedTuple

from ..core.chunks import view_of
from ..core.spec import TensorSpec
from ..errors import ConversionError
from ..model.checkpoint_files import CheckpointLocation
from ..model.orbax_files import COMMITTED, JSON_ITEM, STEP, TREE, files_below, named_step, orbax_location
from ..model.writer import FormatWriter, Placement
from ..store.journal import Claim
from ..store.local.exchange import move_directory
from ..store.local.staged_file import StagedFile
from ..store.local.staging import Staging
from ..wire.crc32c import extend
from .orbax_tree import PlannedTree, documents
from .writing import facts_of, has_facts, leaves_of, notes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..core.chunks import Chunk
    from ..core.region import Extents
    from ..location import Location
    from ..model.facts import Facts
    from ..model.reader import Format, FormatReader
    from ..model.writer import WriteTarget
    from ..store.ranges import Sum
    from ..store.remote.upload import Upload
    from .facts import TreeFacts
    from .names import Path
    from .writing import Leaf

_ARRAY = ".zarray"
_ITEM = "default"
_HANDLER = "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler"
_JSON_HANDLER = "orbax.checkpoint._src.handlers.json_checkpoint_handler.JsonCheckpointHandler"
_ZEROS = bytes(1 << 20)
_MOST_CHUNKS = 1_000_000
_LARGEST_COMPRESSED = 16 << 20
_LEVEL = 1
"""Orbax' own level of zstd."""


class _Cut(NamedTuple):
    """How a tensor is cut: the shape of a chunk, and how many there are in each dimension."""

    chunk: tuple[int, ...]
    grid: tuple[int, ...]

    @property
    def files(self) -> int:
        """How many chunks there are."""
        return math.prod(self.grid)

    def name(self, number: int) -> str:
        """Return the name of a chunk by its number in C order."""
        position = []
        for size in reversed(self.grid):
            number, at = divmod(number, size)
            position.append(str(at))
        return ".".join(reversed(position)) or "0"


def cut_into(spec: TensorSpec, limit: int | None) -> _Cut:
    """Return chunks of at most `limit` bytes, each a range of elements; the last of a row is padded."""
    chunk = list(spec.shape)
    if limit is not None:
        for axis in range(len(chunk)):
            below = math.prod(spec.shape[axis + 1 :]) * (spec.dtype.itemsize or 1)
            chunk[axis] = min(chunk[axis], max(1, limit // below)) if below else chunk[axis]
            if chunk[axis] > 1 or below <= limit:
                break
    chunk = [max(1, size) for size in chunk]
    grid = tuple(-(-dim // size) for dim, size in zip(spec.shape, chunk, strict=True))
    return _Cut(tuple(chunk), grid)


class OrbaxWriter(FormatWriter):
    """Writes a tree, or a step of items."""

    has_shards = True
    is_resumable = True
    compresses = True

    def __init__(self, format: Format, target: WriteTarget) -> None:  # noqa: A002  as its base
        facts = facts_of(target)
        self._facts = facts
        self._trees = _planned(target, facts)
        self._folders = {
            key: f"{tree.folder}{name}"
            for tree in self._trees
            for key, name in tree.names(target.path).items()
        }
        limit = target.shard_size
        if target.compression is not None:
            limit = min(limit or _LARGEST_COMPRESSED, _LARGEST_COMPRESSED)
        self._cuts = {spec.key: cut_into(spec, limit) for spec in target.specs}
        self._check_cuts(target)
        self._numbers = {spec.key: number for number, spec in enumerate(target.specs)}
        self._staged: dict[str, str] = {}
        self._open: dict[str, StagedFile] = {}
        super().__init__(format, target)
        self.notes += notes_of(target)

    def _check_cuts(self, target: WriteTarget) -> None:
        for key, cut in self._cuts.items():
            if cut.files > _MOST_CHUNKS:
                message = f"it would become {cut.files:,} files; at most {_MOST_CHUNKS:,} are supported"
                raise ConversionError(message, path=target.path, key=key, hints=("raise --shard-size",))

    @property
    def is_one_object(self) -> bool:
        return False

    @property
    def _is_step(self) -> bool:
        return any(tree.folder for tree in self._trees)

    @classmethod
    def existing(cls, path: Location) -> list[Location]:
        if path.is_object():
            return [*files_below(path)] if path.is_folder() else [path] if path.exists() else []
        return super().existing(path) if not path.is_folder() or path.listing() else []

    @classmethod
    def refuse_irreplaceable(cls, path: Location) -> None:
        if path.is_object():
            hints = ("choose another name: Orbax' files have fixed names, so a reader would see old and new",)
            raise ConversionError(
                "this path already exists, and cannot be replaced in a bucket", path=path, hints=hints
            )
        if path.is_folder() and orbax_location(path) is None:
            hints = (f"name a folder of its own, for example {path / 'NAME'}",)
            raise ConversionError("this is a directory, not an Orbax checkpoint", path=path, hints=hints)
        if not path.is_folder():
            super().refuse_irreplaceable(path)

    @classmethod
    def location(cls, path: Location) -> CheckpointLocation:
        if path.is_object():
            return CheckpointLocation(path, path / COMMITTED)
        return orbax_location(path) or CheckpointLocation(path, path / TREE)

    def _has_facts(self, found: Facts) -> bool:
        return has_facts(self.target, found)

    def is_described_by(self, found: FormatReader) -> bool:
        return super().is_described_by(found) and all(map(self._is_cut_alike, self.target.specs))

    def _is_cut_alike(self, spec: TensorSpec) -> bool:
        """Whether the existing array has the chunks and the codec that this one would have."""
        expected = self._zarray(spec)
        with (self.target.path / f"{self._folders[spec.key]}/{_ARRAY}").open() as file:
            return file.size == len(expected) and file.read(0, file.size) == expected

    # Chunks -------------------------------------------------------------------------

    def _begin_chunk(self, spec: TensorSpec, number: int) -> StagedFile | Upload:
        """Return a new file for a chunk; it has a name of its own until it is in its folder."""
        final = f"{self._folders[spec.key]}/{self._cuts[spec.key].name(number)}"
        if not isinstance(self.staging, Staging):
            return self.staging.create(f"{self.target.path.name}/{final}")
        name = f"chunk-{self._numbers[spec.key]}-{number}"
        self._staged[name] = final
        return self.staging.create(name)

    def _write(self, spec: TensorSpec, extents: Extents | None, chunks: Iterator[Chunk]) -> None:  # noqa: ARG002
        cut = self._cuts[spec.key]
        whole = math.prod(cut.chunk) * (spec.dtype.itemsize or 1)
        sizes = _sizes(spec, cut)
        file: StagedFile | Upload | _Compressed | None = None
        number = left = 0
        for chunk in chunks:
            view = view_of(chunk)
            while view:
                if file is None:
                    file, left = self._begun_chunk(spec, number), sizes(number)
                part = view[:left]
                file.write(bytes(part))
                view, left = view[len(part) :], left - len(part)
                if not left:
                    _pad(file, whole - sizes(number))
                    file.close()
                    file, number = None, number + 1

    def _begun_chunk(self, spec: TensorSpec, number: int) -> StagedFile | Upload | _Compressed:
        file = self._begin_chunk(spec, number)
        return file if self.target.compression is None else _Compressed(file, self)

    def _place(self, spec: TensorSpec) -> Placement | None:
        if self._cuts[spec.key].files != 1 or self.target.compression is not None:
            return None
        file = self._begin_chunk(spec, 0)
        assert isinstance(file, StagedFile)
        self._open[spec.key] = file
        return Placement(file, file.reserve(spec.nbytes or 0))

    def _filled(self, spec: TensorSpec, place: Placement, extents: Extents | None, found: Sum) -> None:  # noqa: ARG002
        self._open.pop(spec.key).close()

    # The rest -----------------------------------------------------------------------

    def _finish(self) -> None:
        for name, data in self._files():
            if name != COMMITTED:
                self._put(name, data)
        if isinstance(self.staging, Staging):
            for name, final in self._staged.items():
                self.staging.rename(name, self._inside(final))
        self._put(COMMITTED, b"")

    def _files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the names and contents of all files that are not chunks."""
        for tree in self._trees:
            names = tree.names(self.target.path)
            for leaf in tree.leaves.values():
                if isinstance(leaf, TensorSpec):
                    yield f"{self._folders[leaf.key]}/{_ARRAY}", self._zarray(leaf)
            for name, data in documents(tree, names, self._facts):
                yield tree.folder + name, data
        if self._is_step:
            for name, document in self._facts.items.documents.items():
                file = self._facts.items.files.get(name, JSON_ITEM)
                yield f"{name}/{file}", json.dumps(document).encode()
                yield f"{name}/{COMMITTED}", b""
            yield STEP, json.dumps(self._described()).encode()

    def _zarray(self, spec: TensorSpec) -> bytes:
        name = self.target.compression
        compressor = None if name is None else {"id": name, "level": _LEVEL}
        return _zarray(spec, self._cuts[spec.key], compressor)

    def _described(self) -> dict[str, object]:
        """Return what a step says of itself."""
        handlers = {tree.folder.rstrip("/"): _HANDLER for tree in self._trees}
        handlers |= dict.fromkeys(self._facts.items.documents, _JSON_HANDLER)
        return {"item_handlers": handlers, "metrics": {}, "performance_metrics": {}, "custom_metadata": {}}

    def _inside(self, name: str) -> str:
        return f"{self.target.path.name}/{name}"

    def _put(self, name: str, data: bytes) -> None:
        file = self.staging.create(self._inside(name))
        file.write(data)
        file.close()

    def _move_in(self) -> None:
        if not isinstance(self.staging, Staging):
            self.staging.move_in()
            return
        move_directory(self.staging, self.target.path)


def _planned(target: WriteTarget, facts: TreeFacts) -> list[PlannedTree]:
    """Return the trees of a target: the items of the step that was read, or one."""
    leaves = leaves_of(target)
    if not facts.items.are_in_keys:
        is_step = named_step(target.path.name) is not None
        item = facts.items.trees[0] if facts.items.trees else _ITEM
        return [PlannedTree(f"{item}/" if is_step else "", leaves)]
    found: dict[str, dict[Path, Leaf]] = {}
    for path, leaf in leaves.items():
        found.setdefault(path[0], {})[path] = leaf
    for name, each in found.items():
        key = next(("/".join(path) for path in each if len(path) == 1), None)
        if key is not None:
            message = f"the first part of a key is an item of this step, and {name!r} is a tensor"
            raise ConversionError(message, path=target.path, key=key)
    return [PlannedTree(f"{name}/", each, 1) for name, each in found.items()]


def _sizes(spec: TensorSpec, cut: _Cut) -> Callable[[int], int]:
    """Return a function from a chunk's number to its bytes of the tensor, without padding."""
    itemsize = spec.dtype.itemsize or 1
    axis = next((at for at, size in enumerate(cut.chunk) if size > 1), max(0, spec.rank - 1))
    below = math.prod(spec.shape[axis + 1 :]) * itemsize

    def size(number: int) -> int:
        if not spec.shape:
            return itemsize
        at = number % cut.grid[axis]
        rows = min(cut.chunk[axis], spec.shape[axis] - at * cut.chunk[axis])
        return rows * below

    return size


class _Compressed:
    """A chunk that becomes a zstd frame when it is whole, unless a resumed conversion has its frame."""

    def __init__(self, file: StagedFile | Upload, writer: FormatWriter) -> None:
        self._file = file
        self._writer = writer
        self._data = bytearray()

    def write(self, data: bytes) -> None:
        self._data += data

    def close(self) -> None:
        import cramjam
        import numpy as np

        staging = self._writer.staging
        journal = staging.journal if isinstance(staging, Staging) else None
        if journal is None or not isinstance(self._file, StagedFile):
            self._file.write(bytes(cramjam.zstd.compress(self._data, level=_LEVEL)))
            self._file.close()
            return
        place, read = Placement(self._file, 0), extend(0, np.frombuffer(self._data, np.uint8))
        entry = staging.path(place.name).entry()
        size = 0 if entry is None else entry.size
        claim = journal.claim(place.name, 0, size)
        if claim is not None and claim.read == (read,) and place.holds(0, claim):
            self._file.reserve(size)
            self._writer.kept += len(self._data)
        else:
            frame = bytes(cramjam.zstd.compress(self._data, level=_LEVEL))
            self._file.write(frame)
            journal.filled(place.name, 0, Claim(len(frame), extend(0, frame), (read,)))
        self._file.close()


def _pad(file: StagedFile | Upload | _Compressed, size: int) -> None:
    while size:
        part = _ZEROS[: min(size, len(_ZEROS))]
        file.write(part)
        size -= len(part)


def _zarray(spec: TensorSpec, cut: _Cut, compressor: Mapping[str, object] | None) -> bytes:
    name = spec.dtype.name
    native = spec.dtype.numpy.str if spec.dtype.native_numpy else name
    document = {
        "chunks": [*cut.chunk],
        "compressor": compressor,
        "dimension_separator": ".",
        "dtype": native,
        "fill_value": None,
        "filters": None,
        "order": "C",
        "shape": [*spec.shape],
        "zarr_format": 2,
    }
    return json.dumps(document, separators=(",", ":")).encode()
