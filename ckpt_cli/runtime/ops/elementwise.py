"""Operations element by element, with broadcasting.

A rule sums over broadcast axes by `sum_like(g, x)`, which uses x itself and not a shape, so that a recorded
rule works for the next batch of any size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import as_dtype, as_numpy
from ..errors import InvalidArgumentError, UnimplementedError
from ..tensor import OPERATIONS, Operation, Tensor, as_tensor, define, observers
from .rows import LARGE, Rows, in_parts

__all__ = ["abs_", "add", "cast", "maximum", "minimum", "multiply", "sum_like", "where"]


def _sum_to(value: Any, like: Any) -> Any:
    shape = like.shape
    if value.shape == shape:
        return value
    extra = value.ndim - len(shape)
    if extra == 1 and value.shape[1:] == shape and value.size < LARGE:  # a bias's, by far the most common
        return np.add.reduce(value, axis=0)
    if extra == value.ndim - 1 and value.size >= LARGE:
        rows = Rows(value)
        flat = rows.of(value)
        value = rows.sums(lambda piece: flat[piece])[0].astype(value.dtype)
    elif extra:
        value = value.sum(axis=tuple(range(extra)))
    axes = tuple(axis for axis, dim in enumerate(shape) if dim == 1 and value.shape[axis] != 1)
    return value.sum(axis=axes, keepdims=True) if axes else value


def _spread(value: Any, like: Any) -> Any:
    return np.broadcast_to(value, like.shape)


_sum_like = define(
    "sum_like",
    _sum_to,
    lambda g, out, value, like: OPERATIONS["broadcast_like"](g, value),
    None,
)
define(
    "broadcast_like",
    _spread,
    lambda g, out, value, like: sum_like(g, value),
    None,
)


def sum_like(g: Tensor, x: Tensor) -> Tensor:
    """Return a gradient summed over the axes along which x was broadcast."""
    # Nothing to sum, and no replay with other shapes: by far the most common case.
    if g._value.shape == x._value.shape:
        for observer in observers:
            if observer.records_shapes:
                break
        else:
            return g
    return _sum_like(g, x)


_add = in_parts(np.add)


def _joined(x: Any, y: Any) -> Any:
    """Return a sum; of two strings numpy returns no array."""
    out = _add(x, y)
    return np.array(out, object) if out.__class__ is bytes else out


add = define(
    "add",
    _joined,
    lambda g, out, x, y: sum_like(g, x),
    lambda g, out, x, y: sum_like(g, y),
    promotes=True,
)
subtract = define(
    "subtract",
    in_parts(np.subtract),
    lambda g, out, x, y: sum_like(g, x),
    lambda g, out, x, y: sum_like(-g, y),
    promotes=True,
)
multiply = define(
    "multiply",
    in_parts(np.multiply),
    lambda g, out, x, y: sum_like(g * y, x),
    lambda g, out, x, y: sum_like(g * x, y),
    promotes=True,
)


def _divide(x: Any, y: Any) -> Any:
    if x.dtype.kind in "bO":
        raise TypeError(f"Invalid dtype tf.{as_dtype(x.dtype).name} in __truediv__. Expected a number.")
    if x.dtype.kind in "iu":  # Large integers divide to float64, small ones to float32.
        wide = np.float64 if x.dtype.itemsize > 2 else np.float32
        x, y = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        found = np.true_divide(x, y)
    return found if x.dtype.kind != "c" else np.where(y == 0, x.dtype.type(complex("nan+nanj")), found)


def _divide_no_nan(x: Any, y: Any) -> Any:
    if x.ndim == y.ndim == 0 and x.dtype.kind == "f":  # a mean's, at each step of training
        return x / y if y else x.dtype.type(0)
    quotient = _divide(x, y)
    return np.where(y == 0, quotient.dtype.type(0), quotient)


def _of_integers(function: Any, floats: Any) -> Any:
    """Return a division whose quotient is an integer, also of floats."""

    def forward(x: Any, y: Any) -> Any:
        if x.dtype.kind in "iu" and not np.all(y):
            raise ValueError("Integer division by zero")
        with np.errstate(all="ignore"):
            return function(x, y) if x.dtype.kind in "iu" else floats(x, y)

    return forward


divide = define(
    "divide",
    _divide,
    lambda g, out, x, y: sum_like(g / y, x),
    lambda g, out, x, y: sum_like(-g * out / y, y),
    promotes=True,
)
define(
    "divide_no_nan",
    _divide_no_nan,
    lambda g, out, x, y: sum_like(OPERATIONS["divide_no_nan"](g, y), x),
    lambda g, out, x, y: sum_like(OPERATIONS["divide_no_nan"](-g * out, y), y),
    promotes=True,
)
define(
    "floordiv",
    _of_integers(np.floor_divide, lambda x, y: np.floor(np.true_divide(x, y))),
    None,
    None,
    promotes=True,
)
define(
    "floormod",
    _of_integers(np.mod, np.mod),
    lambda g, out, x, y: sum_like(g, x),
    lambda g, out, x, y: sum_like(-g * OPERATIONS["floordiv"](x, y), y),
    promotes=True,
)


def _pow_exponent_rule(g: Tensor, out: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """d(x**y)/dy = x**y * log(x), and 0 where x is not positive, as TensorFlow has it."""
    positive = x > 0
    log_x = where(
        positive,
        OPERATIONS["log"](where(positive, x, OPERATIONS["ones_like"](x))),
        OPERATIONS["zeros_like"](x),
    )
    return sum_like(g * out * log_x, y)


define(
    "pow",
    np.power,
    lambda g, out, x, y: sum_like(g * y * x ** (y - 1), x),
    _pow_exponent_rule,
    promotes=True,
)


def _half_at_ties(win: str) -> Any:
    """Return the rule of maximum and minimum: to the winner, where both are equal to x."""

    def rule_x(g: Tensor, out: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return sum_like(g * cast(OPERATIONS[win](x, y), g.dtype), x)

    def rule_y(g: Tensor, out: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return sum_like(g * cast(~OPERATIONS[win](x, y), g.dtype), y)

    return rule_x, rule_y


maximum = define("maximum", np.maximum, *_half_at_ties("greater_equal"), promotes=True)
minimum = define("minimum", np.minimum, *_half_at_ties("less_equal"), promotes=True)
define(
    "squared_difference",
    lambda x, y: np.square(x - y) if x.dtype.kind != "c" else (x - y) * np.conj(x - y),
    lambda g, out, x, y: sum_like(2 * g * (x - y), x),
    lambda g, out, x, y: sum_like(-2 * g * (x - y), y),
    promotes=True,
)
define(
    "atan2",
    np.arctan2,
    lambda g, out, x, y: sum_like(g * y / (x * x + y * y), x),
    lambda g, out, x, y: sum_like(-g * x / (x * x + y * y), y),
    promotes=True,
)

for _name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    define(_name, getattr(np, _name), None, None, promotes=True)
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    define(_name, getattr(np, _name), None, None, promotes=True)
for _name in ("logical_and", "logical_or", "logical_xor"):
    define(_name, getattr(np, _name), None, None)
for _name in ("logical_not", "floor", "ceil", "invert"):
    define(_name, getattr(np, _name), None)
for _name in ("nan", "inf", "finite"):
    define(f"is_{_name}", getattr(np, f"is{_name}"), None)
define("round", lambda x: np.rint(x) if x.dtype.kind in "fV" else x, None)


def _quiet(function: Any) -> Any:
    """Return a function that gives nan and inf without a warning, as TensorFlow's kernels do."""

    def forward(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(x)

    return forward


def _sigmoid(x: Any) -> Any:
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    # exp of a negative number never overflows.
    small = np.exp(-np.abs(x))
    return (np.where(x >= 0, small.dtype.type(1), small) / (1 + small)).astype(x.dtype, copy=False)


def _softplus(x: Any) -> Any:
    return (np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))).astype(x.dtype)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_op = OPERATIONS


