"""The journal of a conversion on a disk: a file in its staging directory (`formats.store.journal`).

The directory is locked while a process works in it. Once a second a thread writes the finished ranges to the
journal, and syncs it. A process that resumes restores the state in which files were filled: files that were
renamed or moved go back, and files without claims are removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
import threading
from typing import TYPE_CHECKING, Any

from ...core import notices
from ...errors import CheckpointError
from ..journal import (
    DAMAGED,
    JOURNAL,
    LONGEST,
    Claim,
    Claims,
    Journal,
    JournalContent,
    Moved,
    describe_finished,
    describe_unfinished,
    line_of,
    lines_of,
    parse_journal,
)
from ..siblings import is_shard_of
from ..work.unfinished import ALIVE
from .directories import make_directories, sync_directory
from .locks import holder, is_locked, lock
from .refusals import reason_of, refusing
from .removing import Attempts, close_descriptors, remove_empty, remove_tree
from .staging import put_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ...location import Location


_EVERY = 1.0
"""Seconds between two writes: what is lost to a kill is worth no more."""

_LONGEST_LINE = 16 << 20
"""Bytes of a line: a header names thousands of sources."""


class StagingJournal(Journal):
    """The journal of a target on this machine."""

    is_local = True

    def __init__(self, target: Location, header: Mapping[str, Any], changed: Mapping[str, int]) -> None:
        super().__init__(target, header, changed)
        self.made: list[str] = []
        self.lock: int | None = None
        self._claims = Claims(())
        self._fd = -1
        self._pending: list[tuple[str, int, Claim]] = []
        self._error: OSError | None = None
        self._guard = threading.Condition()
        self._thread: threading.Thread | None = None

    def _read(self, directory: Location) -> JournalContent:
        return read_journal(directory)

    def _staged(self) -> Iterator[Location]:
        for path in filter(has_journal, super()._staged()):
            with refusing(path):
                held = is_locked(path)
            if held:
                raise _held(path)
            yield path

    @property
    def is_there(self) -> bool:
        return has_journal(self.directory)

    @property
    def is_done(self) -> bool:
        return any(map(self._is_head_in_place, self._content.changes))

    @property
    def has_moved(self) -> bool:
        return any(isinstance(change, Moved) and self._is_ours(change) for change in self._content.changes)

    def _acquire(self) -> None:
        ALIVE.add(self)
        with refusing(self.target):
            make_directories(os.path.dirname(self.target), self.made)
            self._lock()

    def _resume(self, found: JournalContent) -> None:
        self._claims = Claims(found.claims)
        with refusing(self.target):
            if not self.is_done:
                self._undo(found.changes)
                self._tidy()
                found.changes, found.claims = [], [*self._claims.lines()]
                self._rewrite(found)
            sync_directory(self.directory)

    def _lock(self) -> None:
        while True:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.directory, 0o700)
            refuse_strangers(self.directory)
            try:
                self.lock = lock(self.directory)
            except BlockingIOError as error:
                raise _held(self.directory) from error
            except FileNotFoundError:
                continue
            # its earlier holder may have removed it since it was opened
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self.lock), os.lstat(self.directory)):
                    return
            close_descriptors(self.lock)
            self.lock = None

    def _undo(self, changes: Sequence[Moved | tuple[str, str]]) -> None:
        """Have files back under the names that they were filled under."""
        put_back(self.directory)
        for change in reversed(changes):
            if isinstance(change, Moved):
                # If an index was moved, the old data shards may have second names, which it lists.
                if change.name == change.place and change.place not in self._heads and self._is_ours(change):
                    os.replace(self._final(change.place), self.path(change.name))
            elif os.path.lexists(self.path(change[1])) and not os.path.lexists(self.path(change[0])):
                os.rename(self.path(change[1]), self.path(change[0]))

    def _tidy(self) -> None:
        """Remove files without claims, and files that have another name elsewhere, because those belong to
        someone else.
        """
        with os.scandir(self.directory) as entries:
            for entry in list(entries):
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                elif not self._may_stay(entry):
                    os.unlink(entry.path)

    def _may_stay(self, entry: os.DirEntry[str]) -> bool:
        status = entry.stat(follow_symlinks=False)
        is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
        return is_plain and (entry.name in self._claims.names or entry.name == JOURNAL)

    def _rewrite(self, content: JournalContent) -> None:
        """Write what counts, and nothing else, in place of the journal that is there."""
        new = self.path(JOURNAL + ".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            for line in content.lines():
                _write(fd, line)
            os.fsync(fd)
            os.replace(new, self.path(JOURNAL))
        except BaseException:
            close_descriptors(fd)
            raise
        self._fd = fd

    # Places -----------------------------------------------------------------------

    def path(self, name: str) -> str:
        return os.path.join(self.directory, name)

    def _final(self, name: str) -> str:
        return os.path.join(os.path.dirname(self.target), name)

    @property
    def _heads(self) -> tuple[str, str]:
        """The names of what goes last: the one file, or an index."""
        name = os.path.basename(self.target)
        return name, name + ".index"

    def _is_ours(self, moved: Moved) -> bool:
        """Whether the file in a place is the one that was moved there, and the place belongs to the
        target.
        """
        if moved.place not in self._heads and not is_shard_of(moved.place, os.path.basename(self.target)):
            return False
        try:
            return _identity_of(self._final(moved.place)) == moved.identity
        except OSError:
            return False

    def _is_head_in_place(self, change: Moved | tuple[str, str]) -> bool:
        if not isinstance(change, Moved) or change.place not in self._heads:
            return False
        return change.name == change.place and self._is_ours(change)

    # What is claimed --------------------------------------------------------------

    def is_claimed(self, name: str) -> bool:
        """Whether anything is claimed of a staged file, which is there then."""
        return name in self._claims.names and os.path.lexists(self.path(name))

    def claim(self, name: str, offset: int, size: int) -> Claim | None:
        return self._claims.at(name, offset, size) if size else None

    def filled(self, name: str, offset: int, claim: Claim) -> None:
        with self._guard:
            self._raise_error()
            self._pending.append((name, offset, claim))
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_now_and_then, daemon=True)
                self._thread.start()

    def renamed(self, old: str, new: str) -> None:
        """Note that a staged file is about to have another name."""
        self._note(["renamed", old, new])

    def moved(self, name: str, place: str) -> None:
        """Note that a staged file is about to be renamed to its final path next to the target."""
        self._note(["moved", name, os.path.basename(place), _identity_of(self.path(name))])

    def _note(self, value: Sequence[object]) -> None:
        with refusing(self.target), self._guard:
            self._raise_error()
            _write(self._fd, line_of(value))
            os.fsync(self._fd)

    def _raise_error(self) -> None:
        if self._error is not None:
            with refusing(self.target):
                raise self._error

    def _write_now_and_then(self) -> None:
        while True:
            with self._guard:
                if self._fd < 0:
                    return
                self._guard.wait(_EVERY)
            self._write_pending()

    def _write_pending(self) -> None:
        """Write the new claims. If that fails, the next caller gets the error."""
        with self._guard:
            pending, self._pending = self._pending, []
            if not pending or self._fd < 0 or self._error is not None:
                return
            try:
                for line in lines_of(pending):
                    _write(self._fd, line)
            except OSError as error:
                self._error = error
                return
            fd = os.dup(self._fd)
        # No one waits for the disk meanwhile, and a kill loses nothing that is written.
        try:
            os.fsync(fd)
        except OSError as error:
            self._error = error
        finally:
            close_descriptors(fd)

    # The end ----------------------------------------------------------------------

    def close(self) -> None:
        """Write what is left, and let another process resume it."""
        with contextlib.suppress(CheckpointError):
            self._write_pending()
        with self._guard:
            fd, self._fd = self._fd, -1
            self._guard.notify_all()
        # An interrupt can come before it runs; then it finds the journal closed.
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()
        if fd >= 0:
            close_descriptors(fd)  # All that counts in it was synced.
        held, self.lock = self.lock, None
        if held is not None:
            close_descriptors(held)
        ALIVE.discard(self)

    def keeps(self) -> bool:
        if self.lock is None:
            return True  # only its holder may remove it
        if self.is_over:
            for name in os.listdir(self.directory):
                if name != JOURNAL:
                    path = self.path(name)
                    remove_tree(path) if os.path.isdir(path) else os.unlink(path)
            return True
        self._write_pending()
        try:
            size = os.path.getsize(self.path(JOURNAL))
        except FileNotFoundError:  # It was cut off before it had begun.
            return False
        empty = len(line_of(self.header)) + len(line_of(["changed", self._content.changed]))
        return not self.is_void and size > empty

    @property
    def is_kept(self) -> bool:
        return has_journal(self.directory) and not self.is_over

    def remove(self) -> None:
        # Nothing is raised, as with `Staging.remove`.
        attempts = Attempts()
        with attempts.deferring_errors():
            if not self.keeps():
                remove_tree(self.directory)
                remove_empty(self.made)
        self.close()
        if attempts.error is not None:
            notices.warn(f"{self.directory}: cannot be removed: {reason_of(attempts.error)}")

    def forget(self) -> None:
        if self.is_over:
            with contextlib.suppress(OSError):  # `begin` and `state --fix` find what stays
                remove_tree(self.directory)
                remove_empty(self.made)

    def sweep(self) -> None:
        with contextlib.suppress(OSError):  # there is none, or another process has started over
            os.rmdir(self.directory)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        for fd in () if is_finalizing() else (self._fd, self.lock):
            if fd is not None and fd >= 0:
                close_descriptors(fd)


def _held(path: str) -> CheckpointError:
    hints = ("wait for that process, or stop it; finished work is kept",)
    return CheckpointError(f"{holder(path)} is already running this conversion", path=path, hints=hints)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _identity_of(path: str) -> tuple[int, int, int]:
    status = os.lstat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


# What another process has left ------------------------------------------------------


def has_journal(directory: str) -> bool:
    return os.path.lexists(os.path.join(directory, JOURNAL))


def read_journal(directory: Location) -> JournalContent:
    """Return what the journal of a staging directory says.

    Raises CheckpointError if it cannot be read, or belongs to another user.
    """
    if not has_journal(directory):
        return JournalContent()
    with refusing(directory):
        refuse_strangers(directory)
        fd = os.open(os.path.join(directory, JOURNAL), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size > LONGEST:
                return JournalContent(is_whole=False)
            return parse_journal(iter(lambda: file.readline(_LONGEST_LINE), b""))


def refuse_strangers(directory: str) -> None:
    """Refuse to believe, or to write over, what another user has put there."""
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        message = "this is not your own directory, so the conversion cannot be resumed from it"
        raise CheckpointError(
            message, path=directory, hints=("remove this directory, or leave out --resume",)
        )


def describe_leftover(directory: Location) -> str | None:
    """Describe the content of a staging directory that can be resumed, or return None."""
    if not has_journal(directory):
        return None
    try:
        found = read_journal(directory)
    except CheckpointError:
        return "an interrupted conversion of another user"
    if found.header is None:
        return DAMAGED
    name, nbytes = found.header["target"], found.header["nbytes"]
    if any(isinstance(change, Moved) and change.name == change.place for change in found.changes):
        return describe_finished(name)
    done = sum(size for line in found.claims for size, *_ in json.loads(line[9:])[3])
    return describe_unfinished(name, f"{done:,} of {nbytes:,} bytes done")
