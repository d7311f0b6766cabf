"""Where the variables of a model go in each layout of Keras.

    keras-h5         a group for each layer, its weights by their full names
    keras-weights    <object>/.../vars/<N>, layers counted by class
    tf-object        the object graph that Keras 2 writes: `save_weights` of a Sequential or Functional model
        model            for each layer layer_with_weights-K, of those with weights, and layer-N, of all
        layer            its variables and parts by attribute
        root             `optimizer`, where there is one, and `root`, which leads back to it

Nodes of a graph are numbered breadth-first, and the first way to a variable is its key, so
keys read `layer_with_weights-0/kernel`.  tensorflow/python/checkpoint/graph_view.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ..model.object_graph import ObjectGraph
from ..model.object_keys import ATTRIBUTES, OPTIMIZER_SLOT, VARIABLE_VALUE, escape
from ..wire.messages import (
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)
from .config import Layer, snake_case
from .facts import Weight, WeightGroup, weight_keys
from .layers import class_in_paths
from .model import Edge, Unit, Variable, legacy_order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


T = TypeVar("T", Unit, Layer)
Spelling = Callable[[str], str]

Placed = tuple[Variable, str]
"""A variable, and its key in the target."""


# tf-object -------------------------------------------------------------------------------

SlotOf = tuple[str, Variable, Variable]
"""A slot variable: the slot's name, the variable it belongs to, itself."""

OPTIMIZER = "optimizer"


def _edges(node: Unit | Variable) -> Iterator[tuple[str, Unit | Variable]]:
    """Yield a node's edges, except those to variables that are left out.  A list has its members as edges."""
    if isinstance(node, Variable):
        return
    number = 0
    for place, layer in enumerate(node.layers if not node.is_container else ()):
        if layer.has_weights():
            yield f"layer_with_weights-{number}", layer
            number += 1
        if node.numbered:
            yield f"layer-{place}", layer
    for name, target, _ in node.edges:
        if isinstance(target, Unit) or target.is_given:
            yield name, target


def graph_of(
    model: Unit, optimizer: Unit | None = None, slots: Sequence[SlotOf] = ()
) -> tuple[ObjectGraph, list[Placed]]:
    """Return the graph of a model, and the key of each variable that has values."""
    nodes: list[Unit | Variable] = [model]
    numbers = {id(model): 0}
    paths = [""]
    protos = [TrackableObject()]

    def add(node: Unit | Variable, path: str) -> int:
        numbers[id(node)] = len(nodes)
        nodes.append(node)
        paths.append(path)
        protos.append(TrackableObject())
        return numbers[id(node)]

    for number, node in enumerate(nodes):
        edges = list(_edges(node))
        if number == 0:
            edges += [(OPTIMIZER, optimizer)] if optimizer is not None else []
            edges.append(("root", model))
        for name, target in edges:
            child = numbers.get(id(target))
            if child is None:
                above = f"{paths[number]}/" if paths[number] else ""
                child = add(target, above + escape(name))
            protos[number].children.append(ObjectReference(node_id=child, local_name=name))
    for slot, variable, held in slots:
        assert optimizer is not None
        path = f"{paths[numbers[id(variable)]]}/{OPTIMIZER_SLOT}/{OPTIMIZER}/{escape(slot)}"
        reference = SlotVariableReference(
            original_variable_node_id=numbers[id(variable)],
            slot_name=slot,
            slot_variable_node_id=add(held, path),
        )
        protos[numbers[id(optimizer)]].slot_variables.append(reference)
    placed: list[Placed] = []
    for proto, node, path in zip(protos, nodes, paths, strict=True):
        if isinstance(node, Variable):
            key = f"{path}/{ATTRIBUTES}/{VARIABLE_VALUE}"
            attribute = SerializedTensor(name=VARIABLE_VALUE, full_name=node.full_name, checkpoint_key=key)
            proto.attributes.append(attribute)
            placed.append((node, key))
    graph = ObjectGraph(TrackableObjectGraph(nodes=protos))
    graph.mark_checkpoint_values()
    return graph, placed


# keras-h5 -------------------------------------------------------------------------------


