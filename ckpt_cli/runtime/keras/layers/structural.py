"""Layers without weights that join, bend and name tensors."""

from __future__ import annotations

import inspect
from functools import reduce
from typing import TYPE_CHECKING, Any

from ... import dtypes
from ...further import l2_normalize
from ...names import unique_name
from ...nest import flatten, pack_sequence_as
from ...ops.elementwise import cast
from ...tensor import OPERATIONS, Tensor, TensorShape
from ...unknown import refuse
from ..base_layer import Layer
from ..masks import all_of
from ..symbolic import Call, KerasTensor

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Add", "Average", "Concatenate", "Dot", "Input", "InputLayer", "Lambda", "Maximum", "Minimum", "Multiply",
    "Permute", "Rescaling", "Subtract", "add", "average", "concatenate", "dot", "maximum", "minimum",
    "multiply", "subtract",
]  # fmt: skip

_op = OPERATIONS


def _input_name() -> str:
    """Return `input_1`, `input_2`, ...: inputs alone are counted from 1."""
    name = unique_name("input")
    return f"input_{int(name.partition('_')[2] or 0) + 1}"


class InputLayer(Layer):
    """Where a model's input comes in; returns what it is given."""

    @property
    def output_shape(self) -> Any:
        return [super().output_shape]

    input_shape = output_shape

    def __init__(
        self,
        input_shape: Any = None,
        batch_size: int | None = None,
        dtype: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        given = kwargs.pop("batch_shape", None) or kwargs.pop("batch_input_shape", None)
        shape = given or (batch_size, *(input_shape or ()))
        refuse("Input", sparse=kwargs.pop("sparse", None), ragged=kwargs.pop("ragged", None))
        super().__init__(name=name or _input_name(), dtype=dtype, **kwargs)
        self._put("_batch_input_shape", tuple(shape))
        self._init_input_shape: Any = list(shape)
        call = Call(self, (), {})
        call.outputs = KerasTensor.of_shape(tuple(shape), dtypes.as_dtype(dtype or "float32"))
        call.outputs.call = call
        self._inbound.append(call)
        self._put("built", True)
        self._put("supports_masking", True)

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
    "not_equal": "tf.math.not_equal",
    "less": "tf.math.less",
    "less_equal": "tf.math.less_equal",
    "greater": "tf.math.greater",
    "greater_equal": "tf.math.greater_equal",
    "floordiv": "tf.math.floordiv",
    "floormod": "tf.math.floormod",
    "matmul": "tf.linalg.matmul",
    "abs": "tf.math.abs",
}
"""Keras' names for the layers that it makes of operators."""


class FunctionLayer(Layer):
    """A function of `tf` as a layer: what `tf.concat([x, y], 1)` on symbolic tensors becomes."""

    _moves_axes = True
    _function: Any
    _arguments: Any

    def __init__(self, function: Any, name: str, arguments: Any) -> None:
        super().__init__(name=unique_name(name))
        self._put("_function", function)
        self._put("_arguments", arguments)
        self._put("built", True)

    def _converted(self, inputs: Any) -> Any:
        return inputs

    def call(self, inputs: list[Any]) -> Any:
        values = iter(inputs)
        leaves = [next(values) if isinstance(one, KerasTensor) else one for one in flatten(self._arguments)]
        args, kwargs = pack_sequence_as(self._arguments, leaves)
        return self._function(*args, **kwargs)


class TFOpLambda(Layer):
    """One operation of the table as a layer: what `x + y` on symbolic tensors becomes."""

    _moves_axes = True
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

    def get_config(self) -> dict[str, Any]:
        function = _OPERATION_NAMES[self._operation].removeprefix("tf.")
        return {"name": self.name, "trainable": self.trainable, "dtype": self.dtype, "function": function}


KerasTensor.layer_of_operation = TFOpLambda
KerasTensor.layer_of_function = FunctionLayer


