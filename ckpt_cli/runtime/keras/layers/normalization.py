"""Normalization over a batch, or over the features of one example."""

from __future__ import annotations

from typing import Any

from ...functions import reduce_mean, reduce_variance
from ...tensor import OPERATIONS, Tensor
from .. import initializers
from ..base_layer import Layer

__all__ = ["BatchNormalization", "LayerNormalization"]

_op = OPERATIONS


def _aligned(weight: Any, rank: int, axes: list[int]) -> Any:
    """Return a weight reshaped so that it lies along its axes of a tensor of some rank."""
    if axes == [rank - 1]:
        return weight
    shape = [1] * rank
    for axis, dim in zip(axes, weight.shape, strict=True):
        shape[axis] = dim
    return _op["reshape"](weight, shape=tuple(shape))


class _Normalization(Layer):
    """What both have in common: axes, and the weights that scale and shift along them."""

    def __init__(
        self,
        axis: Any,
        epsilon: float,
        center: bool,
        scale: bool,
        beta_initializer: Any,
        gamma_initializer: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.axis: Any = list(axis) if isinstance(axis, list | tuple) else axis
        self.epsilon, self.center, self.scale = epsilon, center, scale
        self._initializers = initializers.get(gamma_initializer), initializers.get(beta_initializer)

    def _build_scale_and_shift(self, input_shape: Any) -> tuple[int, ...]:
        rank = len(input_shape)
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        self.axis = [axis % rank for axis in axes]
        shape = tuple(input_shape[axis] for axis in self.axis)
        gamma, beta = self._initializers
        self.gamma = self.add_weight("gamma", shape, initializer=gamma) if self.scale else None
        self.beta = self.add_weight("beta", shape, initializer=beta) if self.center else None
        return shape

    def _normalized(self, x: Tensor, mean: Any, variance: Any) -> Tensor:
        """Return (x - mean) · gamma / √(variance + epsilon) + beta."""
        axes = list(self.axis)
        inverse = _op["rsqrt"](variance + self.epsilon)
        if self.gamma is not None:
            inverse = inverse * _aligned(self.gamma, x.ndim, axes)
        shift = -mean * inverse
        if self.beta is not None:
            shift = shift + _aligned(self.beta, x.ndim, axes)
        return x * inverse + shift


class BatchNormalization(_Normalization):
    """Normalize by the batch's mean and variance in training, by their moving averages otherwise."""

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(axis, epsilon, center, scale, beta_initializer, gamma_initializer, **kwargs)
        self.momentum = momentum
        self._moving_initializers = (
            initializers.get(moving_mean_initializer),
            initializers.get(moving_variance_initializer),
        )

    def build(self, input_shape: Any) -> None:
        shape = self._build_scale_and_shift(input_shape)
        mean, variance = self._moving_initializers
        self.moving_mean = self.add_weight("moving_mean", shape, initializer=mean, trainable=False)
        self.moving_variance = self.add_weight(
            "moving_variance", shape, initializer=variance, trainable=False
        )
        self.built = True

    def call(self, inputs: Tensor, training: Any = None) -> Tensor:
        axes = list(self.axis)
        if not (training and self.trainable):
            mean, variance = (
                _aligned(one, inputs.ndim, axes) for one in (self.moving_mean, self.moving_variance)
            )
            return self._normalized(inputs, mean, variance)
        others = [axis for axis in range(inputs.ndim) if axis not in axes]
        mean = reduce_mean(inputs, others, keepdims=True)
        variance = reduce_variance(inputs, others, keepdims=True)
        kept = variance
        if inputs.ndim == 4 and axes == [3]:
            # The fused kernel of image batches keeps the unbiased variance, the other path the plain one.
            dtype = variance._value.dtype
            count = _op["size"](inputs, dtype=dtype) / _op["size"](mean, dtype=dtype)
            kept = variance * (count / _op["maximum"](count - 1, 1))
        for average, value in ((self.moving_mean, mean), (self.moving_variance, kept)):
            flat = _op["reshape_like"](value, average)
            average.assign_sub((average - flat) * (1 - self.momentum))
        return self._normalized(inputs, mean, variance)


class LayerNormalization(_Normalization):
    """Normalize each example by its own mean and variance over some axes."""

    def __init__(
        self,
        axis: Any = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        super().__init__(axis, epsilon, center, scale, beta_initializer, gamma_initializer, **kwargs)

    def build(self, input_shape: Any) -> None:
        self._build_scale_and_shift(input_shape)
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        axes = list(self.axis)
        return self._normalized(
            inputs, reduce_mean(inputs, axes, keepdims=True), reduce_variance(inputs, axes, keepdims=True)
        )
