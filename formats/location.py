"""The location of a file or a folder: its store, and its path there.

    run/ckpt-1              the file system of this machine
    s3://bucket/run/ckpt-1  the store of the scheme `s3`, if there is one
    HEAD~1:run/ckpt-1       a commit of the git repository around the current directory

`parse_location` understands text from outside once: an argument, or a path that a program passes.  From then
on a Location is passed, which knows its store; nothing below parses a path again.

A store is one module of this room, or of `remote`, that has `STORES`.  It is found by its place, and imported
when a URL is named.

A run can hold ten thousand checkpoints, and each would list the directory. So a listing is kept until
the store reports a new or removed name.
"""

from __future__ import annotations

import itertools
import os
import re
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar, cast

from .errors import CheckpointError, CheckpointNotFoundError, InaccessibleError
from .store.base import CLOSED, FILE, FOLDER, LINK, NO_FOLDER, Entry, File, UnlistedError
from .store.local.files import LOCAL
from .store.urls import local_path, no_store, no_target, only_read, public, scheme_of
from .store.work.single_flight import SingleFlight

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from .store.base import Identity, Listed, Store
    from .store.remote.objects import ObjectStore


_MOST_KEPT = 16
"""Folders whose names are kept: a run's, and those that its state file speaks of."""

_AT_A_TIME = 32
"""The number of files requested from a server before the first of them is read."""

_NEARLY = re.compile(r"(?P<scheme>[A-Za-z0-9]{2,5})(?P<sign>:/?|//)/*(?P<rest>[^/].*)", re.DOTALL)
"""A text that may be a URL with a missing character: `s3:/bucket`, `https//host`."""

T = TypeVar("T")


class Location(str):
    """A path and its store.

    It is the text that people see, so that it prints, sorts and compares as such; secrets of a URL are not in
    it.  `/`, `+`, `parent` and the like return a Location of the same store.  Methods that ask the store
    raise InaccessibleError if it refuses.
    """

    __slots__ = ("store",)

    store: Store

    def __new__(cls, path: str, store: Store) -> Self:
        made = super().__new__(cls, path)
        made.store = store
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return Location, (str(self), self.store)

    # Paths -----------------------------------------------------------------------

    def of(self, path: str) -> Location:
        """Return another path of the same store, as `parent`'s or a shard's."""
        return Location(path, self.store)

    def __add__(self, suffix: str) -> Location:
        return Location(super().__add__(suffix), self.store)

    def removesuffix(self, suffix: str, /) -> Location:
        """Return the path without a suffix that it may have."""
        return Location(super().removesuffix(suffix), self.store)

    def __truediv__(self, name: str) -> Location:
        """Return the location of a name in this folder; an absolute name is one of the same store."""
        return Location(self.store.join(self, name), self.store)

    def split_name(self) -> tuple[Location, str]:
        """Return the folder and the name there."""
        folder, name = self.store.split(self)
        return Location(folder, self.store), name

    @property
    def parent(self) -> Location:
        """The folder that this is in."""
        return self.split_name()[0]

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.store.split(self)[1]

    def beside(self, name: str) -> Location:
        """Return the location of another name in the same folder."""
        return self.parent / name

    def absolute(self) -> Location:
        """Return the one spelling by which locations are compared; links are not followed."""
        return Location(self.store.absolute(self), self.store)

    def relative_to(self, folder: str) -> str:
        """Return the path as it is called from a folder of the same store."""
        return self.store.relative(self, folder)

    def real(self) -> Location:
        """Return where this leads, links followed."""
        return Location(self.store.real(self), self.store)

    # What is there ---------------------------------------------------------------

    def open(self) -> File:
        """Return the file, open for reading.  Raises CheckpointNotFoundError, InaccessibleError."""
        return _HeldFile(self, *_unpublished[self]) if self in _unpublished else self.store.open(self)

    def entry(self) -> Entry | None:
        """Return what is there, links followed; None if nothing is, or the store does not tell."""
        if self in _unpublished:
            data, identity = _unpublished[self]
            return Entry(FILE, len(data), 0.0, identity)
        return self.store.stat(self)

    def is_file(self) -> bool:
        """Whether a file is there, or a link to one."""
        found = self.entry() if self.store.can_be_file(self) else None
        return found is not None and found.kind == FILE

    def is_folder(self) -> bool:
        """Whether a folder is there, or a link to one."""
        found = self.entry()
        return found is not None and found.kind == FOLDER

    def exists(self) -> bool:
        """Whether anything is there, even a link that leads nowhere."""
        return self.store.stat(self, follow=False) is not None

    def is_missing(self) -> bool:
        """Whether nothing is there; not so where the store does not tell, as a server that refuses to."""
        return not self.exists() and self.obstacle() is None

    def is_link(self) -> bool:
        """Whether a symbolic link is there."""
        found = self.store.stat(self, follow=False)
        return found is not None and found.kind == LINK

    def obstacle(self) -> str | None:
        """Return in words what keeps this from being opened; None also where nothing is there."""
        return self.store.obstacle(self)

    def require_access(self) -> None:
        """Raise InaccessibleError if the store does not tell whether anything is there."""
        found = None if self.exists() else self.obstacle()
        if found is not None:
            raise InaccessibleError(found, path=self)

    def listing(self) -> Sequence[Listed]:
        """Return the names in this folder, sorted, from one listing for all callers and threads.

        The sequence is not to be changed.

        Raises CheckpointNotFoundError, InaccessibleError.
        """
        stamp = self.store.stamp(self)
        if stamp is None:
            found = _listed(self, None)
        else:
            known, make = partial(_kept_listing, self, stamp), partial(_listed, self, stamp)
            found = _listings.get((self, stamp), known, make)
        if found.missing:
            raise CheckpointNotFoundError(found.missing, path=self)
        return found.names

    def names(self) -> list[tuple[str, bool]]:
        """Return the names in this folder, sorted, and whether each is a folder or a link to one.

        Raises CheckpointNotFoundError, InaccessibleError.
        """
        return [
            (name, kind == FOLDER or (kind == LINK and (self / name).is_folder()))
            for name, kind in self.listing()
        ]

    def why_unlisted(self) -> str | None:
        """Return in words why this folder cannot be listed, or None if it can, or does not exist."""
        try:
            self.listing()
        except UnlistedError as error:
            return error.message
        except CheckpointError:
            pass
        return None

    def missing_container(self) -> str | None:
        """Return in words which bucket or repository this folder would be in, and that it does not exist."""
        if not self.store.scheme:
            return None
        try:
            self.listing()
        except CheckpointNotFoundError as error:
            return None if error.message == NO_FOLDER else error.message
        except CheckpointError:
            pass
        return None

    # As a target -----------------------------------------------------------------

    @property
    def is_read_only(self) -> bool:
        """Whether the store is one that is never written to."""
        return bool(self.store.scheme) and not self.store.takes_objects

    def is_object(self) -> bool:
        """Whether a target is an object of a bucket, rather than a file of this machine.

        Raises UnsupportedFeatureError for a store that is only read.
        """
        if self.is_read_only:
            raise only_read(self, self.store.scheme)
        return bool(self.store.scheme)

    @property
    def object_store(self) -> ObjectStore:
        """The store of objects that this is in."""
        assert self.store.takes_objects
        return cast("ObjectStore", self.store)

    def require_local(self) -> None:
        """Raise UnsupportedFeatureError for a target that is not on this machine."""
        if self.is_object():
            raise no_target(self, self.store.scheme)

    def require_container(self) -> None:
        """Raise CheckpointNotFoundError for a target in a bucket that a listing says does not exist."""
        found = self.parent.missing_container()
        if found is not None:
            hints = ("create the bucket with the provider's own tools",)
            raise CheckpointNotFoundError(f"cannot be written: {found}", path=self, hints=hints)


