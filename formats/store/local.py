"""Files that are read at positions, in pieces, and never mapped.

A mapped file that is truncated meanwhile kills the process, and its pages count as
the program's memory; `pread` into small pieces does neither.
"""

from __future__ import annotations

import os
import stat
from typing import Self

from ..errors import CheckpointError, CheckpointNotFoundError, CorruptCheckpointError, InaccessibleError
from .obstacles import obstacle
from .tally import tally_of

CLOSED = "the checkpoint has been closed"


_LARGEST_PREAD = 0x7FFFF000  # Linux transfers no more in one call.


class RandomAccessFile:
    """An open file; `size` is what it was when it was opened.  A context manager."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            # Opening a pipe would wait for its writer.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise _unopened(path, error) from error
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise InaccessibleError(f"{obstacle(path)}, not a regular file", path=path)
        self.size = status.st_size
        self._tally = tally_of(path)

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`, fewer where the file ends."""
        if self._fd < 0:
            raise CheckpointError(CLOSED, path=self.path)
        # Small tensors come here one by one, and `min` and `max` would take a fifth of the time.
        left = self.size - offset
        wanted = size if size <= left else left
        if wanted <= 0:  # also an offset that is larger than the system takes
            return b""
        try:
            data = os.pread(self._fd, wanted if wanted <= _LARGEST_PREAD else _LARGEST_PREAD, offset)
            if self._tally is not None:
                self._tally.add(len(data))
            if len(data) == wanted:
                return data
            pieces = [data]
            while pieces[-1] and (left := wanted - sum(map(len, pieces))) > 0:
                pieces.append(os.pread(self._fd, min(left, _LARGEST_PREAD), offset + sum(map(len, pieces))))
                if self._tally is not None:
                    self._tally.add(len(pieces[-1]))
        except OSError as error:
            message = f"cannot be read: {str(error.strerror).lower()}"
            raise CheckpointError(message, path=self.path, offset=offset, code="shard-short") from error
        return b"".join(pieces)

    def read_exactly(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`; CorruptCheckpointError where the file ends before."""
        data = self.read(offset, size)
        if len(data) != size:
            message = f"{size} bytes expected, the file ends after {len(data)}"
            raise CorruptCheckpointError(message, path=self.path, offset=offset, code="shard-short")
        return data

    def read_into(self, offset: int, out: memoryview) -> None:
        """Fill `out` with the bytes at `offset`; CorruptCheckpointError where the file ends before."""
        if self._fd < 0:
            raise CheckpointError(CLOSED, path=self.path)
        done = 0
        try:
            while done < len(out) and (count := os.preadv(self._fd, [out[done:]], offset + done)):
                done += count
                if self._tally is not None:
                    self._tally.add(count)
        except OSError as error:
            message = f"cannot be read: {str(error.strerror).lower()}"
            raise CheckpointError(message, path=self.path, offset=offset, code="shard-short") from error
        if done < len(out):
            message = f"{len(out)} bytes expected, the file ends after {done}"
            raise CorruptCheckpointError(message, path=self.path, offset=offset, code="shard-short")

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


def _unopened(path: str, error: OSError) -> CheckpointError:
    """Return the error of a file that could not be opened: it is not there, or something is in the way."""
    found = obstacle(path)
    if found is None and isinstance(error, FileNotFoundError):
        return CheckpointNotFoundError("no such file", path=path, code="shard-missing")
    return InaccessibleError(found or str(error.strerror).lower(), path=path)
