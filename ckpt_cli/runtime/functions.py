"""The functions of `tf` itself: `tf.range`, `tf.reduce_mean`, `tf.concat`, ...

They take TensorFlow's arguments, by its names, and hand over to the table.  `name` is
taken and means nothing: nothing here has a graph to be named in.
"""

from __future__ import annotations

import builtins
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes, graphs
from .control import cond, custom_gradient, map_fn, while_loop
from .creation import constant, eye, fill, linspace, ones, ones_like, range, zeros, zeros_like
from .errors import InvalidArgumentError
from .function import function
from .indexed_slices import IndexedSlices, map_values
from .nest import flatten
from .ops.elementwise import cast, where
from .ops.neural import keep_logits
from .ops.reductions import integer, reduced
from .shaping import (
    argsort,
    boolean_mask,
    broadcast_to,
    concat,
    ensure_shape,
    expand_dims,
    gather,
    gather_nd,
    meshgrid,
    one_hot,
    pad,
    rank,
    repeat,
    reshape,
    reverse,
    shape,
    size,
    sort,
    split,
    squeeze,
    stack,
    tile,
    transpose,
    unstack,
)
from .signatures import with_signature
from .tensor import OPERATIONS, Tensor, TensorLike, as_tensor, convert_to_tensor, is_tensor
from .unknown import accept, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "abs", "argmax", "argmin", "argsort", "assert_equal", "atan2", "boolean_mask", "broadcast_to", "cast",
    "clip_by_global_norm", "clip_by_norm", "clip_by_value", "concat", "cond", "constant", "convert_to_tensor",
    "cumsum", "custom_gradient", "einsum", "ensure_shape", "equal", "expand_dims", "eye", "fill", "function",
    "gather", "gather_nd", "global_norm", "group", "identity", "is_tensor", "linspace", "logical_and",
    "logical_not", "logical_or", "map_fn", "matmul", "meshgrid", "norm", "one_hot", "ones", "ones_like",
    "pad", "print", "range", "rank", "reduce_all", "reduce_any", "reduce_logsumexp", "reduce_max",
    "reduce_mean", "reduce_min", "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance", "repeat",
    "reshape", "reverse", "shape", "sigmoid",
    "size", "sort", "split", "squeeze", "stack", "stop_gradient", "tensordot",
    "tile", "transpose", "truediv", "unstack", "where", "while_loop", "zeros", "zeros_like",
]  # fmt: skip

_op = OPERATIONS
_slice = slice
_shape_of, _dtype_of = attrgetter("shape"), attrgetter("dtype")


def unary(operation: str, parameter: str = "x") -> Callable[..., Tensor]:
    """Return the public function of an operation on one tensor, which TensorFlow calls `parameter`."""
    if parameter != "x":
        return with_signature(unary(operation), f"{parameter}=x name")

    def function(x: Any, name: str | None = None) -> Tensor:
        return _op[operation](x)

    function.__name__ = function.__qualname__ = operation
    return function


def binary(operation: str) -> Callable[..., Tensor]:
    """Return the public function of an operation on two tensors."""

    def function(x: Any, y: Any, name: str | None = None) -> Tensor:
        return _op[operation](x, y)

    function.__name__ = function.__qualname__ = operation
    return function


def _reduction(operation: str) -> Callable[..., Tensor]:
    def function(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
    ) -> Tensor:
        return reduced(operation, input_tensor, axis, keepdims)

    function.__name__ = function.__qualname__ = operation
    return function


_FAMILIES = {
    unary: "negative sqrt square rsqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh tanh sign "
    "floor ceil round reciprocal erf softplus is_nan is_inf is_finite",
    binary: "add subtract multiply divide floordiv floormod pow maximum minimum not_equal less less_equal "
    "greater greater_equal squared_difference divide_no_nan multiply_no_nan logical_xor",
}
"""Functions that are operations as they are, by what makes them."""
for _make, _names in _FAMILIES.items():
    globals().update({name: _make(name) for name in _names.split()})
    __all__ += _names.split()  # noqa: PLE0605

