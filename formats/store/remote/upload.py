"""Writing to a store of objects: whole objects under their own names, the head of a checkpoint last.

    head       the index, or the one object: without it no reader takes the others for a checkpoint
    others     shards, complete before the head; their names are unused, so existing objects stay
    scratch    a directory of this machine, for formats that are not written from start to end, and for
               files that must wait for their turn; they become objects when they are complete

An object is sent in blocks, several at a time, so memory does not grow with it. The store's size, and its MD5
if the e_tag is made of it, are compared with what was sent. If the store returns another MD5 (it may have
encrypted the object), the object is read back.

A killed process leaves objects that no head names, and parts of uploads, which readers do not see.
"""

from __future__ import annotations

import re
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

from ...core.chunks import view_of
from ...errors import CheckpointError, CheckpointExistsError, ConversionError
from ..local.removing import cleaning_up
from ..work.buffers import is_free
from ..work.cancellation import cancelled_by
from .objects import NOTHING, Precondition, is_same, md5, md5_of, plain

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future, ThreadPoolExecutor

    from ...core.chunks import Chunk
    from ...location import Location
    from ..base import Entry
    from .object_lock import ObjectLock
    from .objects import Block, Stream
    from .upload_journal import UploadJournal


BLOCK = 8 << 20
"""Bytes of a part: Amazon takes at least 5 MiB, and one goes within CKPT_TIMEOUT over slow lines, too."""

AT_ONCE = 6
"""Parts on their way at a time; each is in memory, and so are those that are being filled and summed."""

SUMMED_AT_ONCE = 3
"""Parts whose MD5 is computed at a time: at 0.7 GB/s a core, a single one would delay everything else."""

_MOST_PARTS = 9_000
"""The most parts of one object: Amazon allows 10,000. For larger objects the parts are larger."""

WHOLE = 5 << 30
"""Bytes that Amazon takes at one stroke."""

_MD5 = re.compile(r"[0-9a-f]{32}(-\d+)?")


