"""Keras' layers, one row a class: their weights in order, their parts, and what differs between generations.

A weight's shape is spelled in words, one for each dimension:

    units             a number of the configuration
    4*units           a product
    kernel_size...    all numbers of a list
    INPUT             what only the input tells; one word is one number throughout a layer
    AXES              as many of those as the option `axis` names

Readers of HDF5 files and of object graphs, conversions, checks of shapes, models made from configurations and
the runtime's layers all use this table. A user's own class is not in it, even if its name is: `config`
recognises it by its registered name. keras/src/layers/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ..core.spec import TensorSpec


Pattern = tuple["int | str", ...]
"""A shape as far as it is known: what is free is the word for it."""


class LayerOptions(Protocol):
    """A layer's options by name: `get` of a configuration, or what reads a live layer's attributes."""

    def __call__(self, name: str, default: Any = None, /) -> Any: ...


class WeightRow(NamedTuple):
    """A weight of a layer; `shape` is None if it follows from more than numbers of the configuration.

    If there is such a weight, all options in `when` are on, those behind a `!` are off, and those with a
    `=` have that value.
    """

    name: str
    shape: str | None = None
    when: str = ""
    trainable: bool = True
    in_keras_3: str | None = None
    """Its attribute in Keras 3, where that is neither its name nor its name behind an underscore."""

    also: str = ""
    """A second edge to it: Keras 2 has what is adapted under two names, Keras 3 under this one."""

    @property
    def edges(self) -> tuple[str, ...]:
        """Its edges in the object graph of Keras 2."""
        return (self.name, self.also) if self.also else (self.name,)

    def is_there(self, option_of: LayerOptions) -> bool:
        return all(_is_on(option, option_of) for option in self.when.split())

    def option(self, what: str) -> str:
        """Return the option that says its `initializer`, `regularizer` or `constraint`."""
        short = re.fullmatch("(recurrent|depthwise|pointwise)_kernel", self.name)
        return f"{short[1] if short else self.name}_{what}"


Weight = tuple[WeightRow, "Pattern | None"]
"""A weight that a layer has, and its shape as far as it is known."""


class PartRow(NamedTuple):
    """A layer within a layer: its edge in TensorFlow's graph, its attribute in Keras 3, name and class."""

    edge: str
    attribute: str
    name: str
    class_name: str = ""


class WrapRow(NamedTuple):
    """A layer, or a list of layers, that a wrapper was given: edge and attribute, and prefix of its name."""

    edge: str
    prefix: str = ""


class LayerRow(NamedTuple):
    """The facts about a class of layers.

    `lists` are edges of TensorFlow's graph that lead to lists without values, before the
    variables; `lists_after` come behind.  `options` are those that outputs depend on; None
    for a class whose outputs are not computed here.
    """

    weights: tuple[WeightRow, ...] = ()
    options: tuple[str, ...] | None = None
    cell: str = ""
    """The class of a recurrent layer's cell, which has the weights."""

    parts: tuple[PartRow, ...] = ()
    wraps: tuple[WrapRow, ...] = ()
    lists: tuple[str, ...] = ()
    lists_after: tuple[str, ...] = ()
    in_keras_2: tuple[tuple[str, str], ...] = ()
    """Options that Keras 3 calls otherwise: (name there, name in Keras 2)."""

    unless: tuple[str, ...] = ()
    """Options that give a layer other weights than these."""

    one_axis: bool = False
    """Whether more axes than one mean other shapes."""

    own_class: str = ""
    """The class' name in Python, by which files call it, if configurations have another one."""

    input_is_last: bool = False
    """Whether the last dimension of the input is the one called INPUT."""

    input_dtype: str = "float32"

    def weights_of(self, option_of: LayerOptions, free: Mapping[str, Any] | None = None) -> list[Weight]:
        """Return the weights of a layer in Keras' order with their shapes; `free` gives numbers for words.

        Raises KeyError, with its name, for an option that does not tell.
        """
        option = self.otherwise(option_of)
        if option is not None:
            raise KeyError(option)
        axis = option_of("axis", -1)
        if self.one_axis and isinstance(axis, list) and len(axis) != 1:
            raise KeyError("axis")
        there = [weight for weight in self.weights if weight.is_there(option_of)]
        return [(weight, _pattern(weight.shape, option_of, free or {})) for weight in there]

    def otherwise(self, option_of: LayerOptions) -> str | None:
        """Return the option that gives a layer other weights than these, or None."""
        for option in (*self.unless, *_UNLESS):
            if option_of(option) is not None and option_of(option) is not False:
                return option
        return None

    def with_weights(self) -> Iterator[LayerRow]:
        """Yield the rows whose weights a layer of this class has: its own, its cell's, its parts'."""
        yield self
        classes = (self.cell, *(part.class_name for part in self.parts))
        yield from (LAYERS[name] for name in dict.fromkeys(classes) if name in LAYERS)

    def initializers(self) -> list[str]:
        """Return the options that give weights their first values."""
        weights = (weight for row in self.with_weights() for weight in row.weights)
        return list(dict.fromkeys(weight.option("initializer") for weight in weights))


