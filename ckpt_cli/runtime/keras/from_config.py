"""Models from their stored configurations: Sequential, Functional, and either within the other.

    Sequential   {"layers": [layer, ...]}
    Functional   {"layers": [layer with inbound_nodes, ...], "input_layers": places, "output_layers": places}

An inbound node is one call of a layer.  Keras 2 writes its inputs as
`[layer, node, tensor, kwargs]`, one or a list of them; Keras 3 as `{"args", "kwargs"}`
in which `{"class_name": "__keras_tensor__", "config": {"keras_history": [layer, node,
tensor]}}` stands for a tensor.  A place is `[layer, node, tensor]`, alone or listed.

keras/src/engine/functional.py: reconstruct_from_config
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from formats.errors import UnsupportedFeatureError
from formats.keras.config import class_called
from formats.keras.layers import LAYERS, LayerRow
from formats.wire.jsontext import parse_object

from ..errors import InvalidArgumentError
from ..nest import flatten
from .arguments import arguments_of
from .configs import Budget, Config, class_of, layer_of, registered, unknown
from .functional import Functional
from .layers.structural import InputLayer, TFOpLambda
from .model import Model, Sequential
from .symbolic import KerasTensor

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["model_from_config", "model_from_json", "model_of"]

_MOST_DEPTH = 32
_MOST_INPUT = 1 << 22
"""Elements of one example: an image of 1024 x 1024 with four channels."""

_SENSELESS = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, InvalidArgumentError,
)  # fmt: skip
"""The errors from a configuration whose types and numbers are inconsistent."""

_MODELS = ("Sequential", "Functional", "Model")
_OPERATIONS = {
    "__operators__.add": "add", "math.add": "add", "math.subtract": "subtract",
    "math.multiply": "multiply", "math.truediv": "divide", "math.negative": "negative",
    "math.not_equal": "not_equal",
}  # fmt: skip
"""Keras 2's names for the operators of symbolic tensors."""
_OPERATION_CLASSES = {"Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Divide": "divide"}
"""Keras 3's, of the module keras.src.ops.numpy."""


def model_from_config(text: str, elements: int, *, keras3: bool) -> Model:
    """Return the model that a configuration describes, built, its weights zeros.

    `elements` bounds the elements of all weights.  Raises UnsupportedFeatureError, which
    names it, for what is not known.
    """
    try:
        item = parse_object(text)
    except ValueError as error:
        raise UnsupportedFeatureError(f"the model's configuration: {error}") from error
    budget = Budget(elements)
    try:
        return Builder(lambda one: layer_of(one, keras3=keras3, zeros=budget)).model(item, 0)
    except MemoryError as error:
        raise UnsupportedFeatureError("the model needs more memory than there is") from error


def model_from_json(json_string: str, custom_objects: dict[str, Any] | None = None) -> Model:
    """Return the model that a text describes, with new weights; ValueError if it describes no known model."""
    return model_of(parse_object(json_string), custom_objects)


def model_of(item: Config, custom_objects: dict[str, Any] | None = None, *, keras3: bool = False) -> Any:
    """Return the model that a configuration describes, with new weights; ValueError as `model_from_json`."""
    known = {**registered, **(custom_objects or {})}

    def layer(one: Config) -> Any:
        class_name = one.get("class_name")
        if class_of(one, known) is None and arguments_of(class_called(one)) is None:
            raise ValueError(f"Unknown layer: '{class_name}'. Please ensure you are using `custom_objects`.")
        return layer_of(one, known, keras3=keras3)

    try:
        own = class_of(item, known)
        if own is not None:
            return own.from_config(item["config"])
        return Builder(layer, needs_input=False).model(item, 0)
    except UnsupportedFeatureError as error:
        raise ValueError(str(error)) from error


