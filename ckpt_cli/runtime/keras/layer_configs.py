"""Layers from their stored configurations, by a table of what is known.

A configuration is data: class names are looked up only here, and nothing in it is imported or run. Every
option is passed to the layer, known to change no output (`_IRRELEVANT`), or must have the one value that
turns it off (`_is_off`). Any other option is named in an UnsupportedFeatureError.

Weights are zeros, and at most as many as the checkpoint has, even if a configuration requests larger sizes.
"""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.errors import UnsupportedFeatureError
from formats.keras.config import class_called
from formats.keras.layers import LAYERS, LayerRow

from . import activations, layers
from .configs import known_options

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Budget", "in_keras_2", "layer_from_config", "unknown"]

Config = dict[str, Any]

_RECURRENT = frozenset(name for name, row in LAYERS.items() if row.cell)
_RECURRENT_OPTIONS = frozenset(option for name in _RECURRENT for option in LAYERS[name].options or ())
_IRRELEVANT = frozenset(
    [
        "name", "trainable", "dtype", "batch_input_shape", "batch_shape", "build_input_shape", "seed",
        "noise_shape", "dropout", "recurrent_dropout", "implementation", "unroll", "synchronized",
        "input_length", "query_shape", "key_shape", "value_shape",
        "renorm_clipping", "renorm_momentum",
    ]
)  # fmt: skip
"""Options that change no output outside training: batch sizes, seeds, how it is computed."""
_IRRELEVANT_ENDS = ("_initializer", "_regularizer", "_constraint")
_CHOICES = {"data_format": (None, "channels_last")}
_MOST_OUTPUT = 1 << 26
"""Elements of one example that a transposed convolution may make, whose strides no weight bounds."""
_MOST_SPREAD = 1 << 12
"""Dilation over all axes: what is put around an image grows with it."""
_ACTIVATIONS = ("activation", "recurrent_activation")
_OTHER_IN_KERAS_3 = ("hard_sigmoid",)
_BAD_VALUES = (ValueError, TypeError, KeyError, IndexError, NotImplementedError, ArithmeticError)
"""The errors of layers for senseless values, whose types are those of JSON."""


