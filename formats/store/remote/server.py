"""The code that stores of servers share: an answer is kept for a moment, so that it is not requested twice.

A store implements how to look up a path (`look`), list a folder (`names`) and fetch a range (`fetch`), each
with one request or few. This module makes files and folders of them. An answer is kept for half a minute,
because a command needs the same one again and again. A program that opens a checkpoint again gets the new
state. A change during a read is noticed, because each request names the object that it wants.
"""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.spec import is_utf8
from ...errors import CheckpointError, CheckpointNotFoundError, InaccessibleError
from ...location import Location, store_of_scheme
from ..base import CLOSED, FILE, FOLDER, Entry, File, Identity, Listed, Store, UnlistedError
from ..content_cache import forget_unsettled
from ..work.cancellation import run_each
from ..work.counters import tally_of
from .range_cache import LOOK, Pieces
from .transport import GivenUpError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence


COUNTS = 30.0
"""Seconds that what a server said counts."""

_MOST_FILES = 64
"""Files whose bytes stay in memory after they were closed, for who opens them again."""

_REQUESTS_AT_ONCE = 8
_LARGEST_AHEAD = 1 << 20
"""The most bytes of an index that are fetched before they are requested."""

_MOST_LOOKED_AT = 100_000
_MOST_NAMES = 1_000_000
"""Names in one folder: who lists more may be going round in circles."""


class Rejection(NamedTuple):
    """The reason why the server does not say whether a path exists."""

    what: str


class ServerFile(File):
    """An open file on a server."""

    store: ServerStore

    def __init__(self, store: ServerStore, path: str, entry: Entry) -> None:
        super().__init__(store, path, entry.size, entry.identity)
        self._pieces: Pieces | None = store.pieces(path, entry)

    @property
    def is_settled(self) -> bool:
        return self.store.is_settled(self.identity)

    def read(self, offset: int, size: int) -> bytes:
        if self._pieces is None:
            raise CheckpointError(CLOSED, path=self.path)
        end = min(offset + size, self.size)
        return self._pieces.read(offset, end) if 0 <= offset < end else b""

    def expect(self, offset: int, size: int) -> None:
        if self._pieces is not None and 0 <= offset < self.size:
            self._pieces.expect(offset, min(offset + size, self.size))

    def expect_each(self, offsets: Iterable[int], size: int) -> None:
        if self._pieces is not None:
            self._pieces.expect_each(offsets, size)

    @property
    def closed(self) -> bool:
        return self._pieces is None

    def close(self) -> None:
        self._pieces = None


