"""Windows over images, and losses over logits.

A convolution is a product of matrices over the windows of its image.  `windows` and
`windows_back` are each other's transposes, so either's gradient is the other, and
convolution and pooling need no rules of their own.

    windows:  image [batch, height, width, channels]
           -> [batch, rows, columns, window height, window width, channels]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..tensor import OPERATIONS, Tensor, as_tensor, define
from .elementwise import cast

__all__ = ["Window", "avg_pool2d", "conv2d", "depthwise_conv2d", "max_pool2d", "pair"]

_op = OPERATIONS


class Window(NamedTuple):
    """The size of a window, the step from one to the next, their spread, and what lies around the image."""

    size: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    same: bool


def pair(value: Any) -> tuple[int, int]:
    """Return two numbers of an argument that gives one, two, or four with those of batch and channels."""
    if isinstance(value, int):
        return value, value
    numbers = tuple(int(number) for number in value)
    if len(numbers) == 4:
        return numbers[1], numbers[2]
    return (numbers[0], numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _margins(shape: tuple[int, ...], window: Window) -> list[tuple[int, int]]:
    """Return what is put before and after each image axis: TensorFlow's SAME puts the odd one after."""
    margins = []
    for dim, size, stride, spread in zip(
        shape[1:3], window.size, window.strides, window.dilation, strict=True
    ):
        reach = (size - 1) * spread + 1
        need = max((-(-dim // stride) - 1) * stride + reach - dim, 0) if window.same else 0
        margins.append((need // 2, need - need // 2))
    return margins


def _padded(x: Any, window: Window, fill: float) -> Any:
    margins = _margins(x.shape, window)
    if not any(map(any, margins)):
        return x
    return np.pad(x, [(0, 0), *margins, (0, 0)], constant_values=fill)


def _view(padded: Any, window: Window) -> Any:
    (height, width), (down, right), (spread_y, spread_x) = window.size, window.strides, window.dilation
    reach = (height - 1) * spread_y + 1, (width - 1) * spread_x + 1
    if padded.shape[1] < reach[0] or padded.shape[2] < reach[1]:
        raise ValueError(f"a window of {reach} does not fit into an image of {padded.shape[1:3]}")
    view = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2), writeable=True)
    view = view[:, ::down, ::right, :, ::spread_y, ::spread_x]
    return np.moveaxis(view, 3, 5)


def _windows(x: Any, window: Window, fill: float) -> Any:
    return np.ascontiguousarray(_view(_padded(x, window, fill), window))


def _windows_back(g: Any, like: Any, window: Window) -> Any:
    margins = _margins(like.shape, window)
    batch, height, width, channels = like.shape
    out = np.zeros((batch, height + sum(margins[0]), width + sum(margins[1]), channels), g.dtype)
    rows, columns = g.shape[1:3]
    (down, right), (spread_y, spread_x) = window.strides, window.dilation
    # One addition for each place in the window: windows overlap, places of one kind do not.
    for y in range(window.size[0]):
        for x in range(window.size[1]):
            top, left = y * spread_y, x * spread_x
            out[:, top : top + rows * down : down, left : left + columns * right : right] += g[:, :, :, y, x]
    return out[:, margins[0][0] : margins[0][0] + height, margins[1][0] : margins[1][0] + width]


define("windows", _windows, lambda g, out, x, window, fill: _op["windows_back"](g, x, window=window))
define(
    "windows_back",
    _windows_back,
    lambda g, out, value, like, window: _op["windows"](g, window=window, fill=0.0),
    None,
)


def _window(size: Any, strides: Any, padding: str, dilation: Any) -> Window:
    if padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"padding must be 'SAME' or 'VALID', got {padding!r}")
    return Window(pair(size), pair(strides), pair(dilation), padding.upper() == "SAME")


def conv2d(x: Any, kernel: Any, strides: Any, padding: str, dilations: Any = 1) -> Tensor:
    """Return the convolution of images [batch, height, width, in] with a kernel [height, width, in, out]."""
    kernel = as_tensor(kernel)
    height, width, inputs, outputs = kernel.shape
    window = _window((height, width), strides, padding, dilations)
    patches = _op["windows"](x, window=window, fill=0.0)
    shape = patches.shape
    flat = _op["reshape"](patches, shape=(-1, height * width * inputs))
    out = _op["matmul"](flat, _op["reshape"](kernel, shape=(height * width * inputs, outputs)))
    return _op["reshape"](out, shape=(-1, shape[1], shape[2], outputs))


def depthwise_conv2d(x: Any, kernel: Any, strides: Any, padding: str, dilations: Any = 1) -> Tensor:
    """Return each channel convolved by itself; kernel [height, width, in, multiplier]."""
    kernel = as_tensor(kernel)
    height, width, inputs, multiplier = kernel.shape
    patches = _op["windows"](x, window=_window((height, width), strides, padding, dilations), fill=0.0)
    shape = patches.shape
    out = _op["einsum"](patches, kernel, equation="bhwijc,ijcm->bhwcm")
    return _op["reshape"](out, shape=(-1, shape[1], shape[2], inputs * multiplier))


def _first_max_mask(x: Any, axis: tuple[int, int]) -> Any:
    """Return 1 at the first largest element of each window, 0 elsewhere."""
    moved = np.moveaxis(x, axis, (-2, -1))
    flat = moved.reshape(*moved.shape[:-2], -1)
    mask = np.arange(flat.shape[-1]) == np.argmax(flat, -1)[..., None]
    return np.moveaxis(mask.reshape(moved.shape), (-2, -1), axis).astype(x.dtype)


define("first_max_mask", _first_max_mask, None)


def _window_max_rule(g: Tensor, out: Tensor, x: Tensor, axis: tuple[int, int]) -> Tensor:
    # TensorFlow's pooling gives the gradient to one element of a window, the first of equals.
    spread = _op["expand_like"](g, x, axis=axis, keepdims=False)
    return _op["first_max_mask"](x, axis=axis) * spread


define("window_max", lambda x, axis: x.max(axis=axis), _window_max_rule)


def max_pool2d(x: Any, size: Any, strides: Any, padding: str) -> Tensor:
    patches = _op["windows"](x, window=_window(size, strides, padding, 1), fill=-np.inf)
    return _op["window_max"](patches, axis=(3, 4))


def avg_pool2d(x: Any, size: Any, strides: Any, padding: str) -> Tensor:
    """Return means over windows; what lies outside the image does not count."""
    window = _window(size, strides, padding, 1)
    tensor = as_tensor(x)
    patches = _op["windows"](tensor, window=window, fill=0.0)
    inside = _op["windows"](_op["ones_like"](tensor), window=window, fill=0.0)
    total = _op["reduce_sum"](patches, axis=(3, 4), keepdims=False)
    return total / _op["reduce_sum"](inside, axis=(3, 4), keepdims=False)


def _log_softmax(logits: Any) -> Any:
    moved = logits - logits.max(axis=-1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=-1, keepdims=True))


def _picked(logits: Any, labels: Any) -> Any:
    """Return -log softmax(logits) at the labels."""
    found = _log_softmax(logits)
    return -np.take_along_axis(found, labels[..., None].astype(np.int64), axis=-1)[..., 0]


def _picked_rule(g: Tensor, out: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    depth = logits.shape[-1]
    hot = _op["one_hot"](labels, depth=depth, on=1, off=0, axis=-1, dtype=logits._value.dtype)
    return _op["expand_dims"](g, axis=-1) * (_op["softmax"](logits, axis=-1) - hot)


define("sparse_cross_entropy", _picked, _picked_rule, None)


define(
    "cross_entropy",
    lambda logits, labels: -(labels * _log_softmax(logits)).sum(axis=-1),
    # As in TensorFlow this holds for labels that add up to 1, which is what labels are.
    lambda g, out, logits, labels: (
        _op["expand_dims"](g, axis=-1) * (_op["softmax"](logits, axis=-1) - labels)
    ),
    lambda g, out, logits, labels: -_op["expand_dims"](g, axis=-1) * _op["log_softmax"](logits, axis=-1),
)


def sigmoid_cross_entropy(labels: Any, logits: Any) -> Tensor:
    """Return max(x, 0) - x z + log(1 + exp(-|x|)), which never overflows."""
    x = as_tensor(logits)
    z = cast(labels, x.dtype)
    if x.shape != z.shape:
        raise ValueError(
            f"`logits` and `labels` must have the same shape, received ({x.shape} vs {z.shape})."
        )
    return _op["relu"](x) - x * z + _op["log1p"](_op["exp"](-abs(x)))
