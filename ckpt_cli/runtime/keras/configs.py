"""Configurations: what a layer was made with, as plain data, key for key as Keras 2.15 writes it.

    {"name": "dense", "trainable": true, "dtype": "float32", "units": 2, "activation": "relu", ...}

`arguments.tsv` has the options of each class. A function is stored by its name, and an initializer, a
regularizer or an inner layer by a configuration of its own (`described`). Writing anything else raises
NotImplementedError. keras/src/saving/serialization_lib.py: serialize_keras_object

Reading a configuration takes class names from the table only, and nothing in it is imported or run. Every
option is passed to the layer, known to change no output (`_IRRELEVANT`), or must have the one value that
turns it off (`_is_off`). Any other option is named in an UnsupportedFeatureError.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from formats.errors import UnsupportedFeatureError
from formats.keras.config import class_called
from formats.keras.layers import LAYERS, LayerRow

from . import activations, initializers, regularizers
from .arguments import arguments_of, classes
from .initializers import Initializer
from .regularizers import Regularizer

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ACTIVATIONS", "LAYERS_IN", "Budget", "Config", "class_of", "config_of", "described", "layer_of",
    "registered", "tagged", "unknown",
]  # fmt: skip

Config = dict[str, Any]

registered: dict[str, Any] = {}
"""Classes of a program's own by the names under which it registered them."""

ACTIVATIONS = ("activation", "recurrent_activation")
LAYERS_IN = ("backward_layer", "cell", "cells", "layer")
"""Options that are layers, which a class tracks itself."""
_PLAIN = (str, int, float, bool, type(None))
_ONLY_IF_ON = ("zero_output_for_mask", "backward_layer")
_AS_BUILT = (
    "axes", "axis", "cell", "cropping", "dilation_rate", "dims", "groups", "kernel_size",
    "output_padding", "padding", "pool_size", "shared_axes", "size", "strides", "target_shape",
)  # fmt: skip
"""Options that a layer holds otherwise than it was given them."""
_IN_FLOAT32 = ("alpha", "max_value", "negative_slope", "threshold")
_BESIDE_KERAS_LAYERS = {
    "Functional": ("keras.src.engine.functional", "Functional"),
    "Sequential": ("keras", None),
    "TFOpLambda": ("keras.src.layers.core.tf_op_layer", "TFOpLambda"),
}
"""Modules and registered names of what Keras finds elsewhere than in `keras.layers`."""

_OF_ANY = ("name", "trainable", "dtype", "batch_input_shape")
_IRRELEVANT = frozenset(
    ["build_input_shape", "seed", "renorm_clipping", "renorm_momentum", "flash_attention"]
)
"""Options that change no output: sizes, seeds of Keras 3's generators, how it is computed."""
_OF_WEIGHTS = ("_initializer", "_regularizer", "_constraint")
_MOST_OUTPUT = 1 << 26
"""Elements of one example that a transposed convolution may make, whose strides no weight bounds."""
_MOST_SPREAD = 1 << 12
"""Dilation over all axes: what is put around an image grows with it."""
_OTHER_IN_KERAS_3 = ("hard_sigmoid",)
_BAD_VALUES = (ValueError, TypeError, KeyError, IndexError, NotImplementedError, ArithmeticError)
"""The errors of layers for senseless values, whose types are those of JSON."""
_RECURRENT = frozenset(name for name, row in LAYERS.items() if row.cell)
_SHAPING = frozenset(option for name in _RECURRENT for option in LAYERS[name].options or ()) - {
    "go_backwards"
}
_OURS = __name__.rpartition(".")[0]


# Writing --------------------------------------------------------------------------------


def config_of(layer: Any) -> Config:
    """Return the options of one of Keras' layers. Raises NotImplementedError if they are not plain data."""
    name = type(layer).__name__
    row = arguments_of(name)
    if row is None:
        raise NotImplementedError(f"{layer.name} ({name}): the configuration of this class is not supported")
    found = {}
    for option in row.written:
        given = getattr(layer, option) if option in _AS_BUILT else layer._options[option]
        value = _written(given, option, layer)
        if option not in _ONLY_IF_ON or value:
            found[option] = value
    if found.get("value_dim", 0) is None:
        found["value_dim"] = found["key_dim"]
    if name == "EinsumDense" and isinstance(found["output_shape"], int):
        found["output_shape"] = [found["output_shape"]]
    return found


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
    if option in ACTIVATIONS:
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
    if hasattr(value, "_own_weights"):  # A layer.
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


def described(layer: Any) -> dict[str, Any]:
    """Return a layer's class and configuration; a program's own class is stored by its module and name."""
    name, module = type(layer).__name__, type(layer).__module__
    if not module.startswith(_OURS):
        known = next((full for full, cls in registered.items() if cls is type(layer)), name)
        return tagged(module, name, layer.get_config(), known)
    where, full = _BESIDE_KERAS_LAYERS.get(name, ("keras.layers", None))
    return tagged(where, name, layer.get_config(), full)


# Reading --------------------------------------------------------------------------------


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


def class_of(item: Config, known: Mapping[str, Any]) -> Any:
    """Return the class of a program's own that a configuration is of; None for one of Keras'."""
    return known.get(str(item.get("registered_name"))) or known.get(str(item.get("class_name")))


