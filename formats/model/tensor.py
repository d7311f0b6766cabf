"""A tensor in a file, read on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..core.chunks import PIECE
from ..errors import UnsupportedFeatureError, leave_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Extents, Index
    from ..store.ranges import DecodedRange, FileRange
from ..core.spec import Stored, TensorSpec


class LazyTensor(ABC):
    """A tensor in a file, read on demand."""

    __slots__ = ("spec",)

    has_values: ClassVar[bool] = True
    """Whether there are values to read; a listing knows their checksum alone."""

    listed_digest: str | None = None
    """The digest in a listing; None if there is none, or this is not a listing."""

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
        IndexError if it is another or does not fit the shape, and what `read` raises.

        A checksum covers the whole tensor, of a partitioned one each piece, so all of what
        it covers is read; no more than the part is held.  A format without checksums reads
        no more than the part.
        """
        from ..core.region import index_shape, normal_index

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
        from ..core.chunks import array_chunks

        return array_chunks(self.read_region(index), max_bytes)

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        """Yield the tensor in pieces of at most `max_bytes`, or one element where that is larger.

        Fixed-width tensors come as bytes, little-endian, in C order; strings and variants
        as their elements.  The checksum is compared after the last piece: if you stop earlier,
        the values are not checked.
        Formats that cannot do better read the whole tensor first.
        """
        from ..core.chunks import array_chunks

        return array_chunks(self.read(), max_bytes)

    def stored_rows(self, first: int, last: int) -> tuple[np.ndarray[Any, Any], int]:  # noqa: ARG002  none
        """Return the stored blocks of some rows, a row of bytes each, and how many values a block has.

        Only tensors of block types have blocks; their rows are whole blocks.
        """
        raise UnsupportedFeatureError("this tensor is not stored in blocks", key=self.spec.key)

    def file_range(self) -> FileRange | None:
        """Return where the values are stored, if a file has them in one piece just as `chunks` gives them.

        Size and offset are checked against the file.  The values are not: read them and call
        the range's `check`.  Raises CorruptCheckpointError.
        """
        return None

    def decoded_range(self) -> DecodedRange | None:
        """Return the values as blocks that threads can decode at the same time, if the format has blocks.

        They are what `chunks` gives, and are checked as there.
        """
        return None

    def digest_range(self) -> FileRange | None:
        """Return where the bytes of the digest are stored, as `file_range` does.

        For bools these are the stored bytes, even if they are neither 0 nor 1 and are read as 1.
        Raises CorruptCheckpointError.
        """
        return self.file_range()

    def shard_range(self) -> FileRange | None:
        """Return where the values are stored, if a file has them in one piece as a bundle's data shard does.

        The file can then be used as a shard, and the bundle's index takes over the range's
        checksum.  If there is none, read `chunks` to compute it: they are checked, and are
        the bytes of the range.  Raises CorruptCheckpointError.
        """
        return self.file_range()

    def known_digest(self, algorithm: str) -> str | None:  # noqa: ARG002  the same for every algorithm
        """Return the digest of the values (`formats.model.digest`) where it is stored; None if it is not.

        Raises UnsupportedFeatureError if there are no values to compute it from, either.
        """
        return None

    def index_digest(self) -> str | None:
        """Return the digest in an index of values in other files; None if there is none."""
        return None

    def pieces(self) -> list[tuple[Extents, LazyTensor]]:
        """Return the slices of a partitioned tensor, with their extents as stored; of others, none.

        Each is a tensor that is checked by itself when it is read.
        """
        return []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec.key!r} {self.spec.dtype} {list(self.spec.shape)}>"


class StoredBytes(LazyTensor):
    """A tensor of a type that is not mapped: its stored bytes, which cannot be decoded here."""

    __slots__ = ("_path", "_tensor")

    def __init__(self, spec: TensorSpec, tensor: LazyTensor, path: str) -> None:
        super().__init__(spec)
        self._tensor = tensor
        self._path = path

    def _refuse(self) -> NoReturn:
        message = f"values of dtype {self.spec.dtype} cannot be read"
        hints = (leave_out(self.spec.key),)
        raise UnsupportedFeatureError(message, path=self._path, key=self.spec.key, code="dtype", hints=hints)

    @property
    def stored(self) -> Stored:
        return self._tensor.stored

    def read(self) -> np.ndarray[Any, Any]:
        self._refuse()

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:  # noqa: ARG002  no part of it, either
        self._refuse()

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return self._tensor.chunks(max_bytes)

    def file_range(self) -> FileRange | None:
        return self._tensor.file_range()

    def digest_range(self) -> FileRange | None:
        return self._tensor.digest_range()

    def known_digest(self, algorithm: str) -> str | None:
        return self._tensor.known_digest(algorithm)

    def index_digest(self) -> str | None:
        return self._tensor.index_digest()
