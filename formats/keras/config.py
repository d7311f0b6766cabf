"""A Keras model's configuration: its layers in order, and the shapes they have to have.

    {"class_name": "Sequential" | "Functional" | "Model" | ...,
     "config": {"name": ..., "layers": [{"class_name", "config": {"name", ...}, "build_config"?}, ...]}}

Keras 1 and early 2 gave a Sequential's layers directly as its `config`.  Of the layers
that `_RULES` knows, the weights' shapes follow from the configuration but for a few
dimensions; those are letters in the rule, and one letter is one number throughout a
layer.  What a rule cannot tell (subclasses, quantized or LoRA layers) is not compared.
Nothing here imports or runs what a configuration names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model.verification import Finding
from ..wire.jsontext import parse_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_MOST_DEPTH = 32
Pattern = tuple["int | str", ...]
Config = dict[str, Any]


class Layer(NamedTuple):
    """A layer of a configuration; `layers` are those of a nested model."""

    name: str
    class_name: str
    config: Config
    input_shape: tuple[int | None, ...] | None = None
    layers: tuple[Layer, ...] = ()

    @property
    def is_model(self) -> bool:
        return "layers" in self.config

    def leaves(self) -> Iterator[Layer]:
        """Yield the layers that are no models, in order."""
        if not self.is_model:
            yield self
        for layer in self.layers:
            yield from layer.leaves()


class LayerWeights(NamedTuple):
    """A stored weight of a layer, as the comparison needs it: key, name or path, shape."""

    key: str
    name: str
    shape: tuple[int, ...]


# Reading -------------------------------------------------------------------------


def layers_of(text: str | None) -> tuple[tuple[Layer, ...], str | None]:
    """Return the layers of a configuration, and what is wrong with it if anything is."""
    if text is None:
        return (), None
    try:
        return _layers(parse_object(text).get("config"), 0), None
    except ValueError as error:
        return (), str(error)


def model_of(text: str) -> Layer:
    """Return the model that a configuration describes; ValueError where it is none."""
    return _layer(parse_object(text), 0)


def layer_of(item: Config) -> Layer:
    """Return the layer that a wrapper's configuration has within it."""
    return _layer(item, 1)


def _layers(config: Any, depth: int) -> tuple[Layer, ...]:
    if depth > _MOST_DEPTH:
        raise ValueError(f"models nested more than {_MOST_DEPTH} deep")
    listed = config.get("layers") if isinstance(config, dict) else config
    if not isinstance(listed, list):
        return ()
    return tuple(_layer(item, depth) for item in listed if isinstance(item, dict))


def _layer(item: Config, depth: int) -> Layer:
    config = item.get("config")
    config = {"layers": config} if isinstance(config, list) else config if isinstance(config, dict) else {}
    name, class_name = config.get("name", item.get("name")), item.get("class_name")
    built = item.get("build_config")
    shape = built.get("input_shape") if isinstance(built, dict) else None
    # A class of somebody's own may bear a Keras layer's name and have other weights.
    own = item.get("registered_name") not in (None, class_name)
    return Layer(
        name if isinstance(name, str) else "",
        f"{class_name}" if isinstance(class_name, str) and not own else f"{item.get('registered_name')}",
        config,
        tuple(shape)
        if isinstance(shape, list) and all(dim is None or type(dim) is int for dim in shape)
        else None,
        _layers(config, depth + 1) if "layers" in config else (),
    )


