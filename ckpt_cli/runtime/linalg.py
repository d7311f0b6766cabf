"""tf.linalg, as far as the operations go."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .dispatch import dispatch
from .errors import InvalidArgumentError
from .functions import einsum, eye, global_norm, matmul, norm, reduce_sum, tensordot
from .further import l2_normalize
from .shaping import transpose
from .tensor import OPERATIONS, Tensor, as_tensor
from .unknown import absent, refuse

__all__ = [
    "band_part", "cholesky", "det", "diag", "diag_part", "eigh", "einsum", "expm", "eye", "global_norm",
    "inv", "l2_normalize", "matmul", "matvec", "norm", "qr", "solve", "svd", "tensordot", "trace",
]  # fmt: skip

_op = OPERATIONS


def matvec(
    a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, a_is_sparse: bool = False,
    b_is_sparse: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return the product of a matrix and a vector."""
    matrix, vector = as_tensor(a), as_tensor(b)
    product = matmul(matrix, vector[..., None], transpose_a=transpose_a, adjoint_a=adjoint_a)
    return product[..., 0]


def diag(
    diagonal: Any, name: str = "diag", k: Any = 0, num_rows: Any = -1, num_cols: Any = -1,
    padding_value: Any = 0, align: str = "RIGHT_LEFT",
) -> Tensor:  # fmt: skip
    sizes = {
        "num_rows": None if num_rows == -1 else num_rows,
        "num_cols": None if num_cols == -1 else num_cols,
    }
    refuse("diag", k=k, padding_value=padding_value, **sizes)
    return _op["diag"](diagonal)


def diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    refuse("diag_part", k=k, padding_value=padding_value)
    return _op["diag_part"](input)


def trace(x: Any, name: str | None = None) -> Tensor:
    return reduce_sum(_op["diag_part"](x), -1)


def band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    return _op["band_part"](input, lower=int(num_lower), upper=int(num_upper))


def _adjoint(x: Any) -> Tensor:
    x = as_tensor(x)
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2), conjugate=True)


def inv(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    return _op["inv"](_adjoint(input) if adjoint else input)


def det(input: Any, name: str | None = None) -> Tensor:
    return _op["det"](input)


def solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    return matmul(inv(matrix, adjoint), rhs)


_ORDERS = {
    True: ((0.01495585217958292, 3), (0.253939833006323, 5), (0.9504178996162932, 7), (2.097847961257068, 9),
           (5.371920351148152, 13)),
    False: ((0.4258730016922831, 3), (1.880152677804762, 5), (3.92572478313866, 7)),
}  # fmt: skip
"""By whether values have 64 bits: the norms up to which Padé's approximation of an order will do."""


def expm(input: Any, name: str | None = None) -> Tensor:
    """Return the exponential of matrices: by Padé's approximation of a fraction, which is squared again."""
    x = as_tensor(input)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise InvalidArgumentError(f"matrices must be square, got {x.shape} [Op:MatMul]")
    if not x._value.size:
        return x
    orders = _ORDERS[x.dtype.name in ("float64", "complex128")]
    norm = np.abs(x._value).sum(axis=-2).max()
    order = next((one for most, one in orders if norm < most), orders[-1][1])
    too_large = np.isfinite(norm) and norm > orders[-1][0]
    halvings = int(np.floor(np.log2(norm / orders[-1][0]))) if too_large else 0
    part = x * (0.5**halvings)
    square, power = matmul(part, part), eye(x.shape[-1], dtype=x.dtype)
    even: Any = 0.0
    odd: Any = 0.0
    for at in range(0, order + 1, 2):
        power = matmul(power, square) if at else power
        even, odd = even + power * _pade(order, at), odd + power * _pade(order, at + 1)
    odd = matmul(part, odd)
    found = solve(even - odd, even + odd)
    for _ in range(halvings):
        found = matmul(found, found)
    return found


def _pade(order: int, at: int) -> float:
    """Return the factor of a power in the numerator of Padé's approximation."""
    return math.comb(order, at) / math.perm(2 * order, at)


def cholesky(input: Any, name: str | None = None) -> Tensor:
    return _op["cholesky"](input)


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return an orthogonal and an upper triangular matrix; signs of rows may be other than TensorFlow's."""
    return _op["qr"](input, mode="complete" if full_matrices else "reduced")


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    if not compute_uv:
        return _op["svd"](tensor, compute_uv=False)
    u, s, v = _op["svd"](tensor, full_matrices=full_matrices)
    return s, u, _adjoint(v)


def eigh(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    return _op["eigh"](tensor)


dispatch(globals(), __all__, "linalg")


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
