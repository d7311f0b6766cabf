"""Random bits made into numbers, as TensorFlow's kernels on a CPU make them.

Every function returns `count` numbers from the blocks of a Philox stream. Bits become a float as its
mantissa, in [1, 2), minus 1; a pair of those becomes two normal values by Box and Muller's formula. A
truncated normal value uses a range of blocks of its own, because the number of tries is unknown.

Integers and uniform values are TensorFlow's to the bit. Normal values depend on the last
bit of the machine's logarithm and sine: here both are computed in float64 and rounded.

Authority: tensorflow/core/lib/random/random_distributions.h and kernels/random_op_cpu.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import philox
from .dtypes import bfloat16, float16, float32, float64, int32, int64, uint32, uint64

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BOUNDED_INTEGERS", "FLOATS", "INTEGERS", "RESERVED_SAMPLES", "Stream", "full_integers", "integers",
    "normal", "scrambled", "truncated_normal", "uniform",
]  # fmt: skip

Array = np.ndarray[Any, Any]

TRUNCATE_AT = 2.0
"""Standard deviations beyond which a truncated normal value is drawn again."""

RESERVED_SAMPLES = 256
"""Samples set aside for each truncated normal value."""

_MASK = 2**64 - 1

_SCRAMBLING_KEY = 0x02461E293EC8F720
"""TensorFlow's, of core/kernels/stateless_random_ops.cc."""

_GROUPS = 1 << 16
"""Groups of truncated normal values made at a time, in some 50 MB."""

SMALLEST = 1e-7
"""Replaces a uniform value of zero, which has no logarithm."""


class Stream(NamedTuple):
    """Where in Philox's numbers to draw: a 64-bit key and a 128-bit counter."""

    key: int
    counter: int

    def samples(self, count: int) -> Array:
        return philox.samples(self.key, self.counter, 0, count)


def scrambled(first: int, second: int) -> Stream:
    """Return where a stateless operation of two seeds draws; they are a counter, whose block says it."""
    block = Stream(_SCRAMBLING_KEY, first & _MASK | (second & _MASK) << 64).samples(4).tolist()
    return Stream(block[0] | block[1] << 32, (block[2] | block[3] << 32) << 64)


class _Float(NamedTuple):
    """A float type: the integers of its bits and of a sample, its mantissa's bits, the bits of 1.0."""

    bits: str
    mantissa: int
    one: int


FLOATS = {
    float16: _Float("u2", 10, 15 << 10),
    bfloat16: _Float("u2", 7, 127 << 7),
    float32: _Float("u4", 23, 127 << 23),
    float64: _Float("u8", 52, 1023 << 52),
}
INTEGERS = (int32, int64, uint32, uint64)
BOUNDED_INTEGERS = (int32, int64)
"""The types that TensorFlow can draw within bounds on a CPU."""


def _unit(samples: Array, dtype: Any) -> Array:
    """Return values in [0, 1): one from each sample, or one from two for float64, the high half first."""
    made = FLOATS[dtype]
    if dtype is float64:
        pairs = samples.reshape(-1, 2).astype(np.uint64)
        samples = pairs[:, 0] << np.uint64(32) | pairs[:, 1]
    mantissas = samples.astype(made.bits) & samples.dtype.type((1 << made.mantissa) - 1)
    whole = (mantissas | samples.dtype.type(made.one)).astype(made.bits).view(dtype.numpy_dtype)
    return whole - dtype.numpy_dtype.type(1)


def uniform(stream: Stream, count: int, dtype: Any) -> Array:
    """Return values in [0, 1)."""
    per_value = 2 if dtype is float64 else 1
    return _unit(stream.samples(count * per_value), dtype)


def full_integers(stream: Stream, count: int, dtype: Any) -> Array:
    """Return integers whose bits are all random; the low half is the first of two samples."""
    words = dtype.size // 4
    return stream.samples(count * words).view(f"u{dtype.size}").view(dtype.numpy_dtype)


def integers(stream: Stream, count: int, dtype: Any, low: int, high: int) -> Array:
    """Return integers in [low, high), with the small bias of a remainder."""
    unsigned = full_integers(stream, count, dtype).view(f"u{dtype.size}")
    remainders = unsigned % unsigned.dtype.type(high - low)
    wrapped = unsigned.dtype.type(low & (2 ** (8 * dtype.size) - 1))
    return (remainders + wrapped).view(dtype.numpy_dtype)


def _normal_pairs(samples: Array, dtype: Any) -> Array:
    """Return normal values of float32, or of float64 for that; as many as `_unit` makes."""
    kind = float64 if dtype is float64 else float32
    rounded: Callable[[Array], Array] = lambda values: values.astype(kind.numpy_dtype)  # noqa: E731
    first, second = _unit(samples, kind).reshape(-1, 2).T
    radius = np.sqrt(-2 * rounded(np.log(np.maximum(first, kind.numpy_dtype.type(SMALLEST)).astype("f8"))))
    angle = rounded(2 * np.pi * second.astype("f8")).astype("f8")
    return np.stack([rounded(np.sin(angle)) * radius, rounded(np.cos(angle)) * radius], axis=-1).reshape(-1)


def normal(stream: Stream, count: int, dtype: Any) -> Array:
    """Return values of the standard normal distribution."""
    pairs = -(-count // 2)
    drawn = _normal_pairs(stream.samples(pairs * (4 if dtype is float64 else 2)), dtype)
    return drawn[:count].astype(dtype.numpy_dtype)


def truncated_normal(stream: Stream, count: int, dtype: Any) -> Array:
    """Return values of the standard normal distribution within two deviations.

    Values come in groups of a block; each group takes the first that fit from its own range.
    """
    size = 2 if dtype is float64 else 4
    groups = np.arange(-(-count // size), dtype=np.uint64)
    pieces = [groups[start : start + _GROUPS] for start in range(0, len(groups), _GROUPS)]
    drawn = [_within(stream, piece, size, dtype).reshape(-1) for piece in pieces]
    return np.concatenate([np.empty(0), *drawn])[:count].astype(dtype.numpy_dtype)


def _within(stream: Stream, groups: Array, size: int, dtype: Any) -> Array:
    """Return the first values within two deviations from each group's range."""
    stretch = size * RESERVED_SAMPLES // 4
    starts = groups[:, None] * np.uint64(stretch)
    width = 2
    while True:
        offsets = starts + np.arange(width, dtype=np.uint64)
        blocks = philox.scattered_blocks(stream.key, stream.counter, offsets)
        drawn = _normal_pairs(blocks.reshape(-1), dtype).reshape(len(groups), -1)
        fits = np.abs(drawn) < TRUNCATE_AT
        if np.all(fits.sum(axis=1) >= size):
            break
        width *= 2
    first = np.argsort(~fits, axis=1, kind="stable")[:, :size]
    return np.take_along_axis(drawn, first, axis=1)
