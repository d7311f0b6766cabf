"""The objects of a model as Keras 3 has them in TensorFlow's graph: `save` of a Checkpoint of the model.

    Functional    _operations: all its operations in order, the input among them
    Sequential    _functional, which has _operations: the input, then its layers
    layer         its variables and parts by attribute; some kernels behind an underscore

Releases differ in the underscore, and restoring looks up either name, so both lead to the variable, with
Keras 3.15's name first. Lists without values, which Keras 2 has, are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .layers import WEIGHTS
from .model import Edge, Unit, Variable

if TYPE_CHECKING:
    from collections.abc import Iterator


_PRIVATE = frozenset(("kernel", "embeddings"))
_PUBLIC = ("Cell", "DepthwiseConv1D", "DepthwiseConv2D")
"""The ends of the classes that keep their kernel under its own name."""


def as_in_keras_3(unit: Unit) -> Unit:
    """Return the same model, its edges those of Keras 3; variables are the same objects."""
    return _Objects().made(unit)


class _Objects:
    def __init__(self) -> None:
        self._made: dict[int, Unit] = {}

    def made(self, unit: Unit) -> Unit:
        found = self._made.get(id(unit))
        if found is None:
            found = self._made[id(unit)] = Unit(unit.name, unit.class_name)
            found.edges = [*self._layers(unit), *self._attributes(unit)]
        return found

    def _layers(self, unit: Unit) -> Iterator[Edge]:
        if not unit.is_model:
            return
        is_sequential = unit.class_name == "Sequential"
        numbered = enumerate(unit.layers, 1 if is_sequential else 0)
        listed = Unit(edges=[Edge(str(number), self.made(layer)) for number, layer in numbered])
        operations = Edge("_operations", listed)
        yield Edge("_functional", Unit(edges=[operations])) if is_sequential else operations

    def _attributes(self, unit: Unit) -> Iterator[Edge]:
        for edge in unit.edges:
            if isinstance(edge.target, Variable):
                for name in _names(unit, edge.target.name):
                    yield Edge(name, edge.target)
            elif edge.target.has_weights():
                for name in dict.fromkeys((edge.name, edge.attribute or edge.name)):
                    yield Edge(name, self.made(edge.target))


def _names(unit: Unit, name: str) -> list[str]:
    """Return the names under which Keras 3 may hold a variable, the most likely first."""
    row = WEIGHTS.get(name)
    public = (row and row.in_keras_3) or name
    names = [f"_{public}", public] if public in _PRIVATE else [public]
    return names[::-1] if unit.class_name.endswith(_PUBLIC) else names
