"""Opening HDF5 files, and finding things in them, without leaving them.

A link may be hard (an object of this file), soft (a path), external (a path in another
file) or of a kind that a plug-in defines; a dataset may keep its values in other files
(external storage) or be put together from other datasets, also of other files (virtual).
Whoever sends a file can so have any file of the reader's opened.  So names are followed
one component at a time, and only over hard links; where soft links are taken at all,
their target is followed in the same way.  Keras refuses soft links; for its formats so
does this.

h5py raises what the HDF5 library says under half a dozen classes; `damage` makes it
one.  A callback that raises within the library leaves it undefined, so none here does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import CheckpointError, CorruptCheckpointError, UnsupportedFeatureError
from ..files import CLOSED, RandomAccessFile
from ..model import key_bytes, key_text
from ..wire.limits import are_keys_too_long
from .guard import GuardedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import h5py

    from .superblock import Superblock

__all__ = ["Found", "H5File", "damage", "open_h5"]

HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, NotImplementedError)
MOST_OBJECTS = 4_000_000
MOST_DEPTH = 256
MOST_SOFT_LINKS = 16
_SHOWN_OF_PATH = 200
CHUNK_CACHE = 4 << 20
"""Bytes of decompressed chunks kept for an open dataset; larger chunks are not kept at all."""

_COPY_AGAIN = ("the copy or the save was interrupted; copy it again from where it came from",)


class damage:  # noqa: N801  a context manager; a class because thousands are entered for a listing
    """Turn what h5py raises into CorruptCheckpointError: `what` cannot be read."""

    __slots__ = ("_key", "_path", "_what")

    def __init__(self, path: str, what: str, key: str | None = None) -> None:
        self._path = path
        self._what = what
        self._key = key

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, CheckpointError):
            return
        if isinstance(error, MemoryError):
            message = f"{self._what}: not enough memory"
            raise CheckpointError(message, path=self._path, key=self._key, code="hdf5-read") from error
        if isinstance(error, HDF5_ERRORS):
            message = f"{self._what}: {_reason(error)}"
            raise CorruptCheckpointError(message, path=self._path, key=self._key, code="hdf5-read") from error


def _reason(error: BaseException) -> str:
    """Return the library's own reason, which h5py puts in parentheses."""
    text = str(error.args[0] if error.args else error).splitlines()
    line = text[0] if text else type(error).__name__
    inner = line[line.find("(") + 1 : line.rfind(")")] if line.endswith(")") and "(" in line else ""
    return inner or line


class Found(NamedTuple):
    """An object of a file: its path without the leading slash, and h5py's identifier."""

    path: str
    object: Any


class _Step(NamedTuple):
    """A link that walking has yet to follow."""

    group: Any
    name: bytes
    kind: int
    path: str
    depth: int


