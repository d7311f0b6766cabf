"""tf.nn."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import functions
from .dispatch import dispatch
from .errors import InvalidArgumentError
from .functions import sigmoid
from .further import l2_normalize, top_k
from .keras import activations
from .ops import convolution, windows
from .ops.arrays import static_shape
from .ops.elementwise import cast
from .ops.neural import keep_logits, sigmoid_cross_entropy, softmax_cross_entropy
from .ops.random import dropped
from .signatures import with_signature
from .tensor import OPERATIONS, Tensor, as_tensor
from .unknown import absent, refuse

__all__ = [
    "avg_pool", "avg_pool2d", "batch_normalization", "bias_add", "compute_average_loss", "conv1d", "conv2d",
    "conv2d_transpose", "depthwise_conv2d",
    "dropout", "elu", "embedding_lookup", "gelu", "l2_loss", "l2_normalize", "leaky_relu", "log_softmax",
    "max_pool", "max_pool2d", "moments", "relu", "relu6", "scale_regularization_loss", "selu", "sigmoid",
    "sigmoid_cross_entropy_with_logits", "silu", "softmax", "softmax_cross_entropy_with_logits", "softplus",
    "softsign", "sparse_softmax_cross_entropy_with_logits", "swish", "tanh", "top_k",
]  # fmt: skip

_FEATURES = {
    name: with_signature(getattr(activations, name), "features=x name")
    for name in ("elu", "relu", "selu", "softplus", "softsign")
}
elu, relu, selu, softplus, softsign = _FEATURES.values()
gelu = with_signature(activations.gelu, "features=x approximate name")
leaky_relu = with_signature(activations.leaky_relu, "features=x alpha name")
tanh = with_signature(activations.tanh, "x name")


def swish(features: Any, beta: float = 1.0) -> Tensor:
    x = as_tensor(features)
    return activations.swish(x) if beta == 1 else x * OPERATIONS["sigmoid"](beta * x)


silu = swish


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    return OPERATIONS["log_softmax"](logits, axis=-1 if axis is None else axis)


def relu6(features: Any, name: str | None = None) -> Tensor:
    return activations.relu(features, max_value=6.0)


def softmax(logits: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    x = as_tensor(logits)
    axis = -1 if axis is None else axis
    out = OPERATIONS["softmax"](x, axis=axis)
    return keep_logits(out, x, "softmax") if axis in (-1, x.ndim - 1) else out


def _refuse(where: str, data_format: str | None = None, **others: Any) -> None:
    """Reject arguments that would change the result; the channels of an image are last by default."""
    refuse(where, data_format=None if data_format == "NHWC" else data_format, **others)


def conv2d(
    input: Any, filters: Any, strides: Any, padding: Any, data_format: str = "NHWC",
    dilations: Any = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    _refuse("conv2d", data_format, padding=_explicit(padding))
    if not np.all(np.array(strides) > 0):
        raise InvalidArgumentError(f"Sliding window strides must be positive, got {strides} [Op:Conv2D]")
    input = _images("conv2d", input, filters)
    return convolution.conv2d(input, filters, strides, padding, dilations or 1)


def conv2d_transpose(
    input: Any, filters: Any, output_shape: Any, strides: Any, padding: Any = "SAME",
    data_format: str = "NHWC", dilations: Any = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    _refuse("conv2d_transpose", data_format, padding=_explicit(padding))
    x, kernel = _images("conv2d_transpose", input), as_tensor(filters)
    batch, *image, channels = static_shape(output_shape)
    if batch not in (-1, len(x)) or channels != kernel.shape[-2] or x.shape[-1] != kernel.shape[-1]:
        raise InvalidArgumentError(f"{x.shape}, {kernel.shape} and {output_shape} do not fit "
                                   "[Op:Conv2DBackpropInput]")  # fmt: skip
    how = windows.pair(strides), padding, windows.pair(dilations or 1)
    try:
        return convolution.transposed(x, kernel, tuple(image), *how)
    except ValueError as error:
        raise InvalidArgumentError(f"{error} [Op:Conv2DBackpropInput]") from error


def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Tensor:
    """Return the sum of losses, weighted, by the size of the batch."""
    losses = as_tensor(per_example_loss)
    if sample_weight is not None:
        losses = losses * cast(sample_weight, losses.dtype)
    if global_batch_size is None and not losses.ndim:
        raise ValueError("`per_example_loss` must be at least of rank 1")
    count = losses.shape[0] if global_batch_size is None else int(global_batch_size)
    return OPERATIONS["divide_no_nan"](functions.reduce_sum(losses), cast(count, losses.dtype))


def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """Return the sum of losses: there is one replica."""
    return functions.reduce_sum(as_tensor(regularization_loss))


def depthwise_conv2d(
    input: Any, filter: Any, strides: Any, padding: Any, data_format: str | None = None,
    dilations: Any = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    _refuse("depthwise_conv2d", data_format, padding=_explicit(padding))
    if not isinstance(strides, list | tuple):
        raise TypeError(
            f"Expected list for 'strides' argument to 'depthwise_conv2d_native' Op, not {strides}."
        )
    input = _images("depthwise_conv2d", input, filter)
    return convolution.depthwise_conv2d(input, filter, strides, padding, dilations or 1)


def _pooled(where: str, x: Any, *sizes: Any) -> Tensor:
    """Return images to pool; windows over examples or channels are not supported."""
    for size in sizes:
        around = [size[0], size[3]] if isinstance(size, list | tuple) and len(size) == 4 else [1]
        refuse(where, ksize=size if around != [1] * len(around) else None)
    tensor = _images(where, x)
    if where == "avg_pool2d" and not tensor.dtype.is_floating:
        raise InvalidArgumentError(
            f"Value for attr 'T' of {tensor.dtype.name} is not in the list [Op:AvgPool]"
        )
    return tensor


def _pool(where: str, data_format: str | None) -> Any:
    """Return the public function that pools images, whose default says where channels are."""
    function: Any = windows.max_pool if where.startswith("max") else windows.avg_pool

    def pool(
        input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = data_format,
        name: str | None = None,
    ) -> Tensor:  # fmt: skip
        if not where.endswith("2d") and as_tensor(input).ndim != 4:
            raise NotImplementedError(f"{where}: an input other than an image is not supported")
        _refuse(f"{where.removesuffix('2d')}2d", data_format, padding=_explicit(padding))
        images = _pooled(f"{where.removesuffix('2d')}2d", input, ksize, strides)
        return function(images, windows.of_image(ksize, strides, padding))

    pool.__name__ = pool.__qualname__ = where
    return pool


max_pool2d, avg_pool2d = _pool("max_pool2d", "NHWC"), _pool("avg_pool2d", "NHWC")
max_pool, avg_pool = _pool("max_pool", None), _pool("avg_pool", None)


def conv1d(
    input: Any, filters: Any, stride: Any, padding: Any, data_format: str = "NWC", dilations: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    _refuse("conv1d", None if data_format in ("NWC", None) else data_format, padding=_explicit(padding))
    steps, apart = (int(one[-1 if len(one) == 1 else 1]) if isinstance(one, list | tuple) else int(one)
                    for one in (stride, dilations or 1))  # fmt: skip
    rows, kernel = (functions.expand_dims(as_tensor(one), axis) for one, axis in ((input, 1), (filters, 0)))
    return functions.squeeze(convolution.conv2d(rows, kernel, [1, steps], padding, [1, apart]), 1)


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: Any, name: str | None = None
) -> Tensor:
    factor = OPERATIONS["rsqrt"](variance + variance_epsilon)
    factor = factor if scale is None else factor * scale
    return as_tensor(x) * factor + ((0.0 if offset is None else offset) - mean * factor)


def _explicit(padding: Any) -> Any:
    """Return a padding that is given in numbers; None for one that has a name."""
    if not isinstance(padding, str):
        return padding
    if padding not in ("SAME", "VALID"):
        raise InvalidArgumentError(
            f"Value for attr 'padding' of \"{padding}\" is not in the list of allowed values"
        )
    return None


def _images(where: str, x: Any, filters: Any = None) -> Tensor:
    """Return images; several axes of examples, and groups of channels, are not supported."""
    tensor = as_tensor(x)
    refuse(where, input="of another rank than 4" if tensor.ndim != 4 else None)
    if filters is not None and tensor.shape[-1] != (depth := as_tensor(filters).shape[-2]):
        is_grouped = where == "conv2d" and depth and not tensor.shape[-1] % depth
        refuse(where, filters="of groups" if is_grouped else None)
        raise InvalidArgumentError(f"input depth {tensor.shape[-1]} and filter depth {depth} [Op:{where}]")
    return tensor


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    x = as_tensor(value)
    row = as_tensor(bias, x._value.dtype)
    if data_format not in (None, "NHWC", "N...C", "NCHW", "NC..."):
        raise ValueError(f"`data_format` must be of the form `N...C` or `NC...`. Received: {data_format=}")
    _refuse("bias_add", None if data_format in ("NHWC", "N...C") else data_format)
    if x.ndim < 2 or row.ndim != 1 or row.shape[0] != x.shape[-1]:
        raise InvalidArgumentError(f"BiasAdd of {row.shape} to {x.shape} [Op:BiasAdd]")
    return OPERATIONS["add"](x, row)


def dropout(
    x: Any, rate: float, noise_shape: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    if isinstance(rate, int | float) and not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: {rate=}")
    return dropped(as_tensor(x), rate, noise_shape, seed)


def embedding_lookup(params: Any, ids: Any, max_norm: float | None = None, name: str | None = None) -> Tensor:
    if max_norm is not None:  # even 0 is one
        raise NotImplementedError(f"embedding_lookup: max_norm={max_norm!r} is not supported")
    if isinstance(params, list | tuple) and len(params) > 1:
        raise NotImplementedError("embedding_lookup: argument params= of several shards is not supported")
    return functions.gather(params, ids)


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    t = as_tensor(t)
    if not t.dtype.is_floating:
        raise InvalidArgumentError(f"Value for attr 'T' of {t.dtype.name} is not in the list [Op:L2Loss]")
    return functions.reduce_sum(OPERATIONS["square"](t)) / 2


def moments(
    x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return mean and variance over some axes."""
    return functions.moments(x, axes, keepdims)


