"""Values in the typed fields of a TensorProto: `float_data`, `int64_val` and the like.

Numbers are stored one by one, as varints or fixed, packed or not.  A tensor's numbers are read all at once,
when they are needed, because the position of an element among varints is unknown.  TensorFlow omits repeats
of the last value at the end.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE
from ..core.region import full_index, index_shape
from ..core.slicing import allocate, fill_region, region_chunks
from ..errors import CorruptCheckpointError
from ..model.tensor import LazyTensor
from .codecs import PackedCodec
from .cursor import BrokenFileError, FileWindow
from .message_ranges import MessageFile, MessageRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.region import Index
    from ..core.spec import TensorSpec
    from .stored import StoredRanges


class Encoding(NamedTuple):
    """How the numbers of a field are stored: `wire` is a fixed numpy type, or empty for varints.

    The numbers are cut to `bits`, a numpy type whose bytes are those of the values; of `packed` bits, each
    byte holds several values.  A message that `repeats` may have fewer values than elements.
    """

    number: int
    wire: str
    bits: str
    packed: int = 0
    repeats: bool = False


class TypedTensor(LazyTensor):
    """A tensor whose numbers are in a typed field of a message."""

    def __init__(self, spec: TensorSpec, data: StoredRanges, encoding: Encoding) -> None:
        super().__init__(spec)
        self._data = data
        self._encoding = encoding

    def _stored(self) -> np.ndarray[Any, Any]:
        """Return the stored values; if they are fewer than the elements, the last one is repeated."""
        import numpy as np

        try:
            found = self._decoded()
        except ValueError as error:
            raise self._corrupt(str(error)) from error
        size, repeats = self.spec.size, self._encoding.repeats
        if found.size > max(1, size) or (found.size != size and not repeats):
            raise self._corrupt(f"{found.size} values do not fit shape {list(self.spec.shape)}")
        return found if found.size else np.zeros(1, found.dtype)

    def _decoded(self) -> np.ndarray[Any, Any]:
        """Return the values that are stored; ValueError if they are malformed."""
        import numpy as np

        _, wire, bits, packed, _ = self._encoding
        raw = b"".join(strings_of(self._data, self._encoding.number))
        numbers: np.ndarray[Any, Any] = np.frombuffer(raw, wire) if wire else varints(raw)
        with np.errstate(over="ignore", invalid="ignore"):
            values: np.ndarray[Any, Any] = numbers.astype(bits)
        if packed:
            return PackedCodec(packed, self.spec.dtype).decode(values.tobytes(), 0)[: self.spec.size]
        if self.spec.dtype.name == "bool":
            values = values != 0
        found: np.ndarray[Any, Any] = values.view(self.spec.dtype.numpy)
        return found

    def _corrupt(self, message: str) -> CorruptCheckpointError:
        return CorruptCheckpointError(message, path=self._data.path, key=self.spec.key, code="tensor-size")

    def read(self) -> np.ndarray[Any, Any]:
        return self.read_region(full_index(self.spec.shape))

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        out = allocate(self.spec, index_shape(index), self._data.path)
        fill_region(self._values(), self.spec.shape, out.dtype, index, out)
        return out

    def _values(self) -> Any:
        """Return a function that returns bytes of the values; the last value may be repeated."""
        import numpy as np

        stored = self._stored()
        itemsize = stored.itemsize

        def values(offset: int, size: int) -> np.ndarray[Any, Any]:
            first, last = offset // itemsize, (offset + size) // itemsize
            part = stored[first:last]
            missing = last - first - part.size
            if missing:
                part = np.concatenate([part, np.repeat(stored[-1:], missing)])
            return np.ascontiguousarray(part).view(np.uint8)

        return values

    def chunks(self, max_bytes: int = PIECE) -> Iterator[Chunk]:
        return self.region_chunks(full_index(self.spec.shape), max_bytes)

    def region_chunks(self, index: Index, max_bytes: int = PIECE) -> Iterator[Chunk]:
        if not self.spec.size:
            return iter(())
        values = self._values()

        def read(part: Index) -> np.ndarray[Any, Any]:
            out = allocate(self.spec, index_shape(part), self._data.path)
            fill_region(values, self.spec.shape, out.dtype, part, out)
            return out

        return region_chunks(read, index, self.spec.dtype.itemsize or 1, max_bytes)


class StringsTensor(LazyTensor):
    """A tensor of strings in a field of a message; where it `repeats`, a last one may be there many times."""

    def __init__(self, spec: TensorSpec, data: StoredRanges, number: int, *, repeats: bool = False) -> None:
        super().__init__(spec)
        self._data = data
        self._number = number
        self._repeats = repeats

    def read(self) -> np.ndarray[Any, Any]:
        out = allocate(self.spec, self.spec.shape, self._data.path)
        found = list(strings_of(self._data, self._number))
        if len(found) > out.size or (len(found) < out.size and not self._repeats):
            message = f"{len(found)} strings do not fit shape {list(self.spec.shape)}"
            path = self._data.path
            raise CorruptCheckpointError(message, path=path, key=self.spec.key, code="tensor-size")
        last = found[-1] if found else b""
        for at, value in enumerate(chain(found, repeat(last, out.size - len(found)))):
            out.reshape(-1)[at] = value
        return out

    def read_region(self, index: Index) -> np.ndarray[Any, Any]:
        where: tuple[Any, ...] = (*index, ...)
        found: np.ndarray[Any, Any] = self.read()[where]
        return found


def strings_of(data: StoredRanges, number: int) -> Iterator[bytes]:
    """Yield the content of a field of the message that a range of a file is, each time that it is there."""
    file, begin, size = data.parts[0]
    message = MessageFile(FileWindow(file))
    try:
        for field in message.fields(MessageRange(begin, begin + size)):
            if field.number == number:
                yield file.read_exactly(field.span.begin, field.span.size)
    except BrokenFileError as error:
        raise CorruptCheckpointError(str(error), path=file.path, offset=error.offset) from error


def varints(raw: bytes) -> np.ndarray[Any, Any]:
    """Return varints as signed 64-bit numbers; ValueError if one is too long, or cut off."""
    import numpy as np

    data = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(data < 0x80)
    if data.size and (not ends.size or ends[-1] != data.size - 1):
        raise ValueError("a varint does not end")
    begins = np.concatenate([np.zeros(1, ends.dtype), ends[:-1] + 1])[: ends.size]
    lengths = ends - begins + 1
    if lengths.size and lengths.max() > 10:
        raise ValueError("a varint has more than 10 bytes")
    values = np.zeros(ends.size, np.uint64)
    for at in range(int(lengths.max()) if lengths.size else 0):
        longer = np.flatnonzero(lengths > at)
        part = (data[begins[longer] + at] & 0x7F).astype(np.uint64)
        values[longer] |= part << np.uint64(7 * at)
    return values.view(np.int64)
