"""Changing a directory and its state file: first the plan, then what it says.

A plan is carried out in this order, so that a kill at any point leaves a directory
whose state file names what is there:

    1. old sets that an interrupted writer moved aside are put back
    2. leftovers are removed, which makes room for the state file where they have filled the disk
    3. the state file is replaced, at one stroke
    4. checkpoints it no longer names are deleted, of each the file first that makes it one

On a disk that is full all the same, 4 comes before 3: the room is made by what is deleted.  After a
kill in between, the state file names checkpoints that are gone, but never as the latest; `--fix` drops them.

Nothing outside the directory is ever deleted: the state file of a copied directory may
name, by absolute paths, the checkpoints of the original.

Two traits of TensorFlow's CheckpointManager determine what is written. It deletes the first entries of the
list, so the latest comes last. To keep one checkpoint every few hours, it removes entries that are not newer
than `last_preserved_timestamp` from the list without deleting their files. So an added entry older than the
rest gets no later time than that. tensorflow/python/checkpoint/checkpoint_management.py
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import age_in_words, command_line, counted
from formats.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    UnsupportedFeatureError,
)
from formats.find.opening import open_location
from formats.find.registry import detect_format, format_named
from formats.find.resolve import resolve, suggest
from formats.location import Location, parse_location
from formats.model.checkpoint_files import CheckpointLocation, step_of
from formats.model.reader import Family
from formats.store.local.directories import sync_directory
from formats.store.local.refusals import FULL, refusing
from formats.store.local.removing import Attempts
from formats.store.local.staging import holding, replace_file
from formats.store.remote.object_lock import FoundLock, lock_path, locks_in
from formats.store.remote.upload_journal import HalfSent
from formats.store.siblings import SHARD, V1_SHARD
from formats.tf.run.leftovers import LOST_INDEX, Freed
from formats.tf.run.state_file import StateFile

from .merging import merged
from .state import NOT_THERE, Run, StateEntry, flaw_of, is_inside

if TYPE_CHECKING:
    from formats.find.directory import Member
    from formats.location import Location
    from formats.tf.run.leftovers import Leftover


_REWRITING = ("mend", "drop", "add", "set", "delete")
"""Changes that come with a new state file."""

_RECENT = 600
"""Seconds within which what changed may belong to a save that is still running elsewhere."""


class RequestedChanges(NamedTuple):
    """The requested changes: a checkpoint to be the latest, repairs, how many to keep."""

    latest: str | None = None
    fix: bool = False
    keep: int | None = None


class Change(NamedTuple):
    """One thing to be done; `files` are deleted in this order."""

    action: str
    name: str
    why: str
    files: tuple[Location, ...] = ()
    leftover: Leftover | HalfSent | FoundLock | None = None

    nbytes: int = 0
    """What is freed."""

    def document(self) -> dict[str, str | int]:
        return {"action": self.action, "name": self.name, "why": self.why, "nbytes": self.nbytes}


class StatePlan(NamedTuple):
    """The planned changes. `state` is the new content of the state file, or None if it stays unchanged."""

    changes: list[Change]
    state: StateFile | None
    warnings: list[str]


def make_plan(run: Run, request: RequestedChanges) -> StatePlan:
    """Return what there is to do; CheckpointError if it cannot be done."""
    run.path.is_object()  # or raises what nothing there takes
    return _StatePlanner(run).plan(request)


class _StatePlanner:
    """Works on `entries`, the list that the state file shall have, oldest first."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.entries = list(run.entries)
        self.latest = run.latest
        self.changes: list[Change] = []
        self.warnings: list[str] = []
        self._without_index: list[StateEntry] = []
        self._freed = Freed()

    def plan(self, request: RequestedChanges) -> StatePlan:
        run = self.run
        if run.has_file and run.state is None and not request.fix:
            hints = (f"to rewrite the state file: {command_line('state', '--fix', run.path)}",)
            raise CorruptCheckpointError("this state file cannot be read", path=run.state_path, hints=hints)
        if request.keep is not None and run.is_in_store:
            message = "--keep deletes checkpoints only on a local disk"
            hints = ("in a bucket, use a lifecycle rule or the provider's own program",)
            raise UnsupportedFeatureError(message, path=run.path, hints=hints)
        if request.fix:
            self._put_back()
            self._mend()
            self._drop()
            self._straighten()
        if request.fix or (request.latest is not None and run.state is None):
            self._add()
        if request.latest is not None:
            self._set_latest(request.latest)
        if request.keep is not None:
            self._keep(request.keep)
        state = self._state()
        if request.fix:
            self._remove_leftovers()
        return StatePlan(self.changes, state if state != run.state else None, self.warnings)

    @property
    def _preserved(self) -> float | None:
        return self.run.state.last_preserved if self.run.state else None

    def _change(self, action: str, name: str, why: str) -> None:
        self.changes.append(Change(action, name, why))

    # The list ---------------------------------------------------------------------

    def _mend(self) -> None:
        mended: dict[str, StateEntry] = {}
        for entry in self.entries:
            if entry.is_stale:
                self._change("mend", entry.name, f"was listed as {entry.listed}")
            mended[entry.name] = entry._replace(listed=entry.name)
        self.entries = list(mended.values())
        self.latest = mended[self.latest.name] if self.latest else None

    def _drop(self) -> None:
        """Remove missing checkpoints from the list, except those whose data shards are there.

        Without its entry, the next `--fix` would take these shards for an unfinished save and remove them.
        """
        there = {shard["prefix"] for path in self._kept_shards() if (shard := SHARD.fullmatch(path))}
        for entry in self.entries:
            if entry.location is None:
                prefixes = {self.run.path / entry.name, self.run.path / os.path.basename(entry.name)}
                if there.isdisjoint(map(os.path.abspath, prefixes)):
                    self._change("drop", entry.name, entry.absence)
                else:
                    self._without_index.append(entry)
        self.entries = [entry for entry in self.entries if entry.location is not None]
        if self.latest is not None and self.latest.location is None:
            self.latest = None

    def _kept_shards(self) -> list[str]:
        return [os.path.abspath(one.path) for one in self.run.leftovers if one.in_the_way == LOST_INDEX]

    def _add(self) -> None:
        """List what is there and sound, each before the first entry that is newer."""
        preserved = self._preserved
        waiting = set(self.run.waiting)

        def added(member: Member, is_newest: bool) -> StateEntry:
            self._change("add", member.name, "exists, but was not listed")
            time = member.modified if is_newest or preserved is None else min(member.modified, preserved)
            return StateEntry(member.name, member.name, time, member.location)

        members = [member for member in self.run.unlisted if member in waiting or self._is_sound(member)]
        self.entries = merged(self.entries, members, self.run.modified, added)
        if self.latest is not None and self.entries[-1].name in {m.name for m in self.run.unlisted}:
            newest = self.entries[-1].name
            self.warnings.append(
                f"{self.latest.name} stays the latest, although {newest} is newer; "
                f"to change that: {command_line('state', '--set', newest, self.run.path)}"
            )

    def _is_sound(self, member: Member) -> bool:
        """Whether a checkpoint that is not listed is one to be listed; what keeps it off is a warning."""
        if member.error is None and not _is_tensorflows(member.location):
            return False
        flaw = flaw_of(member.location)
        if flaw is not None:
            self.warnings.append(f"{flaw}; it is not added to the state file")
        return flaw is None

    def _set_latest(self, name: str) -> None:
        entry = self.run.entry(name)
        if entry.location is None and os.path.dirname(name):
            with contextlib.suppress(CheckpointNotFoundError):
                entry = self.run.entry(resolve(parse_location(name)).path.absolute())
        if entry.location is None:
            path = self.run.path / name
            if entry.absence != NOT_THERE:
                raise CheckpointError(
                    f"this checkpoint cannot become the latest, because it {entry.absence}", path=path
                )
            raise CheckpointNotFoundError("no such checkpoint", path=path, hints=suggest(path))
        flaw = flaw_of(entry.location)
        if flaw is not None:
            raise CheckpointError(
                f"this checkpoint cannot become the latest: {flaw}", path=entry.location.path
            )
        known = {known.name: known for known in self.entries}
        if self.latest is not None and self.latest.name == entry.name and not self.latest.is_stale:
            self.latest = known[entry.name]
            return
        before = f"was {self.latest.name}" if self.latest else "there was none"
        self._change("set", entry.name, f"the latest {before}")
        chosen = known.pop(entry.name, None) or entry._replace(timestamp=self._fresh_time(entry))
        self.latest = chosen._replace(listed=entry.name)
        self.entries = [*known.values(), self.latest]

    def _fresh_time(self, entry: StateEntry) -> float:
        """Return the time of a checkpoint that comes back to the list, which the manager is not to delete."""
        time = self.run.modified(entry)
        return time if self._preserved is None else min(time, self._preserved)

    def _straighten(self) -> None:
        """Note what else TensorFlow would not write: the latest not listed last, times without paths."""
        state = self.run.state
        if state is None:
            return
        name = os.path.basename(self.run.state_path)
        if self.latest is not None and state.paths[-1:] != (state.latest,):
            self._change("mend", name, "the latest checkpoint was not listed last")
        if state.timestamps and len(state.timestamps) != len(state.paths):
            times, paths = counted(len(state.timestamps), "timestamp"), counted(len(state.paths), "path")
            self._change("mend", name, f"it has {times} for {paths}")

    def _state(self) -> StateFile | None:
        """Return what the state file shall say."""
        before = self.run.state
        is_latest_lost = before is not None and self.latest is None and bool(self.entries)
        if not is_latest_lost and not any(change.action in _REWRITING for change in self.changes):
            return before
        if self.latest is None and self.entries:
            self.latest = self.entries[-1]
            if before is not None:
                assert self.run.latest is not None
                why = f"the latest was {before.latest}, which {self.run.latest.absence}"
                self._change("set", self.latest.name, why)
        if self.latest is None and before is None:
            return None
        if self.latest is None:
            self.warnings.append(
                f"{self.run.path}: the state file is unchanged, because no checkpoint exists to list"
            )
            self.changes = [change for change in self.changes if change.action not in _REWRITING]
            return before
        listed = [*(entry for entry in self.entries if entry.name != self.latest.name), self.latest]
        order = [entry.name for entry in self.run.entries]
        for entry in self._without_index:
            earlier = order[: order.index(entry.name)]
            place = max((at for at, one in enumerate(listed[:-1], 1) if one.name in earlier), default=0)
            listed.insert(place, entry)
        times = tuple(map(self._time, listed)) if before is None or before.timestamps else ()
        paths = tuple(entry.listed for entry in listed)
        return StateFile(self.latest.listed, paths, times, self._preserved)

    def _time(self, entry: StateEntry) -> float:
        if entry.timestamp is not None:
            return entry.timestamp
        return self.run.modified(entry) if entry.location is not None else 0.0

    # Deleting ---------------------------------------------------------------------

    def _keep(self, count: int) -> None:
        """Plan to delete all but the `count` latest sound checkpoints, and take them off the list."""
        order = self._in_order()
        whole: list[StateEntry] = []
        spared: set[str] = set()
        while order and len(whole) < count:
            entry = order.pop()
            assert entry.location is not None
            spared.update(files_of(entry.location))
            flaw = flaw_of(entry.location)
            if flaw is None:
                whole.append(entry)
            else:
                self.warnings.append(f"{flaw}; {entry.name} is kept and not counted")
        going = self._not_led_to([(entry, _to_delete(entry, spared)) for entry in order])
        order = [entry for entry, _ in going]
        for entry, files in going:
            why = "not the latest" if count == 1 else f"not among the {count} latest"
            size = self._freed.by(files)
            self.changes.append(Change("delete", entry.name, why, files, nbytes=size))
        if order:
            gone = {entry.name for entry in order}
            self.entries = [e for e in self.entries if e.name not in gone and e.location is not None]
            self.latest = self.latest if self.latest in self.entries else None
            if self.run.state is not None and not self.entries:
                self.entries = whole[:1]

    def _not_led_to(
        self, going: list[tuple[StateEntry, tuple[Location, ...]]]
    ) -> list[tuple[StateEntry, tuple[Location, ...]]]:
        """Return those of some checkpoints, with their files, that no symbolic link that stays leads to."""
        links = _links_in(self.run.path)
        if not links:
            return going
        files_of_entry = {entry.name: [_place(path) for path in files] for entry, files in going}
        owners = {place: name for name, places in files_of_entry.items() for place in places}
        staying = [link for link in links if link not in owners]
        left: dict[str, str] = {}
        while staying:
            link = staying.pop()
            for place in links[link]:
                name = owners.get(place)
                if name is not None and name not in left:
                    left[name] = os.path.basename(link)
                    staying += [each for each in files_of_entry[name] if each in links]
        for name, link in left.items():
            self.warnings.append(f"{name} is kept, because the symbolic link {link} points to it")
        return [(entry, files) for entry, files in going if entry.name not in left]

    def _in_order(self) -> list[StateEntry]:
        """Return the checkpoints among which the latest are kept, the latest last."""
        listed = [entry for entry in self.entries if entry.location is not None]
        for entry in listed:
            if not is_inside(entry.name):
                self.warnings.append(f"{entry.name} is kept, because it is outside the directory")
        inside = [entry for entry in listed if is_inside(entry.name)]
        if self.latest in inside:
            assert self.latest is not None
            inside = [*(entry for entry in inside if entry != self.latest), self.latest]
        known = {entry.name for entry in inside}
        unlisted = [member for member in self.run.unlisted if member.name not in known]
        steps = any(step_of(name) is not None for name in (*known, *(m.name for m in unlisted)))
        waiting = set(self.run.waiting)
        members = []
        for member in unlisted:
            if steps and step_of(member.name) is None and member not in waiting:
                self.warnings.append(f"{member.name} is kept, because its name has no step")
            elif member not in waiting:
                members.append(member)

        def counted_in(member: Member, is_newest: bool) -> StateEntry | None:
            if is_newest and self.latest in inside[-1:]:
                why = "is newer than the latest, but not in the state file"
                self.warnings.append(f"{member.name} is kept, because it {why}")
                return None
            return StateEntry(member.name, member.name, member.modified, member.location)

        return merged(inside, members, self.run.modified, counted_in)

    # Leftovers --------------------------------------------------------------------

    def _name(self, leftover: Leftover | HalfSent | FoundLock) -> str:
        return leftover.path.relative_to(self.run.path)

    def _put_back(self) -> None:
        for leftover in self.run.leftovers:
            if leftover.aside and leftover.in_the_way is None:
                self.changes.append(
                    Change("put-back", self._name(leftover), leftover.what, leftover=leftover)
                )

    def _remove_locks(self) -> set[str]:
        """Plan to remove the locks of commands that have ended; return the others, by their paths."""
        held = set[str]()
        for lock in locks_in(self.run.path):
            name = self._name(lock)
            if lock.in_the_way is None:
                self.changes.append(Change("remove", name, lock.what, leftover=lock, nbytes=lock.nbytes))
                continue
            held.add(lock.path)
            self.warnings.append(f"{name} ({lock.what}) is kept, because {lock.in_the_way}")
        return held

    def _remove_leftovers(self) -> None:
        import time

        deleted = {path for change in self.changes for path in change.files}
        held = self._remove_locks()
        for leftover in self.run.leftovers:
            if leftover.aside or leftover.path in deleted:
                continue
            name = self._name(leftover)
            if isinstance(leftover, HalfSent) and leftover.target and lock_path(leftover.target) in held:
                self.warnings.append(f"{name} is kept, because another process is writing it")
                continue
            if leftover.in_the_way is not None:
                self.warnings.append(f"{name} ({leftover.what}) is kept, because {leftover.in_the_way}")
                continue
            age = time.time() - leftover.modified
            if age < _RECENT:
                why = "a save on another machine may still need it"
                self.warnings.append(f"{name} changed {max(0, age):.0f} seconds ago; {why}")
            what = f"{age_in_words(age)} old: {leftover.what}"
            size = leftover.frees(self._freed)
            change = Change("remove", name, what, leftover=leftover, nbytes=size)
            self.changes.append(change)


