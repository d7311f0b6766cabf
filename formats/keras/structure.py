"""The tree of a model's objects in any layout of Keras: their names, their order, and their variables.

    layout           children by name    members in order            variables
    tf-object        edges               lists, layers of a model    edges, as they were set
    keras-weights    attributes          containers, by class        vars/0, vars/1, ..., trained ones first
    keras-h5         none                layers                      weights, trained ones first
    tf-object that Keras 3 exported      as keras-h5

Nothing here knows a class: `walk` pairs two trees that describe one program.
keras/src/saving/saving_lib.py (Keras 2.15, 3.15), tensorflow/python/checkpoint/graph_view.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..model.object_graph import ROOT, optimizer_nodes
from ..model.object_keys import VARIABLE_VALUE
from ..model.reader import Family
from .exported import exported_layers
from .facts import TOP_LEVEL, keras_facts, variables_by_group
from .layers import is_seed
from .optimizers import KERAS3
from .training_state import training_states

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..model.reader import FormatReader


_COUNTED = re.compile(r"(?P<base>.+)_(?P<number>[0-9]{1,9})", re.DOTALL)
_LAYER_EDGE = re.compile(r"layer(_with_weights)?-(?P<number>[0-9]{1,9})")
_DEEPEST = 64
_MOST_MODELS = 64
"""Objects at the root that are tried as the model."""


class StructureError(ValueError):
    """Two trees that cannot be paired; `is_ambiguous` if more than one way fits."""

    def __init__(self, message: str, *, is_ambiguous: bool = False) -> None:
        super().__init__(message)
        self.is_ambiguous = is_ambiguous


@dataclass(slots=True, eq=False)
class StoredVariable:
    """A variable: its key, its shape, its owner's name for it if the layout has it, and its full name.

    `place` is its position among the variables that an optimizer trains; None if it is not among them.
    """

    key: str
    shape: tuple[int, ...]
    family: str
    name: str = ""
    full_name: str = ""
    place: int | None = None


@dataclass(slots=True, eq=False)
class StoredObject:
    """An object: its path for people, its own name, and what it holds."""

    path: str = ""
    name: str = ""
    leaves: list[StoredVariable] = field(default_factory=list)
    children: dict[str, StoredObject] = field(default_factory=dict)
    members: list[StoredObject] = field(default_factory=list)
    label: str = ""
    """The class of a member, as dataset paths spell it; nothing in other layouts."""

    is_list: bool = False
    """Whether its children are elements of a list, or layers of a model, in their order."""

    by_class: bool = False
    """Whether its children are members of a container, in order only among those of one class."""

    is_flat: bool = False
    """Whether its variables are all of the layer's, those of layers within it, too."""

    chain: tuple[str, ...] = ()
    """The names of the objects that lead to it and its own, if the layout has them."""

    def everything(self) -> Iterator[StoredVariable]:
        """Yield the variables of this and of what is below, each once: its own first."""
        seen: set[int] = set()
        waiting, given = [self], set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            for leaf in node.leaves:
                if leaf.key not in given:
                    given.add(leaf.key)
                    yield leaf
            waiting += reversed([*node.members, *node.children.values()])


@dataclass(slots=True, eq=False)
class ObjectTree:
    """A checkpoint's tree, and the trained variables that its optimizers show."""

    root: StoredObject
    models: list[StoredObject]
    """The objects that can be the model; the root is the last of them."""

    trained: tuple[str, ...] = ()
    """The keys of the trained variables in the model's order, if an optimizer lists them so."""

    strays: Mapping[str, StoredVariable] = field(default_factory=dict)
    """Variables that no edge of the model leads to, by the name that their slots begin with."""

    is_of_program: bool = False
    """Whether names are the attributes of the program, as in an object graph."""

    leaves: Mapping[str, StoredVariable] = field(default_factory=dict)


Pairs = list[tuple[StoredVariable, StoredVariable]]
"""Variables of two trees that are one."""


def kind_of(leaf: StoredVariable) -> tuple[object, ...]:
    """Return the shape and the dtype family, which paired variables must share."""
    return leaf.shape, leaf.family


def spell(node: StoredObject) -> str:
    """Return an object for people."""
    return f"layer {node.name or node.path!r}"


