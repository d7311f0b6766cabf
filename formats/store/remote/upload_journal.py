"""What of a target in a store of objects was sent before, so that another process can go on.

    TARGET_temp_<32 hex>/ckpt.journal     one object, put anew with each that is finished
        {"journal": 1, ...}                                     the header; lines are as in `journal`
        ["changed", {PATH: TIME}]                               when sources were last changed
        ["count", N]                                            the count of shards in their names
        ["sent", NAME, IDENTITY, SIZE, [[OFFSET, SIZE, CRC]]]   an object, and the tensors that lie in it
        ["head", SIZE, MD5]                                     the index, just before it is put

An object counts if the store still has the one with this e_tag.  Each put of the journal takes
the place of the one before and of no other: who goes on takes over, and another still at it is told.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import CheckpointError, CheckpointExistsError
from ...location import Location
from ..local.journal import (
    JOURNAL,
    JOURNAL_VERSION,
    LONGEST,
    digest,
    header_of,
    is_name,
    is_number,
    is_of,
    is_times,
    line_of,
    value_of,
)
from ..local.staging import ALIVE
from ..siblings import count_in, is_shard_of, staging_pattern
from .object_lock import ObjectLock
from .objects import NOTHING, Over, is_same, md5
from .upload import Upload, object_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...core.chunks import Chunk
    from ...location import Location
    from ..base import Entry, Identity


Row = tuple[int, int, int]
"""Where a tensor lies in an object: offset, bytes, masked checksum."""


class Sent(NamedTuple):
    """An object that is finished."""

    identity: Identity
    size: int
    rows: tuple[Row, ...]


class _Read(NamedTuple):
    """What a journal in a store says."""

    header: dict[str, Any] | None
    planned: int | None
    sent: dict[str, Sent]
    head: tuple[int, str] | None
    changed: Mapping[str, int] = {}


def _read(path: Location) -> _Read:
    """Return what a journal says, to the first line that is not whole."""
    nothing = _Read(None, None, {}, None)
    store = object_store(path)
    entry = store.asked(path)
    if entry is None or entry.size > LONGEST:
        return nothing
    with store.open(path) as file:
        lines = file.read_exactly(0, file.size).splitlines(keepends=True)
    header = header_of(lines[0]) if lines else None
    if header is None:
        return nothing
    found = _Read(header, None, {}, None)
    for line in lines[1:]:
        value = value_of(line)
        if is_of(value, "count", 2) and is_number(value[1]):
            found = found._replace(planned=value[1])
        elif is_of(value, "head", 3) and is_number(value[1]) and isinstance(value[2], str):
            found = found._replace(head=(value[1], value[2]))
        elif is_times(value):
            found = found._replace(changed=value[1])
        elif _is_sent(value):
            found.sent[value[1]] = Sent(tuple(value[2]), value[3], tuple(map(tuple, value[4])))
        else:
            break
    return found


class SentObject(Upload):
    """An object that was sent before: what is written to it is counted, and goes nowhere."""

    def __init__(self, path: Location, entry: Entry, rows: Sequence[Row]) -> None:
        super().__init__(path, NOTHING)
        self._entry = entry
        self._expected = iter(rows)
        self._next = next(self._expected, None)
        self.is_published = True

    @property
    def next_row(self) -> Row | None:
        """The next of the tensors that lie in it."""
        return self._next

    def write(self, data: Chunk | bytearray) -> None:
        self.size += len(data)

    def skip(self, size: int) -> None:
        """Pass over bytes that lie in it."""
        self.size += size

    def add_row(self, row: Row) -> None:
        if row != self._next:
            raise self._misfit()
        self._next = next(self._expected, None)

    def close(self) -> None:
        if self._entry is None or self.size != self._entry.size or self._next is not None:
            raise self._misfit()

    def _misfit(self) -> CheckpointError:
        hints = ("leave out --resume, and give --overwrite",)
        return CheckpointError("was sent before, and has not what belongs there", path=self.path, hints=hints)


class SentJournal:
    """The journal of a target in a store; what `Journal` is on a disk."""

    is_damaged = False

    def __init__(self, target: Location, header: Mapping[str, Any], changed: Mapping[str, int]) -> None:
        self.target = target
        self._changed = changed
        self.header = {"journal": JOURNAL_VERSION, **header}
        stem = staging_pattern(target.name)[0]
        self.directory = target.parent / (f"{stem}_temp_{digest(self.header)}")
        self.path = self.directory / JOURNAL
        self.is_over = False
        self.is_void = False
        self.count: int | None = None
        self._store = object_store(target)
        self.lock = ObjectLock(target)
        self._sent: dict[str, Sent] = {}
        self._head: tuple[int, str] | None = None
        self._entry: Entry | None = None
        self._has_begun = False
        self._is_lost = False

    def others(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield other journals of this target, by where they lie, and their headers."""
        folder = self.target.parent
        pattern = staging_pattern(self.target.name)[1]
        names: list[str] = []
        with contextlib.suppress(CheckpointError):  # of a folder that is not there yet
            names = [name for name, is_folder in folder.names() if is_folder and pattern.fullmatch(name)]
        for name in names:
            path = folder / name
            header = _read(path / JOURNAL).header if path != self.directory else None
            if header is not None and header.get("target") == self.header.get("target"):
                yield path, header

    def _load(self) -> None:
        found = _read(self.path)
        if found.header is not None and found.header == self.header:
            self.count, self._head = found.planned, found.head
            self._sent = found.sent

    @property
    def is_doubtful(self) -> bool:
        """Whether a source was changed, if only its links or mode, since the first process began."""
        found = _read(self.path)
        return found.header is not None and found.changed != self._changed

    def begin(self) -> None:
        """Take the target's lock, and the journal over, or begin one."""
        ALIVE.add(self)
        self.lock.acquire()
        self._store.forget_listings()
        self._entry = self._store.asked(self.path)
        self._load()
        self._has_begun = True
        self._put()

    @property
    def is_there(self) -> bool:
        """Whether a process has begun, and left something."""
        return self._store.asked(self.path) is not None

    @property
    def is_done(self) -> bool:
        """Whether the index was put, and lies there still."""
        if not self._has_begun:
            self._load()
        return self._head is not None and any(map(self._is_head, (self.target, self.target + ".index")))

    def _is_head(self, path: str) -> bool:
        entry = self._store.asked(path)
        if self._head is None or entry is None or entry.size != self._head[0]:
            return False
        with self._store.open(path) as file:
            return md5(file.read_exactly(0, file.size)).hex() == self._head[1]

    @property
    def has_moved(self) -> bool:
        """Whether what lies there is of this target alone: objects that no index names."""
        paths = (self.target, self.target + ".index")
        return self.count is not None and not any(map(self._store.asked, paths))

    def counted(self, count: int) -> int:
        """Return the count of shards in their names: the one that was taken first."""
        if self.count is None:
            self.count = count
            self._put()
        return self.count

    def kept(self, path: Location) -> SentObject | None:
        """Return an object that was sent before, and is there still; None where it must be sent."""
        sent = self._sent.get(path.name)
        entry = self._store.asked(path) if sent is not None else None
        if (
            sent is None
            or entry is None
            or not is_same(entry.identity, sent.identity)
            or entry.size != sent.size
        ):
            self._sent.pop(path.name, None)
            return None
        return SentObject(path, entry, sent.rows)

    def finished(self, path: Location, entry: Entry, rows: Sequence[Row]) -> None:
        """Note an object that is finished."""
        self._sent[path.name] = Sent(entry.identity, entry.size, tuple(rows))
        self._put()

    def heading(self, data: bytes) -> None:
        """Note the index, before it is put."""
        self._head = len(data), md5(data).hex()
        self._put()

    def _put(self) -> None:
        lines = [line_of(self.header), line_of(["changed", self._changed])]
        if self.count is not None:
            lines.append(line_of(["count", self.count]))
        for name, sent in self._sent.items():
            lines.append(line_of(["sent", name, sent.identity, sent.size, sent.rows]))
        if self._head is not None:
            lines.append(line_of(["head", *self._head]))
        over = NOTHING if self._entry is None else Over(entry=self._entry)
        try:
            self._store.put(self.path, b"".join(lines), over)
        except CheckpointExistsError as error:
            self._is_lost = True
            hints = ("one of them is enough: it has all that was finished",)
            message = "another command is at this conversion"
            raise CheckpointError(message, path=self.directory, hints=hints) from error
        self._entry = self._store.asked(self.path)

    def keeps(self) -> bool:
        """Whether what was sent stays: there is something to go on with, or another goes on with it."""
        return self._is_lost or self.lock.is_lost or self.is_over or (not self.is_void and bool(self._sent))

    @property
    def is_kept(self) -> bool:
        return self._has_begun and self.keeps() and not self.is_over

    def close(self) -> None:
        """Leave it to others, or remove it where it is of no use."""
        ALIVE.discard(self)
        try:
            if self._has_begun and not self.keeps():
                self._store.delete([self.path])
        finally:
            self.lock.release()

    remove = close

    def forget(self) -> None:
        """Remove it, now that all is in its place."""
        if self.is_over:
            self._store.delete([self.path])