_UNLESS = ("quantization_config", "lora_rank")
_OFF_BY_DEFAULT = ("reset_after", "use_scale")
_KERAS_1 = {"use_bias": "bias"}


def _is_on(option: str, option_of: LayerOptions) -> bool:
    name, _, value = option.removeprefix("!").partition("=")
    if value:
        return bool(option_of(name) == value)
    is_on = bool(option_of(name, option_of(_KERAS_1.get(name, name), name not in _OFF_BY_DEFAULT)))
    return is_on is not option.startswith("!")


def _pattern(words: str | None, option_of: LayerOptions, free: Mapping[str, Any]) -> Pattern | None:
    if words is None:
        return None
    out: list[int | str] = []
    for word in words.split():
        if word.endswith("..."):
            out += _sizes(word.removesuffix("..."), option_of)
        elif word == "AXES":
            axis = option_of("axis", -1)
            names = [f"{word} {at}" for at in range(len(axis) if isinstance(axis, list) else 1)]
            out += free.get(word, names)
        else:
            factors = [_factor(factor, option_of, free) for factor in word.split("*")]
            numbers = [factor for factor in factors if factor is not None]
            out.append(math.prod(numbers) if len(numbers) == len(factors) else word)
    return tuple(out)


def _factor(word: str, option_of: LayerOptions, free: Mapping[str, Any]) -> int | None:
    """Return the number that a word stands for; None for a free one."""
    if word.isdigit():
        return int(word)
    if word.isupper():
        return free.get(word)
    value = option_of(word)
    if type(value) is not int or value < 0:
        raise KeyError(word)
    return value


def _sizes(option: str, option_of: LayerOptions) -> list[int]:
    value = option_of(option)
    if not isinstance(value, list | tuple) or any(type(size) is not int for size in value):
        raise KeyError(option)
    return list(value)


def _convolution(kernel: str) -> tuple[WeightRow, ...]:
    return WeightRow("kernel", f"kernel_size... {kernel}"), WeightRow("bias", "filters", "use_bias")


def _depthwise() -> tuple[WeightRow, ...]:
    kernel = WeightRow("depthwise_kernel", "kernel_size... CHANNELS depth_multiplier", in_keras_3="kernel")
    return kernel, WeightRow("bias", "depth_multiplier*CHANNELS", "use_bias")


def _separable(ones: str) -> tuple[WeightRow, ...]:
    return (
        WeightRow("depthwise_kernel", "kernel_size... CHANNELS depth_multiplier"),
        WeightRow("pointwise_kernel", f"{ones} depth_multiplier*CHANNELS filters"),
        WeightRow("bias", "filters", "use_bias"),
    )


def _gates(width: str, *biases: WeightRow) -> tuple[WeightRow, ...]:
    kernel = WeightRow("kernel", f"INPUT {width}")
    plain = (WeightRow("bias", width, "use_bias"),)
    return kernel, WeightRow("recurrent_kernel", f"units {width}"), *(biases or plain)


