"""Values stored unchanged in a file, which can be read and checked one range at a time.

Ranges of one tensor do not wait for each other.  Each has its own checksum, and those
of neighbours make that of the whole (`formats.wire.joining`), which is compared
with the stored one when the last range has been read.
"""

from __future__ import annotations

import mmap
import threading
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.chunks import PIECE, view_of
from ..core.slicing import allocate
from ..errors import ChecksumError
from ..wire.crc32c import extend, mask
from .work.task_context import TASK_FILES, StaysHereError
from .work.workers import TASK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn, Self

    import numpy as np

    from ..core.chunks import Chunk
    from ..core.spec import TensorSpec
    from .base import File


class FileRange(NamedTuple):
    """All values of the tensor `key`, as `LazyTensor.chunks` gives them, in one piece of a file.

    `crc32c` is their stored, masked checksum, `crc32` that of the member of a zip that they are; None where
    there is none.
    """

    file: File
    offset: int
    size: int
    key: str
    crc32c: int | None = None
    crc32: int | None = None

    @property
    def is_checked(self) -> bool:
        """Whether a checksum of them is stored."""
        return self.crc32c is not None or self.crc32 is not None

    @property
    def unchecked(self) -> FileRange:
        """The same without checksums: they were compared already."""
        return self._replace(crc32c=None, crc32=None)

    def sum(self, size: int = 0, stored: int = 0) -> Sum:
        """Return the checksum of its first `size` bytes, of the stored kind, if that is `stored`."""
        return Sum(stored, size) if self.crc32 is None else Sum(0, size, stored)

    def stored_checksum(self, found: Sum) -> int:
        """Return the checksum that is of the stored kind."""
        return found.crc if self.crc32 is None else found.crc32 or 0

    def read(self, begin: int, end: int, buffer: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the bytes from `begin` to `end`, counted from the first value, in the buffer's beginning.

        The buffer is used again: new memory for each piece costs more than reading into it.
        """
        out = buffer[: end - begin]
        assert len(out) == end - begin, "the buffer is too small"
        if not TASK_FILES.has_travelled:
            self.file.expect(self.offset, self.size)
        self.file.read_into(self.offset + begin, out.data)
        return out

    def expect(self, begin: int, end: int) -> None:
        """Note that a task reads from `begin` to `end`.

        The next task of this process uses what is fetched beyond that; other processes do not.
        """
        if TASK_FILES.has_travelled:
            self.file.expect(self.offset + begin, end - begin)

    def array(self, spec: TensorSpec) -> np.ndarray[Any, Any]:
        """Return all values, checked, as an array with memory of its own that they are read into.

        Raises ChecksumError, CorruptCheckpointError, UnsupportedFeatureError.
        """
        import numpy as np

        out = allocate(spec, spec.shape, self.file.path)
        flat = out.reshape(-1).view(np.uint8)
        found = self.sum()
        self.file.expect(self.offset, self.size)
        for begin in range(0, self.size, PIECE):
            piece = flat[begin : begin + PIECE]
            self.file.read_into(self.offset + begin, piece.data)
            if self.is_checked:
                found.extend(piece)
        self.check(found)
        return out

    def check(self, found: Sum) -> None:
        """Raise ChecksumError unless what was found, of all bytes, is what is stored."""
        if self.fits(found):
            return
        if self.crc32 is not None:
            message = (
                f"the data has CRC-32 {found.crc32 or 0:#010x}, but the stored one is {self.crc32:#010x}"
            )
        else:
            message = (
                f"the data has checksum {mask(found.crc):#010x}, "
                f"but the stored one is {self.crc32c or 0:#010x}"
            )
        raise ChecksumError(
            message, path=self.file.path, key=self.key, offset=self.offset, code="tensor-checksum"
        )

    def fits(self, found: Sum) -> bool:
        """Whether what was found, of all bytes, is what is stored, if anything is."""
        return self.crc32c in (None, mask(found.crc)) and self.crc32 in (None, found.crc32)


class BlockMemory(threading.local):
    """The memory of a thread for the block that it decoded last, and for what the block is decoded from."""

    def __init__(self) -> None:
        import numpy as np

        self._rooms = {name: np.empty(0, np.uint8) for name in ("block", "stored")}
        self.block: np.ndarray[Any, Any] | None = None
        self.of: tuple[str, int] | None = None
        """The tensor and the number of the block."""

    def take(self, name: str, size: int) -> np.ndarray[Any, Any]:
        """Return that many bytes of undefined content; the last ones of this name are overwritten."""
        import numpy as np

        if len(self._rooms[name]) < size:
            self._rooms[name] = np.empty(0, np.uint8)  # the old memory is returned first
            self._rooms[name] = np.empty(size, np.uint8)
        return self._rooms[name][:size]


class DecodedRange(NamedTuple):
    """All values of the tensor `key`, as `LazyTensor.chunks` gives them, decoded in blocks of `step` bytes.

    `decode` returns the bytes from one offset to another, which are one block, in the thread's memory.
    A task of whole blocks decodes each of them once. Only this process can do it.
    """

    size: int
    step: int
    key: str
    memory: BlockMemory
    decode: Callable[[int, int], np.ndarray[Any, Any]]

    @property
    def is_checked(self) -> bool:
        """Whether a checksum of them is stored."""
        return False

    @property
    def unchecked(self) -> Self:
        return self

    def sum(self, size: int = 0, stored: int = 0) -> Sum:
        """Return the checksum of the first `size` bytes, where that is `stored`."""
        return Sum(stored, size)

    def stored_checksum(self, found: Sum) -> int:
        return found.crc

    def check(self, found: Sum) -> None:
        """There is nothing to compare with."""

    def expect(self, begin: int, end: int) -> None:
        """Forget the thread's last block: a comparison must read the file again."""
        del begin, end
        self.memory.of = None

    def read(self, begin: int, end: int, buffer: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the bytes from `begin` to `end`, in the buffer if they are in several blocks."""
        at, block = self._block(begin)
        if end <= at + len(block):
            return block[begin - at : end - at]
        out, done = buffer[: end - begin], 0
        while done < len(out):
            at, block = self._block(begin + done)
            part = block[begin + done - at : end - at]
            out[done : done + len(part)] = part
            done += len(part)
        return out

    def _block(self, begin: int) -> tuple[int, np.ndarray[Any, Any]]:
        """Return the offset of the block in which a byte is, and all of its bytes."""
        number = begin // self.step
        at = number * self.step
        if self.memory.block is None or self.memory.of != (self.key, number):
            self.memory.of = None
            self.memory.block = self.decode(at, min(at + self.step, self.size))
            self.memory.of = self.key, number
        return at, self.memory.block

    def __reduce__(self) -> NoReturn:
        raise StaysHereError("decoded blocks are in the memory of this process")


ValueRange = FileRange | DecodedRange
"""The values of a tensor that can be read in ranges, in any order."""


class Sum:
    """The checksum of a range, and how many bytes it is of; unmasked.

    With `crc32` it has the other kind, too, which is as much work again.
    """

    __slots__ = ("crc", "crc32", "size")

    def __init__(self, crc: int = 0, size: int = 0, crc32: int | None = None) -> None:
        self.crc = crc
        self.size = size
        self.crc32 = crc32

    def extend(self, piece: Chunk) -> None:
        """Take in the next bytes."""
        self.crc = extend(self.crc, piece)
        if self.crc32 is not None:
            self.crc32 = zlib.crc32(view_of(piece), self.crc32)
        self.size += len(piece)

    def add(self, following: Sum) -> None:
        """Take in the next range, which has the same kinds; the first may be any."""
        if not self.size:
            self.crc, self.crc32 = following.crc, following.crc32
        else:
            from ..wire.joining import CRC32, CRC32C, joined  # a listing starts without it

            self.crc = joined(CRC32C, self.crc, following.crc, following.size)
            one, other = self.crc32, following.crc32
            self.crc32 = None if one is None or other is None else joined(CRC32, one, other, following.size)
        self.size += following.size


class _Buffers(threading.local):
    """Room for two pieces, in each thread."""

    def __init__(self) -> None:
        import numpy as np

        # To where an array of its own begins, 16 bytes into a page, the system copies half as fast.
        room = np.empty(2 * PIECE + mmap.PAGESIZE, np.uint8)
        begin = -room.ctypes.data % mmap.PAGESIZE
        self.whole = room[begin : begin + 2 * PIECE]
        self.both = self.whole[:PIECE], self.whole[PIECE:]


_buffers: list[_Buffers] = []


def buffers() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the thread's own room for two pieces, for the task that it is doing."""
    if not _buffers:
        _buffers.append(_Buffers())
    return _buffers[0].both


def large_buffer() -> np.ndarray[Any, Any]:
    """Return the same room, for a task that reads of one place alone, as one."""
    buffers()
    return _buffers[0].whole


def cut(size: int, step: int | None = None) -> Iterator[tuple[int, int]]:
    """Yield where ranges begin and end that make tasks, of `step` bytes; of nothing, one that is empty.

    They are whole elements: item sizes are powers of two, and so is what a task goes through.
    """
    step = step or TASK_BYTES
    for begin in range(0, size or 1, step):
        yield begin, min(begin + step, size)
