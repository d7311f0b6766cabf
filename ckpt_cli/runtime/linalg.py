"""tf.linalg, as far as the operations go."""

from __future__ import annotations

from typing import Any

from .dispatch import dispatch
from .functions import einsum, eye, global_norm, matmul, norm, tensordot
from .tensor import Tensor, as_tensor
from .unknown import absent

__all__ = ["einsum", "eye", "global_norm", "matmul", "matvec", "norm", "tensordot"]


def matvec(
    a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, a_is_sparse: bool = False,
    b_is_sparse: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Return the product of a matrix and a vector."""
    matrix, vector = as_tensor(a), as_tensor(b)
    product = matmul(matrix, vector[..., None], transpose_a=transpose_a, adjoint_a=adjoint_a)
    return product[..., 0]


dispatch(globals(), __all__, "linalg")


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