def _functional(layer: type[Layer], before: str = "") -> Callable[..., Any]:
    """Return the function that makes a layer, with these arguments, and calls it."""

    def function(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return layer(*args, **kwargs)(inputs)

    function.__name__ = function.__qualname__ = layer.__name__.lower()
    told = [inspect.signature(layer).parameters[name] for name in before.split()]
    first, _, last = inspect.signature(function).parameters.values()
    function.__signature__ = inspect.Signature([first, *told, last])  # type: ignore[attr-defined]
    return function


def _require_several(what: str, shapes: Any) -> None:
    """Raise ValueError for one tensor in place of a list: its examples would be taken for inputs."""
    if not isinstance(shapes, list) or any(isinstance(one, list) for one in shapes):
        raise ValueError(f"{what} should be called on a list of inputs. Received: input_shape={shapes}")


class _Merge(Layer):
    """Several tensors into one, pair by pair; a place counts where it does in all that have a mask."""

    _operation = "add"
    _passes_masks = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None if mask is None else all_of(_listed_masks(inputs, mask))

    def build(self, input_shape: Any) -> None:
        _require_several("A merge layer", input_shape)
        shapes = [tuple(shape)[1:] for shape in input_shape]
        for shape in shapes[1:]:
            pairs = zip(shapes[0][::-1], shape[::-1], strict=False)
            if any(a != b and 1 not in (a, b) for a, b in pairs):
                raise ValueError(f"Inputs have incompatible shapes. Received shapes {shapes[0]} and {shape}")
        self.built = True

    def call(self, inputs: Any) -> Any:
        return reduce(_op[self._operation], inputs)


class Add(_Merge):
    pass


class Multiply(_Merge):
    _operation = "multiply"


class Subtract(_Merge):
    """The first of two without the second."""

    _operation = "subtract"

    def build(self, input_shape: Any) -> None:
        super().build(input_shape)
        if len(input_shape) != 2:
            raise ValueError(
                "A `Subtract` layer should be called on exactly 2 inputs. "
                f"Received: input_shape={input_shape}"
            )


class Maximum(_Merge):
    _operation = "maximum"


class Minimum(_Merge):
    _operation = "minimum"


class Average(_Merge):
    def call(self, inputs: Any) -> Any:
        return super().call(inputs) / len(inputs)


class Dot(Layer):
    """Products of two tensors along an axis of each, summed for each example."""

    _passes_masks = True

    def _configure(self) -> None:
        axes = self.axes
        if not isinstance(axes, int | list | tuple):
            raise TypeError(
                f"Invalid type for argument `axes`: it should be a list or an int. Received: {axes=}"
            )
        if not isinstance(axes, int) and [type(one) for one in axes] != [int, int]:
            raise ValueError(f"`axes` should be two integers. Received: {axes=}")

    def _places(self, shapes: Any) -> list[int]:
        """Return the axis of each input, counted from its first."""
        if not isinstance(shapes, list | tuple) or isinstance(shapes, TensorShape) or len(shapes) != 2:
            raise ValueError(
                f"A `Dot` layer should be called on a list of 2 inputs. Received: input_shape={shapes}"
            )
        given = [self.axes] * 2 if isinstance(self.axes, int) else self.axes
        return [axis % len(shape) if axis < 0 else axis for axis, shape in zip(given, shapes, strict=True)]

    def build(self, input_shape: Any) -> None:
        places = self._places(input_shape)
        sizes = [shape[axis] for shape, axis in zip(input_shape, places, strict=True)]
        if sizes[0] != sizes[1]:
            raise ValueError(f"Incompatible input shapes: {input_shape} along {places}")
        self.built = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Return None: what is summed over has no places."""

    def call(self, inputs: Any) -> Any:
        places = self._places([one.shape for one in inputs])
        if 0 in places:
            raise ValueError("Cannot perform batch_dot over axis 0.")
        pair = list(inputs)
        if self.normalize:
            pair = [l2_normalize(one, axis) for one, axis in zip(pair, places, strict=True)]
        letters = ["b" + "ijklm"[: pair[0].ndim - 1], "b" + "nopqr"[: pair[1].ndim - 1]]
        terms = [text.replace(text[axis], "z") for text, axis in zip(letters, places, strict=True)]
        kept = "b" + "".join(terms).replace("b", "").replace("z", "")
        product = _op["einsum"](*pair, equation=f"{','.join(terms)}->{kept}")
        return _op["expand_dims"](product, axis=1) if len(kept) == 1 else product


class Concatenate(Layer):
    def build(self, input_shape: Any) -> None:
        _require_several("A `Concatenate` layer", input_shape)
        shapes = [list(shape) for shape in input_shape]
        for shape in shapes:
            shape.pop(self.axis)
        if any(shape != shapes[0] for shape in shapes):
            raise ValueError(
                "A `Concatenate` layer requires inputs with matching shapes except for the concatenation "
                f"axis. Received: input_shape={input_shape}"
            )
        self.built = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None or all(one is None for one in _listed_masks(inputs, mask)):
            return None
        parts = [_spread(one, of) for of, one in zip(inputs, mask, strict=True)]
        return _op["reduce_all"](_op["concat"](*parts, axis=self.axis), axis=-1, keepdims=False)

    def call(self, inputs: Any) -> Any:
        return _op["concat"](*inputs, axis=self.axis)


def _listed_masks(inputs: Any, masks: Any) -> Any:
    """Return the masks of several inputs, one or None for each; ValueError where there are not as many."""
    for name, value in (("mask", masks), ("inputs", inputs)):
        if not isinstance(value, list | tuple):
            raise ValueError(f"`{name}` should be a list. Received: {name}={value}")  # noqa: TRY004  Keras'
    if len(masks) != len(inputs):
        raise ValueError(
            "The lists `inputs` and `mask` should have the same length. "
            f"Received: {len(inputs)} inputs and {len(masks)} masks"
        )
    return masks


def _spread(mask: Any, of: Tensor) -> Any:
    """Return a mask that can be joined with others: with a last axis, and all true where there is none."""
    if mask is None:
        return cast(_op["ones_like"](of), "bool")
    return _op["expand_dims"](mask, axis=-1) if mask.ndim < of.ndim else mask


add, subtract, multiply, average = map(_functional, (Add, Subtract, Multiply, Average))
maximum, minimum = _functional(Maximum), _functional(Minimum)
concatenate, dot = _functional(Concatenate, "axis"), _functional(Dot, "axes normalize")


class Permute(Layer):
    def _configure(self) -> None:
        self._put("dims", tuple(self.dims))
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(
                "Invalid permutation argument `dims` for Permute Layer. The set of indices in `dims` must be "
                f"consecutive and start from 1. Received dims={self.dims}"
            )
        self._put("_ndim", ("ndim", len(self.dims) + 1))

    def call(self, inputs: Tensor) -> Any:
        return _op["transpose"](inputs, perm=(0, *self.dims))


class Rescaling(Layer):
    def call(self, inputs: Any) -> Any:
        return cast(inputs, self._dtype) * cast(self.scale, self._dtype) + cast(self.offset, self._dtype)


class Lambda(Layer):
    """A function as a layer."""

    _moves_axes = True
    function: Callable[..., Any]
    arguments: dict[str, Any]
    mask: Any
    _asks_for: list[str]

    def __init__(
        self,
        function: Callable[..., Any],
        output_shape: Any = None,
        mask: Any = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._put("function", function)
        self._put("arguments", arguments or {})
        self._put("mask", mask)
        self._put("_asks_for", [name for name in ("mask", "training") if name in _names_of(function)])

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        told = {"mask": mask, "training": training}
        return self.function(inputs, **self.arguments, **{name: told[name] for name in self._asks_for})


def _names_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's arguments; none of a function that does not tell."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
