"""Masks: which places of a tensor count, carried along from layer to layer.

A mask is an attribute of its tensor, `_keras_mask`; results of operations on that tensor have none. A layer
passes the masks of its inputs to `call`, if that has a parameter `mask`, and sets the result of
`compute_mask` on its outputs, if it supports masking. Losses and metrics use the mask of the predictions.
keras/src/engine/base_layer.py: _get_input_masks, _set_mask_metadata
"""

from __future__ import annotations

from typing import Any

from ..nest import flatten, pack_sequence_as
from ..ops.elementwise import cast
from ..tensor import OPERATIONS, Tensor, as_tensor

__all__ = ["all_of", "as_mask", "hang_mask", "hang_masks", "mask_of", "masks_of", "weighted_moments"]

_op = OPERATIONS


def mask_of(tensor: Any) -> Any:
    """Return the mask that hangs on a tensor; None where there is none."""
    return getattr(tensor, "_keras_mask", None)


def masks_of(inputs: Any) -> Any:
    """Return the masks of inputs in their structure; None where no input has one."""
    if inputs.__class__ is Tensor:
        return mask_of(inputs)
    found = [mask_of(leaf) for leaf in flatten(inputs)]
    return None if all(one is None for one in found) else pack_sequence_as(inputs, found)


def hang_mask(tensor: Any, mask: Any) -> None:
    """Say which places of a tensor count; what cannot carry a mask, as an array, gets none."""
    if isinstance(tensor, Tensor):
        tensor._keras_mask = mask


def hang_masks(tensors: list[Any], masks: list[Any] | None) -> None:
    """Say of several tensors which places count; None takes from all of them what masks they have."""
    for tensor, mask in zip(tensors, [None] * len(tensors) if masks is None else masks, strict=True):
        hang_mask(tensor, mask)


def all_of(masks: Any) -> Any:
    """Return the conjunction of masks; None means no mask, and is true everywhere."""
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found & mask
    return found


def weighted_moments(x: Tensor, axes: list[int], weights: Any) -> tuple[Any, Any]:
    """Return mean and variance over some axes, which are kept, each element as often as its weight says."""
    every = cast(weights, x.dtype) * _op["ones_like"](x)
    count = _op["reduce_sum"](every, axis=tuple(axes), keepdims=True)
    divide = _op["divide_no_nan"]  # Where nothing counts both are 0.
    mean = divide(_op["reduce_sum"](x * every, axis=tuple(axes), keepdims=True), count)
    apart = _op["squared_difference"](x, mean) * every
    return mean, divide(_op["reduce_sum"](apart, axis=tuple(axes), keepdims=True), count)


def as_mask(mask: Any) -> Any:
    """Return a mask as booleans."""
    return cast(as_tensor(mask), "bool")
