"""Initializers: the distributions TensorFlow draws first values from, by its names and arguments."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import distributions, graphs
from ..creation import constant as constant_of
from ..distributions import scrambled
from ..dtypes import DType, as_dtype
from ..names import to_snake_case
from ..ops.random import drawn_seed
from ..parts import one_thread
from ..tensor import Tensor, TensorLike

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Identity", "Initializer",
    "LecunNormal", "LecunUniform", "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal",
    "VarianceScaling", "Zeros", "get",
]  # fmt: skip

# The standard deviation of a standard normal cut at two deviations.
_TRUNCATED_STDDEV = 0.87962566103423978


_seeds: list[random.Random] = []
"""The source of seeds for initializers without one, after `set_random_seed`."""


def reset_seeds(seed: int) -> None:
    """Have initializers take their seeds from another one, as `tf.keras.utils.set_random_seed` does."""
    _seeds[:] = [random.Random(seed)]  # noqa: S311  Keras' choice


def _drawn_seed() -> int:
    """Return a seed: in a graph from the graph's own, otherwise as Keras draws it, without TensorFlow."""
    seed = drawn_seed() if graphs.current() is not None else None
    return (_seeds[0] if _seeds else random).randint(1, int(1e9)) if seed is None else seed


class Initializer:
    """Base: called with a shape and a dtype, returns a tensor of first values.

    One that draws them has a seed of its own from the first call on: it gives the same ones again.
    keras/backend.py, RandomGenerator
    """

    _drawn: int | None = None

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        raise NotImplementedError

    def __call__(self, shape: Any, dtype: Any = None, **options: Any) -> Tensor:
        wanted = as_dtype(dtype or "float32")
        _check(wanted, floating=not isinstance(self, Zeros | Ones | Constant | RandomUniform))
        values = self._values(tuple(int(dim) for dim in shape), wanted)
        return Tensor(np.asarray(values, wanted.numpy_dtype))

    def _draw(
        self,
        distribution: Any,
        shape: tuple[int, ...],
        dtype: DType,
        scale: float,
        offset: float = 0.0,
        **bounds: int,
    ) -> Any:
        """Return `scale` times a distribution's values plus `offset`, as stateless operations draw them."""
        if self._drawn is None:
            self._drawn = _drawn_seed() if self.seed is None else self.seed
        kind = dtype.numpy_dtype.type
        drawn = distribution(scrambled(self._drawn, 0), math.prod(shape), dtype, **bounds)
        return drawn.reshape(shape) * kind(scale) + kind(offset)

    def get_config(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_drawn"}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        return cls(**config)


def _check(dtype: DType, *, floating: bool) -> None:
    if floating and not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype}.")
    if dtype.numpy_dtype.hasobject:
        raise ValueError(f"Expected numeric or boolean dtype, got {dtype}.")


class Zeros(Initializer):
    def __init__(self) -> None:
        pass

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return np.zeros(shape)


class Ones(Initializer):
    def __init__(self) -> None:
        pass

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return np.ones(shape)


class Constant(Initializer):
    def __init__(self, value: Any = 0.0) -> None:
        self.value = value

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return constant_of(self.value, shape=shape)._value


class RandomNormal(Initializer):
    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.mean, self.stddev = mean, stddev

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return self._draw(distributions.normal, shape, dtype, self.stddev, self.mean)


class TruncatedNormal(RandomNormal):
    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return self._draw(distributions.truncated_normal, shape, dtype, self.stddev, self.mean)


class RandomUniform(Initializer):
    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.minval, self.maxval = minval, maxval

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        kind = dtype.numpy_dtype.type
        if dtype.is_integer:
            low, high = int(self.minval), int(self.maxval)
            return self._draw(distributions.integers, shape, dtype, 1, 0, low=low, high=high)
        width = kind(self.maxval) - kind(self.minval)
        return self._draw(distributions.uniform, shape, dtype, width, self.minval)


_MODES = ("fan_in", "fan_out", "fan_avg")
_DISTRIBUTIONS = ("uniform", "truncated_normal", "untruncated_normal", "normal")


class VarianceScaling(Initializer):
    """Values whose variance is `scale` over the number of inputs, outputs, or their mean."""

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
    ) -> None:
        super().__init__(seed)
        if scale <= 0.0:
            raise ValueError(f"`scale` must be positive float. Received: scale={scale}.")
        self.scale, self.mode, self.distribution = scale, mode.lower(), distribution.lower()
        for name, known in (("mode", _MODES), ("distribution", _DISTRIBUTIONS)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"Invalid `{name}` argument: {getattr(self, name)}. Please use one of the {known}."
                )

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        fan_in, fan_out = _fans(shape)
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, count)
        if self.distribution in ("truncated_normal", "normal"):
            stddev = math.sqrt(variance) / _TRUNCATED_STDDEV
            return self._draw(distributions.truncated_normal, shape, dtype, stddev)
        if self.distribution == "untruncated_normal":
            return self._draw(distributions.normal, shape, dtype, math.sqrt(variance))
        limit = math.sqrt(3.0 * variance)
        width = dtype.numpy_dtype.type(limit) - dtype.numpy_dtype.type(-limit)
        return self._draw(distributions.uniform, shape, dtype, width, -limit)

    def get_config(self) -> dict[str, Any]:
        """Return the options; of a class that has a scale and a distribution of its own the seed alone."""
        return super().get_config() if type(self) is VarianceScaling else {"seed": self.seed}


