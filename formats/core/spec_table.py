"""Specs by key, in columns: compact for a million tensors that are not looked at.

    keys       text, in the order of the file
    numbers    for each key that of the spec that has all but the key: few differ in dtype and shape
    specs      those, each once

A TensorSpec is made when it is looked up. Ascending keys are found by binary search. Other keys, as in
damaged files and those with bytes that are not UTF-8, are found through a dictionary.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from itertools import islice
from typing import overload

from .spec import SpecColumns, TensorSpec

new_tuple = tuple.__new__
"""Makes a TensorSpec of its fields in a third of the time that calling it takes."""


class Ascending(Mapping[str, int]):
    """The places of keys that ascend, as a dictionary would tell them that takes as much as the keys.

    Nearly everybody goes through them in order: the one that follows is looked at before they are searched.
    """

    def __init__(self, keys: list[str]) -> None:
        self._keys = keys
        self._last = 0

    def __getitem__(self, key: str) -> int:
        at = self._place(key)
        if at is None:
            raise KeyError(key)
        return at

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._place(key) is not None

    def _place(self, key: str) -> int | None:
        keys, last = self._keys, self._last  # at once: threads may share this
        for at in (last, last + 1):
            if at < len(keys) and keys[at] == key:
                self._last = at
                return at
        at = bisect_left(keys, key)
        if at == len(keys) or keys[at] != key:
            return None
        self._last = at
        return at

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def items(self) -> ItemsView[str, int]:
        return _Places(self)


class _Places(ItemsView[str, int]):
    _mapping: Ascending

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return zip(self._mapping, range(len(self._mapping)), strict=True)


def places_of(keys: list[str]) -> Mapping[str, int]:
    """Return the position of each key; for a duplicate, its first position."""
    if all(map(operator.lt, keys, islice(keys, 1, None))):
        return Ascending(keys)
    places: dict[str, int] = {}
    for at, key in enumerate(keys):
        places.setdefault(key, at)
    return places


class SpecRows(Sequence[TensorSpec]):
    """Specs in the order of the file, each made at its first use."""

    def __init__(self, keys: list[str], numbers: Sequence[int], specs: list[TensorSpec]) -> None:
        self.columns = SpecColumns(keys, numbers, specs)

    def __len__(self) -> int:
        return len(self.columns.keys)

    @overload
    def __getitem__(self, at: int) -> TensorSpec: ...

    @overload
    def __getitem__(self, at: slice) -> SpecRows: ...

    def __getitem__(self, at: int | slice) -> TensorSpec | SpecRows:
        keys, numbers, specs, _ = self.columns
        if isinstance(at, slice):
            return SpecRows(keys[at], numbers[at], specs)
        return new_tuple(TensorSpec, (keys[at], *specs[numbers[at]][1:]))

    def __iter__(self) -> Iterator[TensorSpec]:
        keys, numbers, specs, _ = self.columns
        behind = [tuple(spec)[1:] for spec in specs]
        new, spec_type = new_tuple, TensorSpec
        for key, number in zip(keys, numbers, strict=True):
            yield new(spec_type, (key, *behind[number]))


class SpecTable(Mapping[str, TensorSpec]):
    """Specs by key; a million of them take little more than the keys."""

    def __init__(self, rows: SpecRows, places: Mapping[str, int]) -> None:
        self.rows = rows
        self._places = places

    def __getitem__(self, key: str) -> TensorSpec:
        at = self._places[key]  # the rest is as in the rows, and runs a million times
        _, numbers, specs, _ = self.rows.columns
        return new_tuple(TensorSpec, (key, *specs[numbers[at]][1:]))

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows.columns.keys)

    def __len__(self) -> int:
        return len(self.rows)

    def values(self) -> ValuesView[TensorSpec]:
        return _Values(self)

    def items(self) -> ItemsView[str, TensorSpec]:
        return _Items(self)


class _Values(ValuesView[TensorSpec]):
    _mapping: SpecTable

    def __iter__(self) -> Iterator[TensorSpec]:
        return iter(self._mapping.rows)


class _Items(ItemsView[str, TensorSpec]):
    _mapping: SpecTable

    def __iter__(self) -> Iterator[tuple[str, TensorSpec]]:
        return zip(self._mapping, self._mapping.rows, strict=True)
