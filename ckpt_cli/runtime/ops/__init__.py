"""The operations, by what they are about; importing this package fills the table."""

from __future__ import annotations

from ..tensor import OPERATIONS
from . import (
    arrays,
    convolution,
    elementwise,
    neural,
    normalization,
    picking,
    random,
    reductions,
    state,
    training,
    windows,
)

__all__ = [
    "arrays", "convolution", "elementwise", "neural", "normalization", "picking", "random", "reductions",
    "state", "training", "windows",
]  # fmt: skip

_FLOATS, _NUMBERS = "fV", "fVciu"
_TAKES = {
    _FLOATS: (
        "floor ceil erf softplus is_nan is_inf is_finite softmax log_softmax atan2 reduce_logsumexp "
        "cross_entropy sparse_cross_entropy"
    ),
    "fVc": ("sqrt rsqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh sigmoid reciprocal"),
    "fVic": "abs",
    "fViu": "round relu maximum minimum less less_equal greater greater_equal floordiv floormod "
    "reduce_max reduce_min",
    "fVci": "negative sign pow squared_difference matmul",
    "fViub": "argmax argmin",
    _NUMBERS: "subtract multiply square reduce_sum reduce_mean reduce_prod cumsum",
    _NUMBERS + "O": "add",
    "b": "logical_not logical_and logical_or logical_xor reduce_any reduce_all",
    "biu": "bitwise_and bitwise_or bitwise_xor",
    "iu": "invert",
    _NUMBERS + "b": "ones_like",
}
"""By the kinds of dtypes, as numpy calls them, that TensorFlow's kernels have: the operations."""

for _kinds, _names in _TAKES.items():
    for _name in _names.split():
        OPERATIONS[_name].takes = _kinds
