"""zip: checkpoints in an archive, `zip://runs.zip/run/ckpt-10`, read without unpacking it.

A trial: what CONTRIBUTING.md says of adding a store is followed with this file.
"""

from __future__ import annotations

import zipfile
from functools import cache
from typing import TYPE_CHECKING

from ..errors import CheckpointError, CheckpointNotFoundError
from .base import CLOSED, FILE, FOLDER, Entry, File, Listed, Store

if TYPE_CHECKING:
    from collections.abc import Sequence


class ZippedFile(File):
    """A member, inflated into memory."""

    def __init__(self, store: Store, path: str, entry: Entry, data: bytes) -> None:
        super().__init__(store, path, entry.size, entry.identity)
        self._data: bytes | None = data

    def read(self, offset: int, size: int) -> bytes:
        if self._data is None:
            raise CheckpointError(CLOSED, path=self.path)
        return self._data[offset : offset + max(size, 0)]

    @property
    def closed(self) -> bool:
        return self._data is None

    def close(self) -> None:
        self._data = None


@cache
def _opened(archive: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(archive)


def _found(path: str) -> tuple[zipfile.ZipFile, str]:
    """Return the archive that a path goes into, and the member's name."""
    archive, _, name = path.removeprefix("zip://").partition(".zip/")
    try:
        return _opened(archive + ".zip"), name
    except (OSError, zipfile.BadZipFile) as error:
        raise CheckpointNotFoundError("no such archive", path=path) from error


class ZipStore(Store):
    scheme = "zip"

    def open(self, path: str) -> File:
        entry = self.stat(path)
        if entry is None or entry.kind != FILE:
            raise CheckpointNotFoundError("no such file", path=path)
        archive, name = _found(path)
        return ZippedFile(self, path, entry, archive.read(name))

    def stat(self, path: str, *, follow: bool = True) -> Entry | None:
        archive, name = _found(path)
        if name in archive.NameToInfo:
            info = archive.NameToInfo[name]
            return Entry(FILE, info.file_size, 0.0, (info.header_offset, info.CRC))
        is_folder = any(each.startswith(name.rstrip("/") + "/") for each in archive.namelist())
        return Entry(FOLDER) if is_folder else None

    def list(self, folder: str) -> Sequence[Listed]:
        archive, name = _found(folder)
        inside = name.rstrip("/") + "/"
        below = [
            each.removeprefix(inside).partition("/") for each in archive.namelist() if each.startswith(inside)
        ]
        if not below:
            raise CheckpointNotFoundError("no such directory", path=folder)
        return sorted({Listed(each, FOLDER if slash else FILE) for each, slash, _ in below if each})


STORES = (ZipStore(),)
