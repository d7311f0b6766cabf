"""Write next to the target, and move in when everything is complete.

    TARGET                    a checkpoint: one file, or a bundle's index and data shards
    TARGET_temp_<32 hex>/     the new files, under their final names
    TARGET_temp_<32 hex>/aside/   an old set that had to be moved out of the way
    TARGET_temp_<32 hex>/ckpt.journal   what is finished, if another process may resume (`journal`)
    FILE.tempstate<number>    a single file being replaced

TensorFlow gives both names to saves in progress, so its readers, and these, pass over the leftovers of a
killed process. A staged checkpoint is complete: it can be opened and compared before its files are moved.
Everything is synced to disk before the first file moves, and the directory between moves that depend on each
other.

A writer locks its directory until it is done. An unlocked directory was left by a killed process, and can be
removed (`formats.tf.run.leftovers`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import weakref
from typing import TYPE_CHECKING, Protocol

from ...core import notices
from ...core.chunks import view_of
from ...core.words import command_line
from ...errors import CheckpointError, CheckpointExistsError
from ..base import unseen
from ..remote.objects import WHATEVER
from ..siblings import LONGEST_STEM
from ..work.task_context import TASK_FILES, StaysHereError
from .links import followed, leads_nowhere
from .locks import lock, lock_timeout, wait_for
from .ownership import give, ownership_of, strictest
from .removing import Attempts, close_descriptors, remove_empty, remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    from ...core.chunks import Chunk
    from ...location import Location
    from .ownership import Ownership
    from .staging_journal import StagingJournal


_ASIDE = "aside"

_HINTS = {
    errno.ENOSPC: ("free some space, or write elsewhere",),
    errno.EDQUOT: ("free some space in your quota, or write elsewhere",),
    errno.EFBIG: ("check ulimit -f and the largest file size of the file system, or write elsewhere",),
    errno.EACCES: ("make the directory writable, because new files are created next to the old ones",),
    errno.EROFS: ("write elsewhere, because this file system is mounted read-only",),
}

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The system's errors for a full disk."""

_LARGEST_WRITE = 1 << 17
"""Bytes written in one call, as `cp` does.

For more, Linux allocates larger blocks of memory, which a virtual machine may first have to get from its
host.
"""

_WORTH_STARTING = 1 << 20
"""The fewest bytes that start write-back before `sync`: smaller ranges would cost more calls than they
save.
"""

_STRETCH = 16 << 20
"""Bytes after which write-back starts during a sequential write."""


def reason_of(error: Exception) -> str:
    """Return what an error of the system says, in small letters."""
    return str(getattr(error, "strerror", None) or error).lower()


@contextlib.contextmanager
def refusing(path: Location) -> Iterator[None]:
    """Raise what the system refuses in this block as a CheckpointError about `path`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, CheckpointError):
            raise
        message = f"cannot be written: {reason_of(error)}"
        hints = _HINTS.get(error.errno or 0, ())
        if path.is_object():  # a server's refusal is not an OSError
            message += " (the file is created on this machine first)"
            hints = ("set TMPDIR to use another directory",)
        raise CheckpointError(message, path=path, hints=hints) from error


def refuse_irreplaceable(path: Location) -> None:
    """Raise CheckpointExistsError where `path` is something that a file must not take the place of.

    That is a directory, and a device, pipe or socket, also behind a link: who may write
    to `/dev/null` by renaming would leave a system without one.
    """
    if path.is_object():
        if path.is_folder():
            raise _directory(path)
        return
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        raise _directory(path)
    if not stat.S_ISREG(mode):
        raise CheckpointExistsError("this is a device or a pipe; name a file", path=path)


def _directory(path: str) -> CheckpointExistsError:
    hints = (f"name the file, for example {os.path.join(path, 'NAME')}",)
    return CheckpointExistsError("this is a directory; name a file", path=path, hints=hints)


def sync_directory(path: str) -> None:
    """Make what was renamed in a directory last through a loss of power.

    Some network file systems have no such thing for directories; there nothing more can be done.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
    finally:
        close_descriptors(fd)


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
        if self.size - self._started >= _STRETCH:
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


