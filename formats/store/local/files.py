"""The file system of this machine: files that are read at positions, in pieces, and never mapped.

A mapped file that is truncated meanwhile kills the process, and its pages count as
the program's memory; `pread` into small pieces does neither.

A bundle can have ten thousand shards, and a process may open a thousand files, or 256. Therefore the files
that were opened first are parked when many are open: their descriptors are closed, and opened again at the
next read.

All reads from the system go through this module. Writers make their own calls.
"""

from __future__ import annotations

import os
import stat
import sys
import time
import weakref
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from ...errors import CheckpointError, CheckpointNotFoundError, InaccessibleError
from ..base import CLOSED, FILE, FOLDER, LINK, NO_FOLDER, OTHER, Entry, File, Identity, Listed, Store
from ..content_cache import forget_unsettled
from .obstacles import obstacle
from .removing import close_descriptors

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence


_LARGEST_PREAD = 0x7FFFF000  # Linux transfers no more in one call.

_FINE, _COARSE = 10_000_000, 2_000_000_000
"""Nanoseconds in which a file or directory can change twice under one time: a tick of the kernel's clock, or,
where a file system stores whole seconds, two of them, as FAT does."""

_CLOCK = 5 if sys.platform == "linux" else time.CLOCK_REALTIME
"""The clock that files are stamped by (linux/time.h: CLOCK_REALTIME_COARSE).  Its ticks come late on a
machine under load, and until one comes a change bears the time of the last."""

_KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: LINK}


_MOST_OPEN = 128
"""Files that are open at once, next to those of a program that uses this one as a library."""


class _Descriptor:
    """A file descriptor, closed when its last user, such as a read, is done."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # As Python ends, functions of modules are gone, and the system closes what is open.
        if not is_finalizing():
            close_descriptors(self.number)


def _opened(path: str) -> _Descriptor:
    try:
        # Opening a pipe would wait for its writer.  Python sets O_CLOEXEC.
        return _Descriptor(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        raise _unopened(path, error) from error


class LocalFile(File):
    """An open file of this machine."""

    _with_descriptor: ClassVar[OrderedDict[int, weakref.ref[LocalFile]]] = OrderedDict()

    def __init__(self, path: str) -> None:
        self._closed = False
        self._descriptor: _Descriptor | None = None
        descriptor = _opened(path)
        status = os.fstat(descriptor.number)
        if not stat.S_ISREG(status.st_mode):
            raise InaccessibleError(f"{obstacle(path)}, not a regular file", path=path)
        super().__init__(LOCAL, path, status.st_size, _identity(status))
        self._changed = status.st_ctime_ns
        self._take(descriptor)

    @property
    def version(self) -> Hashable:
        """The identity, and the time of the last change, which no program sets.

        A file system gives the number of a file that is gone to the next one, and what was unpacked from
        an archive may have any time.
        """
        return (*self.identity, self._changed)

    @property
    def is_settled(self) -> bool:
        return _is_settled(self._changed, time.clock_gettime_ns(_CLOCK))

    def _take(self, descriptor: _Descriptor) -> None:
        """Take a descriptor, for which another file may have to give its own away."""
        self._descriptor = descriptor
        files = self._with_descriptor
        files[id(self)] = weakref.ref(self)
        while len(files) > _MOST_OPEN:  # threads that come here together may park one more
            first = files.popitem(last=False)[1]()
            if first is not None:
                first._descriptor = None

    def _unparked(self) -> _Descriptor:
        """Return a new descriptor of a file that gave its own away.  Raises CheckpointError."""
        if self._closed:
            raise CheckpointError(CLOSED, path=self.path)
        descriptor = _opened(self.path)
        if _identity(os.fstat(descriptor.number)) != self.identity:
            raise CheckpointError("this file changed since it was opened", path=self.path)
        self._take(descriptor)
        return descriptor

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`, fewer where the file ends."""
        descriptor = self._descriptor or self._unparked()  # stays open while this name holds it
        # Small tensors come here one by one, and `min` and `max` would take a fifth of the time.
        left = self.size - offset
        wanted = size if size <= left else left
        if wanted <= 0:  # also an offset that is larger than the system takes
            return b""
        try:
            data = os.pread(descriptor.number, wanted if wanted <= _LARGEST_PREAD else _LARGEST_PREAD, offset)
            if self._tally is not None:
                self._tally.add(len(data))
            if len(data) == wanted:
                return data
            pieces = [data]
            while pieces[-1] and (left := wanted - sum(map(len, pieces))) > 0:
                at = offset + sum(map(len, pieces))
                pieces.append(os.pread(descriptor.number, min(left, _LARGEST_PREAD), at))
                if self._tally is not None:
                    self._tally.add(len(pieces[-1]))
        except OSError as error:
            raise self._unread(error, offset) from error
        return b"".join(pieces)

    def read_into(self, offset: int, out: memoryview) -> None:
        descriptor = self._descriptor or self._unparked()
        done = 0
        try:
            while done < len(out) and (count := os.preadv(descriptor.number, [out[done:]], offset + done)):
                done += count
                if self._tally is not None:
                    self._tally.add(count)
        except OSError as error:
            raise self._unread(error, offset) from error
        if done < len(out):
            raise self._ends(offset, len(out), done)

    def _unread(self, error: OSError, offset: int) -> CheckpointError:
        message = f"this file cannot be read: {str(error.strerror).lower()}"
        return CheckpointError(message, path=self.path, offset=offset, code="shard-short")

    def is_same(self, identity: Identity) -> bool:
        # Each client of a network file system has a number of its own for the device.
        return self.identity[1:] == identity[1:]

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._descriptor = None
        self._with_descriptor.pop(id(self), None)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self.close()


