"""Paths of any store, and what lies at them.

    run/ckpt-1              the file system of this machine
    s3://bucket/run/ckpt-1  the store of the scheme `s3`, if there is one

A store is one file of this room: a module that has `STORES`, each a Store with its scheme, is
found by lying here, and imported when a URL is named.  Nobody else looks into paths: those that
may be URLs are joined and taken apart by the functions below.

A run can hold ten thousand checkpoints: would each list the directory, that were a hundred
million names.  So what a listing found is kept, until the store says that a name came or went.
"""

from __future__ import annotations

import itertools
import re
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..errors import CheckpointError, CheckpointNotFoundError, InaccessibleError
from .base import CLOSED, FILE, FOLDER, LINK, NO_FOLDER, Entry, File, UnlistedError
from .local import LOCAL
from .objects import ObjectStore
from .urls import local_path, no_store, no_target, only_read, public, scheme_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from .base import Identity, Listed, Store


_MOST_KEPT = 16
"""Folders whose names are kept: a run's, and those that its state file speaks of."""

_AT_A_TIME = 32
"""Files that a server is asked for before the first of them is read."""

_NEARLY = re.compile(r"(?P<scheme>[A-Za-z0-9]{2,5})(?P<sign>:/?|//)/*(?P<rest>[^/].*)", re.DOTALL)
"""What may be a URL that lacks a sign: `s3:/bucket`, `https//host`."""

T = TypeVar("T")

_lent: dict[str, Store] = {}


def store_of(path: str) -> Store:
    """Return the store that a path lies in; UnsupportedFeatureError where there is none for its scheme."""
    if "://" not in path or not (scheme := scheme_of(path)):
        return _revision_of(path) if _revisions and ":" in path else LOCAL
    found = _lent.get(scheme) or _stores().get(scheme)
    if found is None:
        raise no_store(path, scheme, _schemes())
    return found


def named(path: str) -> str:
    """Return by what a path that somebody gave is called from then on.

    A `file://` URL is a path of this machine, and what is secret in another is kept where it is needed
    alone.  Raises UnsupportedFeatureError where there is no such store.
    """
    if "://" not in path or not (scheme := scheme_of(path)):
        found = _named_revision(path) if ":" in path else path
        if found == path:
            _refuse_nearly_a_url(path)
        return found
    return local_path(path) if scheme == "file" else store_of(path).named(path)


_revisions: dict[str, Store] = {}
"""Stores of git by what their paths begin with, a REV and a colon, of those that somebody has named."""


def _named_revision(path: str) -> str:
    """Return by what `REV:PATH` is called, from now on as a path of git; any other path as it is.

    What is there under that name is meant first.
    """
    if LOCAL.stat(path, follow=False) is not None:
        return path
    from .git import find

    found = find(path)
    if found is None:
        return path
    place, store = found
    _revisions[store.path("")] = store
    return place


def _revision_of(path: str) -> Store:
    """Return the store of git in which a path lies, or this machine's."""
    beginnings = [begin for begin in _revisions if path.startswith(begin)]
    return _revisions[max(beginnings, key=len)] if beginnings else LOCAL


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
        path=meant.replace("://", match["sign"], 1),
        hints=(f"did you mean {meant}?",),
    )


@cache
def _stores() -> dict[str, Store]:
    """Return by scheme the stores that this room's modules have."""
    import importlib
    import pkgutil

    from formats import store

    names = (module.name for module in pkgutil.iter_modules(store.__path__))
    modules = [importlib.import_module(f"formats.store.{name}") for name in names]
    return {each.scheme: each for module in modules for each in getattr(module, "STORES", ())}


@contextmanager
def reachable(store: Store) -> Iterator[None]:
    """Have paths of a store's scheme lead to it as long as the context lasts."""
    before = dict(_lent)
    _lent[store.scheme] = store
    _kept.clear()
    try:
        yield
    finally:
        _lent.clear()
        _lent.update(before)
        _kept.clear()


def refuse_target(path: str) -> None:
    """Raise UnsupportedFeatureError for a target that is no path of this machine, where none else will do."""
    if is_in_store(path):
        raise no_target(path, store_of(path).scheme)


def is_in_store(path: str) -> bool:
    """Whether a target lies in a store that objects are put into.

    Raises UnsupportedFeatureError for one that is only read.
    """
    if is_only_read(path):
        raise only_read(path, store_of(path).scheme)
    return bool(store_of(path).scheme)


def is_only_read(path: str) -> bool:
    """Whether a path lies in a store into which nothing is written."""
    store = store_of(path)
    return bool(store.scheme) and not isinstance(store, ObjectStore)


_unpublished: dict[str, tuple[bytes, Identity]] = {}

_numbers = itertools.count()
"""No two files that are not there yet have one identity, though they have one path and size."""


@contextmanager
def as_if_there(path: str, data: bytes) -> Iterator[None]:
    """Have a file of this content be opened at a path, as long as the context lasts."""
    _unpublished[path] = data, ("unpublished", next(_numbers))
    try:
        yield
    finally:
        del _unpublished[path]


class _HeldFile(File):
    """A file that is not there yet."""

    travels = False

    def __init__(self, store: Store, path: str, data: bytes, identity: Identity) -> None:
        super().__init__(store, path, len(data), identity)
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


# What lies at a path -----------------------------------------------------------------


def open_file(path: str) -> File:
    """Return a file, open for reading.  Raises CheckpointNotFoundError, InaccessibleError."""
    store = store_of(path)
    return _HeldFile(store, path, *_unpublished[path]) if path in _unpublished else store.open(path)


