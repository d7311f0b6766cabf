"""The checkpoints in a directory, and the latest of them.

The state file names the latest. It may hold absolute paths from before the directory was moved, so a missing
path is looked up next to the state file by its last name. Without a state file the latest is the one of the
highest step, and among equal steps the newest.
"""

from __future__ import annotations

import contextlib
import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ..core.words import command_line
from ..errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    InaccessibleError,
    NoCheckpointsError,
    UnknownFormatError,
    as_ours,
)
from ..location import Location, looked_into
from ..model.checkpoint_files import (
    DCP_SUFFIX,
    FILE_SUFFIXES,
    HUB_INDEXES,
    MAP,
    WEIGHTS_SHARD,
    CheckpointLocation,
    bundle,
    data_shards,
    index_of,
    is_event_file,
    is_leftover,
    is_part,
    step_of,
)
from ..model.foreign import foreign_directory
from ..model.orbax_files import is_orbax, is_unfinished, named_step, orbax_location, step_at
from ..model.probe import HEAD_SIZE, Probe
from ..model.weight_map import files_of_map
from ..store.base import FILE, FOLDER
from ..store.content_cache import LARGEST_KEPT, whole
from ..store.siblings import SHARD, V1_SHARD, gguf_parts, hub_shard
from ..tf.run.state_file import FILE_NAME, StateFile
from .registry import detect
from .resolve import HUB_WEIGHTS, find_listed, rebuilding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_MOST_LOOKED, _MOST_COUNTED = 1_000, 1_000
"""The directories that are searched, and the checkpoints that are counted, to describe what is below an empty
one.
"""

# Names that are common in run directories and are not checkpoints; they are not even opened.
_PASSED_OVER = tuple(
    suffix
    for suffix in (".pbtxt", ".pb", ".npy", ".py", ".txt", ".md", ".tsv", ".csv", ".yaml", ".log", DCP_SUFFIX)
    if suffix not in FILE_SUFFIXES
)
"""Suffixes of files that are not opened to see whether they are checkpoints."""


_NAMED_BY_SAVER = re.compile(r".+\.ckpt(-\d+)?(-\d{5}-of-\d{5})?", re.DOTALL)
"""Names that TensorFlow 1 gives a V1 checkpoint, or a shard of one."""


def _is_empty(path: Location) -> bool:
    entry = path.store.stat(path)
    return entry is not None and entry.kind == FILE and entry.size == 0


class Member(NamedTuple):
    """One checkpoint of a directory; `error` if its format is unknown."""

    location: CheckpointLocation
    name: str
    modified: float
    error: CheckpointError | None = None

    def called(self, path: Location) -> str:
        """Return the name, relative to the directory, of a path in it."""
        above = self.name.rpartition("/")[0]
        return f"{above}/{path.name}" if above else path.name

    @property
    def step(self) -> int | None:
        """The step that its name says."""
        return step_at(self.location) if is_orbax(self.location) else step_of(self.name)

    @property
    def order(self) -> tuple[bool, int, float, str]:
        """Oldest first: by step where names have one, then by time."""
        step = self.step
        return (step is not None, step or 0, self.modified, self.name)


def locate_listed(directory: Location, listed: str) -> CheckpointLocation | None:
    """Return the checkpoint that a state file in `directory` lists, also where it has been moved."""
    there = find_listed(directory / listed)
    return there or find_listed(directory / listed.rpartition("/")[2])


def is_listing(location: CheckpointLocation) -> bool:
    """Whether a location holds a saved listing, by its content; for most files the first bytes decide."""
    with contextlib.suppress(CheckpointError):  # opening it reports the error
        with location.head.open() as file:
            # A small index is read whole, for that is what comes next.
            is_small_index = location.head.endswith(".index") and file.size <= LARGEST_KEPT
            head = whole(file) if is_small_index else file.read(0, HEAD_SIZE)
        if head.lstrip().startswith(b"{"):
            with Probe(location) as probe:
                return not detect(probe).has_values
    return False


