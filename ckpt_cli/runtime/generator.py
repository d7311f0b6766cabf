"""tf.random.Generator: random numbers with a state that is saved, TensorFlow's numbers.

    state: int64[3], the counter's low and high half and the key of Philox

Drawing `n` numbers uses the stream from the counter on, and moves the counter by 256 for each of them, for
any distribution; so a restored generator continues where it was saved.
"""

from __future__ import annotations

import enum
import math
import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from . import distributions, dtypes
from .distributions import RESERVED_SAMPLES, Stream
from .errors import InvalidArgumentError, UnimplementedError
from .ops.arrays import static_shape
from .shapes import TensorShape
from .tensor import OPERATIONS, Tensor, as_tensor, define
from .trackable import AutoTrackable
from .variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Algorithm", "Generator", "create_rng_state", "get_global_generator", "set_global_generator"]


class Algorithm(enum.Enum):
    """The algorithm from state to numbers; TensorFlow draws on a CPU only with Philox."""

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


_STATE_SIZES = {Algorithm.PHILOX: 3, Algorithm.THREEFRY: 2, Algorithm.AUTO_SELECT: 3}
_BITS = 64
_MASK = 2**_BITS - 1


def _algorithm(alg: Any) -> Algorithm:
    if isinstance(alg, Algorithm):
        return alg
    if isinstance(alg, str):
        found = next((one for one in Algorithm if one.name.lower() == alg), None)
    else:
        found = next((one for one in Algorithm if one.value == int(alg)), None)
    if found is None:
        raise ValueError(
            f"Argument `alg` got unsupported value {alg}. Supported values are philox for the Philox "
            "algorithm, threefry for the ThreeFry algorithm, and auto_select for auto-selection."
        )
    return found


def _int64(values: Any) -> np.ndarray[Any, Any]:
    """Return numbers as int64; 2**63 and larger ones keep their bits."""
    if isinstance(values, list | tuple):
        values = [
            value - 2**_BITS if isinstance(value, int) and value >= 2 ** (_BITS - 1) else value
            for value in values
        ]
    return as_tensor(values)._value.astype(np.int64)


def _check_shape(shape: Any, expected: list[int]) -> None:
    if tuple(shape) != tuple(expected):
        raise ValueError(f"Shapes {TensorShape(shape)} and {expected} are incompatible")


def create_rng_state(seed: Any, alg: Any) -> Tensor:
    """Return the state of a seed: an integer from its low bits up, or a vector, which is padded in front."""
    size = _STATE_SIZES[_algorithm(alg)]
    if isinstance(seed, int):
        seed = [seed >> _BITS * part & _MASK for part in range(size)]
    values = _int64(seed).reshape(-1)[:size]
    return Tensor(np.concatenate([np.zeros(size - len(values), np.int64), values]))


def _skip(variable: Variable, delta: int) -> np.ndarray[Any, Any]:
    """Move a state's counter on by the samples of `delta` numbers; return the state as it was."""
    state = variable._value
    counter = _stream(state).counter + (RESERVED_SAMPLES * delta & _MASK)
    variable._about_to_change()
    variable._set(_int64([counter & _MASK, counter >> _BITS & _MASK, int(state[2])]))
    return state


def _stream(state: np.ndarray[Any, Any]) -> Stream:
    low, high, key = (int(part) & _MASK for part in state)
    return Stream(key, low | high << _BITS)


def _generate(variable: Variable, draw: Callable[..., Any], shape: tuple[int, ...], **more: Any) -> Any:
    count = math.prod(shape)
    return draw(_stream(_skip(variable, count)), count, **more).reshape(shape)


# A replayed program draws again, and moves the state, so both are operations.
define("generate", _generate)
define("skip_random", _skip)


def _around_a_mean(draw: Callable[..., Any]) -> Callable[..., Tensor]:
    """Return the method that draws from a distribution with a mean and a standard deviation."""

    def method(
        self: Any, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32,
        name: str | None = None,
    ) -> Tensor:  # fmt: skip
        return self._scaled(draw, shape, stddev, mean, dtype)

    method.__name__ = method.__qualname__ = draw.__name__
    return method


