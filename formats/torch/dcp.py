"""A distributed checkpoint: a folder of `.metadata` and `__RANK_N.distcp` files, read as one checkpoint.

    .metadata         see `formats.torch.dcp_metadata`
    __0_0.distcp      PyTorch files one behind the other, each of a chunk of a tensor, or of another value

Listing reads `.metadata` alone, which has no checksum: the description of a chunk is compared with its own
file when it is read. The chunks of a tensor tile it without gaps, and are read as one.
torch/distributed/checkpoint
"""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..core.chunks import PIECE
from ..core.dtypes import INVALID
from ..core.region import fill, full_index, index_shape, region_of, tiling_flaw
from ..core.slicing import allocate, region_chunks
from ..core.spec import TensorSpec, key_bytes, key_text
from ..core.words import counted
from ..errors import (
    REFUSED,
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedFeatureError,
)
from ..model.expansion import expansion_flaw
from ..model.reader import FormatReader
from ..model.tensor import LazyTensor
from ..model.verification import Finding, Verification
from ..model.weight_map import shard_path
from ..store.archive.reader import Archive
from ..store.archive.subfile import SubFile
from ..store.content_cache import whole
from ..store.work.workers import SERIAL, Workers
from .dcp_metadata import Distributed, NotReadError, decode
from .facts import TorchFacts
from .keys import escaped
from .kinds import kinds_of
from .objects import Storage, View, view_of_all
from .pickle import RejectedGlobalError
from .storages import LONGEST_PICKLE, ZipContainer, pickle_of
from .views import TorchTensor, readable_spec, stored_spec, view_flaw

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Index, Region
    from ..location import Location
    from ..model.probe import Probe
    from ..model.reader import Format
    from ..store.base import File
    from ..store.ranges import FileRange
    from .dcp_metadata import ChunkPosition, Described


