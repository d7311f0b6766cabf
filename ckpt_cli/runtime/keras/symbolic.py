"""Symbolic tensors, which make up Functional models.

A `KerasTensor` is a place in a model to be: its shape, and the call that fills it.
Shapes are found out by computing with zeros, which also builds the layers; what a call returns for
zeros has the shape it returns for anything. Computing with two sizes shows which dimensions are unknown.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import InvalidArgumentError
from ..nest import flatten, map_structure, pack_sequence_as
from ..ops.elementwise import cast
from ..tensor import OPERATIONS, Tensor, TensorLike, TensorShape, as_tensor
from ..variable import without_effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .. import dtypes
    from .base_layer import Layer

__all__ = ["Call", "KerasTensor", "call_symbolically", "conformed", "depths", "free_batch", "has_free_batch"]


class Call:
    """One call of a layer on symbolic tensors: a node of a Functional model."""

    def __init__(self, layer: Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.layer, self.args, self.kwargs = layer, args, kwargs
        self.inputs = [leaf for leaf in flatten([list(args), kwargs]) if isinstance(leaf, KerasTensor)]
        self.outputs: Any = None


_SIZE = 64
"""The size used for an unknown dimension: large enough for a stack of convolutions."""


_free_batch: ContextVar[bool] = ContextVar("free_batch", default=False)


@contextmanager
def free_batch(when: bool = True) -> Iterator[None]:
    """Have models that learn their input from a call learn no size of a batch."""
    token = _free_batch.set(when)
    try:
        yield
    finally:
        _free_batch.reset(token)


def has_free_batch() -> bool:
    return _free_batch.get()


def _operator(operation: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return the methods of an operator, and of it with its operands the other way round."""
    return (
        lambda self, other: self._operate(operation, self, other),
        lambda self, other: self._operate(operation, other, self),
    )


class KerasTensor:
    """The output of a call that will be made; `zeros` stands for its value.

    `shape` has None where a dimension is not known.
    """

    __array_priority__ = 100

    layer_of_operation: ClassVar[type[Any]]
    """Makes a layer of an operator; `layers.structural`, which knows layers, sets it."""

    layer_of_function: ClassVar[Any]
    """Makes a layer of a public function."""

    def __init__(self, zeros: Tensor, call: Call | None, dims: tuple[int | None, ...]) -> None:
        self.zeros, self.call, self.shape = zeros, call, TensorShape(dims)

    def _applied(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Return symbols for what a public function makes of this one, and of others."""
        arguments = [list(args), kwargs]
        symbols = [one for one in flatten(arguments) if isinstance(one, KerasTensor)]
        return self.layer_of_function(function, name, arguments)(symbols)

    @classmethod
    def of_shape(cls, shape: tuple[int | None, ...], dtype: dtypes.DType) -> KerasTensor:
        """Return a symbolic tensor; the batch, where it is not known, is taken for 1."""
        sizes = [(_SIZE if axis else 1) if dim is None else int(dim) for axis, dim in enumerate(shape)]
        return cls(Tensor(_nothing(sizes, dtype.numpy_dtype)), None, shape)

    @property
    def others(self) -> Tensor:
        """Zeros with other sizes where the dimension is not known."""
        free = [dim is None for dim in self.shape]
        more = [(_SIZE if axis else 1) if is_free else 0 for axis, is_free in enumerate(free)]
        return Tensor(_nothing(np.add(self.zeros.shape, more), self.dtype.numpy_dtype))

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

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract")
    __mul__, __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide")
    __floordiv__, __rfloordiv__ = _operator("floordiv")
    __mod__, __rmod__ = _operator("floormod")
    __pow__, __rpow__ = _operator("pow")
    __matmul__, __rmatmul__ = _operator("matmul")
    __lt__ = _operator("less")[0]
    __le__ = _operator("less_equal")[0]
    __gt__ = _operator("greater")[0]
    __ge__ = _operator("greater_equal")[0]

    def __neg__(self) -> Any:
        return self._operate("negative", self)

    def __abs__(self) -> Any:
        return self._operate("abs", self)

    def __ne__(self, other: object) -> Any:
        return True if other is None else self._operate("not_equal", self, other)

    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Any:
        return self._operate("slice", self, index=key)


def _nothing(shape: Any, dtype: Any) -> Any:
    """Return zeros, or empty strings."""
    return np.full(shape, b"", object) if dtype.hasobject else np.zeros(shape, dtype)


def _zeros(value: Any) -> Any:
    return value.zeros if isinstance(value, KerasTensor) else value


def _others(value: Any) -> Any:
    return value.others if isinstance(value, KerasTensor) else value


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
    with without_effect(), free_batch(_batch(call) is None):
        result = layer(*map_structure(_zeros, args), **map_structure(_zeros, kwargs))
        found = flatten(result)
        dims = [(_batch(call), *one.shape[1:]) for one in found]
        if layer._moves_axes or any(None in one.shape[1:] for one in call.inputs):
            with suppress(InvalidArgumentError, ValueError):
                other = flatten(layer(*map_structure(_others, args), **map_structure(_others, kwargs)))
                dims = [_common(*pair) for pair in zip(found, other, strict=True)]
    symbols = [KerasTensor(one, call, known) for one, known in zip(found, dims, strict=True)]
    call.outputs = pack_sequence_as(result, symbols)
    layer._inbound.append(call)
    return call.outputs


def _batch(call: Call) -> int | None:
    sizes = {one.shape[0] for one in call.inputs if one.ndim}
    return sizes.pop() if len(sizes) == 1 else None


def _common(one: Any, other: Any) -> tuple[int | None, ...]:
    """Return the dimensions that two values of one output have in common, None for each other one."""
    return tuple(a if a == b else None for a, b in zip(one.shape, other.shape, strict=True))


def depths(calls: list[Call]) -> list[tuple[Call, int]]:
    """Return the distance of each call from the outputs; a layer's calls are as deep as its deepest."""
    depth: dict[int, int] = {}
    of_layers: dict[int, int] = {}
    for call in reversed(calls):
        own = max(depth.get(id(call), 0), of_layers.get(id(call.layer), 0))
        depth[id(call)] = of_layers[id(call.layer)] = own
        for one in call.inputs:
            if one.call is not None:
                depth[id(one.call)] = max(own + 1, depth.get(id(one.call), 0))
    return [(call, depth[id(call)]) for call in calls]
