"""Operations that scatter, count and roll, and those of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..tensor import OPERATIONS, Tensor, define

if TYPE_CHECKING:
    from collections.abc import Callable

_op = OPERATIONS


def _underived(what: str) -> Callable[..., Tensor]:
    def rule(*_: Any, **__: Any) -> Tensor:
        raise NotImplementedError(f"the gradient of {what} is not supported")

    return rule


def _placed(indices: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    depth = indices.shape[-1]
    outside = ((indices < 0) | (indices >= shape[:depth])).any(axis=-1)
    if outside.any():
        raise ValueError(f"indices = {indices[outside][0].tolist()} does not index into {list(shape)}")
    return tuple(np.moveaxis(indices, -1, 0))


def _scatter(updates: Any, indices: Any, shape: tuple[int, ...]) -> Any:
    if updates.shape != indices.shape[:-1] + shape[indices.shape[-1] :]:
        raise ValueError(f"updates {updates.shape} do not fit indices {indices.shape} of shape {shape}")
    out = np.zeros(shape, updates.dtype)
    np.add.at(out, _placed(indices, shape), updates)
    return out


define("scattered", _scatter, lambda g, out, u, i, shape: _op["gather_nd"](g, i), None)
_HOW: dict[str, Any] = {"add": np.add, "sub": np.subtract, "max": np.maximum, "min": np.minimum}


def _scatter_into(x: Any, updates: Any, indices: Any, how: str) -> Any:
    out, where = x.copy(), _placed(indices, x.shape)
    if how == "update":
        out[where] = updates
    else:
        _HOW[how].at(out, where, updates)
    return out


def _into_rule(g: Tensor, out: Tensor, x: Tensor, updates: Tensor, indices: Tensor, how: str) -> Tensor:
    if how in ("add", "sub"):
        return g
    if how != "update":
        raise NotImplementedError(f"the gradient of tensor_scatter_nd_{how} is not supported")
    zeros = _op["zeros_like"](updates)
    return _op["tensor_scatter"](g, zeros, indices, how="update")


def _updates_rule(g: Tensor, out: Tensor, x: Tensor, updates: Tensor, indices: Tensor, how: str) -> Tensor:
    if how in ("max", "min"):
        raise NotImplementedError(f"the gradient of tensor_scatter_nd_{how} is not supported")
    found = _op["gather_nd"](g, indices)
    return -found if how == "sub" else found


define("tensor_scatter", _scatter_into, _into_rule, _updates_rule, None)
define(
    "roll",
    np.roll,
    lambda g, out, x, shift, axis: _op["roll"](g, shift=tuple(-one for one in shift), axis=axis),
)


def _unique(x: Any, dtype: Any) -> tuple[Any, ...]:
    if x.ndim != 1:
        raise ValueError(f"unique expects a 1D vector, not {x.shape}")
    values, first, places, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first, kind="stable")
    rank = np.argsort(order, kind="stable")
    return values[order], rank[places.ravel()].astype(dtype), counts[order].astype(dtype)


define("unique", _unique, None)


def _search(edges: Any, values: Any, side: Any, dtype: Any) -> Any:
    rows = edges.reshape(-1, edges.shape[-1]), values.reshape(-1, values.shape[-1])
    found = [np.searchsorted(row, wanted, side) for row, wanted in zip(*rows, strict=True)]
    return np.array(found, dtype).reshape(values.shape)


define("searchsorted", _search, None, None)


def _cumulative_product(x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    flipped = np.flip(x, axis) if reverse else x
    if exclusive and x.size:
        first = np.ones_like(np.take(flipped, [0], axis))
        flipped = np.concatenate([first, np.delete(flipped, -1, axis)], axis)
    with np.errstate(all="ignore"):
        out = np.cumprod(flipped, axis=axis, dtype=x.dtype)
    return np.flip(out, axis) if reverse else out


define(
    "cumprod",
    _cumulative_product,
    lambda g, out, x, axis, exclusive, reverse: _op["divide_no_nan"](
        _op["cumsum"](out * g, axis=axis, exclusive=exclusive, reverse=not reverse), x
    ),
)


def _segments(data: Any, ids: Any, count: int) -> Any:
    out = np.zeros((count, *data.shape[ids.ndim :]), data.dtype)
    kept = ids >= 0
    if ids.size and ids.max() >= count:
        raise ValueError(f"segment id {ids.max()} is not in [0, {count})")
    np.add.at(out, ids[kept], data[kept])
    return out


def _segments_back(g: Any, ids: Any) -> Any:
    out = g[np.maximum(ids, 0)] if len(g) else np.zeros((*ids.shape, *g.shape[1:]), g.dtype)
    out[ids < 0] = 0
    return out


define("segments", _segments, lambda g, out, data, ids, count: _op["segments_back"](g, ids), None)
define(
    "pooled",
    lambda data, ids, like: _segments(data, ids, len(like)),
    lambda g, out, data, ids, like: _op["segments_back"](g, ids),
    None,
    None,
)
define("segments_back", _segments_back, lambda h, out, g, ids: _op["segments"](h, ids, count=len(g)), None)


def _in_top_k(rows: Any, targets: Any, k: int) -> Any:
    fits = (targets >= 0) & (targets < rows.shape[1])
    own = np.take_along_axis(rows, np.where(fits, targets, 0)[:, None].astype("i8"), 1)
    return fits & np.isfinite(rows).all(axis=1) & ((rows > own).sum(axis=1) < k)


define("in_top_k", _in_top_k, None, None)


# Matrices -------------------------------------------------------------------------------


def _band(x: Any, lower: int, upper: int) -> Any:
    rows, columns = np.indices(x.shape[-2:], sparse=True)
    kept = ((lower < 0) | (rows - columns <= lower)) & ((upper < 0) | (columns - rows <= upper))
    return np.where(kept, x, x.dtype.type(0))


def _diagonal(x: Any) -> Any:
    out = np.zeros((*x.shape, x.shape[-1]), x.dtype)
    np.einsum("...ii->...i", out)[...] = x
    return out


def _transposed(x: Tensor) -> Tensor:
    return _op["transpose"](x, perm=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _inverse_rule(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    other = _transposed(out)
    return -_op["matmul"](_op["matmul"](other, g), other)


def _determinant_rule(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    scale = _op["expand_dims"](_op["expand_dims"](g * out, axis=-1), axis=-1)
    return scale * _transposed(_op["inv"](x))


def _lapack(name: str) -> Callable[..., Any]:
    function: Any = getattr(np.linalg, name)

    def forward(x: Any, **options: Any) -> Any:
        try:
            found = function(x, **options)
        except (np.linalg.LinAlgError, TypeError) as error:
            raise ValueError(f"Input is not invertible, or of a dtype without a kernel: {error}") from error
        return tuple(np.asarray(one) for one in found) if isinstance(found, tuple) else np.asarray(found)

    return forward


define("band_part", _band, lambda g, out, x, lower, upper: _op["band_part"](g, lower=lower, upper=upper))
define("diag", _diagonal, lambda g, out, x: _op["diag_part"](g))
define(
    "diag_part",
    lambda x: np.diagonal(x, axis1=-2, axis2=-1).copy(),
    lambda g, out, x: _op["diag"](g) if x.shape[-1] == x.shape[-2] else _underived("diag_part")(),
)
define("inv", _lapack("inv"), _inverse_rule)
define("det", _lapack("det"), _determinant_rule)
for _name in ("qr", "svd", "eigh", "cholesky"):
    define(_name, _lapack(_name), _underived(_name))
for _name in ("inv", "det", "qr", "svd", "eigh", "cholesky"):
    _op[_name].takes = "fc"