class Builder:
    """Builds models of layers that `make_layer` makes of their configurations.

    With `needs_input`, a model must be built, which requires the shape of its input.
    """

    def __init__(self, make_layer: Callable[[Config], Any], *, needs_input: bool = True) -> None:
        self._make_layer, self._needs_input = make_layer, needs_input

    def model(self, item: Config, depth: int) -> Model:
        config, class_name = item.get("config"), class_called(item)
        if depth > _MOST_DEPTH:
            raise UnsupportedFeatureError(f"models nested more than {_MOST_DEPTH} deep")
        if isinstance(config, list):  # Keras 1 gave a Sequential's layers alone
            config = {"layers": config}
        if class_name not in _MODELS or not isinstance(config, dict) or "layers" not in config:
            raise unknown(f"a model of class {class_name!r}")
        build = self._sequential if class_name == "Sequential" else self._functional
        try:
            return build(item, config, depth)
        except _SENSELESS as error:
            raise UnsupportedFeatureError(
                f"the configuration of model {config.get('name')!r} makes no sense: {error}"
            ) from error

    def _layer(self, item: Config, depth: int) -> Any:
        if not isinstance(item, dict):
            raise UnsupportedFeatureError(f"a layer that is a JSON {type(item).__name__}")
        class_name, config = item.get("class_name"), item.get("config")
        if class_name in _MODELS:
            return self.model(item, depth + 1)
        if class_name == "InputLayer" and isinstance(config, dict):
            return self._input(config)
        operation = _operation_of(item)
        if operation is not None:
            return TFOpLambda(operation, {})
        return self._make_layer(item)

    @staticmethod
    def _input(config: Config) -> InputLayer:
        shape = config.get("batch_shape") or config.get("batch_input_shape")
        if config.get("sparse") or config.get("ragged"):
            raise unknown(f"input {config.get('name')!r}, sparse or ragged,")
        dtype = config.get("dtype") or "float32"
        return InputLayer(
            batch_input_shape=_bounded(shape), dtype=str(dtype), name=str(config.get("name", "input"))
        )

    # Sequential ------------------------------------------------------------------------

    def _sequential(self, item: Config, config: Config, depth: int) -> Sequential:
        model = Sequential(name=str(config.get("name", "sequential")))
        items = config["layers"]
        shape = self._stack_shape(item, config)
        made = [self._layer(one, depth) for one in items]
        if not any(isinstance(layer, InputLayer) for layer in made[:1]) and shape is not None:
            first = LAYERS.get(str(items[0].get("class_name")) if items else "", LayerRow())
            model.add(InputLayer(batch_input_shape=_bounded(shape), dtype=first.input_dtype))
        for layer in made:
            model.add(layer)
        if model._input is None and self._needs_input:
            raise UnsupportedFeatureError(f"model {model.name!r} was saved without the shape of its input")
        return model

    @staticmethod
    def _stack_shape(item: Config, config: Config) -> Any:
        first = config["layers"][0] if config["layers"] else {}
        built = item.get("build_config")
        for place, name in (
            (config, "build_input_shape"),
            (built, "input_shape"),
            (first.get("config"), "batch_input_shape"),
            (first.get("config"), "batch_shape"),
        ):
            if isinstance(place, dict) and place.get(name):
                return place[name]
        return None

    # Functional ------------------------------------------------------------------------

    def _functional(self, _: Config, config: Config, depth: int) -> Functional:
        calls = _Calls()
        for one in config["layers"]:
            layer = self._layer(one, depth)
            calls.add(str(one.get("name") or one["config"]["name"]), layer, one.get("inbound_nodes") or [])
        calls.make_all()
        return Functional(
            calls.at_places(config["input_layers"]),
            calls.at_places(config["output_layers"]),
            name=str(config.get("name", "model")),
        )