class Generator(AutoTrackable):
    """A generator with its state in `_state_var`, made by one of the `from_` methods."""

    def __init__(self, copy_from: Any = None, state: Any = None, alg: Any = None) -> None:
        if copy_from is not None:
            assert alg is None
            assert state is None
            state, alg = copy_from.state._value, copy_from.algorithm
        assert state is not None
        assert alg is not None
        kind = _algorithm(alg)
        if not isinstance(state, Variable):
            state = Variable(_int64(state), name="StateVar", trainable=False)
        _check_shape(state.shape, [_STATE_SIZES[kind]])
        self._state_var = state
        self._alg = kind.value

    @classmethod
    def from_state(cls, state: Any, alg: Any) -> Generator:
        return cls(state=state, alg=alg)

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        alg = Algorithm.PHILOX if alg is None else alg
        return cls(state=create_rng_state(seed, alg), alg=alg)

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        kind = Algorithm.PHILOX if alg is None else _algorithm(alg)
        return cls(state=[secrets.randbits(_BITS) for _ in range(_STATE_SIZES[kind])], alg=kind)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any) -> Generator:
        return cls(state=_joined(key, counter, _algorithm(alg)), alg=alg)

    @property
    def state(self) -> Variable:
        return self._state_var

    @property
    def algorithm(self) -> int:
        return self._alg

    @property
    def key(self) -> Tensor:
        return self._state_var[-1]

    def reset(self, state: Any) -> None:
        """Take another state."""
        values = _int64(state)
        _check_shape(values.shape, [_STATE_SIZES[Algorithm(self._alg)]])
        self._state_var.assign(values)

    def reset_from_seed(self, seed: Any) -> None:
        """Take the state of a seed."""
        self._state_var.assign(create_rng_state(seed, self._alg))

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Take a key and a counter."""
        self._state_var.assign(_joined(key, counter, Algorithm(self._alg)))

    def skip(self, delta: int) -> Tensor:
        """Move on as drawing `delta` numbers would; return the state as it was."""
        self._assert_drawable()
        return OPERATIONS["skip_random"](variable=self._state_var, delta=int(delta))

    def _assert_drawable(self) -> None:
        if self._alg == Algorithm.THREEFRY.value:
            raise UnimplementedError("Non-XLA devices don't support the ThreeFry algorithm.")

    def _draw(self, draw: Callable[..., Any], shape: Any, dtype: Any, known: Any, **more: Any) -> Tensor:
        wanted = dtypes.as_dtype(dtype)
        if wanted not in known:
            names = ", ".join(one.name for one in known)
            raise InvalidArgumentError(
                f"Value for attr 'dtype' of {wanted.name} is not in the list of allowed values: {names}"
            )
        sizes = static_shape(shape)
        if any(size < 0 for size in sizes):
            raise InvalidArgumentError(f"Dimension {min(sizes)} must be >= 0")
        self._assert_drawable()
        return OPERATIONS["generate"](variable=self._state_var, draw=draw, shape=sizes, dtype=wanted, **more)

    def _scaled(self, draw: Callable[..., Any], shape: Any, scale: Any, offset: Any, dtype: Any) -> Tensor:
        kind = dtypes.as_numpy(dtype)
        scale, offset = as_tensor(scale, kind), as_tensor(offset, kind)
        return self._draw(draw, shape, dtype, distributions.FLOATS) * scale + offset

    normal = _around_a_mean(distributions.normal)
    truncated_normal = _around_a_mean(distributions.truncated_normal)

    def uniform(
        self,
        shape: Any,
        minval: Any = 0,
        maxval: Any = None,
        dtype: Any = dtypes.float32,
        name: str | None = None,
    ) -> Tensor:
        """Return numbers in [minval, maxval); of integers any at all, where both are None."""
        wanted = dtypes.as_dtype(dtype)
        if not wanted.is_integer:
            kind = wanted.numpy_dtype
            low, high = as_tensor(minval, kind), as_tensor(1 if maxval is None else maxval, kind)
            return self._scaled(distributions.uniform, shape, high - low, low, wanted)
        if (minval is None) != (maxval is None):
            raise ValueError(
                f"For integer dtype {wanted}, minval and maxval must be both `None` or both non-`None`; "
                f"got minval={minval} and maxval={maxval}"
            )
        if minval is None:
            return self.uniform_full_int(shape, wanted)
        start, end = int(minval), int(maxval)
        if not wanted.min <= start < end <= wanted.max:
            raise InvalidArgumentError(f"Need minval < maxval, got {start} >= {end}, in {wanted.name}")
        known = distributions.BOUNDED_INTEGERS
        return self._draw(distributions.integers, shape, wanted, known, low=start, high=end)

    def binomial(
        self, shape: Any, counts: Any, probs: Any, dtype: Any = dtypes.int32, name: str | None = None
    ) -> Tensor:
        raise NotImplementedError("random.Generator.binomial is not supported")

    def uniform_full_int(self, shape: Any, dtype: Any = dtypes.uint64, name: str | None = None) -> Tensor:
        """Return integers whose bits are all random."""
        return self._draw(distributions.full_integers, shape, dtype, distributions.INTEGERS)

    def make_seeds(self, count: int = 1) -> Tensor:
        """Return int64[2, count], seeds for stateless operations; the second of each is zero."""
        keys = self.uniform_full_int([count], dtypes.int64)
        return OPERATIONS["stack"](keys, np.zeros(count, np.int64), axis=0)

    def split(self, count: int = 1) -> list[Generator]:
        """Return generators of other keys, their counters zero."""
        keys = self.uniform_full_int([count], dtypes.int64)._value
        zeros = [0] * (_STATE_SIZES[Algorithm(self._alg)] - 1)
        return [Generator(state=[*zeros, int(key)], alg=self._alg) for key in keys]


def _joined(key: Any, counter: Any, kind: Algorithm) -> np.ndarray[Any, Any]:
    counters, keys = _int64(counter), _int64([key])
    _check_shape(counters.shape, [_STATE_SIZES[kind] - 1])
    return np.concatenate([counters, keys])


_global: list[Generator] = []


def get_global_generator() -> Generator:
    """Return the one generator of the whole program, made at its first use."""
    if not _global:
        _global.append(Generator.from_non_deterministic_state())
    return _global[0]


def set_global_generator(generator: Generator) -> None:
    """Make another generator the global one."""
    _global[:] = [generator]