def part_size(nbytes: int) -> int:
    """Return the size of the parts of an object of so many bytes: a multiple of BLOCK."""
    return max(1, -(-nbytes // _MOST_PARTS // BLOCK)) * BLOCK


class Upload:
    """A new object, sent from start to end. An object of one block is put when it is published.

    `precondition` says what it may replace. Closing a head does not publish it. `is_published` is None if the
    answer was lost.
    """

    def __init__(
        self,
        path: Location,
        precondition: Precondition,
        block: int = BLOCK,
        *,
        is_head: bool = False,
        prove: bool = True,
    ) -> None:
        self.path = path
        self.size = 0
        self.is_published: bool | None = False
        self._store = path.object_store
        self._precondition = precondition
        self._block = block
        self._is_head = is_head
        self._filling = bytearray()
        self._filled = 0
        self._blocks: list[bytearray] = []
        self._stream: Stream | None = None
        self._sums: list[Future[bytes]] = []
        self._sums_blocks = prove and self._store.has_md5
        self._pool: ThreadPoolExecutor | None = None
        self._prove = prove
        self._entry: Entry | None = None
        self.rows: list[tuple[int, int, int]] = []
        self.journal: UploadJournal | None = None
        self.lock: ObjectLock | None = None

    def add_row(self, row: tuple[int, int, int]) -> None:
        """Note a tensor in the object, for a journal: offset, size in bytes, masked checksum."""
        if self.journal is not None:
            self.rows.append(row)

    def write(self, data: Chunk | bytearray) -> None:
        """Send what comes next."""
        view = memoryview(data) if isinstance(data, bytearray) else view_of(data)
        self.size += len(view)
        while view:
            if self._filled == self._block:
                self._send()
            part = view[: self._block - self._filled]
            if self._filled == len(self._filling):
                self._filling += part
            else:  # A block that was sent before, which is as large as any.
                memoryview(self._filling)[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            view = view[len(part) :]

    @property
    def _last(self) -> Block:
        """What was not sent yet."""
        is_full = self._filled == len(self._filling)
        return self._filling if is_full else memoryview(self._filling)[: self._filled]

    @property
    def waiting(self) -> bytes | None:
        """The whole object, as long as no part of it was sent, or None."""
        return bytes(self._last) if self._stream is None else None

    def _send(self) -> None:
        """Send the full block, and begin another.

        The full one stays unchanged while it is sent and summed.
        """
        if self._stream is None:
            self._stream = self._store.stream(self.path, self._block, AT_ONCE)
        block = self._last
        if self._sums_blocks:
            self._sum(block)
        self._stream.write(block)
        self._blocks.append(self._filling)
        del block
        self._filling = next(filter(is_free, self._blocks), None) or bytearray()
        self._filled = 0

    def _sum(self, block: Block) -> None:
        """Sum a block while it is sent, and wait for one of before, so that no more of them are in memory."""
        from concurrent.futures import ThreadPoolExecutor

        if self._pool is None:
            self._pool = ThreadPoolExecutor(SUMMED_AT_ONCE)
        if len(self._sums) >= SUMMED_AT_ONCE:
            self._sums[-SUMMED_AT_ONCE].result()
        self._sums.append(self._pool.submit(md5, memoryview(block)))

    def close(self) -> None:
        """Publish it, unless it is a head, whose time comes when all else is there."""
        if not self._is_head:
            self.publish()

    def publish(self) -> None:
        """Make it visible, and compare the store's answer with what was sent.

        Raises CheckpointExistsError if another object has appeared there, ConversionError if the stored
        object differs from what was sent, and InaccessibleError.
        """
        if self.is_published:
            return
        if self.lock is not None:
            self.lock.check()
        if self._stream is not None:
            if not self._precondition.anything and _is_other(
                self._store.current(self.path), self._precondition.entry
            ):
                raise CheckpointExistsError(
                    "another program created or changed this path in the meantime", path=self.path
                )
            self._send()
        self.is_published = None
        put = None
        try:
            if self._stream is not None:
                self._stream.finish()
            else:
                put = self._store.put(self.path, bytes(self._last), self._precondition)
        except CheckpointError:
            # The request may have succeeded even if its answer was lost.
            self.settle()
            if not self.is_published:
                raise
        if put is not None and plain(put.identity[0]) == md5(self._last).hex():
            self._entry = put  # The store has said all that it can be asked.
        else:
            self._entry = self._store.current(self.path)
            self._check(self._entry)
        self.is_published = True
        self._filling, self._filled = bytearray(), 0
        self._blocks.clear()
        self._stop_summing()
        if self.journal is not None and self._entry is not None:
            self.journal.finished(self.path, self._entry, self.rows)

    def published(self) -> Entry:
        """Publish it, and return its entry."""
        self.publish()
        assert self._entry is not None
        return self._entry

    def found_sent(self) -> Entry | None:
        """Return the existing entry if it has the MD5 of this object."""
        found = self._store.current(self.path)
        if found is None or found.size != self.size or not (self._sums_blocks or self._stream is None):
            return None
        sums = [*(each.result() for each in self._sums), md5(self._last)]
        if plain(found.identity[0]) != md5_of(sums) and self._read_back() != sums:
            return None
        self._stop_summing()
        if self._stream is not None:
            self._stream.abort()
            self._stream = None
        return found

    def _stop_summing(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def settle(self) -> None:
        """Find out whether it exists, if that is unknown."""
        if self.is_published is not None:
            return
        if self._store.is_unanswered(self.path):
            return
        found = self._store.current(self.path)
        if found is None or found.size != self.size or not _is_other(found, self._precondition.entry):
            self.is_published = False
        elif self._stream is not None:
            self.is_published = self._is_proven(found)
        else:  # without an MD5, another writer's object of the same size is indistinguishable
            self.is_published = self._read_back() == [md5(self._last)]
        if self.is_published:
            self._entry = found

    def _check(self, found: Entry | None) -> None:
        """Raise ConversionError unless the store has what was sent, as far as its entry shows."""
        if found is None or found.size != self.size:
            what = "nothing" if found is None else f"{found.size:,} bytes"
            raise ConversionError(f"ckpt sent {self.size:,} bytes, but the store has {what}", path=self.path)
        if self._prove and not self._is_proven(found):
            hints = (
                "delete this file, then run this again; another program may have written it, so ckpt kept it",
            )
            raise ConversionError(
                "the stored bytes differ from those that were sent", path=self.path, hints=hints
            )

    def _is_proven(self, found: Entry) -> bool:
        """Whether an object has the MD5 of what was sent, if its store returns one."""
        entry_tag = plain(found.identity[0])
        if not _MD5.fullmatch(entry_tag) or (self._stream is not None and not self._sums_blocks):
            return True
        sums = [each.result() for each in self._sums] if self._stream is not None else [md5(self._last)]
        # An e_tag may be the MD5 of other bytes, as those that a store has encrypted.
        return entry_tag == md5_of(sums) or self._read_back() == sums

    def _read_back(self) -> list[bytes]:
        self._store.forget_listings()
        with self._store.open(self.path) as file:
            sizes = [min(self._block, file.size - at) for at in range(0, file.size or 1, self._block)]
            return [md5(file.read(at * self._block, size)) for at, size in enumerate(sizes)]

    def is_ours(self) -> bool:
        """Whether the stored object is still the published one; one listing checks many."""
        if self._entry is None:
            return False
        listed = not _is_other(self.path.entry(), self._entry)
        return listed or not _is_other(self._store.current(self.path), self._entry)

    def remove(self) -> None:
        """Remove its sent parts, or the object, unless another has replaced it."""
        with cancelled_by(Event()):  # so that it is done also where the work was cancelled
            self._undo()

    def _undo(self) -> None:
        self.settle()
        self._stop_summing()
        stream, self._stream = self._stream, None
        if self.is_published:
            if self.is_ours():
                self._store.delete([self.path])
        elif stream is not None:
            stream.abort()
        self.is_published = False


class DelegatedUpload(Upload):
    """An object that another process sends, whole: what it is made of is noted until that has done so.

    Its place in it is reserved for what that process reads; what is written here waits in memory.
    """

    def __init__(self, path: Location, block: int, *, prove: bool) -> None:
        super().__init__(path, NOTHING, block, prove=prove)
        self.pieces: list[bytes | None] = []

    def write(self, data: Chunk | bytearray) -> None:
        """Note what comes next."""
        self.pieces.append(bytes(data))
        self.size += len(self.pieces[-1] or b"")

    def reserve(self, size: int) -> int:
        """Return the offset of the next `size` bytes; the caller reads them from elsewhere when it sends
        them.
        """
        self.pieces.append(None)
        self.size += size
        return self.size - size

    def delegate(self) -> Maker:
        """Return who makes it; whether it is there is not known until `arrived`."""
        self.is_published = None
        return Maker(self.path, self._block, self._prove)

    def arrived(self, entry: Entry) -> None:
        """Take note that it is there."""
        self._entry = entry
        self.is_published = True
        self.pieces.clear()

    def publish(self) -> None:
        """Send what waits here alone."""
        if self.is_published:
            return
        pieces, self.pieces, self.size = self.pieces, [], 0
        for piece in pieces:
            assert piece is not None
            super().write(piece)
        super().publish()

    def settle(self) -> None:
        """Find out whether it exists: only this upload uses its name."""
        if self.is_published is None:
            found = self._store.current(self.path)
            self.is_published = found is not None and found.size == self.size
            self._entry = found


class Maker(NamedTuple):
    """Makes an object in any process; plain data."""

    path: Location
    block: int
    prove: bool

    def make(self, chunks: Iterable[Chunk]) -> Entry:
        """Send a whole object, and return its entry.

        An equal object that a lost process has sent counts as this one. Raises the errors of
        `Upload.publish`.
        """
        upload = Upload(self.path, NOTHING, self.block, prove=self.prove)
        try:
            for chunk in chunks:
                upload.write(chunk)
            found = upload.found_sent() or upload.published()
        except BaseException:
            with cleaning_up(self.path):
                upload.remove()
            raise
        return found


def made_first(path: str) -> str:
    """Return what to say of an object that is made on this machine before it is sent."""
    from tempfile import gettempdir

    return f"{path} is created in {gettempdir()} first, and uploaded when it is complete"


def _is_other(found: Entry | None, expected: Entry | None) -> bool:
    """Whether the entry differs from the expected one, or exists although none is expected."""
    if found is None or expected is None:
        return found is not expected
    return not is_same(found.identity, expected.identity)