class HalfSent(NamedTuple):
    """What an interrupted conversion has put into a store, and its journal, by which it can be gone on with.

    `target` is the path that it leads to, None where the journal does not tell; `objects` are those of the
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
        """Delete the objects, the journal last, so that whoever is cut off here can do it again."""
        object_store(self.path).delete([path for path, _ in self.objects])


def half_sent(directory: Location) -> HalfSent | None:
    """Return what an interrupted conversion has sent, by where its journal lies; None where none does.

    A journal may be anybody's invention: what is no shard of its target is not told.
    """
    path = directory / JOURNAL
    entry = object_store(path).asked(path)
    if entry is None:
        return None
    found, journal = _read(path), (path, entry.size)
    name: Any = (found.header or {}).get("target")
    if found.header is None or not is_name(name) or not staging_pattern(name)[1].fullmatch(directory.name):
        what = "an interrupted conversion whose journal is damaged"
        return HalfSent(directory, what, entry.modified, None, (journal,))
    folder = directory.parent
    objects, done = [], 0
    for each, _ in folder.names():
        there = (folder / each).entry() if is_shard_of(each, name) else None
        # One that was finished when its journal was not yet put has the count that was taken for all.
        if there is not None and count_in(each) == found.planned:
            objects.append((folder / each, there.size))
            sent = found.sent.get(each)
            done += there.size if sent is not None and is_same(there.identity, sent.identity) else 0
    target, nbytes = folder / name, found.header["nbytes"]
    what = f"an interrupted conversion to {name}, {done:,} bytes of {nbytes:,} sent; --resume goes on with it"
    return HalfSent(directory, what, entry.modified, target, (*objects, journal))


def _is_sent(value: Any) -> bool:
    return (
        is_of(value, "sent", 5)
        and is_name(value[1])
        and isinstance(value[2], list)
        and all(isinstance(part, str) or is_number(part) for part in value[2])
        and is_number(value[3])
        and isinstance(value[4], list)
        and all(isinstance(row, list) and len(row) == 3 and all(map(is_number, row)) for row in value[4])
    )
