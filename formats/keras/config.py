"""A Keras model's configuration: its layers in order, and the shapes they have to have.

    {"class_name": "Sequential" | "Functional" | "Model" | ...,
     "config": {"name": ..., "layers": [{"class_name", "config": {"name", ...}, "build_config"?}, ...]}}

Keras 1 and early 2 stored a Sequential's layers directly as its `config`. For the layers in `layers`, the
shapes of weights follow from the configuration, except for a few dimensions; those are words, and a word is
the same number throughout a layer. Weights that the table does not describe (subclasses, quantized or LoRA
layers) are not compared. Nothing here imports or runs what a configuration names.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..model.verification import Finding
from ..wire.jsontext import parse_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .layers import Weight


_MOST_DEPTH = 32
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
        """Yield the layers that are not models, in order."""
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
    """Return the model that a configuration describes; ValueError if it is none."""
    return _layer(parse_object(text), 0)


def layer_of(item: Config) -> Layer:
    """Return the layer that a wrapper's configuration has within it."""
    return _layer(item, 1)


def _layers(config: Any, depth: int) -> tuple[Layer, ...]:
    if depth > _MOST_DEPTH:
        raise ValueError(f"models are nested more than {_MOST_DEPTH} levels deep")
    listed = config.get("layers") if isinstance(config, dict) else config
    if not isinstance(listed, list):
        return ()
    return tuple(_layer(item, depth) for item in listed if isinstance(item, dict))


def _layer(item: Config, depth: int) -> Layer:
    config = item.get("config")
    config = {"layers": config} if isinstance(config, list) else config if isinstance(config, dict) else {}
    name = config.get("name", item.get("name"))
    built = item.get("build_config")
    shape = built.get("input_shape") if isinstance(built, dict) else None
    return Layer(
        name if isinstance(name, str) else "",
        class_called(item),
        config,
        tuple(shape)
        if isinstance(shape, list) and all(dim is None or type(dim) is int for dim in shape)
        else None,
        _layers(config, depth + 1) if "layers" in config else (),
    )


def class_called(item: Config) -> str:
    """Return a layer's class: Keras' own by its name, another by what it is registered as.

    A class that a program has not registered may share its name with one of Keras' and have other weights;
    the module distinguishes them, but HDF5 files lack it.
    """
    class_name, registered = item.get("class_name"), item.get("registered_name")
    if registered not in (None, class_name):
        return f"{registered}"
    module = item.get("module", _LIBRARIES[0])
    is_of_keras = isinstance(module, str) and module.partition(".")[0] in _LIBRARIES
    return f"{class_name}" if is_of_keras else f"{module or 'Custom'}>{class_name}"


_LIBRARIES = ("keras", "tf_keras", "tensorflow")
"""Where Keras' own classes are."""


def version_of_config(config: str | None, version: str | None) -> str | None:
    """Return the version of Keras for a model, as far as its configuration shows it."""
    if config is None:
        return version
    # Only Keras 3 says batch_shape; only Keras 2 says batch_input_shape; a subclassed model says neither.
    is_keras_2 = '"batch_input_shape"' in config or "keras.src.engine" in config
    if version is not None and not is_keras_2 and '"batch_shape"' not in config:
        return version
    major = "2" if is_keras_2 else "3"
    if version is not None and version.startswith(major):
        return version
    return {"2": "2.15.0", "3": "3.0.0"}[major]


def config_in_h5(config: str | None) -> str | None:
    """Return a configuration as whole models in HDF5 have it: class and settings, without a module."""
    if config is None:
        return None
    found = parse_object(config)
    if "module" not in found:
        return config
    return json.dumps({"class_name": found.get("class_name"), "config": found.get("config")})


_MODULES_OF_KERAS_2 = {
    "Sequential": ("keras", "Sequential", None),
    "Functional": ("keras.src.engine.functional", "Functional", "Functional"),
    "Model": ("keras.src.engine.functional", "Functional", "Functional"),
}
"""Module, class and registered name that Keras 2 has in `.keras` archives for a model, by its class."""


def config_in_archive(config: str) -> str | None:
    """Return the configuration of a model of Keras 2 as `.keras` archives have it; None if it has no form.

    The model alone says its module: of layers without one, Keras reads class and settings.
    """
    found = parse_object(config)
    row = _MODULES_OF_KERAS_2.get(str(found.get("class_name")))
    if row is None or "module" in found:
        return None
    names = dict(zip(("module", "class_name", "registered_name"), row, strict=True))
    return json.dumps({**names, "config": found.get("config")})