class H5File:
    """An open HDF5 file of known size.  `path` is what errors call it."""

    def __init__(
        self,
        path: str,
        size: int,
        file_id: h5py.h5f.FileID,
        length_size: int = 8,
        source: GuardedFile | None = None,
    ) -> None:
        from h5py import h5g

        self.path = path
        self.size = size
        self._id = file_id
        self._source = source
        self._length_size = length_size
        self._guarded: tuple[RandomAccessFile, h5py.h5f.FileID] | None = None
        self._values: RandomAccessFile | None = None
        with damage(path, "its root group"):
            self.root = h5g.open(file_id, b"/")

    def close(self) -> None:
        """Close the file; identifiers of its objects are invalid from then on."""
        if self._id.valid:
            self._id.close()
        if self._guarded is not None:
            self._guarded[1].close()
            self._guarded[0].close()
            self._guarded = None
        if self._values is not None:
            self._values.close()
            self._values = None

    @property
    def values(self) -> RandomAccessFile | None:
        """The file itself, for what lies in it in one piece; None where it is a member of another."""
        if self._source is None and self._values is None:
            self._values = RandomAccessFile(self.path)
        return self._values

    def guarded(self, found: Any) -> Any:
        """Return an object of this file as one whose strings of variable length are safe to read.

        The library's own access to files is several times as fast as a Python object's,
        so only these go through the guard.  What is read through a source is guarded anyway.
        """
        from h5py import h5i, h5o

        if self._source is not None:
            return found
        if self._guarded is None:
            file = RandomAccessFile(self.path)
            source = GuardedFile(file.read, file.size, self._length_size)
            self._guarded = file, _open_id(self.path, source)
        return h5o.open(self._guarded[1], h5i.get_name(found))

    def refused(self, path: str, what: str, why: str) -> UnsupportedFeatureError:
        hints = (f"{why}; if you trust the file, repack it: h5repack IN OUT",)
        return UnsupportedFeatureError(
            f"{path!r} is {what}, which is not followed", path=self.path, code="hdf5-read", hints=hints
        )

    # Following names -----------------------------------------------------------

    def child(self, group: Any, name: bytes, path: str, *, soft: int = 0) -> Any | None:
        """Return the object of one link; None where there is none.

        `soft` is how many soft links may be followed.
        """
        from h5py import h5g, h5l, h5o

        with damage(self.path, f"link {path!r}"):
            if not isinstance(group, h5g.GroupID):
                return None
            try:
                kind = group.links.get_info(name).type
            except (KeyError, RuntimeError):
                if not group.links.exists(name):
                    return None
                raise
            if kind == h5l.TYPE_HARD:
                return h5o.open(group, name)
            if kind == h5l.TYPE_SOFT and soft:
                target = group.links.get_val(name)
                start = self.root if target.startswith(b"/") else group
                return self.find(key_text(target), start, soft=soft - 1)
        raise self._refused_link(path, kind)

    def _refused_link(self, path: str, kind: int) -> UnsupportedFeatureError:
        from h5py import h5l

        if kind == h5l.TYPE_SOFT:
            return self.refused(path, "a soft link", "Keras writes none and refuses to load one")
        if kind == h5l.TYPE_EXTERNAL:
            return self.refused(path, "an external link", "it names another file on this machine")
        return self.refused(
            path, f"a link of kind {kind}", "only the plug-in that defined it knows where it leads"
        )

    def find(self, path: str, start: Any | None = None, *, soft: int = 0) -> Any | None:
        """Return the object at a path, following hard links only; None where there is none."""
        if not self._id.valid:
            raise CheckpointError(CLOSED, path=self.path)
        found = self.root if start is None else start
        for name in key_bytes(path).split(b"/"):
            if name in (b"", b"."):
                continue
            found = self.child(found, name, path, soft=soft)
            if found is None:
                return None
        return found

    def links(self, group: Any, path: str) -> list[tuple[bytes, int]]:
        """Return name and kind of a group's links, in the order of names."""
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
            group.links.iterate(collect, info=True)
        if are_keys_too_long(size, len(found)):
            message = f"group {path[:_SHOWN_OF_PATH] or '/'!r}: names of {size} bytes, more than is read"
            raise CorruptCheckpointError(message, path=self.path, code="hdf5-read")
        return found

    # Walking ---------------------------------------------------------------------

    def walk(
        self, flaw: Callable[[CheckpointError], None], *, soft: bool = False, top: Any | None = None
    ) -> Iterator[Found]:
        """Yield every group and dataset below `top`, each group once however many links lead to it.

        With `soft`, a soft link to a dataset of this file is another name of it, and one
        to a group is passed over: what it holds is found where it is.  What is refused
        or damaged goes to `flaw`, which raises or keeps it.
        """
        from h5py import h5d, h5g

        seen: set[int] = set()
        pending = self._steps(self.root if top is None else top, "", 0, flaw)
        count = size = 0
        while pending:
            step = pending.pop()
            count, size = count + 1, size + len(step.path)
            if are_keys_too_long(size, count):
                message = f"paths of {size} characters, more than is read"
                flaw(CorruptCheckpointError(message, path=self.path, code="hdf5-read"))
                return
            if count > MOST_OBJECTS or step.depth > MOST_DEPTH:
                limit = (
                    f"more than {MOST_OBJECTS} objects"
                    if count > MOST_OBJECTS
                    else f"groups {MOST_DEPTH} deep"
                )
                flaw(UnsupportedFeatureError(f"{limit} at {step.path!r}", path=self.path, code="hdf5-read"))
                return
            try:
                found = self._take(step, soft=soft)
            except CheckpointError as error:
                flaw(error)
                continue
            if isinstance(found, h5d.DatasetID):
                yield Found(step.path, found)
            elif isinstance(found, h5g.GroupID):
                address = self._address(found, step.path, flaw)
                if address not in seen:
                    seen.add(address)
                    yield Found(step.path, found)
                    pending += self._steps(found, step.path, step.depth + 1, flaw)

    def _steps(
        self, group: Any, path: str, depth: int, flaw: Callable[[CheckpointError], None]
    ) -> list[_Step]:
        """Return the links of a group, the first of them last."""
        try:
            links = self.links(group, path)
        except CheckpointError as error:
            flaw(error)
            return []
        above = f"{path}/" if path else ""
        return [_Step(group, name, kind, above + key_text(name), depth) for name, kind in reversed(links)]

    def _take(self, step: _Step, *, soft: bool) -> Any | None:
        """Return the object that a link leads to; None for what is passed over."""
        from h5py import h5d, h5l, h5o

        if b"/" in step.name or step.name in (b"", b"."):
            raise CorruptCheckpointError(f"a link named {step.path!r}", path=self.path, code="hdf5-read")
        if step.kind == h5l.TYPE_HARD:
            with damage(self.path, f"object {step.path!r}"):
                return h5o.open(step.group, step.name)
        found = self.child(step.group, step.name, step.path, soft=MOST_SOFT_LINKS if soft else 0)
        return found if isinstance(found, h5d.DatasetID) else None

    def _address(self, group: Any, path: str, flaw: Callable[[CheckpointError], None]) -> int:
        from h5py import h5o

        try:
            with damage(self.path, f"group {path!r}"):
                return int(h5o.get_info(group).addr)
        except CheckpointError as error:
            flaw(error)
            return -1