class DcpReader(FormatReader):
    """Chunks in several files, and the `.metadata` that lists them."""

    lists_all = True  # .metadata names all tensors, or is rejected

    def __init__(self, probe: Probe, format: Format, *, lenient: bool) -> None:  # noqa: A002  the word of the field
        self.location = probe.location
        self.format = format
        self.findings: list[Finding] = []
        self._path = probe.location.head
        self._lenient = lenient
        self._files: dict[str, File] = {}
        self._lock = Lock()
        self._lacks: dict[str, CheckpointError] = {}
        decoded = self._decoded()
        self._others = decoded.others
        self._tensors = {
            key_text(key.encode("utf-8", "surrogatepass")): each for key, each in decoded.tensors.items()
        }
        self._specs = {key: self._spec(key) for key in sorted(self._tensors, key=key_bytes)}
        flaw = expansion_flaw(sum(spec.nbytes or 0 for spec in self._specs.values()), self._stored())
        if flaw is not None:
            raise UnsupportedFeatureError(flaw, path=self._path, code="tensor-size")

    def _stored(self) -> int:
        """Return the size of all chunks in bytes, each range counted once."""
        ranges = sorted(
            (chunk.file, chunk.begin, chunk.begin + chunk.length)
            for each in self._tensors.values()
            for chunk in each.chunks
        )
        stored, last, at = 0, "", 0
        for name, begin, end in ranges:
            at = at if name == last else 0
            stored += max(0, end - max(begin, at))
            last, at = name, max(at, end)
        return stored

    def _decoded(self) -> Distributed:
        with self._path.open() as file:
            if file.size > LONGEST_PICKLE:
                raise self._corrupt(f"the file has {file.size} bytes, over the limit of {LONGEST_PICKLE}")
            data = whole(file)
        try:
            return decode(data)
        except RejectedGlobalError as error:
            message = f"loading this file would run {error.name!r:.200}, which the pickle calls"
            raise UnsupportedFeatureError(message, path=self._path, code=REFUSED) from error
        except NotReadError as error:
            raise UnsupportedFeatureError(str(error), path=self._path, code="header") from error
        except ValueError as error:
            raise self._corrupt(f"the pickle cannot be read: {error}") from error

    def _corrupt(self, message: str, key: str | None = None, code: str = "header") -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self._path, key=key, code=code)

    def _spec(self, key: str) -> TensorSpec:
        described = self._tensors[key]
        flaw = _flaw(described)
        if flaw is not None:
            error = self._corrupt(flaw, key, "slice")
            if not self._lenient:
                raise error
            self._lacks[key] = error
            self.findings.append(Finding.of(error))
            return TensorSpec(key, INVALID, described.shape)
        return stored_spec(key, described.type, described.shape)

    @property
    def specs(self) -> Mapping[str, TensorSpec]:
        return self._specs

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        ways = {key: "/".join(map(escaped, self._tensors[key].way)) for key in self._specs}
        found = kinds_of({way: self._specs[key] for key, way in ways.items()})
        return {key: found[way] for key, way in ways.items()}

    @property
    def facts(self) -> TorchFacts:
        return TorchFacts(others=self._others)

    def tensor(self, key: str) -> DcpTensor:
        described = self._tensors[key]
        return DcpTensor(self, readable_spec(self._specs[key], described.type), described)

    def undecoded(self, key: str) -> CheckpointError:
        return self._lacks[key]

    def _named(self) -> list[str]:
        """Return the names of the files in which chunks are."""
        return sorted({chunk.file for each in self._tensors.values() for chunk in each.chunks})

    def files(self) -> Sequence[Location]:
        found = (shard_path(self._path, name) for name in self._named() if _is_name(name))
        return [self._path, *(path for path in found if path.is_file())]

    def missing_files(self) -> Sequence[Location]:
        found = (shard_path(self._path, name) for name in self._named() if _is_name(name))
        return [path for path in found if not path.is_file()]

    def file(self, name: str, key: str) -> File:
        """Return an open file of chunks.  Raises CorruptCheckpointError, UnsupportedFeatureError."""
        if not _is_name(name):
            message = f"the tensor is in {name!r:.200}, which is not a file in the folder of .metadata"
            raise UnsupportedFeatureError(message, path=self._path, key=key, code="header")
        with self._lock:
            found = self._files.get(name)
            if found is None:
                path = shard_path(self._path, name)
                try:
                    found = self._files[name] = path.open()
                except CheckpointNotFoundError as error:
                    message = "this file is missing, but .metadata places tensors in it"
                    raise CorruptCheckpointError(message, path=path, key=key, code="shard-missing") from error
            return found

    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:  # noqa: ARG002  checked in order
        yield Verification(findings=tuple(self.findings))
        for key, spec in self._specs.items():
            if spec.dtype is not INVALID:
                yield from self._verified(key)

    def _verified(self, key: str) -> Iterator[Verification]:
        """Check everything that is stored of a tensor, chunk by chunk; continue after findings."""
        found: list[Finding] = []
        for part in self.tensor(key).parts:
            try:
                for piece in part.stored():
                    yield Verification(nbytes=len(piece))
            except CheckpointError as error:
                found.append(Finding.of(error, key))
        yield Verification(tensors=int(not found), findings=tuple(found))

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and not any(character in name for character in "/\\\0")


def regions_of(described: Described) -> list[Region]:
    return [
        region_of(tuple(zip(chunk.offsets, chunk.sizes, strict=True)), described.shape)
        for chunk in described.chunks
    ]


def _flaw(described: Described) -> str | None:
    """Return why the chunks of a tensor do not cover each element exactly once, or None."""
    try:
        flaw = tiling_flaw(regions_of(described), described.shape)
    except ValueError as error:
        return f"its chunks do not fit: {error}"
    count, shape = counted(len(described.chunks), "chunk"), list(described.shape)
    return None if flaw is None else f"{flaw} in its {count} for shape {shape}"


