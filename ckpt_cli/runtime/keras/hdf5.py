"""Weights in Keras' legacy HDF5 layout.

    /                    attributes layer_names, backend, keras_version
    /<layer>             attribute weight_names; the datasets are named by them
    /top_level_model_weights   weights that the model itself owns

The order of `layer_names` and `weight_names` is what loading goes by; names matter
only with `by_name`.  An attribute larger than HDF5 allows is cut into name0, name1, ...
keras/src/saving/legacy/hdf5_format.py
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .base_layer import Layer
    from .model import Model

__all__ = ["is_hdf5", "load_hdf5_weights", "save_hdf5_weights"]

_MAGIC = b"\x89HDF\r\n\x1a\n"
_LARGEST_ATTRIBUTE = 64512
_VERSION = "2.15.0"


def is_hdf5(path: str) -> bool:
    """Whether there is an HDF5 file at a path."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _weights(layer: Layer) -> list[Any]:
    """Return a layer's weights in the order of the file: trainable ones first."""
    return layer.trainable_weights + layer.non_trainable_weights


def _own_weights(model: Model) -> list[Any]:
    return sorted(model._own_weights, key=lambda weight: not weight.trainable)


def _set_names(group: Any, attribute: str, names: list[str]) -> None:
    array = np.array([name.encode() for name in names]) if names else np.array([], "S1")
    if array.nbytes <= _LARGEST_ATTRIBUTE:
        group.attrs[attribute] = array
        return
    pieces = -(-array.nbytes // _LARGEST_ATTRIBUTE)
    chunks = np.array_split(array, pieces)
    while any(chunk.nbytes > _LARGEST_ATTRIBUTE for chunk in chunks):
        pieces += 1
        chunks = np.array_split(array, pieces)
    for number, chunk in enumerate(chunks):
        group.attrs[f"{attribute}{number}"] = chunk


def _get_names(group: Any, attribute: str) -> list[str]:
    found: list[Any] = []
    if attribute in group.attrs:
        found = list(group.attrs[attribute])
    else:
        number = 0
        while f"{attribute}{number}" in group.attrs:
            found += list(group.attrs[f"{attribute}{number}"])
            number += 1
    return [name.decode() if isinstance(name, bytes) else str(name) for name in found]


def save_hdf5_weights(path: str, model: Model) -> None:
    """Write a model's weights; the file is replaced in one piece."""
    import h5py

    temporary = f"{path}.tmp{secrets.token_hex(8)}"
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        with h5py.File(temporary, "w") as file:
            file.attrs["backend"], file.attrs["keras_version"] = "tensorflow", _VERSION
            _set_names(file, "layer_names", [layer.name for layer in model.layers])
            for layer in model.layers:
                _save_group(file.create_group(layer.name), _weights(layer))
            _save_group(file.create_group("top_level_model_weights"), _own_weights(model))
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _save_group(group: Any, weights: list[Any]) -> None:
    _set_names(group, "weight_names", [weight.name for weight in weights])
    for weight in weights:
        group.create_dataset(weight.name, data=weight._value)


def _read_group(group: Any) -> list[Any]:
    return [np.asarray(group[name]) for name in _get_names(group, "weight_names")]


def load_hdf5_weights(path: str, model: Model, *, by_name: bool, skip_mismatch: bool) -> None:
    """Assign a file's weights to a model, all of them or, where something does not fit, none."""
    import h5py

    with h5py.File(path, "r") as file:
        has_names = any(name in file.attrs for name in ("layer_names", "layer_names0"))
        group = file if has_names else file["model_weights"]
        pairs = _pairs_by_name(group, model, skip_mismatch) if by_name else _pairs_in_order(group, model)
        if "top_level_model_weights" in group:
            values = _read_group(group["top_level_model_weights"])
            pairs += _paired(_own_weights(model), values, "top-level model")
    for variable, value in pairs:
        if variable.shape != value.shape:
            raise ValueError(
                f"Shape mismatch in weight {variable.name}: the model's is {variable.shape}, the saved "
                f"one's {value.shape}."
            )
    for variable, value in pairs:
        variable.assign(value.astype(variable._value.dtype))


def _paired(variables: list[Any], values: list[Any], what: str) -> list[tuple[Any, Any]]:
    if len(variables) != len(values):
        raise ValueError(
            f"Weight count mismatch for {what}. Layer expects {len(variables)} weight(s). Received "
            f"{len(values)} saved weight(s)"
        )
    return list(zip(variables, values, strict=True))


def _pairs_in_order(group: Any, model: Model) -> list[tuple[Any, Any]]:
    saved = [name for name in _get_names(group, "layer_names") if _get_names(group[name], "weight_names")]
    layers = [layer for layer in model.layers if _weights(layer)]
    if len(saved) != len(layers):
        raise ValueError(
            "Layer count mismatch when loading weights from file. "
            f"Model expected {len(layers)} layers, found {len(saved)} saved layers."
        )
    pairs = []
    for number, (layer, name) in enumerate(zip(layers, saved, strict=True)):
        pairs += _paired(
            _weights(layer),
            _read_group(group[name]),
            f"layer #{number} (named {layer.name} in the current model, {name} in the save file)",
        )
    return pairs


def _pairs_by_name(group: Any, model: Model, skip_mismatch: bool) -> list[tuple[Any, Any]]:
    names = set(_get_names(group, "layer_names"))
    pairs = []
    for layer in model.layers:
        if layer.name not in names:
            continue
        values = _read_group(group[layer.name])
        variables = _weights(layer)
        fits = len(variables) == len(values) and all(
            a.shape == b.shape for a, b in zip(variables, values, strict=True)
        )
        if fits or not skip_mismatch:
            pairs += _paired(variables, values, f"layer {layer.name}")
    return pairs
