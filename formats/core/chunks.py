"""Tensors as streams: what readers hand out in pieces and writers take in pieces.

The chunks of a fixed-width tensor are its elements' bytes, little-endian, in C order,
cut anywhere between two elements.  The chunks of strings and variants are its elements,
one bytes object each, in C order.  A tensor may be larger than memory; a chunk is not.
"""

from __future__ import annotations

from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Self

from ..errors import ConversionError, leave_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np

    from .spec import TensorSpec

    Chunk = bytes | np.ndarray[Any, Any]
    """Bytes, or a flat array of uint8: what checksums and files take without a copy."""


PIECE = 1 << 20
"""Bytes read at a time: past 1 MiB nothing gets faster, and the processor's cache still holds it."""


_GLANCE = 256
"""Bytes that are looked at before all others are."""


def array_chunks(array: np.ndarray[Any, Any], max_bytes: int = PIECE) -> Iterator[Chunk]:
    """Yield an array as chunks; elements of an object array must be bytes."""
    import numpy as np

    if array.dtype.hasobject:
        yield from array.reshape(-1)
        return
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not np.little_endian):
        array = array.astype(array.dtype.newbyteorder("<"))
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    step = whole_elements(max_bytes, array.dtype.itemsize)
    for at in range(0, flat.size, step):
        yield flat[at : at + step]


