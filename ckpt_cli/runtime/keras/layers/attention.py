"""Attention with several heads, made of EinsumDense layers."""

from __future__ import annotations

import math
import string
from typing import TYPE_CHECKING, Any

import numpy as np

from ...functions import reduce_sum
from ...ops.elementwise import cast
from ...ops.random import dropped
from ...shaping import repeat
from ...tensor import OPERATIONS, Tensor, as_tensor
from .. import initializers
from ..base_layer import Layer
from ..masks import all_of, as_mask, mask_of
from .core import Dropout, Random, Softmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...variable import Variable

__all__ = ["AdditiveAttention", "Attention", "EinsumDense", "MultiHeadAttention"]

_op = OPERATIONS


class EinsumDense(Layer):
    """activation(einsum(equation, x, kernel) + bias); `output_shape` is without the batch, None follows x."""

    kernel: Variable
    bias: Variable | None

    def _configure(self) -> None:
        # Keras does not follow activity_regularizer here, either.
        shape = self._options["output_shape"]
        self.partial_output_shape: Any = list(shape) if isinstance(shape, list | tuple) else [shape]
        self._put("_activity_regularizer", None)

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


def _causal(query: Tensor, value: Tensor) -> Tensor:
    """Return which places each place sees that sees no later one."""
    return as_tensor(np.tril(np.ones((query.shape[1], value.shape[1]), bool))[None])


class Attention(Random):
    """softmax(scores of query and key) · value, for inputs [query, value] or [query, value, key]."""

    _refused = ("causal",)
    _initial_scale = "ones"
    scale: Variable | None
    concat_score_weight: Variable

    def _configure(self) -> None:
        super()._configure()
        if self.score_mode not in ("dot", "concat"):
            raise ValueError(f'Received: {self.score_mode=}. Acceptable values are: ["dot", "concat"]')
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
        seen = all_of([seen, _causal(query, value) if use_causal_mask else None])
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

    score_mode = "dot"
    _initial_scale = "glorot_uniform"

    def build(self, input_shape: Any) -> None:
        value = input_shape[1]
        self._make_weights(INPUT=value if value.__class__ is int else value[-1])

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        total = _op["tanh"](_sums(query, key))
        return reduce_sum(total if self.scale is None else self.scale * total, -1)


class MultiHeadAttention(Layer):
    """softmax(query · key / √key_dim) · value for each head, and all heads projected back.

    Inputs are [batch, ..., features]; attention is over the axes of places, all unless `attention_axes` says.
    """

    _passes_masks = True
    _equations: tuple[str, str]

    def _configure(self) -> None:
        options = self._options
        axes, shape = options["attention_axes"], options["output_shape"]
        self._put("_axes", tuple(axes) if isinstance(axes, list | tuple) else axes and (axes,))
        self._put("_out", list(shape) if isinstance(shape, list | tuple) else shape and [shape])
        how = {name: options[name] for name in options if name.startswith(("kernel_", "bias_"))}
        self._put("_how", {**how, "dtype": self.dtype})

    def _sizes(self) -> dict[str, tuple[int, int]]:
        """Return the number of heads, and the size of each, of each projection."""
        heads, key, value = self.num_heads, self.key_dim, self.value_dim or self.key_dim
        return {"query": (heads, key), "key": (heads, key), "value": (heads, value)}

    def _projection(self, name: str, rank: int, bound: int, sizes: Sequence[int]) -> EinsumDense:
        """Return what maps the last `bound` axes of a tensor of some rank to axes of these sizes."""
        free, others = _letters(rank - bound), _letters(bound + len(sizes), rank - bound)
        equation = f"{free}{others[:bound]},{others}->{free}{others[bound:]}"
        shape, bias = [None] * (rank - bound - 1) + [*sizes], others[bound:] if self.use_bias else None
        return EinsumDense(equation, shape, bias_axes=bias, name=name, **self._how)

    def _build_for(self, inputs: Any) -> None:
        rank = inputs.ndim
        for name, sizes in self._sizes().items():
            setattr(self, f"_{name}_dense", self._projection(name, rank, 1, sizes))
        places = self._axes or tuple(range(1, rank - 1))
        self._put("_axes", places)
        last = tuple(range(-len(places), 0))
        self._softmax = Softmax(axis=last[0] if len(last) == 1 else last, dtype=self.dtype)
        self._dropout_layer = Dropout(self.dropout, dtype=self.dtype)
        output = self._projection("attention_output", rank + 1, 2, self._out or [inputs.shape[-1]])
        self._output_dense = output
        target, source = _letters(rank + 1), list(_letters(rank + 1))
        for letter, place in zip(_letters(len(places), rank + 1), places, strict=True):
            source[place] = letter
        kept = [letter for at, letter in enumerate(target[:-1]) if at not in places]
        scores = "".join([*kept, *(target[at] for at in places), *(source[at] for at in places)])
        of = "".join(source)
        self._put("_equations", (f"{of},{target}->{scores}", f"{scores},{of}->{target}"))
        self._put("built", True)

    def _shared(self, heads: Tensor) -> Any:
        """Return keys or values with one head for each of the queries'."""
        return heads

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
        size = self._sizes()["query"][1]
        queries = self._query_dense(query) * (1.0 / math.sqrt(float(size)))
        keys = self._shared(self._key_dense(value if key is None else key))
        values = self._shared(self._value_dense(value))
        products, weighed = self._equations
        scores = _op["einsum"](keys, queries, equation=products)
        causal = _causal(query, value) if use_causal_mask else None
        automatic = all_of([*_masks_along(query, value, key), causal])
        if automatic is not None:
            attention_mask = automatic if attention_mask is None else as_mask(attention_mask) & automatic
        if attention_mask is not None:
            for _ in range(scores.ndim - attention_mask.ndim):
                attention_mask = _op["expand_dims"](attention_mask, axis=-2 * len(self._axes) - 1)
        weights = self._softmax(scores, mask=attention_mask)
        dropped = self._dropout_layer(weights, training=training)
        out = self._output_dense(_op["einsum"](dropped, values, equation=weighed))
        return (out, weights) if return_attention_scores else out


def _letters(count: int, first: int = 0) -> str:
    return string.ascii_lowercase[first : first + count]


class GroupQueryAttention(MultiHeadAttention):
    """Keras 3's attention in which several heads of queries share one of keys and values."""

    def _configure(self) -> None:
        super()._configure()
        heads, groups = self.num_query_heads, self.num_key_value_heads
        if heads % groups:
            raise ValueError(
                f"`num_query_heads` must be divisible by `num_key_value_heads`. Received: {heads}, {groups}"
            )

    def _sizes(self) -> dict[str, tuple[int, int]]:
        shared = (self.num_key_value_heads, self.head_dim)
        return {"query": (self.num_query_heads, self.head_dim), "key": shared, "value": shared}

    def _shared(self, heads: Tensor) -> Any:
        return repeat(heads, self.num_query_heads // self.num_key_value_heads, 2)
