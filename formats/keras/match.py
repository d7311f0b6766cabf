"""Finding a model's variables in a checkpoint: `fill` gives each variable of a Unit its key.

keras-h5 has an order, keras-weights has paths of objects, an object graph has edges, and everything else has
names. Variables are counted, and their shapes are compared with the configuration, so that a checkpoint of
another model is rejected.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ..core.words import counted
from .config import LayerWeights, check_in_order
from .exported import fill_from_lists
from .facts import TOP_LEVEL, keras_facts, variables_by_group
from .layers import edge_spellings
from .model import Edge, ModelError, Unit, Variable, legacy_order
from .variable_layout import objects_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..model.object_graph import ObjectGraph
    from ..model.reader import FormatReader


UNNAMED = "Variable"
"""The full name that TensorFlow gives a variable without a name, and each copy in an asynchronous save."""


def fill(model: Unit, source: FormatReader) -> None:
    """Give every variable of the model its key in `source`; ModelError if they do not fit."""
    _FILLERS.get(source.format.name, _fill_by_names)(model, source)
    _check_shapes(model, source)


def knows(source: FormatReader) -> bool:
    """Whether a checkpoint identifies its variables by more than names."""
    return source.format.name in _FILLERS


def _check_shapes(unit: Unit, source: FormatReader) -> None:
    for child in (unit, *unit.children()):
        if child is not unit:
            _check_shapes(child, source)
            continue
        keys = [variable.key for variable in unit.variables() if variable.key is not None]
        if unit.layer is None or not keys or not unit.known:
            continue
        stored = [LayerWeights(key, key, source.specs[key].shape) for key in keys]
        for finding in check_in_order(unit.layer, stored, source.location.path):
            raise ModelError(f"{finding.key}: {finding.message}" if finding.key else finding.message)


def _take(unit: Unit, name: str, stored: Sequence[tuple[str, str]]) -> None:
    """Give a unit's variables what is stored, in the order in which keras-h5 has them."""
    if not unit.known and not unit.has_weights():
        unit.edges += [Edge(at, Variable(at, key=key)) for at, key in _own_names(stored)]
    variables = legacy_order(unit)
    if len(variables) != len(stored):
        found = counted(len(stored), "weight")
        message = f"layer {name!r} has {found}, but its configuration requires {len(variables)}"
        raise ModelError(message)
    for variable, (key, full_name) in zip(variables, stored, strict=True):
        variable.key, variable.full_name = key, full_name