abs = unary("abs")
atan2 = with_signature(binary("atan2"), "y=x x=y name")
identity = unary("identity", "input")
stop_gradient = unary("stop_gradient", "input")
logical_not = unary("logical_not")
equal = binary("equal")
logical_and = binary("logical_and")
logical_or = binary("logical_or")
truediv = divide_ = binary("divide")
reduce_sum, reduce_mean, reduce_max = map(_reduction, ("reduce_sum", "reduce_mean", "reduce_max"))
reduce_min, reduce_prod, reduce_any = map(_reduction, ("reduce_min", "reduce_prod", "reduce_any"))
reduce_all, reduce_logsumexp = map(_reduction, ("reduce_all", "reduce_logsumexp"))


def sigmoid(x: Any, name: str | None = None) -> Tensor:
    x = as_tensor(x)
    return keep_logits(_op["sigmoid"](x), x, "sigmoid")


def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    x = as_tensor(input_tensor)
    mean = reduce_mean(x, axis, True)
    if not x.dtype.is_floating and x._value.dtype.kind != "c":
        raise TypeError(f"Input must be either real or complex. Received integer type {x.dtype}.")
    apart = x - mean
    if x.dtype.is_floating:
        return reduce_mean(_op["square"](apart), axis, keepdims)
    return reduce_mean(_op["real"](apart * _op["conj"](apart)), axis, keepdims)


def moments(x: Any, axes: Any, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Return mean and variance over some axes.

    As in TensorFlow the variance is about a mean that is taken for a constant: its gradient is the same,
    the gradient of that is not.
    """
    _dtype_of(x)  # As in TensorFlow, a list has none.
    x = as_tensor(x)
    apart = _op["squared_difference"](x, _op["stop_gradient"](reduce_mean(x, axes, True)))
    return reduce_mean(x, axes, keepdims), reduce_mean(apart, axes, keepdims)


def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    return _op["sqrt"](reduce_variance(input_tensor, axis, keepdims))


def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: Any = None, name: str | None = None
) -> Tensor:
    """Return the length of vectors; of matrices, over two axes, the euclidean one alone."""
    keepdims = bool(keepdims)
    is_matrix = isinstance(axis, list | tuple) and len(axis) == 2
    if not (axis is None or isinstance(axis, int) or (is_matrix and axis[0] != axis[1])):
        raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}")
    if is_matrix and ord != "euclidean":
        raise NotImplementedError(f"norm: argument {ord=} of matrices is not supported")
    x = as_tensor(tensor)
    if x._value.dtype.kind in "bO":
        raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype}.")
    if x._value.dtype.kind == "c":
        length = norm(abs(x), ord, axis, keepdims)
        return cast(length, x.dtype) if ord in ("euclidean", 2) else length
    if ord in ("euclidean", 2):
        return _op["sqrt"](reduce_sum(x * x, axis, keepdims))
    if ord == 1:
        return reduce_sum(_op["abs"](x), axis, keepdims)
    if ord == np.inf:
        return reduce_max(_op["abs"](x), axis, keepdims)
    if isinstance(ord, int | float) and ord > 0:
        return reduce_sum(_op["abs"](x) ** ord, axis, keepdims) ** (1.0 / ord)
    raise ValueError(f"'ord' must be a supported vector norm, got {ord}")


def _place(operation: str) -> Callable[..., Tensor]:
    def function(
        input: Any, axis: Any = None, output_type: Any = dtypes.int64, name: str | None = None
    ) -> Tensor:
        wanted = dtypes.as_numpy(output_type)
        if wanted.name not in ("int16", "uint16", "int32", "int64"):
            raise InvalidArgumentError(
                f"Value for attr 'output_type' of {wanted.name} is not in the list of allowed values: "
                "int16, uint16, int32, int64"
            )
        return _op[operation](input, axis=0 if axis is None else integer(axis), dtype=wanted)

    function.__name__ = function.__qualname__ = operation
    return function


argmax, argmin = _place("argmax"), _place("argmin")


def cumsum(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    return _op["cumsum"](x, axis=integer(axis), exclusive=exclusive, reverse=reverse)


def matmul(
    a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, adjoint_a: bool = False,
    adjoint_b: bool = False, a_is_sparse: bool = False, b_is_sparse: bool = False, output_type: Any = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    refuse("matmul", output_type=output_type)
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("Only one of `transpose` and `adjoint` can be True.")
    a, b = (_op["conj"](x) if adjoint else x for x, adjoint in ((a, adjoint_a), (b, adjoint_b)))
    transpose_a, transpose_b = transpose_a or adjoint_a, transpose_b or adjoint_b
    return _op["matmul"](a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Sum products over axes: a count of last and first ones, or a list for each side."""
    x, y = as_tensor(a), as_tensor(b)
    if isinstance(axes, int):
        if not 0 <= axes <= x.ndim:
            raise ValueError(f"`axes` must be at least 0 and at most {x.ndim}. Received: {axes}.")
        left, right = list(builtins.range(x.ndim - axes, x.ndim)), list(builtins.range(axes))
    else:
        left, right = ([one] if isinstance(one, int) else list(one) for one in axes)
    letters = [chr(97 + index) for index in builtins.range(x.ndim + y.ndim)]
    of_x, of_y = letters[: x.ndim], letters[x.ndim :]
    for i, j in zip(left, right, strict=True):
        of_y[j] = of_x[i]
    kept = [letter for letter in of_x + of_y if (of_x + of_y).count(letter) == 1]
    return einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(kept)}", x, y)


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    accept("einsum", kwargs, "name optimize greedy")
    for one in inputs:
        _shape_of(one)  # As in TensorFlow, a list has none.
    return _op["einsum"](*inputs, equation=equation)