class Staging:
    """A directory next to the target, private to the user, in which all new files are made.

    `target` is not a link (`formats.store.local.links`). `replaced` are the files of an old set: a file that
    replaces one of them gets its permissions and owner, and any other file gets what all of them allow. With
    a `journal`, which has begun, the directory belongs to the journal, and stays as long as there is anything
    to resume.
    """

    is_local = True
    """Whether files are filled at places, and moved; see `formats.store.remote.upload` for what is sent."""

    def __init__(
        self, target: Location, replaced: Iterable[str] = (), journal: StagingJournal | None = None
    ) -> None:
        self.target = target
        self.directory = target.parent or target.of(os.curdir)
        self.journal = journal
        self._lock: int | None = None
        self._made: list[str] = []
        self._kept: list[StagedFile] = []
        self._files: list[StagedFile] = []
        self._replaced = tuple(replaced)
        self._linked: dict[int, Ownership | None] = {}
        self._set_aside: dict[str, Ownership | None] = {}
        lock_timeout()  # an error in it must not appear after hours of writing
        if journal is not None:
            self.staged, self._made = journal.directory, journal.made
            ALIVE.add(self)
            ALIVE.discard(journal)
            return
        name = f"{os.path.basename(target)[:LONGEST_STEM]}_temp_{os.urandom(16).hex()}"
        self.staged = target.beside(name)
        ALIVE.add(self)
        try:
            target.require_local()
            with refusing(target):
                make_directories(self.directory, self._made)
                os.mkdir(self.staged, 0o700)
                self._lock = lock(self.staged)
        except BaseException:
            self.remove()
            raise

    def path(self, name: str) -> Location:
        """Return the location of a staged file."""
        return self.target.of(os.path.join(self.staged, name))

    def final(self, name: str) -> Location:
        """Return the location to which a staged file is moved."""
        return self.target.beside(name)

    def create(self, name: str) -> StagedFile:
        """Return a new file, or one that another process has begun and a journal speaks of.

        The name may lead through folders, which are made.
        """
        is_begun = self.has_begun(name)
        self._make_folders(name)
        file = StagedFile(self.path(name), self.target, new=not is_begun)
        self._files.append(file)
        if is_begun:
            self._kept.append(file)
        return file

    def _make_folders(self, name: str) -> None:
        if "/" in name:
            with refusing(self.target):
                os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)

    def has_begun(self, name: str) -> bool:
        """Whether another process has begun to fill a file, which is there."""
        return self.journal is not None and self.journal.is_claimed(name)

    def cut(self) -> None:
        """Truncate the files that another process began at their current end."""
        with refusing(self.target):
            for file in self._kept:
                os.truncate(file.path, file.size)

    def scratch(self, name: str) -> StagedFile:
        """Return a new file for what waits, and goes to no place."""
        return self.create(name)

    def adopt(self, name: str) -> StagedFile:
        """Open a staged file that a library has made, to write at places in it."""
        file = StagedFile(self.path(name), self.target, new=False)
        self._files.append(file)
        return file

    def rename(self, old: str, new: str) -> None:
        """Rename a staged file, also into another folder, which is made."""
        self._make_folders(new)
        if self.journal is not None:
            self.journal.renamed(old, new)
        with refusing(self.target):
            os.rename(self.path(old), self.path(new))

    def link(self, path: str, name: str) -> None:
        """Give a file a second name among the staged ones; OSError if that cannot be."""
        os.link(path, self.path(name), follow_symlinks=False)
        self._linked[os.lstat(self.path(name)).st_ino] = ownership_of(self.path(name))

    def sync(self) -> None:
        """Close all staged files and bring them to disk; also what was linked, which may be as new.

        Costs next to nothing if that has long been on disk.
        """
        self._close()
        with refusing(self.target):
            for parent, _, names in os.walk(self.staged, topdown=False):
                for path in (os.path.join(parent, name) for name in names):
                    _sync_file(path, may_be_closed=os.lstat(path).st_ino in self._linked)
                sync_directory(parent)

    def _belong(self, path: str, final: str) -> None:
        """Give what is staged the permissions and the owner of what it replaces, or of the set it joins."""
        if os.lstat(path).st_ino in self._linked:
            return
        ownership = ownership_of(final) or self._set_aside.get(final) or self._common_ownership()
        if ownership is not None and ownership != ownership_of(path):
            with _opened(path) as fd:
                give(fd, ownership)
                os.fsync(fd)

    def _common_ownership(self) -> Ownership | None:
        """Return what all old files, and all that are shared with others, allow; None where none are."""
        owned = (*map(ownership_of, self._replaced), *self._linked.values())
        return strictest(ownership for ownership in owned if ownership is not None)

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Hold the target's directory in this block, so that files of one set move in together.

        Two commands that write one target at once would otherwise leave the index of one
        and the data of the other.
        """
        return holding(self.directory)

    def move(self, name: str, final: str | None = None) -> None:
        """Move a staged file to its place, replacing what is there."""
        place = final or self.final(name)
        self._belong(self.path(name), place)
        if self.journal is not None:
            self.journal.moved(name, place)
        os.replace(self.path(name), place)

    is_readable = True
    """Whether all of it can be read before it is in its place."""

    @contextlib.contextmanager
    def opening(self) -> Iterator[Location]:
        """Have all be read, as long as the context lasts, at the path that this gives."""
        yield self.path(self.target.name)

    def foreign(self, paths: Iterable[str]) -> list[str]:
        """Return those of some paths that are not of what is being written: all, as long as it is staged."""
        return list(paths)

    def move_in(self) -> None:
        """Move the one staged file, named as the target, to its place."""
        with refusing(self.target):
            self.move(os.path.basename(self.target))
            sync_directory(self.directory)

    def move_old_aside(self, names: Iterable[str]) -> None:
        """Move files of the old set, by name, out of the way of the new.

        From here until `discard_old_set` the old set is not in its place, and after a kill in between `ckpt
        state --fix` must put it back. So this is only for what cannot be exchanged.
        """
        with refusing(self.target):
            os.makedirs(self.path(_ASIDE), exist_ok=True)
            for name in names:
                self._set_aside[self.final(name)] = ownership_of(self.final(name))
                os.rename(self.final(name), self.path(os.path.join(_ASIDE, name)))
            sync_directory(self.directory)

    def discard_old_set(self) -> None:
        """Give up the old set, at one stroke: the new one is in its place."""
        with refusing(self.target):
            os.rename(self.path(_ASIDE), self.path("replaced"))

    def remove(self) -> None:
        """Remove the staging directory, and directories made for it that stayed empty.

        An old set that was set aside is first put back. Files that can be resumed stay. Nothing is raised: if
        this follows an error, that error is reported, and a file that stays is a warning.
        """
        while self._files:
            self._files.pop().discard()
        attempts = Attempts()
        stays = self.journal is not None
        with attempts.deferring_errors():
            stays = self.journal is not None and self.journal.keeps()
        if self.journal is not None and stays:
            self.journal.close()
        else:
            with attempts.deferring_errors():
                remove_staged(self.target.of(self.staged))
            self._unlock()
            with attempts.deferring_errors():
                remove_empty(self._made)
            if attempts.error is not None and os.path.lexists(self.staged):
                fix = command_line("state", "--fix", self.directory)
                reason = reason_of(attempts.error)
                notices.warn(f"{self.staged}: cannot be removed: {reason}; to remove it later: {fix}")
        ALIVE.discard(self)

    def _close(self) -> None:
        while self._files:
            self._files.pop().close()

    def _unlock(self) -> None:
        held, self._lock = self._lock, None
        if held is not None:
            close_descriptors(held)
        if self.journal is not None:
            self.journal.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # as Python ends, functions of modules are gone; the system unlocks
            self._unlock()


@contextlib.contextmanager
def holding(directory: Location) -> Iterator[None]:
    """Keep other commands from changing what is in a directory during this block; wait for one that does.

    A store has no such locks.
    """
    if directory.is_object():
        yield
        return
    directory = directory.of(directory or ".")  # the parent of a bare name is empty
    with refusing(directory):
        held = wait_for(directory)
    try:
        yield
    finally:
        close_descriptors(held)


def old_set_in(staged: Location) -> list[Location]:
    """Return the old set in a staging directory, by the paths it had: data first, the index last."""
    aside = os.path.join(staged, _ASIDE)
    names = os.listdir(aside) if os.path.isdir(aside) else []
    return [staged.beside(name) for name in sorted(names, key=lambda name: name.endswith(".index"))]


def put_back(staged: Location) -> None:
    """Move the old set in a staging directory back to its place, over what is there of the new."""
    paths = old_set_in(staged)
    for path in paths:
        os.replace(os.path.join(staged, _ASIDE, os.path.basename(path)), path)
    if paths:
        sync_directory(os.path.dirname(staged) or ".")


def remove_staged(staged: Location) -> None:
    """Remove a staging directory, the old set in it having been put back; raise the first error, if any."""
    if not os.path.isdir(staged):
        return
    attempts = Attempts()
    with attempts.deferring_errors():
        put_back(staged)
    if not old_set_in(staged):  # also where what was put back could not be synced
        remove_tree(staged)
    attempts.raise_first()


def make_directories(path: str, made: list[str] | None = None) -> None:
    """Make a directory and its missing parents, so that all survive a loss of power.

    They are added to `made`, the outermost first, before they are there.
    """
    missing = []
    while path and not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    if os.path.islink(path) and not os.path.exists(path):
        raise leads_nowhere(path)
    for each in reversed(missing):
        if made is not None:
            made.append(each)
        with contextlib.suppress(FileExistsError):  # Another may have made it meanwhile.
            os.mkdir(each)
        sync_directory(os.path.dirname(each) or ".")


@contextlib.contextmanager
def directories_made(paths: Iterable[Location]) -> Iterator[None]:
    """Make directories of this machine for this block; after an error the empty ones of them are removed."""
    made: list[str] = []
    try:
        for path in paths:
            with refusing(path):
                make_directories(path, made)
        yield
    except BaseException:
        remove_empty(made)
        raise


def remove_files(paths: Iterable[str], about: Location) -> None:
    """Remove files of this machine, or objects of a store."""
    if about.is_object():
        about.object_store.delete(list(paths))
        return
    with refusing(about):
        for path in paths:
            os.unlink(path)


def _sync_file(path: str, *, may_be_closed: bool) -> None:
    """Write a file to disk; if another process made it unreadable, by writing all files to disk."""
    try:
        with _opened(path) as fd:
            os.fsync(fd)
    except PermissionError:
        if not may_be_closed:
            raise
        os.sync()


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        close_descriptors(fd)


class Removable(Protocol):
    """Output in progress that can be removed."""

    def remove(self) -> None: ...


ALIVE: weakref.WeakSet[Removable] = weakref.WeakSet()


def remove_stagings() -> None:
    """Remove everything that this process is writing, at any point where an interrupt stopped it."""
    for staging in list(ALIVE):
        staging.remove()


def replace_file(path: Location, data: bytes) -> None:
    """Replace a file by one of this content, so that it is the old or the new one at every instant.

    It keeps its permissions and its owner; a symbolic link is followed.  In a store it is an object.
    """
    if path.is_object():
        path.object_store.put(path, data, WHATEVER)
        return
    path = followed(path)
    refuse_irreplaceable(path)
    ownership = ownership_of(path)
    temporary = f"{path}.tempstate{int.from_bytes(os.urandom(8))}"
    try:
        with StagedFile(temporary, path, mode=0o666 if ownership is None else 0o600) as file:
            file.write(data)
            if ownership is not None:
                file.belong(ownership)
            file.sync()
        with refusing(path):
            os.replace(temporary, path)
            sync_directory(os.path.dirname(path) or ".")
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one that the user sees
            os.unlink(temporary)
        raise
