"""tf.TensorSpec: shape and dtype without a value."""

from __future__ import annotations

from typing import Any

from . import dtypes
from .tensor import TensorShape, as_tensor

__all__ = ["TensorSpec"]


class TensorSpec:
    """A shape, in which None is any size, and a dtype."""

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        self.shape = TensorShape(shape)
        self.dtype = dtypes.as_dtype(dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        return cls(tensor.shape, tensor.dtype, name)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a tensor or another specification fits."""
        other = spec_or_value if isinstance(spec_or_value, TensorSpec) else as_tensor(spec_or_value)
        return self.dtype == other.dtype and self.shape.is_compatible_with(other.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self) -> int:
        return hash((tuple(self.shape), self.dtype))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"
