"""Symbolic tensors, of which Functional models are made.

A `KerasTensor` is a place in a model to be: its shape, and the call that fills it.
Shapes are found out by computing with zeros, a batch of one, which also builds the
layers; what a call returns for zeros has the shape it returns for anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..nest import flatten, map_structure
from ..ops.elementwise import cast
from ..tensor import OPERATIONS, Tensor, TensorLike, TensorShape, as_tensor
from ..variable import without_effect

if TYPE_CHECKING:
    from .. import dtypes
    from .base_layer import Layer

__all__ = ["Call", "KerasTensor", "call_symbolically", "conformed"]


class Call:
    """One call of a layer on symbolic tensors: a node of a Functional model."""

    def __init__(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.layer, self.args, self.kwargs = layer, args, kwargs
        self.inputs = [leaf for leaf in flatten([list(args), kwargs]) if isinstance(leaf, KerasTensor)]
        self.outputs: Any = None


class KerasTensor:
    """The output of a call that will be made; `zeros` stands for its value."""

    __array_priority__ = 100

    layer_of_operation: ClassVar[type[Any]]
    """Makes a layer of an operator; `layers.structural`, which knows layers, sets it."""

    layer_of_function: ClassVar[Any]
    """Makes a layer of a public function."""

    def __init__(self, zeros: Tensor, call: Call | None = None, batch: int | None = None) -> None:
        self.zeros, self.call, self.batch = zeros, call, batch

    def _applied(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Return symbols for what a public function makes of this one, and of others."""
        arguments = [list(args), kwargs]
        symbols = [one for one in flatten(arguments) if isinstance(one, KerasTensor)]
        return self.layer_of_function(function, name, arguments)(symbols)

    @classmethod
    def of_shape(cls, shape: tuple[int | None, ...], dtype: dtypes.DType) -> KerasTensor:
        """Return a symbolic tensor; dimensions that are None are taken for 1."""
        zeros = Tensor(np.zeros([1 if dim is None else int(dim) for dim in shape], dtype.numpy_dtype))
        return cls(zeros, batch=shape[0] if shape else None)

    @property
    def shape(self) -> TensorShape:
        return TensorShape((self.batch, *self.zeros.shape[1:]))

    @property
    def dtype(self) -> dtypes.DType:
        return self.zeros.dtype

    @property
    def ndim(self) -> int:
        return self.zeros.ndim

    def __repr__(self) -> str:
        made_by = self.call.layer.name if self.call is not None else "nothing"
        return f"<KerasTensor: shape={self.shape} dtype={self.dtype.name} (created by layer '{made_by}')>"

    def _operate(self, operation: str, *operands: Any, **attributes: Any) -> Any:
        return self.layer_of_operation(operation, attributes)(list(operands))

    def __add__(self, other: Any) -> Any:
        return self._operate("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._operate("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._operate("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._operate("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._operate("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._operate("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._operate("divide", self, other)

    def __neg__(self) -> Any:
        return self._operate("negative", self)

    def __pow__(self, other: Any) -> Any:
        return self._operate("pow", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._operate("divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._operate("floordiv", self, other)

    def __mod__(self, other: Any) -> Any:
        return self._operate("floormod", self, other)

    def __matmul__(self, other: Any) -> Any:
        return self._operate("matmul", self, other)

    def __abs__(self) -> Any:
        return self._operate("abs", self)

    def __lt__(self, other: Any) -> Any:
        return self._operate("less", self, other)

    def __le__(self, other: Any) -> Any:
        return self._operate("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._operate("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._operate("greater_equal", self, other)

    def __ne__(self, other: object) -> Any:
        return True if other is None else self._operate("not_equal", self, other)

    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Any:
        return self._operate("slice", self, index=key)


def _zeros(value: Any) -> Any:
    return value.zeros if isinstance(value, KerasTensor) else value


def conformed(value: Any, symbol: KerasTensor) -> Any:
    """Return a tensor in the dtype of an input, and with or without a last axis of one as that has it."""
    if not isinstance(value, TensorLike):
        return value
    tensor = as_tensor(value)
    if tensor.ndim == symbol.ndim + 1 and tensor.shape[-1] == 1:
        tensor = OPERATIONS["squeeze"](tensor, axis=-1)
    elif tensor.ndim == symbol.ndim - 1 and symbol.shape[-1] == 1:
        tensor = OPERATIONS["expand_dims"](tensor, axis=-1)
    return cast(tensor, symbol.dtype)


def call_symbolically(layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a layer on zeros, note the call, and return symbols for what came out."""
    call = Call(layer, args, kwargs)
    with without_effect():
        result = layer(*map_structure(_zeros, args), **map_structure(_zeros, kwargs))
    batches = {one.batch for one in call.inputs}
    batch = batches.pop() if len(batches) == 1 else None
    call.outputs = map_structure(lambda output: KerasTensor(output, call, batch), result)
    layer._inbound.append(call)
    return call.outputs
