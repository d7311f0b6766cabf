"""Whether the blocks of a quantized weight hold what a rule gives.

Without an importance matrix most types are quantized in one way, so the blocks must be those of a
requantization.  For the others there is a bound on the error of each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from formats.exports.gguf_blocks import DECODERS
from formats.exports.gguf_encoding import ENCODERS

from .records import Closeness

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


class BlockBound(NamedTuple):
    """How large errors may be: the RMS of a long row's, relative to that of the row, and an element's.

    An element's is relative to the largest of its 256.  A column's RMS is relative to that of the column,
    or to half of that of all.
    """

    row: float
    element: float
    column: float = 0.9


BOUNDS = {
    "Q4_0": BlockBound(0.25, 0.5),
    "Q4_1": BlockBound(0.2, 0.65),
    "Q5_0": BlockBound(0.15, 0.3),
    "Q5_1": BlockBound(0.1, 0.25),
    "Q2_K": BlockBound(0.6, 1.0, 1.25),
    "Q3_K": BlockBound(0.3, 0.6),
    "Q4_K": BlockBound(0.2, 0.45),
    "Q5_K": BlockBound(0.1, 0.25),
    "Q6_K": BlockBound(0.1, 0.3),
    "IQ4_NL": BlockBound(0.2, 0.4),
    "IQ4_XS": BlockBound(0.2, 0.4),
    "MXFP4": BlockBound(0.25, 0.3),
    "NVFP4": BlockBound(0.15, 0.25),
}
"""llama.cpp's quantizer stays below these for normal and heavy-tailed values, also with importance matrices.

Rows and columns that are another's have an RMS of at least 1.4.
"""

_FEW_ROWS = 16

_SHORT_ROW = 256
"""Elements: the error of rows of about this length scatters."""

_LARGEST = 0.7
"""Beyond it, a row may be another's."""

_MANY = 0.5
"""If so many blocks equal a requantization, the others differ in their values, not in the method."""

_TIE = 1e-5
"""How far two results of rounding a tie may be off, relative to the largest value of the block."""

_PIECE = 1 << 11
"""Blocks that are compared at a time: they stay in the processor's cache."""


def bound_of(name: str, row: int) -> float | None:
    """Return the bound on the error of rows of a type; None if the type has none."""
    bound = BOUNDS.get(name)
    return None if bound is None else min(_LARGEST, bound.row * (1 + _SHORT_ROW / max(row, _SHORT_ROW)))


def is_known(name: str) -> bool:
    """Whether it is known how far values of a type may be from those that it was made of."""
    return name in BOUNDS or name in ENCODERS


class _ComparedBlocks(NamedTuple):
    """How many blocks are not a requantization, and the largest errors of both."""

    different: int
    error: float
    allowed: float


