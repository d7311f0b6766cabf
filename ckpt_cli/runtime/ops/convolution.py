"""Convolution: products of windows over an image with a kernel.

The windows of a whole batch are many times its size, so they are never all in memory: those of a few rows of
an image are copied at a time, so that they and their product stay in a processor's cache. A kernel of one
element needs no copy.

    convolve:         image, kernel            -> [batch, *places, out]
    convolve_back:    its gradient, kernel     -> image
    convolve_kernel:  image, its gradient      -> kernel

Each is linear in both, and the gradients of each are the other two.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..parts import cut, share
from ..tensor import OPERATIONS, Tensor, as_tensor, define
from .windows import Window, check, margins, onto, over, pair, places, window_of

__all__ = ["conv2d", "convolution", "depthwise_conv2d", "transposed"]

_op = OPERATIONS
_ELEMENTS = 1 << 18
"""Of a copy of windows: 1 MiB of float32, half of a processor's second cache."""

_LEAST_WINDOWS = 128
"""Of a product, which has to read the whole kernel, however few windows there are."""

_SUMS = 8
"""How many sums a kernel's gradient is added up in, each by one thread: as many times its memory."""


def _parts(batch: int, counts: tuple[int, ...], width: int) -> list[tuple[slice, slice]]:
    """Return the examples, and the positions along the first axis, whose windows are copied at a time."""
    others = math.prod(counts[1:])
    rows = max(_ELEMENTS // max(width, 1), _LEAST_WINDOWS) // max(others, 1)
    if rows >= counts[0]:
        several = rows // max(counts[0], 1)
        return [(slice(at, min(at + several, batch)), slice(0, counts[0])) for at in range(0, batch, several)]
    rows = max(rows, 1)
    starts = range(0, counts[0], rows)
    return [
        (slice(at, at + 1), slice(start, min(start + rows, counts[0])))
        for at in range(batch)
        for start in starts
    ]


def _seen(x: Any, window: Window, around: list[tuple[int, int]]) -> Any:
    """Return a view of the windows over images, to which margins are added."""
    if any(map(any, around)):
        sizes = [size + sum(margin) for size, margin in zip(x.shape[1:-1], around, strict=True)]
        inside = [
            slice(before, before + size) for size, (before, _) in zip(x.shape[1:-1], around, strict=True)
        ]
        out = np.zeros((len(x), *sizes, x.shape[-1]), x.dtype)

        def work(examples: slice) -> None:
            out[(examples, *inside)] = x[examples]

        share(work, cut(len(x), max(1, len(x) * _ELEMENTS // max(x.size, 1))))
        x = out
    return over(x, window)


def _products(
    x: Any, kernel: Any, window: Window, around: list[tuple[int, int]], counts: tuple[int, ...]
) -> Any:
    """Return the products of all windows over images with margins, and a kernel."""
    outputs = kernel.shape[-1]
    matrix = kernel.reshape(-1, outputs)
    seen, out = _seen(x, window, around), np.empty((len(x), *counts, outputs), x.dtype)

    def work(part: tuple[slice, slice]) -> None:
        # A part is a run of whole examples or one example's run of rows, so its outputs are contiguous, too.
        np.matmul(seen[part].reshape(-1, len(matrix)), matrix, out=out[part].reshape(-1, outputs))

    share(work, _parts(len(x), counts, max(matrix.shape)))
    return out


def _convolve(x: Any, kernel: Any, window: Window) -> Any:
    if not kernel.shape[-1] or (window.same and x.shape[-1] and not x.size):
        return np.zeros((len(x), *places(x.shape[1:-1], window), kernel.shape[-1]), x.dtype)
    check(x, window)
    if kernel.shape[-2] != x.shape[-1]:
        raise ValueError(f"a kernel {kernel.shape} does not fit images of {x.shape[-1]} channels")
    image = x.shape[1:-1]
    return _products(x, kernel, window, margins(image, window), places(image, window))


def _convolve_onto(g: Any, kernel: Any, image: tuple[int, ...], window: Window) -> Any:
    """Return an image of a size: each element of g times the kernel, added at its window."""
    if not g.size or not math.prod(image):
        return np.zeros((len(g), *image, kernel.shape[-2]), g.dtype)
    axes = tuple(range(window.rank))
    if max(window.strides) == 1:
        # The windows of g that contain an element of the image, with the kernel reversed.
        turned = np.ascontiguousarray(np.flip(kernel, axes).swapaxes(-1, -2))
        around = [
            (reach - 1 - before, reach - 1 - after)
            for reach, (before, after) in zip(window.reach, margins(image, window), strict=True)
        ]
        return _products(g, turned, window, around, image)
    *size, inputs, outputs = kernel.shape
    matrix = kernel.reshape(-1, outputs).T
    counts = g.shape[1:-1]
    out = np.empty((len(g), *image, inputs), g.dtype)

    def work(part: slice) -> None:
        patches = (g[part].reshape(-1, outputs) @ matrix).reshape(-1, *counts, *size, inputs)
        out[part] = onto(patches, image, window)

    several = max(1, _ELEMENTS // max(math.prod(counts) * len(matrix.T), 1))
    share(work, [slice(at, at + several) for at in range(0, len(g), several)])
    return out


def _convolve_kernel(x: Any, g: Any, size: tuple[int, ...], window: Window) -> Any:
    """Return a kernel: the sum over all windows of their elements times those of g."""
    inputs, outputs = x.shape[-1], g.shape[-1]
    width = math.prod(size) * inputs
    if not x.size or not g.size:
        return np.zeros((*size, inputs, outputs), x.dtype)
    seen = _seen(x, window, margins(x.shape[1:-1], window))
    parts = _parts(len(x), g.shape[1:-1], max(width, outputs))
    runs = cut(len(parts), max(1, len(parts) // _SUMS))
    sums = np.zeros((len(runs), width, outputs), x.dtype)

    def work(run: int) -> None:
        for part in parts[runs[run]]:
            sums[run] += seen[part].reshape(-1, width).T @ g[part].reshape(-1, outputs)

    share(work, range(len(runs)))
    return sums.sum(axis=0).reshape(*size, inputs, outputs)


define(
    "convolve",
    _convolve,
    lambda g, out, x, kernel, window: _op["convolve_back"](g, kernel, x, window=window),
    lambda g, out, x, kernel, window: _op["convolve_kernel"](x, g, window=window),
    promotes=True,
)
_of_gradient = (
    lambda h, out, g, kernel, *like, window, **image: _op["convolve"](h, kernel, window=window),
    lambda h, out, g, kernel, *like, window, **image: _op["convolve_kernel"](h, g, window=window),
)
define(
    "convolve_back",
    lambda g, kernel, like, window: _convolve_onto(g, kernel, like.shape[1:-1], window),
    *_of_gradient,
    None,
)
define("convolve_onto", _convolve_onto, *_of_gradient, promotes=True)
define(
    "convolve_kernel",
    lambda x, g, window: _convolve_kernel(x, g, window.size, window),
    lambda h, out, x, g, window: _op["convolve_back"](g, h, x, window=window),
    lambda h, out, x, g, window: _op["convolve"](x, h, window=window),
)


def conv2d(x: Any, kernel: Any, strides: Any, padding: str, dilations: Any = 1) -> Tensor:
    """Return the convolution of images [batch, height, width, in] with a kernel [height, width, in, out]."""
    return convolution(x, kernel, pair(strides), padding, pair(dilations))


def convolution(x: Any, kernel: Any, strides: Any, padding: str, dilations: Any) -> Tensor:
    """Return the convolution of [batch, *axes, in] with a kernel [*axes, in, out], a number for each axis."""
    kernel = as_tensor(kernel)
    return _op["convolve"](x, kernel, window=window_of(kernel.shape[:-2], strides, padding, dilations))


def transposed(
    x: Any, kernel: Any, image: tuple[int, ...], strides: Any, padding: str, dilations: Any
) -> Tensor:
    """Return the transpose of `convolution` with these options: an image of a size from one like x.

    x is [batch, *places, in], the kernel [*axes, out, in].  Raises ValueError where windows
    over such an image have other places.
    """
    x, kernel = as_tensor(x), as_tensor(kernel)
    window = window_of(kernel.shape[:-2], strides, padding, dilations)
    found = tuple(x.shape[1:-1])
    if found != places(image, window):
        raise ValueError(
            f"windows over an image of {image} have the places {places(image, window)}, not {found}"
        )
    return _op["convolve_onto"](x, kernel, image=image, window=window)


def depthwise_conv2d(x: Any, kernel: Any, strides: Any, padding: str, dilations: Any = 1) -> Tensor:
    """Return each channel convolved by itself; kernel [height, width, in, multiplier]."""
    kernel = as_tensor(kernel)
    height, width, inputs, multiplier = kernel.shape
    window = window_of((height, width), pair(strides), padding, pair(dilations))
    patches = _op["windows"](x, window=window, fill=0.0)
    shape = patches.shape
    out = _op["einsum"](patches, kernel, equation="bhwijc,ijcm->bhwcm")
    return _op["reshape"](out, shape=(-1, shape[1], shape[2], inputs * multiplier))
