"""Whether a weight is what a rule gives, within the rounding of the type that stores it.

floating type      the rule's value, rounded to the type
affine integers    at most half a step from it
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from formats.core.spec import StoredType, TensorSpec

    from .records import Expected

    Array = np.ndarray[Any, Any]

_PIECE = 1 << 20
"""Elements that are compared at a time."""

_DECODING = 4 * 2.0**-24
"""How far a scale, and its product with an integer, may be off in float32, relative to the value."""


class Closeness(NamedTuple):
    """How far a weight is from what a rule gives, and how far it may be."""

    is_proved: bool
    is_equal: bool
    max_error: float
    allowed: float
    step: float = 0.0
    """The largest step of a quantization; differences below half of it do not show."""


def closeness(spec: TensorSpec, found: Array, expected: Expected) -> Closeness:
    """Compare a weight with what a rule gives."""
    if expected.values.dtype == found.dtype and expected.values.tobytes() == found.tobytes():
        return Closeness(is_proved=True, is_equal=True, max_error=0.0, allowed=0.0)
    if not _is_numeric(found) or not _is_numeric(expected.values):
        return Closeness(is_proved=False, is_equal=False, max_error=float("nan"), allowed=0.0)
    step = _steps(spec.stored_as, spec.shape) if spec.stored_as is not None else None
    exact = step is None and isinstance(expected.slack, float)
    dtype = spec.stored_as.name if spec.stored_as is not None and spec.stored_as.name in _MANTISSA else None
    narrow = found.dtype if dtype is None else np.dtype(dtype)
    flat, values = found.reshape(-1), expected.values.reshape(-1)
    slack = np.broadcast_to(expected.slack, found.shape).reshape(-1)
    steps = np.broadcast_to(0.0 if step is None else step, found.shape).reshape(-1)
    total = Closeness(is_proved=True, is_equal=True, max_error=0.0, allowed=0.0)
    for at in range(0, flat.size, _PIECE):
        piece = slice(at, at + _PIECE)
        if exact:
            one = _rounded(flat[piece], values[piece], narrow)
        else:
            one = _near(flat[piece], values[piece], slack[piece], steps[piece])
        total = _worse(total, one)
    return total


def is_bounded(stored: StoredType) -> bool:
    """Whether it is known how far values of a stored type may be from those that it was made of."""
    return bool(stored.scale) or stored.name in _MANTISSA or stored.name.startswith(("packed ", "sparse"))


def _is_numeric(array: Array) -> bool:
    return not array.dtype.hasobject and array.dtype.kind not in "cb"


def _steps(stored: StoredType, shape: tuple[int, ...]) -> Any:
    if not stored.scale:
        return None
    scale = np.abs(np.array(stored.scale, np.float64))
    if stored.axis is None:
        return scale[0]
    return scale.reshape([-1 if axis == stored.axis else 1 for axis in range(len(shape))])


def _rounded(found: Array, values: Array, narrow: np.dtype[Any]) -> Closeness:
    """Compare with values that were cast to a dtype: to the last bit, NaN included, and without overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        cast = values.astype(narrow)
        one, other, wide = found.astype(np.float64), cast.astype(np.float64), values.astype(np.float64)
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        kept = (other == wide) | (np.isnan(other) & np.isnan(wide))
        error = np.where((one == wide) | (np.isnan(one) & np.isnan(wide)), 0.0, np.abs(one - wide))
        lost = np.isinf(other) & ~np.isinf(wide)
    proved = bool(same.all()) and not bool(lost.any())
    limit = _half_ulp(wide, narrow).max(initial=0.0) if not kept.all() else 0.0
    return Closeness(proved, proved and bool(kept.all()), _largest(error), float(limit))


def _near(found: Array, values: Array, slack: Array, steps: Array) -> Closeness:
    """Compare with values that were computed or quantized."""
    one, wide = found.astype(np.float64), values.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = slack + steps / 2 + np.abs(wide) * _DECODING
        if not steps.any():
            allowed = slack + _half_ulp(wide, found.dtype)
        error = np.abs(one - wide)
        proved = bool((error <= allowed).all())
        coarse = steps.any() and bool((steps > 1.01 * np.abs(wide).max(initial=0.0)).all()) and error.any()
    rank = np.nan_to_num(error if proved else error - allowed, nan=np.inf)
    worst = int(np.argmax(rank)) if error.size else 0
    limit = float(allowed[worst]) if allowed.size else 0.0
    step = float(steps.max(initial=0.0))
    return Closeness(proved and not coarse, not error.any(), _largest(error), limit, step)


def _half_ulp(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return half the distance between neighbours in a floating type; 0 for integers."""
    bits = _MANTISSA.get(dtype.name)
    if bits is None:
        return np.zeros_like(values)
    digits, lowest = bits
    with np.errstate(divide="ignore"):
        exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))[1] - 1
    found: Array = np.ldexp(0.5, np.maximum(exponent, lowest) - digits)
    return found


_MANTISSA = {"float64": (52, -1022), "float32": (23, -126), "float16": (10, -14), "bfloat16": (7, -126)}
"""Bits behind the point, and the lowest exponent of normal numbers."""


def _largest(error: Array) -> float:
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))


def _worse(one: Closeness, other: Closeness) -> Closeness:
    is_other = (not other.is_proved, other.max_error) > (not one.is_proved, one.max_error)
    return Closeness(
        one.is_proved and other.is_proved,
        one.is_equal and other.is_equal,
        max(one.max_error, other.max_error),
        other.allowed if is_other else one.allowed,
        max(one.step, other.step),
    )
