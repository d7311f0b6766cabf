"""One operation for each optimizer's step.

A step is one operation, so that training a small model is not a matter of a hundred small
ones; being rows of the table, steps are recorded and replayed like the rest.  As in `state`,
what is fed in is the gradient, and variables are attributes.

Formulas are those of Keras 2.15, and where legacy optimizers call them those of TensorFlow's
kernels (tensorflow/core/kernels/training_ops.cc), in the variable's dtype and in their order of
evaluation.  Hyperparameters come as numbers, or as the variables that legacy optimizers keep.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..parts import share, unbroken
from ..tensor import define

if TYPE_CHECKING:
    from collections.abc import Callable

__all__: list[str] = []

_ELEMENTS = 1 << 16
"""That a step takes at a time: the 256 KiB of each of its temporary arrays stay in a processor's cache."""


class _Holder:
    """Holds the only reference to an array."""

    def __init__(self) -> None:
        self._value = np.empty(0)


def _count(holder: Any) -> int:
    """Return how many references there are to a holder's array, those that asking takes among them."""
    return sys.getrefcount(holder._value)


_ALONE = _count(_Holder())


def _target(variable: Any) -> Any:
    """Return the array for a variable's new value: its own, unless the change would be visible elsewhere."""
    value = variable._value
    is_seen = not (value.flags.owndata and value.flags.writeable and value.flags.c_contiguous)
    del value
    return np.empty_like(variable._value) if is_seen or _count(variable) > _ALONE else variable._value


def _step(formula: Callable[..., tuple[Any, ...]], factors: Any, g: Any, variables: tuple[Any, ...]) -> Any:
    """Give variables the values that a formula makes of a gradient and their values; return the first one's.

    The formula goes element by element, so that large variables are changed in parts.
    """
    if g.size <= _ELEMENTS or any(one._value.shape != g.shape for one in variables):
        values = formula(factors, g, *[variable._value for variable in variables])
        for variable, value in zip(variables, values, strict=True):
            variable._set(value)
        return variables[0]._value
    targets = [_target(variable) for variable in variables]
    olds = [variable._value.reshape(-1) for variable in variables]
    flat, into = g.reshape(-1), [target.reshape(-1) for target in targets]

    def work(piece: slice) -> None:
        for target, value in zip(
            into, formula(factors, flat[piece], *(one[piece] for one in olds)), strict=True
        ):
            target[piece] = value

    def step() -> None:
        share(work, [slice(at, at + _ELEMENTS) for at in range(0, g.size, _ELEMENTS)])
        for variable, target in zip(variables, targets, strict=True):
            variable._set(target)

    unbroken(step)
    return targets[0]


def _rate(lr: Any, step: Any, decay: Any, dtype: Any) -> Any:
    """Return a learning rate, decayed as legacy optimizers do."""
    rate = dtype(lr._value) if hasattr(lr, "_value") else dtype(lr)
    if decay is not None:
        rate = rate / (dtype(1) + dtype(decay._value) * dtype(step._value))
    return rate


def _shares(beta: Any, dtype: Any) -> tuple[Any, Any]:
    """Return what is kept of a mean and what comes new; 1 is subtracted from where Keras holds it."""
    value = getattr(beta, "_value", beta)
    return dtype(value), dtype(1 - value)


@lru_cache(8)
def _adam_factors(
    dtype: Any, count: int, lr: Any, beta_1: float, beta_2: float, epsilon: float
) -> tuple[Any, ...]:
    """Return alpha, what comes new to both means, and epsilon: the same for all variables of a step."""
    b1, b2, times = dtype(beta_1), dtype(beta_2), dtype(count)
    alpha = lr * np.sqrt(dtype(1) - b2**times) / (dtype(1) - b1**times)
    return alpha, dtype(1 - beta_1), dtype(1 - beta_2), dtype(epsilon)


def _adam(factors: tuple[Any, ...], g: Any, value: Any, m: Any, v: Any, *most: Any) -> tuple[Any, ...]:
    """M += (g - m)(1 - b1); v += (g² - v)(1 - b2); var -= m·alpha / (√v + eps)."""
    alpha, new_m, new_v, epsilon = factors
    change, squared = g - m, np.square(g)
    change *= new_m
    change += m
    squared -= v
    squared *= new_v
    squared += v
    largest = tuple([np.maximum(one, squared) for one in most])
    below = np.sqrt(largest[0] if largest else squared)
    below += epsilon
    step = change * alpha
    step /= below
    return (value - step, change, squared, *largest)


