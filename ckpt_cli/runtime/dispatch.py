"""Public functions on symbolic tensors: there they make a layer, as in Keras."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from .nest import flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["dispatch"]

_NAMES = {
    "tf.math": (
        "abs", "add", "argmax", "argmin", "ceil", "cos", "cumsum", "divide", "equal", "erf", "exp",
        "expm1", "floor", "floordiv", "floormod", "greater", "greater_equal", "less", "less_equal",
        "log", "log1p", "logical_and", "logical_not", "logical_or", "maximum", "minimum", "multiply",
        "multiply_no_nan", "negative", "not_equal", "pow", "reciprocal", "reduce_all", "reduce_any",
        "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std",
        "reduce_sum", "reduce_variance", "round", "rsqrt", "sigmoid", "sign", "sin", "softplus", "sqrt",
        "square", "squared_difference", "subtract", "tan", "tanh",
    ),
    "tf.linalg": ("matmul", "einsum", "norm", "matvec"),
    "tf.compat.v1": ("transpose", "gather", "gather_nd", "pad", "shape", "squeeze", "size"),
}  # fmt: skip
"""Keras' names for the layers of functions that are public in several places."""

_LAYERS = {"math": "tf.math.", "linalg": "tf.linalg.", "nn": "tf.nn.", "": "tf."}


def dispatch(namespace: dict[str, Any], names: Iterable[str], module: str = "") -> None:
    """Let functions of a module take symbolic tensors."""
    for name in names:
        function = namespace[name]
        if callable(function) and not isinstance(function, type):
            namespace[name] = _dispatched(function, _layer_name(module, name))


def _layer_name(module: str, name: str) -> str:
    if module in ("", "math", "linalg"):
        for place, public in _NAMES.items():
            if name in public:
                return f"{place}.{name}"
    return _LAYERS[module] + name


def _dispatched(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, AttributeError):
            for leaf in flatten([list(args), kwargs]):
                if hasattr(leaf, "_applied"):
                    return leaf._applied(function, name, args, kwargs)
            raise

    return called