def tree_of(reader: FormatReader) -> ObjectTree | None:
    """Return the tree of a checkpoint's objects, or None for a layout without one."""
    if reader.object_graph is not None:
        exported = exported_layers(reader)
        return _of_layers(reader, exported) if exported else _GraphTree(reader).tree()
    if reader.format.family is not Family.KERAS:
        return None
    layers = [(layer.name, layer.names) for layer in keras_facts(reader.facts).layers]
    return _of_layers(reader, layers) if reader.format.names_layers else _of_paths(reader)


# Object graphs ----------------------------------------------------------------------------


class _GraphTree:
    def __init__(self, reader: FormatReader) -> None:
        graph = reader.object_graph
        assert graph is not None
        self._graph, self._reader = graph, reader
        kinds, specs = reader.kinds, reader.specs
        self._optimizers = optimizer_nodes(graph)
        self._trained, self._names = self._lists()
        places = {key: at for at, key in enumerate(self._trained)}
        self._leaves = {
            node: StoredVariable(
                key,
                specs[key].shape,
                specs[key].dtype.family,
                full_name=reader.full_names.get(key, ""),
                place=places.get(key),
            )
            for key, (node, name, _) in graph.tensors(specs).items()
            if name == VARIABLE_VALUE and kinds.get(key) == "variable"
        }
        self._holding = self._above_variables()
        self._nodes: dict[int, StoredObject] = {}

    def _lists(self) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return the trained variables in their order, and by variable the name that its slots begin with."""
        reader = self._reader
        assert reader.object_graph is not None
        states = training_states(reader.object_graph, reader.specs, reader.full_names)
        if len(states) != 1:
            return (), {}
        state, names = states[0], {}
        for (variable, slot), key in state.slots.items():
            called = reader.full_names.get(key, "").rpartition("/")[2]
            suffix = f"_{state.slot_name(slot)}"
            if state.generation == KERAS3 and called.endswith(suffix):
                names[variable] = called.removesuffix(suffix)
        return state.trained, names

    def _above_variables(self) -> set[int]:
        parents: dict[int, list[int]] = {}
        for number in range(len(self._graph.nodes)):
            if number not in self._optimizers:
                for _, child in self._graph.children(number):
                    parents.setdefault(child, []).append(number)
        found: set[int] = set()
        waiting = [*self._leaves]
        while waiting:
            above = [parent for parent in parents.get(waiting.pop(), ()) if parent not in found]
            found.update(above)
            waiting += above
        return found

    def tree(self) -> ObjectTree:
        reached = self._graph.reachable(without=self._optimizers)
        root = self._node(ROOT)
        near = [child for _, child in self._graph.children(ROOT) if self._leads_on(child)]
        models = [self._node(number) for number in dict.fromkeys((*near[:_MOST_MODELS], ROOT))]
        strays = {
            self._names[leaf.key]: leaf
            for node, leaf in self._leaves.items()
            if node not in reached and leaf.key in self._names
        }
        return ObjectTree(
            root,
            models,
            self._trained,
            strays,
            is_of_program=True,
            leaves={leaf.key: leaf for leaf in self._leaves.values()},
        )

    def _node(self, number: int) -> StoredObject:
        """Return a node with all below it, made once: objects may be shared, or lead back."""
        waiting = [number]
        while waiting:
            at = waiting.pop()
            if at in self._nodes:
                continue
            self._nodes[at] = StoredObject(self._graph.paths.get(at, ""))
            waiting += [child for _, child in self._graph.children(at) if self._leads_on(child)]
        for at in [one for one in self._nodes if not self._is_filled(one)]:
            self._fill(at)
        return self._nodes[number]

    def _is_filled(self, number: int) -> bool:
        node = self._nodes[number]
        return bool(node.leaves or node.children or node.members)

    def _leads_on(self, number: int) -> bool:
        return number in self._holding and number not in self._optimizers and number not in self._leaves

    def _fill(self, number: int) -> None:
        node, edges = self._nodes[number], dict(self._graph.children(number))
        node.name = self._name_of(edges)
        held: dict[str, StoredVariable] = {}
        for name, child in edges.items():
            leaf = self._leaves.get(child)
            if leaf is not None and leaf.key not in held:
                held[leaf.key] = leaf
                leaf.name = leaf.name or name.lstrip("_")
            elif self._leads_on(child) and child != number:
                node.children[name] = self._nodes[child]
        node.leaves = list(held.values())
        node.is_list = bool(edges) and all(name.isdigit() for name in edges)
        node.members = self._layers(edges)
        inner = {id(member) for member in node.members}
        for name in [
            name for name, child in node.children.items() if id(child) in inner or name in _OF_KERAS
        ]:
            if node.members:
                del node.children[name]

    def _layers(self, edges: Mapping[str, int]) -> list[StoredObject]:
        """Return the layers of a Sequential or Functional model that have variables, in their order."""
        if "_functional" in edges:
            edges = dict(self._graph.children(edges["_functional"]))
        if "_operations" in edges:
            listed = dict(self._graph.children(edges["_operations"]))
            numbers = {int(name): child for name, child in listed.items() if name.isdigit()}
        else:
            numbered = [(_LAYER_EDGE.fullmatch(name), child) for name, child in edges.items()]
            weighted = [one for one in numbered if one[0] is not None and one[0][1]] or numbered
            numbers = {int(found["number"]): child for found, child in weighted if found is not None}
        nodes = [numbers[number] for number in sorted(numbers)]
        return [
            self._nodes[node] for node in dict.fromkeys(nodes) if node in self._nodes and self._leads_on(node)
        ]

    def _name_of(self, edges: Mapping[str, int]) -> str:
        """Return an object's own name, as the full names of its variables have it before the last part."""
        names = {
            self._leaves[child].full_name.rpartition("/")[0].rpartition("/")[2]
            for child in edges.values()
            if child in self._leaves
        }
        return names.pop() if len(names) == 1 else ""