def _located(path: Location) -> CheckpointLocation:
    """Return the checkpoint that a file belongs to: a shard stands for all of its set."""
    shard = V1_SHARD.fullmatch(path)
    if shard:
        return CheckpointLocation(path.of(f"{shard['prefix']}-?????-of-{shard['count']}"), path)
    parts = gguf_parts(path)
    if len(parts) > 1 and parts[0].is_file():
        return CheckpointLocation(parts[0], parts[0])
    lone = hub_shard(path)
    if lone and int(lone["count"]) > 1:  # its index is missing, and opening it says so
        pattern = f"{lone['prefix']}-?????-of-{lone['count']}{lone['suffix']}"
        return CheckpointLocation(path.of(pattern), path)
    return CheckpointLocation(path, path)


def _map_of(name: str) -> str | None:
    """Return the name of a shard's map, or None if the file is not a shard."""
    keras, hub = WEIGHTS_SHARD.fullmatch(name), hub_shard(name)
    if keras is not None:
        return f"{keras['prefix']}.weights.json"
    return None if hub is None else index_of(hub)


def directories_below(path: Location) -> Iterator[Location]:
    """Yield `path` and the directories below it, sorted, without what interrupted saves left.

    Links are not followed. A directory that cannot be listed is yielded too, so that its reader gets the
    error.
    """
    waiting = [path]
    while waiting:
        parent = waiting.pop()
        yield parent
        if orbax_location(parent) is not None:
            continue
        try:
            names = [name for name, kind in parent.listing() if kind == FOLDER]
        except CheckpointError:
            continue
        below = [parent / name for name in reversed(names) if not is_leftover(name, directory=True)]
        # A step is a member of the run above it.
        waiting += [each for each in below if named_step(each.name) is None or orbax_location(each) is None]


def count_below(path: Location) -> str | None:
    """Return the number of checkpoints in the directories below, in words, or None if there are none."""
    looked, holding, found = 0, 0, 0
    for below in directories_below(path):
        if below == path:
            continue
        looked += 1
        with contextlib.suppress(CheckpointError):  # a directory that cannot be listed is not counted
            members = len(Directory(below).members)
            holding, found = holding + bool(members), found + members
        if looked == _MOST_LOOKED or found >= _MOST_COUNTED:
            break
    else:
        if not found:
            return None
        return f"{_counted(found, 'checkpoint', 's')} in {_counted(holding, 'subdirector', 'ies', 'y')}"
    return f"at least {_counted(found, 'checkpoint', 's')} in subdirectories" if found else None


def _counted(number: int, stem: str, many: str, one: str = "") -> str:
    return f"{number:,} {stem}{one if number == 1 else many}"


def no_checkpoints(path: Location, what: str = "no checkpoints") -> NoCheckpointsError:
    """Return the error for a directory without checkpoints; it counts those below."""
    below = count_below(path)
    if below is None:
        return NoCheckpointsError(f"this directory contains {what}", path=path, hints=_shards_left(path))
    way = f"to list them: {command_line('ls', '-R', path)}"
    verb = "is" if below.startswith(("1 ", "at least 1 ")) else "are"
    message = f"this directory contains {what}, but there {verb} {below}"
    error = NoCheckpointsError(message, path=path, hints=(way,))
    error.lie_below = True
    return error


def _shards_left(path: Location) -> tuple[str, ...]:
    """Return a hint where a directory holds data without the index that would make it a checkpoint."""
    shard = next((match for name, _ in path.names() if (match := SHARD.fullmatch(name))), None)
    if shard is None:
        return ()
    index = f"{shard['prefix']}.index"
    prefix = path / shard["prefix"]
    return (f"copy {index} to this directory, or save again; {shard[0]} has no index", rebuilding(prefix))


def _model_among(members: Sequence[Member]) -> CheckpointLocation | None:
    """Return the weights that transformers prefers of a folder that has them in several formats."""
    there = {member.name: member.location for member in members if member.name in HUB_WEIGHTS}
    if len(there) < 2:
        return None
    name, *others = sorted(there, key=HUB_WEIGHTS.index)
    note = (
        f"{there[name].path}: ckpt reads the model of this folder; to read another file, name it: "
        f"{', '.join(others)}"
    )
    return there[name]._replace(note=note)


