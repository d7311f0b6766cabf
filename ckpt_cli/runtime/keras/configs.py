"""Configurations: what a layer was made with, as plain data, key for key as Keras 2.15 writes it.

    {"name": "dense", "trainable": true, "dtype": "float32", "units": 2, "activation": "relu", ...}

The options are those of the table of layers, on which outputs depend, those in `_ALSO`, which change no
output, and three for each weight: initializer, regularizer, constraint. A function is stored by its name, and
an initializer, a regularizer or an inner layer by a configuration of its own (`described`). Anything else
raises NotImplementedError. keras/src/saving/serialization_lib.py: serialize_keras_object
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.keras.layers import LAYERS, LayerRow

from . import activations, initializers, regularizers
from .initializers import Initializer
from .regularizers import Regularizer

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["config_of", "described", "known_options", "registered", "tagged"]

registered: dict[str, Any] = {}
"""Classes of a program's own by the names under which it registered them."""

_PLAIN = (str, int, float, bool, type(None))
_ON_OUTPUTS = {"activity_regularizer": None}
_CELL = {"dropout": 0.0, "recurrent_dropout": 0.0, "implementation": 2}
_LOOP = {"stateful": False, "unroll": False, "time_major": False}
_GATES = dict.fromkeys(("units", "activation", "recurrent_activation", "use_bias"))
_RETURNS = dict.fromkeys(("return_sequences", "return_state", "go_backwards"))
_ATTENDED = dict.fromkeys(("query_shape", "key_shape", "value_shape"))
_OF_WEIGHTS = dict.fromkeys(
    f"{name}_{what}" for name in ("kernel", "bias") for what in ("initializer", "regularizer", "constraint")
)
_DRAWN = {"noise_shape": None, "seed": None}
_GLOROT = {
    "module": "keras.initializers", "class_name": "GlorotUniform", "config": {"seed": None},
    "registered_name": None,
}  # fmt: skip
_ALSO: dict[str, dict[str, Any]] = {
    "Conv1D": _ON_OUTPUTS,
    "Conv2D": _ON_OUTPUTS,
    "Conv2DTranspose": {**_ON_OUTPUTS, "groups": 1},
    "Conv3D": _ON_OUTPUTS,
    "Dense": _ON_OUTPUTS,
    "DepthwiseConv2D": {**_ON_OUTPUTS, "groups": 1},
    "Bidirectional": {"layer": None, "merge_mode": None},
    "Dropout": _DRAWN,
    "GaussianNoise": {"seed": None},
    "SpatialDropout1D": _DRAWN,
    "SpatialDropout2D": _DRAWN,
    "SpatialDropout3D": _DRAWN,
    "EinsumDense": {**_ON_OUTPUTS, **dict.fromkeys(("equation", "output_shape", "activation", "bias_axes"))},
    "Embedding": {**_ON_OUTPUTS, "input_length": None},
    "GRU": {**_ON_OUTPUTS, **_LOOP, **_CELL},
    "GRUCell": {**_CELL, **_GATES, "reset_after": None},
    "LSTM": {**_ON_OUTPUTS, **_LOOP, **_CELL},
    "LSTMCell": {**_CELL, **_GATES, "unit_forget_bias": None},
    "MultiHeadAttention": {**_ON_OUTPUTS, **_ATTENDED, "dropout": None, **_OF_WEIGHTS},
    "RNN": {**_LOOP, **_RETURNS, "cell": None},
    "SeparableConv2D": {
        **_ON_OUTPUTS, "groups": 1, "kernel_initializer": _GLOROT, "kernel_regularizer": None,
        "kernel_constraint": None,
    },
    "SimpleRNN": {**_ON_OUTPUTS, **_LOOP, "dropout": 0.0, "recurrent_dropout": 0.0},
    "SimpleRNNCell": {
        "dropout": 0.0, "recurrent_dropout": 0.0, "units": None, "activation": None, "use_bias": None
    },
    "StackedRNNCells": {"cells": None},
    "TimeDistributed": {"layer": None},
}  # fmt: skip
"""Options that change no output, or of classes whose outputs the table does not tell; what no layer here
takes has the value that Keras writes where it is off."""

_ONLY_IF_ON = ("zero_output_for_mask",)
_AT_THE_END = ("shared_axes",)
_AS_BUILT = (
    "axes", "axis", "cell", "cropping", "data_format", "dilation_rate", "dims", "groups", "kernel_size",
    "output_padding", "padding", "pool_size", "shared_axes", "size", "strides", "target_shape",
)  # fmt: skip
"""Options that a layer holds otherwise than it was given them."""
_WITHOUT_OPTIONS = ("scale", "concat_score_weight")
"""Weights of attention, whose first values are given."""

