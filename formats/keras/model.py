"""A Keras model as objects with variables, from which every layout of its weights follows.

    layout           where a variable is                            whence its place
    keras-h5         <layer>, and its place among its weights       layer names, order
    keras-weights    <object>/.../vars/<N>                          class names, attributes
    tf-object        edges from the root                            numbers of layers, attributes

A model is a `Unit` with layers, a layer a `Unit` whose edges lead to its variables and to
units within it, in the order in which Keras has them.  It is made from a configuration,
whose classes `layers` knows, or from the names that an HDF5 file gives to its weights; a
program that runs presents its own models so.  Layers of other classes take their variables'
names from where they are stored.
keras/src/engine/base_layer.py, keras/src/saving/saving_lib.py (Keras 2.15, 3.15)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .config import Layer, layer_of, model_of, snake_case
from .layers import LAYERS, NORMALIZING, PARTS, WEIGHTS, WRAPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .layers import LayerRow, PartRow, WrapRow


class ModelError(ValueError):
    """A configuration or names from which no model can be made."""


@dataclass(slots=True)
class Variable:
    """A variable: its name at its owner, its full name, and the key of its values in the source.

    `value` is what it holds where no tensor does but a configuration says so, in each element
    of a tensor as the one at the key `like`, or as a scalar.
    """

    name: str
    trainable: bool = True
    full_name: str = ""
    key: str | None = None
    value: float | None = None
    like: str | None = None
    path: str = ""
    """Its object path, if only a graph describes it."""

    live: Any = None
    """The variable of a running program that this presents."""

    @property
    def is_given(self) -> bool:
        """Whether there is something to be written for it."""
        return self.key is not None or self.value is not None


class Edge(NamedTuple):
    """A named part of an object: `attribute` is Keras 3's name, or None if Keras 3 does not save it."""

    name: str
    target: Variable | Unit
    attribute: str | None = None


@dataclass(slots=True)
class Unit:
    """An object of a model. `known` says whether its edges are complete, even if nothing is stored for it."""

    name: str = ""
    class_name: str = ""
    edges: list[Edge] = field(default_factory=list)
    layers: list[Unit] = field(default_factory=list)
    is_model: bool = False
    trainable: bool = True
    known: bool = True
    layer: Layer | None = None
    """The layer whose shapes its variables must have."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """What its configuration says of it."""

    numbered: bool = True
    """Whether the places of a model's layers without weights are known, too."""

    is_container: bool = False
    """Whether it is a list of layers, which has no variables of its own."""

    live: Any = None
    """The object of a running program that this presents."""

    def variables(self) -> list[Variable]:
        """Return its own variables, in the order of their creation."""
        held = (edge.target for edge in self.edges if isinstance(edge.target, Variable))
        return list({id(variable): variable for variable in held}.values())

    def parts(self) -> Iterator[tuple[Edge, Unit]]:
        """Yield the objects within it that Keras saves, layers aside."""
        for edge in self.edges:
            if isinstance(edge.target, Unit) and edge.attribute is not None:
                yield edge, edge.target

    def children(self) -> Iterator[Unit]:
        yield from (part for _, part in self.parts())
        yield from self.layers

    def all_variables(self) -> Iterator[Variable]:
        """Yield the variables of this and of everything below."""
        yield from self.variables()
        for child in self.children():
            yield from child.all_variables()

    @property
    def is_known(self) -> bool:
        """Whether this unit and those below it are completely known, even if nothing is stored for them.

        A list of layers is not: Keras 3 tracks the cells of StackedRNNCells in no object.
        """
        return self.known and not self.is_container and all(child.is_known for child in self.children())

    def has_weights(self) -> bool:
        return any(True for _ in self.all_variables())


def legacy_order(unit: Unit) -> list[Variable]:
    """Return all variables of a layer in the order of keras-h5: what is trained, then what is not."""
    return [variable for half in _halves(unit) for variable in half]


def trained_order(unit: Unit) -> list[Variable]:
    """Return the variables that training changes, in the order of Keras' `trainable_variables`."""
    return _halves(unit)[0]


def _halves(unit: Unit) -> tuple[list[Variable], list[Variable]]:
    own = unit.variables()
    trained = [variable for variable in own if variable.trainable]
    rest = [variable for variable in own if not variable.trainable]
    inner = [_halves(child) for child in unit.children()]
    if not unit.trainable:
        return [], [*trained, *rest, *(variable for halves in inner for half in halves for variable in half)]
    return (
        [*trained, *(variable for halves in inner for variable in halves[0])],
        [*rest, *(variable for halves in inner for variable in halves[1])],
    )


# From a configuration -------------------------------------------------------------------

_MOST_WRAPPERS = 16


def _empty(*names: str) -> list[Edge]:
    return [Edge(name, Unit()) for name in names]


def _weights(row: LayerRow, layer: Layer) -> list[Edge]:
    """Return a class' edges to its weights, and to lists before them; KeyError where untold."""
    edges = _empty(*row.lists)
    for weight, _ in row.weights_of(layer.config.get):
        variable = Variable(weight.name, weight.trainable)
        edges += [Edge(name, variable) for name in weight.edges]
    return edges


def _cell(row: LayerRow, layer: Layer) -> Edge:
    cell = Unit(snake_case(row.cell), row.cell, _weights(LAYERS[row.cell], layer), layer=layer)
    cell.trainable = layer.config.get("trainable", True)
    return Edge("cell", cell, "cell")


def _part(part: PartRow, layer: Layer) -> Edge:
    row = LAYERS.get(part.class_name)
    edges = _weights(row, layer) if row is not None else []
    return Edge(part.edge, Unit(part.name, part.class_name, edges), part.attribute)