def _fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """Return the inputs and outputs of one unit: of a kernel, those under its whole window."""
    if len(shape) < 2:
        size = float(shape[0]) if shape else 1.0
        return size, size
    field = float(np.prod(shape[:-2]))
    return shape[-2] * field, shape[-1] * field


def _scaled(scale: float, mode: str, distribution: str) -> Callable[[Any, int | None], None]:
    def init(self: Any, seed: int | None = None) -> None:
        VarianceScaling.__init__(self, scale, mode, distribution, seed)

    return init


class GlorotUniform(VarianceScaling):
    __init__ = _scaled(1.0, "fan_avg", "uniform")


class GlorotNormal(VarianceScaling):
    __init__ = _scaled(1.0, "fan_avg", "truncated_normal")


class LecunUniform(VarianceScaling):
    __init__ = _scaled(1.0, "fan_in", "uniform")


class LecunNormal(VarianceScaling):
    __init__ = _scaled(1.0, "fan_in", "truncated_normal")


class HeUniform(VarianceScaling):
    __init__ = _scaled(2.0, "fan_in", "uniform")


class HeNormal(VarianceScaling):
    __init__ = _scaled(2.0, "fan_in", "truncated_normal")


class Orthogonal(Initializer):
    """An orthogonal matrix, of a random one's QR decomposition."""

    def __init__(self, gain: float = 1.0, seed: int | None = None) -> None:
        self.gain = gain
        super().__init__(seed)

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        if len(shape) < 2:
            raise ValueError(
                f"The tensor to initialize must be at least two-dimensional. Received: shape={shape} of "
                f"rank {len(shape)}."
            )
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        drawn = self._draw(distributions.normal, (max(rows, columns), min(rows, columns)), dtype, 1.0)
        with one_thread:
            q, r = np.linalg.qr(drawn)
        q = q * np.sign(np.diag(r))  # One matrix for each draw, not one up to signs.
        return self.gain * (q.T if rows < columns else q).reshape(shape)


class Identity(Initializer):
    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def _values(self, shape: tuple[int, ...], dtype: DType) -> Any:
        if len(shape) != 2:
            raise ValueError(
                f"Identity matrix initializer can only be used for 2D matrices. Received: shape={shape}"
            )
        return self.gain * np.eye(*shape)


_CLASSES: tuple[type[Initializer], ...] = (
    Zeros, Ones, Constant, RandomNormal, TruncatedNormal, RandomUniform, VarianceScaling, GlorotUniform,
    GlorotNormal, LecunUniform, LecunNormal, HeUniform, HeNormal, Orthogonal, Identity,
)  # fmt: skip
_BY_NAME = {name: cls for cls in _CLASSES for name in (cls.__name__, to_snake_case(cls.__name__))}
_BY_NAME |= {"zero": Zeros, "one": Ones, "uniform": RandomUniform, "normal": RandomNormal}
zeros, ones, constant = Zeros, Ones, Constant
random_normal, random_uniform, truncated_normal_ = RandomNormal, RandomUniform, TruncatedNormal
glorot_uniform, glorot_normal, he_uniform, he_normal = GlorotUniform, GlorotNormal, HeUniform, HeNormal
lecun_uniform, lecun_normal, orthogonal, identity = LecunUniform, LecunNormal, Orthogonal, Identity


def get(identifier: Any) -> Callable[..., Any]:
    """Return the initializer that a name, a configuration, a class or a function stands for."""
    if isinstance(identifier, dict):
        return _BY_NAME[identifier["class_name"]].from_config(identifier.get("config", {}))
    if isinstance(identifier, str):
        if identifier not in _BY_NAME:
            raise ValueError(
                f"Unknown initializer: '{identifier}'. Please ensure you are using a "
                "`keras.utils.custom_object_scope`."
            )
        return _BY_NAME[identifier]()
    if isinstance(identifier, type):
        return identifier()
    if callable(identifier):
        return identifier
    if isinstance(identifier, int | float | np.ndarray | TensorLike):
        return Constant(identifier)
    raise ValueError(f"Could not interpret initializer identifier: {identifier}")


def by_name(**given: Any) -> dict[str, Callable[..., Any]]:
    """Return the initializers of a layer's weights, given as layers take them."""
    return {name: get(identifier) for name, identifier in given.items()}
