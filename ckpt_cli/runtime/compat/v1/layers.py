"""tf.compat.v1.layers: layers as functions, their variables under `dense`, `dense_1`, ..."""

from __future__ import annotations

import math
from typing import Any

from ... import nn
from ...keras.initializers import GlorotUniform, Zeros
from ...keras.initializers import get as initializer_of
from ...names import name_scope, unique_name
from ...shaping import reshape, transpose
from ...tensor import Tensor, as_tensor
from ...unknown import absent, refuse
from ...variable import Variable

__all__ = ["dense", "dropout", "flatten"]


def dense(
    inputs: Any,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Return activation(inputs @ kernel + bias)."""
    refuse(
        "layers.dense", kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer,
        activity_regularizer=activity_regularizer, reuse=reuse,
    )  # fmt: skip
    x = as_tensor(inputs)
    with name_scope(name or unique_name("dense")):
        first = initializer_of(kernel_initializer or GlorotUniform())((x.shape[-1], units), x.dtype)
        kernel = Variable(first, trainable=trainable, name="kernel", constraint=kernel_constraint)
        out = x @ kernel
        if use_bias:
            first = initializer_of(bias_initializer or Zeros())((units,), x.dtype)
            bias = Variable(first, trainable=trainable, name="bias", constraint=bias_constraint)
            out = nn.bias_add(out, bias)
    return activation(out) if activation is not None else out


def dropout(
    inputs: Any, rate: float = 0.5, noise_shape: Any = None, seed: Any = None, training: bool = False,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return the inputs with a share of them zero and the others scaled up, where it is training."""
    refuse("layers.dropout", noise_shape=noise_shape)
    return nn.dropout(inputs, rate, seed=seed) if training else as_tensor(inputs)


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Tensor:
    """Return each example's values in one row, the channels of a place next to each other."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"The `data_format` argument must be channels_first or channels_last: {data_format}")
    x = as_tensor(inputs)
    if data_format == "channels_first" and x.ndim > 2:
        x = transpose(x, [0, *range(2, x.ndim), 1])
    return reshape(x, [-1, math.prod(x.shape[1:])])


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
