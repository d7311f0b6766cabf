"""Convolutions and pooling over images [batch, height, width, channels]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.keras.layers import LAYERS

from ...ops import neural
from ...tensor import OPERATIONS, Tensor
from .. import activations, initializers
from ..base_layer import Layer

if TYPE_CHECKING:
    from ...variable import Variable

__all__ = [
    "AveragePooling2D", "Conv2D", "DepthwiseConv2D", "GlobalAveragePooling2D", "GlobalMaxPooling2D",
    "MaxPooling2D",
]  # fmt: skip

_op = OPERATIONS


def _channels_last(data_format: str | None) -> None:
    if data_format not in (None, "channels_last"):
        raise NotImplementedError(f"data_format={data_format!r} is not known here, only 'channels_last'")


class Conv2D(Layer):
    """activation(convolution of x with kernel + bias); kernel [height, width, in, filters]."""

    _row = LAYERS["Conv2D"]
    kernel: Variable
    bias: Variable | None
    kernel_size: tuple[int, int]
    strides: tuple[int, int]
    dilation_rate: tuple[int, int]

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        groups: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        _channels_last(data_format)
        super().__init__(**kwargs)
        self.filters, self.padding, self.groups, self.use_bias = filters, padding.lower(), groups, use_bias
        self._put("kernel_size", neural.pair(kernel_size))
        self._put("strides", neural.pair(strides))
        self._put("dilation_rate", neural.pair(dilation_rate))
        self.activation = activations.get(activation)
        kernel = self._row.weights[0].name
        self._put("_initial", initializers.by_name(**{kernel: kernel_initializer, "bias": bias_initializer}))

    def build(self, input_shape: Any) -> None:
        channels = input_shape[-1]
        if channels % self.groups or self.filters % self.groups:
            raise ValueError(
                f"{channels} channels and {self.filters} filters cannot be cut into {self.groups} groups."
            )
        self._make_weights(INPUT=channels // self.groups)

    def _convolved(self, inputs: Tensor) -> Tensor:
        how = self.strides, self.padding, self.dilation_rate
        if self.groups == 1:
            return neural.conv2d(inputs, self.kernel, *how)
        width, count = inputs.shape[-1] // self.groups, self.filters // self.groups
        parts = [
            neural.conv2d(
                inputs[..., group * width : (group + 1) * width],
                self.kernel[..., group * count : (group + 1) * count],
                *how,
            )
            for group in range(self.groups)
        ]
        return _op["concat"](*parts, axis=-1)

    def call(self, inputs: Tensor) -> Any:
        out = self._convolved(inputs)
        if self.bias is not None:
            out = out + self.bias
        return self.activation(out)


class DepthwiseConv2D(Conv2D):
    """Each channel convolved by itself; kernel [height, width, in, multiplier]."""

    _row = LAYERS["DepthwiseConv2D"]
    depthwise_kernel: Variable

    def __init__(
        self,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            0, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
            depthwise_initializer, bias_initializer, **kwargs,
        )  # fmt: skip
        self.depth_multiplier = depth_multiplier

    def build(self, input_shape: Any) -> None:
        self._make_weights(CHANNELS=input_shape[-1])

    def _convolved(self, inputs: Tensor) -> Tensor:
        return neural.depthwise_conv2d(
            inputs, self.depthwise_kernel, self.strides, self.padding, self.dilation_rate
        )


class MaxPooling2D(Layer):
    """The largest of each window."""

    pool_size: tuple[int, int]
    strides: tuple[int, int]

    _pool = staticmethod(neural.max_pool2d)

    def __init__(
        self,
        pool_size: Any = (2, 2),
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        _channels_last(data_format)
        super().__init__(**kwargs)
        self.padding = padding.lower()
        self._put("pool_size", neural.pair(pool_size))
        self._put("strides", neural.pair(pool_size if strides is None else strides))

    def call(self, inputs: Tensor) -> Tensor:
        return self._pool(inputs, self.pool_size, self.strides, self.padding)


class AveragePooling2D(MaxPooling2D):
    """The mean of each window."""

    _pool = staticmethod(neural.avg_pool2d)


class GlobalAveragePooling2D(Layer):
    _reduction = "reduce_mean"

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any) -> None:
        _channels_last(data_format)
        super().__init__(**kwargs)
        self.keepdims = keepdims

    def call(self, inputs: Tensor) -> Tensor:
        return _op[self._reduction](inputs, axis=(1, 2), keepdims=self.keepdims)


class GlobalMaxPooling2D(GlobalAveragePooling2D):
    _reduction = "reduce_max"