class BlockComparison:
    """Compares blocks part by part."""

    def __init__(self, name: str, row: int) -> None:
        self._name = name
        self._row = row
        self._blocks = self._different = 0
        self._error = self._allowed = self._rms = self._peak = 0.0
        self._rows = 0
        self._columns: Array = np.zeros((2, row))

    def add(self, raw: Array, values: Array) -> None:
        """Compare some rows of blocks with what a rule gives."""
        wide = np.ascontiguousarray(values).astype(np.float32, copy=False)
        blocks = wide.reshape(len(raw), -1)
        with np.errstate(invalid="ignore", over="ignore"):
            if self._name in ENCODERS:
                self._compare(raw, blocks)
            else:
                self._different += len(raw)
            self._blocks += len(raw)
            if self._different > self._blocks * (1 - _MANY) and self._name in BOUNDS:
                self._add_rows(raw, wide)

    def _compare(self, raw: Array, blocks: Array) -> None:
        compare = _FAST.get(self._name, self._requantized)
        for at in range(0, len(raw), _PIECE):
            found = compare(raw[at : at + _PIECE], blocks[at : at + _PIECE])
            self._different += found.different
            if found.error > self._error or found.error != found.error:
                self._error, self._allowed = found.error, found.allowed

    def _requantized(self, raw: Array, blocks: Array) -> _ComparedBlocks:
        made = ENCODERS[self._name](blocks)
        decode = DECODERS[self._name]
        found = decode(raw)
        error = np.abs(found - blocks)
        again = np.abs(decode(made) - blocks) if (made != raw).any() else error
        slack = np.abs(blocks).max(1, keepdims=True) * np.float32(_TIE)
        far = ~(error <= again + slack) & (made != raw).any(1, keepdims=True)
        return _ComparedBlocks(int(far.any(1).sum()), _largest(error), _largest(again))

    def _add_rows(self, raw: Array, wide: Array) -> None:
        """Compare the RMS of the error of each row."""
        found = DECODERS[self._name](raw).reshape(-1, self._row)
        rows = wide.reshape(-1, self._row)
        error = found - rows
        self._error = max(self._error, _largest(np.abs(error)))
        group = _SHORT_ROW if self._row % _SHORT_ROW == 0 else self._row
        largest = np.abs(rows).reshape(-1, group).max(1) + np.float32(2.0**-24)
        self._peak = max(self._peak, _largest(np.abs(error).reshape(-1, group).max(1) / largest))
        squares = [np.square(each, dtype=np.float64) for each in (error, rows)]
        sizes = [np.sqrt(each.mean(1)) for each in squares]
        self._rms = max(self._rms, _largest(sizes[0] / (sizes[1] + 2.0**-24)))
        self._columns += np.stack([each.sum(0) for each in squares])
        self._rows += len(rows)

    def _is_of_columns(self) -> bool:
        """Whether no column is off by as much as another column would be."""
        error, size = self._columns
        if self._rows < _FEW_ROWS:
            return True
        return bool((error <= BOUNDS[self._name].column ** 2 * np.maximum(size, size.mean() / 4)).all())

    def result(self) -> Closeness:
        """Return what was found of all rows."""
        bound = bound_of(self._name, self._row)
        if not self._different:
            words = f"quantized to {self._name} again, with the same blocks"
            return Closeness(True, not self._error, self._error, self._allowed, words=words)
        if bound is None or self._different <= self._blocks * (1 - _MANY):
            different = f"{self._different:,} of {self._blocks:,} blocks"
            words = f"{different} differ from a quantization to {self._name}"
            return Closeness(False, False, self._error, self._allowed, words=words)
        words = (
            f"quantized to {self._name}; the RMS error is up to {self._rms:.2g} of a row's "
            f"RMS, and {bound:.2g} is allowed; smaller differences cannot be detected"
        )
        is_near = self._rms <= bound and self._peak <= BOUNDS[self._name].element and self._is_of_columns()
        return Closeness(is_near, False, self._error, self._error, words=words)


def _largest(error: Array) -> float:
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))


def _halved(size: Array) -> Array:
    """Return the largest element of each row; rows have 32 elements, or another power of 2."""
    while size.shape[1] > 1:
        half = size.shape[1] // 2
        size = np.maximum(size[:, :half], size[:, half:])
    return size


def _q8_0(raw: Array, blocks: Array) -> _ComparedBlocks:
    """Compare blocks of Q8_0, the usual type, in few passes; only what may differ is quantized again."""
    largest = _halved(np.abs(blocks))
    scale = largest / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
    off = blocks * inverse
    off -= raw[:, 2:].view(np.int8)
    distance = _halved(np.abs(off, out=off))
    stored = np.ascontiguousarray(raw[:, :2]).view(np.float16)
    unlike = ~((distance < 0.5) & (stored == scale.astype(np.float16)))[:, 0]
    half = scale.astype(np.float16).astype(np.float32)
    lost = np.abs(half - scale) * 127
    error, allowed = _largest(distance * scale + lost), _largest(scale / 2 + lost)
    if not unlike.any():
        return _ComparedBlocks(0, error, allowed)
    made = ENCODERS["Q8_0"](blocks[unlike])
    rest = raw[unlike]
    far = (made != rest).any(1)
    if far.any():
        error = max(error, _largest(np.abs(DECODERS["Q8_0"](rest) - blocks[unlike])))
    return _ComparedBlocks(int(far.sum()), error, allowed)


_FAST = {"Q8_0": _q8_0}
