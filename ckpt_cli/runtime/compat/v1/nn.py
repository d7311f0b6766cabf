"""tf.compat.v1.nn: tf.nn with the arguments of TensorFlow 1."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...nn import *  # noqa: F403
from ...nn import __all__ as _names
from ...signatures import with_signature
from ...tensor import OPERATIONS
from ...unknown import absent

__all__ = list(_names)

_SIGNATURES = {
    "avg_pool": "value=input:None ksize:None strides:None padding:None data_format:'NHWC' name input",
    "conv1d": (
        "value=input:None filters:None stride:None padding:None use_cudnn_on_gpu=name:None data_format:None "
        "name input dilations"
    ),
    "max_pool": "value=input:None ksize:None strides:None padding:None data_format:'NHWC' name input",
    "avg_pool2d": "value=input:None ksize:None strides:None padding:None data_format:'NHWC' name input",
    "conv2d": (
        "input filter=filters strides padding use_cudnn_on_gpu=name:True data_format:'NHWC' "
        "dilations:[1,1,1,1] name filters"
    ),
    "conv2d_transpose": (
        "value=input:None filter=filters:None output_shape:None strides:None padding:'SAME' "
        "data_format:'NHWC' name input filters dilations"
    ),
    "depthwise_conv2d": "input filter strides padding rate=dilations name data_format dilations",
    "embedding_lookup": "params ids !partition_strategy:'mod' name !validate_indices:True max_norm",
    "log_softmax": "logits axis name dim=axis",
    "moments": "x axes shift name keep_dims=keepdims keepdims:None",
    "softmax": "logits axis name dim=axis",
}
globals().update(
    {name: with_signature(getattr(nn, name), signature) for name, signature in _SIGNATURES.items()}
)


def softmax_cross_entropy_with_logits(  # type: ignore[no-redef]
    labels: Any = None, logits: Any = None, dim: int = -1, name: str | None = None, axis: Any = None
) -> Any:
    """Return the loss of each example; labels are taken for constants."""
    axis = dim if axis is None else axis
    return nn.softmax_cross_entropy_with_logits(OPERATIONS["stop_gradient"](labels), logits, axis)


def dropout(  # type: ignore[no-redef]
    x: Any = None, keep_prob: Any = None, noise_shape: Any = None, seed: Any = None, name: str | None = None,
    rate: Any = None,
) -> Any:  # fmt: skip
    if (keep_prob is None) == (rate is None):
        raise ValueError("Only one of keep_prob and rate can be given, and one must be.")
    return nn.dropout(x, rate if rate is not None else 1 - keep_prob, noise_shape, seed)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
