"""Dense and the plain layers around it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from formats.keras.layers import LAYERS

from ...errors import InvalidArgumentError
from ...ops.elementwise import cast
from ...ops.random import dropped
from ...random import normal
from ...tensor import OPERATIONS, Tensor, TensorShape, as_tensor
from ...unknown import refuse
from .. import activations, initializers
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

    _row = LAYERS["Dense"]
    _inputs_wanted = 1
    _passes_masks = True
    _last_dim: int
    kernel: Variable
    bias: Variable | None

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            activity_regularizer=activity_regularizer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            **kwargs,
        )
        self.units = int(units)
        if self.units < 0:
            raise ValueError(
                f"Received an invalid value for `units`, expected a positive integer. Received: units={units}"
            )
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self._put("_initial", initializers.by_name(kernel=kernel_initializer, bias=bias_initializer))

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

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activations.get(activation)

    def call(self, inputs: Tensor) -> Any:
        return self.activation(inputs)


class ReLU(Layer):
    _passes_masks = True

    def __init__(
        self,
        max_value: float | None = None,
        negative_slope: float = 0.0,
        threshold: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        given = {"max_value": max_value, "negative_slope": negative_slope, "threshold": threshold}
        for name, value in given.items():
            if (value is None and name != "max_value") or (value is not None and value < 0.0):
                raise ValueError(
                    f"{name} of a ReLU layer cannot be a negative value. Received: {name}={value}"
                )
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold

    def call(self, inputs: Tensor) -> Tensor:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    _passes_masks = True

    def __init__(self, alpha: float = 0.3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if alpha is None:
            raise ValueError(
                "The alpha value of a Leaky ReLU layer cannot be None, Expecting a float. Received: None"
            )
        self.alpha = alpha

    def call(self, inputs: Tensor) -> Tensor:
        return activations.leaky_relu(inputs, self.alpha)


class Softmax(Layer):
    _passes_masks = True

    def __init__(self, axis: Any = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis: Any = axis

    def call(self, inputs: Tensor, mask: Any = None) -> Tensor:
        inputs.shape  # noqa: B018  As in Keras, a list has none.
        if mask is not None:
            inputs = inputs + (1.0 - cast(mask, inputs.dtype)) * -1e9
        return activations.softmax(inputs, self.axis)


class Random(Layer):
    """Base of layers that draw: Keras gives every call a seed of its own."""

    _passes_masks = True

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed = self._next_seed = seed

    def _seed(self) -> int | None:
        seed = self._next_seed
        if seed is not None:
            self._next_seed = seed + 1
        return seed


class Dropout(Random):
    """In training, zeros for a share of the elements and the rest scaled up; otherwise the input."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        if isinstance(rate, int | float) and not 0 <= rate <= 1:
            raise ValueError(f"Invalid value {rate} received for `rate`, expected a value between 0 and 1.")
        self.rate, self.noise_shape = rate, noise_shape

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

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        self._put("_ndim", ("ndim", self._rank + 2))

    def _noise_shape(self, inputs: Tensor) -> Any:
        return [inputs.shape[0], *[1] * self._rank, inputs.shape[-1]]


class SpatialDropout2D(SpatialDropout1D):
    _rank = 2

    def __init__(self, rate: float, data_format: str | None = None, **kwargs: Any) -> None:
        refuse(type(self).__name__, data_format=None if data_format == "channels_last" else data_format)
        super().__init__(rate, **kwargs)


class SpatialDropout3D(SpatialDropout2D):
    _rank = 3


