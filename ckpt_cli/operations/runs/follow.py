"""Watching a directory into which a program saves: which checkpoints have become complete.

A checkpoint of a format whose index is written last is complete once it opens and none of its shards is
missing; saved again, once its index is another one.  Any other is complete once size and time of its files
are the same at two polls.
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
        self._reported: dict[str, _State] = {}
        """The state in which each checkpoint was found complete."""
        self._before: dict[str, _State] | None = None
        """The state of the others at the last poll; None before the first."""
        self._warned: set[str] = set()

    def poll(self) -> Poll:
        """List the directory once, and look into what has changed.

        A missing directory is empty.  If the first poll finds any that is not settled yet, all wait for the
        second one, so that checkpoints of several formats come in their order.
        """
        self._path.store.forget_listings()
        try:
            directory = Directory(self._path, self._state_path)
            places = {place.path.absolute(): place for place in directory.places()}
        except CheckpointNotFoundError:
            self._reported, self._before = {}, {}
            return Poll(None, [], [])
        self._reported = {path: state for path, state in self._reported.items() if path in places}
        warnings: list[str] = []
        now: dict[str, _State] = {}
        complete: list[tuple[str, _State, Member]] = []
        has_unsettled = False
        for path, place in places.items():
            state, last_state = place.fingerprint(), self._reported.get(path)
            if state == last_state:
                continue
            is_unchanged = self._before is not None and state == self._before.get(path)
            has_old_head = last_state is not None and last_state.get(place.head) == state.get(place.head)
            member = directory.member(place)
            is_settled = is_unchanged, not has_old_head
            if member is None or not self._is_complete(place, is_settled, warnings):
                now[path] = state
                has_unsettled |= member is not None
            else:
                complete.append((path, state, member))
        if self._before is None and has_unsettled:
            now |= {path: state for path, state, _ in complete}
            complete = []
        self._before = now
        self._reported |= {path: state for path, state, _ in complete}
        return Poll(directory, sorted((each[2] for each in complete), key=lambda each: each.order), warnings)

    def _is_complete(
        self, place: CheckpointLocation, is_settled: tuple[bool, bool], warnings: list[str]
    ) -> bool:
        """Whether a checkpoint opens, and none of its files is missing or still written to.

        `is_settled` has two facts: its files have not changed since the last poll, and its index differs from
        the one reported last.
        """
        is_unchanged, has_new_index = is_settled
        try:
            with open_location(place) as reader:
                if not reader.format.index_last:
                    return is_unchanged
                if not has_new_index:
                    return False
                missing = reader.missing_files()
                if not missing:
                    return True
                what = f"{missing[0]}: this shard is missing"
        except CheckpointNotFoundError:
            return False  # deleted, or not there yet
        except CheckpointError as error:
            what = str(error)
        if is_unchanged and what not in self._warned:
            self._warned.add(what)
            warnings.append(f"a checkpoint is incomplete or damaged: {what}")
        return False
