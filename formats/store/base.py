"""The interfaces of stores and files: what each store does for its readers.

The scheme of a path names its store; `formats.location` resolves it. A store opens files, describes paths,
and lists folders. Paths are hostile, because names come from files. Answers of servers are hostile too: a
file never returns more bytes than were requested, and every caller compares its request with `size` first.

A Store can be read. Writers stage their output on this machine (`formats.store.local.staging`), or send it to
a store of objects (`formats.store.remote.objects`).
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Self

from ..errors import CheckpointError, CheckpointNotFoundError, CorruptCheckpointError, InaccessibleError
from .work.counters import tally_of
from .work.task_context import TASK_FILES, StaysHereError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence


CLOSED = "the checkpoint has been closed"

NO_FOLDER = "no such directory"

FILE, FOLDER, LINK, OTHER = "file", "folder", "link", "other"
"""The kinds of an entry. OTHER are pipes and devices, which are never read."""

Identity = tuple[int | str, ...]
"""Changes when a file is written to or replaced: device, inode, size and time, or an e_tag."""


class Entry(NamedTuple):
    """The entry at a path: one of the kinds above, its size in bytes, and its time in seconds since 1970.

    A folder has only its kind.

    `links` are a file's names, `changed` the time of its last change (ctime) in nanoseconds, on a disk.
    """

    kind: str
    size: int = 0
    modified: float = 0.0
    identity: Identity = ()
    links: int = 1
    changed: int | None = None


class Listed(NamedTuple):
    """A name in a folder, and the kind of its entry; a link is LINK, regardless of its target."""

    name: str
    kind: str


class File(ABC):
    """An open file that is read at positions; `size` is what it was when it was opened.  A context manager.

    It pickles as store, path and identity, and is opened again where it is unpickled.
    """

    travels = True
    """Whether another process can open it.

    A file that does not exist yet, or that is assembled from others, cannot travel.
    """

    def __init__(self, store: Store, path: str, size: int, identity: Identity) -> None:
        self.store = store
        self.path = path
        self.size = size
        self.identity = identity
        self._tally = tally_of(path)

    @property
    def version(self) -> Hashable:
        """The identity, and everything else that distinguishes these bytes: the key under which caches keep
        them.

        Unlike the identity it may change although the bytes stay the same; then they are read again.
        """
        return self.identity

    @property
    def is_settled(self) -> bool:
        """Whether other bytes in this place would have another version from now on.

        If it may change, a cache uses what it read only until the next check of the file.
        """
        return True

    @abstractmethod
    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`, fewer where the file ends.  Raises CheckpointError."""

    def read_exactly(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`; CorruptCheckpointError if the file ends before."""
        data = self.read(offset, size)
        if len(data) != size:
            raise self._ends(offset, size, len(data))
        return data

    def read_into(self, offset: int, out: memoryview) -> None:
        """Fill `out` with the bytes at `offset`; CorruptCheckpointError if the file ends before."""
        out[:] = self.read_exactly(offset, len(out))

    def expect(self, offset: int, size: int) -> None:
        """Prepare to read these bytes in order, with fewer requests."""
        del offset, size

    def expect_each(self, offsets: Iterable[int], size: int) -> None:
        """Prepare to read this many bytes at each of these offsets, as for headers."""
        del offsets, size

    def where(self, offset: int) -> int:
        """Return an offset as errors show it: counted from the start of the file at `path`."""
        return offset

    def _ends(self, offset: int, expected: int, found: int) -> CorruptCheckpointError:
        message = f"expected {expected} bytes, but the file ends after {found}"
        return CorruptCheckpointError(message, path=self.path, offset=self.where(offset), code="shard-short")

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether it has been closed; reading raises CheckpointError then."""

    @abstractmethod
    def close(self) -> None:
        """Close it; a second time does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def is_same(self, identity: Identity) -> bool:
        """Whether a file that was open in another process is this one."""
        return self.identity == identity

    def __reduce__(self) -> tuple[object, ...]:
        if not self.travels:
            raise StaysHereError(self.path)
        return reopened, (self.store, self.path, self.store.absolute(self.path), self.identity)


_MOST_OPEN = 32
_IDLE = 10.0
"""Seconds that a file stays open after its last task.

The disk space of a removed file is not free until then.
"""

_open: dict[tuple[str, str, str, Identity], tuple[File, float]] = {}
_lock = threading.Lock()


def reopened(store: Store, path: str, where: str, identity: Identity) -> File:
    """Return a file that was open in another process, opened once in this one for all who ask.

    The file is at `where`; messages call it `path`, as the process that sent it does. Raises
    InaccessibleError if this process cannot see the file, and CheckpointError if another file has replaced
    it.
    """
    key = (store.scheme, path, where, identity)
    TASK_FILES.read.add(path)
    with _lock:
        found = _open.get(key, (None, 0.0))[0]
        if found is None or found.closed:
            found = _the_same(store, path, where, identity)
            if not _open:
                _soon(_forget_idle)
        _open.pop(key, None)
        _open[key] = found, time.monotonic()
        while len(_open) > _MOST_OPEN:
            del _open[next(iter(_open))]
        return found


def _the_same(store: Store, path: str, where: str, identity: Identity) -> File:
    """Open a file, and look again if a listing may be older than the file."""
    for attempt in (1, 2):
        try:
            found = store.open(where)
        except (CheckpointNotFoundError, InaccessibleError) as error:
            if attempt == 1:
                store.forget_listings()
                continue
            raise unseen(path, error.message) from error
        if found.is_same(identity):
            found.path = path
            found._tally = tally_of(path)
            return found
        found.close()
        store.forget_listings()
    message = f"this file changed since it was opened: the worker on {os.uname().nodename} sees another file"
    hints = ("give all workers the same files under this path, unless a program wrote to it",)
    raise CheckpointError(message, path=path, hints=hints)


def unseen(path: str, why: str) -> InaccessibleError:
    """Return the error of a path that is there for who hands out work, and not for this process."""
    error = InaccessibleError(f"the worker on {os.uname().nodename} cannot see it: {why}", path=path)
    error.hints = ("make the files available under the same path on every worker, or use a URL",)
    return error


def _soon(forget: Callable[[], None]) -> None:
    timer = threading.Timer(_IDLE, forget)
    timer.daemon = True
    timer.start()


def _forget_idle() -> None:
    """Close files that are idle; a reader that still has one keeps it open."""
    with _lock:
        oldest = time.monotonic() - _IDLE
        for key in [key for key, (_, used) in _open.items() if used <= oldest]:
            del _open[key]
        if _open:
            _soon(_forget_idle)


class UnlistedError(InaccessibleError):
    """A folder that may be there, in a store that lists none."""


class Store(ABC):
    """A set of files. A store without links, or with files alone, leaves out the methods for the rest.

    `scheme` is what its paths begin with, before `://`; what follows has `/` between names.
    """

    scheme: str

    takes_objects = False
    """Whether objects are put into it (`formats.store.remote.objects`)."""

    lists_first = True
    """Whether one listing returns all names of a folder; otherwise each name costs a request."""

    forks = True
    """Whether a forked process can still use the store."""

    @abstractmethod
    def open(self, path: str) -> File:
        """Open a file.  Raises CheckpointNotFoundError, InaccessibleError."""

    @abstractmethod
    def stat(self, path: str, *, follow: bool = True) -> Entry | None:
        """Return the entry at a path, or None if nothing is there or permission is denied.

        Of a link it is what that leads to, the link itself without `follow`.
        """

    @abstractmethod
    def list(self, folder: str) -> Sequence[Listed]:
        """Return the names in a folder, sorted.

        Raises CheckpointNotFoundError, InaccessibleError, UnlistedError if no folder is ever listed.
        """

    def stamp(self, folder: str) -> Hashable | None:  # noqa: ARG002  the same for every folder
        """Return a value that changes when an entry of the folder, or the folder itself, appears or
        disappears, or None if only a listing shows that.

        As long as it stays the same a listing is used again.  A store that cannot tell, and in
        which listing is dear, may return the time, cut to as many seconds as a listing shall count.
        """
        return None

    def forget_listings(self) -> None:  # noqa: B027  a store that caches nothing has nothing to forget
        """Drop listings, so that the next look reads the store again, even if a cached answer is still
        valid.
        """

    def expect_files(self, paths: Sequence[str]) -> None:  # noqa: B027  where asking costs little
        """Prepare to read the start of each of these files, and indexes whole, one after another."""

    def can_be_file(self, path: str) -> bool:  # noqa: ARG002  the same for every path
        """Return whether a path can be a file at all.

        If it cannot, as a bucket itself, the store sends no request.
        """
        return True

    def obstacle(self, path: str) -> str | None:  # noqa: ARG002  the same for every path
        """Return in words what keeps a path from being opened; None also where nothing is there."""
        return None

    def named(self, path: str) -> str:
        """Return the name by which messages call a path from the user: without the secrets in it."""
        return path

    def system_path(self, path: str) -> str | None:  # noqa: ARG002  the same for every path
        """Return the path by which the system and libraries open a file themselves; None where none can."""
        return None

    # Paths -----------------------------------------------------------------------

    def join(self, folder: str, name: str) -> str:
        """Return the path of a name in a folder.  A path of this store is itself; none leads out."""
        if name.startswith(f"{self.scheme}://"):
            return name
        return folder + ("" if folder.endswith("/") else "/") + name.lstrip("/")

    def split(self, path: str) -> tuple[str, str]:
        """Return the folder of a path, and its name there."""
        scheme, _, rest = path.partition("://")
        folder, _, name = rest.rpartition("/")
        return f"{scheme}://{folder}", name

    def absolute(self, path: str) -> str:
        """Return the one spelling of a path by which paths are compared; links are not followed."""
        return path.rstrip("/")

    def relative(self, path: str, folder: str) -> str:
        """Return a path as it is called from a folder."""
        inside = self.absolute(folder) + "/"
        return self.absolute(path).removeprefix(inside)

    def real(self, path: str) -> str:
        """Return where a path leads, links followed."""
        return self.absolute(path)