def training_in_h5(config: str | None, major: str) -> str | None:
    """Return how a model is compiled as whole models in HDF5 have it, out of what a `.keras` archive says.

    None if it is not compiled, or names no optimizer, without which Keras ignores all of it. Keras 2 spells
    an object by class and settings alone, and its newer optimizers by the names under which it registers
    them: by class alone it finds the legacy ones.
    """
    compiled = parse_object(config).get("compile_config") if config is not None else None
    optimizer = compiled.get("optimizer") if isinstance(compiled, dict) else None
    if not isinstance(compiled, dict) or not isinstance(optimizer, dict):
        return None
    training = {key: compiled.get(key) for key in ("loss", "metrics", "weighted_metrics", "loss_weights")}
    name, settings = optimizer.get("class_name"), optimizer.get("config")
    is_legacy = isinstance(settings, dict) and settings.get("is_legacy_optimizer")
    if major == "2" and optimizer.get("module") == "keras.optimizers" and not is_legacy:
        name = f"Custom>{name}"
    training["optimizer_config"] = {"class_name": name, "config": settings}
    return json.dumps(_by_class(training) if major == "2" else training)


def _by_class(value: Any) -> Any:
    """Return a configuration whose objects do not say their modules."""
    if isinstance(value, list):
        return [_by_class(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_object = {"module", "class_name", "config"} <= value.keys()
    return {
        key: _by_class(item)
        for key, item in value.items()
        if not (is_object and key in ("module", "registered_name", "build_config"))
    }


def snake_case(name: str) -> str:
    """Return a class name as Keras spells it in paths: `Conv2DTranspose` is `conv2d_transpose`."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


# What layers have to have ------------------------------------------------------------


def expected_weights(layer: Layer) -> list[Weight] | None:
    """Return a layer's weights with their shapes in Keras' order, or None if these are unknown."""
    from .layers import LAYERS  # not needed for listing a file

    row = LAYERS.get(layer.class_name)
    if row is None or row.parts or row.wraps:
        return None
    last = layer.input_shape[-1] if layer.input_shape and row.input_is_last else None
    try:
        return LAYERS.get(row.cell, row).weights_of(layer.config.get, {} if last is None else {"INPUT": last})
    except KeyError:
        return None


# Comparing ---------------------------------------------------------------------------


def check_shapes(
    layers: tuple[Layer, ...], held: Mapping[str, list[LayerWeights]], path: str
) -> list[Finding]:
    """Return findings where stored shapes contradict the configuration; weights are identified by their
    names.

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
        message = f"{_spell(layer)} has {len(stored)} weights, but its configuration requires {len(expected)}"
        return [Finding("error", "config-shape", message, stored[0].key if stored else None, path)]
    named = {row.name: weight for (row, _), weight in zip(expected, stored, strict=True)}
    return _compare(layer, named, path, complete=True)


def _compare(layer: Layer, stored: Mapping[str, LayerWeights], path: str, *, complete: bool) -> list[Finding]:
    findings = []
    bound: dict[str, int] = {}
    for row, pattern in expected_weights(layer) or ():
        weight = stored.get(row.name)
        if weight is None:
            if complete and stored and not _is_keras_1(stored):
                message = f"{_spell(layer)} has no weight {row.name!r}, but its configuration requires one"
                findings.append(Finding("error", "config-shape", message, None, path))
            continue
        if pattern is None:
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
        message = (
            f"the shape is {list(weight.shape)}, but the configuration of {_spell(layer)} "
            f"requires [{spelled}]"
        )
        findings.append(Finding("error", "config-shape", message, weight.key, path))
    return findings


def _spell(layer: Layer) -> str:
    return f"layer {layer.name!r} ({layer.class_name})"


def _is_keras_1(stored: Mapping[str, LayerWeights]) -> bool:
    """Whether weights have Keras 1's names, `dense_1_W`, which do not identify them."""
    from .layers import WEIGHTS

    return not any(
        "/" in weight.name.rpartition(":")[0] or weight.name.rpartition("/")[2] in WEIGHTS
        for weight in stored.values()
    )