class ServerStore(Store):
    """A store that sends requests."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all answers."""
        self._seen: dict[str, tuple[float, Entry | Rejection | None]] = {}
        self._listed: dict[str, float] = {}
        self._unlisted: dict[str, tuple[float, UnlistedError]] = {}
        self._given_up: dict[str, tuple[float, str]] = {}
        self._pieces: OrderedDict[tuple[str, Identity], Pieces] = OrderedDict()

    def forget_listings(self) -> None:
        """Drop answers about entries, because something was written.

        Bytes in memory belong to a version, except for objects whose server reports too little.
        """
        self._seen.clear()
        self._listed.clear()
        self._unlisted.clear()
        self._given_up.clear()
        for key in [key for key in list(self._pieces) if not self.is_settled(key[1])]:
            del self._pieces[key]
        forget_unsettled()

    def is_settled(self, identity: Identity) -> bool:
        """Whether other bytes in the same place would have another identity: a strong e_tag says so.

        A weak one does not, nor does a time of whole seconds, or a size.
        """
        e_tag = str(identity[0]) if identity else ""
        return bool(e_tag) and not e_tag.startswith("W/")

    # What a subclass implements ---------------------------------------------------

    @abstractmethod
    def look(self, path: str) -> Entry | Rejection | None:
        """Request the entry at a path. Raises InaccessibleError without an answer."""

    @abstractmethod
    def names(self, folder: str) -> Iterable[tuple[str, Entry | str]]:
        """Yield the names in a folder, each with its entry, or with its kind if the server returns no more.

        Raises CheckpointNotFoundError, InaccessibleError.
        """

    @abstractmethod
    def fetch(self, path: str, identity: Identity, begin: int, end: int) -> bytes | memoryview:
        """Return a complete range of one file. Raises CheckpointError, also if the file was replaced."""

    # The interface of Store -------------------------------------------------------

    def open(self, path: str) -> File:
        entry = self._look_once(path)
        if isinstance(entry, Rejection):
            raise InaccessibleError(entry.what, path=path)
        if entry is None:
            raise CheckpointNotFoundError("no such file", path=path, code="shard-missing")
        if entry.kind != FILE:
            raise InaccessibleError("this is a directory, not a regular file", path=path)
        return ServerFile(self, path, entry)

    def stat(self, path: str, *, follow: bool = True) -> Entry | None:  # noqa: ARG002  there are no links
        entry = self._look_once(path)
        return entry if isinstance(entry, Entry) else None

    def expect_files(self, paths: Sequence[str]) -> None:
        if len(paths) > 1:
            run_each(self._look_into, paths, _REQUESTS_AT_ONCE)

    def _look_into(self, path: str) -> None:
        with suppress(CheckpointError), self.open(path) as file:  # the reader gets the error
            file.read(0, min(file.size, _LARGEST_AHEAD if path.endswith(".index") else LOOK))

    def obstacle(self, path: str) -> str | None:
        entry = self._look_once(path)
        if isinstance(entry, Entry):
            return "this is a directory" if entry.kind == FOLDER else None
        return None if entry is None else entry.what

    def list(self, folder: str) -> Sequence[Listed]:
        now = time.monotonic()
        known = self._unlisted.get(folder)
        if known is not None and now - known[0] <= COUNTS:
            raise known[1]
        try:
            return self._names_of(folder, now)
        except UnlistedError as error:
            self._unlisted[folder] = now, error
            raise

    def _names_of(self, folder: str, now: float) -> Sequence[Listed]:
        found: dict[str, Listed] = {}
        for name, entry in self.names(folder):
            if name in ("", ".", "..") or "/" in name or "\0" in name or not is_utf8(name):
                raise InaccessibleError(f"the server's listing has the invalid name {name!r}", path=folder)
            if len(found) == _MOST_NAMES:
                raise InaccessibleError(
                    f"the server's listing has more than {_MOST_NAMES:,} names", path=folder
                )
            found[name] = Listed(name, entry.kind if isinstance(entry, Entry) else entry)
            if isinstance(entry, Entry):
                self.learn(self.join(folder, name), entry, now)
        return [found[name] for name in sorted(found)]

    def stamp(self, folder: str) -> Hashable | None:
        """Return since when a listing counts."""
        now = time.monotonic()
        with _stamping:  # Two threads that got two stamps would list it twice.
            since = self._listed.get(folder)
            if since is None or now - since > COUNTS:
                since = self._listed[folder] = now
            return since

    # What is known ----------------------------------------------------------------

    def learn(self, path: str, entry: Entry | Rejection | None, now: float) -> None:
        """Keep the entry at a path."""
        if len(self._seen) >= _MOST_LOOKED_AT:
            self._seen.clear()
        self._seen[self.absolute(path)] = now, entry

    def _look_once(self, path: str) -> Entry | Rejection | None:
        path = self.absolute(path)
        known = self._seen.get(path)
        now = time.monotonic()
        if known is None or now - known[0] > COUNTS:
            known = now, self.look(path)
            self.learn(path, known[1], now)
        return known[1]

    def pieces(self, path: str, entry: Entry) -> Pieces:
        """Return what is in memory of a file, for all who have it open."""
        key = path, entry.identity
        found = self._pieces.pop(key, None) or Pieces(self._fetching(path, entry.identity), entry.size)
        self._pieces[key] = found
        while len(self._pieces) > _MOST_FILES:
            self._pieces.popitem(last=False)
        return found

    def _fetching(self, path: str, identity: Identity) -> Any:
        def fetch(begin: int, end: int) -> bytes | memoryview:
            since, what = self._given_up.get(path, (0.0, ""))
            if what and time.monotonic() - since <= COUNTS:  # the next caller does not wait that long again
                raise GivenUpError(what, path=path)
            try:
                data = self.fetch(path, identity, begin, end)
            except GivenUpError as error:
                self._given_up[path] = time.monotonic(), error.message
                raise
            except ChangedError:
                self.forget_listings()  # so that who opens it again gets what is there now
                raise
            assert len(data) == end - begin
            return data

        return fetch

    def __reduce__(self) -> tuple[object, ...]:

        return store_of_scheme, (self.scheme,)


