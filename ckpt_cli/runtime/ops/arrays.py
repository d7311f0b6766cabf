"""Operations that move elements: shapes, slices, joining, gathering, products of matrices."""

from __future__ import annotations

import math
import string
from typing import Any

import numpy as np

from ..dtypes import as_dtype
from ..errors import InvalidArgumentError
from ..indexed_slices import gathered
from ..parts import cut, one_thread, share
from ..tensor import OPERATIONS, Tensor, TensorLike, as_tensor, define
from .elementwise import sum_like
from .reductions import integers

__all__ = ["filled", "matmul", "static_shape"]

_op = OPERATIONS


def static_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape argument, given as numbers, lists or tensors, as a tuple."""
    if isinstance(shape, tuple | list):
        for dim in shape:
            if dim.__class__ is not int:
                break
        else:
            return tuple(shape)
    return tuple(np.atleast_1d(integers(shape)).tolist())


def filled(shape: Any, value: Any, dtype: Any) -> Any:
    """Return an array of one value."""
    sizes = static_shape(shape)
    if min(sizes, default=0) < 0:
        raise InvalidArgumentError(f"Dimension {min(sizes)} must be >= 0 [Op:Fill]")
    return np.full(sizes, value, dtype)


def _object_safe(value: Any) -> Any:
    if isinstance(value, bytes | str):
        wrapped = np.empty((), object)
        wrapped[()] = value
        return wrapped
    return value


def _put(g: Any, like: Any, index: Any) -> Any:
    out = np.zeros_like(like, dtype=g.dtype)
    np.add.at(out, index, g)
    return out


define(
    "slice",
    lambda x, index: _object_safe(x[index]),
    lambda g, out, x, index: _op["slice_back"](g, x, index=index),
)
define("slice_back", _put, lambda g, out, value, like, index: _op["slice"](g, index=index), None)


def _reshape(x: Any, shape: Any) -> Any:
    if not x.size and -1 in shape and 0 in shape:  # numpy does not tell how many nothing is.
        shape = tuple(1 if dim == -1 else dim for dim in shape)
    elif min(shape, default=0) < -1:
        raise ValueError(f"Size {min(shape)} must be non-negative")
    return x.reshape(shape)


define("reshape", _reshape, lambda g, out, x, shape: _op["reshape_like"](g, x))
define(
    "reshape_like",
    lambda x, like: x.reshape(like.shape),
    lambda g, out, x, like: _op["reshape_like"](g, x),
    None,
)
define(
    "flatten_batch",
    lambda x: x.reshape(len(x), -1) if x.size else x.reshape(len(x), int(np.prod(x.shape[1:]))),
    lambda g, out, x: _op["reshape_like"](g, x),
)
define("expand_dims", np.expand_dims, lambda g, out, x, axis: _op["reshape_like"](g, x))
define("squeeze", np.squeeze, lambda g, out, x, axis: _op["reshape_like"](g, x))


def _inverse(perm: Any) -> Any:
    return None if perm is None else tuple(np.argsort(perm).tolist())


define(
    "transpose",
    lambda x, perm: x.transpose(perm),
    lambda g, out, x, perm: _op["transpose"](g, perm=_inverse(perm)),
)
define("reverse", np.flip, lambda g, out, x, axis: _op["reverse"](g, axis=axis))
define(
    "broadcast_to",
    np.broadcast_to,
    lambda g, out, x, shape: sum_like(g, x),
)


def _split_like(g: Any, *parts: Any, axis: int) -> Any:
    bounds = np.cumsum([part.shape[axis] for part in parts])[:-1]
    return tuple(np.split(g, bounds, axis))


def _concat_rule(g: Tensor, out: Tensor, *parts: Tensor, axis: int, position: int) -> Tensor:
    return _op["split_like"](g, *parts, axis=axis)[position]


def _stack_rule(g: Tensor, out: Tensor, *parts: Tensor, axis: int, position: int) -> Tensor:
    return _op["slice"](g, index=(slice(None),) * (axis % out.ndim) + (position,))


def _each(g: Any) -> tuple[Tensor, ...]:
    """Return the gradient of each output: a tape has that of a single one as it is."""
    return g if isinstance(g, tuple) else (g,)


def _of_one_dtype(function: Any) -> Any:
    """Return a function of arrays that raises ValueError for several dtypes."""

    def joined(*parts: Any, axis: int) -> Any:
        for at, part in enumerate(parts):
            if part.dtype is not parts[0].dtype and part.dtype != parts[0].dtype:
                raise ValueError(
                    f"cannot compute as input #{at}(zero-based) was expected to be a {parts[0].dtype.name} "
                    f"tensor but is a {part.dtype.name} tensor"
                )
        return function(parts, axis)

    return joined


define("concat", _of_one_dtype(np.concatenate), each=_concat_rule)
define("split_like", _split_like, lambda g, out, whole, *parts, axis: _op["concat"](*_each(g), axis=axis))
define("stack", _of_one_dtype(np.stack), each=_stack_rule)
define(
    "split",
    lambda x, sizes, axis: tuple(np.split(x, np.cumsum(sizes)[:-1], axis)),
    lambda g, out, x, sizes, axis: _op["concat"](*_each(g), axis=axis),
)
define(
    "unstack",
    lambda x, axis: tuple(np.moveaxis(x, axis, 0)),
    lambda g, out, x, axis: _op["stack"](*_each(g), axis=axis),
)
define(
    "tile",
    lambda x, multiples: np.tile(x, reps=multiples),
    lambda g, out, x, multiples: _op["tile_back"](g, x, multiples=multiples),
)


def _tile_back(g: Any, like: Any, multiples: tuple[int, ...]) -> Any:
    shape = [part for pair in zip(multiples, like.shape, strict=True) for part in pair]
    return g.reshape(shape).sum(axis=tuple(range(0, len(shape), 2)))


define(
    "tile_back", _tile_back, lambda g, out, value, like, multiples: _op["tile"](g, multiples=multiples), None
)


def _pad(x: Any, paddings: Any, mode: str, value: Any) -> Any:
    options = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, paddings, mode, **options)  # type: ignore[call-overload]


def _pad_rule(g: Tensor, out: Tensor, x: Tensor, paddings: Any, mode: str, value: Any) -> Tensor:
    if mode != "constant":
        return _op["pad_back"](g, x, paddings=paddings, mode=mode)
    index = tuple(slice(before, -after if after else None) for before, after in paddings)
    return _op["slice"](g, index=index)


def _pad_back(g: Any, like: Any, paddings: Any, mode: str) -> Any:
    """Add what was reflected to where it came from."""
    for axis, pair in enumerate(paddings):
        places = np.pad(np.arange(like.shape[axis]), pair, mode)  # type: ignore[call-overload]
        out = np.zeros((like.shape[axis], *np.delete(g.shape, axis)), g.dtype)
        np.add.at(out, places, np.moveaxis(g, axis, 0))
        g = np.moveaxis(out, 0, axis)
    return g


define("pad", _pad, _pad_rule)
define(
    "pad_back",
    _pad_back,
    lambda h, _, g, like, paddings, mode: _op["pad"](h, paddings=paddings, mode=mode, value=0),
    None,
)


def _check_indices(indices: Any) -> None:
    if indices.dtype.name not in ("int16", "int32", "int64"):
        raise ValueError(
            f"Value for attr 'Tindices' of {indices.dtype} is not in the list: int16, int32, int64"
        )


def _gather(x: Any, indices: Any, axis: int) -> Any:
    _check_indices(indices)
    if indices.size and (indices.min() < 0 or indices.max() >= x.shape[axis]):
        worst = indices.min() if indices.min() < 0 else indices.max()
        raise ValueError(f"indices = {worst} is not in [0, {x.shape[axis]})")
    return _object_safe(np.take(x, indices, axis=axis))


def _gather_back(g: Any, like: Any, indices: Any, axis: int) -> Any:
    out = np.zeros_like(like, dtype=g.dtype)
    np.add.at(
        np.moveaxis(out, axis, 0),
        indices,
        np.moveaxis(g, tuple(range(axis, axis + indices.ndim)), tuple(range(indices.ndim))),
    )
    return out


def _gather_rule(g: Tensor, out: Tensor, x: Tensor, indices: Tensor, axis: int) -> Any:
    axis %= x.ndim
    return _op["gather_back"](g, x, indices, axis=axis) if axis else gathered(g, x, indices)


define("gather", _gather, _gather_rule, None)
define(
    "gather_back",
    _gather_back,
    lambda g, out, value, like, indices, axis: _op["gather"](g, indices, axis=axis),
    None,
    None,
)


def _gather_nd_rule(g: Tensor, out: Tensor, x: Tensor, indices: Tensor) -> Any:
    if indices.ndim == 2 and indices.shape[-1] == 1:
        return gathered(g, x, indices)
    return _op["gather_nd_back"](g, x, indices)


def _gather_nd(x: Any, indices: Any) -> Any:
    _check_indices(indices)
    if not indices.shape[-1]:
        return np.broadcast_to(x, (*indices.shape[:-1], *x.shape))
    outside = ((indices < 0) | (indices >= x.shape[: indices.shape[-1]])).any(axis=-1)
    if outside.any():
        raise ValueError(
            f"indices = {indices[outside][0].tolist()} does not index into shape {list(x.shape)}"
        )
    return _object_safe(x[tuple(np.moveaxis(indices, -1, 0))])


define(
    "gather_nd",
    _gather_nd,
    _gather_nd_rule,
    None,
)
define(
    "gather_nd_back",
    lambda g, like, indices: _put(g, like, tuple(np.moveaxis(indices, -1, 0))),
    lambda g, out, value, like, indices: _op["gather_nd"](g, indices),
    None,
    None,
)


def _one_hot(indices: Any, depth: int, on: Any, off: Any, axis: int, dtype: Any) -> Any:
    hot = np.expand_dims(indices, -1) == np.arange(depth)
    return np.moveaxis(np.where(hot, on, off).astype(dtype), -1, axis)


define("one_hot", _one_hot, None)
define("shape", lambda x, dtype: np.array(x.shape, dtype), None)
define("size", lambda x, dtype: np.array(x.size, dtype), None)
define(
    "take_along",
    lambda x, places, axis: np.take_along_axis(x, places.astype(np.int64), axis),
    lambda g, out, x, places, axis: _op["put_along"](g, x, places, axis=axis),
    None,
)


def _put_along(g: Any, like: Any, places: Any, axis: int) -> Any:
    out = np.zeros_like(like, dtype=g.dtype)
    index = list(np.indices(places.shape, sparse=True))
    index[axis] = places
    np.add.at(out, tuple(index), g)
    return out


define(
    "put_along",
    _put_along,
    lambda g, out, value, like, places, axis: _op["take_along"](g, places, axis=axis),
    None,
    None,
)
define(
    "argsort",
    lambda x, axis, descending: np.argsort(-x if descending else x, axis, kind="stable").astype(np.int32),
    None,
)


_LEAST_PRODUCTS = 1 << 22
"""The fewest products in a part of a matrix product: some 80 microseconds."""

_ALONE = 1 << 15
"""Products of numbers that OpenBLAS always leaves to one thread."""

_LEAST_SIDE = 128
"""Of a part of a matrix product, whose other operand every part has to read."""


def _product(x: Any, y: Any, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError(f"In[0] and In[1] ndims must be >= 2, got {x.ndim} and {y.ndim}")
    if x.dtype.kind in "bi" and x.dtype.itemsize < 4 and x.ndim == y.ndim == 2:
        raise ValueError(f"Value for attr 'T' of {x.dtype} is not in the list of allowed values")
    x, y = x.swapaxes(-1, -2) if transpose_a else x, y.swapaxes(-1, -2) if transpose_b else y
    if y.ndim != 2 or x.ndim < 2 or x.shape[-1] != len(y) or x.size * y.shape[1] < 2 * _LEAST_PRODUCTS:
        if x.size * y.shape[-1] <= _ALONE:
            return _whole_product(x, y)
        with one_thread:
            return _whole_product(x, y)
    if x.ndim > 2:  # One product is faster than one for each example.
        return _flat_product(x.reshape(math.prod(x.shape[:-1]), x.shape[-1]), y).reshape(
            *x.shape[:-1], y.shape[1]
        )
    return _flat_product(x, y)


def _whole_product(x: Any, y: Any) -> Any:
    if x.ndim == y.ndim == 2 and x.dtype.kind == "f":
        return x.dot(y)  # of small matrices, three times as fast as `np.matmul`, and the same product
    out = np.matmul(x, y)
    return out if out.dtype == x.dtype else out.astype(x.dtype)  # bfloat16 became float32


def _flat_product(x: Any, y: Any) -> Any:
    """Return the product of two matrices, cut along the longer side of the outcome."""
    rows, columns = len(x), y.shape[1]
    longer = max(rows, columns)
    out = np.empty((rows, columns), x.dtype)
    pieces = cut(longer, max(_LEAST_SIDE, longer * _LEAST_PRODUCTS // (x.size * columns)))
    if rows == longer:
        share(lambda piece: np.matmul(x[piece], y, out=out[piece]), pieces)
    else:
        share(lambda piece: np.matmul(x, y[:, piece], out=out[:, piece]), pieces)
    return out


def _matmul_rule_x(
    g: Tensor, out: Tensor, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    if transpose_a:
        return sum_like(matmul(y, g, transpose_a=transpose_b, transpose_b=True), x)
    return sum_like(matmul(g, y, transpose_b=not transpose_b), x)


def _matmul_rule_y(
    g: Tensor, out: Tensor, x: Tensor, y: Tensor, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    if transpose_b:
        return sum_like(matmul(g, x, transpose_a=True, transpose_b=transpose_a), y)
    if y.ndim == 2 and x.ndim > 2 and not transpose_a and x._value.size and g._value.size:
        # The sum over the examples is a product, too.
        x, g = (_op["reshape"](one, shape=(-1, one.shape[-1])) for one in (x, g))
    return sum_like(matmul(x, g, transpose_a=not transpose_a), y)


matmul = define("matmul", _product, _matmul_rule_x, _matmul_rule_y, promotes=True)


def _dense(x: Any, kernel: Any, bias: Any) -> Any:
    if not x.dtype == kernel.dtype == bias.dtype:
        raise ValueError(
            f"inputs are {x.dtype.name}, the kernel {kernel.dtype.name}, the bias {bias.dtype.name}"
        )
    out = _product(x, kernel)
    return np.add(out, bias, out=out)


# A layer's work at every step, as one operation instead of two.
define(
    "dense",
    _dense,
    lambda g, out, x, kernel, bias: _matmul_rule_x(g, out, x, kernel),
    lambda g, out, x, kernel, bias: _matmul_rule_y(g, out, x, kernel),
    lambda g, out, x, kernel, bias: sum_like(g, bias),
)


def _spelled_out(equation: str, ranks: list[int]) -> str:
    """Return an einsum equation with its output named and its ellipses made letters."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not arrow:
        letters = [letter for letter in inputs if letter.isalpha()]
        output = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    if "..." not in equation:
        return ",".join(terms) + "->" + output
    spare = [letter for letter in string.ascii_letters if letter not in equation]
    widths = [
        rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term
    ]
    common = spare[: max(widths)]
    for place, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        width = rank - len(term.replace("...", ""))
        terms[place] = term.replace("...", "".join(common[len(common) - width :]))
    return ",".join(terms) + "->" + output.replace("...", "".join(common))


