"""Windows over images, and pooling.

`windows` and `windows_back` are each other's transposes, so either's gradient is the other.  An
image has any number of axes: a row of a time series one, a picture two, a volume three.

    windows:  image [batch, *axes of the image, channels]
           -> [batch, *places, *axes of the window, channels]

Products of windows with a kernel are in `convolution`, which never has all windows in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..parts import cut, share
from ..tensor import OPERATIONS, Tensor, as_tensor, define

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Window", "avg_pool", "check", "margins", "max_pool", "of_image", "onto", "over", "pair", "places",
    "spare", "window_of",
]  # fmt: skip

_op = OPERATIONS


class Window(NamedTuple):
    """The size of a window, the stride, the dilation, and the margins of the image."""

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


def window_of(size: Any, strides: Any, padding: str, dilation: Any = None) -> Window:
    if padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"padding must be 'SAME' or 'VALID', got {padding!r}")
    return Window(tuple(size), tuple(strides), tuple(dilation or (1,) * len(size)), padding.upper() == "SAME")


def pair(value: Any) -> tuple[int, int]:
    """Return two numbers of an argument that gives one, two, or four with those of batch and channels."""
    if isinstance(value, int):
        return value, value
    numbers = tuple(int(number) for number in value)
    if len(numbers) == 4:
        return numbers[1], numbers[2]
    return (numbers[0], numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def margins(image: tuple[int, ...], window: Window) -> list[tuple[int, int]]:
    """Return what is put before and after each image axis: TensorFlow's SAME puts the odd one after."""
    found = []
    for dim, reach, stride in zip(image, window.reach, window.strides, strict=True):
        need = max((-(-dim // stride) - 1) * stride + reach - dim, 0) if window.same else 0
        found.append((need // 2, need - need // 2))
    return found


def places(image: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """Return how many windows there are along each axis of an image."""
    return tuple(
        -(-dim // stride) if window.same else (dim - reach) // stride + 1
        for dim, reach, stride in zip(image, window.reach, window.strides, strict=True)
    )


def spare(image: tuple[int, ...], window: Window) -> int:
    """Return the largest part of an image after the last window, along any axis."""
    ends = [
        (count - 1) * stride + reach
        for count, stride, reach in zip(places(image, window), window.strides, window.reach, strict=True)
    ]
    return max(dim - end for dim, end in zip(image, ends, strict=True))


def check(x: Any, window: Window) -> None:
    """Raise ValueError where a window is not over such images."""
    if x.ndim != window.rank + 2:
        raise ValueError(f"a window of {window.size} is over tensors of rank {window.rank + 2}, not {x.ndim}")
    image = tuple(
        dim + sum(margin) for dim, margin in zip(x.shape[1:-1], margins(x.shape[1:-1], window), strict=True)
    )
    if any(dim < reach for dim, reach in zip(image, window.reach, strict=True)):
        raise ValueError(f"a window of {window.reach} does not fit into an image of {image}")


def _padded(x: Any, window: Window, fill: float) -> Any:
    around = margins(x.shape[1:-1], window)
    if not any(map(any, around)):
        return x
    return np.pad(x, [(0, 0), *around, (0, 0)], constant_values=fill)


def over(padded: Any, window: Window) -> Any:
    """Return a view of the windows over an image that has its margins."""
    axes = tuple(range(1, window.rank + 1))
    view = np.lib.stride_tricks.sliding_window_view(padded, window.reach, axis=axes, writeable=True)
    steps, spreads = ([slice(None, None, step) for step in steps] for steps in window[1:3])
    return np.moveaxis(view[(slice(None), *steps, slice(None), *spreads)], window.rank + 1, -1)


def reached(counts: tuple[int, ...], window: Window) -> list[tuple[slice, ...]]:
    """Return, for each position in a window, the elements of a padded image at that position in all
    windows.
    """
    return [
        (
            slice(None),
            *(
                slice(place * spread, place * spread + count * stride, stride)
                for place, spread, count, stride in zip(
                    at, window.dilation, counts, window.strides, strict=True
                )
            ),
        )
        for at in np.ndindex(*window.size)
    ]


def _windows(x: Any, window: Window, fill: float) -> Any:
    check(x, window)
    return np.ascontiguousarray(over(_padded(x, window, fill), window))


def onto(g: Any, image: tuple[int, ...], window: Window) -> Any:
    """Return an image of a size, each element the sum of the window elements at its place."""
    around = margins(image, window)
    padded = [dim + sum(margin) for dim, margin in zip(image, around, strict=True)]
    out = np.zeros((len(g), *padded, g.shape[-1]), g.dtype)
    # One addition for each place in the window: windows overlap, places of one kind do not.
    counts = g.shape[1 : window.rank + 1]
    for at, elements in zip(np.ndindex(*window.size), reached(counts, window), strict=True):
        out[elements] += g[(slice(None),) * (window.rank + 1) + at]
    inside = (slice(before, before + dim) for (before, _), dim in zip(around, image, strict=True))
    return out[(slice(None), *inside)]


define("windows", _windows, lambda g, out, x, window, fill: _op["windows_back"](g, x, window=window))
define(
    "windows_back",
    lambda g, like, window: onto(g, like.shape[1:-1], window),
    lambda g, out, value, like, window: _op["windows"](g, window=window, fill=0.0),
    None,
)


# A window's largest element.  TensorFlow gives its gradient to one element, the first of equals.


def _examples(x: Any) -> list[slice]:
    """Return the examples of a batch in parts, each large enough to be worth handing to another thread."""
    return cut(len(x), 1 + _LEAST_ELEMENTS * len(x) // max(x.size, 1))


_LEAST_ELEMENTS = 1 << 15
"""Some 30 microseconds of moving elements, several times what handing a part over costs."""


def _max_pool(x: Any, window: Window) -> Any:
    check(x, window)
    counts = places(x.shape[1:-1], window)
    out = np.empty((len(x), *counts, x.shape[-1]), x.dtype)

    def work(rows: slice) -> None:
        padded = _padded(x[rows], window, -np.inf)
        first, *others = reached(counts, window)
        out[rows] = padded[first]
        for elements in others:
            np.maximum(out[rows], padded[elements], out=out[rows])

    share(work, _examples(x))
    return out


def _max_pool_back(g: Any, x: Any, out: Any, window: Window) -> Any:
    """Return an image of zeros, and of the gradients of windows at their first largest element."""
    counts, around = out.shape[1:-1], margins(x.shape[1:-1], window)
    sizes = [dim + sum(margin) for dim, margin in zip(x.shape[1:-1], around, strict=True)]
    total = np.zeros((len(x), *sizes, x.shape[-1]), g.dtype)

    def work(rows: slice) -> None:
        for elements, hit in _first_largest(_padded(x[rows], window, -np.inf), out[rows], counts, window):
            total[rows][elements] += hit * g[rows]

    share(work, _examples(x))
    inside = (slice(before, before + dim) for (before, _), dim in zip(around, x.shape[1:-1], strict=True))
    return total[(slice(None), *inside)]


def _max_pool_pick(h: Any, x: Any, out: Any, window: Window) -> Any:
    """Return of each window of h the element that is where the first largest of x is."""
    found = np.zeros_like(out)
    padded = _padded(h, window, 0)
    wide = _padded(x, window, -np.inf)
    for elements, hit in _first_largest(wide, out, out.shape[1:-1], window):
        found += hit * padded[elements]
    return found


def _first_largest(padded: Any, out: Any, counts: tuple[int, ...], window: Window) -> Iterator[Any]:
    """Yield, for each position in a window, its elements, and which of them are the first largest."""
    free = np.ones(out.shape, bool)
    for elements in reached(counts, window):
        hit = padded[elements] == out
        hit &= free
        free ^= hit
        yield elements, hit


define("max_pool", _max_pool, lambda g, out, x, window: _op["max_pool_back"](g, x, out, window=window))
define(
    "max_pool_back",
    _max_pool_back,
    lambda h, back, g, x, out, window: _op["max_pool_pick"](h, x, out, window=window),
    lambda h, back, g, x, out, window: _op["zeros_like"](x),  # TensorFlow has zeros there, and not None.
    None,
)
define(
    "max_pool_pick",
    _max_pool_pick,
    lambda g, picked, h, x, out, window: _op["max_pool_back"](g, x, out, window=window),
    None,
    None,
)


def max_pool(x: Any, window: Window) -> Tensor:
    return _op["max_pool"](x, window=window)


def avg_pool(x: Any, window: Window) -> Tensor:
    """Return means over windows; elements outside the image do not count."""
    tensor = as_tensor(x)
    patches = _op["windows"](tensor, window=window, fill=0.0)
    inside = _op["windows"](_op["ones_like"](tensor), window=window, fill=0.0)
    axes = tuple(range(window.rank + 1, 2 * window.rank + 1))
    total = _op["reduce_sum"](patches, axis=axes, keepdims=False)
    return total / _op["reduce_sum"](inside, axis=axes, keepdims=False)


def of_image(size: Any, strides: Any, padding: str) -> Window:
    """Return the window that `tf.nn.max_pool2d` describes."""
    return window_of(pair(size), pair(strides), padding)
