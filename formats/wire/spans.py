"""The positions of keys and values in a large block of a table, found at all restart points at once.

A block is a chain: an entry's position is known once the entry before it was read. But each restart point
begins a chain of its own, of 16 entries as LevelDB and TensorFlow write them, and numpy walks along all of
these together, one entry of each per step. The result equals reading the chain from its start.
`formats.wire.sstable.decode_columns` reads the other blocks: those in which a chain does not end at the next
restart point, malformed ones, and those with lengths of more than two bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .sstable import LARGEST_KEY_GROWTH, most_entries

Column: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MOST_STEPS = 64
"""Entries of a chain: walking along few chains is as slow as one entry at a time."""

_MOST_OF_KEYS = 8 << 20
"""Bytes of a block's keys, up to which no limit of `decode_columns` is reached."""


class Spans(NamedTuple):
    """The entries of a block, in columns: how many bytes of the key before are shared, and positions."""

    shared: Column
    key: Column
    value: Column
    end: Column

    def keys(self, block: bytes) -> list[bytes]:
        """Return the keys."""
        keys: list[bytes] = []
        key = b""
        add = keys.append
        for shared, at, end in zip(self.shared.tolist(), self.key.tolist(), self.value.tolist(), strict=True):
            key = key[:shared] + block[at:end]
            add(key)
        return keys


def find_spans(block: bytes) -> Spans | None:
    """Return the positions of a block's entries, or None if `decode_columns` must read it."""
    count = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (count + 1)
    if count == 0 or end <= 0:
        return None
    chains = np.frombuffer(block, "<u4", count, end).astype(np.int64)
    stops = np.append(chains[1:], end)
    if chains[0] or (stops <= chains).any():
        return None
    # An entry that begins before `end` has its lengths in the 6 bytes up to there, or in the 8 behind it.
    data = np.frombuffer(block, np.uint8)
    steps: list[Spans] = []
    going: list[Column] = []
    at: Column = chains
    length: Column = np.zeros(count, np.int64)
    while (live := at < stops).any():
        if len(steps) == _MOST_STEPS:
            return None
        position = at
        shared, position, short = _length(data, position)
        unshared, position, also_short = _length(data, position)
        size, position, short_too = _length(data, position)
        value = position + unshared
        sound = (shared <= length) & (value + size <= stops) & short & also_short & short_too
        if not (sound | ~live).all():
            return None
        length = shared + unshared
        going.append(live)
        steps.append(Spans(shared, position, value, value + size))
        at = np.where(live, value + size, at)
    spans = _in_order(steps, going)
    of_keys = int((spans.shared + spans.value - spans.key).sum())
    are_too_many = len(spans.key) > most_entries(len(block))
    return None if are_too_many or of_keys > min(LARGEST_KEY_GROWTH * len(block), _MOST_OF_KEYS) else spans


def _length(data: Column, at: Column) -> tuple[Column, Column, Column]:
    """Return numbers of one or two bytes, the positions behind them, and whether they are no longer."""
    number = data[at].astype(np.int64)
    more = number >= 0x80
    if not more.any():
        return number, at + 1, ~more
    high = data[at + 1].astype(np.int64)
    return np.where(more, number & 0x7F | high << 7, number), at + 1 + more, ~more | (high < 0x80)


def _in_order(steps: list[Spans], going: list[Column]) -> Spans:
    """Return the entries in the order of the block: chain by chain, and not step by step."""
    live = np.array(going).T
    return Spans(*(np.array(column).T[live] for column in zip(*steps, strict=True)))