def local_location(path: str | os.PathLike[str]) -> Location:
    """Return the location of a path of this machine, even if it looks like a URL."""
    return Location(os.fsdecode(path), LOCAL)


def parse_location(text: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> Location:
    """Return the location that a path or URL from outside names; of bytes as `os.fsdecode` has them.

    A `file://` URL is a path of this machine.  Secrets in a URL stay with its store.  Raises
    UnsupportedFeatureError if no store has the URL's scheme, CheckpointNotFoundError for a URL that lacks
    a sign.
    """
    if isinstance(text, Location):
        return text
    path = os.fsdecode(text)
    if "://" not in path or not (scheme := scheme_of(path)):
        found = _of_revision(path) if ":" in path else None
        if found is not None:
            return found
        _refuse_nearly_a_url(path)
        return Location(path, LOCAL)
    if scheme == "file":
        return Location(local_path(path), LOCAL)
    store = _lent.get(scheme) or _stores().get(scheme)
    if store is None:
        raise no_store(path, scheme, _schemes())
    return Location(store.named(path), store)


def store_of_scheme(scheme: str) -> Store:
    """Return the store that has a URL's scheme.  Raises KeyError if there is none."""
    return _lent.get(scheme) or _stores()[scheme]


def _of_revision(path: str) -> Location | None:
    """Return the location in git that `REV:PATH` names; None for any other path.

    A file of that very name comes first.
    """
    if LOCAL.stat(path, follow=False) is not None:
        return None
    from .store.git import find

    found = find(path)
    return None if found is None else Location(*found)


_lent: dict[str, Store] = {}


def _schemes() -> list[str]:
    """Return what URLs begin with that are read, sorted."""
    return sorted({*_stores(), "file"})


def _refuse_nearly_a_url(path: str) -> None:
    """Raise CheckpointNotFoundError for a URL that lacks a `/` or a `:`; what is secret in it is cut out."""
    match = _NEARLY.fullmatch(path)
    if match is None or match["scheme"].lower() not in _schemes():
        return
    if LOCAL.stat(path.partition("/")[0], follow=False) is not None:
        return
    scheme = match["scheme"].lower()
    meant = public(f"{scheme}://{'/' if scheme == 'file' else ''}{match['rest']}")
    raise CheckpointNotFoundError(
        "no such file, prefix or directory",
        path=path if scheme == "file" else meant.replace("://", match["sign"], 1),
        hints=(f"did you mean {meant}?",),
    )


@cache
def _stores() -> dict[str, Store]:
    """Return by scheme the stores that the modules of this room and of `remote` have."""
    import importlib
    import pkgutil

    from formats import store
    from formats.store import remote

    rooms = (store, remote)
    found = [(room.__name__, each) for room in rooms for each in pkgutil.iter_modules(room.__path__)]
    modules = [importlib.import_module(f"{room}.{each.name}") for room, each in found if not each.ispkg]
    return {each.scheme: each for module in modules for each in getattr(module, "STORES", ())}


@contextmanager
def reachable(store: Store) -> Iterator[None]:
    """Have URLs of a store's scheme lead to it as long as the context lasts."""
    before = dict(_lent)
    _lent[store.scheme] = store
    _kept.clear()
    try:
        yield
    finally:
        _lent.clear()
        _lent.update(before)
        _kept.clear()


def looked_into(items: Sequence[T], head: Callable[[T], Location]) -> Iterator[T]:
    """Yield items whose files are read one after another; a server gets the requests for several at a
    time.
    """
    for at in range(0, len(items), _AT_A_TIME):
        some = items[at : at + _AT_A_TIME]
        heads = [head(each) for each in some]
        heads[0].store.expect_files(heads)
        yield from some


def other_names(files: Iterable[Location]) -> dict[Location, list[str]]:
    """Return by location the other names, in its folder, of each file that has several.

    A folder is read once, because a checkpoint can have thousands of shards.
    """
    entries = {path: found for path in files if (found := path.entry()) is not None}
    linked = {path: found for path, found in entries.items() if found.kind == FILE and found.links > 1}
    names: dict[tuple[str, Identity], list[str]] = {}
    for folder in {path.parent for path in linked}:
        for name, kind in folder.listing():
            found = (folder / name).entry() if kind in (FILE, LINK) else None
            if found is not None:
                names.setdefault((folder, found.identity), []).append(name)
    others = {
        path: [name for name in names.get((path.parent, found.identity), ()) if name != path.name]
        for path, found in linked.items()
    }
    return {path: found for path, found in others.items() if found}


# Listings that are kept ----------------------------------------------------------------


class _KeptListing(NamedTuple):
    """The result of one listing, or why there is no such folder; `stamp` is None if it is not kept."""

    stamp: Hashable | None
    names: Sequence[Listed]
    missing: str = ""


_kept: dict[str, _KeptListing] = {}

_listings: SingleFlight[_KeptListing] = SingleFlight()
"""Listings that threads wait for, by folder and stamp."""


def _kept_listing(folder: Location, stamp: Hashable) -> _KeptListing | None:
    found = _kept.get(folder)
    return found if found is not None and found.stamp == stamp else None


def _listed(folder: Location, stamp: Hashable | None) -> _KeptListing:
    """List a folder, and keep what was found."""
    try:
        found = _KeptListing(stamp, folder.store.list(folder))
    except CheckpointNotFoundError as error:
        found = _KeptListing(stamp, (), error.message)
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[folder] = found
    return found


# Files that are not published yet --------------------------------------------------------


_unpublished: dict[str, tuple[bytes, Identity]] = {}

_numbers = itertools.count()
"""Two files that do not exist yet never share an identity, even with the same path and size."""


@contextmanager
def as_if_there(path: Location, data: bytes) -> Iterator[None]:
    """Have a file of this content be opened at a location, as long as the context lasts."""
    _unpublished[path] = data, ("unpublished", next(_numbers))
    try:
        yield
    finally:
        del _unpublished[path]


class _HeldFile(File):
    """A file that does not exist yet."""

    travels = False

    def __init__(self, path: Location, data: bytes, identity: Identity) -> None:
        super().__init__(path.store, path, len(data), identity)
        self._data: bytes | None = data

    def read(self, offset: int, size: int) -> bytes:
        if self._data is None:
            raise CheckpointError(CLOSED, path=self.path)
        return self._data[offset : offset + size] if offset >= 0 and size > 0 else b""

    @property
    def closed(self) -> bool:
        return self._data is None

    def close(self) -> None:
        self._data = None
