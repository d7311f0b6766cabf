"""An optimizer's state, found in whichever layout of Keras a checkpoint has.

    style     keras-h5                      keras-weights, keras      TensorFlow's graph
    2         iteration, slots              iteration, slots          _iterations, _variables
    legacy    <name>/iter, slots            iter, slots               iter, slot variables
    3         <name>/iteration,             iteration, rate, slots    _iterations, _variables,
              <name>/learning_rate, slots                             _trainable_variables

Style 2 are the optimizers of Keras 2 since 2.11, legacy those before.  In keras-h5 the list
is `optimizer_weights`, in .weights.h5 and .keras `/optimizer/vars`.  What no tensor holds,
the learning rate of style 2 for one, a training configuration tells: `training_config` of
a whole model in HDF5, `compile_config` in a .keras archive.
keras/src/optimizers/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire.jsontext import parse_object
from .config import snake_case

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..model.reader import CheckpointReader


OPTIMIZER = "optimizer"

SLOT_LISTS: dict[str, dict[str, str]] = {
    "Adam": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "AdamW": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "Nadam": {"m": "_momentums", "v": "_velocities"},
    "SGD": {"m": "momentums"},
    "RMSprop": {
        "velocity": "_velocities",
        "momentum": "_momentums",
        "average_gradient": "_average_gradients",
    },
    "Adagrad": {"accumulator": "_accumulators"},
    "Adamax": {"m": "_m", "u": "_u"},
    "Ftrl": {"accumulator": "_accumulators", "linear": "_linears"},
    "Adadelta": {
        "accumulated_grad": "_accumulated_grads",
        "accumulated_delta_var": "_accumulated_delta_vars",
    },
}
"""Attributes in which optimizers of Keras 2 list their slots, by class and the slot's name."""

_COUNTED = re.compile(r"_\d+$")
_LARGEST_RATE = 1e38  # What float32 holds.
_LEGACY_SCALARS = ("beta", "beta_1", "beta_2", "decay", "learning_rate", "momentum", "rho")
"""Hyperparameters that a legacy optimizer's node has as variables, where its configuration has them."""


class Held(NamedTuple):
    """A variable of an optimizer: its name there, its full name, and the key of its value, or the value.

    `owner` is the key of the variable that a slot belongs to, where the layout tells it.
    """

    name: str = ""
    full_name: str = ""
    key: str | None = None
    value: float | None = None
    owner: str | None = None


class OptimizerState(NamedTuple):
    """What a checkpoint has of an optimizer; `name` is its class, as far as is known, slots as stored.

    `rates` are hyperparameters, whose values a configuration may give where no tensor does.
    """

    style: str
    name: str
    iteration: Held
    slots: tuple[Held, ...]
    rates: Mapping[str, Held]
    settings: Mapping[str, Any] = {}
    """What a training configuration says of it."""


def optimizer_state(source: CheckpointReader) -> OptimizerState | None:
    """Return the state that a checkpoint has of its optimizer; None where it has none that is known here."""
    read = _READERS.get(source.format.name)
    state = read(source) if read is not None else None
    if state is None:
        return None
    name, settings = optimizer_settings(source)
    return state._replace(name=state.name or name or "", settings=settings)


def optimizer_settings(source: CheckpointReader) -> tuple[str | None, dict[str, Any]]:
    """Return class and settings of the optimizer that a training configuration tells of."""
    found = _told(source.metadata.get("training_config"), "optimizer_config")
    if found is None:
        compiled = _told(source.metadata.get("config"), "compile_config")
        found = compiled.get("optimizer") if compiled is not None else None
    if not isinstance(found, dict):
        return None, {}
    name, config = found.get("class_name"), found.get("config")
    known = name.rpartition(">")[2] if isinstance(name, str) else None
    return known, config if isinstance(config, dict) else {}


def _told(text: str | None, name: str) -> dict[str, Any] | None:
    try:
        found = parse_object(text).get(name) if text else None
    except ValueError:
        return None  # The weights do not depend on it; `verify` says what is wrong with it.
    return found if isinstance(found, dict) else None


def _rates(names: Sequence[str], settings: Mapping[str, Any], prefix: str) -> dict[str, Held]:
    given = {name: settings.get(name) for name in names}
    return {
        name: Held(name, f"{prefix}{name}", value=float(value))
        for name, value in given.items()
        if isinstance(value, int | float) and abs(value) <= _LARGEST_RATE
    }


