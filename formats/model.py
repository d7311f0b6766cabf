"""What all formats have in common: tensors with a key, a dtype and a shape.

A reader is a mapping of keys to tensors that are read when asked for.  Opening it
reads no tensor data.  Keys are text in which bytes that are not UTF-8 stand as lone
surrogates (`os.fsdecode`'s surrogateescape), so that every key of a file is a
different text, and `key_bytes` gives its bytes back.

A format is one `Format`: its names, how to recognise it, and its reader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from .dtypes import INVALID, DType
from .errors import CheckpointError, CorruptCheckpointError, TensorNotFoundError
from .files import PIECE
from .workers import SERIAL, Workers

if TYPE_CHECKING:
    import numpy as np

    from .chunks import Chunk
    from .paths import Fingerprint, Location
    from .probe import Probe
    from .ranges import FileRange
    from .tf.object_graph import ObjectGraph
    from .tf.slices import Extents
    from .writing import CheckpointWriter, Target

__all__ = [
    "CheckpointReader",
    "Finding",
    "Format",
    "Index",
    "LazyTensor",
    "Stored",
    "TensorSpec",
    "Verification",
    "is_utf8",
    "key_bytes",
    "key_text",
]

KINDS = ("variable", "slot", "optimizer", "state", "graph")

Index = tuple[slice, ...]
"""A region: for each dimension one slice within it, of step 1 or more."""


def key_text(key: bytes) -> str:
    """Return a stored key as text; bytes that are not UTF-8 become lone surrogates."""
    return key.decode("utf-8", "surrogateescape")


def key_bytes(key: str) -> bytes:
    """Return the bytes of a key as stored."""
    return key.encode("utf-8", "surrogateescape")


def is_utf8(text: str) -> bool:
    """Whether text from a file was UTF-8 there: it has no lone surrogates, which stand for other bytes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class TensorSpec(NamedTuple):
    """A tensor without its values: key, dtype, shape.

    `stored` is its size in bytes on disk, where that does not follow from the
    shape (strings, variants).  `dtype` is INVALID where the file's entry cannot be decoded.
    """

    key: str
    dtype: DType
    shape: tuple[int, ...]
    stored: int | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for dim in self.shape:
            size *= dim
        return size

    @property
    def nbytes(self) -> int | None:
        """Bytes: elements times item size, or what is stored; None where the dtype is unknown."""
        itemsize = self.dtype.itemsize
        return self.stored if itemsize is None else self.size * itemsize

    def __lt__(self, other: tuple[Any, ...]) -> bool:
        return key_bytes(self.key) < key_bytes(other[0])


class Stored(NamedTuple):
    """Where a tensor's bytes lie, in one piece: shard number, offset, masked CRC-32C.

    None where a format has no such thing, and for tensors stored in slices.  The
    checksum is of the bytes as they lie there, so `big_endian` is a part of what it says.
    """

    shard: int | None = None
    offset: int | None = None
    crc32c: int | None = None
    big_endian: bool = False


class LazyTensor(ABC):
    """A tensor in a file, read when asked for."""

    has_values: ClassVar[bool] = True
    """Whether there are values to read; a listing knows their checksum alone."""

    def __init__(self, spec: TensorSpec) -> None:
        self.spec = spec

    @property
    def stored(self) -> Stored:
        return Stored()

    @abstractmethod
    def read(self) -> np.ndarray[Any, Any]:
        """Return the tensor, checked against its stored checksum where there is one.

        The array owns its memory and is writable.  Strings and variants are object
        arrays of bytes.  Raises ChecksumError, CorruptCheckpointError.
        """

    def read_slice(self, index: Any) -> np.ndarray[Any, Any]:
        """Return `read()[index]`, always as an array, checked as `read` is.

        `index` is integers, slices that go forward and `...`, as numpy takes them.  Raises
        IndexError where it is another or does not fit the shape, and what `read` raises.

        A checksum covers the whole tensor, of a partitioned one each piece, so all of what
        it covers is read; no more than the part is held.  A format without checksums reads
        no more than the part.
        """
        from .slicing import index_shape, normal_index

        region, dropped = normal_index(index, self.spec.shape)
        sizes = enumerate(index_shape(region))
        return self.read_region(region).reshape([size for axis, size in sizes if axis not in dropped])

    @abstractmethod
    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        """Return what an index selects that is known to fit, of as many dimensions as the tensor.

        Checked, and at the cost, that `read_slice` says.
        """

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        """Yield what `read_region` returns as `chunks` yields the whole, and checked as there.

        Formats that cannot do better read the region first.
        """
        from .chunks import array_chunks

        return array_chunks(self.read_region(index), max_bytes)

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        """Yield the tensor in pieces of at most `max_bytes`, or one element where that is larger.

        Fixed-width tensors come as bytes, little-endian, in C order; strings and variants
        as their elements.  The checksum is compared when the last piece has passed: whoever
        stops before that has values that nobody checked.
        Formats that cannot do better read the whole tensor first.
        """
        from .chunks import array_chunks

        return array_chunks(self.read(), max_bytes)

    def file_range(self) -> FileRange | None:
        """Return where the values lie, if a file has them in one piece just as `chunks` gives them.

        Size and place have been held against the file; the values are not checked, that is
        left to whoever reads them, by the range's `check`.  Raises CorruptCheckpointError.
        """
        return None

    def pieces(self) -> list[tuple[Extents, LazyTensor]]:
        """Return the slices of a partitioned tensor, with their extents as stored; of others, none.

        Each is a tensor that is checked by itself when it is read.
        """
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec.key!r} {self.spec.dtype} {list(self.spec.shape)}>"


