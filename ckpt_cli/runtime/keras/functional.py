"""Functional models: a graph of layer calls between symbolic inputs and outputs.

Layers are ordered by depth, their distance from the outputs, the deepest first, and
within one depth in the order in which the walk from the outputs came to them.  That
order names the edges `layer-N` and `layer_with_weights-K` under which they are saved.
keras/src/engine/functional.py: _map_graph_network
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..names import unique_name
from ..nest import flatten, map_structure
from .layers.structural import InputLayer
from .masks import hang_masks, mask_of
from .model import Model, layer_edges
from .symbolic import Call, KerasTensor, conformed, depths

if TYPE_CHECKING:
    from ..trackable import Trackable
    from .base_layer import Layer

__all__ = ["Functional"]


class Functional(Model):
    """What `Model(inputs, outputs)` makes."""

    _inputs: Any
    _outputs: Any
    _calls: list[Call]
    _ordered: list[Layer]
    _hangs_masks = True

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None, **kwargs: Any) -> None:
        # A class of its own is Keras' business; to a program it is a Model.
        is_plain = type(self) is Functional and name is None
        super().__init__(name=unique_name("model") if is_plain else name, **kwargs)
        self._put("_inputs", inputs)
        self._put("_outputs", outputs)
        self._put("_calls", _in_order(flatten(outputs)))
        self._put("_ordered", _layers_by_depth(self._calls))
        missing = [
            call.layer.name
            for call in self._calls
            if isinstance(call.layer, InputLayer) and not _given(call, inputs)
        ]
        if missing:
            raise ValueError(f"Graph disconnected: cannot obtain value for the inputs {missing}")
        names = Counter(layer.name for layer in self._ordered)
        for layer_name, count in names.items():
            if count > 1:
                raise ValueError(
                    f'The name "{layer_name}" is used {count} times in the model. All layer names should be '
                    "unique."
                )
        self._put("built", True)

    def _graph(self) -> list[Call]:
        return self._calls

    @property
    def layers(self) -> list[Layer]:
        return list(self._ordered)

    @property
    def inputs(self) -> list[KerasTensor]:
        return flatten(self._inputs)

    @property
    def outputs(self) -> list[KerasTensor]:
        return flatten(self._outputs)

    @property
    def input(self) -> Any:
        return self._inputs

    @property
    def output(self) -> Any:
        return self._outputs

    def _sublayers(self) -> list[Any]:
        return [*self._ordered, *super()._sublayers()] if "_ordered" in self.__dict__ else []

    def _trackable_children(self) -> Mapping[str, Trackable]:
        return {**layer_edges(self._ordered), **super()._trackable_children()}

    def _lookup_child(self, name: str) -> Trackable | None:
        return self._trackable_children().get(name)

    def get_config(self) -> dict[str, Any]:
        """Return the configurations of the layers, with the calls of each, and of inputs and outputs."""
        return self._texts.config_of_functional(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        """Return the model that a configuration describes; ValueError for what is none or not known."""
        return cls._texts.model_of({"class_name": "Functional", "config": config}, custom_objects)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return map_structure(mask_of, self.call(inputs, mask=mask))

    def _flat(self, given: Any) -> list[Any]:
        """Return what was given for each input, in their order; a dict may go by the names of the inputs."""
        if isinstance(given, Mapping) and not isinstance(self._inputs, Mapping):
            return [given[one.call.layer.name] for one in flatten(self._inputs)]
        return flatten(given)

    def _converted(self, inputs: Any) -> Any:
        self._put("_inputs_wanted", len(flatten(self._inputs)))
        return super()._converted(inputs)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        symbols, given = flatten(self._inputs), self._flat(inputs)
        hang_masks(given, None if mask is None else self._flat(mask))
        values = {id(one): conformed(value, one) for one, value in zip(symbols, given, strict=True)}
        return self._computed(values, training)

    def _computed(self, values: dict[int, Any], training: Any = None) -> Any:
        """Make every call, from the values of the inputs by `id` of their symbols, which get all others."""

        def value_of(leaf: Any) -> Any:
            return values[id(leaf)] if isinstance(leaf, KerasTensor) else leaf

        for call in self._calls:
            if isinstance(call.layer, InputLayer):
                continue
            kwargs = map_structure(value_of, call.kwargs)
            if call.layer._call_spec().takes_training:
                kwargs.setdefault("training", training)
            result = call.layer(*map_structure(value_of, call.args), **kwargs)
            for symbol, value in zip(flatten(call.outputs), flatten(result), strict=True):
                values[id(symbol)] = value
        return map_structure(value_of, self._outputs)


def _given(call: Call, inputs: Any) -> bool:
    return any(call.outputs is one for one in flatten(inputs))


def _in_order(outputs: list[KerasTensor]) -> list[Call]:
    """Return the calls that lead to the outputs, each after those it needs; no recursion, for deep models."""
    order: list[Call] = []
    done: set[int] = set()
    stack: list[tuple[Call, bool]] = [(one.call, False) for one in reversed(outputs) if one.call is not None]
    while stack:
        call, is_ready = stack.pop()
        if id(call) in done:
            continue
        if is_ready:
            done.add(id(call))
            order.append(call)
            continue
        stack.append((call, True))
        needs = [one.call for one in call.inputs if one.call is not None]
        stack += [(need, False) for need in reversed(needs) if id(need) not in done]
    return order


def _layers_by_depth(calls: list[Call]) -> list[Layer]:
    # A layer without inputs of its own, an input, has the greatest depth that uses it.
    deepest: dict[int, int] = {}
    for call, depth in depths(calls):
        deepest[id(call.layer)] = max(depth, deepest.get(id(call.layer), 0))
    layers = {id(call.layer): call.layer for call in calls}
    return sorted(layers.values(), key=lambda layer: -deepest[id(layer)])
