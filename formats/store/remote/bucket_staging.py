"""A checkpoint in a bucket, written object by object: the head comes last."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from ...core import notices
from ...core.chunks import PIECE
from ...errors import CheckpointError, CheckpointExistsError
from ...location import Location, as_if_there, local_location
from ..local.refusals import refusing
from ..local.removing import cleaning_up, remove_tree
from ..local.staged_file import StagedFile
from ..work.unfinished import ALIVE
from .object_lock import ObjectLock
from .objects import ANYTHING, NOTHING, Precondition
from .upload import WHOLE, DelegatedUpload, Upload, part_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .upload_journal import UploadJournal


class Uploading:
    """The objects of a target, in place of a `Staging`.

    `head` is the path of the last object. `prove` compares each object with the store's entry. `largest` is
    the size of the largest object in bytes, as far as known. With a `journal`, finished objects stay, so that
    another process can resume. If it `is_shared`, other processes send everything except the head. It holds
    the lock of the target until it is done.
    """

    is_local = False

    def __init__(
        self,
        target: Location,
        head: Location,
        *,
        overwrite: bool = False,
        prove: bool = True,
        largest: int = 0,
        journal: UploadJournal | None = None,
        is_shared: bool = False,
    ) -> None:
        self.target = target
        self.is_shared = is_shared
        self._journal = journal
        self._head_path = head
        self._prove = prove
        self._block = part_size(largest)
        self._store = target.object_store
        self._precondition = NOTHING
        self._lock = ObjectLock(target) if journal is None else journal.lock
        self._head: Upload | None = None
        self._uploads: list[Upload] = []
        self._files: list[StagedFile] = []
        self._scratch: str | None = None
        self._surplus: list[str] = []
        ALIVE.add(self)
        try:
            self._begin(overwrite=overwrite)
        except BaseException:
            self.remove()
            raise

    def _begin(self, *, overwrite: bool) -> None:
        """Take the lock, unless the journal has it, and look at the objects to replace."""
        if self._store.current(self._head_path) is None:
            self._head_path.require_container()
        if self._journal is None:
            self._lock.acquire()
        before = self._store.current(self._head_path)
        if before is not None and not overwrite:
            writer = f", written by {self._lock.waited_for}" if self._lock.waited_for else ""
            raise CheckpointExistsError(
                f"another program created this path in the meantime{writer}", path=self._head_path
            )
        self._precondition = NOTHING if before is None else Precondition(entry=before)

    # What is on this machine ------------------------------------------------------

    @property
    def staged(self) -> str:
        """The directory of this machine for what is not sent yet."""
        if self._scratch is None:
            import tempfile

            with refusing(self.target):
                self._scratch = tempfile.mkdtemp(prefix="ckpt-")
        return self._scratch

    def path(self, name: str) -> Location:
        """Return the path of a file on this machine, which becomes the head where it has its name."""
        return local_location(os.path.join(self.staged, name))

    def scratch(self, name: str) -> StagedFile:
        """Return a new file on this machine, for what waits."""
        return self._here(StagedFile(self.path(name), self.target))

    def _here(self, file: StagedFile) -> StagedFile:
        file.travels = False
        self._files.append(file)
        return file

    def adopt(self, name: str) -> StagedFile:
        """Open a file on this machine that a library has made, to write at places in it."""
        return self._here(StagedFile(self.path(name), self.target, new=False))

    # Objects ----------------------------------------------------------------------

    def final(self, name: str) -> Location:
        """Return the path of an object next to the target."""
        return self.target.parent / name

    def create(self, name: str) -> Upload:
        """Begin an object. An object that precedes the head needs a name that is not in use."""
        path = self.final(name)
        is_head = path == self._head_path
        kept = self._journal.kept(path) if self._journal is not None and not is_head else None
        if kept is not None:
            self._uploads.append(kept)
            return kept
        # an object sent earlier, and no longer in the journal, has the name that is assigned to it
        precondition = self._precondition if is_head else NOTHING if self._journal is None else ANYTHING
        # An index is put at one stroke, on its condition, and can be read before.
        block = WHOLE if is_head and (self._uploads or path != self.target) else self._block
        if self.is_shared and not is_head:
            delegated = DelegatedUpload(path, block, prove=self._prove)
            self._uploads.append(delegated)
            return delegated
        upload = Upload(path, precondition, block, is_head=is_head, prove=self._prove)
        upload.lock = self._lock
        if is_head:
            self._head = upload
        else:
            upload.journal = self._journal
            self._uploads.append(upload)
        return upload

    def sync(self) -> None:
        """Complete all objects but the head, and all files."""
        for upload in self._uploads:
            upload.close()
        while self._files:
            self._files.pop().close()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Look at the current objects; the lock keeps others from writing the same ones."""
        self._store.forget_listings()
        yield

    def foreign(self, paths: Iterable[str]) -> list[str]:
        """Return those of some paths that are not of this target's own objects."""
        own = {upload.path for upload in self._uploads}
        return [path for path in paths if path not in own]

    @property
    def is_readable(self) -> bool:
        """Whether all of it can be read before it is in its place."""
        return self._head is not None and bool(self._uploads) and self._head.waiting is not None

    @contextlib.contextmanager
    def opening(self) -> Iterator[Location]:
        """Have all be read, as long as the context lasts, as if the head were there."""
        data = self._head.waiting if self._head is not None and not self._head.is_published else None
        if data is None:
            yield self.target
            return
        with as_if_there(self._head_path, data):
            yield self.target

    def move_in(self, surplus: Iterable[str] = ()) -> None:
        """Complete the head, which makes the checkpoint the new one; then delete what it has replaced."""
        self._refuse_replaced()
        head = self._head or self._from_file()
        self._surplus = [path for path in self.foreign(surplus) if path != self._head_path]
        if self._journal is not None and head.waiting is not None:
            self._journal.heading(head.waiting)
        head.publish()
        self._refuse_replaced(head)  # by another who writes the same, and was not yet noticed above
        self._store.delete(self._surplus)
        self._surplus = []

    def _refuse_replaced(self, head: Upload | None = None) -> None:
        """Raise CheckpointError if a sent object was replaced, after removing the head."""
        for upload in self._uploads:
            if not upload.is_ours():
                if head is not None:
                    with cleaning_up(head.path):
                        head.remove()
                raise CheckpointError(
                    "another program replaced or removed this path in the meantime", path=upload.path
                )

    def _from_file(self) -> Upload:
        """Send the file of this machine that has the head's name."""
        path = self.path(self._head_path.name)
        with refusing(self.target):
            size = os.path.getsize(path)
        block = max(self._block, part_size(size))
        self._head = head = Upload(
            self._head_path, self._precondition, block, is_head=True, prove=self._prove
        )
        head.lock = self._lock
        with refusing(self.target), open(path, "rb") as file:
            while piece := file.read(PIECE):
                head.write(piece)
        return head

    def withdraw(self) -> None:
        """Delete what is in its place, where it turned out to be wrong."""
        for upload in (self._head, *self._uploads):
            if upload is not None:
                upload.remove()

    def remove(self) -> None:
        """Take back all that is not in its place, and remove what is on this machine.

        Objects that the head may name stay if it is unknown whether the head exists. Nothing is raised, as by
        `Staging.remove`.
        """
        ALIVE.discard(self)
        with cleaning_up(self.target):
            self._undo()

    def _undo(self) -> None:
        with contextlib.ExitStack() as stack:  # continues after a step that fails
            stack.callback(self._lock.release if self._journal is None else self._journal.remove)
            stack.callback(self._remove_here)
            self._settle_head()
            is_kept = self._journal is not None and self._journal.keeps()
            if is_kept or self._is_unknown or self._lock.is_lost:
                self._abort()
            elif self._head is not None and self._head.is_published:
                self._store.delete(self._surplus)
            else:
                for upload in (*self._uploads, *([self._head] if self._head is not None else ())):
                    stack.callback(upload.remove)

    def _settle_head(self) -> None:
        """Find out whether the head exists. If that stays unknown, warn, because its shards must stay."""
        if self._head is None:
            return
        self._head.settle()
        if self._is_unknown:
            text = "the server did not confirm the upload, so the object may or may not exist"
            notices.warn(f"{self._head.path}: {text}; the files it names were kept")

    @property
    def _is_unknown(self) -> bool:
        """Whether it is unknown if the head exists."""
        return self._head is not None and self._head.is_published is None

    def _remove_here(self) -> None:
        """Remove what is on this machine."""
        while self._files:
            with contextlib.suppress(CheckpointError):  # the object is discarded anyway
                self._files.pop().close()
        if self._scratch is not None:
            with contextlib.suppress(OSError):
                remove_tree(self._scratch)
            self._scratch = None

    def _abort(self) -> None:
        """Take back what is on its way; what is finished stays."""
        for upload in self._uploads:
            upload.settle()
            if not upload.is_published:
                upload.remove()
