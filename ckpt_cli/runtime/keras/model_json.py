"""Models as the JSON texts of Keras 2.15: what they are made of, without weights.

    {"class_name": "Sequential", "config": {"name", "layers": [layer, ...]}, "keras_version", "backend"}
    {"class_name": "Functional", "config": {"name", "trainable", "layers": [layer with inbound_nodes, ...],
     "input_layers": places, "output_layers": places}, ...}

A layer is stored with the shape that it was built for. Computing with two lengths shows which are free: a
dimension that differs is None. A shape that a Sequential model has only learned from a call has a free batch
here; Keras keeps the first call's until another one. keras/src/engine/functional.py: get_network_config
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ..nest import flatten, map_structure
from ..tensor import Tensor
from . import layers
from .configs import Config, described
from .from_config import model_of
from .functional import Functional
from .layers.structural import InputLayer, TFOpLambda
from .model import Model, Sequential
from .symbolic import Call, KerasTensor

if TYPE_CHECKING:
    from .base_layer import Layer

__all__ = ["VERSION", "config_of_functional", "config_of_sequential", "model_of", "to_json"]

VERSION = {"keras_version": "2.15.0", "backend": "tensorflow"}
_BUILT_BY_BASE = frozenset(
    [
        "Activation", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "Cropping1D", "Cropping2D",
        "Cropping3D", "Dropout", "EinsumDense", "Flatten", "GRU", "GaussianNoise", "GroupNormalization",
        "LSTM", "LeakyReLU", "Masking", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "Permute", "RNN",
        "ReLU", "RepeatVector", "Rescaling", "Reshape", "SimpleRNN", "Softmax", "SpatialDropout1D",
        "SpatialDropout2D", "SpatialDropout3D", "UpSampling1D", "UpSampling2D", "UpSampling3D",
        "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D",
    ]
)  # fmt: skip
"""Classes whose `build` is, or ends with, that of Keras' base layer: within TimeDistributed they alone say
what shape they were built for."""


def to_json(model: Model, **kwargs: Any) -> str:
    return json.dumps({"class_name": _class_of(model), "config": model.get_config(), **VERSION}, **kwargs)


def _class_of(model: Model) -> str:
    for kind in (Sequential, Functional):
        if type(model) is kind:
            return kind.__name__
    raise NotImplementedError(
        f"{model.name}: a model of a program's own ({type(model).__name__}) has no JSON"
    )


def _described(layer: Layer, shape: Any) -> Config:
    if isinstance(layer, Model):
        _class_of(layer)
        if "compiled_metrics" in layer.__dict__:
            raise NotImplementedError(f"{layer.name}: a compiled model within another is not known in JSON")
    item = described(layer)
    if shape is None or isinstance(layer, InputLayer):
        return item
    if type(layer) is layers.RNN:
        _say_cells(
            item["config"]["cell"], layer.cell, (shape[0] if isinstance(shape[0], list) else shape)[-1]
        )
    if type(layer) is layers.TimeDistributed:
        within = [shape[0], *shape[2:]] if type(layer.layer).__name__ in _BUILT_BY_BASE else None
        item["config"]["layer"] = _described(layer.layer, within)
    return {**item, "build_config": {"input_shape": shape}}


def _say_cells(item: Config, cell: Any, width: int | None) -> None:
    """Say of the configuration of a cell, or of each in a stack, what it was built for."""
    if not isinstance(cell, layers.StackedRNNCells):
        item["build_config"] = {"input_shape": [None, width]}
        return
    for one, within in zip(item["config"]["cells"], cell.cells, strict=True):
        _say_cells(one, within, width)
        width = within.units


# Sequential -----------------------------------------------------------------------------


def config_of_sequential(model: Any) -> Config:
    stack: list[Layer] = model.layers
    if model._input is None:
        return {"name": model.name, "layers": [_described(layer, None) for layer in stack]}
    shapes = [_as_built(call.inputs[0].shape, model._built_batch) for call in model._calls]
    items = [_described(layer, shape) for layer, shape in zip(stack, shapes, strict=True)]
    return {"name": model.name, "layers": [_described(model._input, None), *items]}


# Functional -----------------------------------------------------------------------------


def config_of_functional(model: Functional) -> Config:
    shapes = _shapes(model)
    nodes = _Nodes(model)
    items = []
    for layer in model.layers:
        calls = nodes.of(layer)
        item = _described(layer, _input_shape(calls[0], shapes))
        if isinstance(layer, layers.MultiHeadAttention):
            item["config"] |= _attention_shapes(calls[0], shapes)
        inbound = [] if isinstance(layer, InputLayer) else [nodes.written(call) for call in calls]
        items.append({**item, "name": layer.name, "inbound_nodes": inbound})
    return {
        "name": model.name,
        "trainable": model.trainable,
        "layers": items,
        "input_layers": nodes.places(model._inputs),
        "output_layers": nodes.places(model._outputs),
    }


def _as_built(shape: Any, batch: int | None) -> list[int | None]:
    """Return a shape with the size of the batch that the layers were built for."""
    return [batch if shape[0] is None else shape[0], *shape[1:]]


def _shapes(model: Functional) -> dict[int, Any]:
    """Return the shape of each symbolic tensor of a model by its `id`."""
    return {id(one): list(one.shape) for call in model._calls for one in flatten(call.outputs)}


def _input_shape(call: Call, shapes: dict[int, Any]) -> Any:
    if not call.args:
        return None
    if isinstance(call.layer, TFOpLambda):
        return shapes.get(id(call.args[0][0]))
    return map_structure(lambda one: shapes[id(one)], call.args[0])


def _attention_shapes(call: Call, shapes: dict[int, Any]) -> Config:
    query, given = _arguments(call)
    value = given["value"]
    key = given.get("key", value)
    attended = ("query", query), ("key", key), ("value", value)
    return {**{f"{name}_shape": shapes[id(one)] for name, one in attended}, "attention_axes": [1]}


class _Nodes:
    """The calls of a model, and the places of what they put out: `[layer, number of the call, which]`."""

    def __init__(self, model: Functional) -> None:
        self._calls: dict[int, list[Call]] = {id(layer): [] for layer in model.layers}
        own = {id(call) for call in model._calls}
        for layer in model.layers:
            self._calls[id(layer)] = [call for call in layer._inbound if id(call) in own]

    def of(self, layer: Layer) -> list[Call]:
        return self._calls[id(layer)]

    def place(self, symbol: KerasTensor) -> list[Any]:
        assert symbol.call is not None
        layer = symbol.call.layer
        calls = [id(call) for call in self.of(layer)]
        # A model that begins with its input was called once when it was made.
        is_called = isinstance(layer, Functional) or (
            isinstance(layer, Sequential) and layer._input is not None
        )
        outputs = [id(one) for one in flatten(symbol.call.outputs)]
        return [layer.name, calls.index(id(symbol.call)) + is_called, outputs.index(id(symbol))]

    def places(self, symbols: Any) -> Any:
        return (
            [self.place(symbols)] if isinstance(symbols, KerasTensor) else map_structure(self.place, symbols)
        )

    def written(self, call: Call) -> Any:
        """Return a node: the places of the first argument, each with the other arguments."""
        first, others = _arguments(call)
        others = map_structure(self._value, others)

        def with_others(one: Any) -> list[Any]:
            if isinstance(one, KerasTensor):
                return [*self.place(one), others]
            return ["_CONSTANT_VALUE", -1, self._value(one), others]

        if isinstance(call.layer, TFOpLambda):
            return with_others(first)
        node = map_structure(with_others, first)
        return [node] if isinstance(first, KerasTensor) else node

    def _value(self, value: Any) -> Any:
        if isinstance(value, KerasTensor):
            return self.place(value)
        if isinstance(value, np.ndarray | Tensor):
            return np.asarray(value).tolist()
        if value is None or isinstance(value, str | int | float | bool):
            return value
        raise NotImplementedError(f"a call with {value!r} is not known in JSON")


def _arguments(call: Call) -> tuple[Any, Config]:
    """Return the first argument of a call, and the others by name."""
    if isinstance(call.layer, TFOpLambda):
        operands = call.args[0]
        if call.layer._attributes:
            raise NotImplementedError(f"{call.layer.name} is not known in JSON")
        return operands[0], {**({"y": operands[1]} if len(operands) > 1 else {}), "name": None}
    names = call.layer._call_spec().names
    given = dict(zip(names, call.args, strict=False)) | call.kwargs
    return given.pop(names[0]), given


Model._texts = sys.modules[__name__]