def _own_names(stored: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield a name for each weight of an unknown layer: the last component, or its number."""
    names = [full_name.rpartition("/")[2] for _, full_name in stored]
    unique = len(set(names)) == len(names)
    for number, ((key, _), name) in enumerate(zip(stored, names, strict=True)):
        yield (name if unique else str(number)), key


# keras-h5 -------------------------------------------------------------------------------


def stored_layers(source: FormatReader) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the layers of a keras-h5 file in order, each with (key, full name) of its weights."""
    return [(layer.name, layer.names) for layer in keras_facts(source.facts).layers]


def _fill_from_h5(model: Unit, source: FormatReader) -> None:
    stored = [(name, weights) for name, weights in stored_layers(source) if weights]
    if any(name == TOP_LEVEL for name, _ in stored):
        raise ModelError("the model has weights of its own that its configuration does not list")
    by_name = {unit.name: unit for unit in model.layers}
    if all(name in by_name for name, _ in stored):
        units = [by_name[name] for name, _ in stored]
    else:
        # Keras loads by order and ignores the names.
        units = [unit for unit in model.layers if unit.has_weights()]
        if len(units) != len(stored):
            message = f"{len(stored)} layers have weights, but the configuration requires {len(units)}"
            raise ModelError(message)
    for unit, (name, weights) in zip(units, stored, strict=True):
        _take(unit, name, weights)


# keras-weights ----------------------------------------------------------------------------


def _fill_from_weights(model: Unit, source: FormatReader) -> None:
    for group, unit, keys in stored_objects(model, source):
        if not unit.known and not unit.edges:
            unit.edges += [
                Edge(str(number), Variable(str(number), key=key)) for number, key in enumerate(keys)
            ]
        variables = unit.variables()
        if len(variables) != len(keys):
            name = "the model" if unit is model else f"layer {unit.name!r}"
            found = counted(len(keys), "weight")
            message = f"{name} has {found} in {group}, but its configuration requires {len(variables)}"
            raise ModelError(message)
        for variable, key in zip(variables, keys, strict=True):
            variable.key = key


def stored_objects(model: Unit, source: FormatReader) -> Iterator[tuple[str, Unit, list[str]]]:
    """Yield path, object and keys of the variables of everything in keras-weights that may have some."""
    stored = variables_by_group(source.specs)
    names = keras_facts(source.facts).object_names
    for group, unit in objects_in(model, names=names, held=stored):
        yield group, unit, stored.get(group, [])


# tf-object --------------------------------------------------------------------------------


class _VariableNodes:
    """An object graph, and the key of each node that is a variable."""

    def __init__(self, graph: ObjectGraph, source: FormatReader) -> None:
        self.graph = graph
        self.full_names = source.full_names
        self.keys = {node: key for key, (node, _, _) in graph.tensors(source.specs).items()}

    def children(self, node: int) -> dict[str, int]:
        return dict(self.graph.children(node))

    def layers(self, node: int, model: Unit) -> list[tuple[Unit, int]]:
        """Return the layers of a model with their nodes, or an empty list if the node is not a model."""
        children = self.children(node)
        for prefix, units in (
            ("layer-", model.layers),
            ("layer_with_weights-", [unit for unit in model.layers if unit.has_weights()]),
        ):
            found = [children[f"{prefix}{n}"] for n in range(len(units)) if f"{prefix}{n}" in children]
            if units and len(found) == len(units) and f"{prefix}{len(units)}" not in children:
                return list(zip(units, found, strict=True))
        operations = self.children(children["_functional"]) if "_functional" in children else children
        if "_operations" in operations:
            listed = self.children(operations["_operations"])
            found = [listed[name] for name in sorted(listed, key=lambda name: (len(name), name))]
            if len(found) < len(model.layers):
                return []
            # A Sequential's input is one of its operations, and none of its layers.
            return list(zip(model.layers, found[len(found) - len(model.layers) :], strict=True))
        return []

    def is_model(self, node: int) -> bool:
        names = self.children(node)
        return any(
            name in names for name in ("layer-0", "layer_with_weights-0", "_functional", "_operations")
        )


def _fill_from_graph(model: Unit, source: FormatReader) -> None:
    if source.object_graph is None:
        raise ModelError("its object graph cannot be read")
    nodes = _VariableNodes(source.object_graph, source)
    root = next((node for node in nodes.graph.reachable() if nodes.is_model(node)), None)
    if root is None and fill_from_lists(model, source, source.object_graph):
        return
    if root is None:
        raise ModelError("the checkpoint's object graph contains no Sequential or Functional model")
    _fill_node(model, root, nodes, "the model")


def _fill_node(unit: Unit, node: int, nodes: _VariableNodes, name: str) -> None:
    children = nodes.children(node)
    _fill_variables(unit, children, nodes, name)
    for edge, part in unit.parts():
        at = children.get(edge.name, children.get(edge.attribute or ""))
        if at is not None:
            _fill_node(part, at, nodes, f"layer {unit.name!r}")
        elif part.has_weights():
            raise ModelError(f"layer {unit.name!r} has no {edge.name!r} in the object graph")
    for number, member in enumerate(unit.layers if unit.is_container else ()):
        if str(number) not in children:
            raise ModelError(f"{name} has no cell {number} in the object graph")
        _fill_node(member, children[str(number)], nodes, f"layer {member.name!r}")
    if unit.is_model:
        layers = nodes.layers(node, unit)
        if len(layers) != len(unit.layers) and len(layers) != sum(u.has_weights() for u in unit.layers):
            raise ModelError(f"the layers of {name} in the object graph differ from its configuration")
        for layer, at in layers:
            _fill_node(layer, at, nodes, f"layer {layer.name!r}")


def _fill_variables(unit: Unit, children: Mapping[str, int], nodes: _VariableNodes, name: str) -> None:
    held = {edge: nodes.keys[child] for edge, child in children.items() if child in nodes.keys}
    if not unit.known and not unit.edges:
        # Two edges may lead to one variable, as `mean` and `adapt_mean` of a Normalization do.
        once = {key: edge for edge, key in reversed(held.items())}
        unit.edges += [Edge(edge, Variable(edge.lstrip("_"))) for edge in held if once[held[edge]] == edge]
    variables = unit.variables()
    spellings = [edge_spellings(variable.name) for variable in variables]
    keys = [next((held[edge] for edge in edges if edge in held), None) for edges in spellings]
    if None in keys and len(held) == len(variables):
        keys = list(held.values())
    for variable, key in zip(variables, keys, strict=True):
        if key is None:
            raise ModelError(f"{name} has no {variable.name!r} in the object graph")
        name = nodes.full_names.get(key, "")
        variable.key, variable.full_name = key, "" if name == UNNAMED else name


# Names ------------------------------------------------------------------------------------


def _fill_by_names(model: Unit, source: FormatReader) -> None:
    """Take keys for full names, as Keras 2 makes them: `<layer>/<weight>`."""
    for unit in model.layers:
        _fill_names(unit, unit.name if not unit.is_model else "", source)


def _fill_names(unit: Unit, prefix: str, source: FormatReader) -> None:
    above = f"{prefix}/" if prefix else ""
    if not unit.known and not unit.edges:
        below = [key for key in source.specs if key.startswith(above) and "/" not in key[len(above) :]]
        unit.edges += [Edge(key[len(above) :], Variable(key[len(above) :])) for key in below]
    for variable in unit.variables():
        key = f"{above}{variable.name}"
        if key not in source.specs:
            raise ModelError(f"layer {unit.name!r} needs {key!r}, which is missing")
        variable.key = variable.full_name = key
    for child in unit.children():
        nested = prefix if child.is_model or child.is_container else f"{above}{child.name}"
        _fill_names(child, nested, source)


_FILLERS: dict[str, Callable[[Unit, FormatReader], None]] = {
    "keras-h5": _fill_from_h5,
    "keras-weights": _fill_from_weights,
    "keras": _fill_from_weights,
    "tf-object": _fill_from_graph,
}


# Another checkpoint -----------------------------------------------------------------------


def pairs_within_layers(
    h5: FormatReader, objects: FormatReader, paired: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield (key in `h5`, key in `objects`) of weights that their layer and full name tell apart.

    A layer of keras-h5 is one object. So if some of its weights are paired, all of it is at or below one path
    of the object graph. A full name that occurs twice in the model may be unique there: each of two blocks
    has a variable named `scale`. `paired` maps keys of `h5` that are already paired to keys of `objects`.
    """
    taken = set(paired.values())
    paths = objects.object_paths
    for layer in keras_facts(h5.facts).layers:
        held = [paths[paired[key]] for key in layer.keys if key in paired]
        if not held:
            continue
        above = _common([path.split("/")[:-1] for path in held])
        for key in layer.keys:
            if key in paired:
                continue
            name = h5.full_names[key]
            below = [
                other
                for other, full_name in objects.full_names.items()
                if full_name == name and other not in taken and _is_below(paths.get(other, ""), above)
            ]
            same = [other for other in layer.keys if h5.full_names[other] == name]
            if len(below) == len(same) == 1:
                yield key, below[0]


def _common(paths: Sequence[Sequence[str]]) -> str:
    """Return the path that all of these begin with."""
    shared = itertools.takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return "/".join(names[0] for names in shared)


def _is_below(path: str, above: str) -> bool:
    return not above or path.startswith(f"{above}/")
