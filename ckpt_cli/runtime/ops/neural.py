"""Windows over images, and losses over logits.

A convolution is a product of matrices over the windows of its image.  `windows` and
`windows_back` are each other's transposes, so either's gradient is the other, and
convolution and pooling need no rules of their own.  An image has any number of axes:
a row of a time series one, a picture two, a volume three.

    windows:  image [batch, *axes of the image, channels]
           -> [batch, *places, *axes of the window, channels]
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..tensor import OPERATIONS, Tensor, as_tensor, define
from .elementwise import cast

__all__ = [
    "Window", "avg_pool2d", "conv2d", "convolution", "depthwise_conv2d", "max_pool2d", "pair", "transposed",
]  # fmt: skip

_op = OPERATIONS


class Window(NamedTuple):
    """The size of a window, the step from one to the next, their spread, and what lies around the image."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    same: bool

    @property
    def reach(self) -> tuple[int, ...]:
        """How much of the image a window spans."""
        return tuple((size - 1) * spread + 1 for size, spread in zip(self.size, self.dilation, strict=True))

    @property
    def rank(self) -> int:
        return len(self.size)


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
    for dim, reach, stride in zip(shape[1:-1], window.reach, window.strides, strict=True):
        need = max((-(-dim // stride) - 1) * stride + reach - dim, 0) if window.same else 0
        margins.append((need // 2, need - need // 2))
    return margins


def _padded(x: Any, window: Window, fill: float) -> Any:
    margins = _margins(x.shape, window)
    if not any(map(any, margins)):
        return x
    return np.pad(x, [(0, 0), *margins, (0, 0)], constant_values=fill)


def _view(padded: Any, window: Window) -> Any:
    image, rank = padded.shape[1:-1], window.rank
    if any(dim < reach for dim, reach in zip(image, window.reach, strict=True)):
        raise ValueError(f"a window of {window.reach} does not fit into an image of {image}")
    axes = tuple(range(1, rank + 1))
    view = np.lib.stride_tricks.sliding_window_view(padded, window.reach, axis=axes, writeable=True)
    steps, spreads = ([slice(None, None, step) for step in steps] for steps in window[1:3])
    return np.moveaxis(view[(slice(None), *steps, slice(None), *spreads)], rank + 1, -1)


def _windows(x: Any, window: Window, fill: float) -> Any:
    if x.ndim != window.rank + 2:
        raise ValueError(f"a window of {window.size} is over tensors of rank {window.rank + 2}, not {x.ndim}")
    return np.ascontiguousarray(_view(_padded(x, window, fill), window))


def _windows_onto(g: Any, image: tuple[int, ...], window: Window) -> Any:
    """Return an image of a size, each element the sum of those of the windows that lie over it."""
    margins = _margins((len(g), *image, g.shape[-1]), window)
    places = g.shape[1 : window.rank + 1]
    padded = [dim + sum(margin) for dim, margin in zip(image, margins, strict=True)]
    out = np.zeros((len(g), *padded, g.shape[-1]), g.dtype)
    # One addition for each place in the window: windows overlap, places of one kind do not.
    for at in np.ndindex(*window.size):
        starts = [place * spread for place, spread in zip(at, window.dilation, strict=True)]
        reached = (
            slice(start, start + count * stride, stride)
            for start, count, stride in zip(starts, places, window.strides, strict=True)
        )
        out[(slice(None), *reached)] += g[(slice(None),) * (window.rank + 1) + at]
    inside = (slice(before, before + dim) for (before, _), dim in zip(margins, image, strict=True))
    return out[(slice(None), *inside)]


def _windows_back(g: Any, like: Any, window: Window) -> Any:
    return _windows_onto(g, like.shape[1:-1], window)


define("windows", _windows, lambda g, out, x, window, fill: _op["windows_back"](g, x, window=window))
define(
    "windows_back",
    _windows_back,
    lambda g, out, value, like, window: _op["windows"](g, window=window, fill=0.0),
    None,
)
define(
    "windows_onto", _windows_onto, lambda g, out, x, image, window: _op["windows"](g, window=window, fill=0.0)
)


def _window(size: Any, strides: Any, padding: str, dilation: Any) -> Window:
    if padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"padding must be 'SAME' or 'VALID', got {padding!r}")
    return Window(tuple(size), tuple(strides), tuple(dilation), padding.upper() == "SAME")


def conv2d(x: Any, kernel: Any, strides: Any, padding: str, dilations: Any = 1) -> Tensor:
    """Return the convolution of images [batch, height, width, in] with a kernel [height, width, in, out]."""
    return convolution(x, kernel, pair(strides), padding, pair(dilations))


def convolution(x: Any, kernel: Any, strides: Any, padding: str, dilations: Any) -> Tensor:
    """Return the convolution of [batch, *axes, in] with a kernel [*axes, in, out], a number for each axis."""
    kernel = as_tensor(kernel)
    *size, inputs, outputs = kernel.shape
    patches = _op["windows"](x, window=_window(size, strides, padding, dilations), fill=0.0)
    places = patches.shape[1 : len(size) + 1]
    width = math.prod(size) * inputs
    flat = _op["reshape"](patches, shape=(-1, width))
    out = _op["matmul"](flat, _op["reshape"](kernel, shape=(width, outputs)))
    return _op["reshape"](out, shape=(-1, *places, outputs))


def transposed(
    x: Any, kernel: Any, image: tuple[int, ...], strides: Any, padding: str, dilations: Any
) -> Tensor:
    """Return an image of a size, of which `convolution` with these options makes one like x, transposed.

    x is [batch, *places, in], the kernel [*axes, out, in].  Raises ValueError where windows
    over such an image have other places.
    """
    x, kernel = as_tensor(x), as_tensor(kernel)
    *size, outputs, inputs = kernel.shape
    window = _window(size, strides, padding, dilations)
    places = tuple(x.shape[1:-1])
    if places != _places(image, window):
        raise ValueError(
            f"windows over an image of {image} have the places {_places(image, window)}, not {places}"
        )
    width = math.prod(size) * outputs
    flat = _op["reshape"](x, shape=(-1, inputs))
    columns = _op["transpose"](_op["reshape"](kernel, shape=(width, inputs)), perm=(1, 0))
    patches = _op["reshape"](_op["matmul"](flat, columns), shape=(-1, *places, *size, outputs))
    return _op["windows_onto"](patches, image=image, window=window)


def _places(image: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """Return how many windows there are along each axis of an image."""
    return tuple(
        -(-dim // stride) if window.same else (dim - reach) // stride + 1
        for dim, reach, stride in zip(image, window.reach, window.strides, strict=True)
    )


def depthwise_conv2d(x: Any, kernel: Any, strides: Any, padding: str, dilations: Any = 1) -> Tensor:
    """Return each channel convolved by itself; kernel [height, width, in, multiplier]."""
    kernel = as_tensor(kernel)
    height, width, inputs, multiplier = kernel.shape
    window = _window((height, width), pair(strides), padding, pair(dilations))
    patches = _op["windows"](x, window=window, fill=0.0)
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


def _pooled(size: Any, strides: Any, padding: str) -> Window:
    return _window(pair(size), pair(strides), padding, (1, 1))


def max_pool2d(x: Any, size: Any, strides: Any, padding: str) -> Tensor:
    patches = _op["windows"](x, window=_pooled(size, strides, padding), fill=-np.inf)
    return _op["window_max"](patches, axis=(3, 4))


def avg_pool2d(x: Any, size: Any, strides: Any, padding: str) -> Tensor:
    """Return means over windows; what lies outside the image does not count."""
    window = _pooled(size, strides, padding)
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