def _sign(x: Any) -> Any:
    """Return the sign, of complex numbers x / |x|: numpy 1 took the sign of the real part."""
    if x.dtype.kind != "c":
        return np.sign(x)
    size = np.abs(x)
    return np.divide(x, size, out=np.zeros_like(x), where=size != 0)


define("sign", _sign, lambda g, out, x: _op["zeros_like"](x))
define("negative", np.negative, lambda g, out, x: -g)
define("ensured", lambda x: x, lambda g, out, x: g)
define("stop_gradient", lambda x: x, None)
abs_ = define("abs", np.abs, lambda g, out, x: _op["abs_back"](g, x))
define(
    "abs_back",
    lambda g, x: (g * _sign(x)).astype(x.dtype, copy=False),
    lambda h, out, g, x: _op["abs_back"](h, x),
    lambda h, out, g, x: _op["zeros_like"](x),
)
define("square", np.square, lambda g, out, x: g * (2 * x))
define(
    "multiply_no_nan",
    lambda x, y: np.where(y == 0, x.dtype.type(0), x * y),
    lambda g, out, x, y: sum_like(_op["multiply_no_nan"](g, y), x),
    lambda g, out, x, y: sum_like(_op["multiply_no_nan"](x, g), y),
    promotes=True,
)  # Slopes may be infinite where no gradient comes back: their product is 0.
define("sqrt", _quiet(np.sqrt), lambda g, out, x: _op["multiply_no_nan"](0.5 / out, g))
define(
    "rsqrt",
    _quiet(lambda x: 1 / np.sqrt(x)),
    lambda g, out, x: _op["multiply_no_nan"](-0.5 * out * out * out, g),
)
define(
    "reciprocal",
    lambda x: _divide(x.dtype.type(1), x),
    lambda g, out, x: _op["multiply_no_nan"](-out * out, g),
)
define("exp", _quiet(np.exp), lambda g, out, x: g * out)
define("expm1", _quiet(np.expm1), lambda g, out, x: g * (out + 1))
define("log", _quiet(np.log), lambda g, out, x: g * _op["reciprocal"](x))
define("log1p", _quiet(np.log1p), lambda g, out, x: g / (1 + x))
define("sin", np.sin, lambda g, out, x: g * _op["cos"](x))
define("cos", np.cos, lambda g, out, x: -g * _op["sin"](x))
define("tan", np.tan, lambda g, out, x: g * (1 + out * out))
define("asin", _quiet(np.arcsin), lambda g, out, x: g * _op["rsqrt"](1 - x * x))
define("acos", _quiet(np.arccos), lambda g, out, x: -g * _op["rsqrt"](1 - x * x))
define("atan", np.arctan, lambda g, out, x: g / (1 + x * x))
define("sinh", np.sinh, lambda g, out, x: g * _op["cosh"](x))
define("cosh", np.cosh, lambda g, out, x: g * _op["sinh"](x))
define("tanh", np.tanh, lambda g, out, x: g * (1 - out * out))
define("sigmoid", _sigmoid, lambda g, out, x: g * out * (1 - out))
define("softplus", _softplus, lambda g, out, x: g * _op["sigmoid"](x))
define(
    "erf",
    lambda x: _erf(x).astype(x.dtype),
    lambda g, out, x: g * (2 / math.sqrt(math.pi)) * _op["exp"](-x * x),
)
define(
    "relu",
    in_parts(lambda x, out=None: np.maximum(x, 0, out=out)),
    lambda g, out, x: _op["relu_back"](g, x),
)
define(
    "relu_back",
    in_parts(lambda g, x, out=None: np.multiply(g, x > 0, out=out)),
    lambda h, out, g, x: _op["relu_back"](h, x),
    lambda h, out, g, x: _op["zeros_like"](x),
)
define(
    "leaky_relu",
    lambda x, alpha: np.where(x > 0, x, x * x.dtype.type(alpha)),
    lambda g, out, x, alpha: _op["leaky_relu_back"](g, x, alpha=alpha),
)  # fmt: skip
define(
    "leaky_relu_back",
    lambda g, x, alpha: np.where(x > 0, g, g * g.dtype.type(alpha)),
    lambda h, out, g, x, alpha: _op["leaky_relu_back"](h, x, alpha=alpha),
    lambda h, out, g, x, alpha: _op["zeros_like"](x),
)
define("zeros_like", lambda x: np.zeros_like(x) if x.dtype.kind != "O" else np.full_like(x, b""), None)
define("conj", np.conj, lambda g, out, x: _op["conj"](g))
define("real", lambda x: x.real, lambda g, out, x: cast(g, x.dtype))
define(
    "ones_like",  # of a loss, that is of a number, before all
    lambda x: x.dtype.type(1) if x.ndim == 0 and x.dtype.kind == "f" else np.ones(x.shape, x.dtype),
    None,
)