def _wrapped(wrap: WrapRow, layer: Layer, depth: int) -> Edge:
    config = layer.config.get(wrap.edge) or layer.config.get("layer")
    if depth >= _MOST_WRAPPERS:
        raise ModelError(f"layers are wrapped more than {_MOST_WRAPPERS} deep")
    if isinstance(config, list):
        return Edge(wrap.edge, _container(config, depth), wrap.edge)
    if not isinstance(config, dict):
        raise ModelError("a wrapper contains no layer")
    unit = _unit(layer_of(config), depth + 1)
    if not unit.name.startswith(wrap.prefix):
        unit.name = f"{wrap.prefix}{unit.name}"
    return Edge(wrap.edge, unit, wrap.edge)


def _container(configs: Sequence[Any], depth: int) -> Unit:
    """Return a list of layers: objects number them, dataset paths call them after their classes."""
    if not all(isinstance(config, dict) for config in configs):
        raise ModelError("a wrapper contains something that is not a layer")
    layers = [_unit(layer_of(config), depth + 1) for config in configs]
    edges = [Edge(str(number), layer) for number, layer in enumerate(layers)]
    return Unit(edges=edges, layers=layers, is_container=True)


def from_config(text: str) -> Unit:
    """Return the model of a configuration. Raises ModelError if it describes no layers."""
    try:
        model = model_of(text)
    except ValueError as error:
        raise ModelError(str(error)) from error
    if not model.is_model:
        called = model.class_name.rpartition(">")[2]
        raise ModelError(
            f"{called!r} is not a Sequential or Functional model: its configuration has no layers"
        )
    return _unit(model)


def _unit(layer: Layer, depth: int = 0) -> Unit:
    unit = Unit(layer.name, layer.class_name, layer=layer, config=layer.config)
    unit.trainable = bool(layer.config.get("trainable", True))
    if layer.is_model:
        # A Sequential's input is a layer of its configuration only.
        skipped = ("InputLayer",) if layer.class_name == "Sequential" else ()
        unit.layers = [_unit(inner, depth) for inner in layer.layers if inner.class_name not in skipped]
        unit.is_model, unit.layer = True, None
    elif layer.class_name in LAYERS:
        _furnish(unit, LAYERS[layer.class_name], layer, depth)
    else:
        unit.known = False
    return unit


def _furnish(unit: Unit, row: LayerRow, layer: Layer, depth: int) -> None:
    """Give a unit what its class has: weights, or a cell, parts or wrapped layers that have them."""
    try:
        unit.edges = [*_weights(row, layer), *(_part(part, layer) for part in row.parts)]
        unit.edges += [_cell(row, layer)] if row.cell else []
    except KeyError as error:
        if row.cell:
            message = f"layer {layer.name!r}: its configuration does not say what weights it has"
            raise ModelError(message) from error
        unit.known = False
    unit.edges += [_wrapped(wrap, layer, depth) for wrap in row.wraps]
    unit.edges += _empty(*row.lists_after)
    if row.cell or row.parts or row.wraps:
        unit.layer = None


# From names -----------------------------------------------------------------------------


def from_names(layers: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> Unit:
    """Return a model of layers in order, each with (key, full name) of its weights.

    That serves for TensorFlow's graph, in which a layer is its number.  Of a layer's
    names the first component is its own; other ones are layers of a nested model.
    Raises ModelError for names that tell of no layer that Keras has.
    """
    model = Unit("", "Functional", is_model=True)
    for name, weights in layers:
        groups: dict[str, list[tuple[str, list[str]]]] = {}
        for key, full_name in weights:
            components = full_name.split("/")
            # Keras 3 puts a Sequential's name before its layers'.
            if components[0] != name and components[1:2] == [name]:
                components = components[1:]
            groups.setdefault(components[0], []).append((key, components[1:]))
        if set(groups) <= {name}:
            model.layers.append(_named_layer(name, groups.get(name, [])))
        else:
            inner = [_named_layer(at, found) for at, found in groups.items()]
            model.layers.append(Unit(name, "Functional", layers=inner, is_model=True, numbered=False))
    return model


def _named_layer(name: str, weights: Sequence[tuple[str, list[str]]]) -> Unit:
    unit = Unit(name)
    for key, components in weights:
        owner = unit
        for component in components[:-1]:
            edge, attribute = _edge_of(component, name)
            found = next((target for at, target, _ in owner.edges if at == edge), None)
            if found is None:
                found = Unit(component)
                owner.edges.append(Edge(edge, found, attribute))
            if not isinstance(found, Unit):
                raise ModelError(f"layer {name!r} has a weight {edge!r} and other weights below it")
            owner = found
        if not components:
            raise ModelError(f"weight {key!r} does not show which layer it belongs to")
        variable = components[-1]
        if any(edge.name == variable for edge in owner.edges):
            raise ModelError(f"layer {name!r} has two weights named {variable!r}")
        if variable in NORMALIZING and not owner.edges:
            owner.edges += _empty("axis")
        trainable = variable not in WEIGHTS or WEIGHTS[variable].trainable
        owner.edges += [Edge(variable, Variable(variable, trainable, key=key))]
    return unit


def _edge_of(component: str, layer: str) -> tuple[str, str]:
    """Return the edge, and Keras 3's attribute, behind a component of a weight's name."""
    if component in PARTS:
        return PARTS[component].edge, PARTS[component].attribute
    for wrap in WRAPS:
        if component.startswith(wrap.prefix):
            return wrap.edge, wrap.edge
    # Keras numbers cells of one class: lstm_cell, lstm_cell_1.
    if component.rstrip("0123456789").removesuffix("_").endswith("_cell") or component == "cell":
        return "cell", "cell"
    raise ModelError(
        f"layer {layer!r} has weights below {component!r}, but the class of {component!r} is unknown"
    )
