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
import os
import sys
from typing import TYPE_CHECKING

from ...core import notices
from ...core.words import command_line
from ..remote.objects import ANYTHING
from ..siblings import LONGEST_STEM
from ..work.unfinished import ALIVE
from .directories import make_directories, sync_directory
from .links import followed
from .locks import lock, lock_timeout, wait_for
from .ownership import give, ownership_of, strictest
from .refusals import reason_of, refuse_irreplaceable, refusing
from .removing import Attempts, close_descriptors, remove_empty, remove_tree
from .staged_file import StagedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...location import Location
    from .ownership import Ownership
    from .staging_journal import StagingJournal


_ASIDE = "aside"


class Staging:
    """A directory next to the target, private to the user, in which all new files are made.

    `target` is not a link (`formats.store.local.links`). `replaced` are the files of an old set: a file that
    replaces one of them gets its permissions and owner, and any other file gets what all of them allow. With
    a `journal`, which has begun, the directory belongs to the journal, and stays as long as there is anything
    to resume.
    """

    is_local = True
    """Whether files are filled at places, and moved, rather than sent as by `Uploading`."""

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


def replace_file(path: Location, data: bytes) -> None:
    """Replace a file by one of this content, so that it is the old or the new one at every instant.

    It keeps its permissions and its owner; a symbolic link is followed.  In a store it is an object.
    """
    if path.is_object():
        path.object_store.put(path, data, ANYTHING)
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
