"""Weights of live models in checkpoints: models presented as the units that `formats.keras` lays out.

    keras-h5                 layer by layer, each one's weights in their order, then the model's own
    keras-weights, keras     objects by their attributes

An object that several attributes of a model reach has the path of the one that is walked first. Keras 2 walks
them in descending order of their names, Keras 3 in ascending order and without leading underscores. Keras 2's
paths are written, and both are read.

A model that was made from a configuration has the weights of any checkpoint of it: the
configuration says which those are.  Everything is found, of the right shapes, before one
weight is assigned.
keras/src/saving/legacy/hdf5_format.py, keras/src/saving/saving_lib.py
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from formats.errors import UnsupportedFeatureError
from formats.keras.facts import TOP_LEVEL, KerasFacts, keras_facts, variables_by_group
from formats.keras.match import fill, knows
from formats.keras.model import Edge, ModelError, Unit, Variable, from_config, legacy_order
from formats.keras.variable_layout import h5_layout, objects_in, weights_layout

from ..containers import Container
from ..names import to_snake_case
from ..saving import NamedArray, save_arrays
from .base_layer import Layer
from .metrics import Metric
from .optimizers import Optimizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.keras.variable_layout import Placed
    from formats.model.reader import FormatReader

__all__ = ["assign", "assign_weights", "load_h5", "load_weights_file", "save_h5", "save_weights_file"]

logger = logging.getLogger("ckpt_cli.runtime")

_OWNERS = (Layer, Optimizer, Metric)

Pairs = list[tuple[Any, str]]
"""Live variables, each with the key of its value."""


class Layered(Protocol):
    """The interface of a model for saving its weights."""

    _own_weights: list[Any]

    @property
    def layers(self) -> list[Any]: ...


# Models as units ------------------------------------------------------------------------


def _unit(name: str, variables: list[Any], live: Any = None) -> Unit:
    held = [Variable(one.name, full_name=one.name.removesuffix(":0"), live=one) for one in variables]
    return Unit(name, type(live).__name__, [Edge(one.name, one) for one in held], live=live)


def _weights(layer: Layer) -> list[Any]:
    """Return a layer's weights in the order of keras-h5: trainable ones first."""
    return layer.trainable_weights + layer.non_trainable_weights


def _own(owner: Any) -> list[Any]:
    """Return the variables that are an object's own, trainable ones first; all of an optimizer or metric."""
    if isinstance(owner, Optimizer | Metric):
        return list(owner.variables)
    return sorted(owner._own_weights, key=lambda weight: not weight.trainable)


def in_layers(model: Layered) -> Unit:
    """Return a model as keras-h5 has it: its layers with all that is theirs, and what is its own."""
    layers = [_unit(layer.name, _weights(layer), layer) for layer in model.layers]
    return Unit(layers=[*layers, _unit(TOP_LEVEL, _own(model))], is_model=True)


def in_objects(model: Layered, *, keras3: bool) -> Unit:
    """Return a model as keras-weights have it: everything that may own variables, each once."""
    seen: set[int] = set()

    def present(owner: Any) -> Unit:
        seen.add(id(owner))
        unit = _unit(getattr(owner, "name", ""), _own(owner), owner)
        children: dict[str, Any] = dict(owner._links.children)
        children |= {name: getattr(owner, name) for name in getattr(owner, "_also_walked", ())}
        if hasattr(owner, "layers"):
            children["layers"] = list(owner.layers)
        for name in sorted(children, reverse=not keras3):
            part = part_of(children[name])
            if part is not None:
                unit.edges.append(Edge(name, part, name.lstrip("_") if keras3 else name))
        return unit

    def part_of(child: Any) -> Unit | None:
        if isinstance(child, Container | list):
            held: list[Any] = list(child.values() if isinstance(child, dict) else child)  # type: ignore[arg-type]
            layers = [present(one) for one in held if isinstance(one, _OWNERS) and id(one) not in seen]
            return Unit(layers=layers, is_container=True)
        return present(child) if isinstance(child, _OWNERS) and id(child) not in seen else None

    return present(model)


# Saving ---------------------------------------------------------------------------------


def save_h5(path: str, model: Layered) -> None:
    """Write a model's weights; a file that is there is replaced at one stroke."""
    placed, layers = h5_layout(in_layers(model), ":0")
    save_arrays(path, "keras-h5", _arrays(placed), facts=KerasFacts(layers=tuple(layers)))


def save_weights_file(path: str, model: Layered) -> None:
    """Write a model's weights, and its optimizer's; a file that is there is replaced at one stroke."""
    placed, names = weights_layout(in_objects(model, keras3=False), to_snake_case)
    save_arrays(path, "keras-weights", _arrays(placed), facts=KerasFacts(groups=tuple(names)))


