"""Whether the elements of a weight are what a rule gives, within the rounding of the type that stores it.

floating type      the rule's value, rounded to the type
affine integers    at most half a step from it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .blocks import is_known
from .records import Closeness

if TYPE_CHECKING:
    from formats.core.spec import StoredType, TensorSpec

    from .records import Expected

    Array = np.ndarray[Any, Any]

_PIECE = 1 << 16
"""Elements that are compared at a time: they stay in the processor's cache."""

_STRIP = 32
"""Rows that are transposed at a time."""

_DECODING = 4 * 2.0**-24
"""How far a scale, and its product with an integer, may be off in float32, relative to the value."""

SAME = Closeness(is_proved=True, is_equal=True, max_error=0.0, allowed=0.0)


def closeness(spec: TensorSpec, found: Array, expected: Expected) -> Closeness:
    """Compare a weight, or some rows of it, with what a rule gives."""
    values = contiguous(expected.values)
    if values.dtype == found.dtype and _is_same(found, values):
        return SAME
    if not _is_numeric(found) or not _is_numeric(values):
        return Closeness(is_proved=False, is_equal=False, max_error=float("nan"), allowed=0.0)
    step = _steps(spec.stored_as, found.shape) if spec.stored_as is not None else None
    flat, wide = found.reshape(-1), values.reshape(-1)
    total = SAME
    if step is None and isinstance(expected.slack, float):
        narrow = _stored_dtype(spec, found)
        for at in range(0, flat.size, _PIECE):
            total = worse(total, _rounded(flat[at : at + _PIECE], wide[at : at + _PIECE], narrow))
        return total
    slack = np.broadcast_to(expected.slack, found.shape).reshape(-1)
    steps = np.broadcast_to(0.0 if step is None else step, found.shape).reshape(-1)
    for at in range(0, flat.size, _PIECE):
        piece = slice(at, at + _PIECE)
        total = worse(total, _near(flat[piece], wide[piece], slack[piece], steps[piece]))
    return total._replace(is_coarse=step is not None and not total.is_equal and _is_coarse(step, values))


def contiguous(array: Array) -> Array:
    """Return an array in C order; transposing it in strips is several times as fast as at once."""
    if array.flags.c_contiguous or array.ndim < 2 or array.nbytes < 1 << 20:
        return np.ascontiguousarray(array)
    out = np.empty(array.shape, array.dtype)
    index: list[slice] = [slice(None)] * array.ndim
    longest = max(range(array.ndim), key=lambda axis: array.strides[axis] if array.shape[axis] > 1 else -1)
    for at in range(0, array.shape[longest], _STRIP):
        index[longest] = slice(at, at + _STRIP)
        out[tuple(index)] = array[tuple(index)]
    return out


def _is_same(found: Array, values: Array) -> bool:
    """Whether two arrays of one dtype have the same bytes."""
    if found.dtype.hasobject or found.size != values.size:
        return False
    one, other = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (found, values))
    piece = _PIECE * 8
    return all(
        np.array_equal(one[at : at + piece], other[at : at + piece]) for at in range(0, one.size, piece)
    )


def is_bounded(stored: StoredType) -> bool:
    """Whether it is known how far values of a stored type may be from those that it was made of."""
    is_plain = stored.name in _MANTISSA or stored.name.startswith(("packed ", "sparse"))
    return bool(stored.scale) or is_plain or is_known(stored.name)


def _is_numeric(array: Array) -> bool:
    return not array.dtype.hasobject and array.dtype.kind not in "cb"


def _stored_dtype(spec: TensorSpec, found: Array) -> np.dtype[Any]:
    name = spec.stored_as.name if spec.stored_as is not None else ""
    return np.dtype(name) if name in _MANTISSA and name != "bfloat16" else found.dtype


