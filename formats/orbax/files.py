"""The files of an Orbax tree: opened when they are needed, and only in its own folder.

Names come from the checkpoint.  One that leads out of the folder is rejected, and so is a link that does,
unless the tree's own metadata is a link into the same folder, as in the cache of huggingface_hub.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from ..errors import CheckpointError, CheckpointNotFoundError, CorruptCheckpointError, UnsupportedFeatureError
from ..store.base import CLOSED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..location import Location
    from ..store.base import File

_MOST_OPEN = 64
"""Files that stay open; of more, each is opened and closed for what is read of it."""

_LONGEST_NAME = 4096


class TreeFiles:
    """Reads ranges of the files in a folder, by their names there."""

    def __init__(self, folder: Location, head: Location) -> None:
        self.folder = folder
        self._head = head
        self._real: tuple[str, str] | None = None
        self._open: dict[str, File] = {}
        self._lock = Lock()
        self.is_closed = False

    def location(self, name: str) -> Location:
        """Return where a file is.  Raises UnsupportedFeatureError for a name that leads out of the folder."""
        parts = name.split("/")
        if len(name) > _LONGEST_NAME or not {"", ".", ".."}.isdisjoint(parts) or "\0" in name or "\\" in name:
            message = f"it refers to the file {name!r:.200}, which is not in this folder"
            raise UnsupportedFeatureError(message, path=self._head, code="header")
        return self.folder / name

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, or None if it is missing."""
        self.require_open()
        found = self._open.get(name)
        if found is not None:
            return found.size
        path = self.location(name)
        entry = path.entry() if path.is_file() else None
        return None if entry is None else entry.size

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Return exactly so many bytes.  Raises CorruptCheckpointError where the file has fewer."""
        with self._holding(name, offset, size) as file:
            return file.read_exactly(offset, size)

    def read_into(self, name: str, offset: int, out: memoryview) -> None:
        """Fill `out`.  Raises CorruptCheckpointError where the file has fewer bytes."""
        with self._holding(name, offset, len(out)) as file:
            file.read_into(offset, out)

    @contextmanager
    def _holding(self, name: str, offset: int, size: int) -> Iterator[File]:
        """Open a file that has so many bytes at an offset."""
        file, is_kept = self._opened(name)
        try:
            if offset + size > file.size:
                message = f"expected {size} bytes at offset {offset}, but the file has only {file.size}"
                raise CorruptCheckpointError(message, path=file.path, offset=offset, code="shard-short")
            yield file
        finally:
            if not is_kept:
                file.close()

    def file(self, name: str) -> File:
        """Return an open file, which stays open."""
        file, is_kept = self._opened(name)
        if not is_kept:
            self._open[name] = file
        return file

    def kept(self, name: str) -> File | None:
        """Return an open file that stays open; None where too many are open."""
        file, is_kept = self._opened(name)
        if is_kept:
            return file
        file.close()
        return None

    def expect(self, name: str, offset: int, size: int) -> None:
        """Prepare to read this range."""
        file, is_kept = self._opened(name)
        if is_kept:
            file.expect(offset, size)
        else:
            file.close()

    def require_open(self) -> None:
        """Raise CheckpointError where the checkpoint has been closed."""
        if self.is_closed:
            raise CheckpointError(CLOSED, path=self._head)

    def _opened(self, name: str) -> tuple[File, bool]:
        """Return an open file, and whether it stays open."""
        with self._lock:
            self.require_open()
            found = self._open.get(name)
            if found is not None:
                return found, True
            path = self.location(name)
            self._check_link(path)
            try:
                found = path.open()
            except CheckpointNotFoundError as error:
                message = "this file is missing, but the checkpoint has values in it"
                raise CorruptCheckpointError(message, path=path, code="shard-missing") from error
            if len(self._open) == _MOST_OPEN:
                return found, False
            self._open[name] = found
            return found, True

    def _check_link(self, path: Location) -> None:
        real = path.real()
        if self._real is None:
            self._real = self.folder.real(), self._head.real().parent
        folder, home = self._real
        if not real.startswith(folder + "/") and real.parent != home:
            message = "this is a link to another folder"
            raise UnsupportedFeatureError(message, path=path, code="header")

    def close(self) -> None:
        with self._lock:
            self.is_closed = True
            for file in self._open.values():
                file.close()