def _apply_adam(
    g: Any,
    variable: Any,
    m: Any,
    v: Any,
    vhat: Any,
    step: Any,
    lr: Any,
    decay: Any,
    beta_1: Any,
    beta_2: Any,
    epsilon: float,
) -> Any:
    dtype = g.dtype.type
    b1 = beta_1._value[()] if hasattr(beta_1, "_value") else beta_1
    b2 = beta_2._value[()] if hasattr(beta_2, "_value") else beta_2
    if decay is not None:  # The legacy kernel keeps the betas in float32 and subtracts there.
        b1, b2 = dtype(b1), dtype(b2)
    factors = _adam_factors(dtype, int(step._value) + 1, _rate(lr, step, decay, dtype), b1, b2, epsilon)
    return _step(_adam, factors, g, (variable, m, v) if vhat is None else (variable, m, v, vhat))


def _train_adam(
    g: Any, variable: Any, m: Any, v: Any, powers: Any, lr: Any, betas: Any, epsilon: float
) -> Any:
    """Take a step of tf.compat.v1.train's Adam, which keeps the powers of its betas."""
    dtype = g.dtype.type
    one, two = (dtype(getattr(power, "_value", power)) for power in powers)
    b1, b2 = (dtype(getattr(beta, "_value", beta)) for beta in betas)
    alpha = _rate(lr, None, None, dtype) * np.sqrt(dtype(1) - two) / (dtype(1) - one)
    return _step(_adam, (alpha, dtype(1) - b1, dtype(1) - b2, dtype(epsilon)), g, (variable, m, v))


def _momentum(
    g: Any, variable: Any, velocity: Any, lr: Any, step: Any, decay: Any, momentum: Any, nesterov: bool
) -> Any:
    """Velocity = velocity·momentum - lr·g; var += velocity (nesterov: one step ahead)."""
    dtype = g.dtype.type
    rate = _rate(lr, step, decay, dtype)
    if velocity is None:
        out = variable._value - rate * g
    else:
        factor = dtype(momentum._value if hasattr(momentum, "_value") else momentum)
        moved = -g * rate + velocity._value * factor
        velocity._set(moved)
        out = variable._value + ((-g * rate + moved * factor) if nesterov else moved)
    variable._set(out)
    return out


def _adagrad(
    g: Any, variable: Any, accumulator: Any, lr: Any, step: Any, decay: Any, epsilon: float, inside: bool
) -> Any:
    """Accumulator += g²; var -= lr·g / √(accumulator + eps), legacy: / (√accumulator + eps)."""
    dtype = g.dtype.type
    rate = _rate(lr, step, decay, dtype)
    total = accumulator._value + g * g
    accumulator._set(total)
    below = np.sqrt(total + dtype(epsilon)) if inside else np.sqrt(total) + dtype(epsilon)
    out = variable._value - rate * g / below
    variable._set(out)
    return out


def _rmsprop(
    g: Any,
    variable: Any,
    rms: Any,
    velocity: Any,
    mg: Any,
    lr: Any,
    step: Any,
    decay: Any,
    rho: Any,
    momentum: Any,
    epsilon: float,
    inside: bool,
) -> Any:
    """Rms = rho·rms + (1 - rho)·g²; var -= lr·g / √(rms + eps), legacy without momentum: / (√rms + eps)."""
    dtype = g.dtype.type
    rate = _rate(lr, step, decay, dtype)
    keep = rho._value if hasattr(rho, "_value") else rho
    share, keep = dtype(1 - keep), dtype(keep)
    square = keep * rms._value + share * np.square(g)
    rms._set(square)
    if mg is not None:
        average = keep * mg._value + share * g
        mg._set(average)
        square = square - np.square(average)
    increment = rate * g / (np.sqrt(square + dtype(epsilon)) if inside else np.sqrt(square) + dtype(epsilon))
    if velocity is not None:
        increment = dtype(getattr(momentum, "_value", momentum)) * velocity._value + increment
        velocity._set(increment)
    out = variable._value - increment
    variable._set(out)
    return out