_OF_KERAS = frozenset(("_functional", "_operations"))
"""Edges of a model of Keras 3 to its layers."""


# Dataset paths ----------------------------------------------------------------------------


def _of_paths(reader: FormatReader) -> ObjectTree:
    facts, specs, kinds = keras_facts(reader.facts), reader.specs, reader.kinds
    root = StoredObject()
    wanted = [key for key in specs if kinds.get(key) == "variable" and not is_seed(specs[key])]
    objects = {group.removesuffix("vars").rstrip("/") for group in facts.groups}
    nodes = {"": root}

    def at(path: str) -> StoredObject:
        if path not in nodes:
            above, _, name = path.rpartition("/")
            nodes[path] = StoredObject(path, facts.object_names.get(f"{path}/vars", ""))
            at(above).children[name] = nodes[path]
        return nodes[path]

    leaves: dict[str, StoredVariable] = {}
    for group, keys in variables_by_group(wanted).items():
        path, _, last = group.rpartition("/")
        if last != "vars" or path.count("/") > _DEEPEST:
            continue
        held = [StoredVariable(key, specs[key].shape, specs[key].dtype.family) for key in keys]
        at(path).leaves = held
        leaves |= {leaf.key: leaf for leaf in held}
    root.name = facts.object_names.get("vars", "")
    for path, node in nodes.items():
        above = [path[:at] for at, sign in enumerate(path) if sign == "/"]
        named = (nodes[one].name for one in ("", *above, path) if one in nodes)
        node.chain = tuple(name for name in named if name)
        node.by_class = path not in objects and not node.leaves and path != ""
        _label(node)
    return ObjectTree(root, [root], leaves=leaves)


def _label(node: StoredObject) -> None:
    """Set the class of each child that is a member of a container, and sort them."""
    counted_names = {name: _COUNTED.fullmatch(name) for name in node.children}
    counted = {
        name: (found["base"], int(found["number"]))
        if (found := counted_names[name]) is not None and found["base"] in node.children
        else (name, 0)
        for name in node.children
    }
    for name, child in node.children.items():
        child.label = counted[name][0]
    node.children = {name: node.children[name] for name in sorted(node.children, key=counted.__getitem__)}


# Layers by name ---------------------------------------------------------------------------


def _of_layers(reader: FormatReader, layers: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> ObjectTree:
    """Return the tree of layers with (key, full name) of their weights."""
    specs, root = reader.specs, StoredObject(is_list=True)
    leaves: dict[str, StoredVariable] = {}
    for layer, weights in layers:
        node = root if layer == TOP_LEVEL else StoredObject(layer, layer, is_flat=True)
        for key, name in weights:
            spec = specs[key]
            leaf = StoredVariable(key, spec.shape, spec.dtype.family, name.rpartition("/")[2], name)
            node.leaves.append(leaf)
            leaves[key] = leaf
        if node.leaves and node is not root:
            root.members.append(node)
    return ObjectTree(root, [root], leaves=leaves)
