"""Operations that change variables: assignment, and one for each optimizer's step.

The variable is an attribute, not an input: what is fed in is the value, what is
changed is the variable's array, replaced by a new one.  An optimizer's step is one
operation, so that training a small model is not a matter of a hundred small ones;
being rows of the table, steps are recorded and replayed like the rest.

Formulas are those of Keras 2.15 and of TensorFlow's training kernels, in their order
of evaluation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import define

__all__: list[str] = []


def _read(variable: Any) -> Any:
    return variable._value


def _assign(value: Any, variable: Any) -> Any:
    variable._set(value)
    return variable._value


def _assign_add(value: Any, variable: Any) -> Any:
    variable._set(np.asarray(variable._value + value))
    return variable._value


def _assign_sub(value: Any, variable: Any) -> Any:
    variable._set(np.asarray(variable._value - value))
    return variable._value


def _scatter(value: Any, indices: Any, variable: Any, how: str) -> Any:
    out = variable._value.copy()
    if how == "update":
        out[indices] = value
    else:
        np.add.at(out, indices, value if how == "add" else -value)
    variable._set(out)
    return out


define("read", _read)
define("assign", _assign, None)
define("assign_add", _assign_add, None)
define("assign_sub", _assign_sub, None)
define("scatter", _scatter, None, None)


def _adam(
    g: Any,
    variable: Any,
    m: Any,
    v: Any,
    vhat: Any,
    step: Any,
    lr: Any,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Any:
    """M += (g - m)(1 - b1); v += (g² - v)(1 - b2); var -= m·alpha / (√v + eps)."""
    dtype = g.dtype.type
    b1, b2 = dtype(beta_1), dtype(beta_2)
    count = dtype(step._value + 1)
    alpha = lr * np.sqrt(dtype(1) - b2**count) / (dtype(1) - b1**count)
    m_old, v_old = m._value, v._value
    m_new = m_old + (g - m_old) * dtype(1 - beta_1)
    v_new = v_old + (np.square(g) - v_old) * dtype(1 - beta_2)
    m._set(m_new)
    v._set(v_new)
    if vhat is not None:
        v_new = np.maximum(vhat._value, v_new)
        vhat._set(v_new)
    out = variable._value - (m_new * alpha) / (np.sqrt(v_new) + dtype(epsilon))
    variable._set(out)
    return out


def _rate(lr: Any, step: Any, decay: Any, dtype: Any) -> Any:
    """Return a learning rate, decayed as legacy optimizers do."""
    rate = dtype(lr._value) if hasattr(lr, "_value") else dtype(lr)
    if decay is not None:
        rate = rate / (dtype(1) + dtype(decay._value) * dtype(step._value))
    return rate


def adam(
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
    b1 = beta_1._value if hasattr(beta_1, "_value") else beta_1
    b2 = beta_2._value if hasattr(beta_2, "_value") else beta_2
    rate = _rate(lr, step, decay, dtype)
    if decay is None:
        return _adam(g, variable, m, v, vhat, step, rate, b1, b2, epsilon)
    # The legacy kernel keeps the betas in float32 and subtracts there.
    return _adam(g, variable, m, v, vhat, step, rate, dtype(b1), dtype(b2), epsilon)


def _momentum(
    g: Any, variable: Any, accumulator: Any, lr: Any, step: Any, decay: Any, momentum: Any, nesterov: bool
) -> Any:
    """Accumulator = accumulator·momentum - lr·g; var += accumulator (nesterov: one step ahead)."""
    dtype = g.dtype.type
    rate = _rate(lr, step, decay, dtype)
    if accumulator is None:
        out = variable._value - rate * g
    else:
        factor = dtype(momentum._value if hasattr(momentum, "_value") else momentum)
        moved = -g * rate + accumulator._value * factor
        accumulator._set(moved)
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
    momentum: Any,
    mean: Any,
    lr: Any,
    step: Any,
    decay: Any,
    rho: Any,
    factor: Any,
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
    if mean is not None:
        average = keep * mean._value + share * g
        mean._set(average)
        square = square - np.square(average)
    increment = rate * g / (np.sqrt(square + dtype(epsilon)) if inside else np.sqrt(square) + dtype(epsilon))
    if momentum is not None:
        increment = (
            dtype(factor._value if hasattr(factor, "_value") else factor) * momentum._value + increment
        )
        momentum._set(increment)
    out = variable._value - increment
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


def _train_momentum(g: Any, variable: Any, accumulator: Any, lr: Any, momentum: Any, nesterov: bool) -> Any:
    """Accumulator = accumulator·momentum + g; var -= lr·accumulator: tf.compat.v1.train's momentum."""
    dtype = g.dtype.type
    rate, factor = dtype(getattr(lr, "_value", lr)), dtype(getattr(momentum, "_value", momentum))
    moved = accumulator._value * factor + g
    accumulator._set(moved)
    out = variable._value - rate * (g + factor * moved if nesterov else moved)
    variable._set(out)
    return out


define("apply_adam", adam, None)
define("apply_momentum", _momentum, None)
define("apply_adagrad", _adagrad, None)
define("apply_rmsprop", _rmsprop, None)
define("apply_train_momentum", _train_momentum, None)
define("apply_momentum_rows", _by_rows(_momentum, ("accumulator",)), None, None)
define("apply_rmsprop_rows", _by_rows(_rmsprop, ("rms", "momentum", "mean")), None, None)
define("apply_train_momentum_rows", _by_rows(_train_momentum, ("accumulator",)), None, None)