def _of_shape(x: Tensor, out: Tensor) -> Tensor:
    """Return what was computed from a tensor, which must not have been broadcast."""
    if out._value.shape != x._value.shape:
        raise ValueError(f"Shapes {x.shape} and {out.shape} are incompatible")
    return out


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Tensor:
    def clipped(value: Any) -> Tensor:
        x = as_tensor(value)
        return _of_shape(x, _op["maximum"](_op["minimum"](x, clip_value_max), clip_value_min))

    return map_values(clipped, t)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Tensor:

    def scaled(value: Any) -> Tensor:
        x = as_tensor(value)
        squares = reduce_sum(x * x, axes, True)
        is_long = squares > 0  # The gradient of a square root of 0 is not a number.
        length = where(is_long, _op["sqrt"](where(is_long, squares, ones_like(squares))), squares)
        return _of_shape(x, x * clip_norm) / _op["maximum"](length, clip_norm)

    return map_values(scaled, t)


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    values = [t.values if isinstance(t, IndexedSlices) else t for t in t_list if t is not None]
    squares = [reduce_sum(_op["square"](one)) for one in values]
    return _op["sqrt"](reduce_sum(stack(squares)))


def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Return the tensors scaled by one factor, so that their joint norm is at most `clip_norm`."""
    if not isinstance(t_list, list | tuple):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {type(t_list)}.")
    length = global_norm(t_list) if use_norm is None else use_norm
    one = as_tensor(1.0, length.dtype.numpy_dtype)  # Also in TensorFlow, a number is an AttributeError.
    factor = clip_norm * _op["minimum"](1.0 / length, one / clip_norm)
    factor = factor + (length - length)  # nan unless it is finite
    return [None if t is None else map_values(lambda x: x * factor, t) for t in t_list], length


def assert_equal(
    x: Any, y: Any, message: str | None = None, summarize: Any = None, name: str | None = None
) -> None:
    if not np.array_equal(as_tensor(x)._value, as_tensor(y)._value):
        raise InvalidArgumentError(message or f"Condition x == y did not hold: {x!r} and {y!r}")


def group(*inputs: Any, **kwargs: Any) -> Any:
    """Return nothing, or an operation in a graph; eagerly the arguments have been done when it is called."""
    if graphs.current() is None:
        return None
    done = [one for one in flatten(inputs) if isinstance(one, graphs.Done)]
    tensors = [as_tensor(one) for one in flatten(inputs) if not isinstance(one, graphs.Done)]
    needs = [need for one in done for need in one.needs]
    return graphs.Done((*tensors, *needs), tuple(first for one in done for first in one.initial))


def print(*inputs: Any, output_stream: Any = None, sep: str = " ", end: str = "\n", **kwargs: Any) -> None:
    """Print tensors by their values, to standard error as TensorFlow does, or to a stream."""
    import sys

    accept("print", kwargs, "summarize name")
    shown = [one.numpy() if isinstance(one, TensorLike) else one for one in inputs]
    _op["print"]()
    builtins.print(*shown, sep=sep, end=end, file=output_stream or sys.stderr)