class _Calls:
    """The calls of a Functional model, made as their inputs become known."""

    def __init__(self) -> None:
        self._layers: dict[str, Any] = {}
        self._waiting: dict[str, list[Any]] = {}
        self._outputs: dict[str, list[Any]] = {}
        self._wanted: dict[str, int] = {}

    def add(self, name: str, layer: Any, nodes: list[Any]) -> None:
        if name in self._layers:
            raise UnsupportedFeatureError(f"two layers are called {name!r}")
        self._layers[name] = layer
        self._waiting[name] = list(nodes)
        self._outputs[name] = [layer._inbound[0].outputs] if isinstance(layer, InputLayer) else []
        for node in nodes:
            _map(node, self._note)

    def _note(self, place: tuple[str, int, int]) -> None:
        self._wanted[place[0]] = max(self._wanted.get(place[0], 0), place[1])

    def make_all(self) -> None:
        """Make every call after those it needs; UnsupportedFeatureError where they need each other."""
        counts = {name: len(nodes) for name, nodes in self._waiting.items()}
        # A nested model was called once when it was made; Keras counts that call, too.
        self._skipped = {
            name: int(isinstance(self._layers[name], Model) and self._wanted.get(name, 0) >= count > 0)
            for name, count in counts.items()
        }
        waiting = [name for name, count in counts.items() if count]
        while waiting:
            before = sum(len(self._waiting[name]) for name in waiting)
            waiting = [name for name in waiting if not self._make(name)]
            if sum(len(self._waiting[name]) for name in waiting) == before:
                raise UnsupportedFeatureError(f"layer {waiting[0]!r} waits for inputs that never come")

    def _make(self, name: str) -> bool:
        """Make what calls of a layer can be made; return whether all are."""
        nodes = self._waiting[name]
        while nodes and self._is_ready(nodes[0]):
            args, kwargs = _arguments(_map(nodes.pop(0), self._tensor))
            layer = self._layers[name]
            if isinstance(layer, TFOpLambda):
                args, kwargs = ([*args, *(one for one in kwargs.values() if one is not None)],), {}
            self._outputs[name].append(layer(*args, **kwargs))
        return not nodes

    def _is_ready(self, node: Any) -> bool:
        needed: list[tuple[str, int, int]] = []
        _map(node, needed.append)
        return all(self._number(name, number) < len(self._outputs[name]) for name, number, _ in needed)

    def _number(self, name: str, number: int) -> int:
        if name not in self._layers:
            raise UnsupportedFeatureError(f"a call takes the output of {name!r}, which is not a layer")
        if isinstance(self._layers[name], InputLayer):
            return 0
        return number - self._skipped[name]

    def _tensor(self, place: tuple[str, int, int]) -> Any:
        name, number, which = place
        return flatten(self._outputs[name][self._number(name, number)])[which]

    def at_places(self, places: Any) -> Any:
        """Return the tensors at places: one alone, or a list or dict of them."""
        if isinstance(places, dict):
            return {key: self.at_places(one) for key, one in places.items()}
        if _is_place(places):
            return self._tensor((places[0], places[1], places[2]))
        tensors = [self._tensor((one[0], one[1], one[2])) for one in places]
        return tensors[0] if len(tensors) == 1 else tensors


def _is_place(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) in (3, 4)
        and isinstance(value[0], str)
        and all(type(number) is int and number >= 0 for number in value[1:3])
    )


def _map(node: Any, function: Any) -> Any:
    """Return a node with what `function` makes of each place in it."""
    if isinstance(node, dict):
        if node.get("class_name") == "__keras_tensor__":
            name, number, which = node["config"]["keras_history"]
            return function((name, number, which))
        return {key: _map(value, function) for key, value in node.items()}
    if _is_place(node):
        tensor = function((node[0], node[1], node[2]))
        return _Called(tensor, _map(node[3], function)) if len(node) == 4 else tensor
    if isinstance(node, list):
        return [_map(value, function) for value in node]
    return node


class _Called:
    """An input of a Keras 2 node, with the keyword arguments of the call."""

    def __init__(self, tensor: Any, kwargs: Config) -> None:
        self.tensor, self.kwargs = tensor, kwargs


def _arguments(node: Any) -> tuple[Any, Config]:
    """Return the arguments of a call. Raises UnsupportedFeatureError for an unknown one."""
    if isinstance(node, dict):
        args, kwargs = node.get("args", []), node.get("kwargs", {})
    else:
        inputs = [node] if isinstance(node, _Called) else node
        tensors = [one.tensor for one in inputs]
        args, kwargs = ([tensors[0] if len(tensors) == 1 else tensors], inputs[0].kwargs)
    kept = {
        key: value
        for key, value in kwargs.items()
        if value is not None and not (key == "use_causal_mask" and value is False)
    }
    foreign = [
        key
        for key, value in kept.items()
        if not isinstance(value, KerasTensor) and key not in _SIMPLE and (key, value) != ("training", False)
    ]
    if foreign:
        raise unknown(f"a call with {foreign[0]}={kept[foreign[0]]!r}")
    return args, kept


_SIMPLE = ("use_causal_mask", "y")


def _operation_of(item: Config) -> str | None:
    """Return the operation that an operator on symbolic tensors became; None for layers."""
    if item.get("class_name") == "TFOpLambda":
        function = item["config"].get("function")
        if function not in _OPERATIONS:
            raise unknown(f"operation {function!r}")
        return _OPERATIONS[function]
    if str(item.get("module")).startswith("keras.src.ops."):
        return _OPERATION_CLASSES.get(str(item.get("class_name")))
    return None


def _bounded(shape: Any) -> tuple[int | None, ...]:
    if not isinstance(shape, list | tuple) or not all(dim is None or type(dim) is int for dim in shape):
        raise UnsupportedFeatureError(f"an input of shape {shape!r}")
    if math.prod(abs(dim) for dim in shape[1:] if dim is not None) > _MOST_INPUT or -1 in shape:
        raise UnsupportedFeatureError(f"an input of shape {list(shape)}, larger than computed here")
    return (None, *shape[1:])