def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    x, z = as_tensor(logits), as_tensor(labels)
    if x.dtype != z.dtype and x.shape == z.shape:
        raise InvalidArgumentError(f"cannot compute Mul of {x.dtype.name} and {z.dtype.name} [Op:Mul]")
    return sigmoid_cross_entropy(z, x)


def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: str | None = None
) -> Tensor:
    x = as_tensor(logits)
    if not -x.ndim <= axis < x.ndim:
        raise InvalidArgumentError(
            f"softmax_cross_entropy_with_logits of rank {x.ndim} along {axis} [Op:Range]"
        )
    return softmax_cross_entropy(labels, x, axis)


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: str | None = None) -> Tensor:
    x, places = as_tensor(logits), as_tensor(labels)
    if places.ndim != x.ndim - 1:
        raise ValueError(
            "`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: "
            f"labels.shape={places.shape} and logits.shape={x.shape}"
        )
    if places.shape != x.shape[:-1]:
        raise ValueError(
            "`labels.shape` must equal `logits.shape` except for the last dimension. Received: "
            f"labels.shape={places.shape} and logits.shape={x.shape}"
        )
    if places.dtype.name not in ("int32", "int64") and places._value.size:
        raise InvalidArgumentError(f"Value for attr 'Tlabels' of {places.dtype.name} is not in the list")
    return OPERATIONS["sparse_cross_entropy"](x, places)


dispatch(globals(), __all__, "nn")


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
