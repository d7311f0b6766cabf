"""The staging directory of a conversion that may be interrupted, and gone on with by another process.

It is locked for as long as somebody works in it.  Finished ranges are collected, and a thread writes
them to the journal (`formats.store.local.journal`), and syncs it, once a second.  Whoever goes on first has
all as it was while it was filled: files that were renamed or moved go back, what nobody claims is removed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from typing import TYPE_CHECKING, Any

from ...core import notices
from ...errors import CheckpointError
from ..siblings import is_shard_of
from .journal import (
    JOURNAL,
    JOURNAL_VERSION,
    Claim,
    Claims,
    JournalContent,
    Moved,
    digest,
    has_journal,
    identity_of,
    journaled,
    line_of,
    lines_of,
    read_journal,
    refuse_strangers,
    staging_of,
)
from .locks import holder, is_locked, lock
from .removing import Attempts, let_go, remove_empty, remove_tree
from .staging import ALIVE, make_directories, put_back, reason_of, refusing, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...location import Location


_EVERY = 1.0
"""Seconds between two writes: what is lost to a kill is worth no more."""


class Journal:
    """The journal of a target, and the staging directory that it is in, locked from `begin` on.

    `header` says what is done: plain data.  `changed` says when sources were last changed, which a link or a
    chmod does, too: so it is no part of what is done.  Of one that `is_over`, for all is in its place, that
    alone is remembered until `forget`; one that `is_void` is removed.
    """

    def __init__(self, target: Location, header: Mapping[str, Any], changed: Mapping[str, int]) -> None:
        self.target = target
        self.header = {"journal": JOURNAL_VERSION, **header}
        self._changed = changed
        self._is_doubtful: bool | None = None
        self.directory = staging_of(target, digest(self.header))
        self.made: list[str] = []
        self.lock: int | None = None
        self.is_damaged = False
        self.is_over = False
        self.is_void = False
        self._is_done = False
        self._claims = Claims(())
        self._fd = -1
        self._pending: list[tuple[str, int, Claim]] = []
        self._error: OSError | None = None
        self._guard = threading.Condition()
        self._thread: threading.Thread | None = None

    def others(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield other staging directories of this target, and their headers.

        Raises CheckpointError where somebody works in one, or in the own.
        """
        for path in journaled(self.target):
            with refusing(path):
                held = is_locked(path)
            if held:
                raise _held(path)
            header = read_journal(path).header if path != self.directory else None
            if header is not None and header.get("target") == self.header.get("target"):
                yield path, header

    @property
    def is_there(self) -> bool:
        """Whether a process has begun, and left something."""
        return has_journal(self.directory)

    @property
    def is_done(self) -> bool:
        """Whether all was moved to its place, and lies there still."""
        if self.lock is None and has_journal(self.directory):
            return any(map(self._is_head_in_place, read_journal(self.directory).changes))
        return self._is_done

    @property
    def is_doubtful(self) -> bool:
        """Whether a source was changed, if only its links or mode, since the first process began.

        What was filled then may be another file's, and counts when the source was read again.
        """
        if self._is_doubtful is None:
            found = read_journal(self.directory)
            return found.header is not None and found.changed != self._changed
        return self._is_doubtful

    @property
    def has_moved(self) -> bool:
        """Whether some of it has been moved to its place, where it is nobody else's."""
        if not has_journal(self.directory):
            return False
        changes = read_journal(self.directory).changes
        return any(isinstance(change, Moved) and self._is_ours(change) for change in changes)

    def begin(self) -> None:
        """Make the staging directory, or go on in it: lock it, and have nothing there but what is claimed."""
        ALIVE.add(self)
        with refusing(self.target):
            make_directories(os.path.dirname(self.target), self.made)
            self._lock()
        found = read_journal(self.directory)
        if found.header is not None and found.header != self.header:
            found = JournalContent(None, [], [], is_whole=False)  # It calls itself what it is not.
        self.is_damaged = not found.is_whole and found.header is None
        self._is_doubtful = found.header is not None and found.changed != self._changed
        if self._is_doubtful:  # and stays so for whoever goes on after this one
            self._changed = found.changed
        self._is_done = any(map(self._is_head_in_place, found.changes))
        self._claims = Claims(found.lines)
        with refusing(self.target):
            if not self._is_done:
                self._undo(found.changes)
                self._tidy()
                self._write_anew()
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
            # Whoever held it before may have removed it since it was opened.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self.lock), os.lstat(self.directory)):
                    return
            let_go(self.lock)
            self.lock = None

    def _undo(self, changes: Sequence[Moved | tuple[str, str]]) -> None:
        """Have files back under the names that they were filled under."""
        put_back(self.directory)
        for change in reversed(changes):
            if isinstance(change, Moved):
                # Where an index was moved, the old data shards may have second names that it tells.
                if change.name == change.place and change.place not in self._heads and self._is_ours(change):
                    os.replace(self._final(change.place), self.path(change.name))
            elif os.path.lexists(self.path(change[1])) and not os.path.lexists(self.path(change[0])):
                os.rename(self.path(change[1]), self.path(change[0]))

    def _tidy(self) -> None:
        """Remove what is not claimed, and what has another name elsewhere: it is somebody's file."""
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

    def _write_anew(self) -> None:
        """Write what counts, and nothing else, in place of the journal that is there."""
        new = self.path(JOURNAL + ".new")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_APPEND, 0o600)
        try:
            _write(fd, line_of(self.header) + line_of(["changed", self._changed]))
            for line in self._claims.lines():
                _write(fd, line)
            os.fsync(fd)
            os.replace(new, self.path(JOURNAL))
        except BaseException:
            let_go(fd)
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
        """Whether what lies in a place is the file that was moved there, and a place of the target's."""
        if moved.place not in self._heads and not is_shard_of(moved.place, os.path.basename(self.target)):
            return False
        try:
            return identity_of(self._final(moved.place)) == moved.identity
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
        """Return what is claimed of a range of a staged file; None where nothing is."""
        return self._claims.at(name, offset, size) if size else None

    def filled(self, name: str, offset: int, claim: Claim) -> None:
        """Note that a range of a staged file is written.  Raises CheckpointError where that cannot be."""
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
        """Note that a staged file is about to be moved to its place, a path beside the target."""
        self._note(["moved", name, os.path.basename(place), identity_of(self.path(name))])

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
        """Write what was filled since the last time; what is refused is raised by who notes the next."""
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
        # Nobody waits for the disk meanwhile, and a kill loses nothing that is written.
        try:
            os.fsync(fd)
        except OSError as error:
            self._error = error
        finally:
            let_go(fd)

    # The end ----------------------------------------------------------------------

    def close(self) -> None:
        """Write what is left, and let another process go on."""
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
            let_go(fd)  # All that counts in it was synced.
        held, self.lock = self.lock, None
        if held is not None:
            let_go(held)
        ALIVE.discard(self)

    def keeps(self) -> bool:
        """Whether its directory stays: there is something to go on with, or to be remembered."""
        if self.lock is None:
            return True  # Nobody may touch it who has not locked it, or has let it go.
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
        empty = len(line_of(self.header)) + len(line_of(["changed", self._changed]))
        return not self.is_void and size > empty

    @property
    def is_kept(self) -> bool:
        """Whether it is there for others to go on with."""
        return has_journal(self.directory) and not self.is_over

    def remove(self) -> None:
        """Let it go, where nothing was staged by this process; what there is to go on with stays.

        Nothing is raised, as with `Staging.remove`.
        """
        attempts = Attempts()
        with attempts.going_on():
            if not self.keeps():
                remove_tree(self.directory)
                remove_empty(self.made)
        self.close()
        if attempts.error is not None:
            notices.warn(f"{self.directory}: cannot be removed: {reason_of(attempts.error)}")

    def forget(self) -> None:
        """Remove what is remembered of what is done."""
        if self.is_over:
            with contextlib.suppress(OSError):  # `begin` and `state --fix` find what stays
                remove_tree(self.directory)
                remove_empty(self.made)

    def sweep(self) -> None:
        """Remove the directory where a kill has left nothing in it."""
        with contextlib.suppress(OSError):  # there is none, or somebody has begun anew
            os.rmdir(self.directory)

    def __del__(self) -> None:
        for fd in (self._fd, self.lock):
            if fd is not None and fd >= 0:
                let_go(fd)


def _held(path: str) -> CheckpointError:
    hints = ("wait for it, or end it: what it has finished is kept",)
    return CheckpointError(f"{holder(path)} is at this conversion", path=path, hints=hints)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
