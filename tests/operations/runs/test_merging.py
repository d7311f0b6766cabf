"""Checkpoints that a state file does not list, put among those that it does."""

from __future__ import annotations

import random

import pytest

from ckpt_cli.operations.runs.merging import merged
from ckpt_cli.operations.runs.state import StateEntry
from formats.find.directory import Member
from formats.location import parse_location
from formats.model.checkpoint_files import bundle, step_of
from tests.counts import count
from tests.sampling import seeds


def is_newer(entry: StateEntry, member: Member, times: dict[str, float]) -> bool:
    steps = step_of(entry.name), step_of(member.name)
    if steps[0] is not None and steps[1] is not None:
        return steps[0] > steps[1]
    return entry.location is not None and times[entry.name] > member.modified


def entry_of(member: Member) -> StateEntry:
    return StateEntry(member.name, member.name, member.modified, member.location)


def one_by_one(entries: list[StateEntry], members: list[Member], times: dict[str, float]) -> list[StateEntry]:
    """Put each before the first that is newer: what is meant, and takes the square of the time."""
    found = list(entries)
    for member in members:
        newer = (at for at, entry in enumerate(found) if is_newer(entry, member, times))
        found.insert(next(newer, len(found)), entry_of(member))
    return found


@pytest.mark.parametrize("seed", seeds(300, 3000))
def test_each_is_put_before_the_first_that_is_newer(seed: int) -> None:
    chance = random.Random(seed)
    names = [
        f"{chance.choice('abc')}{at}{f'-{chance.randint(0, 8)}' if chance.random() < 0.6 else ''}"
        for at in range(chance.randint(0, 14))
    ]
    times = {name: float(chance.randint(0, 8)) for name in names}
    listed = [name for name in names if chance.random() < 0.5]
    entries = [
        StateEntry(name, name, None, bundle(parse_location(name)) if chance.random() < 0.8 else None)
        for name in listed
    ]
    unlisted = [
        Member(bundle(parse_location(name)), name, times[name]) for name in names if name not in listed
    ]
    members = sorted(unlisted, key=lambda member: member.order)
    found = merged(entries, members, lambda entry: times[entry.name], lambda member, _: entry_of(member))
    assert found == one_by_one(entries, members, times)
    count("lists that others were put into")