def entry_at(path: str) -> Entry | None:
    """Return what lies at a path, links followed; None where nothing does, or nobody may look."""
    if path in _unpublished:
        data, identity = _unpublished[path]
        return Entry(FILE, len(data), 0.0, identity)
    return store_of(path).stat(path)


def other_names(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return by path the other names, in its folder, of each file that has several.

    A folder is gone through once: a checkpoint can have thousands of shards.
    """
    entries = {path: found for path in paths if (found := entry_at(path)) is not None}
    linked = {path: found for path, found in entries.items() if found.kind == FILE and found.links > 1}
    names: dict[tuple[str, Identity], list[str]] = {}
    for folder in {parent(path) for path in linked}:
        for name, kind in list_folder(folder):
            found = entry_at(join(folder, name)) if kind in (FILE, LINK) else None
            if found is not None:
                names.setdefault((folder, found.identity), []).append(name)
    others = {
        path: [name for name in names.get((parent(path), found.identity), ()) if name != name_of(path)]
        for path, found in linked.items()
    }
    return {path: found for path, found in others.items() if found}


def is_file(path: str) -> bool:
    found = entry_at(path) if store_of(path).can_be_file(path) else None
    return found is not None and found.kind == FILE


def is_folder(path: str) -> bool:
    found = entry_at(path)
    return found is not None and found.kind == FOLDER


def is_there(path: str) -> bool:
    """Whether anything lies at a path, were it a link that leads nowhere."""
    return store_of(path).stat(path, follow=False) is not None


def is_missing(path: str) -> bool:
    """Whether nothing lies at a path; not so where nobody tells, as a server that refuses to."""
    return not is_there(path) and obstacle_at(path) is None


def is_link(path: str) -> bool:
    found = store_of(path).stat(path, follow=False)
    return found is not None and found.kind == LINK


def obstacle_at(path: str) -> str | None:
    """Return in words what keeps a path from being opened; None also where nothing is there."""
    return store_of(path).obstacle(path)


def refuse_closed(path: str) -> None:
    """Raise InaccessibleError for a path of which nobody is told whether anything is there."""
    found = None if is_there(path) else obstacle_at(path)
    if found is not None:
        raise InaccessibleError(found, path=path)


class _Kept(NamedTuple):
    """What one listing found, or why there is no such folder; `stamp` is None where it counts once."""

    stamp: Hashable | None
    names: Sequence[Listed]
    missing: str = ""


_kept: dict[str, _Kept] = {}


def list_folder(folder: str) -> Sequence[Listed]:
    """Return the names in a folder, sorted, from one listing for all who ask; nobody changes the sequence.

    Raises CheckpointNotFoundError, InaccessibleError.
    """
    store = store_of(folder)
    stamp = store.stamp(folder)
    known = _kept.get(folder)
    if known is None or stamp is None or known.stamp != stamp:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        known = _kept[folder] = _listed(store, folder, stamp)
    if known.missing:
        raise CheckpointNotFoundError(known.missing, path=folder)
    return known.names


def _listed(store: Store, folder: str, stamp: Hashable | None) -> _Kept:
    try:
        return _Kept(stamp, store.list(folder))
    except CheckpointNotFoundError as error:
        return _Kept(stamp, (), error.message)


def missing_place(folder: str) -> str | None:
    """Return in words what a folder is missing in, where that is not there: a bucket, a repository."""
    if not store_of(folder).scheme:
        return None
    try:
        list_folder(folder)
    except CheckpointNotFoundError as error:
        return None if error.message == NO_FOLDER else error.message
    except CheckpointError:
        pass
    return None


def refuse_missing_place(path: str) -> None:
    """Raise CheckpointNotFoundError for a target in a bucket that is not there, as far as a listing tells."""
    found = missing_place(parent(path))
    if found is not None:
        hints = ("a bucket is made by its provider's own programs",)
        raise CheckpointNotFoundError(f"cannot be written: {found}", path=path, hints=hints)


def why_unlisted(folder: str) -> str | None:
    """Return in words why a folder is not listed to who asks; None where it is, or is not there."""
    try:
        list_folder(folder)
    except UnlistedError as error:
        return error.message
    except CheckpointError:
        pass
    return None


def names_in(folder: str) -> list[tuple[str, bool]]:
    """Return the names in a folder, sorted, and whether each is a folder or leads to one; raises likewise."""
    return [
        (name, kind == FOLDER or (kind == LINK and is_folder(join(folder, name))))
        for name, kind in list_folder(folder)
    ]


def looked_into(items: Sequence[T], path: Callable[[T], str]) -> Iterator[T]:
    """Yield things whose files are read one after the other; a server is asked for some of them at a time."""
    for at in range(0, len(items), _AT_A_TIME):
        some = items[at : at + _AT_A_TIME]
        store_of(path(some[0])).expect_files([path(each) for each in some])
        yield from some


# Paths ---------------------------------------------------------------------------------


def join(folder: str, *names: str) -> str:
    """Return the path of a name in a folder, or below it; an absolute name is one of the same store."""
    store = store_of(folder)
    for name in names:
        folder = store.join(folder, name)
    return folder


def split(path: str) -> tuple[str, str]:
    """Return the folder that a path lies in, and its name there."""
    return store_of(path).split(path)


def parent(path: str) -> str:
    return split(path)[0]


def name_of(path: str) -> str:
    """Return the last name of a path."""
    return split(path)[1]


def absolute(path: str) -> str:
    """Return the one spelling of a path by which paths are compared; links are not followed."""
    return store_of(path).absolute(path)


def relative(path: str, folder: str) -> str:
    """Return a path as it is called from a folder of the same store."""
    return store_of(path).relative(path, folder)


def real_path(path: str) -> str:
    """Return where a path leads, links followed."""
    return store_of(path).real(path)
