"""The contents of an Orbax or Flax checkpoint besides its tensors."""

from __future__ import annotations

from itertools import accumulate, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from .names import key_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .names import Path

SCALAR = "scalar"
"""The type of a leaf that is a number of Python's."""


METRICS = "metrics"
"""The item of a step, and its file, that holds what a CheckpointManager chooses the best step by."""


class Items(NamedTuple):
    """The items of a step: folders, each a tree, or JSON."""

    trees: tuple[str, ...] = ()
    """Their names; with more than one item, of trees or JSON, the first part of each key."""

    documents: Mapping[str, Any] = {}
    """Items that are JSON."""

    files: Mapping[str, str] = {}
    """The names of the files of JSON items that have another one than most."""

    @property
    def are_in_keys(self) -> bool:
        return len(self.trees) + len(self.documents) > 1


class TreeFacts(NamedTuple):
    """Texts by key, the keys of None and of empty containers by their type, and what else is shown.

    The rest is for writing the tree again: by key the types of leaves, which parts of their paths are
    positions in lists, and how PRNG keys are made; `raw` are the keys of bytes, which are not written.
    """

    producer: str
    values: Mapping[str, Any] = {}
    empty: Mapping[str, str] = {}
    more: Mapping[str, Any] = {}
    types: Mapping[str, str] = {}
    positions: Mapping[str, frozenset[int]] = {}
    random: Mapping[str, str] = {}
    raw: frozenset[str] = frozenset()
    items: Items = Items()

    def document(self) -> dict[str, Any]:
        listed: dict[str, Any] = {"values": dict(self.values)} if self.values else {}
        listed |= {"empty": dict(self.empty)} if self.empty else {}
        return {"producer": self.producer, "version": None, **listed, **self.more}

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers that a CheckpointManager was given with the step."""
        found = self.items.documents.get(METRICS) or self.more.get(METRICS)
        told = found if isinstance(found, dict) else {}
        return {name: value for name, value in told.items() if type(value) in (int, float)}

    def beside(self) -> Iterable[str]:
        """Return the values besides the tensors, by key."""
        return self.values.keys()

    def rekeyed(self, keys: Mapping[str, str]) -> TreeFacts:
        """Return them for tensors with new keys; texts and empty containers follow the tensors."""
        new = _Rekeyed(keys, self.types.keys() - self.values.keys() - self.empty.keys())
        others = {key: found for key in (*self.values, *self.empty) if (found := new.other(key)) is not None}
        every = {**others, **keys}

        def moved(told: Mapping[str, Any]) -> dict[str, Any]:
            return {every[key]: each for key, each in told.items() if key in every}

        positions = {
            every[key]: _positions(parts_of(key), parts_of(every[key]), found)
            for key, found in self.positions.items()
            if key in every
        }
        return self._replace(
            values=moved(self.values),
            empty=moved(self.empty),
            more={},
            types=moved(self.types),
            positions=positions,
            random=moved(self.random),
            raw=frozenset(every[key] for key in self.raw if key in every),
        )

    def split(self, parts: Mapping[str, str]) -> TreeFacts:
        """Return them also for tensors that were split from another: `parts` gives the key that is known."""
        positions = {
            key: _positions(parts_of(known), parts_of(key), self.positions[known])
            for key, known in parts.items()
            if known in self.positions
        }
        types = {key: self.types[known] for key, known in parts.items() if known in self.types}
        return self._replace(positions={**positions, **self.positions}, types={**types, **self.types})


class _Rekeyed:
    """The new keys of tensors and of the folders that held them."""

    def __init__(self, keys: Mapping[str, str], tensors: Iterable[str]) -> None:
        paths = (tuple(parts_of(key)) for key in tensors)
        self._had = {path[:at] for path in paths for at in range(1, len(path))}
        self._folders: dict[Path, Path | None] = {}
        for old, new in keys.items():
            self._learn(tuple(parts_of(old)), tuple(parts_of(new)))

    def _learn(self, old: Path, new: Path) -> None:
        while old and new and old[-1] == new[-1]:
            old, new = old[:-1], new[:-1]
            self._note(old, new)
        # The folders above those that changed keep their names.
        for folder in takewhile(
            lambda folder: new[: len(folder)] == folder, accumulate((part,) for part in old)
        ):
            self._note(folder, folder)

    def _note(self, old: Path, new: Path) -> None:
        if self._folders.setdefault(old, new) != new:
            self._folders[old] = None

    def other(self, key: str) -> str | None:
        """Return the key of a text or an empty container; None if all tensors of its folder are gone."""
        path = tuple(parts_of(key))
        for at in range(len(path) - 1, 0, -1):
            found = self._folders.get(path[:at])
            if found is not None:
                return key_of((*found, *path[at:]))
            if path[:at] in self._had:
                return None
        return key


def _positions(old: list[str], new: list[str], found: frozenset[int]) -> frozenset[int]:
    """Return which parts of a new path are positions in lists: those that were, and are digits still."""
    behind = 0
    while behind < min(len(old), len(new)) and old[-1 - behind] == new[-1 - behind]:
        behind += 1
    kept = {at + len(new) - len(old) for at in found if at >= len(old) - behind}
    kept |= {at for at in found if at < len(new) - behind and at < len(old) - behind}
    return frozenset(at for at in kept if new[at].isdecimal())