def unknown(what: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(f"{what} is not supported, so its outputs cannot be computed")


class Budget:
    """An initializer: zeros, until more elements were requested than the checkpoint can have."""

    def __init__(self, elements: int) -> None:
        self.left = elements

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        from ..tensor import Tensor

        self.left -= math.prod(shape)
        if self.left < 0:
            raise UnsupportedFeatureError(
                f"the configuration has a weight {list(shape)}, larger than what the checkpoint holds"
            )
        return Tensor(np.zeros(shape, dtype.numpy_dtype if dtype is not None else np.float32))


def layer_from_config(item: Config, budget: Budget, *, keras3: bool) -> Any:
    """Return the layer that an item of a configuration describes, without weights yet."""
    name, class_name, config = _parts(item)
    if class_name == "Bidirectional":
        return _bidirectional(config, budget, keras3=keras3)
    if class_name == "TimeDistributed":
        return _time_distributed(config, budget, keras3=keras3)
    what = f"layer {name!r} ({class_name})"
    row = LAYERS.get(class_name)
    if row is None or row.options is None:
        raise unknown(what)
    wanted, in_keras_2 = row.options, dict(row.in_keras_2)
    config = {in_keras_2.get(option, option): value for option, value in config.items()}
    options = {option: config[option] for option in wanted if option in config}
    for option, value in config.items():
        if option in options or option in _IRRELEVANT or option.endswith(_IRRELEVANT_ENDS):
            continue
        if not _is_off(option, value):
            raise unknown(f"{what}: {option}={value!r}")
    _check(what, options, keras3=keras3)
    if keras3 and (class_name == "Masking" or options.get("mask_zero")):
        raise unknown(f"{what}: a mask, which Keras 3 passes on otherwise,")
    _check_dtype(what, config.get("dtype", "float32"))
    options |= dict.fromkeys(row.initializers(), budget)
    made = _made(what, getattr(layers, class_name), {**options, "name": name})
    if isinstance(made, layers.Conv2DTranspose):
        made._put("most_elements", _MOST_OUTPUT)
    spread = math.prod(getattr(made, "dilation_rate", ()))
    if spread > _MOST_SPREAD:
        raise UnsupportedFeatureError(f"{what}: dilation_rate={options['dilation_rate']!r} is too large")
    return made


def in_keras_2(item: Config) -> Config:
    """Return Keras 3's configuration of a layer in Keras 2's words, for a layer to train."""
    name, class_name, config = _parts(item)
    row, what = LAYERS.get(class_name, LayerRow()), f"layer {name!r} ({class_name})"
    if class_name == "Masking" or config.get("mask_zero"):
        raise unknown(f"{what}: a mask, which Keras 3 passes on otherwise,")
    _check_dtype(what, config.get("dtype"))
    _check(what, {key: config[key] for key in _ACTIVATIONS if key in config}, keras3=True)
    cls, found = getattr(layers, class_name, None), {}
    accepted = {*(row.options or ()), *known_options(class_name), *_NAMED, *_parameters(cls)}
    renamed = dict(row.in_keras_2)
    for given, value in config.items():
        option = renamed.get(given, given)
        if option in accepted or option.endswith(_IRRELEVANT_ENDS):
            found[option] = _without_axes(value) if option.endswith("_initializer") else value
        elif option == "backward_layer" and _is_mirrored(config["layer"], value):
            continue
        elif option == "batch_shape":
            found["batch_input_shape"] = value
        elif option not in _IRRELEVANT and not _is_off(option, value):
            raise unknown(f"{what}: {option}={value!r}")
    return {**item, "config": {**found, "dtype": "float32"}}


_NAMED = ("name", "trainable")


def _without_axes(value: Any) -> Any:
    """Return the configuration of an initializer without Keras 3's axes, if they are off."""
    if not isinstance(value, dict):
        return value
    config = {key: one for key, one in value["config"].items() if not (key.endswith("_axes") and one is None)}
    return {**value, "config": config}


def _parameters(cls: Any) -> Any:
    return inspect.signature(cls).parameters if cls is not None else ()


def _is_off(option: str, value: Any) -> bool:
    """Whether an option that is not known here has the value that leaves it off, as `stateful=False`."""
    plain = (("groups", 1), ("data_format", "channels_last"))
    return value is None or value is False or value in ([], {}) or (option, value) in plain


def _made(what: str, make: Callable[..., Any], options: Config) -> Any:
    try:
        return make(**options)
    except _BAD_VALUES as error:
        raise UnsupportedFeatureError(f"{what}: {error}") from error


def _parts(item: Config) -> tuple[str, str, Config]:
    """Return name, class name and configuration of a layer of Keras' own."""
    config = item.get("config")
    config = config if isinstance(config, dict) else {}
    class_name = class_called(item)
    name = str(config.get("name", item.get("name")))
    if class_name != item.get("class_name"):
        raise unknown(f"layer {name!r} ({class_name})")
    return name, class_name, config


def _check(what: str, options: Config, *, keras3: bool) -> None:
    for option, choices in _CHOICES.items():
        if option in options and options[option] not in choices:
            raise unknown(f"{what}: {option}={options[option]!r}")
    for option in _ACTIVATIONS:
        value = options.get(option)
        if value is None:
            continue
        if not isinstance(value, str) or (keras3 and value in _OTHER_IN_KERAS_3):
            called = value.get("config", value) if isinstance(value, dict) else value
            raise unknown(f"{what}: activation {called!r}")
        try:
            activations.get(value)
        except ValueError as error:
            raise unknown(f"{what}: activation {value!r}") from error


def _check_dtype(what: str, dtype: Any) -> None:
    """Refuse dtypes that are not computed in as Keras does: mixed precision, quantization."""
    if isinstance(dtype, dict):
        policy = dtype.get("config")
        dtype = policy.get("name") if isinstance(policy, dict) else None
    if dtype not in (None, "float32"):
        raise unknown(f"{what}: dtype {dtype!r}")


def _bidirectional(config: Config, budget: Budget, *, keras3: bool) -> Any:
    name = str(config.get("name"))
    what = f"layer {name!r} (Bidirectional)"
    forward, backward = config.get("layer"), config.get("backward_layer")
    if not isinstance(forward, dict) or forward.get("class_name") not in _RECURRENT:
        raise unknown(f"{what} of what is not LSTM, GRU or SimpleRNN")
    if isinstance(backward, dict) and not _is_mirrored(forward, backward):
        raise unknown(f"{what} whose two layers differ")
    layer = layer_from_config(forward, budget, keras3=keras3)
    return _made(
        what, layers.Bidirectional, {"layer": layer, "merge_mode": config.get("merge_mode"), "name": name}
    )


def _time_distributed(config: Config, budget: Budget, *, keras3: bool) -> Any:
    name, inner = str(config.get("name")), config.get("layer")
    what = f"layer {name!r} (TimeDistributed)"
    if not isinstance(inner, dict) or inner.get("class_name") == "TimeDistributed":
        raise unknown(f"{what} of what is not another layer")
    for option, value in config.items():
        if option != "layer" and option not in _IRRELEVANT and not _is_off(option, value):
            raise unknown(f"{what}: {option}={value!r}")
    _check_dtype(what, config.get("dtype", "float32"))
    layer = layer_from_config(inner, budget, keras3=keras3)
    return _made(what, layers.TimeDistributed, {"layer": layer, "name": name})


def _is_mirrored(forward: Config, backward: Config) -> bool:
    def essence(item: Config) -> tuple[Any, Config]:
        config = item.get("config")
        config = dict(config) if isinstance(config, dict) else {}
        own = {key: value for key, value in config.items() if key in _RECURRENT_OPTIONS}
        own.pop("go_backwards", None)
        return item.get("class_name"), own

    return essence(forward) == essence(backward)
