"""The state file of a directory, compared with its content: entries, unlisted checkpoints, leftovers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import CheckpointError, CheckpointNotFoundError
from formats.find.directory import Directory, Member, is_listing
from formats.find.opening import is_directory, open_location
from formats.find.registry import detect_format
from formats.find.resolve import find_listed, resolve, sharded_folder, suggest
from formats.model.checkpoint_files import CheckpointLocation, bundle, step_of
from formats.model.orbax_files import is_orbax
from formats.store.base import NO_FOLDER
from formats.store.urls import scheme_of
from formats.tf.run.leftovers import find_leftovers, half_sent_in
from formats.tf.run.state_file import FILE_NAME, StateFile, looks_like_state_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.location import Location
    from formats.store.remote.upload_journal import HalfSent
    from formats.tf.run.leftovers import Leftover


NOT_THERE = "does not exist"


class StateEntry(NamedTuple):
    """A checkpoint that a state file lists, or shall list; `location` is None if there is none.

    `listed` is the path as the file has it, `name` the one it has in the directory.  `absence` says why
    there is no location.
    """

    listed: str
    name: str
    timestamp: float | None
    location: CheckpointLocation | None
    absence: str = NOT_THERE

    @property
    def is_stale(self) -> bool:
        """Whether it is in the directory, but listed under another path."""
        return self.location is not None and self.listed != self.name


def is_inside(name: str) -> bool:
    """Whether a name that is relative to a directory stays in it."""
    return not is_absolute(name) and name.split(os.sep, 1)[0] != os.pardir


def is_absolute(name: str) -> bool:
    """Whether a name is complete by itself: an absolute path, or a URL."""
    return os.path.isabs(name) or bool(scheme_of(name))


def _plain(name: str) -> str:
    """Return the normal form of a name; URLs, which name entries elsewhere in a store, are unchanged."""
    return name if scheme_of(name) else os.path.normpath(name)


def _inside(path: Location, folder: Location) -> str:
    """Return the name of a path inside a folder; for a path outside, one that `is_inside` rejects."""
    if scheme_of(path) == scheme_of(folder):
        return path.real().relative_to(folder.real())
    return path


def flaw_of(location: CheckpointLocation) -> str | None:
    """Return why a checkpoint cannot be restored, as its index and its files tell; None if it can."""
    try:
        with open_location(location) as reader:
            missing = reader.missing_files()
    except CheckpointError as error:
        return str(error)
    return f"{missing[0]} is missing" if missing else None


class Run:
    """A directory and its state file, as they are at one moment.

    `entries` are in the order of the file, and `unlisted` are the checkpoints it lacks, oldest first. Old
    sets that are `waiting` in leftovers to be put back count as existing. If it `is_in_store`, leftovers are
    those that `--resume` continues with; parts of uploads are invisible. If it `is_only_read`, nothing is
    changed.
    """

    def __init__(self, path: Location) -> None:
        self.is_only_read = path.is_read_only
        self.is_in_store = bool(path.store.scheme)
        self.path, self.state_path = places_of(path)
        self.directory = Directory(self.path, self.state_path)
        self.state = self.directory.state
        self.has_file = self.state_path.is_file()
        listed = dict.fromkeys((*self.state.paths, self.state.latest)) if self.state else {}
        # A state file is TensorFlow's: Orbax reads none, and lists its steps by their names.
        members = {
            member.location.path: member for member in self.directory.members if not is_orbax(member.location)
        }
        sound = any(member.error is None for member in members.values())
        self.leftovers: Sequence[Leftover | HalfSent] = (
            half_sent_in(self.path)
            if self.is_in_store
            else self._find_leftovers(listed, has_checkpoints=sound)
        )
        aside = [path for leftover in self.leftovers if not leftover.in_the_way for path in leftover.aside]
        self.waiting = _waiting(self.path, aside)
        members |= {member.location.path: member for member in self.waiting}
        self._there = {_plain(member.name): member for member in members.values()}
        times = _timestamps(self.state)
        self.entries = [self.entry(path, times.get(path)) for path in listed]
        known = {entry.name for entry in self.entries}
        self.unlisted = sorted(
            (m for name, m in self._there.items() if name not in known and is_inside(name)),
            key=lambda member: member.order,
        )

    def _find_leftovers(self, listed: Iterable[str], *, has_checkpoints: bool) -> list[Leftover]:
        """Return what interrupted saves left."""
        prefixes = [self.path / name for path in listed for name in (path, os.path.basename(path))]
        return find_leftovers(self.path, prefixes, has_checkpoints=has_checkpoints)

    def entry(self, listed: str, timestamp: float | None = None) -> StateEntry:
        """Return the entry for a listed path: in this directory if it is here, otherwise at the path
        itself.
        """
        names = [listed]
        if is_absolute(listed):
            inside = _inside(self.path.of(listed), self.path)
            # The directory may be a copy: its own checkpoint goes before one of that name elsewhere.
            names = [inside] if is_inside(inside) else [os.path.basename(listed), listed]
        absence = NOT_THERE
        for name in names:
            member = self._there.get(_plain(name))
            location = member.location if member else find_listed(self.path / name)
            if location is None:
                continue
            if not member and is_listing(location):
                absence = "is a saved listing"
                continue
            own = name if is_absolute(name) else location.path.relative_to(self.path)
            return StateEntry(listed, own, timestamp, location)
        return StateEntry(listed, listed, timestamp, None, absence)

    def modified(self, entry: StateEntry) -> float:
        """Return when a checkpoint was written: the time of the file that says what it is."""
        assert entry.location is not None
        member = self._there.get(entry.name)
        return member.modified if member else _modified(entry.location.head)

    @property
    def latest(self) -> StateEntry | None:
        if self.state is None:
            return None
        return next(entry for entry in self.entries if entry.listed == self.state.latest)

    @property
    def is_empty(self) -> bool:
        return not self.entries and not self.unlisted

    def document(self) -> dict[str, Any]:
        """Return what `state --json` shows, without the changes."""
        return {
            "directory": self.path,
            "latest": self.latest.name if self.latest else None,
            "checkpoints": [
                {
                    "name": entry.name,
                    "path": entry.location.path if entry.location else self.path / entry.name,
                    "timestamp": entry.timestamp,
                    "exists": entry.location is not None,
                    "listed": entry.listed,
                }
                for entry in self.entries
            ],
            "unlisted": [member.name for member in self.unlisted],
            "leftovers": [leftover.path.relative_to(self.path) for leftover in self.leftovers],
        }


def places_of(path: Location) -> tuple[Location, Location]:
    """Return the directory and the state file that a path stands for: either names both."""
    if path.is_file():
        with path.open() as file:
            if not looks_like_state_file(file.read(0, 4096)):
                _refuse_checkpoint(path)
                message = "this is neither a directory nor a state file"
                raise CheckpointError(message, path=path)
        return path.parent or path.of("."), path
    if not path.is_folder():
        _refuse_checkpoint(path)
        if path.exists():
            raise CheckpointError("this is neither a directory nor a state file", path=path)
        path.require_access()
        message = path.missing_container() or NO_FOLDER
        raise CheckpointNotFoundError(message, path=path, hints=_suggest_directory(path))
    if not is_directory(path) and sharded_folder(path) is None:
        raise CheckpointError(
            ("this is one checkpoint, which has no state file; expected a directory of checkpoints"),
            path=path,
        )
    return path, path / FILE_NAME


def _suggest_directory(path: Location) -> tuple[str, ...]:
    """Return a hint for a missing path: if it has a checkpoint's name, the run it was in."""
    run = path.parent or path.of(".")
    if step_of(path) is not None and run.is_folder() and Directory(run).members:
        return (f"pass the directory of this checkpoint: {run}",)
    return suggest(path)


