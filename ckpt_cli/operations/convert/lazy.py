"""Tensors made of other tensors, element by element: another dtype, a mean, a multiple.

The recipe for the elements is a value of its own, so that a task can carry it to the bytes. `values_of` says
which ranges of files make up a tensor's bytes, if files store its values unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from formats.core.chunks import PIECE, ChunkSource, whole_elements
from formats.core.region import region_of, tiling_flaw
from formats.model.tensor import LazyTensor
from formats.store.ranges import DecodedRange, FileRange, Sum, buffers, cut
from formats.store.work.task_context import larger_blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np

    from formats.core.chunks import Chunk
    from formats.core.dtypes import DType
    from formats.core.region import Extents, Index
    from formats.core.spec import TensorSpec
    from formats.store.journal import Claim
    from formats.store.ranges import ValueRange


class Cast(NamedTuple):
    """Makes values of another dtype."""

    have: DType
    want: DType

    def __call__(self, pieces: Iterable[Chunk]) -> Chunk:
        import numpy as np

        (piece,) = pieces
        with np.errstate(over="ignore", invalid="ignore"):
            return np.frombuffer(piece, self.have.numpy).astype(self.want.numpy).view(np.uint8)


class Mean(NamedTuple):
    """Makes the mean, summed in float64 (complex128) and rounded once."""

    dtype: DType
    number: int

    def __call__(self, pieces: Iterable[Chunk]) -> Chunk:
        import numpy as np

        wide = np.complex128 if self.dtype.family == "complex" else np.float64
        arrays = (np.frombuffer(piece, self.dtype.numpy) for piece in pieces)
        # NaN and infinity pass into the mean, as they should; so does -0, which 0 + -0 would not be.
        with np.errstate(all="ignore"):
            total = next(arrays).astype(wide)
            for array in arrays:
                total += array
            total /= self.number
            return total.astype(self.dtype.numpy).view(np.uint8)


class Scale(NamedTuple):
    """Makes values times a number, rounded as the dtype multiplies."""

    dtype: DType
    factor: float

    def __call__(self, pieces: Iterable[Chunk]) -> Chunk:
        import numpy as np

        (piece,) = pieces
        values = np.frombuffer(piece, self.dtype.numpy)
        with np.errstate(over="ignore", invalid="ignore"):
            made: np.ndarray[Any, Any] = values * values.dtype.type(self.factor)
        return made.view(np.uint8)


Make: TypeAlias = Cast | Mean | Scale
"""Computes a range of values from the same range of every source, one source at a time; plain data."""

_MOST_HELD = 16 * PIECE
"""Bytes of sources held at a time where they are streamed, however many they are."""

READ_BACK = 1 << 19
"""Bytes copied at a time if they are read back at once: the processor's cache still holds them.

Half as many cost two threads twice as much system time: they wait for the interpreter's lock at each piece.
"""

_SMALLEST_STEP = 1 << 16
_MADE_AT_ONCE = 1 << 19
"""Bytes made at a time by one or two threads: more would leave the processor's cache as float64.

