"""tf.keras.saving: whole models in `.keras` archives and `.h5` files, with what they were compiled with.

    .keras   the configuration with what the model was built and compiled for; weights and optimizer by object
    .h5      configurations as Keras 2.4 wrote them; weights by layer, the optimizer's by name

Files are written as Keras 2.15 does. Files of Keras 3 are also read, after their options were translated to
Keras 2's words. The optimizer gets its state in any layout (`configured`). keras/src/saving/saving_lib.py,
keras/src/saving/legacy/hdf5_format.py
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from formats.keras.facts import OPTIMIZER_WEIGHTS, KerasFacts, WeightGroup, keras_facts
from formats.keras.optimizer_state import stored_state
from formats.keras.variable_layout import h5_layout, weights_layout
from formats.location import parse_location
from formats.wire.jsontext import parse_object

from ..configured import restore_optimizer
from ..names import to_snake_case
from ..nest import map_structure
from ..reader import opened
from ..saving import NamedArray, save_arrays
from ..unknown import absent, accept, refuse
from . import losses, metrics, optimizers
from .configs import described, registered, tagged
from .model import Model
from .model_json import VERSION, model_of
from .weights import in_layers, in_objects, load_h5, load_weights_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "custom_object_scope", "get_custom_objects", "get_registered_name", "get_registered_object",
    "load_model", "register_keras_serializable", "save_model",
]  # fmt: skip

logger = logging.getLogger("ckpt_cli.runtime")

_FORMATS = {".keras": "v3", ".h5": "h5", ".hdf5": "h5"}
_NAMES = {"keras": "v3", "keras_v3": "v3", "h5": "h5", "hdf5": "h5", "tf": "tf", "tensorflow": "tf"}
_COMPILED = (
    "optimizer", "loss", "metrics", "loss_weights", "weighted_metrics", "run_eagerly", "steps_per_execution",
    "jit_compile",
)  # fmt: skip


# Classes of a program's own --------------------------------------------------------------


def register_keras_serializable(package: str = "Custom", name: str | None = None) -> Callable[[Any], Any]:
    """Return a decorator by which `load_model` finds a class, as `package>name`."""

    def decorator(cls: Any) -> Any:
        full = f"{package}>{name if name is not None else cls.__name__}"
        if isinstance(cls, type) and not hasattr(cls, "get_config"):
            raise ValueError("Cannot register a class that does not have a get_config() method.")
        if registered.get(full, cls).__qualname__ != cls.__qualname__:
            raise ValueError(f"{full} has already been registered to {registered[full]}")
        registered[full] = cls
        return cls

    return decorator


def get_custom_objects() -> dict[str, Any]:
    """Return the classes of a program's own by name, which may be changed."""
    return registered


@contextlib.contextmanager
def custom_object_scope(*args: dict[str, Any]) -> Iterator[None]:
    """Let names stand for classes of a program's own within."""
    before = dict(registered)
    for given in args:
        registered.update(given)
    try:
        yield
    finally:
        registered.clear()
        registered.update(before)


def get_registered_name(obj: Any) -> str:
    return next((name for name, one in registered.items() if one is obj), obj.__name__)


def get_registered_object(name: str, custom_objects: Any = None, module_objects: Any = None) -> Any:
    return next((d[name] for d in (registered, custom_objects, module_objects) if d and name in d), None)


# Saving ---------------------------------------------------------------------------------


def save_model(
    model: Model, filepath: Any, overwrite: bool = True, save_format: str | None = None, **kwargs: Any
) -> None:
    """Write a model with its configuration, what it was compiled with, and the optimizer's state."""
    path = os.fspath(filepath)
    form = _NAMES.get(save_format) if save_format else _FORMATS.get(os.path.splitext(path)[1], "tf")
    if form is None:
        raise ValueError(
            f"Unknown `save_format` argument. Expected one of 'keras', 'tf', or 'h5'. Received: {save_format}"
        )
    if form == "tf":
        raise NotImplementedError(
            f"save: {path}: writing a SavedModel is not supported; names of models end in .keras or .h5"
        )
    if form == "v3" and not path.endswith(".keras"):
        raise ValueError(f"Invalid filename: expected a `.keras` extension. Received: filepath={path}")
    accept("save", kwargs, "include_optimizer" if form == "h5" else "")
    if not overwrite and parse_location(path).entry() is not None:
        raise FileExistsError(path)
    model._require_built()
    write = _save_archive if form == "v3" else _save_h5
    write(path, model, with_optimizer=kwargs.get("include_optimizer", True))