_DENSE = (WeightRow("kernel", "INPUT units"), WeightRow("bias", "units", "use_bias"))
_SCALE_AND_SHIFT = (WeightRow("gamma", "AXES", "scale"), WeightRow("beta", "AXES", "center"))
_MOVING = tuple(WeightRow(name, "AXES", trainable=False) for name in ("moving_mean", "moving_variance"))
_AXIS = ("axis",)
_CONV = ("strides", "padding", "data_format", "dilation_rate", "activation", "use_bias")
_POOL = ("pool_size", "padding", "strides", "data_format")
_POOL_1D = ("strides", "pool_size", "padding", "data_format")
"""Keras' order of the options that `_POOL` has."""

_GLOBAL_POOL = ("data_format", "keepdims")
_LOOP = (
    "units", "activation", "use_bias", "return_sequences", "return_state", "go_backwards",
    "zero_output_for_mask",
)  # fmt: skip
_STATE = ("state_spec",)

_CONV_LSTM = LayerRow(cell="ConvLSTMCell", lists_after=_STATE)
_SCORE_SCALE = "use_scale"

LAYERS: dict[str, LayerRow] = {
    "Activation": LayerRow(options=("activation",)),
    "Add": LayerRow(options=()),
    "AdditiveAttention": LayerRow((WeightRow("scale", "INPUT", _SCORE_SCALE),), ("dropout", "use_scale")),
    "Attention": LayerRow(
        (
            WeightRow("scale", "", _SCORE_SCALE),
            WeightRow("concat_score_weight", "", "score_mode=concat"),
        ),
        ("dropout", "use_scale", "score_mode"),
    ),
    "Average": LayerRow(options=()),
    "AveragePooling1D": LayerRow(options=_POOL_1D),
    "AveragePooling2D": LayerRow(options=_POOL),
    "AveragePooling3D": LayerRow(options=_POOL),
    "BatchNormalization": LayerRow(
        (*_SCALE_AND_SHIFT, *_MOVING),
        ("axis", "momentum", "epsilon", "center", "scale"),
        lists=_AXIS,
        unless=("renorm",),
        one_axis=True,
    ),
    "Bidirectional": LayerRow(
        wraps=(WrapRow("forward_layer", "forward_"), WrapRow("backward_layer", "backward_"))
    ),
    "Concatenate": LayerRow(options=("axis",)),
    "Conv1D": LayerRow(_convolution("INPUT filters"), ("filters", "kernel_size", "groups", *_CONV)),
    "Conv1DTranspose": LayerRow(_convolution("filters INPUT")),
    "Conv2D": LayerRow(_convolution("INPUT filters"), ("filters", "kernel_size", "groups", *_CONV)),
    "Conv2DTranspose": LayerRow(
        _convolution("filters INPUT"), ("filters", "kernel_size", "output_padding", *_CONV)
    ),
    "Conv3D": LayerRow(_convolution("INPUT filters"), ("filters", "kernel_size", "groups", *_CONV)),
    "Conv3DTranspose": LayerRow(_convolution("filters INPUT")),
    "ConvLSTM1D": _CONV_LSTM,
    "ConvLSTM2D": _CONV_LSTM,
    "ConvLSTM3D": _CONV_LSTM,
    "ConvLSTMCell": LayerRow(
        (
            WeightRow("kernel", "kernel_size... INPUT 4*filters"),
            WeightRow("recurrent_kernel", "kernel_size... filters 4*filters"),
            WeightRow("bias", "4*filters", "use_bias"),
        )
    ),
    "Cropping1D": LayerRow(options=("cropping",)),
    "Cropping2D": LayerRow(options=("cropping", "data_format")),
    "Cropping3D": LayerRow(options=("cropping", "data_format")),
    "Dense": LayerRow(_DENSE, ("units", "activation", "use_bias"), input_is_last=True),
    "DepthwiseConv1D": LayerRow(_depthwise()),
    "DepthwiseConv2D": LayerRow(_depthwise(), ("kernel_size", "depth_multiplier", *_CONV)),
    "Dot": LayerRow(options=("axes", "normalize")),
    "Dropout": LayerRow(options=("rate",)),
    "EinsumDense": LayerRow(
        (WeightRow("kernel"), WeightRow("bias", when="use_bias bias_axes")),
        lists=("partial_output_shape", "full_output_shape"),
    ),
    "Embedding": LayerRow(
        (WeightRow("embeddings", "input_dim output_dim"),),
        ("input_dim", "output_dim", "mask_zero"),
        input_dtype="int32",
    ),
    "Flatten": LayerRow(options=("data_format",)),
    "GRU": LayerRow(
        options=(*_LOOP, "recurrent_activation", "reset_after"), cell="GRUCell", lists_after=_STATE
    ),
    "GRUCell": LayerRow(
        _gates(
            "3*units",
            WeightRow("bias", "2 3*units", "use_bias reset_after"),
            WeightRow("bias", "3*units", "use_bias !reset_after"),
        )
    ),
    "GaussianNoise": LayerRow(options=("stddev",)),
    "GlobalAveragePooling1D": LayerRow(options=_GLOBAL_POOL),
    "GlobalAveragePooling2D": LayerRow(options=_GLOBAL_POOL),
    "GlobalMaxPooling1D": LayerRow(options=_GLOBAL_POOL),
    "GlobalMaxPooling2D": LayerRow(options=_GLOBAL_POOL),
    "GroupNormalization": LayerRow(
        _SCALE_AND_SHIFT, ("groups", "axis", "epsilon", "center", "scale"), one_axis=True
    ),
    "GroupQueryAttention": LayerRow(
        own_class="GroupedQueryAttention",
        parts=(
            PartRow("_query_dense", "_query_dense", "query", "EinsumDense"),
            PartRow("_key_dense", "_key_dense", "key", "EinsumDense"),
            PartRow("_value_dense", "_value_dense", "value", "EinsumDense"),
            PartRow("_output_dense", "_output_dense", "attention_output", "EinsumDense"),
        ),
    ),
    "InputLayer": LayerRow(lists=("_init_input_shape",)),
    "LSTM": LayerRow(
        options=(*_LOOP, "recurrent_activation", "unit_forget_bias"), cell="LSTMCell", lists_after=_STATE
    ),
    "LSTMCell": LayerRow(_gates("4*units"), lists=("state_size",)),
    "LayerNormalization": LayerRow(
        _SCALE_AND_SHIFT, ("axis", "epsilon", "center", "scale"), lists=_AXIS, unless=("rms_scaling",)
    ),
    "LeakyReLU": LayerRow(options=("alpha",), in_keras_2=(("negative_slope", "alpha"),)),
    "Masking": LayerRow(options=("mask_value",)),
    "MaxPooling1D": LayerRow(options=_POOL_1D),
    "MaxPooling2D": LayerRow(options=_POOL),
    "MaxPooling3D": LayerRow(options=_POOL),
    "Maximum": LayerRow(options=()),
    "Minimum": LayerRow(options=()),
    "MultiHeadAttention": LayerRow(
        options=("num_heads", "key_dim", "value_dim", "use_bias", "output_shape", "attention_axes"),
        parts=(
            PartRow("_query_dense", "query_dense", "query", "EinsumDense"),
            PartRow("_key_dense", "key_dense", "key", "EinsumDense"),
            PartRow("_value_dense", "value_dense", "value", "EinsumDense"),
            PartRow("_softmax", "_softmax", "softmax"),
            PartRow("_dropout_layer", "_dropout_layer", "dropout"),
            PartRow("_output_dense", "output_dense", "attention_output", "EinsumDense"),
        ),
    ),
    "Multiply": LayerRow(options=()),
    "Normalization": LayerRow(
        (
            WeightRow("mean", "AXES", trainable=False, also="adapt_mean"),
            WeightRow("variance", "AXES", trainable=False, also="adapt_variance"),
            WeightRow("count", "", trainable=False),
        ),
        lists=("_keep_axis", "_reduce_axis", "_reduce_axis_mask", "_broadcast_shape"),
        unless=("mean", "variance"),
    ),
    "PReLU": LayerRow((WeightRow("alpha"),), ("shared_axes",)),
    "Permute": LayerRow(options=("dims",)),
    "RMSNormalization": LayerRow((WeightRow("scale", "AXES"),), one_axis=True),
    "RNN": LayerRow(wraps=(WrapRow("cell"),), lists_after=_STATE),
    "ReLU": LayerRow(options=("max_value", "negative_slope", "threshold")),
    "RepeatVector": LayerRow(options=("n",)),
    "Rescaling": LayerRow(options=("scale", "offset")),
    "Reshape": LayerRow(options=("target_shape",)),
    "SeparableConv1D": LayerRow(_separable("1")),
    "SeparableConv2D": LayerRow(_separable("1 1"), ("filters", "kernel_size", "depth_multiplier", *_CONV)),
    "SimpleRNN": LayerRow(options=_LOOP, cell="SimpleRNNCell", lists_after=_STATE),
    "SimpleRNNCell": LayerRow(_gates("units")),
    "Softmax": LayerRow(options=("axis",)),
    "SpatialDropout1D": LayerRow(options=("rate",)),
    "SpatialDropout2D": LayerRow(options=("rate",)),
    "SpatialDropout3D": LayerRow(options=("rate",)),
    "StackedRNNCells": LayerRow(wraps=(WrapRow("cells"),)),
    "Subtract": LayerRow(options=()),
    "TimeDistributed": LayerRow(wraps=(WrapRow("layer"),)),
    "UnitNormalization": LayerRow(options=("axis",), lists=_AXIS),
    "UpSampling1D": LayerRow(options=("size",)),
    "UpSampling2D": LayerRow(options=("size", "data_format", "interpolation")),
    "UpSampling3D": LayerRow(options=("size", "data_format")),
    "ZeroPadding1D": LayerRow(options=("padding",)),
    "ZeroPadding2D": LayerRow(options=("padding", "data_format")),
    "ZeroPadding3D": LayerRow(options=("padding", "data_format")),
}


