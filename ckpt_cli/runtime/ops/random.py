"""Random values: one global generator, seeded by `tf.random.set_seed`.

The numbers are not TensorFlow's; distributions and their parameters are.  Drawing is
an operation without inputs, or with the tensor whose shape it takes, so that a
replayed program draws anew.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tensor import OPERATIONS, define

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["generator_for", "operation_seeds", "reset_seed", "seeded", "truncated_normal"]

_op = OPERATIONS
_state: dict[str, Any] = {"generator": np.random.default_rng(), "seed": None, "operations": None}


def reset_seed(seed: int | None) -> None:
    """Seed everything random from here on."""
    operations = random.Random(seed)  # noqa: S311  TensorFlow's choice
    _state.update(generator=np.random.default_rng(seed), seed=seed, operations=operations)


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed everything random within, and go on as before after."""
    before = dict(_state)
    reset_seed(seed)
    try:
        yield
    finally:
        _state.update(before)


def generator_for(seed: int | None) -> np.random.Generator:
    """Return the generator of an operation: the global one, or one of its own where it has a seed."""
    if seed is None:
        return _state["generator"]
    base = _state["seed"]
    return np.random.default_rng(seed if base is None else [base, zlib.crc32(str(seed).encode())])


_DEFAULT_SEED = 87654321
_MODULUS = (1 << 31) - 1


def operation_seeds(seed: int | None) -> tuple[int, int]:
    """Return the two seeds that TensorFlow derives for an operation from its own and the global one.

    Without either they are random.  With the global one alone, each operation's is the next
    number drawn from it.  tensorflow/python/framework/random_seed.py
    """
    base = _state["seed"]
    if base is None and seed is None:
        return secrets.randbits(64), secrets.randbits(64)
    if seed is None:
        seed = _state["operations"].randint(0, _MODULUS)
    first, second = (_DEFAULT_SEED if base is None else base) % _MODULUS, seed % _MODULUS
    return (first, second) if first or second else (0, _MODULUS)


def truncated_normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Return normal values, those beyond two standard deviations drawn again."""
    out = generator.standard_normal(shape)
    beyond = np.abs(out) > 2
    while np.any(beyond):
        out = np.where(beyond, generator.standard_normal(shape), out)
        beyond = np.abs(out) > 2
    return out


def _draw(kind: str, shape: tuple[int, ...], dtype: Any, seed: Any, low: float, high: float) -> Any:
    generator = generator_for(seed)
    if kind == "uniform":
        if np.dtype(dtype).kind in "iu":
            return np.asarray(generator.integers(int(low), int(high), shape, dtype=dtype))
        drawn = generator.random(shape) * (high - low) + low
    elif kind == "normal":
        drawn = generator.standard_normal(shape) * high + low
    else:
        drawn = truncated_normal(generator, shape) * high + low
    return np.asarray(drawn, dtype)


define("draw", _draw)
define(
    "dropout_mask",
    lambda x, rate, seed: (
        (generator_for(seed).random(x.shape) >= rate).astype(x.dtype) / x.dtype.type(1 - rate)
    ),
    None,
)
define("shuffle", lambda x, seed: generator_for(seed).permutation(x), None)