def _save_archive(path: str, model: Model, *, with_optimizer: bool) -> None:
    item = described(model)
    if model.inputs is not None:
        item["build_config"] = {"input_shape": _built_shape(model)}
    if with_optimizer and (given := _given(model)) is not None:
        item["compile_config"] = {name: map_structure(_described, given.get(name)) for name in _COMPILED}
    placed, names = weights_layout(in_objects(model, keras3=False), to_snake_case)
    date = time.strftime("%Y-%m-%d@%H:%M:%S")
    facts = KerasFacts(
        version=VERSION["keras_version"], date_saved=date, config=json.dumps(item, default=_as_json),
        groups=tuple(names),
    )  # fmt: skip
    save_arrays(path, "keras", [NamedArray(key, one.live._value) for one, key in placed], facts=facts)


def _built_shape(model: Model) -> Any:
    shapes = map_structure(lambda one: [None, *one.shape[1:]], model.inputs)
    return shapes[0] if len(shapes) == 1 else shapes


def _save_h5(path: str, model: Model, *, with_optimizer: bool) -> None:
    item = _in_keras_24(tagged("", type(model).__name__, model.get_config()))
    placed, layers = h5_layout(in_layers(model), ":0")
    tensors = [NamedArray(key, variable.live._value) for variable, key in placed]
    training, state = None, []
    if with_optimizer and (given := _given(model)) is not None:
        training = json.dumps(_training_config(model, given), default=_as_json)
        own = model.optimizer.weights if _is_legacy(model.optimizer) else model.optimizer.variables
        state = [(f"{OPTIMIZER_WEIGHTS}/{one.name.removesuffix(':0')}", one) for one in own]
    facts = KerasFacts(
        config=json.dumps(item, default=_as_json), training_config=training, layers=tuple(layers),
        optimizer=WeightGroup(OPTIMIZER_WEIGHTS, tuple((key, one.name) for key, one in state)),
        version=VERSION["keras_version"], backend=VERSION["backend"],
    )  # fmt: skip
    tensors += [NamedArray(key, one._value) for key, one in state]
    save_arrays(path, "keras-h5", tensors, facts=facts)


def _in_keras_24(item: Any) -> Any:
    """Return the configuration of layers without what Keras 2.13 added."""
    config = item["config"]
    if "layers" in config:
        config = {**config, "layers": [_in_keras_24(layer) for layer in config["layers"]]}
    added = ("module", "registered_name", "build_config")
    return {key: config if key == "config" else one for key, one in item.items() if key not in added}


def _training_config(model: Model, given: dict[str, Any]) -> dict[str, Any]:
    optimizer = model.optimizer
    name = type(optimizer).__name__ if _is_legacy(optimizer) else f"Custom>{type(optimizer).__name__}"
    made = model.compiled_metrics.metrics
    return {
        "loss": map_structure(_in_h5, given["loss"]),
        "metrics": [[_in_h5(one) for one in made]] if made else given["metrics"],
        "weighted_metrics": None,
        "loss_weights": None,
        "optimizer_config": {"class_name": name, "config": optimizer.get_config()},
    }


def _in_h5(value: Any) -> Any:
    if hasattr(value, "get_config"):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    return value.__name__ if callable(value) else value


def _given(model: Model) -> dict[str, Any] | None:
    """Return the arguments of `compile`, None where it was not called."""
    return model.__dict__.get("_compiled_with")


def _is_legacy(optimizer: Any) -> bool:
    return isinstance(optimizer, optimizers.legacy.Optimizer)


