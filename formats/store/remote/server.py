"""What the stores of servers have in common: what was asked is not asked again a moment later.

A store says how one path is asked for (`look`), how a folder is listed (`names`), and how a range
is fetched (`fetch`), each of them one request or few; here is what makes files and
folders of that.  What a server said counts for half a minute, for a command asks for the same
again and again; a program that opens a checkpoint anew gets what lies there then.  What changes meanwhile
is noticed when it is read: each request says which object it wants.
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

_ASKED_AT_ONCE = 8
_LARGEST_AHEAD = 1 << 20
"""Bytes of an index that are fetched before somebody asks for them."""

_MOST_LOOKED_AT = 100_000
_MOST_NAMES = 1_000_000
"""Names in one folder: who lists more may be going round in circles."""


class Refused(NamedTuple):
    """What lies there, or not, is not told to us: why."""

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
    """A store that is asked by requests."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Ask for everything anew."""
        self._seen: dict[str, tuple[float, Entry | Refused | None]] = {}
        self._listed: dict[str, float] = {}
        self._unlisted: dict[str, tuple[float, UnlistedError]] = {}
        self._given_up: dict[str, tuple[float, str]] = {}
        self._pieces: OrderedDict[tuple[str, Identity], Pieces] = OrderedDict()

    def forget_listings(self) -> None:
        """Ask anew what lies where, for something was written.

        Bytes in memory are of what was read, but for objects of which a server tells too little.
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

    # What a store of servers does -------------------------------------------------

    @abstractmethod
    def look(self, path: str) -> Entry | Refused | None:
        """Return what lies at a path, by asking.  Raises InaccessibleError where no answer comes."""

    @abstractmethod
    def names(self, folder: str) -> Iterable[tuple[str, Entry | str]]:
        """Yield the names in a folder, each with what lies there or, where that is not told, its kind.

        Raises CheckpointNotFoundError, InaccessibleError.
        """

    @abstractmethod
    def fetch(self, path: str, identity: Identity, begin: int, end: int) -> bytes | memoryview:
        """Return a range of one file, all of it.  Raises CheckpointError, where another lies there, too."""

    # Which is what a Store does ---------------------------------------------------

    def open(self, path: str) -> File:
        entry = self._look_once(path)
        if isinstance(entry, Refused):
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
            run_each(self._look_into, paths, _ASKED_AT_ONCE)

    def _look_into(self, path: str) -> None:
        with suppress(CheckpointError), self.open(path) as file:  # who reads it is told
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

    def learn(self, path: str, entry: Entry | Refused | None, now: float) -> None:
        """Take note of what lies at a path."""
        if len(self._seen) >= _MOST_LOOKED_AT:
            self._seen.clear()
        self._seen[self.absolute(path)] = now, entry

    def _look_once(self, path: str) -> Entry | Refused | None:
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
            if what and time.monotonic() - since <= COUNTS:  # who asks next does not wait as long once more
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
    """A store that lists folders: one listing tells what lies there of all names in it."""

    def forget(self) -> None:
        super().forget()
        self._complete: dict[str, float] = {}

    def forget_listings(self) -> None:
        super().forget_listings()
        self._complete.clear()

    def look(self, path: str) -> Entry | Refused | None:

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
            return self.look_alone(path, error)
        known = self._seen.get(self.absolute(path))
        return None if known is None else known[1]

    @abstractmethod
    def is_top(self, path: str) -> bool:
        """Whether a path is a bucket or a repository, beside which nothing is listed."""

    def can_be_file(self, path: str) -> bool:
        return not self.is_top(path)

    def look_alone(self, path: str, error: UnlistedError) -> Entry | Refused | None:  # noqa: ARG002
        """Return what lies at a path whose folder is not listed, for a reason."""
        return Refused(error.message)

    def _look_at_top(self, path: str) -> Entry | Refused | None:

        try:
            Location(path, self).listing()
        except CheckpointNotFoundError:
            return None
        except UnlistedError as error:
            return Refused(error.message)
        return Entry(FOLDER)

    def _may_be_there(self, folder: str) -> bool:
        """Whether a folder may be there, by what was listed: of those that are not, nothing is asked."""
        if self.is_top(folder):
            return True
        now = time.monotonic()
        known = self._seen.get(self.absolute(folder))
        if known is not None and now - known[0] <= COUNTS:
            return isinstance(known[1], Refused) or (known[1] is not None and known[1].kind == FOLDER)
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
    """In the place of a file lies another, or none."""


def changed(path: str) -> ChangedError:
    """Return the error of a file in whose place another lies."""
    return ChangedError("changed since it was opened", path=path)
