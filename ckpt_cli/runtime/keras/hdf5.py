"""Weights in Keras' legacy HDF5 layout.

    /                    attributes layer_names, backend, keras_version
    /<layer>             attribute weight_names; the datasets are named by them
    /top_level_model_weights   weights that the model itself owns

The order of `layer_names` and `weight_names` is what loading goes by; names matter
only with `by_name`.  The file itself is written by `formats.keras.facts`.
keras/src/saving/legacy/hdf5_format.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from formats.keras.facts import TOP_LEVEL, KerasFacts, Weight, WeightGroup, keras_facts, weight_keys

from ..saving import NamedArray, save_arrays

if TYPE_CHECKING:
    from formats.model.reader import CheckpointReader

    from .base_layer import Layer

__all__ = ["assign_all", "load_hdf5_weights", "save_hdf5_weights"]


class Layered(Protocol):
    """What saving weights asks of a model."""

    _own_weights: list[Any]

    @property
    def layers(self) -> list[Any]: ...


def _weights(layer: Layer) -> list[Any]:
    """Return a layer's weights in the order of the file: trainable ones first."""
    return layer.trainable_weights + layer.non_trainable_weights


def _own_weights(model: Layered) -> list[Any]:
    return sorted(model._own_weights, key=lambda weight: not weight.trainable)


def save_hdf5_weights(path: str, model: Layered) -> None:
    """Write a model's weights; a file that is there is replaced at one stroke."""
    groups = [(layer.name, _weights(layer)) for layer in model.layers]
    groups.append((TOP_LEVEL, _own_weights(model)))
    owned = [(name, weight) for name, weights in groups for weight in weights]
    keys = weight_keys([Weight(name, weight.name, f"{name}/{weight.name}") for name, weight in owned])
    tensors = [NamedArray(key, weight._value) for key, (_, weight) in zip(keys, owned, strict=True)]
    left = iter(keys)
    layers = [
        WeightGroup(name, tuple((next(left), weight.name) for weight in weights)) for name, weights in groups
    ]
    save_arrays(path, "keras-h5", tensors, facts=KerasFacts(layers=tuple(layers)))


def load_hdf5_weights(
    reader: CheckpointReader, model: Layered, *, by_name: bool, skip_mismatch: bool
) -> None:
    """Assign a file's weights to a model, all of them or, where something does not fit, none."""
    stored = {layer.name: layer.keys for layer in keras_facts(reader.facts).layers}
    top_level = stored.pop(TOP_LEVEL, None)
    pairs = _by_name(reader, stored, model, skip_mismatch) if by_name else _in_order(stored, model)
    if top_level is not None:
        pairs += _paired(_own_weights(model), top_level, "top-level model")
    assign_all(reader, pairs)


def assign_all(reader: CheckpointReader, pairs: list[tuple[Any, str]]) -> None:
    """Assign tensors to variables by key; ValueError, and nothing assigned, where a shape is another."""
    for variable, key in pairs:
        shape = reader.specs[key].shape
        if tuple(variable.shape) != shape:
            raise ValueError(
                f"Shape mismatch in weight {variable.name}: the model's is {variable.shape}, the saved one's "
                f"{shape}."
            )
    values = [reader[key].read() for _, key in pairs]
    for (variable, _), value in zip(pairs, values, strict=True):
        variable.assign(value.astype(variable._value.dtype))


def _paired(variables: list[Any], keys: list[str], what: str) -> list[tuple[Any, str]]:
    if len(variables) != len(keys):
        raise ValueError(
            f"Weight count mismatch for {what}. Layer expects {len(variables)} weight(s). "
            f"Received {len(keys)} saved weight(s)"
        )
    return list(zip(variables, keys, strict=True))


def _in_order(stored: dict[str, list[str]], model: Layered) -> list[tuple[Any, str]]:
    saved = [(name, keys) for name, keys in stored.items() if keys]
    layers = [layer for layer in model.layers if _weights(layer)]
    if len(saved) != len(layers):
        raise ValueError(
            "Layer count mismatch when loading weights from file. "
            f"Model expected {len(layers)} layers, found {len(saved)} saved layers."
        )
    pairs = []
    for number, (layer, (name, keys)) in enumerate(zip(layers, saved, strict=True)):
        what = f"layer #{number} (named {layer.name} in the current model, {name} in the save file)"
        pairs += _paired(_weights(layer), keys, what)
    return pairs


def _by_name(
    reader: CheckpointReader, stored: dict[str, list[str]], model: Layered, skip_mismatch: bool
) -> list[tuple[Any, str]]:
    pairs = []
    for layer in model.layers:
        if layer.name not in stored:
            continue
        variables, keys = _weights(layer), stored[layer.name]
        fits = [tuple(one.shape) for one in variables] == [reader.specs[key].shape for key in keys]
        if fits or not skip_mismatch:
            pairs += _paired(variables, keys, f"layer {layer.name}")
    return pairs
