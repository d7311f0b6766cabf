"""Watching a directory into which a program saves: which checkpoints have become complete.

A checkpoint of a format whose index is written last is complete once it opens and none of its shards is
missing.  Any other is complete once size and time of its files are the same at two polls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.errors import CheckpointError, CheckpointNotFoundError
from formats.find.directory import Directory
from formats.find.opening import open_location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.find.directory import Member
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.store.base import Identity

    _State = Mapping[Location, Identity]

INTERVAL, INTERVAL_OF_URLS = 2.0, 30.0
"""Seconds between two polls of a directory on disk, and of one in a bucket."""


class Poll(NamedTuple):
    """The result of a poll: checkpoints that became complete, oldest first, and obstacles."""

    directory: Directory | None
    complete: list[Member]
    warnings: list[str]


class Follower:
    """Looks at a directory again and again; each state of a checkpoint is complete once."""

    def __init__(self, path: Location, state_path: Location) -> None:
        self._path, self._state_path = path, state_path
        self._told: dict[str, _State] = {}
        """The state in which each checkpoint was found complete."""
        self._before: dict[str, _State] = {}
        """The state of the others at the last poll."""
        self._warned: set[str] = set()

    def poll(self) -> Poll:
        """List the directory once, and look into what has changed.

        A missing directory is empty.
        """
        self._path.store.forget_listings()
        try:
            directory = Directory(self._path, self._state_path)
            places = {place.path.absolute(): place for place in directory.places()}
        except CheckpointNotFoundError:
            self._told, self._before = {}, {}
            return Poll(None, [], [])
        self._told = {path: state for path, state in self._told.items() if path in places}
        warnings: list[str] = []
        now: dict[str, _State] = {}
        complete = []
        for path, place in places.items():
            state = place.fingerprint()
            if state == self._told.get(path):
                continue
            member = self._complete(directory, place, state == self._before.get(path), warnings)
            if member is None:
                now[path] = state
            else:
                self._told[path] = state
                complete.append(member)
        self._before = now
        return Poll(directory, sorted(complete, key=lambda member: member.order), warnings)

    def _complete(
        self, directory: Directory, place: CheckpointLocation, is_unchanged: bool, warnings: list[str]
    ) -> Member | None:
        """Return a checkpoint that is complete; None for another one, and for what is none."""
        member = directory.member(place)
        if member is None:
            return None
        try:
            with open_location(place) as reader:
                if not reader.format.index_last:
                    return member if is_unchanged else None
                return None if reader.missing_files() else member
        except CheckpointNotFoundError:
            return None  # deleted, or not there yet
        except CheckpointError as error:
            if is_unchanged and str(error) not in self._warned:
                self._warned.add(str(error))
                warnings.append(f"a checkpoint is incomplete or damaged: {error}")
            return None
