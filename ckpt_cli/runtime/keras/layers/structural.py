"""Layers without weights that join, bend and name tensors."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...names import unique_name
from ...tensor import OPERATIONS, Tensor, as_tensor
from ...unknown import refuse
from ..base_layer import Layer
from ..symbolic import Call, KerasTensor

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Add",
    "Average",
    "Concatenate",
    "Input",
    "InputLayer",
    "Lambda",
    "Maximum",
    "Multiply",
    "Permute",
    "Rescaling",
    "Subtract",
    "TFOpLambda",
]  # fmt: skip

_op = OPERATIONS


def _input_name() -> str:
    """Return `input_1`, `input_2`, ...: inputs alone are counted from 1."""
    name = unique_name("input")
    return f"input_{int(name.partition('_')[2] or 0) + 1}"


class InputLayer(Layer):
    """Where a model's input comes in; returns what it is given."""

    def __init__(
        self,
        input_shape: Any = None,
        batch_size: int | None = None,
        dtype: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        shape = kwargs.pop("batch_input_shape", None) or (batch_size, *(input_shape or ()))
        refuse("Input", sparse=kwargs.pop("sparse", None), ragged=kwargs.pop("ragged", None))
        super().__init__(name=name or _input_name(), dtype=dtype, **kwargs)
        self._put("_batch_input_shape", tuple(shape))
        self._init_input_shape: Any = list(shape)
        call = Call(self, (), {})
        call.outputs = KerasTensor.of_shape(tuple(shape), dtypes.as_dtype(dtype or "float32"))
        call.outputs.call = call
        self._inbound.append(call)
        self._put("built", True)

    def call(self, inputs: Any) -> Any:
        return inputs

    def get_config(self) -> dict[str, Any]:
        shape = {"batch_input_shape": tuple(self._init_input_shape), "dtype": self.dtype}
        return {**shape, "sparse": False, "ragged": False, "name": self.name}


def Input(  # noqa: N802  Keras' name
    shape: Any = None,
    batch_size: int | None = None,
    name: str | None = None,
    dtype: Any = None,
    **options: Any,
) -> KerasTensor:
    """Return the symbolic input of a Functional model."""
    layer = InputLayer(shape, batch_size, dtype, name, **options)
    return layer._inbound[0].outputs


_OPERATION_NAMES = {
    "add": "tf.__operators__.add",
    "subtract": "tf.math.subtract",
    "multiply": "tf.math.multiply",
    "divide": "tf.math.truediv",
    "negative": "tf.math.negative",
    "pow": "tf.math.pow",
    "slice": "tf.__operators__.getitem",
}
"""What Keras calls the layers it makes of operators."""


class TFOpLambda(Layer):
    """One operation of the table as a layer: what `x + y` on symbolic tensors becomes."""

    _operation: str
    _attributes: dict[str, Any]

    def __init__(self, operation: str, attributes: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name=unique_name(_OPERATION_NAMES[operation]), **kwargs)
        self._put("_operation", operation)
        self._put("_attributes", attributes)

    def _converted(self, inputs: Any) -> Any:
        return inputs

    def _build_for(self, inputs: Any) -> None:
        self._put("built", True)

    def call(self, inputs: Any) -> Any:
        return _op[self._operation](*inputs, **self._attributes)


KerasTensor.layer_of_operation = TFOpLambda


class _Merge(Layer):
    """Several tensors into one, pair by pair."""

    _operation = "add"

    def call(self, inputs: Any) -> Any:
        return reduce(_op[self._operation], inputs)


class Add(_Merge):
    pass


class Multiply(_Merge):
    _operation = "multiply"


class Subtract(_Merge):
    _operation = "subtract"


class Maximum(_Merge):
    _operation = "maximum"


class Average(_Merge):
    def call(self, inputs: Any) -> Any:
        return super().call(inputs) / len(inputs)


class Concatenate(Layer):
    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        return _op["concat"](*inputs, axis=self.axis)


class Permute(Layer):
    dims: tuple[int, ...]

    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._put("dims", tuple(dims))

    def call(self, inputs: Tensor) -> Any:
        return _op["transpose"](inputs, perm=(0, *self.dims))


class Rescaling(Layer):
    def __init__(self, scale: Any, offset: Any = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale, self.offset = scale, offset

    def call(self, inputs: Any) -> Any:
        return as_tensor(inputs) * self.scale + self.offset


class Lambda(Layer):
    """A function as a layer."""

    function: Callable[..., Any]
    arguments: dict[str, Any]

    def __init__(
        self, function: Callable[..., Any], arguments: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._put("function", function)
        self._put("arguments", arguments or {})

    def call(self, inputs: Any) -> Any:
        return self.function(inputs, **self.arguments)