class StoredChunk:
    """A chunk: a PyTorch file within another, of one tensor."""

    def __init__(
        self, reader: DcpReader, spec: TensorSpec, described: Described, chunk: ChunkPosition
    ) -> None:
        self._reader = reader
        self._whole = spec
        self._chunk = chunk
        self._type = described.type

    @cached_property
    def _part(self) -> SubFile:
        chunk = self._chunk
        file = self._reader.file(chunk.file, self._whole.key)
        if chunk.begin + chunk.length > file.size:
            message = (
                f"a chunk ends at byte {chunk.begin + chunk.length}, but the file has only {file.size} bytes"
            )
            raise CorruptCheckpointError(
                message, path=file.path, key=self._whole.key, offset=file.size, code="shard-short"
            )
        return SubFile(file, chunk.begin, chunk.length)

    @cached_property
    def container(self) -> ZipContainer:
        """The file that it is.  Raises CorruptCheckpointError, UnsupportedFeatureError."""
        try:
            archive = Archive(self._reader.location.head.of(self._part.path), self._part)
            if pickle_of(archive) is None:
                raise self._other("this is not a PyTorch file")
            return ZipContainer(archive)
        except CheckpointError as error:
            error.key = error.key or self._whole.key
            raise

    @cached_property
    def tensor(self) -> TorchTensor:
        """Its tensor, which must match .metadata."""
        root = self.container.root
        view = view_of_all(root) if type(root) is Storage else root
        if type(view) is not View or view.storage is None:
            raise self._other("no tensor")
        if (view.type, view.shape) != (self._type, self._chunk.sizes):
            raise self._other(f"{view.type.name} {list(view.shape)}")
        flaw = view_flaw(view, self.container)
        if flaw is not None:
            raise self._other(flaw)
        spec = TensorSpec(self._whole.key, self._whole.dtype, view.shape)
        return TorchTensor(self.container, spec, view)

    def _other(self, found: str) -> CorruptCheckpointError:
        message = f".metadata says {self._type.name} {list(self._chunk.sizes)}, but {found} was found"
        return CorruptCheckpointError(
            message, path=self._part.path, key=self._whole.key, offset=self._part.begin, code="slice"
        )

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        return self.tensor.read_region(index)

    def stored(self) -> Iterator[bytes]:
        """Yield all bytes that have a checksum, compared at the end of each member."""
        self.tensor  # noqa: B018  compares it with .metadata
        for pieces in self.container.other_pieces(set()):
            yield from pieces

    def file_range(self) -> FileRange | None:
        return self._in_whole(self.tensor.file_range())

    def shard_range(self) -> FileRange | None:
        return self._in_whole(self.tensor.shard_range())

    def _in_whole(self, found: FileRange | None) -> FileRange | None:
        """Return the range of values in the file that contains it."""
        if found is None:
            return None
        return found._replace(file=self._part.whole, offset=self._part.begin + found.offset)


class DcpTensor(LazyTensor):
    """A tensor of one chunk, or of several."""

    def __init__(self, reader: DcpReader, spec: TensorSpec, described: Described) -> None:
        super().__init__(spec)
        self._path = reader.location.head
        self._regions = regions_of(described)
        self.parts = [StoredChunk(reader, spec, described, chunk) for chunk in described.chunks]

    @property
    def _only(self) -> TorchTensor | None:
        """The tensor of the one chunk that is all of it."""
        return self.parts[0].tensor if len(self.parts) == 1 else None

    def read(self) -> np.ndarray[Any, Any]:
        only = self._only
        return self.read_region(full_index(self.spec.shape)) if only is None else only.read()

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        out = allocate(self.spec, index_shape(index), self._path)
        parts = zip(self._regions, self.parts, strict=True)
        fill(out, index, ((region, part.read_region) for region, part in parts))
        return out

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        only = self._only
        if only is not None:
            return only.chunks(max_bytes)
        return self.region_chunks(full_index(self.spec.shape), max_bytes)

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        only = self._only
        if only is not None:
            return only.region_chunks(index, max_bytes)
        return region_chunks(self.read_region, index, self.spec.dtype.itemsize or 1, max_bytes)

    def file_range(self) -> FileRange | None:
        return self.parts[0].file_range() if len(self.parts) == 1 else None

    def shard_range(self) -> FileRange | None:
        return self.parts[0].shard_range() if len(self.parts) == 1 else None