def _described(value: Any) -> Any:
    """Return an argument of `compile` as a configuration has it."""
    if isinstance(value, optimizers.Optimizer | optimizers.legacy.Optimizer):
        module = "" if type(value).__name__ in ("Adam", "AdamW", "Lion") else ".experimental"
        module = ".legacy" if _is_legacy(value) else module
        return tagged(f"keras.optimizers{module}", type(value).__name__, value.get_config())
    for module, kind in (("keras.losses", losses.Loss), ("keras.metrics", metrics.Metric)):
        if isinstance(value, kind) and type(value).__module__ == kind.__module__:
            return tagged(module, type(value).__name__, value.get_config())
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise NotImplementedError(f"save: compile() was given {value!r}, which is not supported in a file")


def _as_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else list(value)


# Loading --------------------------------------------------------------------------------


def load_model(
    filepath: Any, custom_objects: dict[str, Any] | None = None, compile: bool = True, safe_mode: bool = True,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """Return the model of a file: built, with its weights, and compiled with its optimizer's state."""
    refuse("load_model", safe_mode=None if safe_mode else "False", **kwargs)
    path = parse_location(filepath)
    if path.entry() is None:
        raise OSError(f"No file or directory found at {path}")
    with opened(path) as reader:
        if not hasattr(reader.facts, "training_config"):
            raise NotImplementedError(f"load_model: {path}: a file of {reader.format.title} is not supported")
        facts = keras_facts(reader.facts)
        if facts.config is None:
            raise ValueError(f"No model config found in the file at {path}.")
        item = parse_object(facts.config)
        model = model_of(item, custom_objects, keras3=facts.major == "3")
        if not model.built:
            model.build(map_structure(lambda one: one, item["build_config"]["input_shape"]))
        if reader.format.names_layers:
            load_h5(reader, model, by_name=False, skip_mismatch=False)
            given = json.loads(facts.training_config) if facts.training_config else None
        else:
            load_weights_file(reader, model)
            given = item.get("compile_config")
        if compile and given and any(given.get(key) for key in ("optimizer", "optimizer_config")):
            _compile(model, given, reader, keras3=facts.major == "3")
        elif compile:
            logger.warning("No training configuration found in the save file, so the model was not compiled.")
    return model


def _compile(model: Any, given: dict[str, Any], reader: Any, *, keras3: bool) -> None:
    def loss_of(value: Any) -> Any:
        return losses.get(_own_options(value)) if isinstance(value, dict) else value

    optimizer = _optimizer_of(given.get("optimizer_config") or given.get("optimizer"), keras3=keras3)
    options = {name: given[name] for name in _COMPILED[3:] if given.get(name)}
    found = [_metric_of(one) for one in _flat(given.get("metrics"))]
    model.compile(optimizer, loss_of(given.get("loss")), found or None, **options)
    state = stored_state(reader)
    if state is None or not state.ordered:
        return
    restore_optimizer(model.optimizer, model, state, reader, {})


def _flat(given: Any) -> list[Any]:
    return [part for one in given or () for part in (one if isinstance(one, list) else [one])]


def _metric_of(value: Any) -> Any:
    """Return a metric; one of a function by its name, which `compile` gives the same metric for."""
    if isinstance(value, dict) and value.get("class_name") == "MeanMetricWrapper":
        config = value["config"]
        return metrics.MeanMetricWrapper(metrics.get(config["fn"]), config["name"], config["dtype"])
    return metrics.get(_own_options(value)) if isinstance(value, dict) else value


def _own_options(item: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of a loss or metric without what Keras 3 adds."""
    config = {
        key: value
        for key, value in item["config"].items()
        if (key != "fn") and not (key == "dtype" and (value is None or isinstance(value, dict)))
    }
    return {**item, "config": config}


def _optimizer_of(value: Any, *, keras3: bool) -> Any:
    if not isinstance(value, dict):
        return value
    config = dict(value["config"])
    name = str(value["class_name"])
    is_newer = (
        keras3 or ">" in name or value.get("module", "").rpartition(".")[2] in ("optimizers", "experimental")
    )
    if not is_newer:
        return optimizers.get({"class_name": name, "config": config})
    for option in ("loss_scale_factor", "gradient_accumulation_steps"):
        refuse("load_model", **{option: config.pop(option, None)})
    name = name.rpartition(">")[2]
    return optimizers.get({"class_name": name, "config": {**config, "is_legacy_optimizer": False}})


Model._files = sys.modules[__name__]


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