def _to_delete(entry: StateEntry, spared: set[str]) -> tuple[Location, ...]:
    """Return the files of a checkpoint without those that others share."""
    assert entry.location is not None
    return tuple(path for path in files_of(entry.location) if path not in spared)


def _links_in(folder: str) -> dict[str, list[str]]:
    """Return the places that each symbolic link of a folder leads over, by its own, up to another of them."""
    with os.scandir(folder) as entries:
        links = {_place(entry.path) for entry in entries if entry.is_symlink()}
    return {link: _link_targets(link, links) for link in sorted(links)}


def _link_targets(link: str, others: set[str]) -> list[str]:
    """Return the places that a link leads over, up to where it ends, goes round, or comes to another."""
    places: dict[str, None] = {}
    place = link
    while os.path.islink(place):
        place = _place(os.path.join(os.path.dirname(place), os.readlink(place)))
        if place in places:
            break
        places[place] = None
        if place in others:
            break
    return list(places)


def _place(path: str) -> str:
    """Return a path without links in its folder, so that a file has but one."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def files_of(location: CheckpointLocation) -> list[Location]:
    """Return the files of a checkpoint, the one first without which it is none."""
    try:
        with open_location(location) as reader:
            files = reader.files()
    except CheckpointError:
        files = location.files()
    shard = V1_SHARD.fullmatch(location.path)
    graph = (location.path.of(shard["prefix"]) if shard else location.path) + ".meta"
    if graph.is_file():
        files = [*files, graph]
    return list(dict.fromkeys(files))


def carry_out(run: Run, plan: StatePlan) -> None:
    """Do what a plan says; CheckpointError if the state file is not what the plan was made for."""
    with holding(run.path):
        _carry_out(run, plan)


def _carry_out(run: Run, plan: StatePlan) -> None:
    if plan.state is not None:
        _refuse_changed(run)
    for change in plan.changes:
        if change.action == "put-back" and change.leftover is not None:
            change.leftover.clear()
    failed = Attempts()
    for change in plan.changes:
        if change.action == "remove" and change.leftover is not None:
            with failed.deferring_errors():
                change.leftover.clear()
    with failed.deferring_errors():
        _write_and_delete(run, plan)
    failed.raise_first()


def _write_and_delete(run: Run, plan: StatePlan) -> None:
    """Replace the state file and delete checkpoints, on a full disk in the other order."""
    checkpoints = [change.files for change in plan.changes if change.files]
    is_reported = plan.state is None or _replaced(run, plan.state, may_delete_first=bool(checkpoints))
    failed = Attempts()
    for files in checkpoints:
        with failed.deferring_errors():
            _delete(files)
    if plan.state is not None and not is_reported:
        with failed.deferring_errors():
            replace_file(run.state_path, plan.state.text())
    failed.raise_first()


def _replaced(run: Run, state: StateFile, *, may_delete_first: bool) -> bool:
    """Replace the state file; False if the disk is full, and deleting checkpoints can make room."""
    _refuse_changed(run)
    try:
        replace_file(run.state_path, state.text())
    except CheckpointError as error:
        cause = error.__cause__
        if may_delete_first and isinstance(cause, OSError) and cause.errno in FULL:
            return False
        raise
    return True


def _refuse_changed(run: Run) -> None:
    if _state_in(run.state_path) != run.state:
        hints = ("run the command again",)
        raise CheckpointError("another process has just changed this file", path=run.state_path, hints=hints)


def _state_in(path: Location) -> StateFile | None:
    try:
        return StateFile.read(path)
    except (CheckpointNotFoundError, CorruptCheckpointError):
        return None


def _delete(files: tuple[Location, ...]) -> None:
    """Delete the files of a checkpoint. A file that is already gone is not an error."""
    failed = Attempts()
    for number, path in enumerate(files):
        with refusing(path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        if number == 0:
            # from here on it is not a checkpoint, even after a loss of power
            with failed.deferring_errors(), refusing(path):
                sync_directory(os.path.dirname(path) or ".")
    failed.raise_first()


def _is_tensorflows(location: CheckpointLocation) -> bool:
    """Whether TensorFlow restores it; other checkpoints are on the list only if the user put them there."""
    return format_named(detect_format(location)).family is Family.TENSORFLOW