_stamping = threading.Lock()


def _renew_lock() -> None:
    """In a forked process, let go of a lock that another thread of its parent may have held."""
    global _stamping  # noqa: PLW0603  it is one for all stores
    _stamping = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class ListedStore(ServerStore):
    """A store that lists folders: one listing returns the entries of all its names."""

    def forget(self) -> None:
        super().forget()
        self._complete: dict[str, float] = {}

    def forget_listings(self) -> None:
        super().forget_listings()
        self._complete.clear()

    def look(self, path: str) -> Entry | Rejection | None:

        if self.is_top(path):
            return self._look_at_top(path)
        folder = self.split(path)[0]
        if not self._may_be_there(folder):
            return None
        try:
            Location(folder, self).listing()
        except CheckpointNotFoundError:
            return None
        except UnlistedError as error:
            return self.look_without_listing(path, error)
        known = self._seen.get(self.absolute(path))
        return None if known is None else known[1]

    @abstractmethod
    def is_top(self, path: str) -> bool:
        """Whether a path is a bucket or a repository, which has no listed siblings."""

    def can_be_file(self, path: str) -> bool:
        return not self.is_top(path)

    def look_without_listing(self, path: str, error: UnlistedError) -> Entry | Rejection | None:  # noqa: ARG002
        """Return the entry at a path whose folder is not listed, for the reason in `error`."""
        return Rejection(error.message)

    def _look_at_top(self, path: str) -> Entry | Rejection | None:

        try:
            Location(path, self).listing()
        except CheckpointNotFoundError:
            return None
        except UnlistedError as error:
            return Rejection(error.message)
        return Entry(FOLDER)

    def _may_be_there(self, folder: str) -> bool:
        """Whether a folder may exist, judging by listings. If it cannot, no request is sent."""
        if self.is_top(folder):
            return True
        now = time.monotonic()
        known = self._seen.get(self.absolute(folder))
        if known is not None and now - known[0] <= COUNTS:
            return isinstance(known[1], Rejection) or (known[1] is not None and known[1].kind == FOLDER)
        above = self.absolute(self.split(folder)[0])
        if now - self._complete.get(above, -COUNTS - 1) <= COUNTS:
            return False
        return above == self.absolute(folder) or self._may_be_there(above)

    def _names_of(self, folder: str, now: float) -> Sequence[Listed]:
        try:
            found = super()._names_of(folder, now)
        except CheckpointNotFoundError:
            self.learn(folder, None, now)
            raise
        self._complete[self.absolute(folder)] = now
        return found


def count(path: str, nbytes: int, requests: int = 1, sent: int = 0) -> None:
    """Count requests, and the bytes of the file that they brought, or took."""
    tally = tally_of(path)
    if tally is not None:
        tally.add(nbytes, requests, sent)


class ChangedError(CheckpointError):
    """Another file, or none, is now in the place of a file."""


def changed(path: str) -> ChangedError:
    """Return the error for a file that was replaced."""
    return ChangedError("this file changed since it was opened", path=path)
