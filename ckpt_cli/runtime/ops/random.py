"""Random values as TensorFlow's stateful operations draw them.

An operation has two seeds (`operation_seeds`), which start a stream of Philox's numbers, and a position in
it, which each draw advances. Eager operations of one kind, dtype and pair of seeds share a position, until
the global seed is set again. In a function that TensorFlow traces each has its own position, and one without
a seed uses the number of such operations before it as its second seed. Drawing is an operation without
inputs, or with the tensor whose shape it takes, so that a replayed program draws again.

Authority: tensorflow/python/framework/random_seed.py, tensorflow/core/util/guarded_philox_random.h,
kernels/random_op.cc and random_shuffle_op.cc.
"""

from __future__ import annotations

import contextlib
import math
import random
import secrets
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import distributions, dtypes
from ..distributions import RESERVED_SAMPLES, Stream
from ..tensor import OPERATIONS, Tensor, define
from ..variable import has_no_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

__all__ = ["Traced", "drawn_seed", "dropped", "is_traced", "operation_seeds", "reset_seed", "seeded", "site"]

_op = OPERATIONS

_DEFAULT_SEED = 87654321
_MODULUS = (1 << 31) - 1
_BLOCK = 4
"""Samples of a block of Philox."""


@dataclass
class Place:
    """Two seeds, and how many blocks of their stream have been taken."""

    seeds: tuple[int, int]
    taken: int = 0


@dataclass(eq=False)
class Era:
    """The state between two settings of the global seed."""

    seed: int | None
    operations: random.Random
    places: dict[Hashable, Place] = field(default_factory=dict)


class Traced:
    """A function that TensorFlow traces: its seed, and the places of its operations and of functions in it.

    Setting the global seed restarts all positions, but not the seeds, unless they are `kept`.
    """

    def __init__(self, *, kept: bool = False) -> None:
        self.seed = _state.era.seed
        self._kept: tuple[dict[Hashable, Place], dict[Hashable, Traced]] | None = ({}, {}) if kept else None
        self._found: weakref.WeakKeyDictionary[Era, Any] = weakref.WeakKeyDictionary()

    def places(self) -> tuple[dict[Hashable, Place], dict[Hashable, Traced]]:
        return self._kept or self._found.setdefault(_state.era, ({}, {}))

    def called(self) -> _Called:
        """Run the function: what is drawn within is drawn by its operations, in their order."""
        return _Called(self)

    @staticmethod
    def within(key: Hashable | None = None) -> Traced | None:
        """Return what a function is that is called by the one that runs: the next, or that of a key.

        None where none runs.
        """
        call = _state.call
        if call is None:
            return None
        found = call.functions.get(call.next_node() if key is None else key)
        if found is None:
            found = call.functions[call.nodes if key is None else key] = Traced(kept=True)
            found.seed = call.function.seed if key is None else found.seed
        return found


class _Called:
    """The result of `Traced.called`; a generator would take several times as long."""

    def __init__(self, function: Traced) -> None:
        self._function = function

    def __enter__(self) -> None:
        self._before, _state.call = _state.call, Call(self._function, *self._function.places())

    def __exit__(self, *exception: object) -> None:
        _state.call = self._before


def is_traced() -> bool:
    """Whether a function runs that TensorFlow traces."""
    return _state.call is not None


def site() -> Hashable | None:
    """Return what a thing is that a running function makes, the same in every call; None where none runs."""
    return None if _state.call is None else (_state.call.function, _state.call.next_node())


@dataclass(slots=True)
class Call:
    """A call of a function, and how far it has got."""

    function: Traced
    places: dict[Hashable, Place]
    functions: dict[Hashable, Traced]
    nodes: int = 0
    unseeded: int = 0

    def next_node(self) -> int:
        self.nodes += 1
        return self.nodes

    def next_unseeded(self) -> int:
        self.unseeded += 1
        return self.unseeded - 1


class _State:
    """The state of the program's random numbers."""

    def __init__(self) -> None:
        self.era = Era(None, random.Random())  # noqa: S311  TensorFlow's choice
        self.call: Call | None = None


_state = _State()


def reset_seed(seed: int | None) -> None:
    """Seed everything random from here on."""
    _state.era = Era(seed, random.Random(seed))  # noqa: S311  TensorFlow's choice