def _train_momentum(g: Any, variable: Any, accumulator: Any, lr: Any, momentum: Any, nesterov: bool) -> Any:
    """Accumulator = accumulator·momentum + g; var -= lr·accumulator: tf.compat.v1.train's momentum."""
    dtype = g.dtype.type
    rate, factor = dtype(getattr(lr, "_value", lr)), dtype(getattr(momentum, "_value", momentum))
    moved = accumulator._value * factor + g
    accumulator._set(moved)
    out = variable._value - rate * (g + factor * moved if nesterov else moved)
    variable._set(out)
    return out


def _adadelta(
    g: Any, variable: Any, accumulated_grad: Any, accumulated_delta_var: Any, lr: Any, step: Any, decay: Any,
    rho: Any, epsilon: float,
) -> Any:  # fmt: skip
    """Squares = rho·squares + (1 - rho)·g²; delta = √(deltas + eps)·g / √(squares + eps); var -= lr·delta."""
    dtype, squares, deltas = g.dtype.type, accumulated_grad, accumulated_delta_var
    (keep, new), eps = _shares(rho, dtype), dtype(epsilon)
    total = keep * squares._value + new * g * g
    delta = np.sqrt(deltas._value + eps) * g / np.sqrt(total + eps)
    squares._set(total)
    deltas._set(keep * deltas._value + new * delta * delta)
    out = variable._value - _rate(lr, step, decay, dtype) * delta
    variable._set(out)
    return out


def _adamax(
    g: Any,
    variable: Any,
    m: Any,
    u: Any,
    lr: Any,
    step: Any,
    decay: Any,
    beta_1: Any,
    beta_2: Any,
    epsilon: float,
) -> Any:
    """M += (g - m)(1 - b1); u = max(b2·u, |g|); var -= lr·m / ((1 - b1ᵗ)(u + eps))."""
    dtype = g.dtype.type
    (b1, new), (b2, _) = _shares(beta_1, dtype), _shares(beta_2, dtype)
    rate = _rate(lr, step, decay, dtype)
    moment = m._value + (g - m._value) * new
    largest = np.maximum(b2 * u._value, np.abs(g))
    m._set(moment)
    u._set(largest)
    power = b1 ** dtype(step._value + 1)
    out = variable._value - (rate * moment) / ((dtype(1) - power) * (largest + dtype(epsilon)))
    variable._set(out)
    return out


def _momentum_at(step: int, beta_1: Any, schedule: float, dtype: Any) -> Any:
    """Return Nadam's momentum of a step: b1·(1 - 0.96^(schedule·step) / 2)."""
    return dtype(beta_1) * (dtype(1) - dtype(0.5) * dtype(0.96) ** (dtype(schedule) * dtype(step)))


def _advance_product(product: Any, step: Any, beta_1: Any, schedule: float = 1.0) -> Any:
    """Take the next step's momentum into the product of all."""
    dtype = product._value.dtype.type
    beta_1 = getattr(beta_1, "_value", beta_1)
    out = product._value * _momentum_at(step._value + 1, beta_1, schedule, dtype)
    product._set(out)
    return out


def _nadam(
    g: Any,
    variable: Any,
    m: Any,
    v: Any,
    product: Any,
    lr: Any,
    step: Any,
    decay: Any,
    beta_1: Any,
    beta_2: Any,
    epsilon: float,
    schedule: float = 1.0,
    rows: Any = None,
) -> Any:
    """Adam, with Nesterov's momentum by a schedule; `rows` are those of the variable that move."""
    dtype = g.dtype.type
    rate = _rate(lr, step, decay, dtype)
    b1, b2 = dtype(getattr(beta_1, "_value", beta_1)), dtype(getattr(beta_2, "_value", beta_2))
    now, following = (_momentum_at(step._value + n, b1, schedule, dtype) for n in (1, 2))
    so_far = dtype(product._value)
    moment = m._value + (g - m._value) * (dtype(1) - b1)
    square = v._value + (np.square(g) - v._value) * (dtype(1) - b2)
    m._set(moment)
    v._set(square)
    ahead = following * moment / (dtype(1) - so_far * following) + (dtype(1) - now) * g / (dtype(1) - so_far)
    divisor = np.sqrt(square / (dtype(1) - b2 ** dtype(step._value + 1))) + dtype(epsilon)
    moved = (ahead * rate) / divisor
    if rows is not None:
        still = np.ones(len(moved), bool)
        still[rows] = False
        moved[still] = 0
    out = variable._value - moved
    variable._set(out)
    return out


