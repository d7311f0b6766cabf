"""The journal of a conversion in a bucket: one object, put again after each finished object.

`formats.store.journal` describes its content. Each put replaces the previous version and no other. A process
that resumes takes the journal over, and a process that still works there gets an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import CheckpointError, CheckpointExistsError
from ..journal import (
    DAMAGED,
    JOURNAL,
    LONGEST,
    Journal,
    JournalContent,
    Sent,
    describe_unfinished,
    is_name,
    parse_journal,
)
from ..siblings import count_in, is_shard_of, staging_pattern
from ..work.unfinished import ALIVE
from .object_lock import ObjectLock
from .objects import NOTHING, Precondition, is_same, md5
from .upload import Upload

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...core.chunks import Chunk
    from ...location import Location
    from ..base import Entry
    from ..journal import Row


class SentObject(Upload):
    """An object that was sent before: bytes written to it are counted and discarded."""

    def __init__(self, path: Location, entry: Entry, rows: Sequence[Row]) -> None:
        super().__init__(path, NOTHING)
        self._entry = entry
        self._expected = iter(rows)
        self._next = next(self._expected, None)
        self.is_published = True

    @property
    def next_row(self) -> Row | None:
        """The next of its tensors."""
        return self._next

    def write(self, data: Chunk | bytearray) -> None:
        self.size += len(data)

    def skip(self, size: int) -> None:
        """Pass over some of its bytes."""
        self.size += size

    def add_row(self, row: Row) -> None:
        if row != self._next:
            raise self._misfit()
        self._next = next(self._expected, None)

    def close(self) -> None:
        if self._entry is None or self.size != self._entry.size or self._next is not None:
            raise self._misfit()

    def _misfit(self) -> CheckpointError:
        hints = ("run it again without --resume and with --overwrite",)
        return CheckpointError(
            "this path was uploaded before with different content", path=self.path, hints=hints
        )


class UploadJournal(Journal):
    """The journal of a target in a bucket."""

    is_local = False

    def __init__(self, target: Location, header: Mapping[str, Any], changed: Mapping[str, int]) -> None:
        super().__init__(target, header, changed)
        self.path = self.directory / JOURNAL
        self.lock = ObjectLock(target)
        self._store = target.object_store
        self._entry: Entry | None = None
        self._has_begun = False
        self._is_lost = False

    def _read(self, directory: Location) -> JournalContent:
        return _read(directory / JOURNAL)

    @property
    def count(self) -> int | None:
        """The count of shards in their names, if it is decided."""
        return self._content.count

    @property
    def is_there(self) -> bool:
        return self._store.current(self.path) is not None

    @property
    def is_done(self) -> bool:
        head = self._content.head
        return head is not None and any(self._is_head(path, *head) for path in self._heads)

    @property
    def _heads(self) -> tuple[Location, Location]:
        return self.target, self.target + ".index"

    def _is_head(self, path: Location, size: int, checksum: str) -> bool:
        entry = self._store.current(path)
        if entry is None or entry.size != size:
            return False
        with self._store.open(path) as file:
            return md5(file.read_exactly(0, file.size)).hex() == checksum

    @property
    def has_moved(self) -> bool:
        return self.count is not None and not any(map(self._store.current, self._heads))

    def _acquire(self) -> None:
        ALIVE.add(self)
        self.lock.acquire()
        self._store.forget_listings()
        self._entry = self._store.current(self.path)

    def _resume(self, _: JournalContent) -> None:
        self._has_begun = True
        self._put()

    def counted(self, count: int) -> int:
        """Return the count of shards in their names: the one that was taken first."""
        if self._content.count is None:
            self._content.count = count
            self._put()
        return self._content.count

    def kept(self, path: Location) -> SentObject | None:
        """Return an object that was sent before and still exists, or None if it must be sent."""
        sent = self._content.sent.get(path.name)
        entry = self._store.current(path) if sent is not None else None
        if (
            sent is None
            or entry is None
            or not is_same(entry.identity, sent.identity)
            or entry.size != sent.size
        ):
            self._content.sent.pop(path.name, None)
            return None
        return SentObject(path, entry, sent.rows)

    def finished(self, path: Location, entry: Entry, rows: Sequence[Row]) -> None:
        """Note an object that is finished."""
        self._content.sent[path.name] = Sent(entry.identity, entry.size, tuple(rows))
        self._put()

    def heading(self, data: bytes) -> None:
        """Note the index, before it is put."""
        self._content.head = len(data), md5(data).hex()
        self._put()

    def _put(self) -> None:
        precondition = NOTHING if self._entry is None else Precondition(entry=self._entry)
        try:
            self._store.put(self.path, b"".join(self._content.lines()), precondition)
        except CheckpointExistsError as error:
            self._is_lost = True
            hints = ("let the other command finish, because it has all the finished work",)
            message = "another command is running this conversion"
            raise CheckpointError(message, path=self.directory, hints=hints) from error
        self._entry = self._store.current(self.path)

    def keeps(self) -> bool:
        is_taken = self._is_lost or self.lock.is_lost
        return is_taken or self.is_over or (not self.is_void and bool(self._content.sent))

    @property
    def is_kept(self) -> bool:
        return self._has_begun and self.keeps() and not self.is_over

    def remove(self) -> None:
        ALIVE.discard(self)
        try:
            if self._has_begun and not self.keeps():
                self._store.delete([self.path])
        finally:
            self.lock.release()

    def forget(self) -> None:
        if self.is_over:
            self._store.delete([self.path])


class HalfSent(NamedTuple):
    """The objects that an interrupted conversion has sent, and its journal, which can be resumed.

    `target` is the path that it leads to, None if the journal does not tell; `objects` are those of the
    count of shards that it has taken, each with its bytes, the journal last.
    """

    path: Location
    what: str
    modified: float
    target: Location | None
    objects: tuple[tuple[str, int], ...]
    in_the_way: str | None = None
    aside: tuple[Location, ...] = ()

    @property
    def nbytes(self) -> int:
        return sum(size for _, size in self.objects)

    def frees(self, _: object) -> int:
        """Return the bytes that removing it frees: no object has two names."""
        return self.nbytes

    def clear(self) -> None:
        """Delete the objects, the journal last, so that an interrupted deletion can be repeated."""
        self.path.object_store.delete([path for path, _ in self.objects])


def half_sent(directory: Location) -> HalfSent | None:
    """Return what an interrupted conversion has sent, by the folder of its journal, or None.

    A journal may be forged, so it returns only files that are shards of its target.
    """
    path = directory / JOURNAL
    entry = path.object_store.current(path)
    if entry is None:
        return None
    found, journal = _read(path), (path, entry.size)
    name: Any = (found.header or {}).get("target")
    if found.header is None or not is_name(name) or not staging_pattern(name)[1].fullmatch(directory.name):
        return HalfSent(directory, DAMAGED, entry.modified, None, (journal,))
    folder = directory.parent
    objects, done = [], 0
    for each, _ in folder.names():
        there = (folder / each).entry() if is_shard_of(each, name) else None
        # One that was finished when its journal was not yet put has the count that was taken for all.
        if there is not None and count_in(each) == found.count:
            objects.append((folder / each, there.size))
            sent = found.sent.get(each)
            done += there.size if sent is not None and is_same(there.identity, sent.identity) else 0
    target, nbytes = folder / name, found.header["nbytes"]
    what = describe_unfinished(name, f"{done:,} bytes of {nbytes:,} sent")
    return HalfSent(directory, what, entry.modified, target, (*objects, journal))


def _read(path: Location) -> JournalContent:
    """Return what a journal says."""
    entry = path.object_store.current(path)
    if entry is None or entry.size > LONGEST:
        return JournalContent(is_whole=entry is None)
    with path.open() as file:
        return parse_journal(iter(file.read_exactly(0, file.size).splitlines(keepends=True)))
