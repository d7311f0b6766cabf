"""tf.random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import dtypes
from .errors import InvalidArgumentError
from .generator import Algorithm, Generator, create_rng_state, get_global_generator, set_global_generator
from .ops.arrays import static_shape
from .ops.random import reset_seed
from .tensor import OPERATIONS, Tensor, as_tensor
from .unknown import absent, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Algorithm", "Generator", "create_rng_state", "get_global_generator", "normal",
    "set_global_generator", "set_seed", "shuffle", "stateless_normal", "stateless_truncated_normal",
    "stateless_uniform", "truncated_normal", "uniform",
]  # fmt: skip


def set_seed(seed: int) -> None:
    """Seed everything random from here on."""
    reset_seed(int(seed))


def _check(shape: Any) -> None:
    if min(static_shape(shape), default=0) < 0:
        raise InvalidArgumentError(f"Dimension {min(static_shape(shape))} must be >= 0 [Op:RandomUniform]")


def _scaled(kind: str, shape: Any, scale: Any, offset: Any, dtype: Any, seed: Any) -> Tensor:
    wanted = dtypes.as_numpy(dtype)
    _check(shape)
    drawn = OPERATIONS["draw"](kind=kind, shape=static_shape(shape), dtype=wanted, seed=seed)
    return drawn * as_tensor(scale, wanted) + as_tensor(offset, wanted)


def _stateless(kind: str, shape: Any, seed: Any, dtype: Any, **more: Any) -> Tensor:
    """Return values that two seeds alone determine."""
    seeds = as_tensor(seed)
    if tuple(seeds.shape) != (2,):
        raise InvalidArgumentError(f"seed must have shape [2], not {seeds.shape}")
    _check(shape)
    wanted = dtypes.as_dtype(dtype)
    return OPERATIONS["draw_stateless"](seeds, kind=kind, shape=static_shape(shape), dtype=wanted, **more)


def _stateless_around_a_mean(kind: str) -> Callable[..., Tensor]:
    def function(
        shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32,
        name: str | None = None, alg: Any = "auto_select",
    ) -> Tensor:  # fmt: skip
        refuse(f"stateless_{kind}", alg=None if alg in ("auto_select", "philox") else alg)
        wanted = dtypes.as_numpy(dtype)
        return _stateless(kind, shape, seed, dtype) * as_tensor(stddev, wanted) + as_tensor(mean, wanted)

    function.__name__ = function.__qualname__ = f"stateless_{kind}"
    return function


stateless_normal = _stateless_around_a_mean("normal")
stateless_truncated_normal = _stateless_around_a_mean("truncated_normal")


def stateless_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32,
    name: str | None = None, alg: Any = "auto_select",
) -> Tensor:  # fmt: skip
    refuse("stateless_uniform", alg=None if alg in ("auto_select", "philox") else alg)
    kind = dtypes.as_numpy(dtype)
    if not dtypes.as_dtype(dtype).is_integer:
        low = as_tensor(minval, kind)
        return _stateless("uniform", shape, seed, dtype) * (as_tensor(1 if maxval is None else maxval, kind)
                                                            - low) + low  # fmt: skip
    if minval is None or maxval is None:
        raise NotImplementedError("stateless_uniform: integers without bounds is not supported")
    start, end = (int(as_tensor(bound, kind)) for bound in (minval, maxval))
    if start >= end:
        raise InvalidArgumentError(f"Need minval < maxval, got {start} >= {end}")
    return _stateless("integers", shape, seed, dtype, low=start, high=end)


def _around_a_mean(kind: str) -> Callable[..., Tensor]:
    """Return the function that draws from a distribution with a mean and a standard deviation."""

    def function(
        shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: Any = None,
        name: str | None = None,
    ) -> Tensor:  # fmt: skip
        return _scaled(kind, shape, stddev, mean, dtype, seed)

    function.__name__ = function.__qualname__ = kind
    return function


normal, truncated_normal = _around_a_mean("normal"), _around_a_mean("truncated_normal")


def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return numbers in [minval, maxval)."""
    kind = dtypes.as_numpy(dtype)
    if not dtypes.as_dtype(dtype).is_integer:
        low = as_tensor(minval, kind)
        return _scaled(
            "uniform", shape, as_tensor(1 if maxval is None else maxval, kind) - low, low, dtype, seed
        )
    if maxval is None:
        raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
    _check(shape)
    start, end = (int(as_tensor(bound, kind)) for bound in (minval, maxval))
    if start >= end:
        raise InvalidArgumentError(f"Need minval < maxval, got {start} >= {end}")
    return OPERATIONS["draw"](
        kind="integers", shape=static_shape(shape), dtype=kind, seed=seed, low=start, high=end
    )


def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    return OPERATIONS["shuffle"](value, seed=seed)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
