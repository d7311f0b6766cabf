"""How llama.cpp and the gguf package quantize blocks without an importance matrix: to the last bit.

Only types with one way to do it are here.  The scales of K types come from a search that differs by version.

    Q8_0     d = largest / 127, q = round(x / d)
    Q4_0     d = extreme / -8, q = x / d + 8.5, cut off; Q5_0 the same with -16 and 16.5
    Q4_1     d = (most - least) / 15, q = (x - least) / d + 0.5, cut off; Q5_1 the same with 31
    MXFP4    e = the largest's exponent - 2, q = the nearest of its values
    TQ1_0    d = largest, q = round(x / d) + 1, in digits to base 3; TQ2_0 in 2 bits

https://github.com/ggml-org/llama.cpp, gguf-py/gguf/quants.py
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .gguf_blocks import MXFP4_VALUES, mxfp4_scale

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, np.dtype[Any]]


def _inverse(scale: Array) -> Array:
    with np.errstate(divide="ignore"):
        found: Array = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
    return found


def _rounded(values: Array) -> Array:
    """Return the nearest integers; halves go away from zero."""
    size = np.abs(values)
    floor = np.floor(size)
    found: Array = np.sign(values) * (floor + np.floor(2 * (size - floor)))
    return found


def _bytes(numbers: Array, dtype: type) -> Array:
    return numbers.astype(dtype).view(np.uint8)


def _nibbles(q: Array) -> Array:
    found: Array = (q[:, :16] & 15) | q[:, 16:] << 4
    return found


def _fifth(q: Array) -> Array:
    return np.packbits(q >> 4, axis=-1, bitorder="little")


def _q8_0(x: Array) -> Array:
    d = np.abs(x).max(1, keepdims=True) / np.float32(127)
    q = _rounded(x * _inverse(d)).astype(np.int8)
    return np.concatenate([_bytes(d, np.float16), q.view(np.uint8)], 1)


def _around_zero(x: Array, bits: int) -> Array:
    at = np.abs(x).argmax(1)[:, None]
    half = 1 << (bits - 1)
    d = np.take_along_axis(x, at, 1) / np.float32(-half)
    q = np.trunc(x * _inverse(d) + np.float32(half + 0.5)).astype(np.uint8).clip(0, 2 * half - 1)
    parts = [_bytes(d, np.float16), *([_fifth(q)] if bits == 5 else []), _nibbles(q)]
    return np.concatenate(parts, 1)


def _from_least(x: Array, bits: int) -> Array:
    least, most, top = x.min(1, keepdims=True), x.max(1, keepdims=True), (1 << bits) - 1
    d = (most - least) / np.float32(top)
    q = np.trunc((x - least) * _inverse(d) + np.float32(0.5)).astype(np.uint8).clip(0, top)
    scales = [_bytes(d, np.float16), _bytes(least, np.float16)]
    return np.concatenate([*scales, *([_fifth(q)] if bits == 5 else []), _nibbles(q)], 1)


def _mxfp4(x: Array) -> Array:
    largest = np.abs(x).max(1, keepdims=True)
    with np.errstate(divide="ignore"):
        exponent = np.where(largest > 0, np.floor(np.log2(largest)) - 2 + 127, 0).astype(np.uint8)
    scaled = mxfp4_scale(exponent)[:, :, None] * MXFP4_VALUES
    q = np.abs(scaled - x[:, :, None]).argmin(2).astype(np.uint8)
    return np.concatenate([exponent, _nibbles(q)], 1)


def _digits(q: Array, run: int, count: int) -> Array:
    powers = 3 ** np.arange(4, 4 - count, -1, dtype=np.uint16)
    sums = (q.reshape(len(q), count, run) * powers[:, None]).sum(1)
    found: Array = ((sums * 256 + 242) // 243).astype(np.uint8)
    return found


def _ternary(x: Array, *, is_packed: bool) -> Array:
    d = np.abs(x).max(1, keepdims=True)
    q = (_rounded(x * _inverse(d)) + 1).astype(np.uint8)
    if is_packed:
        parts = [_digits(q[:, :160], 32, 5), _digits(q[:, 160:240], 16, 5), _digits(q[:, 240:], 4, 4)]
    else:
        pairs = q.reshape(len(q), 2, 4, 32) << np.array([0, 2, 4, 6], np.uint8)[:, None]
        parts = [np.bitwise_or.reduce(pairs, 2).reshape(len(q), -1)]
    return np.concatenate([*parts, _bytes(d, np.float16)], 1)


ENCODERS: dict[str, Callable[[Array], Array]] = {
    "Q8_0": _q8_0,
    "Q4_0": partial(_around_zero, bits=4),
    "Q5_0": partial(_around_zero, bits=5),
    "Q4_1": partial(_from_least, bits=4),
    "Q5_1": partial(_from_least, bits=5),
    "MXFP4": _mxfp4,
    "TQ1_0": partial(_ternary, is_packed=True),
    "TQ2_0": partial(_ternary, is_packed=False),
}
"""From rows of float32, a block each, to the bytes of the blocks."""