A quarter as many cost two threads 80 % more processor time, because each piece takes the lock many times.
"""


class Computed(LazyTensor):
    """A tensor whose values are made of those of `origins`, which have one dtype and shape."""

    def __init__(self, spec: TensorSpec, origins: Sequence[LazyTensor], make: Make) -> None:
        super().__init__(spec)
        self.origins = tuple(origins)
        self.make = make

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        itemsize, size = self.origins[0].spec.dtype.itemsize, self.origins[0].spec.nbytes
        assert itemsize is not None
        assert size is not None
        share = max(_SMALLEST_STEP, _MOST_HELD // len(self.origins))
        step = whole_elements(min(max_bytes, share), itemsize)
        sources = [ChunkSource(origin.chunks(step)) for origin in self.origins]
        for at in range(0, size, step):
            stop = min(at + step, size)
            yield self.make(source.take(stop - at) for source in sources)
        for source in sources:
            source.finish()

    def pieces(self) -> list[tuple[Extents, LazyTensor]]:
        """Return the slices that all origins have, each made of theirs; none if they leave gaps."""
        slices = [origin.pieces() for origin in self.origins]
        regions = [region_of(extents, self.spec.shape) for extents, _ in slices[0]]
        if len({tuple(extents for extents, _ in found) for found in slices}) > 1:
            return []
        if regions and tiling_flaw(regions, self.spec.shape):
            return []
        pieces: list[tuple[Extents, LazyTensor]] = []
        for same in zip(*slices, strict=True):
            extents, first = same[0]
            spec = self.spec._replace(shape=first.spec.shape)
            pieces.append((extents, Computed(spec, [piece for _, piece in same], self.make)))
        return pieces

    def read(self) -> np.ndarray[Any, Any]:
        import numpy as np

        data = b"".join(map(bytes, self.chunks()))
        return np.frombuffer(data, self.spec.dtype.numpy).reshape(self.spec.shape).copy()

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        return self.read()[index]


def cast(tensor: LazyTensor, dtype: DType) -> LazyTensor:
    """Return a tensor in a dtype: itself, where it has that."""
    if tensor.spec.dtype is dtype:
        return tensor
    spec = tensor.spec.plain._replace(dtype=dtype, stored=None)
    return Computed(spec, (tensor,), Cast(tensor.spec.dtype, dtype))


# Ranges ---------------------------------------------------------------------------


class Sums:
    """Unmasked checksums of a range: of what was made, and of the sources that it was computed from.

    `kept` are the bytes that an interrupted conversion had already written. The result `is_proved` if it was
    read back after writing, and equal.
    """

    __slots__ = ("is_proved", "kept", "made", "read")

    def __init__(self, made: Sum, read: list[Sum]) -> None:
        self.made = made
        self.read = read
        self.kept = 0
        self.is_proved = False

    def add(self, following: Sums) -> Sums:
        """Take in the sums of the next range, and return these."""
        self.made.add(following.made)
        for mine, theirs in zip(self.read, following.read, strict=True):
            mine.add(theirs)
        self.kept += following.kept
        self.is_proved &= following.is_proved
        return self


class LazyValues(NamedTuple):
    """The `size` bytes of a tensor, and the ranges of files that they are made of, or are."""

    size: int
    sources: tuple[ValueRange, ...]
    make: Make | None = None

    @property
    def can_travel(self) -> bool:
        """Whether another process can read them, too."""
        return all(isinstance(source, FileRange) for source in self.sources)

    def ranges(self, most: int) -> Iterator[tuple[int, int]]:
        """Yield the range of each task: whole blocks, because a block is decoded at once."""
        blocks = [
            source.step * self.size // source.size
            for source in self.sources
            if isinstance(source, DecodedRange)
        ]
        yield from cut(self.size, max(1, most // blocks[0]) * blocks[0] if blocks else most)

    @property
    def unchecked(self) -> LazyValues:
        """The same without checksums of the sources, which were compared already."""
        return self._replace(sources=tuple(source.unchecked for source in self.sources))

    def sums(self, *, zipped: bool = False) -> Sums:
        """Return what to take checksums of a range with: CRC-32, too, of what is `zipped`."""
        if self.make is not None:
            return Sums(Sum(crc32=0 if zipped else None), [source.sum() for source in self.sources])
        return Sums(Sum(crc32=0) if zipped else self.sources[0].sum(), [])

    def pieces(self, begin: int, end: int, sums: Sums, most: int = PIECE) -> Iterator[Chunk]:
        """Yield the bytes from `begin` to `end`, at most so many at a time, and add to their checksums.

        A piece is valid until the next one is requested.
        """
        buffer, _ = buffers()
        for source in self.sources:
            source.expect(begin * source.size // (self.size or 1), end * source.size // (self.size or 1))
        step = most if self.make is None else min(most, _MADE_AT_ONCE * larger_blocks(), self._fitting)
        for at in range(begin, end, step):
            stop = min(at + step, end)
            if self.make is None:  # then what is read is what is made
                piece: Chunk = self.sources[0].read(at, stop, buffer)
            else:
                piece = self.make(self._read(at, stop, buffer, sums))
            sums.made.extend(piece)
            yield piece

    @property
    def _fitting(self) -> int:
        """How many bytes can be made of as many bytes of each source as the buffer holds."""
        size = self.size or 1
        return PIECE * size // max(size, *(source.size for source in self.sources))

    def stored_checksums(self, sums: Sums) -> tuple[int, ...]:
        """Return the checksums of what was read, where that of what was made does not tell them."""
        if self.make is None:
            return () if sums.made.crc32 is None else (sums.made.crc32,)
        return tuple(
            source.stored_checksum(read) for source, read in zip(self.sources, sums.read, strict=True)
        )

    def claimed(self, begin: int, end: int, claim: Claim) -> Sums | None:
        """Return the checksums of a range that is in its place, as a journal has them; None without one."""
        sums = self.sums()
        if len(claim.read) != len(self.stored_checksums(sums)):
            return None
        sums.made, sums.kept = Sum(claim.made, claim.size), claim.size
        if self.make is None:
            sums.made.crc32 = next(iter(claim.read), None)
            return sums
        for number, (source, crc) in enumerate(zip(self.sources, claim.read, strict=True)):
            first, last = (at * source.size // self.size for at in (begin, end))
            sums.read[number] = source.sum(last - first, crc)
        return sums

    def check(self, sums: Sums) -> None:
        """Compare the checksums of everything read with the stored ones; ChecksumError names the source."""
        for source, read in zip(self.sources, sums.read if self.make else (sums.made,), strict=True):
            source.check(read)

    def _read(self, begin: int, end: int, buffer: np.ndarray[Any, Any], sums: Sums) -> Iterator[Chunk]:
        for number, source in enumerate(self.sources):
            piece = source.read(begin * source.size // self.size, end * source.size // self.size, buffer)
            sums.read[number].extend(piece)
            yield piece


def values_of(tensor: LazyTensor, spec: TensorSpec) -> LazyValues | None:
    """Return what a tensor's bytes in the dtype of `spec` are made of; None if it must be streamed."""
    if spec.dtype.itemsize is None:
        return None
    wanted = cast(tensor, spec.dtype)
    origins, make = (wanted.origins, wanted.make) if isinstance(wanted, Computed) else ((wanted,), None)
    found: list[ValueRange | None] = [origin.file_range() for origin in origins]
    if found == [None]:  # of several tensors, each thread would need memory for a block of each
        found = [origins[0].decoded_range()]
    sources = tuple(source for source in found if source is not None)
    if len(sources) < len(found) or wanted.spec.nbytes != spec.nbytes:
        return None
    return LazyValues(spec.nbytes or 0, sources, make)


def scaled(tensor: LazyTensor, factor: float) -> Computed:
    """Return a tensor times a number, whose bytes are no longer those that are stored."""
    spec = tensor.spec.plain._replace(stored=None)
    return Computed(spec, (tensor,), Scale(spec.dtype, factor))