def snake_case(name: str) -> str:
    """Return a class name as Keras spells it in paths: `Conv2DTranspose` is `conv2d_transpose`."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


# What layers have to have ------------------------------------------------------------


def _number(config: Config, name: str) -> int:
    value = config[name]
    if type(value) is not int or value < 0:
        raise KeyError(name)
    return value


def _sizes(config: Config, name: str) -> tuple[int, ...]:
    value = config[name]
    if not isinstance(value, list) or any(type(size) is not int for size in value):
        raise KeyError(name)
    return tuple(value)


def _bias(config: Config, *pattern: int | str) -> list[tuple[str, Pattern]]:
    return [("bias", pattern)] if config.get("use_bias", config.get("bias", True)) else []


def _dense(config: Config) -> list[tuple[str, Pattern]]:
    units = _number(config, "units")
    return [("kernel", ("input", units)), *_bias(config, units)]


def _conv(config: Config) -> list[tuple[str, Pattern]]:
    filters = _number(config, "filters")
    return [("kernel", (*_sizes(config, "kernel_size"), "input", filters)), *_bias(config, filters)]


def _conv_transpose(config: Config) -> list[tuple[str, Pattern]]:
    filters = _number(config, "filters")
    return [("kernel", (*_sizes(config, "kernel_size"), filters, "input")), *_bias(config, filters)]


def _embedding(config: Config) -> list[tuple[str, Pattern]]:
    return [("embeddings", (_number(config, "input_dim"), _number(config, "output_dim")))]


def _scale_and_center(config: Config, pattern: Pattern) -> list[tuple[str, Pattern]]:
    flags = (("scale", "gamma"), ("center", "beta"))
    return [(weight, pattern) for flag, weight in flags if config.get(flag, True)]


def _batch_normalization(config: Config) -> list[tuple[str, Pattern]]:
    axis = config.get("axis", -1)
    if config.get("renorm") or (isinstance(axis, list) and len(axis) != 1):
        raise KeyError("axis")
    moving: list[tuple[str, Pattern]] = [("moving_mean", ("channels",)), ("moving_variance", ("channels",))]
    return _scale_and_center(config, ("channels",)) + moving


def _layer_normalization(config: Config) -> list[tuple[str, Pattern]]:
    axis = config.get("axis", -1)
    rank = len(axis) if isinstance(axis, list) else 1
    if config.get("rms_scaling"):
        raise KeyError("rms_scaling")
    return _scale_and_center(config, tuple(f"axis {at}" for at in range(rank)))


def _recurrent(gates: int) -> Callable[[Config], list[tuple[str, Pattern]]]:
    def rule(config: Config) -> list[tuple[str, Pattern]]:
        units = _number(config, "units")
        out: list[tuple[str, Pattern]] = [
            ("kernel", ("input", gates * units)),
            ("recurrent_kernel", (units, gates * units)),
        ]
        both = gates == 3 and config.get("reset_after", False)
        return out + (_bias(config, 2, gates * units) if both else _bias(config, gates * units))

    return rule


_RULES: dict[str, Callable[[Config], list[tuple[str, Pattern]]]] = {
    "Dense": _dense,
    "Conv1D": _conv,
    "Conv2D": _conv,
    "Conv3D": _conv,
    "Conv2DTranspose": _conv_transpose,
    "Conv3DTranspose": _conv_transpose,
    "Embedding": _embedding,
    "BatchNormalization": _batch_normalization,
    "LayerNormalization": _layer_normalization,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "SimpleRNN": _recurrent(1),
}


def expected_weights(layer: Layer) -> list[tuple[str, Pattern]] | None:
    """Return name and shape of a layer's weights in Keras' order; None where these cannot be told."""
    rule = _RULES.get(layer.class_name)
    if rule is None or layer.config.get("quantization_config") or layer.config.get("lora_rank"):
        return None
    try:
        expected = rule(layer.config)
    except KeyError:
        return None
    if layer.input_shape and layer.class_name == "Dense" and isinstance(layer.input_shape[-1], int):
        known = layer.input_shape[-1]
        expected = [
            (name, tuple(known if dim == "input" else dim for dim in pattern)) for name, pattern in expected
        ]
    return expected


# Comparing ---------------------------------------------------------------------------


def check_shapes(
    layers: tuple[Layer, ...], held: Mapping[str, list[LayerWeights]], path: str
) -> list[Finding]:
    """Return where stored shapes contradict the configuration, weights told by their names.

    `held` gives what is stored for each top-level layer.  Of a nested model's weights a
    layer's are those whose last component but one is its name.
    """
    findings = []
    for top in layers:
        stored = held.get(top.name)
        for layer in top.leaves() if stored is not None else ():
            within = [w for w in stored or () if layer is top or w.name.split("/")[-2:-1] == [layer.name]]
            findings += _compare(
                layer, {w.name.rpartition("/")[2]: w for w in within}, path, complete=layer is top
            )
    return findings


def check_in_order(layer: Layer, stored: list[LayerWeights], path: str) -> list[Finding]:
    """Return where the shapes of a layer's weights, in Keras' order, contradict its configuration."""
    expected = expected_weights(layer)
    if expected is None:
        return []
    if len(stored) != len(expected):
        message = f"{_spell(layer)} has {len(stored)} weights, its configuration makes it {len(expected)}"
        return [Finding("error", "config-shape", message, stored[0].key if stored else None, path)]
    named = {name: weight for (name, _), weight in zip(expected, stored, strict=True)}
    return _compare(layer, named, path, complete=True)


def _compare(layer: Layer, stored: Mapping[str, LayerWeights], path: str, *, complete: bool) -> list[Finding]:
    findings = []
    bound: dict[str, int] = {}
    for name, pattern in expected_weights(layer) or ():
        weight = stored.get(name)
        if weight is None:
            if complete and stored and not _is_keras_1(stored):
                message = f"{_spell(layer)} has no weight {name!r}, its configuration has one"
                findings.append(Finding("error", "config-shape", message, None, path))
            continue
        wanted = [dim if isinstance(dim, int) else bound.get(dim) for dim in pattern]
        fits = len(wanted) == len(weight.shape) and all(
            dim is None or dim == found for dim, found in zip(wanted, weight.shape, strict=True)
        )
        if fits:
            bound.update(
                (dim, found) for dim, found in zip(pattern, weight.shape, strict=True) if isinstance(dim, str)
            )
            continue
        spelled = ", ".join("any" if dim is None else str(dim) for dim in wanted)
        message = f"shape {list(weight.shape)}, the configuration of {_spell(layer)} makes it [{spelled}]"
        findings.append(Finding("error", "config-shape", message, weight.key, path))
    return findings


def _spell(layer: Layer) -> str:
    return f"layer {layer.name!r} ({layer.class_name})"


def _is_keras_1(stored: Mapping[str, LayerWeights]) -> bool:
    """Whether weights are named as Keras 1 did, `dense_1_W`: that says nothing of which is which."""
    return not any(
        "/" in weight.name.rpartition(":")[0] or _NAMED.search(weight.name) for weight in stored.values()
    )


_NAMED = re.compile(r"(^|/)(kernel|bias|gamma|beta|embeddings|recurrent_kernel|moving_mean|moving_variance)$")
