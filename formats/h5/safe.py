"""Opening HDF5 files, and finding things in them, without leaving them.

A link may be hard (an object of this file), soft (a path), external (a path in another file) or of a kind
that a plug-in defines. A dataset may keep its values in other files (external storage), or consist of other
datasets, also of other files (virtual). So the sender of a file could have any file of the reader's opened.
Therefore names are followed one component at a time, and only over hard links. If soft links are allowed,
their targets are followed in the same way. Keras rejects soft links, and so does this module for Keras'
formats.

formats.h5.native.structure reads files in the usual layout, without importing the library.

A callback that raises within the library leaves it undefined, so none here does.
"""

from __future__ import annotations

import contextlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.spec import key_bytes, key_text
from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..store.base import CLOSED
from ..wire.limits import are_keys_too_long
from .library.damage import damage
from .library.guard import GuardedFile
from .native.heap import largest_object
from .native.messages import UnfamiliarError
from .native.structure import HARD, SOFT, FileStructure, Link
from .node import Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import h5py

    from ..location import Location
    from ..store.base import File
    from .native.structure import Object
    from .native.superblock import Superblock


MOST_OBJECTS = 4_000_000
MOST_DEPTH = 256
MOST_SOFT_LINKS = 16
_SHOWN_OF_PATH = 200
EXTERNAL = 64  # H5L_TYPE_EXTERNAL; what is more, a plug-in defines
CHUNK_CACHE = 4 << 20
"""Bytes of decompressed chunks kept for an open dataset; larger chunks are not kept at all."""

_LEAST_SIZE = 48
"""Bytes of the smallest superblock, that of version 2."""

_COPY_AGAIN = ("copy the file again; the copy or the save was interrupted",)


class FoundObject(NamedTuple):
    """An object of a file, and its path without the leading slash."""

    path: str
    object: Node


class _PendingLink(NamedTuple):
    """A link that walking has yet to follow."""

    group: Node
    name: bytes
    kind: int
    path: str
    depth: int