class Finding(NamedTuple):
    """One thing that is wrong with a checkpoint; `severity` is error or warning."""

    severity: str
    code: str
    message: str
    key: str | None = None
    file: str | None = None
    offset: int | None = None

    @classmethod
    def of(cls, error: CorruptCheckpointError, key: str | None = None) -> Finding:
        return cls("error", error.code, error.message, error.key or key, error.path, error.offset)

    @property
    def text(self) -> str:
        """What is wrong, where, in a line."""
        where = f" (tensor {self.key})" if self.key else ""
        return f"{self.file}: {self.message}{where}"


class Verification(NamedTuple):
    """One step of verifying a checkpoint: bytes gone through, whole tensors found sound, what was found."""

    nbytes: int = 0
    tensors: int = 0
    findings: tuple[Finding, ...] = ()


class CheckpointReader(Mapping[str, LazyTensor], ABC):
    """An open checkpoint; a context manager.

    `findings` are the flaws that opening came across and that keep no tensor from
    being listed; the flaws that do are raised, unless it was opened `lenient`.
    """

    has_checksums: ClassVar[bool] = True
    """Whether the format stores checksums; without them a flipped bit in a value is noticed by nobody."""

    format: Format
    location: Location
    object_graph: ObjectGraph | None = None
    findings: list[Finding]
    fingerprint: Fingerprint | None = None
    """What the files were before they were opened."""

    @property
    @abstractmethod
    def specs(self) -> Mapping[str, TensorSpec]:
        """All specs by key, in the order of key bytes."""

    @property
    def metadata(self) -> dict[str, Any]:
        """What the file says of itself: producer, configuration."""
        return {}

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, str]:
        """Kind by key: variable, slot, optimizer, state or graph."""

    @property
    def object_paths(self) -> Mapping[str, str]:
        """Object path by key, for the keys that have one."""
        return {}

    @property
    def full_names(self) -> Mapping[str, str]:
        """Full name by key, for the keys that have one."""
        return {}

    def owners_of(self, name: str) -> tuple[str, ...]:
        """Return a hint that names the keys of a full name; none where no tensor has it."""
        keys = [repr(key) for key, full_name in self.full_names.items() if full_name == name]
        return (f"that is the full name of {' and of '.join(keys)}",) if keys else ()

    @abstractmethod
    def tensor(self, key: str) -> LazyTensor:
        """Return the tensor of a key that is in `specs`."""

    def files(self) -> list[str]:
        """Return the paths of the checkpoint's files that are there."""
        return self.location.files()

    def missing_files(self) -> list[str]:
        """Return the paths of files that hold tensors and are not there."""
        return []

    @abstractmethod
    def verify(self, workers: Workers = SERIAL) -> Iterator[Verification]:
        """Check structure, then every tensor, and go on after what is found.

        What is yielded does not depend on who does the work.
        """

    def has_changed(self) -> bool:
        """Whether a file was written to, replaced or removed since the checkpoint was opened."""
        return self.fingerprint is not None and self.location.fingerprint() != self.fingerprint

    def check_unchanged(self) -> None:
        """Raise a CheckpointError where it has changed: what was read may be of two checkpoints."""
        if self.has_changed():
            raise CheckpointError("changed while it was read", path=self.location.path)

    def close(self) -> None:
        """Close all files."""

    def __getitem__(self, key: str) -> LazyTensor:
        spec = self.specs.get(key)
        if spec is None:
            hints = self.owners_of(key)
            raise TensorNotFoundError("no such tensor", path=self.location.path, key=key, hints=hints)
        if spec.dtype is INVALID:
            raise self.undecoded(key)
        return self.tensor(key)

    def undecoded(self, key: str) -> CheckpointError:
        """Return why a tensor has no dtype, and so no values."""
        return CorruptCheckpointError(
            "its entry cannot be decoded", path=self.location.path, key=key, code="entry"
        )

    def __contains__(self, key: object) -> bool:
        return key in self.specs

    def __iter__(self) -> Iterator[str]:
        return iter(self.specs)

    def __len__(self) -> int:
        return len(self.specs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if isinstance(error, CheckpointError) and self.has_changed():
            hint = f"{self.location.path} changed while it was read: run this again when nobody writes to it"
            error.hints = (hint, *error.hints)
        self.close()


class Format(NamedTuple):
    """One checkpoint format: a module's `FORMAT`, found by the registry.

    `sniff` looks at a probe and says whether this is its format; formats exclude each
    other, so their order means nothing.  `open` reads; `lenient` asks it to list what
    it can of a damaged checkpoint.  `writer` makes one that writes;
    `dtypes` are the names of those it can hold.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Callable[[Probe], bool]
    open: Callable[[Probe, bool], CheckpointReader]
    writer: Callable[[Target], CheckpointWriter]
    dtypes: frozenset[str]
