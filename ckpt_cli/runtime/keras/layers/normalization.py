"""Normalization over a batch, or over the features of one example, all of them or groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import InvalidArgumentError
from ...functions import moments, reduce_mean, reduce_variance
from ...ops.elementwise import cast
from ...shaping import broadcast_to
from ...tensor import OPERATIONS, Tensor
from .. import initializers
from ..base_layer import Layer
from ..masks import weighted_moments

if TYPE_CHECKING:
    from ...variable import Variable

__all__ = ["BatchNormalization", "GroupNormalization", "LayerNormalization", "UnitNormalization"]

_op = OPERATIONS
_SHORTEST = 1e-12
"""The least square of a length that is divided by."""
_FUSED = ((4, [1]), (4, [3]), (5, [1]), (5, [4]))
"""The ranks of batches, and their channel axes, for which TensorFlow has a fused kernel."""
_LEAST_EPSILON = 1.001e-5
"""That this kernel takes."""


def _aligned(weight: Any, rank: int, axes: list[int]) -> Any:
    """Return a weight reshaped to broadcast along its axes of a tensor of this rank."""
    if axes == [rank - 1]:
        return weight
    shape = [1] * rank
    for axis, dim in zip(axes, weight.shape, strict=True):
        shape[axis] = dim
    return _op["reshape"](weight, shape=tuple(shape))


def _mean_and_variance(x: Tensor, axes: list[int]) -> tuple[Tensor, Tensor]:
    """Return both over some axes, which are kept; their second gradients are whole, as of no `moments`."""
    return reduce_mean(x, axes, keepdims=True), reduce_variance(x, axes, keepdims=True)


def _moments(x: Tensor, axes: list[int]) -> tuple[Tensor, Tensor]:
    return moments(x, axes, keepdims=True)


def _places(axes: Any, rank: int) -> list[int]:
    """Return axes of a tensor of some rank, counted from its first; ValueError for what are none."""
    given = [axes] if isinstance(axes, int) else list(axes)
    if any(not -rank <= axis < rank for axis in given):
        raise ValueError(
            "Invalid value for `axis` argument. Expected 0 <= axis < inputs.rank "
            f"(with inputs.rank={rank}). Received: axis={tuple(given)}"
        )
    places = [axis % rank for axis in given]
    if len(set(places)) != len(places):
        raise ValueError(f"Duplicate axis: {tuple(given)}")
    return places


class _Normalization(Layer):
    """The common part: axes, and the weights that scale and shift along them."""

    gamma: Variable | None
    beta: Variable | None
    _passes_masks = True

    def _configure(self) -> None:
        self.axis: Any = list(self.axis) if isinstance(self.axis, list | tuple) else self.axis

    def build(self, input_shape: Any) -> None:
        self.axis = _places(self.axis, len(input_shape))
        if 0 in self.axis:
            raise NotImplementedError(f"{self.name}: axis=0, that of the examples, is not supported")
        self._make_weights(AXES=[input_shape[axis] for axis in self.axis])

    def _normalized(self, x: Tensor, mean: Any, variance: Any) -> Tensor:
        """Return (x - mean) · gamma / √(variance + epsilon) + beta."""
        inverse = _op["rsqrt"](variance + self.epsilon)
        if self.gamma is not None:
            inverse = inverse * self._along(self.gamma, x)
        shift = -mean * inverse
        if self.beta is not None:
            shift = shift + self._along(self.beta, x)
        return x * inverse + shift

    def _along(self, weight: Any, x: Tensor) -> Any:
        """Return a weight reshaped to broadcast along its axes of x."""
        return _aligned(weight, x.ndim, list(self.axis))


class BatchNormalization(_Normalization):
    """Normalize by the batch's mean and variance in training, by their moving averages otherwise."""

    _refused = ("renorm", "virtual_batch_size", "adjustment")
    moving_mean: Variable
    moving_variance: Variable

    def _configure(self) -> None:
        if not isinstance(self.axis, int) and len(self.axis) != 1:
            raise NotImplementedError(
                f"BatchNormalization: axis={self.axis!r} is not supported, only one axis"
            )
        super()._configure()

    def call(self, inputs: Tensor, training: Any = None, mask: Any = None) -> Tensor:
        inputs, axes = cast(inputs, self._dtype), list(self.axis)
        if not (training and self.trainable):
            mean, variance = (
                _aligned(one, inputs.ndim, axes) for one in (self.moving_mean, self.moving_variance)
            )
            return self._normalized(inputs, mean, variance)
        # That kernel takes no notice of masks.
        is_fused = (inputs.ndim, axes) in _FUSED and not self.synchronized
        out, mean, variance = self._of_batch(inputs, axes, None if is_fused else mask)
        kept = variance
        if is_fused:
            # The fused kernel keeps the unbiased variance, the other path the plain one.
            dtype = variance._value.dtype
            count = _op["size"](inputs, dtype=dtype) / _op["size"](mean, dtype=dtype)
            kept = variance * (count / _op["maximum"](count - 1, 1))
        for average, value in ((self.moving_mean, mean), (self.moving_variance, kept)):
            flat = _op["reshape_like"](value, average)
            average.assign_sub((average - flat) * (1 - self.momentum))
        return out

    def _of_batch(self, inputs: Tensor, axes: list[int], mask: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs normalized by their own mean and variance, and these."""
        is_fused = (inputs.ndim, axes) in _FUSED
        if axes == [inputs.ndim - 1] and mask is None:
            like = self.moving_mean
            gamma = _op["ones_like"](like) if self.gamma is None else self.gamma
            beta = _op["zeros_like"](like) if self.beta is None else self.beta
            how = {"epsilon": self.epsilon, "is_fused": is_fused}
            out, mean, variance = _op["normalize"](inputs, gamma, beta, **how)
            return out, mean, variance
        others = [axis for axis in range(inputs.ndim) if axis not in axes]
        if mask is None:
            mean, variance = (_mean_and_variance if is_fused else _moments)(inputs, others)
        else:
            mean, variance = weighted_moments(inputs, others, _op["expand_dims"](mask, axis=-1))
        return self._normalized(inputs, mean, variance), mean, variance


class LayerNormalization(_Normalization):
    """Normalize each example by its own mean and variance over some axes."""

    def call(self, inputs: Tensor) -> Tensor:
        inputs, axes = cast(inputs, self._dtype), list(self.axis)
        are_last = sorted(axes) == list(range(inputs.ndim - len(axes), inputs.ndim))
        is_fused = are_last and self.epsilon >= _LEAST_EPSILON
        return self._normalized(inputs, *(_mean_and_variance if is_fused else _moments)(inputs, axes))


class UnitNormalization(_Normalization):
    """Scale each example, or each row of it along some axes, to the length 1; one of nothing stays so."""

    def build(self, input_shape: Any) -> None:
        self.axis = _places(self.axis, len(input_shape))
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        inputs = cast(inputs, self._dtype)
        square = _op["reduce_sum"](inputs * inputs, axis=tuple(self.axis), keepdims=True)
        return inputs * _op["rsqrt"](_op["maximum"](square, _SHORTEST))


class GroupNormalization(_Normalization):
    """Normalize each example by mean and variance of each group of channels, over all other axes."""

    groups: int

    def _configure(self) -> None:
        if type(self.axis) is not int or self.axis == 0:
            raise NotImplementedError(f"axis={self.axis!r} is not supported, only that of the channels")

    def build(self, input_shape: Any) -> None:
        rank = len(input_shape)
        if not -rank < self.axis < rank:
            raise ValueError(f"axis {self.axis} is not one of the channels of an input of rank {rank}")
        channels = input_shape[self.axis]
        if self.groups == -1:
            self.groups = channels
        if type(self.groups) is not int or self.groups < 1 or channels % self.groups:
            raise ValueError(f"{channels} channels cannot be cut into {self.groups} groups")
        self._make_weights(AXES=[channels])

    def call(self, inputs: Tensor, mask: Any = None) -> Tensor:
        if not inputs.dtype.is_floating:
            raise InvalidArgumentError(f"{self.name}: {inputs.dtype.name} [Op:SquaredDifference]")
        shape, axis = list(inputs.shape), self.axis % inputs.ndim
        grouped = self._grouped(inputs)
        others = [other for other in range(1, grouped.ndim) if other != axis]
        if mask is None:
            found = _mean_and_variance(grouped, others)
        else:
            found = weighted_moments(grouped, others, self._grouped(broadcast_to(mask, shape)))
        out = self._normalized(grouped, *found)
        return _op["reshape"](out, shape=(-1, *shape[1:]))

    def _grouped(self, x: Tensor) -> Tensor:
        shape, axis = list(x.shape), self.axis % x.ndim
        parts = [self.groups, shape[axis] // self.groups]
        return _op["reshape"](x, shape=(-1, *shape[1:axis], *parts, *shape[axis + 1 :]))

    def _along(self, weight: Any, x: Tensor) -> Any:
        behind = self.axis % (x.ndim - 1) + 2
        return _op["reshape"](weight, shape=(self.groups, -1, *[1] * (x.ndim - behind)))


class RMSNormalization(_Normalization):
    """Keras 3's: scale each example by the root of its mean square over some axes."""

    def build(self, input_shape: Any) -> None:
        self.axis = _places(self.axis, len(input_shape))
        self._put("_initial", initializers.by_name(scale="ones"))
        self._make_weights(AXES=[input_shape[axis] for axis in self.axis])

    def call(self, inputs: Tensor) -> Tensor:
        inputs = cast(inputs, self._dtype)
        square = reduce_mean(inputs * inputs, list(self.axis), keepdims=True)
        return inputs * _op["rsqrt"](square + self.epsilon) * self._along(self.scale, inputs)