def give_names(unit: Unit, prefix: str = "") -> None:
    """Give variables that have none their full names: `<layer>/<part>/<variable>`."""
    above = f"{prefix}/" if prefix else ""
    for variable in unit.variables():
        variable.full_name = variable.full_name or f"{above}{variable.name}"
    for child in unit.children():
        name = prefix if child.is_container else f"{above}{child.name}"
        give_names(child, "" if child.is_model else name)


def h5_layout(model: Unit, suffix: str) -> tuple[list[Placed], list[WeightGroup]]:
    """Return the key of each variable, and the layers with the names stored, which end in `suffix`."""
    variables: list[Variable] = []
    weights: list[Weight] = []
    for layer in model.layers:
        held = legacy_order(layer)
        _number_duplicates(held)
        variables += held
        names = [variable.full_name + suffix for variable in held]
        weights += [Weight(layer.name, name, f"{layer.name}/{name}") for name in names]
    keys = weight_keys(weights)
    groups: dict[str, list[tuple[str, str]]] = {layer.name: [] for layer in model.layers}
    for key, weight in zip(keys, weights, strict=True):
        groups[weight.layer].append((key, weight.name))
    layers = [WeightGroup(name, tuple(held)) for name, held in groups.items()]
    return list(zip(variables, keys, strict=True)), layers


def _number_duplicates(variables: list[Variable]) -> None:
    """Give numbers to names that come twice in a layer: each is a dataset's path there."""
    seen: dict[str, int] = {}
    for variable in variables:
        count = seen.get(variable.full_name, 0)
        seen[variable.full_name] = count + 1
        if count:
            variable.full_name = f"{variable.full_name}_{count}"


# keras-weights, keras -------------------------------------------------------------------


def weights_layout(
    model: Unit, spell: Spelling = snake_case, major: str = "3"
) -> tuple[list[Placed], dict[str, str]]:
    """Return the key of each variable, and the objects' names by the paths of their `vars`."""
    placed: list[Placed] = []
    names: dict[str, str] = {}
    for group, unit in objects_in(model, spell=spell, major=major):
        names[group] = unit.name
        placed += [(variable, f"{group}/{number}") for number, variable in enumerate(unit.variables())]
    return placed, names


def objects_in(
    unit: Unit,
    path: str = "",
    *,
    spell: Spelling = snake_case,
    names: Mapping[str, str] | None = None,
    held: Collection[str] = (),
    major: str = "3",
) -> Iterator[tuple[str, Unit]]:
    """Yield an object and all below it that may have variables, each with the path of its `vars`.

    Of a file that there is, `held` are those paths, and `names` the objects' names by them; of one to be
    written, `major` is the Keras that looks for them.
    """
    above = f"{path}/" if path else ""
    if not unit.is_container:
        yield f"{above}vars", unit
    below = [(part, _spelled(above, edge, held, major)) for edge, part in unit.parts()]
    container = path if unit.is_container else f"{above}layers"
    below += groups_of(unit.layers, container, names or {}, spell)
    for part, group in below:
        yield from objects_in(part, group, spell=spell, names=names, held=held, major=major)


def _spelled(above: str, edge: Edge, held: Collection[str], major: str) -> str:
    """Return the path of a part: Keras 3 goes by the attribute, or the property, Keras 2 by the edge."""
    spellings = [f"{above}{name}" for name in (edge.attribute, edge.name)]
    there = (at for at in spellings if any(group.startswith(f"{at}/") for group in held))
    return next(there, spellings[major == "2"])


def groups_of(
    layers: Sequence[T], container: str, names: Mapping[str, str], spell: Spelling = snake_case
) -> Iterator[tuple[T, str]]:
    """Yield each layer with the path of its group in a container: its class, and counted.

    `names` are those that Keras 3 gives to objects, by the path of their `vars`; without
    them groups are counted in the order of the configuration.  `spell` makes the name of a
    group of that of a class; Keras 2 and 3 do it a little differently.
    """
    above = f"{container}/" if container else ""
    named = {
        name: group.removesuffix("/vars")
        for group, name in names.items()
        if group.startswith(above) and group.count("/") == above.count("/") + 1
    }
    counts: dict[str, int] = {}
    for unit in layers:
        base = spell(class_in_paths(unit.class_name))
        count = counts.get(base, 0)
        counts[base] = count + 1
        yield unit, named.get(unit.name, f"{above}{base}_{count}" if count else f"{above}{base}")
