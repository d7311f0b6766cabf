"""Putting checkpoints that a state file does not list among those that it does, in time for thousands."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from formats.model.checkpoint_files import step_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from formats.find.directory import Member

    from .state import StateEntry


class Places:
    """Where checkpoints belong in a list: before the first entry that is newer.

    Entries are compared by step if both names have one, otherwise by time; a missing file has no time. The
    list need not be in order.
    """

    def __init__(self, entries: Sequence[StateEntry], modified: Callable[[StateEntry], float]) -> None:
        steps = [step_of(entry.name) for entry in entries]
        times = [modified(entry) if entry.location is not None else -math.inf for entry in entries]
        stepless = [time if step is None else -math.inf for step, time in zip(steps, times, strict=True)]
        # The first entry that is newer is the first at which the highest so far is.
        self._steps = [*accumulate((-1 if step is None else step for step in steps), max)]
        self._times = [*accumulate(times, max)]
        self._stepless = [*accumulate(stepless, max)]

    def of(self, member: Member) -> int:
        step = step_of(member.name)
        if step is None:
            return bisect_right(self._times, member.modified)
        return min(bisect_right(self._steps, step), bisect_right(self._stepless, member.modified))


def merged(
    entries: Sequence[StateEntry],
    members: Iterable[Member],
    modified: Callable[[StateEntry], float],
    entry_of: Callable[[Member, bool], StateEntry | None],
) -> list[StateEntry]:
    """Return entries with others among them, each in the place that `Places` finds.

    `members` come oldest first, as `Member.order` sorts them: those without a step before the others, and
    none newer than one that follows. `entry_of` makes an entry of one, and is called with whether it is newer
    than all existing ones; if it returns None, the member is left out.
    """
    found = list(entries)
    by_kind: dict[bool, list[Member]] = {False: [], True: []}
    for member in members:
        by_kind[step_of(member.name) is not None].append(member)
    for some in filter(None, by_kind.values()):
        places = Places(found, modified)
        added: dict[int, list[StateEntry]] = {}
        for member in some:
            at = places.of(member)
            entry = entry_of(member, at == len(found))
            if entry is not None:
                added.setdefault(at, []).append(entry)
        found = [each for at in range(len(found) + 1) for each in (*added.get(at, ()), *found[at : at + 1])]
    return found