def whole_elements(max_bytes: int, itemsize: int) -> int:
    """Return the largest number of bytes up to `max_bytes` that is whole elements, one at least."""
    return max(itemsize, max_bytes // itemsize * itemsize)


def stored_chunks(
    read: Callable[[int, int], bytes], offset: int, size: int, itemsize: int, max_bytes: int
) -> Iterator[Chunk]:
    """Yield contiguous data as chunks of whole elements; `read(offset, size)` returns exactly `size`
    bytes.
    """
    step = whole_elements(max_bytes, itemsize)
    for at in range(0, size, step):
        yield read(offset + at, min(step, size - at))


def chunks_of(spec: TensorSpec, data: Any) -> Iterator[Chunk]:
    """Yield the data of a tensor as chunks, after a comparison with its spec.

    An array must have the spec's shape and dtype.  Anything else is chunks: bytes-like
    objects, or one of them alone.  Raises ValueError if the data are not what the
    spec says, at the latest when the last chunk has passed.
    """
    import numpy as np

    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        if array.shape != spec.shape:
            raise ValueError(f"tensor {spec.key!r}: the array has shape {array.shape}; expected {spec.shape}")
        data = array_chunks(_of_dtype(spec, array))
    elif isinstance(data, bytes | bytearray | memoryview):
        data = (data,)
    return _checked_elements(spec, data) if spec.dtype.itemsize is None else _checked_bytes(spec, data)


def _of_dtype(spec: TensorSpec, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array as the spec's dtype has it: strings as objects, numbers as they must be already."""
    import numpy as np

    wanted = spec.dtype.numpy
    if spec.dtype.itemsize is None and array.dtype.kind in "OSU":
        out = np.empty(array.shape, object)
        for at, element in np.ndenumerate(array):
            out[at] = element.encode("utf-8", "surrogateescape") if isinstance(element, str) else element
        return out
    if array.dtype != wanted and array.dtype.newbyteorder("=") != wanted:
        raise ValueError(f"tensor {spec.key!r}: the array has dtype {array.dtype}; expected {spec.dtype}")
    return array


def _checked_elements(spec: TensorSpec, elements: Iterable[Any]) -> Iterator[Chunk]:
    count = 0
    for element in elements:
        if not isinstance(element, bytes | bytearray | memoryview):
            raise TypeError(f"tensor {spec.key!r}: element {count} is {type(element).__name__}, not bytes")
        count += 1
        yield bytes(element)
    if count != spec.size:
        raise ValueError(f"tensor {spec.key!r}: found {count} elements; expected {spec.size}")


def _checked_bytes(spec: TensorSpec, chunks: Iterable[Any]) -> Iterator[Chunk]:
    import numpy as np

    expected = spec.nbytes
    assert expected is not None
    total = 0
    for given in chunks:
        chunk = given if isinstance(given, bytes) else np.frombuffer(given, np.uint8)
        total += len(chunk)
        if total > expected:
            break
        if len(chunk):
            yield chunk
    if total != expected:
        raise ValueError(f"tensor {spec.key!r}: found {total} bytes; expected {expected}")


def view_of(chunk: Chunk) -> memoryview:
    """Return a chunk's bytes without copying them."""
    return memoryview(chunk) if isinstance(chunk, bytes) else chunk.data


def equal_bytes(one: Chunk | memoryview, other: Chunk | memoryview) -> bool:
    """Whether two pieces of one length are the same bytes, at the speed of memory.

    Views of memory compare with each other one element at a time, thirty times slower.
    """
    import numpy as np

    if isinstance(one, bytes) and isinstance(other, bytes):
        return one == other
    whole = len(one) // 8 * 8
    if len(one) != len(other) or bytes(one[whole:]) != bytes(other[whole:]):
        return False
    if bytes(one[:_GLANCE]) != bytes(other[:_GLANCE]):
        return False  # as what differs mostly does
    words, others = (np.frombuffer(side, np.uint64, whole // 8) for side in (one, other))
    return np.array_equal(words, others)


class ChunkSource:
    """Hands out the bytes of chunks in portions of any size."""

    def __init__(self, chunks: Iterator[Chunk]) -> None:
        self._chunks = chunks
        self._chunk: Chunk = b""
        self._at = 0

    def take(self, size: int) -> Chunk:
        """Return the next `size` bytes, without a copy if one chunk has them.

        The stream must hold them: its source checks its length.
        """
        left = len(self._chunk) - self._at
        if size < left:
            self._at += size
            return self._chunk[self._at - size : self._at]
        # A chunk that is used up is let go: a thousand sources must not hold a thousand chunks.
        rest, self._chunk, self._at = self._chunk[self._at :], b"", 0
        if size == left:
            return rest
        out = bytearray(view_of(rest))
        while len(out) < size:
            chunk = next(self._chunks)
            wanted = size - len(out)
            out += view_of(chunk[:wanted])
            if wanted < len(chunk):
                self._chunk, self._at = chunk, wanted
        return bytes(out)

    def skip(self, size: int) -> None:
        """Pass over the next `size` bytes."""
        while size > len(self._chunk) - self._at:
            size -= len(self._chunk) - self._at
            self._chunk, self._at = next(self._chunks), 0
        self._at += size

    def finish(self) -> None:
        """Run the stream to its end, where its source checks what it has checked for."""
        for _ in self._chunks:
            pass


class FixedWidth:
    """The strings of a tensor, waiting until the longest is known, then padded to its length.

    Formats whose strings have a fixed width pad with NUL, so an element that ends in NUL would come back
    shorter. Such elements are rejected. Strings wait in memory, or many of them in a file in `directory`. A
    context manager.
    """

    MOST_IN_MEMORY = 16 * PIECE
    MOST_PADDING = 1 << 30
    """Bytes of padding that are not worth a question; beyond them it may not be most of the file."""

    def __init__(self, spec: TensorSpec, elements: Iterable[Chunk], directory: str | None) -> None:
        import tempfile  # takes a tenth of the time of listing a small checkpoint

        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(self.MOST_IN_MEMORY, dir=directory)  # noqa: SIM115
        self._lengths: list[int] = []
        self.has_nul = False
        try:
            for element in elements:
                data = bytes(element)
                self._lengths.append(len(data))
                self._file.write(data)
                self.has_nul = self.has_nul or b"\0" in data
                if data.endswith(b"\0"):
                    hints = (leave_out(spec.key),)
                    message = "an element ends in NUL, which fixed-width strings cannot store"
                    raise ConversionError(message, key=spec.key, hints=hints)
            self.width = max(self._lengths, default=0) or 1
            padded, stored = self.width * len(self._lengths), sum(self._lengths)
            if padded > self.MOST_PADDING and padded > 100 * stored:
                hints = ("write a .json file, which stores strings unchanged",)
                message = f"its strings of {stored} bytes would take {padded} bytes as fixed-width strings"
                raise ConversionError(message, key=spec.key, hints=hints)
        except BaseException:
            self._close()
            raise

    def __iter__(self) -> Iterator[bytes]:
        """Yield the strings as they came."""
        self._file.seek(0)
        for length in self._lengths:
            yield self._file.read(length)

    def padded(self) -> Iterator[bytes]:
        """Yield the strings, each filled up to `width`, as many at a time as a piece holds."""
        batch: list[bytes] = []
        for element in self:
            batch.append(element.ljust(self.width, b"\0"))
            if len(batch) * self.width >= PIECE:
                yield b"".join(batch)
                batch.clear()
        yield b"".join(batch)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def _close(self) -> None:
        with suppress(OSError):  # data that a full disk did not take is discarded
            self._file.close()


def same_bytes(left: Iterator[Chunk], right: Iterator[Chunk]) -> bool:
    """Whether two streams are the same bytes, however they are cut."""
    mine: memoryview = memoryview(b"")
    for chunk in right:
        theirs = view_of(chunk)
        while len(theirs):
            if not mine:
                following = next(left, None)
                if following is None:
                    return False
                mine = view_of(following)
            size = min(len(mine), len(theirs))
            if not equal_bytes(mine[:size], theirs[:size]):
                return False
            mine, theirs = mine[size:], theirs[size:]
    return not len(mine) and next(left, None) is None
