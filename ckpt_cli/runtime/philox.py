"""Philox4x32-10: the counter-based generator behind TensorFlow's random numbers.

    key:     uint32[2], the low and high half of 64 bits
    counter: uint32[4], the low and high halves of two times 64 bits; together 128 bits
    block:   uint32[4], a function of key and counter; the next block has the counter one higher

There are ten rounds of two multiplications; the key is raised before every round except the first. The
constants and the function are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
TensorFlow returns the four numbers of a block in the order of the block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["blocks", "samples", "scattered_blocks"]

ROUNDS = 10
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)

_AT_ONCE = 1 << 18
"""Blocks made at a time, in some 30 MB."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def scattered_blocks(key: int, counter: int, offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return uint32[..., 4]: the blocks at uint64 offsets from a 128-bit counter, of a 64-bit key."""
    low, high, next_high = (
        np.uint64(part & (2**64 - 1)) for part in (counter, counter >> 64, (counter >> 64) + 1)
    )
    lows = low + offsets  # Wraps around.
    highs = np.where(lows < low, next_high, high)
    a, b, c, d = lows & _LOW, lows >> _HALF, highs & _LOW, highs >> _HALF
    keys = [key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF]
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b, c, d = (
            (second >> _HALF) ^ b ^ np.uint64(keys[0]),
            second & _LOW,
            (first >> _HALF) ^ d ^ np.uint64(keys[1]),
            first & _LOW,
        )
        keys = [(key + step) & 0xFFFFFFFF for key, step in zip(keys, KEY_STEPS, strict=True)]
    return np.stack([a, b, c, d], axis=-1).astype(np.uint32)


def blocks(key: int, counter: int, count: int) -> np.ndarray[Any, Any]:
    """Return uint32[count, 4]: the blocks of a 64-bit key from a 128-bit counter on."""
    out = np.empty((count, 4), np.uint32)
    for start in range(0, count, _AT_ONCE):
        end = min(count, start + _AT_ONCE)
        out[start:end] = scattered_blocks(key, counter, np.arange(start, end, dtype=np.uint64))
    return out


def samples(key: int, counter: int, start: int, count: int) -> np.ndarray[Any, Any]:
    """Return uint32[count]: what the blocks hold one after the other, from sample `start` on."""
    skipped, within = divmod(start, 4)
    needed = -(-(within + count) // 4)
    return blocks(key, counter + skipped, needed).reshape(-1)[within : within + count]
