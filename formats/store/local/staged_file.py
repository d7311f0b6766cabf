"""A new file that is written at places, by this process or by another one."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ...core.chunks import view_of
from ...errors import CheckpointError
from ..base import unseen
from ..work.task_context import TASK_FILES, StaysHereError
from .ownership import give
from .refusals import refusing
from .removing import close_descriptors

if TYPE_CHECKING:
    from typing import Self

    from ...core.chunks import Chunk
    from ...location import Location
    from .ownership import Ownership

_LARGEST_WRITE = 1 << 17
"""Bytes written in one call, as `cp` does.

For more, Linux allocates larger blocks of memory, which a virtual machine may first have to get from its
host.
"""

_WORTH_STARTING = 1 << 20
"""The fewest bytes that start write-back before `sync`: smaller ranges would cost more calls than they
save.
"""

_SYNC_BYTES = 16 << 20
"""Bytes after which write-back starts during a sequential write."""


class StagedFile:
    """A new file, written from its beginning to its end, or at reserved places.

    `about` is the path that errors name: the one that the user gave. As a context manager, it closes the
    file.
    """

    travels = True
    """Whether another process may fill it: one that waits to be sent is in a directory of this machine."""

    shares_memory = True
    """Whether what is read back is what this process reads."""

    def __init__(self, path: str, about: Location, *, new: bool = True, mode: int = 0o666) -> None:
        self.path = path
        self.size = 0
        self._started = 0
        self._about = about
        # The content of an existing file is read again before it counts.
        with refusing(about):
            self._fd = os.open(path, os.O_RDWR | (os.O_CREAT | os.O_EXCL if new else os.O_NOFOLLOW), mode)
            status = os.fstat(self._fd)
        self.number = status.st_dev, status.st_ino
        """Its device and inode, which identify it after any rename."""

    def write(self, data: Chunk) -> None:
        """Write at the end."""
        self.write_at(self.reserve(len(data)), data)
        if self.size - self._started >= _SYNC_BYTES:
            self.start_sync(self._started, self.size - self._started)
            self._started = self.size

    def reserve(self, size: int) -> int:
        """Return the offset of the next `size` bytes, which `write_at` is to fill."""
        self.size += size
        return self.size - size

    def write_at(self, offset: int, data: Chunk) -> None:
        """Write at a reserved place; several threads may, each at its own."""
        view = view_of(data)
        with refusing(self._about):
            while view:
                written = os.pwrite(self._fd, view[:_LARGEST_WRITE], offset)
                offset += written
                view = view[written:]

    def read_back(self, offset: int, out: memoryview) -> bool:
        """Fill `out` with the content at an offset. Return False if it cannot be read."""
        done = 0
        with contextlib.suppress(OSError):
            while done < len(out) and (count := os.preadv(self._fd, [out[done:]], offset + done)):
                done += count
        return done == len(out)

    def start_sync(self, offset: int, size: int) -> None:
        """Let the disk begin with a range that was written, so that `sync` has less to wait for.

        It is advice: where it is not taken, everything is left to `sync`, and so is any error.
        """
        if hasattr(os, "posix_fadvise") and size >= _WORTH_STARTING:
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._fd, offset, size, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Bring what was written to disk."""
        with refusing(self._about):
            os.fsync(self._fd)

    def belong(self, ownership: Ownership) -> None:
        """Give it permissions and owner."""
        with refusing(self._about):
            give(self._fd, ownership)

    def close(self) -> None:
        """Close it; some file systems say only now that what was written is lost."""
        fd, self._fd = self._fd, -1  # It is closed also where that fails, and the number may be another's.
        if fd >= 0:
            with refusing(self._about):
                os.close(fd)

    def discard(self) -> None:
        """Close it where what was written is thrown away, and may be lost."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            close_descriptors(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()  # the first error is the one that the user sees

    def __reduce__(self) -> tuple[object, ...]:
        if not self.travels:
            raise StaysHereError(self.path)
        return FilledHere, (os.path.abspath(self.path), self._about, self.memory)

    @property
    def memory(self) -> tuple[str, int] | None:
        """The identity of the memory in which the file waits for the disk: a kernel, and a file system.

        Another process with the same value may leave `sync` to this one. It is None if unknown.
        """
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip(), os.fstat(self._fd).st_dev
        except OSError:
            return None


class FilledHere:
    """A staged file of another process, written to at places, and never made: it may be gone by now.

    Until it is closed, the written bytes may be on this machine alone, if the file system is a network's. If
    `memory` equals that of another process, one `sync` serves both.
    """

    def __init__(self, path: str, about: Location, memory: tuple[str, int] | None) -> None:
        self._path = path
        self._about = about
        self._memory = memory
        self._file: StagedFile | None = None
        TASK_FILES.filled.append(self)

    def _opened(self) -> StagedFile:
        if self._file is None:
            try:
                self._file = StagedFile(self._path, self._about, new=False)
            except CheckpointError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    raise unseen(self._path, "no such file") from error
                raise
        return self._file

    def write_at(self, offset: int, data: Chunk) -> None:
        self._opened().write_at(offset, data)

    def read_back(self, offset: int, out: memoryview) -> bool:
        return self._opened().read_back(offset, out)

    @property
    def shares_memory(self) -> bool:
        """Whether what is read back here is what its own process reads: both see one memory."""
        return self._memory is not None and self._memory == self._opened().memory

    def start_sync(self, offset: int, size: int) -> None:
        self._opened().start_sync(offset, size)

    def discard(self) -> None:
        """Close it where what was written is thrown away."""
        file, self._file = self._file, None
        if file is not None:
            file.discard()

    def close(self, *, synced: bool) -> None:
        """Close the file. If `synced`, first write it to disk, unless another process can."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                if synced and (self._memory is None or self._memory != file.memory):
                    file.sync()