class GaussianNoise(Random):
    """In training, the input with normal noise."""

    def __init__(self, stddev: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(seed, **kwargs)
        self.stddev = stddev

    def call(self, inputs: Tensor, training: Any = None) -> Tensor:
        if not training:
            return inputs
        return inputs + normal(inputs.shape, 0.0, self.stddev, inputs.dtype, self._seed())


class PReLU(Layer):
    """x, times a learned alpha where it is negative."""

    _row = LAYERS["PReLU"]
    _passes_masks = True
    alpha: Variable
    shared_axes: list[int] | None

    def __init__(
        self, alpha_initializer: Any = "zeros", alpha_regularizer: Any = None, alpha_constraint: Any = None,
        shared_axes: Any = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        given = {"alpha_regularizer": alpha_regularizer, "alpha_constraint": alpha_constraint}
        super().__init__(**given, **kwargs)
        several = list(shared_axes) if isinstance(shared_axes, list | tuple) else [shared_axes]
        self._put("shared_axes", None if shared_axes is None else several)
        self._put("_initial", initializers.by_name(alpha=alpha_initializer))

    def build(self, input_shape: Any) -> None:
        shape = list(input_shape[1:])
        for axis in self.shared_axes or ():
            shape[axis - 1] = 1
        self._put("_ndim", ("ndim", len(input_shape)))
        self._make_weights(shapes={"alpha": shape})

    def call(self, inputs: Tensor) -> Tensor:
        return activations.relu(inputs) + -self.alpha * activations.relu(-inputs)


class Flatten(Layer):
    _inputs_wanted = 1

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        refuse("Flatten", data_format=None if data_format == "channels_last" else data_format)

    def call(self, inputs: Tensor) -> Tensor:
        inputs.shape  # noqa: B018  As in Keras, a list has none.
        return _op["flatten_batch"](inputs)


class Reshape(Layer):
    target_shape: tuple[int, ...]

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._put("target_shape", tuple(target_shape))

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

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mask_value = mask_value

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

    _row = LAYERS["Embedding"]
    _refused = ("sparse",)
    embeddings: Variable
    _length: Any

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: Any = None,
        **kwargs: Any,
    ) -> None:
        if input_dim <= 0 or output_dim <= 0:
            raise ValueError(
                "Both `input_dim` and `output_dim` should be positive, "
                f"Received input_dim = {input_dim} and output_dim = {output_dim}"
            )
        super().__init__(
            activity_regularizer=activity_regularizer,
            embeddings_regularizer=embeddings_regularizer,
            embeddings_constraint=embeddings_constraint,
            **kwargs,
        )
        self.input_dim, self.output_dim, self.mask_zero = input_dim, output_dim, mask_zero
        self.supports_masking = mask_zero
        self._put("_length", input_length)
        self._put("_initial", initializers.by_name(embeddings=embeddings_initializer))

    def _build_for(self, inputs: Any) -> None:
        super()._build_for(None if inputs is None else ())

    def build(self, input_shape: Any) -> None:
        self._make_weights()

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if not self.mask_zero:
            return None
        return (inputs if isinstance(inputs, KerasTensor) else as_tensor(inputs)) != 0

    def get_config(self) -> dict[str, Any]:
        return {"batch_input_shape": (None, self._length)} | super().get_config()

    def call(self, inputs: Any) -> Tensor:
        inputs.dtype  # noqa: B018  As in Keras, a list has none.
        indices = as_tensor(inputs)
        return _op["gather"](
            self.embeddings, cast(indices, "int32") if indices.dtype.is_floating else indices, axis=0
        )


class CategoryEncoding(Layer):
    """Integers as rows: a one at each, for an example or for each of them, or how often there are."""

    def __init__(
        self, num_tokens: Any = None, output_mode: str = "multi_hot", sparse: bool = False, **kwargs: Any
    ) -> None:
        refuse("CategoryEncoding", sparse=sparse)
        super().__init__(**kwargs)
        if output_mode not in ("count", "one_hot", "multi_hot"):
            raise ValueError(f"Unknown argument for `output_mode`: {output_mode}.")
        if num_tokens is None:
            raise ValueError("num_tokens must be set to use this layer. If the number of tokens is not known "
                             "beforehand, use the IntegerLookup layer instead.")  # fmt: skip
        if num_tokens < 1:
            raise ValueError(f"`num_tokens` must be >= 1. Received: num_tokens={num_tokens}.")
        self.num_tokens, self.output_mode = num_tokens, output_mode

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
        if self.output_mode == "one_hot":
            x = x if x.ndim and x.shape[-1] == 1 else _op["expand_dims"](x, axis=-1)
        if x.ndim < 1 or (x.ndim > 2 and self.output_mode != "one_hot") or x.ndim > 2:
            raise ValueError(f"Received input_shape={inputs.shape}, which would result in output rank > 2.")
        hot = _op["one_hot"](
            cast(x, "int64"), depth=self.num_tokens, on=1, off=0, axis=-1, dtype=self._dtype.numpy_dtype
        )
        kind = "reduce_sum" if self.output_mode == "count" else "reduce_max"
        return _op[kind](hot, axis=-2, keepdims=False)