def _of_h5(source: CheckpointReader) -> OptimizerState | None:
    group = source.metadata.get("optimizer")
    if not group:
        return None
    full = [name.removesuffix(":0") for name in group["weight_names"]]
    first, settings = full[0], optimizer_settings(source)
    held = [Held("", name, key) for name, key in zip(full, group["weights"], strict=True)]
    if first == "iteration":
        name = settings[0] or (full[1].partition("/")[0] if len(full) > 1 else "")
        slots = [
            one._replace(name=one.full_name.split("/")[1]) if "/" in one.full_name else one for one in held
        ]
        return OptimizerState(
            "2", name, held[0], tuple(slots[1:]), _rates(("learning_rate",), settings[1], "")
        )
    if first.endswith("/iter"):
        name = first.removesuffix("/iter")
        slots = [one._replace(name=one.full_name.rpartition("/")[2]) for one in held[1:]]
        rates = _rates(_LEGACY_SCALARS, settings[1], f"{name}/")
        return OptimizerState("legacy", name, held[0], tuple(slots), rates)
    if first.endswith("/iteration") and len(full) > 1 and full[1].endswith("/learning_rate"):
        name = settings[0] or _cased(first.partition("/")[0])
        return OptimizerState("3", name, held[0], tuple(held[2:]), {"learning_rate": held[1]})
    return None


def _cased(name: str) -> str:
    """Return the class that an optimizer of Keras 3 is named after: `rm_sprop_1` after RMSprop."""
    base = _COUNTED.sub("", name)
    return next((known for known in SLOT_LISTS if snake_case(known) == base), name)


def _of_weights(source: CheckpointReader) -> OptimizerState | None:
    reader: Any = source
    keys = reader.variables("optimizer/vars")
    if not keys:
        return None
    held = [Held(key=key) for key in keys]
    name = source.metadata["object_names"].get("optimizer/vars")
    if name is None:
        rates = _rates(("learning_rate",), optimizer_settings(source)[1], "")
        return OptimizerState("2", "", held[0], tuple(held[1:]), rates)
    if len(held) < 2:
        return None
    return OptimizerState("3", _cased(name), held[0], tuple(held[2:]), {"learning_rate": held[1]})


def _of_graph(source: CheckpointReader) -> OptimizerState | None:
    graph = source.object_graph
    if graph is None:
        return None
    keys = {node: key for key, (node, _, _) in graph.tensors(source.specs).items()}
    # `Checkpoint(model=...)` has it below the model.
    found_at = (dict(graph.children(at)).get(OPTIMIZER) for at in graph.reachable())
    node = next((at for at in found_at if at is not None), None)
    if node is None:
        return None
    edges = dict(graph.children(node))

    def held(at: int | None, name: str = "", owner: int | None = None) -> Held | None:
        if at is None or at not in keys:
            return None
        of = keys.get(owner) if owner is not None else None
        return Held(name, source.full_names.get(keys[at], ""), keys[at], owner=of)

    iteration = held(edges.get("_iterations", edges.get("iter")))
    if iteration is None:
        return None
    if "iter" in edges:
        slots = [held(slot.node, slot.name, slot.variable) for slot in graph.slots if slot.optimizer == node]
        rates = {name: rate for name in _LEGACY_SCALARS if (rate := held(edges.get(name), name))}
        name = iteration.full_name.removesuffix("/iter")
        return OptimizerState("legacy", name, iteration, tuple(slot for slot in slots if slot), rates)
    listed = dict(graph.children(edges["_variables"])) if "_variables" in edges else {}
    order = [listed[name] for name in sorted(listed, key=lambda name: (len(name), name))]
    is_keras_3 = "_trainable_variables" in edges
    stored = [held(at) for at in order[2 if is_keras_3 else 1 :]]
    found = [one for one in stored if one is not None]
    if len(found) < len(stored):
        return None
    learning_rate = held(edges.get("_learning_rate"), "learning_rate")
    names = [one.full_name.split("/") for one in found]
    named = [
        one._replace(name=parts[1] if len(parts) > 2 else "") for one, parts in zip(found, names, strict=True)
    ]
    rates = {"learning_rate": learning_rate} if learning_rate is not None else {}
    name = _cased(names[0][0]) if names else ""
    return OptimizerState("3" if is_keras_3 else "2", name, iteration, tuple(named), rates)


_READERS: dict[str, Callable[[CheckpointReader], OptimizerState | None]] = {
    "keras-h5": _of_h5,
    "keras-weights": _of_weights,
    "keras": _of_weights,
    "tf-object": _of_graph,
}