def _steps(stored: StoredType, shape: tuple[int, ...]) -> Any:
    if not stored.scale:
        return None
    scale = np.abs(np.array(stored.scale, np.float64))
    if stored.minimum is not None:
        # An integer was computed from the distance to the minimum, in float32.
        scale = scale + 8 * 2.0**-24 * (abs(stored.minimum) + scale * 2 ** (8 * _width(stored.name)))
    if stored.axis is None:
        return scale[0]
    return scale.reshape([-1 if axis == stored.axis else 1 for axis in range(len(shape))])


def _width(name: str) -> int:
    return 2 if name.endswith("16") else 1


def _is_coarse(step: Any, values: Array) -> bool:
    """Whether a channel has no value that reaches a step: then its integers tell nothing about them."""
    shape = np.shape(step)
    size = np.abs(values.astype(np.float64))
    if not shape:
        return bool(step > 1.01 * size.max(initial=0.0))
    others = tuple(axis for axis, length in enumerate(shape) if length == 1)
    largest = size.max(axis=others, keepdims=True, initial=0.0)
    return bool(((step > 1.01 * largest) & (largest > 0)).any())


def _rounded(found: Array, values: Array, narrow: np.dtype[Any]) -> Closeness:
    """Compare with values that were cast to a dtype: to the last bit, NaN included, and without overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(narrow)
        if not (cast != found).any():
            if values.dtype == narrow:
                return SAME
            error = np.abs(found.astype(np.float64) - values.astype(np.float64))
            if not error.any():
                return SAME
        one, other, wide = found.astype(np.float64), cast.astype(np.float64), values.astype(np.float64)
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        kept = (other == wide) | (np.isnan(other) & np.isnan(wide))
        error = np.where((one == wide) | (np.isnan(one) & np.isnan(wide)), 0.0, np.abs(one - wide))
        lost = np.isinf(other) & ~np.isinf(wide)
    proved = bool(same.all()) and not bool(lost.any())
    limit = half_ulp(wide, narrow).max(initial=0.0) if not kept.all() else 0.0
    return Closeness(proved, proved and bool(kept.all()), _largest(error), float(limit))


def _near(found: Array, values: Array, slack: Array, steps: Array) -> Closeness:
    """Compare with values that were computed or quantized."""
    one, wide = found.astype(np.float64), values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = slack + steps / 2 + np.abs(wide) * _DECODING
        if not steps.any():
            allowed = slack + half_ulp(wide, found.dtype)
        alike = (one == wide) | (np.isnan(one) & np.isnan(wide))
        error = np.where(alike, 0.0, np.abs(one - wide))
        proved = bool(((error <= allowed) | alike).all()) and bool(np.isfinite(steps).all())
        rank = np.nan_to_num(error if proved else error - allowed, nan=np.inf)
    worst = int(np.argmax(rank)) if error.size else 0
    limit = float(allowed[worst]) if allowed.size else 0.0
    step = float(np.nan_to_num(steps, nan=np.inf).max(initial=0.0))
    return Closeness(proved, not error.any(), _largest(error), limit, step)


def half_ulp(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return half the distance between neighbours in a floating type; 0 for integers."""
    bits = _MANTISSA.get(dtype.name)
    if bits is None:
        return np.zeros_like(values)
    digits, lowest = bits
    with np.errstate(divide="ignore"):
        exponent = np.where(values == 0, lowest, np.frexp(np.where(np.isfinite(values), values, 1.0))[1] - 1)
    found: Array = np.ldexp(0.5, np.maximum(exponent, lowest) - digits)
    return found


_MANTISSA = {"float64": (52, -1022), "float32": (23, -126), "float16": (10, -14), "bfloat16": (7, -126)}
"""Bits behind the point, and the lowest exponent of normal numbers."""


def _largest(error: Array) -> float:
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))


def worse(one: Closeness, other: Closeness) -> Closeness:
    """Return what is true of two parts together."""
    is_other = (not other.is_proved, other.max_error) > (not one.is_proved, one.max_error)
    return Closeness(
        one.is_proved and other.is_proved,
        one.is_equal and other.is_equal,
        max(one.max_error, other.max_error),
        other.allowed if is_other else one.allowed,
        max(one.step, other.step),
        other.words or one.words,
        one.is_coarse or other.is_coarse,
    )
