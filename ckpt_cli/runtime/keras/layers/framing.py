"""Layers that pad, crop and repeat along the axes of an image, a row or a volume."""

from __future__ import annotations

from typing import Any

from ...errors import InvalidArgumentError
from ...shaping import repeat
from ...tensor import OPERATIONS, Tensor
from ...unknown import refuse
from ..base_layer import Layer
from .convolution import Spatial, numbers

__all__ = [
    "Cropping1D", "Cropping2D", "Cropping3D", "RepeatVector", "UpSampling1D", "UpSampling2D", "UpSampling3D",
    "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D",
]  # fmt: skip

_op = OPERATIONS


class _Framing(Spatial):
    """Base of what adds or removes elements before and after each axis."""

    _option = "padding"

    def _configure(self) -> None:
        super()._configure()
        self._put(self._option, self._pairs(getattr(self, self._option)))

    def _pairs(self, value: Any) -> Any:
        """Return how much before and after each axis; one pair where there is one axis."""
        if self._rank == 1:
            return numbers(self._option, value, 2, 0)
        given = (value,) * self._rank if isinstance(value, int) else value
        if not hasattr(given, "__len__") or len(given) != self._rank:
            raise ValueError(f"`{self._option}` should have {self._rank} elements. Received: {value}.")
        return tuple(numbers(self._option, one, 2, 0) for one in given)

    def _margins(self) -> tuple[tuple[int, int], ...]:
        pairs = getattr(self, self._option)
        return (pairs,) if self._rank == 1 else pairs


class ZeroPadding2D(_Framing):
    _rank = 2

    def _computed(self, inputs: Tensor) -> Tensor:
        paddings = ((0, 0), *self._margins(), (0, 0))
        return _op["pad"](inputs, paddings=paddings, mode="constant", value=0)


class ZeroPadding1D(ZeroPadding2D):
    _rank = 1


class ZeroPadding3D(ZeroPadding2D):
    _rank = 3


class Cropping2D(_Framing):
    _rank = 2
    _option = "cropping"

    def _computed(self, inputs: Tensor) -> Tensor:
        sizes = list(zip(inputs.shape[1:-1], self._margins(), strict=True))
        if any(sum(pair) >= size for size, pair in sizes):
            raise ValueError(
                "Argument `cropping` must be greater than the input shape. Received: inputs.shape="
                f"{inputs.shape}, and cropping={self._margins()}"
            )
        return inputs[(slice(None), *(slice(pair[0], size - pair[1]) for size, pair in sizes))]


class Cropping1D(Cropping2D):
    _rank = 1


class Cropping3D(Cropping2D):
    _rank = 3


class UpSampling3D(Spatial):
    """Each element repeated along each axis."""

    _rank = 3

    def _configure(self) -> None:
        super()._configure()
        self._put("size", int(self.size) if self._rank == 1 else numbers("size", self.size, self._rank))

    def _computed(self, inputs: Tensor) -> Tensor:
        if self.size == 0:
            raise InvalidArgumentError(f"{self.name}: an axis repeated {self.size} times [Op:ConcatV2]")
        for axis, times in enumerate((self.size,) if self._rank == 1 else self.size, 1):
            inputs = repeat(inputs, times, axis)
        return inputs


class UpSampling2D(UpSampling3D):
    _rank = 2

    def _configure(self) -> None:
        super()._configure()
        refuse("UpSampling2D", interpolation=None if self.interpolation == "nearest" else self.interpolation)


class UpSampling1D(UpSampling3D):
    _rank = 1


class RepeatVector(Layer):
    """[batch, features] as [batch, n, features]."""

    _ndim = ("ndim", 2)

    def _configure(self) -> None:
        if not isinstance(self.n, int):
            raise TypeError(f"Expected an integer value for `n`, got {type(self.n)}.")

    def call(self, inputs: Tensor) -> Tensor:
        return _op["tile"](_op["expand_dims"](inputs, axis=1), multiples=(1, self.n, 1))