def _arrays(placed: list[Placed]) -> list[NamedArray]:
    return [NamedArray(key, variable.live._value) for variable, key in placed]


# Loading --------------------------------------------------------------------------------


def load_h5(reader: FormatReader, model: Layered, *, by_name: bool, skip_mismatch: bool) -> None:
    """Assign a file's weights to a model, all of them or, where something does not fit, none."""
    stored = {layer.name: layer.keys for layer in keras_facts(reader.facts).layers}
    top_level = stored.pop(TOP_LEVEL, None)
    pairs = _by_name(reader, stored, model, skip_mismatch) if by_name else _in_order(stored, model)
    if top_level is not None:
        pairs += _paired(_own(model), top_level, "top-level model")
    _assign_all(reader, pairs)


def _in_order(stored: dict[str, list[str]], model: Layered) -> Pairs:
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
    reader: FormatReader, stored: dict[str, list[str]], model: Layered, skip_mismatch: bool
) -> Pairs:
    pairs = []
    for layer in model.layers:
        if layer.name not in stored:
            continue
        variables, keys = _weights(layer), stored[layer.name]
        fits = [tuple(one.shape) for one in variables] == [reader.specs[key].shape for key in keys]
        if fits or not skip_mismatch:
            pairs += _paired(variables, keys, f"layer {layer.name}")
    return pairs


def _paired(variables: list[Any], keys: list[str], what: str) -> Pairs:
    if len(variables) != len(keys):
        raise ValueError(
            f"Weight count mismatch for {what}. Layer expects {len(variables)} weight(s). "
            f"Received {len(keys)} saved weight(s)"
        )
    return list(zip(variables, keys, strict=True))


def load_weights_file(reader: FormatReader, model: Layered) -> None:
    """Assign a file's weights to a model, all of them or, where something does not fit, none."""
    stored = variables_by_group(reader)
    models = [in_objects(model, keras3=keras3) for keras3 in (False, True)]
    walks = [list(objects_in(presented, spell=to_snake_case)) for presented in models]
    # The walk by which more objects find their variables is the one by which they were written.
    walk = max(walks, key=lambda found: sum(group in stored for group, _ in found))
    pairs: Pairs = []
    for group, unit in walk:
        variables, keys = unit.variables(), stored.get(group, [])
        if not isinstance(unit.live, Layer) and len(keys) != len(variables):
            message = "Skipping variable loading for an optimizer or metric, which has other variables: %s"
            logger.warning(message, unit.live)
            continue
        if len(variables) != len(keys):
            raise ValueError(
                f"Layer '{unit.name}' expected {len(variables)} variables, but received {len(keys)} "
                f"variables during loading (at {group})."
            )
        pairs += [(variable.live, key) for variable, key in zip(variables, keys, strict=True)]
    _assign_all(reader, pairs)


def _assign_all(reader: FormatReader, pairs: Pairs) -> None:
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


# Models made from a configuration -------------------------------------------------------


def assign_weights(model: Layered, reader: FormatReader, by: FormatReader) -> dict[str, Any]:
    """Give a model made from the configuration of `by` the weights of `reader`; return variables by key.

    If only names identify variables, they are those of `by`. Raises UnsupportedFeatureError if some weights
    are missing or have other shapes.
    """
    try:
        unit = from_config(keras_facts(by.facts).config or "")
        fill(unit, reader if knows(reader) else by)
    except ModelError as error:
        message = f"ckpt cannot build the model with these weights: {error}"
        raise UnsupportedFeatureError(message, path=reader.location.path) from error
    pairs = dict(_live_pairs(unit, model))
    missing = [key for key in pairs if key not in reader]
    if missing:
        message = f"{len(missing)} of the model's {len(pairs)} weights are missing from the checkpoint"
        raise UnsupportedFeatureError(message, path=reader.location.path)
    assign(reader, pairs)
    return pairs


def _live_pairs(unit: Unit, model: Layered) -> Iterator[tuple[str, Any]]:
    """Yield the key and the live variable of each of a unit's variables."""
    live = {layer.name: layer for layer in model.layers}
    for layer in unit.layers:
        if layer.is_model:
            yield from _live_pairs(layer, live[layer.name])
        elif layer.has_weights():
            for variable, weight in zip(legacy_order(layer), _weights(live[layer.name]), strict=True):
                yield str(variable.key), weight


def assign(reader: FormatReader, pairs: Mapping[str, Any]) -> None:
    """Assign tensors to variables, all or, where a shape is another, none."""
    for key, variable in pairs.items():
        if variable.shape != reader.specs[key].shape:
            message = f"shape {list(reader.specs[key].shape)}, the model's weight has {list(variable.shape)}"
            raise UnsupportedFeatureError(message, path=reader.location.path, key=key)
    for key, variable in pairs.items():
        variable.assign(reader[key].read().astype(variable._value.dtype))