def are_of_one_layer(layer: str, names: Collection[str]) -> bool:
    """Whether weights of these names are what one layer of the table may have, itself and not one in it.

    Keras calls a wrapper after its class, and its layer's weights as the layer would itself.
    """
    if re.sub(r"_\d+$", "", layer) in ("spectral_normalization", "time_distributed"):
        return not names
    return any(set(names) <= {weight.name for weight in row.weights} for row in LAYERS.values())


def class_in_paths(class_name: str) -> str:
    """Return the class after which dataset paths call a layer of a configuration's class."""
    name = class_name.rpartition(">")[2]
    row = LAYERS.get(name)
    return (row.own_class if row is not None else "") or name


def is_seed(spec: TensorSpec, full_name: str = "") -> bool:
    """Whether a tensor is the state of Keras 3's random numbers, which is not a weight: whole numbers."""
    is_called_so = "seed_generator" in spec.key or "seed_generator" in full_name
    return is_called_so and spec.dtype.family in ("int", "uint")


WEIGHTS = {weight.name: weight for row in reversed(LAYERS.values()) for weight in row.weights}
"""A row for each name of a weight, for what names alone have to tell."""

PARTS = {part.name: part for row in LAYERS.values() for part in row.parts}
WRAPS = [wrap for row in LAYERS.values() for wrap in row.wraps if wrap.prefix]
NORMALIZING = {weight.name for row in LAYERS.values() if row.lists == _AXIS for weight in row.weights}
"""Names of weights that normalizing layers alone have."""


def edge_spellings(name: str) -> tuple[str, ...]:
    """Return the edges under which graphs have a weight: Keras 3 keeps some under private or other names."""
    row = WEIGHTS.get(name, WeightRow(name))
    return tuple(edge for edge in (name, f"_{name}", row.in_keras_3, row.also) if edge)