class H5File:
    """An open HDF5 file of known size.  `path` is what errors call it.

    `structure` is None if the library is to read all of it.
    """

    def __init__(
        self, path: Location, size: int, superblock: Superblock, source: GuardedFile | None, *, natively: bool
    ) -> None:
        self.path = path
        self.size = size
        self._superblock = superblock
        self._source = source
        self._is_open = True
        self._id: h5py.h5f.FileID | None = None
        self._guarded: tuple[File, h5py.h5f.FileID] | None = None
        self.values: File | None = None
        """The file itself, for contiguous data; None if it is a member of another."""
        self.check_values: Callable[[], None] = _nothing
        """Called before values are read; raises where a checksum that covers all of the file differs."""
        if source is not None:
            self._read = source.read_at
        else:
            self.values = path.open()
            self._read = self.values.read
            if self.values.store.system_path(path) is None:
                self._source = GuardedFile(self._read, size, superblock.length_size)
        self.structure: FileStructure | None = None
        if natively:
            with contextlib.suppress(UnfamiliarError):
                expect = None if self.values is None else self.values.expect_each
                self.structure = FileStructure(self._read, size, superblock, expect)
        with damage(path, "the root group"):
            root = Link(HARD, self.structure.root_address) if self.structure is not None else None
            self.root = Node(self, None, b"/", root)

    def read_exactly(self, offset: int, size: int) -> bytes:
        """Return bytes of the file; CorruptCheckpointError if it ends before."""
        self._check_open()
        data = self._read(offset, size)
        if len(data) != size:
            message = f"expected {size} bytes, but the file ends after {len(data)}"
            raise CorruptCheckpointError(message, path=self.path, offset=offset, code="shard-short")
        return data

    def header(self, link: Link | None) -> Object | None:
        """Return the object that a link leads to; None where only the library can read it."""
        if self.structure is None or link is None or link.address is None:
            return None
        try:
            return self.structure.object(link.address)
        except UnfamiliarError:
            return None

    def close(self) -> None:
        """Close the file; what was found in it is invalid from then on."""
        self._is_open = False
        if self._id is not None:
            self._id.close()
            self._id = None
        if self._guarded is not None:
            self._guarded[1].close()
            self._guarded[0].close()
            self._guarded = None
        if self.values is not None:
            self.values.close()

    @property
    def library(self) -> h5py.h5f.FileID:
        """The file as the library has it open."""
        self._check_open()
        if self._id is None:
            self._id = _open_library(self.path, self._superblock, self._source)
        return self._id

    def _check_open(self) -> None:
        if not self._is_open:
            raise CheckpointError(CLOSED, path=self.path)

    def guarded(self, found: Any, chunk_cache: int | None = None) -> Any:
        """Return the library's handle as one whose strings of variable length are safe to read.

        `chunk_cache`, of a dataset, is how many bytes of its chunks are kept from one read to the next.

        The library's own access to files is several times as fast as a Python object's, so only these reads
        go through the guard. Reads through a source are guarded anyway.
        """
        from h5py import h5d, h5i, h5o, h5p

        if self._source is None and self._guarded is None:
            file = self.path.open()
            source = GuardedFile(file.read, file.size, self._superblock.length_size)
            self._guarded = file, _open_id(self.path, source)
        opened = self.library if self._guarded is None else self._guarded[1]
        if chunk_cache is None:
            return found if self._guarded is None else h5o.open(opened, h5i.get_name(found))
        access = h5p.create(h5p.DATASET_ACCESS)
        access.set_chunk_cache(521, chunk_cache, 0.75)
        return h5d.open(opened, h5i.get_name(found), access)

    @cached_property
    def largest_string(self) -> int:
        """The bytes that a string of variable length has at most."""
        return largest_object(self._read, self.size, (1 << 8 * self._superblock.length_size) - 1)

    def refused(self, path: str, what: str, why: str) -> UnsupportedFeatureError:
        hints = (f"{why}; if you trust the file, repack it: h5repack IN OUT",)
        return UnsupportedFeatureError(
            f"{path!r} is {what}, which is not followed", path=self.path, code="hdf5-read", hints=hints
        )

    # Following names -----------------------------------------------------------

    def child(self, group: Node, name: bytes, path: str, *, soft: int = 0) -> Node | None:
        """Return the object of one link; None if there is none.

        `soft` is how many soft links may be followed.
        """
        if not group.is_group:
            return None
        with damage(self.path, f"link {path!r}"):
            link = self._link(group, name)
            if link is None:
                return None
            if link.kind == HARD:
                return Node(self, group, name, link)
            if link.kind == SOFT and soft:
                target = group.id.links.get_val(name)
                start = self.root if target.startswith(b"/") else group
                return self.find(key_text(target), start, soft=soft - 1)
        raise self._link_error(path, link.kind)

    def _link(self, group: Node, name: bytes) -> Link | None:
        """Return a group's link of a name; without an address where the library has found it."""
        links = group.links()
        if links is not None:
            return links.get(name)
        try:
            return Link(group.id.links.get_info(name).type, None)
        except (KeyError, RuntimeError):
            if not group.id.links.exists(name):
                return None
            raise

    def _link_error(self, path: str, kind: int) -> UnsupportedFeatureError:
        if kind == SOFT:
            return self.refused(path, "a soft link", "Keras neither writes nor loads one")
        if kind == EXTERNAL:
            return self.refused(path, "an external link", "it points to another file on this machine")
        return self.refused(path, f"a link of kind {kind}", "only the plug-in that defined it can follow it")

    def find(self, path: str, start: Node | None = None, *, soft: int = 0) -> Node | None:
        """Return the object at a path, following hard links only; None if there is none."""
        self._check_open()
        found = self.root if start is None else start
        for name in key_bytes(path).split(b"/"):
            if name in (b"", b"."):
                continue
            below = self.child(found, name, path, soft=soft)
            if below is None:
                return None
            found = below
        return found

    def links(self, group: Node, path: str) -> list[tuple[bytes, int]]:
        """Return name and kind of a group's links, in the order of names."""
        links = group.links()
        if links is not None:
            listed = [(name, link.kind) for name, link in links.items()]
            return self._checked(listed, path, sum(len(path) + len(name) for name in links))
        found: list[tuple[bytes, int]] = []
        size = 0

        def collect(name: bytes, info: Any) -> int | None:
            nonlocal size
            size += len(path) + len(name)
            if len(found) > MOST_OBJECTS or are_keys_too_long(size, len(found)):
                return 1
            found.append((name, info.type))
            return None

        with damage(self.path, f"group {path[:_SHOWN_OF_PATH] or '/'!r}"):
            group.id.links.iterate(collect, info=True)
        return self._checked(found, path, size)

    def _checked(self, found: list[tuple[bytes, int]], path: str, size: int) -> list[tuple[bytes, int]]:
        """Return links whose paths are not too long together; CorruptCheckpointError otherwise."""
        if are_keys_too_long(size, len(found)):
            message = f"the names in group {path[:_SHOWN_OF_PATH] or '/'!r} have {size} bytes, over the limit"
            raise CorruptCheckpointError(message, path=self.path, code="hdf5-read")
        return found

    # Walking ---------------------------------------------------------------------

    def walk(
        self, flaw: Callable[[CheckpointError], None], *, soft: bool = False, top: Any | None = None
    ) -> Iterator[FoundObject]:
        """Yield every group and dataset below `top`, each group once however many links lead to it.

        With `soft`, a soft link to a dataset of this file is another name of it, and one to a group is
        skipped, because its content is found at its own path. Rejections and damage go to `flaw`, which
        raises or keeps them.
        """
        seen: set[int] = set()
        pending = self._steps(self.root if top is None else top, "", 0, flaw)
        count = size = 0
        while pending:
            step = pending.pop()
            count, size = count + 1, size + len(step.path)
            if are_keys_too_long(size, count):
                message = f"the paths have {size} characters in total, over the limit"
                flaw(CorruptCheckpointError(message, path=self.path, code="hdf5-read"))
                return
            if count > MOST_OBJECTS or step.depth > MOST_DEPTH:
                limit = (
                    f"the file has more than {MOST_OBJECTS} objects"
                    if count > MOST_OBJECTS
                    else f"groups are nested more than {MOST_DEPTH} deep"
                )
                flaw(UnsupportedFeatureError(f"{limit} at {step.path!r}", path=self.path, code="hdf5-read"))
                return
            try:
                found = self._take(step, soft=soft)
            except CheckpointError as error:
                flaw(error)
                continue
            if found is not None and found.is_dataset:
                yield FoundObject(step.path, found)
            elif found is not None and found.is_group:
                address = self._address(found, step.path, flaw)
                if address not in seen:
                    seen.add(address)
                    yield FoundObject(step.path, found)
                    pending += self._steps(found, step.path, step.depth + 1, flaw)

    def _steps(
        self, group: Any, path: str, depth: int, flaw: Callable[[CheckpointError], None]
    ) -> list[_PendingLink]:
        """Return the links of a group, the first of them last."""
        try:
            links = self.links(group, path)
        except CheckpointError as error:
            flaw(error)
            return []
        above = f"{path}/" if path else ""
        return [
            _PendingLink(group, name, kind, above + key_text(name), depth) for name, kind in reversed(links)
        ]

    def _take(self, step: _PendingLink, *, soft: bool) -> Node | None:
        """Return the object that a link leads to; None for what is passed over."""
        if b"/" in step.name or step.name in (b"", b"."):
            raise CorruptCheckpointError(
                f"a link has the invalid name {step.path!r}", path=self.path, code="hdf5-read"
            )
        if step.kind == HARD:
            with damage(self.path, f"object {step.path!r}"):
                return Node(self, step.group, step.name, (step.group.links() or {}).get(step.name))
        found = self.child(step.group, step.name, step.path, soft=MOST_SOFT_LINKS if soft else 0)
        return found if found is not None and found.is_dataset else None

    def _address(self, group: Node, path: str, flaw: Callable[[CheckpointError], None]) -> int:
        if group.address is not None:
            return group.address
        import h5py

        try:
            with damage(self.path, f"group {path!r}"):
                return int(h5py.h5o.get_info(group.id).addr)
        except CheckpointError as error:
            flaw(error)
            return -1


