"""Dense and the plain layers around it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...errors import InvalidArgumentError
from ...ops.elementwise import cast
from ...ops.random import dropped
from ...random import normal
from ...tensor import OPERATIONS, Tensor, TensorShape, as_tensor
from ...unknown import refuse
from .. import activations
from ..base_layer import Layer
from ..masks import hang_mask
from ..symbolic import KerasTensor

if TYPE_CHECKING:
    from ...variable import Variable

__all__ = [
    "Activation", "CategoryEncoding", "Dense", "Dropout", "Embedding", "Flatten", "GaussianNoise",
    "LeakyReLU", "Masking", "PReLU", "ReLU", "Reshape", "Softmax", "SpatialDropout1D", "SpatialDropout2D",
    "SpatialDropout3D",
]  # fmt: skip

_op = OPERATIONS


class Dense(Layer):
    """activation(x · kernel + bias)."""

    _inputs_wanted = 1
    _passes_masks = True
    _last_dim: int
    units: int
    kernel: Variable
    bias: Variable | None

    def _configure(self) -> None:
        given, self.units = self.units, int(self.units)
        if self.units < 0:
            raise ValueError(
                f"Received an invalid value for `units`, expected a positive integer. Received: units={given}"
            )

    def build(self, input_shape: Any) -> None:
        first = input_shape[0] if len(input_shape) else ()
        if isinstance(first, TensorShape) and len(first) > 1:
            raise TypeError(f"Dimension value must be integer or None, got {first}")
        if isinstance(first, tuple):
            raise ValueError(f'Input 0 of layer "{self.name}" is incompatible with the layer: found ndim=0')  # noqa: TRY004  Keras
        last = input_shape[-1]
        if last is None:
            raise ValueError(
                "The last dimension of the inputs to a Dense layer should be defined. Found None."
            )
        self._put("_last_dim", last)
        self._make_weights(INPUT=last)

    def call(self, inputs: Tensor) -> Tensor:
        if inputs.__class__ is not Tensor or inputs._value.dtype is not self._dtype.numpy_dtype:
            inputs = cast(inputs, self._dtype)
        if inputs._value.shape[-1] != self._last_dim:
            raise ValueError(
                f'Input 0 of layer "{self.name}" is incompatible with the layer: expected axis -1 of input '
                "shape to have "
                f"value {self._last_dim}, but received input with shape {inputs.shape}"
            )
        if self.bias is None:
            return self.activation(_op["matmul"](inputs, self.kernel))
        return self.activation(_op["dense"](inputs, self.kernel, self.bias))


class Activation(Layer):
    _passes_masks = True

    def call(self, inputs: Tensor) -> Any:
        return self.activation(inputs)


class ReLU(Layer):
    _passes_masks = True

    def _configure(self) -> None:
        for name in ("max_value", "negative_slope", "threshold"):
            value = getattr(self, name)
            if (value is None and name != "max_value") or (value is not None and value < 0.0):
                raise ValueError(
                    f"{name} of a ReLU layer cannot be a negative value. Received: {name}={value}"
                )

    def call(self, inputs: Tensor) -> Tensor:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    _passes_masks = True

    def _configure(self) -> None:
        if self.alpha is None:
            raise ValueError(
                "The alpha value of a Leaky ReLU layer cannot be None, Expecting a float. Received: None"
            )

    def call(self, inputs: Tensor) -> Tensor:
        return activations.leaky_relu(inputs, self.alpha)


class Softmax(Layer):
    _passes_masks = True

    def call(self, inputs: Tensor, mask: Any = None) -> Tensor:
        inputs.shape  # noqa: B018  As in Keras, a list has none.
        if mask is not None:
            inputs = inputs + (1.0 - cast(mask, inputs.dtype)) * -1e9
        return activations.softmax(inputs, self.axis)


class Random(Layer):
    """Base of layers that draw: Keras gives every call a seed of its own."""

    _passes_masks = True

    def _configure(self) -> None:
        self._next_seed = self.seed

    def _seed(self) -> int | None:
        seed = self._next_seed
        if seed is not None:
            self._next_seed = seed + 1
        return seed


class Dropout(Random):
    """In training, zeros for a share of the elements and the rest scaled up; otherwise the input."""

    def _configure(self) -> None:
        super()._configure()
        if isinstance(self.rate, int | float) and not 0 <= self.rate <= 1:
            raise ValueError(
                f"Invalid value {self.rate} received for `rate`, expected a value between 0 and 1."
            )

    def _noise_shape(self, inputs: Tensor) -> Any:
        """Return the shape of the zeros, which are the same along an axis of 1."""
        return self.noise_shape

    def call(self, inputs: Tensor, training: Any = None) -> Tensor:
        if not training or self.rate == 0:
            return as_tensor(inputs)
        seed = self._seed()
        if not isinstance(self.rate, int | float) or self.rate == 1:
            raise ValueError(
                f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={self.rate}"
            )
        return dropped(inputs, self.rate, self._noise_shape(inputs), seed)


class SpatialDropout1D(Dropout):
    """Zeros for whole channels."""

    _rank = 1

    def _configure(self) -> None:
        super()._configure()
        self._put("_ndim", ("ndim", self._rank + 2))
        self._put("_is_first", is_channels_first(self._options.get("data_format")))

    def _noise_shape(self, inputs: Tensor) -> Any:
        places = [1] * self._rank
        if self._is_first:
            return [*inputs.shape[:2], *places]
        return [inputs.shape[0], *places, inputs.shape[-1]]


class SpatialDropout2D(SpatialDropout1D):
    _rank = 2


class SpatialDropout3D(SpatialDropout2D):
    _rank = 3


class GaussianNoise(Random):
    """In training, the input with normal noise."""

    def call(self, inputs: Tensor, training: Any = None) -> Tensor:
        if not training:
            return inputs
        return inputs + normal(inputs.shape, 0.0, self.stddev, inputs.dtype, self._seed())


class PReLU(Layer):
    """x, times a learned alpha where it is negative."""

    _passes_masks = True
    alpha: Variable
    shared_axes: list[int] | None

    def _configure(self) -> None:
        given = self.shared_axes
        listed = list(given) if isinstance(given, list | tuple) else [given]
        self._put("shared_axes", None if given is None else listed)

    def build(self, input_shape: Any) -> None:
        shape = list(input_shape[1:])
        for axis in self.shared_axes or ():
            shape[axis - 1] = 1
        self._put("_ndim", ("ndim", len(input_shape)))
        self._make_weights(shapes={"alpha": shape})

    def call(self, inputs: Tensor) -> Tensor:
        return activations.relu(inputs) + -self.alpha * activations.relu(-inputs)


def is_channels_first(given: Any) -> bool:
    """Whether the argument `data_format` is channels_first; ValueError if it is not a data format."""
    if given not in (None, "channels_last", "channels_first"):
        raise ValueError(
            f"The `data_format` argument must be one of 'channels_first', 'channels_last'. Received: {given}"
        )
    return bool(given == "channels_first")


class Flatten(Layer):
    _inputs_wanted = 1

    def _configure(self) -> None:
        self._put("_is_first", is_channels_first(self.data_format))

    def call(self, inputs: Tensor) -> Tensor:
        inputs.shape  # noqa: B018  As in Keras, a list has none.
        if self._is_first and inputs.ndim > 1:
            inputs = _op["transpose"](inputs, perm=(0, *range(2, inputs.ndim), 1))
        return _op["flatten_batch"](inputs)


class Reshape(Layer):
    def _configure(self) -> None:
        self._put("target_shape", tuple(self.target_shape))

    def call(self, inputs: Tensor) -> Tensor:
        inputs, shape = as_tensor(inputs), self.target_shape
        if -1 in shape:
            known = -1
            for dim in shape:
                known *= dim
            shape = tuple(math.prod(inputs.shape[1:]) // known if dim == -1 else dim for dim in shape)
        of_example = math.prod(inputs.shape[1:])
        if math.prod(shape) != of_example:
            raise InvalidArgumentError(
                f"Input to reshape is a tensor with {of_example} values for each example, but the requested "
                f"shape {shape} has {math.prod(shape)} [Op:Reshape]"
            )
        return _op["reshape"](inputs, shape=(-1, *shape))


class Masking(Layer):
    """The input, and a mask that leaves out places all of whose elements are one value; those become 0."""

    _passes_masks = _hangs_masks = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return _op["reduce_any"](as_tensor(inputs) != self.mask_value, axis=-1, keepdims=False)

    def call(self, inputs: Tensor) -> Tensor:
        inputs.dtype  # noqa: B018  As in Keras, a list has none.
        mask = self.compute_mask(inputs)
        out = inputs * cast(_op["expand_dims"](mask, axis=-1), inputs.dtype)
        hang_mask(out, mask)
        return out


class Embedding(Layer):
    """A row of a table for each integer; with `mask_zero` places that are 0 are masked."""

    _refused = ("sparse",)
    embeddings: Variable

    def _configure(self) -> None:
        if self.input_dim <= 0 or self.output_dim <= 0:
            raise ValueError(
                "Both `input_dim` and `output_dim` should be positive, "
                f"Received input_dim = {self.input_dim} and output_dim = {self.output_dim}"
            )
        self.supports_masking = self.mask_zero

    def _build_for(self, inputs: Any) -> None:
        super()._build_for(None if inputs is None else ())

    def build(self, input_shape: Any) -> None:
        self._make_weights()

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if not self.mask_zero:
            return None
        return (inputs if isinstance(inputs, KerasTensor) else as_tensor(inputs)) != 0

    def get_config(self) -> dict[str, Any]:
        return {"batch_input_shape": (None, self._options["input_length"])} | super().get_config()

    def call(self, inputs: Any) -> Tensor:
        inputs.dtype  # noqa: B018  As in Keras, a list has none.
        indices = as_tensor(inputs)
        return _op["gather"](
            self.embeddings, cast(indices, "int32") if indices.dtype.is_floating else indices, axis=0
        )


class CategoryEncoding(Layer):
    """Integers as rows: a one at each, for an example or for each of them, or how often there are."""

    _refused = ("sparse",)

    def _configure(self) -> None:
        if self.output_mode not in ("count", "one_hot", "multi_hot"):
            raise ValueError(f"Unknown argument for `output_mode`: {self.output_mode}.")
        if self.num_tokens is None:
            raise ValueError("num_tokens must be set to use this layer. If the number of tokens is not known "
                             "beforehand, use the IntegerLookup layer instead.")  # fmt: skip
        if self.num_tokens < 1:
            raise ValueError(f"`num_tokens` must be >= 1. Received: num_tokens={self.num_tokens}.")

    def _converted(self, inputs: Any) -> Any:
        return as_tensor(inputs)

    def call(self, inputs: Any, count_weights: Any = None) -> Tensor:
        if count_weights is not None and self.output_mode != "count":
            raise ValueError(
                f"`count_weights` is not used when `output_mode` is not `'count'`. Received {count_weights=}"
            )
        refuse("CategoryEncoding", count_weights=count_weights)
        x = as_tensor(inputs)
        if x._value.size and not 0 <= x._value.min() <= x._value.max() < self.num_tokens:
            raise InvalidArgumentError(
                f"Input values must be in the range 0 <= values < num_tokens={self.num_tokens}"
            )
        return encoded(x, self.output_mode, self.num_tokens, self._dtype)


def encoded(x: Tensor, mode: str, depth: int, dtype: Any, weights: Any = None) -> Tensor:
    """Return numbers as rows of a width: where they are, or how often, each by its weight."""
    if mode == "int":
        return cast(x, dtype)
    shape, is_one_hot = x.shape, mode == "one_hot"
    x = x if x.ndim else _op["expand_dims"](x, axis=-1)
    if is_one_hot and x.shape[-1] != 1:
        x = _op["expand_dims"](x, axis=-1)
    if x.ndim > 2:
        raise ValueError(f"Received input_shape={shape}, which would result in output rank > 2.")
    how = {"depth": depth, "on": 1, "off": 0, "axis": -1, "dtype": dtype.numpy_dtype}
    hot = _op["one_hot"](cast(x, "int64"), **how)
    kind = "reduce_sum" if mode in ("count", "tf_idf") else "reduce_max"
    out = _op[kind](hot, axis=-2, keepdims=False)
    return out if weights is None else out * weights
