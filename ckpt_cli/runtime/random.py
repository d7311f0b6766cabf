"""tf.random."""

from __future__ import annotations

from typing import Any

from . import dtypes
from .generator import Algorithm, Generator, create_rng_state, get_global_generator, set_global_generator
from .ops.arrays import static_shape
from .ops.random import reset_seed
from .tensor import OPERATIONS, Tensor

__all__ = [
    "Algorithm",
    "Generator",
    "create_rng_state",
    "get_global_generator",
    "normal",
    "set_global_generator",
    "set_seed",
    "shuffle",
    "truncated_normal",
    "uniform",
]


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
