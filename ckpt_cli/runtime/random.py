"""tf.random."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .ops.arrays import static_shape
from .ops.random import generator_for, reset_seed
from .tensor import OPERATIONS, Tensor
from .trackable import AutoTrackable
from .variable import Variable

__all__ = ["Generator", "normal", "set_seed", "shuffle", "truncated_normal", "uniform"]


def set_seed(seed: int) -> None:
    """Seed everything random from here on."""
    reset_seed(int(seed))


def _draw(kind: str, shape: Any, low: Any, high: Any, dtype: Any, seed: Any) -> Tensor:
    wanted = dtypes.as_numpy(dtype)
    return OPERATIONS["draw"](
        kind=kind, shape=static_shape(shape), dtype=wanted, seed=seed, low=low, high=high
    )


def normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    del name
    return _draw("normal", shape, mean, stddev, dtype, seed)


def truncated_normal(
    shape: Any,
    mean: float = 0.0,
    stddev: float = 1.0,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    del name
    return _draw("truncated_normal", shape, mean, stddev, dtype, seed)


def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    del name
    if maxval is None:
        if dtypes.as_dtype(dtype).is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        maxval = 1
    return _draw("uniform", shape, minval, maxval, dtype, seed)


def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    del name
    return OPERATIONS["shuffle"](value, seed=seed)


class Generator(AutoTrackable):
    """Random numbers with a state that is saved: seed and count, in `_state_var` as TensorFlow keeps its own.

    The numbers are not TensorFlow's; the state's shape and dtype are.
    """

    def __init__(self, seed: int) -> None:
        self._state_var = Variable(np.array([0, 0, seed], np.int64), name="StateVar", trainable=False)

    @classmethod
    def from_seed(cls, seed: int, alg: Any = None) -> Generator:
        del alg
        return cls(int(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        del alg
        return cls(int(generator_for(None).integers(2**62)))

    @property
    def state(self) -> Variable:
        return self._state_var

    def _next(self) -> np.random.Generator:
        count, high, seed = (int(part) for part in self._state_var._value)
        self._state_var.assign(np.array([count + 1, high, seed], np.int64))
        return np.random.default_rng([count & (2**63 - 1), high & (2**63 - 1), seed & (2**63 - 1)])

    def normal(
        self, shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = dtypes.float32
    ) -> Tensor:
        drawn = self._next().standard_normal(static_shape(shape)) * stddev + mean
        return Tensor(np.asarray(drawn, dtypes.as_numpy(dtype)))

    def uniform(self, shape: Any, minval: Any = 0, maxval: Any = 1, dtype: Any = dtypes.float32) -> Tensor:
        generator, wanted = self._next(), dtypes.as_numpy(dtype)
        if wanted.kind in "iu":
            return Tensor(np.asarray(generator.integers(minval, maxval, static_shape(shape), dtype=wanted)))
        return Tensor(np.asarray(generator.uniform(minval, maxval, static_shape(shape)), wanted))