class Directory:
    """The checkpoints of one directory, which is listed once.

    A saved listing is none of them: it is a checkpoint only where it is named itself.

    A web server may list none: the latest is the one that the state file names all the same.
    """

    def __init__(self, path: Location, state_path: Location | None = None) -> None:
        self.path = path
        self._notes: list[str] = []
        self._listings: list[str] = []
        self.has_lost = False
        """Whether a checkpoint was deleted before it was looked at."""
        is_state = orbax_location(path) is None  # it has a file of this name, too
        self.state = self._read_state(state_path or (path / FILE_NAME)) if is_state else None
        if self.state is None or path.store.lists_first:
            self._names  # noqa: B018  read at once, because a saver may be at work

    @cached_property
    def _names(self) -> list[tuple[str, bool]]:
        return self.path.names()

    @property
    def notes(self) -> list[str]:
        """Notes for the user, also about files of unknown format."""
        _ = self.members
        return self._notes

    @cached_property
    def members(self) -> list[Member]:
        """The checkpoints, oldest first."""
        locations = looked_into(self.places(), lambda location: location.head)
        members = (self.member(location) for location in locations)
        return sorted((member for member in members if member is not None), key=lambda member: member.order)

    def places(self) -> list[CheckpointLocation]:
        """Return what is a checkpoint by its name, or listed, or may be one: none of them is opened."""
        found = self._by_name()
        for there in self._listed:
            found.setdefault(there.path.absolute(), there)
        return list(found.values())

    @cached_property
    def _listed(self) -> list[CheckpointLocation]:
        listed = (*self.state.paths, self.state.latest) if self.state else ()
        return [there for path in listed if (there := locate_listed(self.path, path)) is not None]

    @cached_property
    def listed(self) -> set[str]:
        """Absolute paths of the members that the state file lists, which a saver deletes in turn."""
        return {there.path.absolute() for there in self._listed}

    def _read_state(self, path: Location) -> StateFile | None:
        if not path.is_file():
            return None
        try:
            return StateFile.read(path)
        except CorruptCheckpointError as error:
            self._notes.append(f"{error}; ckpt ignores this file, as TensorFlow does")
            return None

    def _by_name(self) -> dict[str, CheckpointLocation]:
        """Return, by absolute path, what is a checkpoint by its name, or may be one by its content."""
        whole = orbax_location(self.path)
        if whole is not None:  # found below a directory; the files in it are its own
            return {whole.path.absolute(): whole}
        found: dict[str, CheckpointLocation] = {}
        named = {
            path.name
            for name, _ in self._names
            if MAP.fullmatch(name)
            for path in files_of_map(self.path / name)
        }
        maps = {name for name, _ in self._names if name.endswith((".weights.json", *HUB_INDEXES))}
        for name, is_directory in self._names:
            if (name in named and not MAP.fullmatch(name)) or _map_of(name) in maps:
                continue
            path = self.path / name
            if is_leftover(name, directory=is_directory):
                continue
            if is_directory:
                self._add_step(path, found)
                continue
            if name.endswith(".index"):
                prefix = path.removesuffix(".index")
                found[prefix.absolute()] = bundle(prefix)  # goes before a V1 file of that name
            elif (
                name != FILE_NAME
                and not is_part(name)
                and not name.endswith(_PASSED_OVER)
                and not is_event_file(name)
            ):
                location = _located(path)
                found.setdefault(location.path.absolute(), location)
        return found

    def _add_step(self, path: Location, found: dict[str, CheckpointLocation]) -> None:
        """Add a folder that is a complete step of Orbax'."""
        step = orbax_location(path) if named_step(path.name) is not None else None
        if step is not None and is_unfinished(path):
            self._notes.append(
                f"{path} is not listed, because this step of Orbax is unfinished: it has no "
                "commit_success.txt"
            )
        elif step is not None:
            found.setdefault(path.absolute(), step)

    def member(self, location: CheckpointLocation) -> Member | None:
        """Return a location as a member; None if it is none after all, or has just gone."""
        error: CheckpointError | None = None
        try:
            with Probe(location) as probe:
                if not detect(probe).has_values:
                    self._listings.append(location.head)
                    return None
        except CheckpointNotFoundError:
            self.has_lost = True
            return None
        except Exception as raised:
            caught = as_ours(raised, location.head)
            if not self._is_meant(location, caught):
                return None
            error = caught
        entry = location.store.stat(location.head, follow=error is None)
        if entry is None:
            self.has_lost = True
            return None
        return Member(location, location.path.relative_to(self.path), entry.modified, error)

    def _is_meant(self, location: CheckpointLocation, error: CheckpointError) -> bool:
        """Whether a file that cannot be opened was meant to be a checkpoint.

        A stray file is not. The index of data shards is, however damaged. So is a file with the suffix of a
        format that keeps all in one file, and the rest of a file that has a Saver's name.
        """
        head = location.head
        if head.endswith(FILE_SUFFIXES) or hub_shard(head) is not None:
            return True
        if _NAMED_BY_SAVER.fullmatch(head.name) and (
            _is_empty(head) or isinstance(error, CorruptCheckpointError)
        ):
            return True
        is_inaccessible = isinstance(error, InaccessibleError)
        is_closed = is_inaccessible and head.is_file()
        if head.endswith(".index"):
            return (
                (is_inaccessible and not head.is_folder())
                or bool(data_shards(location.path))
                or bool(error.hints)
            )
        if is_closed:
            self._notes.append(f"{error}; ckpt cannot tell whether this file is a checkpoint")
        return False

    @property
    def latest(self) -> CheckpointLocation | None:
        """The latest checkpoint, with the reason in its `note`, or None, with the reason in `latest_flaw`."""
        if self.state is not None:
            location = self._named_latest
            if location is None or self._names_listing:
                return None
            if (self.path / self.state.latest).absolute() == location.path.absolute():
                return location._replace(
                    reason=f"{location.path} was chosen, because the state file names it"
                )
            why = f"it was found next to the state file, which names {self.state.latest}"
            return location._replace(note=f"{location.path}: {why}")
        sound = [member for member in self.members if member.error is None]
        if not sound:
            return None
        if (model := _model_among(sound)) is not None:
            return model
        newest = sound[-1]
        which = "checkpoint with the highest step" if newest.step is not None else "newest checkpoint"
        note = f"{self.path} has no state file, so ckpt uses the {which}: {newest.location.path}"
        return newest.location._replace(note=note)

    @cached_property
    def _named_latest(self) -> CheckpointLocation | None:
        return locate_listed(self.path, self.state.latest) if self.state else None

    @cached_property
    def _names_listing(self) -> bool:
        return self._named_latest is not None and is_listing(self._named_latest)

    @property
    def latest_flaw(self) -> str | None:
        """Why the checkpoint that the state file names is not the latest; None if there is no flaw."""
        if self.state is None or not (self._named_latest is None or self._names_listing):
            return None
        what = "a saved listing" if self._names_listing else "missing"
        return f"the state file names {self.state.latest!r}, which is {what}"

    def require_latest(self) -> CheckpointLocation:
        """Return the latest checkpoint; CheckpointNotFoundError, with the next step, where there is none."""
        location = self.latest
        if location is not None:
            return location
        sound = [member for member in self.members if member.error is None]
        flaw = self.latest_flaw
        if flaw is not None and sound:
            hints = (
                f"name one that exists, for example {sound[-1].location.path}",
                f"to repair the state file: {command_line('state', '--fix', self.path)}",
            )
            raise CheckpointNotFoundError(flaw, path=self.path, hints=hints)
        foreign = foreign_directory(self.path)
        if foreign is not None:
            raise UnknownFormatError(foreign.what, path=self.path, hints=(foreign.hint,))
        damaged = next((member.error for member in self.members if member.error is not None), None)
        if damaged is not None:
            raise damaged
        error = no_checkpoints(self.path)
        if self._listings:
            hint = f"to read a saved listing, pass its name: {self._listings[0]}"
            error.hints = (*error.hints, hint)
        raise error