def _refuse_checkpoint(path: Location) -> None:
    """Say of a path that names one checkpoint what it is, and which directory it is in."""
    try:
        detect_format(resolve(path))
    except CheckpointError:
        return
    hints = (f"pass the directory of this checkpoint: {path.parent or '.'}",)
    raise CheckpointError(
        "this is one checkpoint; expected a directory of checkpoints", path=path, hints=hints
    )


def _timestamps(state: StateFile | None) -> dict[str, float]:
    if state is None or len(state.timestamps) != len(state.paths):
        return {}
    return dict(zip(state.paths, state.timestamps, strict=True))


def _modified(path: Location) -> float:
    """Return when something was changed, in seconds since 1970; CheckpointNotFoundError if it has gone."""
    found = path.entry()
    if found is None:
        raise CheckpointNotFoundError("this file no longer exists", path=path)
    return found.modified


def _waiting(directory: Location, aside: Iterable[Location]) -> list[Member]:
    """Return the bundles that putting these files back brings into a directory."""
    # They were replaced a moment before the kill, so the directory's time is as good as their own.
    time = _modified(directory)
    prefixes = [path.removesuffix(".index") for path in aside if path.endswith(".index")]
    return [Member(bundle(prefix), prefix.relative_to(directory), time) for prefix in prefixes]
