"""Files in memory, `mem://folder/name`, for tests. The store counts its requests, as a server would.

Like an object store it has no folders but what names make, and no links.  Tests make it
reachable (`formats.location.reachable`); no command knows it otherwise.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet

from ..errors import CheckpointError, CheckpointExistsError, CheckpointNotFoundError, InaccessibleError
from ..location import store_of_scheme
from .base import CLOSED, FILE, FOLDER, NO_FOLDER, Entry, File, Listed
from .remote.objects import ANYTHING, ObjectStore, Stream, md5, md5_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from .base import Identity
    from .remote.objects import Block, Precondition


_versions = itertools.count()
"""No two blobs of a process have the same identity, in any store."""


class _Blob(NamedTuple):
    """A blob; `e_tag` is that of an object store."""

    data: bytes
    modified: float
    version: int
    e_tag: str = ""

    @property
    def identity(self) -> Identity:
        return (self.e_tag, self.version)

    @property
    def entry(self) -> Entry:
        return Entry(FILE, len(self.data), self.modified, self.identity)


class MemoryFile(File):
    """An open file in memory."""

    store: MemoryStore

    def __init__(self, store: MemoryStore, path: str, blob: _Blob) -> None:
        super().__init__(store, path, len(blob.data), blob.identity)
        self._data: bytes | None = blob.data
        store.opened.add(self)

    def read(self, offset: int, size: int) -> bytes:
        if self._data is None:
            raise CheckpointError(CLOSED, path=self.path)
        data = self._data[offset : offset + size] if offset >= 0 and size > 0 else b""
        self.store.reads.append((self.path, offset, len(data)))
        if self._tally is not None:
            self._tally.add(len(data))
        return data

    @property
    def closed(self) -> bool:
        return self._data is None

    def close(self) -> None:
        self._data = None


class _MemoryStream(Stream):
    """An object that is sent to memory; `begun` of its store holds it until it is published."""

    def __init__(self, store: MemoryStore, path: str, block: int) -> None:
        self._store = store
        self._path = path
        self._size = block
        self._blocks: list[bytes] = []
        store.begun.add(self)

    def write(self, block: Block) -> None:
        self._store.before("block", self._path)
        assert not self._blocks or len(self._blocks[-1]) == self._size, "a block before the last is smaller"
        self._blocks.append(bytes(block))

    def finish(self) -> None:
        self._store.before("finish", self._path)
        self._store.keep(self._path, self._blocks)
        self._store.begun.discard(self)

    def abort(self) -> None:
        self._store.begun.discard(self)


class MemoryStore(ObjectStore):
    """Blobs by path.

    `opens`, `lists` and `stats` count requests by path. `reads` holds path, offset and size. `opened` are the
    files that are still open, and `begun` the objects that are being sent. `before` is called with `put`,
    `block`, `finish` or `delete` and a path before each operation; a test may raise there.
    """

    scheme = "mem"
    has_md5 = True
    conditional = True
    """Whether objects are put on conditions."""

    def __init__(self) -> None:
        self._blobs: dict[str, _Blob] = {}
        self._version = next(_versions)
        self.opened: WeakSet[MemoryFile] = WeakSet()
        self.begun: set[Stream] = set()
        self.before: Callable[[str, str], None] = lambda _, __: None
        self.forget()

    @property
    def names(self) -> list[str]:
        """The paths of all files."""
        return sorted(self._blobs)

    def forget(self) -> None:
        """Count from nothing on."""
        self.opens: Counter[str] = Counter()
        self.lists: Counter[str] = Counter()
        self.stats: Counter[str] = Counter()
        self.reads: list[tuple[str, int, int]] = []

    def read_of(self, path: str) -> int:
        """Return how many bytes of a file were read, those read twice twice."""
        return sum(size for read, _, size in self.reads if read == path)

    def keep(self, path: str, blocks: Sequence[bytes], modified: float = 0.0) -> None:
        """Store a file of these blocks, replacing what is there, with the e_tag that Amazon would give it."""
        self._version = next(_versions)
        e_tag = md5_of([md5(block) for block in blocks])
        self._blobs[path] = _Blob(b"".join(blocks), modified, self._version, e_tag)

    def put(
        self, path: str, data: Block, precondition: Precondition = ANYTHING, modified: float = 0.0
    ) -> Entry:
        """Write a file."""
        self.before("put", path)
        found = self.current(path)
        if not precondition.anything and (found and found.identity) != (
            precondition.entry and precondition.entry.identity
        ):
            raise CheckpointExistsError("another program created this path in the meantime", path=path)
        self.keep(path, [bytes(data)], modified)
        return self._blobs[path].entry

    def stream(self, path: str, block: int, at_once: int) -> Stream:  # noqa: ARG002  memory is one
        return _MemoryStream(self, path, block)

    def current(self, path: str) -> Entry | None:
        blob = self._blobs.get(path)
        return None if blob is None else blob.entry

    def get(self, path: str, most: int) -> tuple[bytes, Entry] | None:
        blob = self._blobs.get(path)
        return None if blob is None else (blob.data[:most], blob.entry)

    def keeps_conditions(self, path: str, data: Block) -> bool:  # noqa: ARG002  as they are in `put`
        return self.conditional

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.before("delete", path)
            if path in self._blobs:
                self.remove(path)

    def put_tree(self, folder: str, path: str) -> str:
        """Copy a directory of this machine, or one file, into a folder, and return its new path."""
        base, name = os.path.split(os.path.abspath(path))
        found = [os.path.join(parent, each) for parent, _, names in os.walk(path) for each in names] or [path]
        for each in found:
            with open(each, "rb") as file:
                path = self.join(folder, os.path.relpath(each, base))
                self.keep(path, [file.read()], os.stat(each).st_mtime)
        return self.join(folder, name)

    def remove(self, path: str) -> None:
        self._version = next(_versions)
        del self._blobs[path]

    def open(self, path: str) -> File:
        self.opens[path] += 1
        blob = self._blobs.get(path)
        if blob is not None:
            return MemoryFile(self, path, blob)
        if self._is_folder(path):
            raise InaccessibleError("this is a directory, not a regular file", path=path)
        raise CheckpointNotFoundError("no such file", path=path, code="shard-missing")

    def stat(self, path: str, *, follow: bool = True) -> Entry | None:  # noqa: ARG002  there are no links
        self.stats[path] += 1
        blob = self._blobs.get(path)
        if blob is not None:
            return blob.entry
        return Entry(FOLDER) if self._is_folder(path) else None

    def list(self, folder: str) -> Sequence[Listed]:
        self.lists[folder] += 1
        if not self._is_folder(folder):
            raise CheckpointNotFoundError(NO_FOLDER, path=folder)
        inside = self.absolute(folder) + "/"
        found: dict[str, Listed] = {}
        for path in self._blobs:
            if path.startswith(inside):
                name, _, below = path.removeprefix(inside).partition("/")
                found[name] = Listed(name, FOLDER if below else FILE)
        return sorted(found.values())

    def stamp(self, folder: str) -> Hashable | None:  # noqa: ARG002  one for all
        return self._version

    def _is_folder(self, path: str) -> bool:
        inside = self.absolute(path) + "/"
        return any(each.startswith(inside) for each in self._blobs)

    def __reduce__(self) -> tuple[object, ...]:
        return store_of_scheme, (self.scheme,)