def layer_of(
    item: Config, known: Mapping[str, Any] | None = None, *, keras3: bool = False, zeros: Any = None
) -> Any:
    """Return the layer that a configuration describes, without weights yet.

    `known` has classes of a program's own, and `zeros` makes all weights, of a layer that is not trained.
    """

    def within(value: Any, required: bool = False) -> Any:
        """Return the value of an option with layers in place of their configurations."""
        if isinstance(value, list):
            return [within(one, required) for one in value]
        is_item = isinstance(value, dict) and "class_name" in value
        is_layer = is_item and (required or arguments_of(class_called(value)) is not None)
        return layer_of(value, known, keras3=keras3, zeros=zeros) if is_layer else value

    own = class_of(item, known or {})
    if own is not None:
        return own.from_config({option: within(value) for option, value in item["config"].items()})
    name, class_name, config = _parts(item)
    what = f"layer {name!r} ({class_name})"
    if keras3 or zeros is not None:
        _check(what, config, keras3=keras3)
    options = _options(what, class_name, config, keras3=keras3)
    if zeros is not None:
        names = arguments_of(class_name).names  # type: ignore[union-attr]
        options = {name: one for name, one in options.items() if not name.endswith(_OF_WEIGHTS)}
        options |= {name: zeros for name in names if name.endswith("_initializer")}
        options.pop("stateful", None)  # one call begins with zeros
    options = {option: within(value, option in LAYERS_IN) for option, value in options.items()}
    if zeros is None and not keras3:
        return classes[class_name](**options)
    return _bounded(what, _made(what, class_name, options))


def _options(what: str, class_name: str, config: Config, *, keras3: bool) -> Config:
    """Return the options of a configuration by their names in Keras 2, those that are off left out."""
    row, renamed = arguments_of(class_name), dict(LAYERS.get(class_name, LayerRow()).in_keras_2)
    if row is None:
        raise unknown(what)
    found: Config = {}
    for given, value in config.items():
        option = renamed.get(given, given)
        if option == "batch_shape":
            found["batch_input_shape"] = value
        elif option in row.names or option in _OF_ANY:
            found[option] = _without_axes(value) if keras3 and option.endswith("_initializer") else value
        elif option not in _IRRELEVANT and not option.endswith(_OF_WEIGHTS) and not _is_off(option, value):
            raise unknown(f"{what}: {option}={value!r}")
    if "vocabulary" in row.names and found.get("vocabulary") is None:
        raise unknown(f"{what}: a vocabulary that is not in its configuration")
    if keras3 and "backward_layer" in found and _is_mirrored(found["layer"], found["backward_layer"]):
        del found["backward_layer"]
    return {**found, "dtype": _dtype(what, found.get("dtype"))} if keras3 else found


def _without_axes(value: Any) -> Any:
    """Return the configuration of an initializer without Keras 3's axes, if they are off."""
    if not isinstance(value, dict):
        return value
    config = {key: one for key, one in value["config"].items() if not (key.endswith("_axes") and one is None)}
    return {**value, "config": config}


def _is_off(option: str, value: Any) -> bool:
    """Whether an option that is not known here has the value that leaves it off, as `lora_rank=None`."""
    plain = (("groups", 1), ("data_format", "channels_last"))
    return value is None or value is False or value in ([], {}) or (option, value) in plain


def _made(what: str, class_name: str, options: Config) -> Any:
    try:
        return classes[class_name](**options)
    except _BAD_VALUES as error:
        raise UnsupportedFeatureError(f"{what}: {error}") from error


def _bounded(what: str, layer: Any) -> Any:
    """Return a layer; UnsupportedFeatureError if its output would be too large."""
    if type(layer).__name__.endswith("Transpose"):
        layer._put("most_elements", _MOST_OUTPUT)
    rate = getattr(layer, "dilation_rate", ())
    if math.prod(rate) > _MOST_SPREAD:
        raise UnsupportedFeatureError(f"{what}: dilation_rate={list(rate)!r} is too large")
    return layer


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
    if keras3 and (what.endswith("(Masking)") or options.get("mask_zero")):
        raise unknown(f"{what}: a mask, which Keras 3 passes on otherwise,")
    _dtype(what, options.get("dtype"))
    for option in ACTIVATIONS:
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


def _dtype(what: str, dtype: Any) -> str:
    """Return the dtype of a layer; mixed precision and quantization are not computed as Keras does."""
    if isinstance(dtype, dict):
        policy = dtype.get("config")
        dtype = policy.get("name") if isinstance(policy, dict) else None
    if dtype not in (None, "float32", "int64", "string"):
        raise unknown(f"{what}: dtype {dtype!r}")
    return dtype or "float32"


def _is_mirrored(forward: Any, backward: Any) -> bool:
    """Whether a configuration is that of a recurrent layer run the other way."""

    def essence(item: Config) -> tuple[Any, Config]:
        own = {key: value for key, value in item["config"].items() if key not in ("name", "go_backwards")}
        return item.get("class_name"), own

    return all(isinstance(one, dict) for one in (forward, backward)) and essence(forward) == essence(backward)
