"""The tensors that may differ between two large bundles, by their indexes alone.

Of a million tensors in both, most keep their checksum. The indexes are read in step, in the order of keys,
and their columns of dtypes, shapes and checksums are compared. Only tensors that these do not show to be
equal remain to be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from formats.core.dtypes import INVALID
from formats.core.spec import key_bytes

from .pairs import KeyPair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.core.spec import SpecColumns, TensorSpec
    from formats.model.reader import FormatReader


_LEAST, _MOST = 16, 1 << 14
"""Tensors that are looked at together: few behind a key that only one side has, then ever more."""


class UnequalPairs(NamedTuple):
    """The pairs of tensors that may differ, in the order of their keys, and how many others are the same."""

    pairs: list[KeyPair]
    same: int


def unequal_pairs(left: FormatReader, right: FormatReader) -> UnequalPairs | None:
    """Return the pairs that may differ; None if a side is not listed with its checksums.

    Raises the errors of listing.
    """
    numbers: dict[TensorSpec, int] = {}
    one, other = _Side(left.columns(), numbers), _Side(right.columns(), numbers)
    pairs: list[KeyPair] = []
    same, together = 0, _MOST
    while one.has_more() and other.has_more():
        count = min(together, len(one.keys) - one.at, len(other.keys) - other.at)
        keys = one.keys[one.at : one.at + count]
        common = _common_prefix(keys, other.keys[other.at : other.at + count])
        alike = one.is_like(other, common)
        same += int(alike.sum())
        pairs += [KeyPair(keys[at], keys[at], keys[at]) for at in np.flatnonzero(~alike).tolist()]
        one.at, other.at = one.at + common, other.at + common
        together = min(2 * together, _MOST)
        if common < count:
            together = _LEAST
            if key_bytes(one.keys[one.at]) < key_bytes(other.keys[other.at]):
                pairs.append(_removed(one.take()))
            else:
                pairs.append(_added(other.take()))
    while one.has_more():
        pairs.append(_removed(one.take()))
    while other.has_more():
        pairs.append(_added(other.take()))
    return UnequalPairs(pairs, same) if one.has_checksums and other.has_checksums else None


def _removed(key: str) -> KeyPair:
    return KeyPair(key, key, None)


def _added(key: str) -> KeyPair:
    return KeyPair(key, None, key)


def _common_prefix(one: list[str], other: list[str]) -> int:
    """Return the number of equal keys at the beginning of two lists of the same length."""
    if one == other:
        return len(one)
    return next(at for at, keys in enumerate(zip(one, other, strict=True)) if keys[0] != keys[1])


class _Side:
    """One side: the current part of its columns, and the position in it.

    It ends early if its columns lack checksums (`has_checksums` is False). `numbers` has the number of each
    spec, shared by both sides: there may be as many specs as tensors.
    """

    def __init__(self, parts: Iterator[SpecColumns], numbers: dict[TensorSpec, int]) -> None:
        self._parts = parts
        self._common = numbers
        self._known: list[int] = []
        self.keys: list[str] = []
        self.at = 0
        self.has_checksums = True

    def has_more(self) -> bool:
        """Whether there is another tensor; moves on to the next part at the end of this one."""
        while self.has_checksums and self.at == len(self.keys):
            part = next(self._parts, None)
            if part is None:
                return False
            self.keys, self.at, self.has_checksums = part.keys, 0, part.checksums is not None
            self._known += map(self._number_of, part.specs[len(self._known) :])
            self._numbers = np.array([self._known[number] for number in part.numbers], np.int64)
            self._sums = np.array(part.checksums if self.has_checksums else (), np.int64)
        return self.has_checksums

    def take(self) -> str:
        """Step over a tensor, and return its key."""
        self.at += 1
        return self.keys[self.at - 1]

    def is_like(self, other: _Side, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool]]:
        """Return which of the next tensors have dtype, shape and checksum of those of the other side."""
        mine, theirs = slice(self.at, self.at + count), slice(other.at, other.at + count)
        numbers, sums = self._numbers[mine], self._sums[mine]
        alike = (numbers >= 0) & (numbers == other._numbers[theirs])
        found: np.ndarray[tuple[int], np.dtype[np.bool]] = alike & (sums >= 0) & (sums == other._sums[theirs])
        return found

    def _number_of(self, spec: TensorSpec) -> int:
        """Return the number of a spec, -1 of one that is not known."""
        return -1 if spec.dtype is INVALID else self._common.setdefault(spec, len(self._common))
