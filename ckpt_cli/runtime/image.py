"""tf.image: sizes, mirrors and dtypes of images, whose channels are last."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .errors import InvalidArgumentError
from .ops.elementwise import cast
from .random import uniform
from .shaping import gather, reverse
from .tensor import OPERATIONS, Tensor, as_tensor
from .unknown import absent, refuse

__all__ = ["convert_image_dtype", "flip_left_right", "flip_up_down", "random_crop", "resize"]

_op = OPERATIONS


def _images(x: Any) -> Tensor:
    tensor = as_tensor(x)
    if tensor.ndim not in (3, 4):
        raise ValueError(f"'images' must have either 3 or 4 dimensions, got {tensor.shape}")
    return tensor


def flip_left_right(image: Any) -> Tensor:
    x = _images(image)
    return reverse(x, [x.ndim - 2])


def flip_up_down(image: Any) -> Tensor:
    x = _images(image)
    return reverse(x, [x.ndim - 3])


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Return an image in a dtype: floats are in [0, 1), integers as large as they can be."""
    x, wanted = as_tensor(image), dtypes.as_dtype(dtype)
    if not (wanted.is_floating or wanted.is_integer):
        raise AttributeError("dtype must be either floating point or integer")
    if x.dtype == wanted:
        return x
    if wanted.is_floating:
        return cast(x, wanted) if x.dtype.is_floating else cast(x, wanted) * (1.0 / x.dtype.max)
    refuse("convert_image_dtype", dtype=None if x.dtype.is_floating else f"{wanted.name} of {x.dtype.name}")
    scaled = x * (wanted.max + 0.5)
    if saturate:
        scaled = _op["maximum"](_op["minimum"](scaled, float(wanted.max)), float(wanted.min))
    return cast(scaled, wanted)


def random_crop(value: Any, size: Any, seed: Any = None, name: str | None = None) -> Tensor:
    x, sizes = as_tensor(value), as_tensor(size)
    room = as_tensor(np.array(x.shape, sizes._value.dtype)) - sizes
    if (room._value < 0).any():
        raise InvalidArgumentError(f"Need value.shape >= size, got {x.shape} and {sizes.numpy()}")
    kind = dtypes.as_dtype(sizes.dtype)
    drawn = uniform(sizes.shape, 0, kind.max, kind, seed) % (room + 1)
    pairs = zip(drawn.numpy().tolist(), sizes.numpy().tolist(), strict=True)
    return x[tuple(slice(start, start + count) for start, count in pairs)]


def resize(
    images: Any, size: Any, method: Any = "bilinear", preserve_aspect_ratio: bool = False,
    antialias: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return images of another height and width: as float32, or the nearest elements as they are."""
    known = method if method in ("bilinear", "nearest") else None
    refuse("resize", method=None if known else method, antialias=antialias,
           preserve_aspect_ratio=preserve_aspect_ratio)  # fmt: skip
    x = _images(images)
    height, width = (int(one) for one in as_tensor(size)._value)
    if min(height, width) <= 0:
        raise InvalidArgumentError("output dimensions must be positive [Op:ResizeBilinear]")
    x = x if method == "nearest" or (height, width) == tuple(x.shape[-3:-1]) else cast(x, "float32")
    for axis, wanted in ((x.ndim - 3, height), (x.ndim - 2, width)):
        x = _resized(x, axis, wanted, is_nearest=method == "nearest")
    return x if method == "nearest" else cast(x, "float32")


def _resized(x: Tensor, axis: int, wanted: int, *, is_nearest: bool) -> Tensor:
    size = x.shape[axis]
    if size == wanted:
        return x
    centers = (np.arange(wanted, dtype=np.float32) + np.float32(0.5)) * np.float32(size / wanted)
    if is_nearest:
        return gather(x, np.minimum(np.floor(centers), size - 1).astype("i4"), axis=axis)
    places = centers - np.float32(0.5)
    low = np.floor(places)
    share = (places - low).reshape(-1, *[1] * (x.ndim - axis - 1))
    first, second = (gather(x, np.clip(low + more, 0, size - 1).astype("i4"), axis=axis) for more in (0, 1))
    return first + (second - first) * share


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