def _nothing() -> None:
    """Check nothing: HDF5 itself has no checksum of a whole file."""


def open_h5(
    path: Location,
    size: int,
    superblock: Superblock,
    source: GuardedFile | None = None,
    *,
    natively: bool = True,
) -> H5File:
    """Open the HDF5 file at `path`, or that which `source` reads, after a look at its superblock.

    `natively` is False for the library to read all of it.  Raises CorruptCheckpointError,
    saying how many bytes are missing, where it is truncated.
    """
    if size < _LEAST_SIZE:
        message = f"the file is truncated: it has {size} bytes, but a superblock has at least {_LEAST_SIZE}"
        raise CorruptCheckpointError(message, path=path, offset=size, code="hdf5-read", hints=_COPY_AGAIN)
    if superblock.end is not None and size < superblock.end:
        message = f"the file is truncated: it has {size} bytes, but its superblock says {superblock.end}"
        raise CorruptCheckpointError(message, path=path, offset=size, code="hdf5-read", hints=_COPY_AGAIN)
    return H5File(path, size, superblock, source, natively=natively)


def _open_library(path: str, superblock: Superblock, source: GuardedFile | None) -> h5py.h5f.FileID:
    with damage(path, "this HDF5 file"):
        try:
            return _open_id(path, source)
        except OSError as error:
            if not superblock.left_open:
                raise
            hints = ("once the program that writes it has ended, run: h5clear -s FILE",)
            message = "the file is marked as open for writing"
            raise CorruptCheckpointError(message, path=path, code="hdf5-read", hints=hints) from error


def _open_id(path: str, source: GuardedFile | None) -> h5py.h5f.FileID:
    from h5py import h5f, h5fd, h5p

    access = h5p.create(h5p.FILE_ACCESS)
    access.set_cache(0, 521, CHUNK_CACHE, 0.75)
    # Closing the file closes what is open in it, or the library would keep it open for that.
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    # Reading locks nothing, so that training can continue to write other files of a read-only or network
    # directory.
    access.set_file_locking(False, True)
    if source is not None:
        access.set_fileobj_driver(h5fd.fileobj_driver, source)
    return h5f.open(path.encode("utf-8", "surrogateescape"), h5f.ACC_RDONLY, access)