def _einsum(*operands: Any, equation: str) -> Any:
    for at, operand in enumerate(operands):
        if operand.dtype != operands[0].dtype:
            raise ValueError(
                f"cannot compute Einsum as input #{at}(zero-based) was expected to be a {operands[0].dtype} "
                f"tensor but is a {operand.dtype} tensor"
            )
    equation = _spelled_out(equation, [operand.ndim for operand in operands])
    with one_thread:
        return np.einsum(equation, *operands, optimize=True)


def _einsum_rule(g: Tensor, out: Tensor, *operands: Tensor, equation: str, position: int) -> Tensor:
    """Swap the operand's place with the output's; letters summed in the operand alone are spread again."""
    inputs, _, output = _spelled_out(equation, [operand.ndim for operand in operands]).partition("->")
    terms = inputs.split(",")
    own = terms[position]
    others = [
        (term, operand)
        for at, (term, operand) in enumerate(zip(terms, operands, strict=True))
        if at != position
    ]
    alone = [
        letter for letter in own if letter not in output and all(letter not in term for term, _ in others)
    ]
    if alone:
        others.append((own, _op["ones_like"](operands[position])))
    left = ",".join([output, *(term for term, _ in others)])
    return sum_like(
        _op["einsum"](g, *(operand for _, operand in others), equation=f"{left}->{own}"), operands[position]
    )


define("einsum", _einsum, each=_einsum_rule)


def as_parts(values: Any) -> list[Tensor]:
    """Return the tensors of a list, or of a tensor's first axis; all are of the dtype of the first tensor."""
    given = [as_tensor(value) for value in values if isinstance(value, TensorLike)]
    dtype = given[0]._value.dtype if given else None
    parts: list[Tensor] = []
    for at, value in enumerate(values):
        part = as_tensor(value, dtype)
        dtype = part._value.dtype if dtype is None else dtype
        if part._value.dtype != dtype:
            raise InvalidArgumentError(
                f"cannot compute as input #{at}(zero-based) was expected to be a {as_dtype(dtype).name} "
                f"tensor but is a {part.dtype.name} tensor"
            )
        parts.append(part)
    return parts
