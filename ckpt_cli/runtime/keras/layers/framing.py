"""Layers that pad, crop and repeat along the axes of an image, a row or a volume; channels are last."""

from __future__ import annotations

from typing import Any

from ...errors import InvalidArgumentError
from ...shaping import repeat
from ...tensor import OPERATIONS, Tensor
from ...unknown import refuse
from ..base_layer import Layer
from .convolution import channels_last, numbers

__all__ = [
    "Cropping1D", "Cropping2D", "Cropping3D", "RepeatVector", "UpSampling1D", "UpSampling2D", "UpSampling3D",
    "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D",
]  # fmt: skip

_op = OPERATIONS


class _Framing(Layer):
    """Base of what adds or removes elements before and after each axis."""

    _rank = 2
    _option = "padding"

    def __init__(self, value: Any, data_format: Any = None, **kwargs: Any) -> None:
        channels_last(data_format)
        super().__init__(**kwargs)
        self._put("_ndim", ("ndim", self._rank + 2))
        self._put(self._option, self._pairs(value))

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
    def __init__(self, padding: Any = (1, 1), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(padding, data_format, **kwargs)

    def call(self, inputs: Tensor) -> Tensor:
        paddings = ((0, 0), *self._margins(), (0, 0))
        return _op["pad"](inputs, paddings=paddings, mode="constant", value=0)


class ZeroPadding1D(ZeroPadding2D):
    _rank = 1

    def __init__(self, padding: Any = 1, **kwargs: Any) -> None:
        super().__init__(padding, **kwargs)


class ZeroPadding3D(ZeroPadding2D):
    _rank = 3

    def __init__(self, padding: Any = (1, 1, 1), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(padding, data_format, **kwargs)


class Cropping2D(_Framing):
    _option = "cropping"

    def __init__(
        self, cropping: Any = ((0, 0), (0, 0)), data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(cropping, data_format, **kwargs)

    def call(self, inputs: Tensor) -> Tensor:
        sizes = list(zip(inputs.shape[1:-1], self._margins(), strict=True))
        if any(sum(pair) >= size for size, pair in sizes):
            raise ValueError(
                "Argument `cropping` must be greater than the input shape. Received: inputs.shape="
                f"{inputs.shape}, and cropping={self._margins()}"
            )
        return inputs[(slice(None), *(slice(pair[0], size - pair[1]) for size, pair in sizes))]


class Cropping1D(Cropping2D):
    _rank = 1

    def __init__(self, cropping: Any = (1, 1), **kwargs: Any) -> None:
        super().__init__(cropping, **kwargs)


class Cropping3D(Cropping2D):
    _rank = 3

    def __init__(
        self, cropping: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(cropping, data_format, **kwargs)


class UpSampling3D(Layer):
    """Each element repeated along each axis."""

    _rank = 3
    size: Any

    def __init__(self, size: Any = (2, 2, 2), data_format: str | None = None, **kwargs: Any) -> None:
        channels_last(data_format)
        super().__init__(**kwargs)
        self._put("_ndim", ("ndim", self._rank + 2))
        self._put("size", int(size) if self._rank == 1 else numbers("size", size, self._rank))

    def call(self, inputs: Tensor) -> Tensor:
        if self.size == 0:
            raise InvalidArgumentError(f"{self.name}: an axis repeated {self.size} times [Op:ConcatV2]")
        for axis, times in enumerate((self.size,) if self._rank == 1 else self.size, 1):
            inputs = repeat(inputs, times, axis)
        return inputs


class UpSampling2D(UpSampling3D):
    _rank = 2

    def __init__(
        self, size: Any = (2, 2), data_format: str | None = None, interpolation: str = "nearest",
        **kwargs: Any,
    ) -> None:  # fmt: skip
        refuse("UpSampling2D", interpolation=None if interpolation == "nearest" else interpolation)
        super().__init__(size, data_format, **kwargs)


class UpSampling1D(UpSampling3D):
    _rank = 1

    def __init__(self, size: Any = 2, **kwargs: Any) -> None:
        super().__init__(size, **kwargs)


class RepeatVector(Layer):
    """[batch, features] as [batch, n, features]."""

    _ndim = ("ndim", 2)

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(n, int):
            raise TypeError(f"Expected an integer value for `n`, got {type(n)}.")
        self.n = n

    def call(self, inputs: Tensor) -> Tensor:
        return _op["tile"](_op["expand_dims"](inputs, axis=1), multiples=(1, self.n, 1))