def _cast_rule(g: Tensor, out: Tensor, x: Tensor, dtype: Any) -> Tensor | None:
    return cast(g, x.dtype) if x.dtype.is_floating else None


def _astype(x: Any, dtype: Any) -> Any:
    if "O" in (x.dtype.kind, dtype.kind):
        names = as_dtype(x.dtype).name, as_dtype(dtype).name
        raise UnimplementedError(f"Cast {names[0]} to {names[1]} is not supported [Op:Cast]")
    with np.errstate(all="ignore"):
        return (x.real if x.dtype.kind == "c" and dtype.kind != "c" else x).astype(dtype)


_cast: Operation = define("cast", _astype, _cast_rule)


def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Return `x` in another dtype; a dtype it has already costs nothing."""
    wanted = as_numpy(dtype)
    tensor = as_tensor(x)
    return tensor if tensor._value.dtype == wanted else _cast(tensor, dtype=wanted)


def _select_rule(side: int) -> Any:
    def rule(g: Tensor, out: Tensor, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        zeros = _op["zeros_like"](g)
        return sum_like(
            _select(condition, g, zeros) if side == 0 else _select(condition, zeros, g), (x, y)[side]
        )

    return rule


_select = define("select", np.where, None, _select_rule(0), _select_rule(1))


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """Return x where the condition holds, y elsewhere; without both, where the condition holds."""
    if x is None and y is None:
        return _op["nonzero"](condition)
    condition = as_tensor(condition, np.dtype(np.bool_))
    if not condition.dtype.is_bool:
        raise InvalidArgumentError(f"cannot compute SelectV2 with a condition of {condition.dtype.name}")
    left, right = (
        (x, y)
        if hasattr(x, "_value")
        else (as_tensor(x, getattr(getattr(y, "_value", None), "dtype", None)), y)
    )
    left = as_tensor(left)
    return _select(condition, left, as_tensor(right, left._value.dtype))


def _nonzero(x: Any) -> Any:
    if not x.ndim or x.dtype.kind == "O":
        raise ValueError(f"WhereOp : Unhandled input of {x.dtype} with {x.ndim} dimensions")
    return np.argwhere(x)


define("nonzero", _nonzero, None)