def _unopened(path: str, error: OSError) -> CheckpointError:
    """Return the error for a file that could not be opened: it is missing, or an obstacle blocks the path."""
    found = obstacle(path)
    if found is None and isinstance(error, FileNotFoundError):
        return CheckpointNotFoundError("no such file", path=path, code="shard-missing")
    return InaccessibleError(found or str(error.strerror).lower(), path=path)


def _identity(status: os.stat_result) -> Identity:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _is_settled(changed: int, now: int) -> bool:
    """Whether what changes from now on gets another time of change than this."""
    doubtful = _COARSE if changed % 1_000_000_000 == 0 else _FINE
    return changed < now - doubtful


class LocalStore(Store):
    """The file system of this machine.  Its paths have no scheme, and are the system's."""

    scheme = ""

    def open(self, path: str) -> File:
        return LocalFile(path)

    def stat(self, path: str, *, follow: bool = True) -> Entry | None:
        try:
            status = os.stat(path, follow_symlinks=follow)
        except (OSError, ValueError):  # ValueError: a NUL, which a state file's path can hold
            return None
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), OTHER)
        identity = _identity(status)
        return Entry(kind, status.st_size, status.st_mtime, identity, status.st_nlink, status.st_ctime_ns)

    def list(self, folder: str) -> Sequence[Listed]:
        try:
            # A folder that may be listed but not entered would look empty.
            os.stat(os.path.join(folder, os.curdir))
            with os.scandir(folder or os.curdir) as entries:
                kinds = {entry.name: _kind(entry) for entry in entries}
        except (FileNotFoundError, ValueError) as error:
            raise CheckpointNotFoundError(NO_FOLDER, path=folder) from error
        except OSError as error:
            raise InaccessibleError(str(error.strerror).lower(), path=folder) from error
        return [Listed(name, kinds[name]) for name in sorted(kinds)]  # twice as fast as sorting these

    def stamp(self, folder: str) -> Hashable | None:
        """Return a directory's identity and times; None while it can still change under these.

        The time of change is one of them: the other can be set, and a directory that was copied has it
        from the original.
        """
        now = time.clock_gettime_ns(_CLOCK)
        try:
            status = os.stat(folder or os.curdir)
        except FileNotFoundError:
            return "not there"
        except (OSError, ValueError):
            return None
        changed = status.st_ctime_ns
        if not _is_settled(changed, now):
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, changed

    def forget_listings(self) -> None:
        forget_unsettled()

    def obstacle(self, path: str) -> str | None:
        return obstacle(path)

    def system_path(self, path: str) -> str | None:
        return path

    def __reduce__(self) -> str:
        return "LOCAL"

    def join(self, folder: str, name: str) -> str:
        # A name from a file of this directory is a path, even if it looks like a URL.
        return os.path.join(folder or (os.curdir if "://" in name else ""), name)

    def split(self, path: str) -> tuple[str, str]:
        return os.path.split(path)

    def absolute(self, path: str) -> str:
        with _from_the_current_directory(path):
            return os.path.abspath(path)

    def relative(self, path: str, folder: str) -> str:
        with _from_the_current_directory(path):
            return os.path.relpath(path, folder)

    def real(self, path: str) -> str:
        with _from_the_current_directory(path):
            return os.path.realpath(path)


@contextmanager
def _from_the_current_directory(path: str) -> Iterator[None]:
    """Say it where the current directory was removed, which is all that these functions fail for."""
    try:
        yield
    except FileNotFoundError as error:
        found = InaccessibleError("the current directory was removed", path=path or os.curdir)
        found.hints = ("change to a directory that exists, or give absolute paths",)
        raise found from error


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_file(follow_symlinks=False):
        return FILE
    if entry.is_dir(follow_symlinks=False):
        return FOLDER
    return LINK if entry.is_symlink() else OTHER


LOCAL = LocalStore()
