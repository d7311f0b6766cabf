"""The checkpoints that the paths of a command line name, each of them once.

A shell makes of `run/ckpt-*` the index and every data shard of each checkpoint, and puts
ckpt-10 before ckpt-9; of `hf/*` it makes the map of a sharded model and every shard of it.
So paths that name one checkpoint are that checkpoint once, and the
checkpoints of one series (`run/ckpt-1`, `run/ckpt-2`) are in the order of their steps, in
the places that the series takes among the others.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from formats.errors import CheckpointError
from formats.find.opening import open_reader
from formats.find.resolve import find
from formats.location import Location, parse_location
from formats.model.checkpoint_files import MAP, CheckpointLocation, step_of
from formats.model.weight_map import files_of_map
from formats.store.siblings import V1_SHARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_MOST_NAMED = 5
"""Checkpoints that a note names, of however many."""


class _NamedCheckpoint(Protocol):
    """The result of resolving a path: a checkpoint's location, or a message instead."""

    @property
    def path(self) -> Location: ...


def paths_and_keys(first: Location, words: Sequence[str]) -> tuple[list[Location], tuple[str, ...]]:
    """Tell the paths among words that follow a path from the keys, which stay in their order.

    A key or object path of the first checkpoint is always a key. Otherwise an existing path is
    a path, and the rest are keys and globs.
    """
    meant = {word: parse_location(word) for word in words}
    there = {word for word, path in meant.items() if path.exists() or find(path) is not None}
    if there:
        there -= _names_in(first)
    return [first, *(meant[word] for word in words if word in there)], tuple(
        w for w in words if w not in there
    )


def _names_in(path: Location) -> set[str]:
    """Return a checkpoint's keys and object paths; none if it cannot be opened: listing it says why."""
    try:
        with open_reader(path) as reader:
            return {*reader.specs, *reader.object_paths.values()}
    except CheckpointError:
        return set()


def checkpoints_below(path: Location, jobs: int = 1) -> Iterator[CheckpointLocation | CheckpointError]:
    """Yield the checkpoints of a directory and of those below it, and why one of these cannot be listed.

    As many processes as there are `jobs` share a large number of directories.
    """
    from formats.find.directory import directories_below  # not needed for one checkpoint
    from formats.store.work.forked import each_of_many

    for found in each_of_many(_checkpoints_in, [*directories_below(path)], jobs, path.store):
        yield from found


def _checkpoints_in(path: Location) -> list[CheckpointLocation] | list[CheckpointError]:
    from formats.find.directory import Directory

    try:
        return [member.location for member in Directory(path).members]
    except CheckpointError as error:
        return [error]


P = TypeVar("P", bound=_NamedCheckpoint)


def identity(place: _NamedCheckpoint) -> str:
    """Return what is the same for all paths that lead to one checkpoint, links among them."""
    if isinstance(place, CheckpointLocation) and not V1_SHARD.fullmatch(place.path):
        return place.head.real()
    directory, name = place.path.split_name()
    return directory.real() / name


def each_once(named: Sequence[P]) -> tuple[list[P], list[str]]:
    """Return what paths name, each checkpoint once and each series in order, and notes that say so."""
    shards = _shards_of_maps(named)
    first: dict[str, P] = {}
    for place in named:
        name = identity(place)
        if name not in shards:
            first.setdefault(name, place)
    found = list(first.values())
    ordered = _by_step(found)
    if len(found) == len(named) and ordered == found:
        return ordered, []
    several = len(ordered) > 1
    what = [f"{len(named):,} paths name {len(found):,} checkpoint{'s' * several}"] * (len(found) < len(named))
    how = ["sorted by step"] if several else []
    more = f" and {len(ordered) - _MOST_NAMED:,} more" if len(ordered) > _MOST_NAMED else ""
    names = ", ".join(place.path for place in ordered[:_MOST_NAMED])
    return ordered, [f"{'; '.join(what + how)}: {names}{more}"]


def _shards_of_maps(named: Sequence[_NamedCheckpoint]) -> set[str]:
    """Return what the maps of shards among places name: each such shard is a part of that checkpoint."""
    maps = (
        place.head for place in named if isinstance(place, CheckpointLocation) and MAP.fullmatch(place.head)
    )
    return {shard.real() for path in maps for shard in files_of_map(path)}


def _by_step(found: list[P]) -> list[P]:
    series: dict[tuple[str, str], list[int]] = {}
    real = cache(Location.real)
    for position, place in enumerate(found):
        if isinstance(place, CheckpointLocation) and step_of(place.name) is not None:
            directory, name = place.path.split_name()
            series.setdefault((real(directory), name.rpartition("-")[0]), []).append(position)
    ordered = list(found)
    for positions in series.values():
        members = sorted((found[position] for position in positions), key=_step)
        for position, place in zip(positions, members, strict=True):
            ordered[position] = place
    return ordered


def _step(place: _NamedCheckpoint) -> int:
    return step_of(place.path) or 0
