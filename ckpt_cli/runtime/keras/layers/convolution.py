"""Convolutions over [batch, *axes, channels], and pooling over images [batch, height, width, channels]."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import InvalidArgumentError
from ...ops import convolution, windows
from ...ops.elementwise import cast
from ...tensor import OPERATIONS, Tensor, TensorShape
from ...unknown import refuse
from ..base_layer import Layer
from .core import is_channels_first

if TYPE_CHECKING:
    from ...variable import Variable

__all__ = [
    "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "Conv1D", "Conv2D", "Conv2DTranspose",
    "Conv3D", "DepthwiseConv2D", "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D",
    "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D", "MaxPooling1D", "MaxPooling2D",
    "MaxPooling3D", "SeparableConv2D",
]  # fmt: skip

_op = OPERATIONS


def _padding(value: str, *also: str) -> str:
    if str(value).lower() not in ("valid", "same", *also):
        raise NotImplementedError(f"padding={value!r} is not supported")
    return value.lower()


def numbers(option: str, value: Any, rank: int, least: int = 1) -> tuple[int, ...]:
    """Return a number for each axis, of one for all or a list of them; ValueError for what is none."""
    numbers = (value,) * rank if type(value) is int else value
    is_list = isinstance(numbers, list | tuple) and len(numbers) == rank
    if not is_list or any(type(number) is not int or number < least for number in numbers):
        raise ValueError(f"{option}={value!r} is neither a number of at least {least} nor {rank} of them")
    return tuple(numbers)


class Spatial(Layer):
    """Base of layers of [batch, *axes, channels], or [batch, channels, *axes] with `channels_first`.

    They compute with the channels last. TensorFlow has some kernels with the channels first on GPUs alone.
    """

    _rank: ClassVar[int]
    padding: str

    def _configure(self) -> None:
        self._put("_ndim", ("ndim", self._rank + 2))
        self._put("_is_first", is_channels_first(self._options.get("data_format")))

    def build(self, input_shape: Any) -> None:
        if self._is_first:
            batch, first, *axes = input_shape
            input_shape = TensorShape((batch, *axes, first))
        self._make(input_shape)
        self.built = True

    def _make(self, shape: Any) -> None:
        """Make the weights for inputs of a shape with the channels last."""

    def call(self, inputs: Tensor) -> Any:
        if not self._is_first:
            return self._computed(inputs)
        out = self._computed(_op["transpose"](inputs, perm=(0, *range(2, inputs.ndim), 1)))
        return _op["transpose"](out, perm=(0, out.ndim - 1, *range(1, out.ndim - 1)))

    def _computed(self, inputs: Tensor) -> Any:
        """Return the output of an input with the channels last, also so."""
        raise NotImplementedError


class _Convolution(Spatial):
    """activation(convolution of x with kernel + bias); kernel [*axes, in, filters]."""

    _also_padded: ClassVar[tuple[str, ...]] = ()
    kernel: Variable
    bias: Variable | None
    groups = 1

    def _configure(self) -> None:
        super()._configure()
        self._put("_ndim", ("min_ndim", self._rank + 2))
        self.padding = _padding(self.padding, *self._also_padded)
        for option in ("kernel_size", "strides", "dilation_rate"):
            self._put(option, numbers(option, getattr(self, option), self._rank))
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(
                f"`strides > 1` not supported in conjunction with `dilation_rate > 1`. Received: "
                f"strides={self.strides} and dilation_rate={self.dilation_rate}"
            )

    def _make(self, shape: Any) -> None:
        channels = shape[-1]
        if self.filters <= 0:
            raise ValueError(
                "Invalid value for argument `filters`. Expected a strictly positive value. Received "
                f"filters={self.filters}."
            )
        self._check_size(shape)
        if channels % self.groups or self.filters % self.groups:
            raise ValueError(
                f"{channels} channels and {self.filters} filters cannot be cut into {self.groups} groups."
            )
        self._make_weights(INPUT=channels // self.groups)

    def _check_size(self, input_shape: Any) -> None:
        sizes = zip(input_shape[1:-1], self.kernel_size, self.dilation_rate, strict=False)
        fits = all(size is None or size > (width - 1) * dilation for size, width, dilation in sizes)
        if self.padding == "valid" and not fits:
            raise ValueError(
                f"One of the dimensions in the output is <= 0 due to downsampling in {self.name}. Consider "
                f"increasing the input size. Received input shape {list(input_shape)} which would produce "
                "output shape with a zero or negative value in a dimension."
            )

    def _convolved(self, inputs: Tensor) -> Tensor:
        padding = self.padding
        if padding == "causal":
            before = self.dilation_rate[0] * (self.kernel_size[0] - 1)
            margins = ((0, 0), (before, 0), (0, 0))
            inputs = _op["pad"](inputs, paddings=margins, mode="constant", value=0)
            padding = "valid"
        how = self.strides, padding, self.dilation_rate
        if self.groups == 1:
            return convolution.convolution(inputs, self.kernel, *how)
        width, count = inputs.shape[-1] // self.groups, self.filters // self.groups
        parts = [
            convolution.convolution(
                inputs[..., group * width : (group + 1) * width],
                self.kernel[..., group * count : (group + 1) * count],
                *how,
            )
            for group in range(self.groups)
        ]
        return _op["concat"](*parts, axis=-1)

    def _computed(self, inputs: Tensor) -> Any:
        if inputs.ndim > self._rank + 2:
            raise NotImplementedError(
                f"{self.name}: an input of rank {inputs.ndim} is not supported, only of {self._rank + 2}"
            )
        out = self._convolved(inputs)
        if self.bias is not None:
            out = out + self.bias
        return self.activation(out)


class Conv1D(_Convolution):
    """Convolution over [batch, time, channels]; `causal` looks at no later time."""

    _rank = 1
    _also_padded = ("causal",)


class Conv2D(_Convolution):
    _rank = 2


class Conv3D(_Convolution):
    _rank = 3

    def _convolved(self, inputs: Tensor) -> Tensor:
        # TensorFlow's kernel begins within the volume then, and the kernels of its gradients do not.
        window = windows.window_of(self.kernel_size, self.strides, "same", self.dilation_rate)
        if self.padding == "same" and windows.spare(inputs.shape[1:-1], window) > 1:
            raise NotImplementedError(
                f"{self.name}: padding='same' with strides={self.strides} that leave out the end of a volume "
                f"{tuple(inputs.shape[1:-1])} is not supported"
            )
        return super()._convolved(inputs)


class Conv2DTranspose(Conv2D):
    """Each element of x spread by the kernel over a larger image; kernel [height, width, filters, in]."""

    most_elements: int | None = None
    """Of an output of one example; a layer that a file describes has a limit, as its strides may be any."""

    def _check_size(self, input_shape: Any) -> None:
        """Take any size: outputs are larger than inputs."""

    def _configure(self) -> None:
        super()._configure()
        refuse("Conv2DTranspose", groups=self.groups != 1)
        if len(set(self.dilation_rate)) > 1:
            raise ValueError(f"dilation_rate={self.dilation_rate}: both dimensions must be equal")
        given = self.output_padding
        padded = None if given is None else numbers("output_padding", given, 2, 0)
        if padded and any(extra >= stride for extra, stride in zip(padded, self.strides, strict=True)):
            raise ValueError(
                f"Strides must be greater than output padding. Received strides={self.strides}, "
                f"output_padding={padded}."
            )
        self._put("output_padding", padded)

    def _length(self, axis: int, places: int) -> int:
        """Return the size of the image along an axis: the least, unless there is an output padding."""
        stride, reach = self.strides[axis], (self.kernel_size[axis] - 1) * self.dilation_rate[axis] + 1
        if self.output_padding is None:
            return places * stride + (max(reach - stride, 0) if self.padding == "valid" else 0)
        inside = reach if self.padding == "valid" else reach % 2
        return (places - 1) * stride + inside + self.output_padding[axis]

    def _convolved(self, inputs: Tensor) -> Tensor:
        if inputs.ndim != 4:
            raise ValueError(f"Inputs should have rank 4. Received input_shape={inputs.shape}.")
        image = tuple(self._length(axis, places) for axis, places in enumerate(inputs.shape[1:-1]))
        if self.most_elements is not None and math.prod(image) * self.filters > self.most_elements:
            raise ValueError(f"{self.name}: an output of {image} with {self.filters} channels is too large")
        how = self.strides, self.padding, self.dilation_rate
        return convolution.transposed(inputs, self.kernel, image, *how)


class DepthwiseConv2D(_Convolution):
    """Each channel convolved by itself; kernel [height, width, in, multiplier]."""

    _rank = 2
    depthwise_kernel: Variable

    def _make(self, shape: Any) -> None:
        self._make_weights(CHANNELS=shape[-1])

    def _convolved(self, inputs: Tensor) -> Tensor:
        return convolution.depthwise_conv2d(
            inputs, self.depthwise_kernel, self.strides, self.padding, self.dilation_rate
        )


class SeparableConv2D(DepthwiseConv2D):
    """Each channel convolved by itself, and what comes out mixed at each place."""

    pointwise_kernel: Variable

    def _convolved(self, inputs: Tensor) -> Tensor:
        apart = super()._convolved(inputs)
        return convolution.convolution(apart, self.pointwise_kernel, (1, 1), "valid", (1, 1))


class MaxPooling2D(Spatial):
    """The largest of each window."""

    _pool = staticmethod(windows.max_pool)
    _rank = 2

    def _configure(self) -> None:
        super()._configure()
        self.padding = _padding(self.padding)
        strides = self.pool_size if self.strides is None else self.strides
        self._put("strides", numbers("strides", strides, self._rank))
        self._put("pool_size", numbers("pool_size", self.pool_size, self._rank))

    def _computed(self, inputs: Tensor) -> Tensor:
        sizes = zip(inputs.shape[1:-1], self.pool_size, strict=True)
        if self.padding == "valid" and any(size < width for size, width in sizes):
            raise NotImplementedError(
                f"{self.name}: a window that is larger than the image {tuple(inputs.shape)} is not supported"
            )
        return self._pool(inputs, windows.window_of(self.pool_size, self.strides, self.padding))


class MaxPooling1D(MaxPooling2D):
    _rank = 1


class MaxPooling3D(MaxPooling2D):
    _rank = 3


class AveragePooling2D(MaxPooling2D):
    """The mean of each window."""

    _pool = staticmethod(windows.avg_pool)

    def _computed(self, inputs: Tensor) -> Tensor:
        if not inputs.dtype.is_floating:
            raise InvalidArgumentError(
                f"Value for attr 'T' of {inputs.dtype.name} is not in the list of allowed values [Op:AvgPool]"
            )
        return super()._computed(inputs)


class AveragePooling1D(AveragePooling2D, MaxPooling1D):
    pass


class AveragePooling3D(AveragePooling2D, MaxPooling3D):
    pass


class GlobalAveragePooling2D(Spatial):
    _reduction = "reduce_mean"
    _rank = 2

    def call(self, inputs: Tensor) -> Tensor:
        return self._reduced(self._reduction, inputs)

    def _reduced(self, reduction: str, inputs: Tensor) -> Tensor:
        axes = tuple(range(2 if self._is_first else 1, self._rank + (2 if self._is_first else 1)))
        return _op[reduction](inputs, axis=axes, keepdims=self.keepdims)


class GlobalMaxPooling2D(GlobalAveragePooling2D):
    _reduction = "reduce_max"


class GlobalAveragePooling3D(GlobalAveragePooling2D):
    _rank = 3


class GlobalMaxPooling3D(GlobalMaxPooling2D):
    _rank = 3


class GlobalAveragePooling1D(GlobalAveragePooling2D):
    """The mean over time, of the times that a mask lets through."""

    _rank = 1
    _passes_masks = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Return None: the masked positions no longer exist."""

    def call(self, inputs: Tensor, mask: Any = None) -> Tensor:
        if mask is None:
            return super().call(inputs)
        weights = _op["expand_dims"](cast(mask, inputs.dtype), axis=1 if self._is_first else 2)
        return self._reduced("reduce_sum", inputs * weights) / self._reduced("reduce_sum", weights)


class GlobalMaxPooling1D(GlobalMaxPooling2D):
    _rank = 1