def open_h5(path: str, size: int, superblock: Superblock, source: GuardedFile | None = None) -> H5File:
    """Open the HDF5 file at `path`, or that which `source` reads, after a look at its superblock.

    Raises CorruptCheckpointError, saying how many bytes are missing, where it is truncated.
    """
    if superblock.end is not None and size < superblock.end:
        message = f"truncated: the file has {size} bytes, its superblock says {superblock.end}"
        raise CorruptCheckpointError(message, path=path, offset=size, code="hdf5-read", hints=_COPY_AGAIN)
    with damage(path, "not a sound HDF5 file"):
        try:
            file_id = _open_id(path, source)
        except OSError as error:
            if not superblock.left_open:
                raise
            hints = ("whatever wrote it still runs, or was killed; when it no longer runs: h5clear -s FILE",)
            message = "the file is marked as open for writing"
            raise CorruptCheckpointError(message, path=path, code="hdf5-read", hints=hints) from error
    return H5File(path, size, file_id, superblock.length_size, source)


def _open_id(path: str, source: GuardedFile | None) -> h5py.h5f.FileID:
    from h5py import h5f, h5fd, h5p

    access = h5p.create(h5p.FILE_ACCESS)
    access.set_cache(0, 521, CHUNK_CACHE, 0.75)
    # Closing the file closes what is open in it, or the library would keep it open for that.
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    # Reading locks nothing: training may go on writing other files of a read-only or network directory.
    access.set_file_locking(False, True)
    if source is not None:
        access.set_fileobj_driver(h5fd.fileobj_driver, source)
    return h5f.open(path.encode("utf-8", "surrogateescape"), h5f.ACC_RDONLY, access)
