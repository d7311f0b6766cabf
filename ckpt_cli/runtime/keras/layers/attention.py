"""Attention with several heads, made of EinsumDense layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.keras.layers import LAYERS

from ...functions import reduce_sum
from ...ops.elementwise import cast
from ...ops.random import dropped
from ...tensor import OPERATIONS, Tensor, as_tensor
from ...unknown import refuse
from .. import activations, initializers
from ..base_layer import Layer
from ..masks import all_of, as_mask, mask_of
from .core import Dropout, Random, Softmax

if TYPE_CHECKING:
    from ...variable import Variable

__all__ = ["AdditiveAttention", "Attention", "EinsumDense", "MultiHeadAttention"]

_op = OPERATIONS


class EinsumDense(Layer):
    """activation(einsum(equation, x, kernel) + bias); `output_shape` is without the batch, None follows x."""

    _row = LAYERS["EinsumDense"]
    kernel: Variable
    bias: Variable | None

    def __init__(
        self,
        equation: str,
        output_shape: Any,
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        activity_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)  # Keras does not follow activity_regularizer here, either.
        self.equation, self.bias_axes = equation, bias_axes
        self.partial_output_shape: Any = (
            list(output_shape) if isinstance(output_shape, list | tuple) else [output_shape]
        )
        self.activation = activations.get(activation)
        self._put("_initial", initializers.by_name(kernel=kernel_initializer, bias=bias_initializer))

    def build(self, input_shape: Any) -> None:
        left, _, output = self.equation.partition("->")
        of_input, of_kernel = left.split(",")
        sizes = dict(zip(of_input[::-1], tuple(input_shape)[::-1], strict=False))
        own = output if not output.startswith("...") else output[3:]
        for letter, size in zip(own[::-1], list(self.partial_output_shape)[::-1], strict=False):
            if size is not None:
                sizes[letter] = size
        self.full_output_shape: Any = [sizes.get(letter) for letter in output if letter != "."]
        shapes = {"kernel": [sizes[letter] for letter in of_kernel]}
        if self.bias_axes is not None:
            first = min(output.index(letter) for letter in self.bias_axes)
            shapes["bias"] = [sizes[letter] if letter in self.bias_axes else 1 for letter in output[first:]]
        self._make_weights(shapes=shapes)

    def call(self, inputs: Tensor) -> Any:
        out = _op["einsum"](inputs, self.kernel, equation=self.equation)
        if self.bias is not None:
            out = out + self.bias
        return self.activation(out)


def _masks_along(query: Any, value: Any, key: Any) -> list[Any]:
    """Return the existing masks of the inputs, reshaped to [batch, to, from]."""
    masks = (mask_of(query), 2), (mask_of(value), 1), (mask_of(key), 1)
    return [_op["expand_dims"](as_mask(mask), axis=axis) for mask, axis in masks if mask is not None]


def _causal(scores: Tensor) -> Tensor:
    """Return which places each place sees that sees no later one."""
    return as_tensor(np.tril(np.ones(scores.shape[-2:], bool))[None])


class Attention(Random):
    """softmax(scores of query and key) · value, for inputs [query, value] or [query, value, key]."""

    _row = LAYERS["Attention"]
    _refused = ("causal",)
    _initial_scale = "ones"
    scale: Variable | None
    concat_score_weight: Variable

    def __init__(
        self, use_scale: bool = False, score_mode: str = "dot", dropout: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if score_mode not in ("dot", "concat"):
            raise ValueError(f'Received: {score_mode=}. Acceptable values are: ["dot", "concat"]')
        self.use_scale, self.score_mode, self.dropout = use_scale, score_mode, dropout
        weights = dict.fromkeys(("scale", "concat_score_weight"), initializers.get(self._initial_scale))
        self._put("_initial", weights)

    def build(self, input_shape: Any) -> None:
        self._make_weights()

    def _listed(self, values: Any, what: str, most: int) -> list[Any]:
        if not isinstance(values, list) or not 2 <= len(values) <= most:
            raise ValueError(
                f"{type(self).__name__} layer: {what} should be a list of 2 to {most}. Received: {values}."
            )
        return values

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        if self.score_mode == "dot":
            scores = _op["matmul"](query, key, transpose_b=True)
            return scores if self.scale is None else scores * self.scale
        total = _sums(query, key)
        total = total if self.scale is None else self.scale * total
        return self.concat_score_weight * reduce_sum(_op["tanh"](total), -1)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        first = self._listed(mask, "mask", len(inputs))[0] if mask else None
        return None if first is None else as_tensor(first)

    def call(
        self, inputs: Any, mask: Any = None, training: Any = None, return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:  # fmt: skip
        query, value, *more = self._listed(inputs, "inputs", 3)
        to_query, to_value, *_ = self._listed(mask, "mask", len(inputs)) if mask else (None, None)
        scores = self._scores(query, more[0] if more else value)
        seen = None if to_value is None else _op["expand_dims"](as_mask(to_value), axis=-2)
        seen = all_of([seen, _causal(scores) if use_causal_mask else None])
        if seen is not None:
            least = 65504.0 if scores.dtype.name == "float16" else 1.0e9
            scores = scores - least * cast(_op["logical_not"](seen), scores.dtype)
        weights = _op["softmax"](scores, axis=-1)
        if self.dropout > 0 and training:
            weights = dropped(weights, self.dropout, None, self._seed())
        out = _op["matmul"](weights, value)
        if to_query is not None:
            out = out * cast(_op["expand_dims"](as_mask(to_query), axis=-1), out.dtype)
        return (out, weights) if return_attention_scores else out


def _sums(query: Tensor, key: Tensor) -> Tensor:
    """Return the sum of each query and each key."""
    return _op["expand_dims"](query, axis=-2) + _op["expand_dims"](key, axis=-3)


class AdditiveAttention(Attention):
    """The same, where scores are sums of tanh(query + key)."""

    _row = LAYERS["AdditiveAttention"]
    _initial_scale = "glorot_uniform"

    def __init__(self, use_scale: bool = True, **kwargs: Any) -> None:
        super().__init__(use_scale, **kwargs)

    def build(self, input_shape: Any) -> None:
        value = input_shape[1]
        self._make_weights(INPUT=value if value.__class__ is int else value[-1])

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        total = _op["tanh"](_sums(query, key))
        return reduce_sum(total if self.scale is None else self.scale * total, -1)


class MultiHeadAttention(Layer):
    """softmax(query · key / √key_dim) · value for each head, and all heads projected back.

    Inputs are [batch, places, features]; attention is over the places.
    """

    _how: dict[str, Any]
    _passes_masks = True

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: Any = None,
        attention_axes: Any = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        if attention_axes not in (None, 1, (1,), [1]):
            raise NotImplementedError(
                f"attention_axes={attention_axes!r} is not supported, only the axis of places"
            )
        if not isinstance(output_shape, int | None):
            refuse("MultiHeadAttention", output_shape=output_shape)
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self._num_heads, self._key_dim, self._value_dim = num_heads, key_dim, value_dim or key_dim
        self._dropout, self._use_bias, self._out_features = dropout, use_bias, output_shape
        how = {
            "kernel_initializer": kernel_initializer, "bias_initializer": bias_initializer,
            "kernel_regularizer": kernel_regularizer, "bias_regularizer": bias_regularizer,
            "kernel_constraint": kernel_constraint, "bias_constraint": bias_constraint, "dtype": self.dtype,
        }  # fmt: skip
        self._put("_how", how)

    def _projection(self, name: str, features: int) -> EinsumDense:
        bias = "de" if self._use_bias else None
        shape = [None, self._num_heads, features]
        return EinsumDense("abc,cde->abde", shape, bias_axes=bias, name=name, **self._how)

    def _build_from_signature(self, query: Any) -> None:
        self._query_dense = self._projection("query", self._key_dim)
        self._key_dense = self._projection("key", self._key_dim)
        self._value_dense = self._projection("value", self._value_dim)
        self._softmax = Softmax(axis=-1, dtype=self.dtype)
        self._dropout_layer = Dropout(self._dropout, dtype=self.dtype)
        features = self._out_features or query.shape[-1]
        bias = "e" if self._use_bias else None
        shape = [None, features]
        self._output_dense = EinsumDense(
            "abcd,cde->abe", shape, bias_axes=bias, name="attention_output", **self._how
        )

    def _build_for(self, inputs: Any) -> None:
        self._build_from_signature(inputs)
        self._put("built", True)

    def call(
        self,
        query: Tensor,
        value: Any,
        key: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: Any = None,
        use_causal_mask: bool = False,
    ) -> Any:
        queries = self._query_dense(query) * (1.0 / math.sqrt(float(self._key_dim)))
        keys = self._key_dense(value if key is None else key)
        values = self._value_dense(value)
        scores = _op["einsum"](keys, queries, equation="aecd,abcd->acbe")
        automatic = all_of([*_masks_along(query, value, key), _causal(scores) if use_causal_mask else None])
        if automatic is not None:
            attention_mask = automatic if attention_mask is None else as_mask(attention_mask) & automatic
        if attention_mask is not None and attention_mask.ndim == 3:
            attention_mask = _op["expand_dims"](attention_mask, axis=1)
        weights = self._softmax(scores, mask=attention_mask)
        dropped = self._dropout_layer(weights, training=training)
        out = self._output_dense(_op["einsum"](dropped, values, equation="acbe,aecd->abcd"))
        return (out, weights) if return_attention_scores else out