@contextlib.contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Seed all random numbers inside, and restore the state afterwards."""
    before = _state.era, _state.call
    reset_seed(seed)
    _state.call = None
    try:
        yield
    finally:
        _state.era, _state.call = before


def drawn_seed() -> int | None:
    """Return the next number that the global seed gives an operation; None where none is set."""
    return None if _state.era.seed is None else _state.era.operations.randint(0, _MODULUS)


def operation_seeds(seed: int | None) -> tuple[int, int]:
    """Return the two seeds that TensorFlow derives for an operation from its own and the global one.

    Without either they are random.  With the global one alone, each operation's is the next
    number drawn from it, and in a function the number of those before it.
    """
    call = _state.call
    base = _state.era.seed if call is None else call.function.seed
    if base is None and seed is None:
        return secrets.randbits(64), secrets.randbits(64)
    if seed is None:
        seed = _state.era.operations.randint(0, _MODULUS) if call is None else call.next_unseeded()
    first, second = (_DEFAULT_SEED if base is None else base) % _MODULUS, seed % _MODULUS
    return (first, second) if first or second else (0, _MODULUS)


def _stream(kind: str, dtype: Any, seed: int | None, blocks: int) -> Stream:
    """Return where an operation draws, and take so many blocks."""
    if has_no_effect():
        return Stream(0, 0)
    call, seeds = _state.call, operation_seeds(seed)
    if call is None:
        place = _state.era.places.setdefault((kind, dtype, seeds), Place(seeds))
    else:
        place = call.places.setdefault(call.next_node(), Place(seeds))
    first, second = place.seeds
    stream = Stream(first, (second << 64) + place.taken)
    place.taken += blocks
    return stream


_DISTRIBUTIONS: dict[str, Callable[..., Any]] = {
    "normal": distributions.normal,
    "truncated_normal": distributions.truncated_normal,
    "uniform": distributions.uniform,
    "integers": distributions.integers,
}


def _draw(kind: str, shape: tuple[int, ...], dtype: Any, seed: int | None, **more: Any) -> Any:
    """Return values of a distribution; integers in the bounds `low` and `high`."""
    count, wanted = math.prod(shape), dtypes.as_dtype(dtype)
    stream = _stream(kind, wanted, seed, count * RESERVED_SAMPLES)  # Blocks, though it needs fewer.
    return _DISTRIBUTIONS[kind](stream, count, wanted, **more).reshape(shape)


def dropped(x: Any, rate: Any, noise_shape: Any, seed: int | None) -> Tensor:
    """Return a tensor with zeros for a share of its elements; None in a shape is the tensor's own size."""
    if not x.dtype.is_floating:
        raise ValueError(f"`x.dtype` must be a floating point tensor. Received: x_dtype={x.dtype}")
    shape = noise_shape
    if shape is not None:
        own = x.shape if len(shape) == x.ndim else [None] * len(shape)
        shape = tuple(int(size if dim is None else dim) for size, dim in zip(own, shape, strict=True))
    return _op["multiply_no_nan"](x, _op["dropout_mask"](x, rate=rate, seed=seed, shape=shape))


def _dropout_mask(x: Any, rate: float, seed: int | None, shape: Any) -> Any:
    """Return what to multiply with: 0, or what keeps the mean."""
    shape = x.shape if shape is None else tuple(shape)
    if rate == 0:
        operation_seeds(seed)  # TensorFlow takes a number of the global seed's nevertheless.
        return np.ones(shape, x.dtype)
    kept = _draw("uniform", shape, x.dtype, seed) >= x.dtype.type(rate)
    return kept.astype(x.dtype) * x.dtype.type(1 / (1 - rate))


def _shuffle(x: Any, seed: int | None) -> Any:
    """Return rows in another order: each place takes one of those not yet taken."""
    size = len(x) if x.ndim else 1
    if x.size <= 1 or size <= 1:
        operation_seeds(seed)
        return x
    numbers = _stream("shuffle", x.dtype, seed, -(-size // _BLOCK)).samples(size)
    order = list(range(size))
    for place, number in enumerate(numbers[:-1].tolist()):
        other = place + number % (size - place)
        order[place], order[other] = order[other], order[place]
    return x[order]


def _draw_stateless(seeds: Any, kind: str, shape: tuple[int, ...], dtype: Any, **more: Any) -> Any:
    stream = distributions.scrambled(*seeds.tolist())
    return _DISTRIBUTIONS[kind](stream, math.prod(shape), dtype, **more).reshape(shape)


define("draw", _draw)
define("draw_stateless", _draw_stateless, None)
define("dropout_mask", _dropout_mask, None)
define("shuffle", _shuffle, None)