_IN_FLOAT32 = ("alpha", "max_value", "negative_slope", "threshold")
_BESIDE_KERAS_LAYERS = {
    "Functional": ("keras.src.engine.functional", "Functional"),
    "Sequential": ("keras", None),
    "TFOpLambda": ("keras.src.layers.core.tf_op_layer", "TFOpLambda"),
}
"""Modules and registered names of what Keras finds elsewhere than in `keras.layers`."""


def known_options(class_name: str) -> dict[str, Any]:
    """Return options of a class that Keras writes and a layer here may not take, as they are where off."""
    return _ALSO.get(class_name, {})


def config_of(layer: Any) -> dict[str, Any]:
    """Return the options of one of Keras' layers. Raises NotImplementedError if they are not plain data."""
    name = type(layer).__name__
    row = LAYERS.get(name, LayerRow())
    if name not in LAYERS and name not in _ALSO:
        raise NotImplementedError(f"{layer.name} ({name}): the configuration of this class is not supported")
    told, also, found = _made_with(layer), _ALSO.get(name, {}), {}
    options = dict.fromkeys([*(row.options or ()), *also, *_options_of_weights(row)])
    for option in sorted(options, key=_AT_THE_END.__contains__):
        given = told.get(option, also.get(option))
        value = _written(getattr(layer, option, given) if option in _AS_BUILT else given, option, layer)
        if option not in _ONLY_IF_ON or value:
            found[option] = value
    return found


def _options_of_weights(row: LayerRow) -> list[str]:
    weights = LAYERS[row.cell].weights if row.cell else row.weights
    weights = tuple(weight for weight in weights if weight.name not in _WITHOUT_OPTIONS)
    options = [weight.option("initializer") for weight in weights]
    trained = [weight for weight in weights if weight.trainable]
    return options + [weight.option(what) for weight in trained for what in ("regularizer", "constraint")]


def _made_with(layer: Any) -> dict[str, Any]:
    """Return what a layer was made with by option, with what signatures have for the others."""
    options: dict[str, Any] = {}
    if LAYERS.get(type(layer).__name__, LayerRow()).cell:
        options |= _made_with(layer.cell)
    parameters: Mapping[str, inspect.Parameter] = {}
    for cls in reversed(type(layer).__mro__[:-1]):
        parameters = inspect.signature(cls).parameters
        options |= {one.name: one.default for one in parameters.values() if one.default is not one.empty}
    arguments, keywords = layer.__dict__["_made_with"]
    bound = inspect.signature(type(layer)).bind(*arguments, **keywords).arguments
    for name, parameter in parameters.items():
        if name in bound:
            options |= bound[name] if parameter.kind is parameter.VAR_KEYWORD else {name: bound[name]}
    if options.get("value_dim", 0) is None:
        options["value_dim"] = options["key_dim"]
    if type(layer).__name__ == "EinsumDense" and isinstance(options["output_shape"], int):
        options["output_shape"] = [options["output_shape"]]
    return options


def _written(value: Any, option: str, layer: Any) -> Any:
    """Return the value of an option as Keras writes it."""
    what = f"{layer.name} ({type(layer).__name__}): {option}={value!r}"
    if option.endswith("_initializer"):
        return (
            _tagged(initializers.get(value), "keras.initializers", Initializer, what)
            if value is not None
            else None
        )
    if option.endswith("_regularizer"):
        return _tagged(regularizers.get(value), "keras.regularizers", Regularizer, what)
    if option in ("activation", "recurrent_activation"):
        function = activations.get(value)
        name = activations.name_of(function)
        if not activations.is_known(name, function):
            raise NotImplementedError(f"{what} is not known in a configuration")
        return name
    if option == "data_format":
        return value or "channels_last"
    if option in _IN_FLOAT32 and value is not None:
        return float(np.float32(value))
    return _plain(value, what)


def _plain(value: Any, what: str) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, list | tuple):
        return [_plain(part, what) for part in value]
    if hasattr(value, "_made_with"):  # A layer.
        return described(value)
    raise NotImplementedError(f"{what} is not known in a configuration")


def _tagged(value: Any, module: str, kind: type[Any], what: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, kind) or type(value).__module__ != kind.__module__:
        raise NotImplementedError(f"{what} is not known in a configuration")
    return tagged(module, type(value).__name__, value.get_config())


def tagged(module: str, class_name: str, config: Any, registered_name: str | None = None) -> dict[str, Any]:
    """Return a configuration with what it is one of."""
    return {"module": module, "class_name": class_name, "config": config, "registered_name": registered_name}


_OURS = __name__.rpartition(".")[0]


def described(layer: Any) -> dict[str, Any]:
    """Return a layer's class and configuration; a program's own class is stored by its module and name."""
    name, module = type(layer).__name__, type(layer).__module__
    if not module.startswith(_OURS):
        known = next((full for full, cls in registered.items() if cls is type(layer)), name)
        return tagged(module, name, layer.get_config(), known)
    where, full = _BESIDE_KERAS_LAYERS.get(name, ("keras.layers", None))
    return tagged(where, name, layer.get_config(), full)
