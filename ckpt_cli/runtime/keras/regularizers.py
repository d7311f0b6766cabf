"""Regularizers: what a loss is made larger by, so that weights or outputs stay small.

keras/src/regularizers.py
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..functions import eye, reduce_sum
from ..tensor import OPERATIONS, Tensor, as_tensor

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "L1", "L1L2", "L2", "OrthogonalRegularizer", "Regularizer", "get", "l1", "l1_l2", "l2",
    "orthogonal_regularizer",
]  # fmt: skip

_op = OPERATIONS


class Regularizer:
    """Base: called with a tensor, returns a number to be added to the loss."""

    def __call__(self, x: Any) -> Any:
        return 0.0

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Regularizer:
        return cls(**config)

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError(f"{self} does not implement get_config()")


class L1L2(Regularizer):
    """l1 · Σ|x| + l2 · Σx²."""

    def __init__(self, l1: float | None = 0.0, l2: float | None = 0.0) -> None:
        self.l1, self.l2 = _penalty(l1, 0.0), _penalty(l2, 0.0)

    def __call__(self, x: Any) -> Tensor:
        x = as_tensor(x)
        total = _op["zeros_like"](reduce_sum(x))
        if self.l1:
            total = total + self.l1 * reduce_sum(_op["abs"](x))
        if self.l2:
            total = total + self.l2 * reduce_sum(_op["square"](x))
        return total

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1, "l2": self.l2}


class L1(L1L2):
    """l1 · Σ|x|."""

    def __init__(self, l1: float | None = 0.01, **kwargs: Any) -> None:
        super().__init__(l1=_penalty(kwargs.pop("l", l1), 0.01))
        _none_left(kwargs)

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1}


class L2(L1L2):
    """l2 · Σx²."""

    def __init__(self, l2: float | None = 0.01, **kwargs: Any) -> None:
        super().__init__(l2=_penalty(kwargs.pop("l", l2), 0.01))
        _none_left(kwargs)

    def get_config(self) -> dict[str, Any]:
        return {"l2": self.l2}


class OrthogonalRegularizer(Regularizer):
    """factor · the mean of |products| of different rows, or columns, each of length 1, of a matrix."""

    def __init__(self, factor: float = 0.01, mode: str = "rows") -> None:
        if mode not in ("rows", "columns"):
            raise ValueError(
                'Invalid value for argument `mode`. Expected one of {"rows", "columns"}. '
                f"Received: mode={mode}"
            )
        self.factor, self.mode = _penalty(factor, 0.01), mode

    def __call__(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim != 2:
            raise ValueError(
                "Inputs to OrthogonalRegularizer must have rank 2. Received: "
                f"inputs.shape == {tuple(x.shape)}"
            )
        axis = 1 if self.mode == "rows" else 0
        squares = _op["maximum"](reduce_sum(_op["square"](x), axis, True), 1e-12)
        unit = x * _op["rsqrt"](squares)
        products = _op["matmul"](unit, unit, transpose_a=axis == 0, transpose_b=axis == 1)
        size = x.shape[1 - axis]
        others = products * (1.0 - eye(size, dtype=x.dtype))
        return self.factor * (0.5 * reduce_sum(_op["abs"](others)) / (size * (size - 1.0) / 2.0))

    def get_config(self) -> dict[str, Any]:
        return {"factor": self.factor, "mode": self.mode}


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    return L1L2(l1=l1, l2=l2)


l1, l2, orthogonal_regularizer = L1, L2, OrthogonalRegularizer
_BY_NAME: dict[str, Callable[..., Any]] = {
    "l1": L1, "L1": L1, "l2": L2, "L2": L2, "l1_l2": l1_l2, "L1L2": L1L2,
    "orthogonal_regularizer": OrthogonalRegularizer, "OrthogonalRegularizer": OrthogonalRegularizer,
}  # fmt: skip


def _penalty(given: float | None, default: float) -> float:
    """Return a number to multiply by; ValueError for what is none."""
    if given is None:
        return default
    if not isinstance(given, int | float) or math.isinf(given) or math.isnan(given):
        raise ValueError(f"Value: {given} is not a valid regularization penalty number.")
    return float(np.float32(given))  # Keras keeps it so.


def _none_left(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise TypeError(f"Argument(s) not recognized: {kwargs}")


def get(identifier: Any) -> Callable[[Any], Any] | None:
    """Return the regularizer that a name, a configuration or a function stands for; None for None."""
    if identifier is None or callable(identifier):
        return identifier
    given = identifier if isinstance(identifier, dict) else {"class_name": identifier}
    name = given.get("class_name")
    if name not in _BY_NAME:
        # Keras 2.15 returns a name that it does not know.
        raise NotImplementedError(f"regularizers.get: a regularizer {identifier!r} is not supported")
    return _BY_NAME[name](**given.get("config", {}))
