"""Activations by name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..dtypes import as_numpy
from ..errors import InvalidArgumentError
from ..functions import clip_by_value
from ..ops.elementwise import cast, where
from ..ops.neural import KERAS, keep_logits
from ..tensor import OPERATIONS, Tensor, as_tensor
from ..unknown import absent

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "elu", "exponential", "gelu", "get", "hard_sigmoid", "leaky_relu", "linear", "log_softmax", "mish",
    "relu", "selu", "sigmoid", "softmax", "softplus", "softsign", "swish", "tanh",
]  # fmt: skip

_op = OPERATIONS
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def linear(x: Any) -> Any:
    return x


def relu(x: Any, alpha: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Tensor:
    """Return x above a threshold, at most `max_value`, and below `alpha` times what is missing to it.

    At the bends values and gradients are those of Keras, which has another operation for each case.
    keras/src/backend.py: relu
    """
    x = as_tensor(x)
    if alpha and max_value is None and not threshold:
        return leaky_relu(x, alpha)
    out = x * cast(x > threshold, x.dtype) if threshold else _op["relu"](x)
    if max_value == 6 and not threshold:
        out = where(x >= 6, _op["ones_like"](x) * 6, out)
    elif max_value is not None:
        out = clip_by_value(out, 0, max_value)
    return out - alpha * _op["relu"](threshold - x) if alpha else out


def leaky_relu(x: Any, alpha: float = 0.2) -> Tensor:
    x = as_tensor(x)
    if x._value.dtype.kind in "iu":
        x = cast(x, "float32")
    return _op["leaky_relu"](_floating("LeakyRelu", x), alpha=float(alpha))


def _floating(name: str, x: Any) -> Tensor:
    tensor = as_tensor(x)
    if not tensor.dtype.is_floating:
        raise InvalidArgumentError(
            f"Value for attr 'T' of {tensor.dtype.name} is not in the list of allowed values: half, "
            f"bfloat16, float, double [Op:{name}]"
        )
    return tensor


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    x = _floating("Elu", x)
    found = where(x < 0, _below(x), x)
    return found if alpha == 1 else where(x > 0, found, alpha * found)


def _below(x: Tensor) -> Tensor:
    """Return exp(x) - 1 where x is negative; TensorFlow's slope is 1 at NaN."""
    is_nan = _op["is_nan"](x)
    return where(is_nan, x, _op["expm1"](_op["minimum"](where(is_nan, 0.0, x), 0)))


def selu(x: Any) -> Tensor:
    x = _floating("Selu", x)
    return _SELU_SCALE * where(x < 0, _SELU_ALPHA * _below(x), x)  # at 0 the slope is that of above


def gelu(x: Any, approximate: bool = False) -> Tensor:
    x = as_tensor(x)
    if not x.dtype.is_floating:
        raise ValueError(f"`features.dtype` must be a floating point tensor. Received: {x.dtype}")
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return 0.5 * x * (1 + _op["tanh"](inner))
    return 0.5 * x * (1 + _op["erf"](x / math.sqrt(2)))


def hard_sigmoid(x: Any) -> Tensor:
    return _op["maximum"](_op["minimum"](0.2 * as_tensor(x) + 0.5, 1), 0)


def softmax(x: Any, axis: Any = -1) -> Tensor:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ValueError(f"Cannot apply softmax to a tensor that is 1D. Received input: {x}")
    return keep_logits(_op["softmax"](x, axis=tuple(axis) if isinstance(axis, list) else axis), x, KERAS)


def log_softmax(x: Any, axis: int = -1) -> Tensor:
    return _op["log_softmax"](x, axis=axis)


def sigmoid(x: Any) -> Tensor:
    x = as_tensor(x)
    return keep_logits(_op["sigmoid"](x), x, KERAS)


def tanh(x: Any) -> Tensor:
    return _op["tanh"](x)


def softplus(x: Any) -> Tensor:
    return _op["softplus"](x)


def softsign(x: Any) -> Tensor:
    x = _floating("Softsign", x)
    return x / (abs(x) + 1)


def exponential(x: Any) -> Tensor:
    return _op["exp"](x)


def swish(x: Any) -> Tensor:
    x = as_tensor(x)
    return x * _op["sigmoid"](x)


def mish(x: Any) -> Tensor:
    x = as_tensor(x)
    return x * _op["tanh"](_op["softplus"](x))


silu = swish


def relu6(x: Any) -> Tensor:
    return relu(x, max_value=6.0)


_BY_NAME: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        linear, relu, leaky_relu, elu, selu, gelu, hard_sigmoid, softmax, log_softmax, sigmoid, tanh,
        softplus, softsign, exponential, swish, mish,
    )
} | {"silu": swish, "relu6": relu6}  # fmt: skip


def get(identifier: Any) -> Callable[..., Any]:
    """Return the activation that a name or a function stands for; None is the linear one."""
    if identifier is None:
        return linear
    if isinstance(identifier, str):
        if identifier not in _BY_NAME:
            raise ValueError(f"Unknown activation function: '{identifier}'.")
        return _BY_NAME[identifier]
    if callable(identifier):
        return identifier
    raise TypeError(f"Could not interpret activation function identifier: {identifier}")


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def as_float(x: Any, dtype: Any) -> Tensor:
    """Return an input brought to a layer's dtype, if it is of another floating one."""
    tensor = as_tensor(x)
    if tensor._value.dtype == as_numpy(dtype):  # by far the most common case
        return tensor
    return cast(tensor, dtype) if tensor.dtype.is_floating else tensor


def is_known(name: str, function: Any) -> bool:
    """Whether a name stands for this very function."""
    return _BY_NAME.get(name) is function


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