def _nadam_rows(values: Any, indices: Any, **what: Any) -> Any:
    """Move the means of all rows, as legacy Nadam does, and of the variable those that are named."""
    gradient = np.zeros_like(what["variable"]._value)
    np.add.at(gradient, indices, values)
    return _nadam(gradient, rows=indices, **what)


def _ftrl(
    g: Any, variable: Any, accumulator: Any, linear: Any, lr: Any, step: Any, decay: Any,
    learning_rate_power: Any, l1_regularization_strength: Any, l2_regularization_strength: Any,
    l2_shrinkage_regularization_strength: float, beta: Any,
) -> Any:  # fmt: skip
    """Follow the regularized leader: the variable is computed from two sums over all gradients."""
    dtype = g.dtype.type
    given = learning_rate_power, l1_regularization_strength, l2_regularization_strength, beta
    power, one, two, beta = (dtype(getattr(value, "_value", value)) for value in given)
    rate = _rate(lr, step, decay, dtype)
    two = two + beta / (dtype(2) * rate)
    before, after = accumulator._value, accumulator._value + np.square(g)
    raised = after**-power
    total = linear._value + (
        g
        + dtype(2 * l2_shrinkage_regularization_strength) * variable._value
        - (raised - before**-power) / rate * variable._value
    )
    linear._set(total)
    accumulator._set(after)
    out = (np.clip(total, -one, one) - total) / (raised / rate + dtype(2) * two)
    variable._set(out)
    return out


def _lion(g: Any, variable: Any, m: Any, lr: Any, step: Any, decay: Any, beta_1: Any, beta_2: Any) -> Any:
    """Var -= lr·sign(b1·m + (1 - b1)·g); m = b2·m + (1 - b2)·g."""
    dtype = g.dtype.type
    b1, b2 = dtype(beta_1), dtype(beta_2)
    moment = m._value
    out = variable._value - _rate(lr, step, decay, dtype) * np.sign(moment * b1 + g * (dtype(1) - b1))
    m._set(moment * b2 + g * (dtype(1) - b2))
    variable._set(out)
    return out


class _Rows:
    """Some rows of a variable, for a step that is to change no others."""

    def __init__(self, variable: Any, rows: Any) -> None:
        self._variable, self._rows = variable, rows
        self._value = variable._value[rows]

    def _set(self, value: Any) -> None:
        out = self._variable._value.copy()
        out[self._rows] = value
        self._variable._set(out)


def _by_rows(step: Any, slots: tuple[str, ...]) -> Any:
    """Return a step that takes values and indices, and moves no row of variable and slots but those."""

    def apply(values: Any, indices: Any, **what: Any) -> Any:
        rows, places = np.unique(indices, return_inverse=True)
        summed = np.zeros((len(rows), *values.shape[1:]), values.dtype)
        np.add.at(summed, places.reshape(-1), values)
        changed = {name: _Rows(what[name], rows) for name in ("variable", *slots) if what[name] is not None}
        step(summed, **{**what, **changed})
        return what["variable"]._value

    return apply


define("apply_adam", _apply_adam, None)
define("apply_train_adam", _train_adam, None)
define("apply_momentum", _momentum, None)
define("apply_adagrad", _adagrad, None)
define("apply_rmsprop", _rmsprop, None)
define("apply_train_momentum", _train_momentum, None)
define("apply_momentum_rows", _by_rows(_momentum, ("velocity",)), None, None)
define("apply_rmsprop_rows", _by_rows(_rmsprop, ("rms", "velocity", "mg")), None, None)
define("apply_train_momentum_rows", _by_rows(_train_momentum, ("accumulator",)), None, None)
define("apply_adadelta", _adadelta, None)
define("apply_adamax", _adamax, None)
define("apply_nadam", _nadam, None)
define("apply_ftrl", _ftrl, None)
define("apply_lion", _lion, None)
define("advance_product", _advance_product)
define("apply_adadelta_rows", _by_rows(_adadelta, ("accumulated_grad", "accumulated_delta_var")), None, None)
define("apply_adamax_rows", _by_rows(_adamax, ("m", "u")), None, None)
define("apply_ftrl_rows", _by_rows(_ftrl, ("accumulator", "linear")), None, None)
define("apply_adagrad_rows", _by_rows(_adagrad, ("accumulator",)), None, None)
define("apply_nadam_rows", _nadam_rows, None, None)
