"""An object graph for tensors that only have names.

    dense/kernel          root -> dense -> kernel
    dense/kernel/Adam     slot `m` of the node `optimizer` for dense/kernel
    beta1_power           optimizer -> beta1_power
    training/Adam/iter    optimizer -> iter
    words-keys, -values   root -> words, a hash table

Each `/` of a name is an edge; a part that is empty becomes `_`, and of one that ends in
`.ATTRIBUTES`, below which TensorFlow restores nothing, the dot does.  Slots become slot
variables under the names that TensorFlow's optimizers give them, hyperparameters children
of their optimizer, so that a program with such an optimizer restores them.  The save
counter has its edge for itself, as programs restore it.  What would come to lie where
something lies gets `_1`.  The full name of each node is the old name: by it a conversion
back finds the way.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConversionError
from ...keras.training_state import COUNT, name_of_added_count
from ...model.name_kinds import KERAS_SLOTS, NUMBERED, TF1_SLOTS, NamedSlot, name_kinds, named_slots
from ...model.object_graph import ObjectGraph
from ...model.object_keys import (
    ATTRIBUTES,
    OPTIMIZER_SLOT,
    SAVE_COUNTER,
    TABLE,
    TABLE_SUFFIXES,
    VARIABLE_VALUE,
    escape,
    hides_attributes,
)
from ...wire.messages import (
    BoolValue,
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from ...core.spec import TensorSpec


_MOST_EDGES = 1000
"""Components of a name: each is a node whose key begins with all those above."""

_NAMELESS = "_"
"""The edge of an empty part of a name, as in `a//b` or `a/`: an edge needs a name."""

_HOLDS_VALUES = BoolValue(value=True)
"""What all nodes say, each of which holds a value or leads to one."""

_POWER = re.compile(r"(?P<scope>(?:.*/)?)(?P<name>beta[12]_power)(?:_(?P<number>[0-9]+))?", re.DOTALL)
_ADAFACTOR_SUFFIX = "_slot_"
_TABLE_KEYS = frozenset({"string", "int64", "int32"})
"""Dtypes of a hash table's keys: tensorflow/core/kernels/lookup_table_op.cc registers no other."""

# Names of slots that tell their optimizer themselves.
_OWN_NAMES = {"adam_m": ("AdamWeightDecay", "m"), "adam_v": ("AdamWeightDecay", "v")}


class Invented(NamedTuple):
    """A graph, the key of each name in it, and that of the save counter, which it has besides.

    `tables` are the names of which a hash table was made, each without `-keys` and `-values`.
    """

    graph: ObjectGraph
    keys: dict[str, str]
    save_counter: str
    tables: tuple[str, ...] = ()


_UNNUMBERED = -1
_NO_EDGES: dict[str, _GrowingNode] = {}
"""The edges of all nodes without any, most of which get none: it is never written to."""


class _Owner(NamedTuple):
    """What tells one optimizer of a name-based checkpoint from another.

    `scope` is what stands before a variable's name, `name` the optimizer's, where the
    slot's name has it, and `number` counts optimizers of one name on one variable.
    """

    scope: str
    name: str
    number: int = 0


_UNNAMED = _Owner("", "")
"""The owner of slots whose names say nothing of their optimizer."""


class _GrowingNode:
    """A node while the graph grows, `edge` leading to it from its parent.

    It holds a variable, of that full name, or a hash table, of that name, or nothing; `slots` are those
    of an optimizer: name, variable, and node of each.  A million names are some millions of nodes, so that
    the path, which is what a node's key begins with, is made when somebody asks for it.
    """

    __slots__ = ("_slot_names", "edge", "edges", "full_name", "number", "parent", "slots", "table")

    def __init__(self, parent: _GrowingNode | None = None, edge: str = "") -> None:
        self.parent = parent
        self.edge = edge
        self.edges: dict[str, _GrowingNode] = _NO_EDGES
        self.full_name: str | None = None
        self.number = _UNNUMBERED
        self.table: str | None = None
        self.slots: list[tuple[str, _GrowingNode, _GrowingNode]] | None = None
        self._slot_names: dict[_GrowingNode, set[str]] | None = None

    @property
    def path(self) -> str:
        edges = []
        node = self
        while node.parent is not None:
            edges.append(node.edge)
            node = node.parent
        return "/".join(map(escape, reversed(edges)))

    @property
    def key(self) -> str:
        return f"{self.path}/{ATTRIBUTES}/{VARIABLE_VALUE if self.table is None else TABLE}"

    def child(self, name: str) -> _GrowingNode:
        found = self.edges.get(name)
        if found is None:
            found = _GrowingNode(self, name)
            self.add_edge(name, found)
        return found

    def add_edge(self, name: str, child: _GrowingNode) -> None:
        if not self.edges:
            self.edges = {}
        self.edges[name] = child

    def new_child(self, name: str) -> _GrowingNode:
        return self.child(_free(name, self.edges))

    def add_slot(self, name: str, variable: _GrowingNode, full_name: str) -> None:
        if self.slots is None or self._slot_names is None:
            self.slots, self._slot_names = [], {}
        taken = self._slot_names.setdefault(variable, set())
        name = _free(_edge_name(name), taken)
        taken.add(name)
        node = _Slot(variable, self, name)
        node.full_name = full_name
        self.slots.append((name, variable, node))


class _Slot(_GrowingNode):
    """A slot variable, whose key begins with that of its variable."""

    __slots__ = ("optimizer",)

    def __init__(self, variable: _GrowingNode, optimizer: _GrowingNode, name: str) -> None:
        super().__init__(variable, name)
        self.optimizer = optimizer

    @property
    def path(self) -> str:
        assert self.parent is not None
        return f"{self.parent.path}/{OPTIMIZER_SLOT}/{self.optimizer.path}/{escape(self.edge)}"


def _free(name: str, taken: Container[str]) -> str:
    """Return `name`, or the first of `name_1`, `name_2`, ... that is not taken."""
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def invent_graph(specs: Mapping[str, TensorSpec]) -> Invented:
    """Return an object graph for the tensors of a name-based checkpoint."""
    slots = named_slots(specs)
    kinds = name_kinds(specs, slots)
    root = _GrowingNode()
    owners = {slot.variable for slot in slots.values()}
    hyperparameters = {key for key, kind in kinds.items() if kind == "optimizer"} - owners
    tables = _tables(specs)
    apart = {*slots, *hyperparameters, *(table + suffix for table in tables for suffix in TABLE_SUFFIXES)}
    for table in tables:
        _node_of(root, table).table = table
    variables = _hang(root, [key for key in specs if key not in apart])
    optimizers: dict[_Owner, _GrowingNode] = {}

    def optimizer(owner: _Owner) -> _GrowingNode:
        if owner not in optimizers:
            optimizers[owner] = root.new_child("optimizer")
        return optimizers[owner]

    for key, owner, name in _slots_by_owner(slots, specs):
        optimizer(owner).add_slot(name, variables[slots[key].variable], key)
    found = {key: _hyperparameter(key, list(optimizers)) for key in specs if key in hyperparameters}
    restored = _restored(optimizers, {owner for owner, _ in found.values()})
    for key, (owner, name) in found.items():
        optimizer(_UNNAMED if owner == restored else owner).new_child(name).full_name = key
    _share_iterations(optimizers, variables)
    counter = root.new_child(SAVE_COUNTER)
    counter.full_name = SAVE_COUNTER
    graph, keys = _numbered(root, counter)
    return Invented(graph, keys, counter.key, tuple(tables))


def _tables(specs: Mapping[str, TensorSpec]) -> list[str]:
    """Return the names under which two tensors are the keys and values of a hash table.

    A saver names them so: tensorflow/python/ops/lookup_ops.py.  Both have one row an entry.
    """
    of_keys, of_values = TABLE_SUFFIXES
    names = [name.removesuffix(of_keys) for name in specs if name.endswith(of_keys)]
    return [
        name
        for name in names
        if name not in specs
        and name + of_values in specs
        and specs[name + of_keys].dtype.name in _TABLE_KEYS
        and specs[name + of_keys].shape[:1] == specs[name + of_values].shape[:1] != ()
    ]


def add_count(graph: ObjectGraph, optimizer: str) -> str:
    """Give an optimizer at a path of an invented graph a count of its steps; return the key of that."""
    node = next(number for number, path in graph.paths.items() if path == optimizer)
    key = f"{escape(optimizer)}/{COUNT}/{ATTRIBUTES}/{VARIABLE_VALUE}"
    edge = ObjectReference(node_id=len(graph.nodes), local_name=COUNT)
    graph.nodes[node].children = [*graph.nodes[node].children, edge]
    # By this full name it is told from what a checkpoint of names had.
    name = name_of_added_count(f"{optimizer}/{COUNT}")
    attribute = SerializedTensor(name=VARIABLE_VALUE, full_name=name, checkpoint_key=key)
    graph.nodes.append(TrackableObject(attributes=[attribute], has_checkpoint_values=BoolValue(value=True)))
    del graph.paths
    return key


def _hang(root: _GrowingNode, names: Iterable[str]) -> dict[str, _GrowingNode]:
    """Return a new node for each name, hung up below the root by way of its parts."""
    variables = {}
    for name in names:
        variables[name] = node = _node_of(root, name)
        node.full_name = name
    _name_edges(root)
    return variables


def _node_of(root: _GrowingNode, name: str) -> _GrowingNode:
    """Return the node of a name, which lies below the root by way of its parts."""
    if name.count("/") > _MOST_EDGES:
        raise ConversionError(f"more than {_MOST_EDGES} edges lead to it", key=name[:100] + "…")
    node = root
    for part in name.split("/"):  # the same below every layer, and kept once
        node = node.child(sys.intern(part))
    return node


def _edge_name(part: str) -> str:
    """Return a part of a name as an edge or a slot is called; itself, nearly always."""
    if hides_attributes(part):
        return f"{part.removesuffix(ATTRIBUTES)}_{ATTRIBUTES[1:]}"
    return part or _NAMELESS


def _name_edges(root: _GrowingNode) -> None:
    """Give the parts of names that cannot be edges others, and all nodes their paths."""
    waiting = [root]
    for node in waiting:
        for part in list(node.edges):
            edge = _edge_name(part)
            if edge != part or (node is root and part == SAVE_COUNTER):
                edge = _free(edge, {*node.edges, SAVE_COUNTER})
                node.edges = {edge if name == part else name: child for name, child in node.edges.items()}
        for edge, child in node.edges.items():
            child.edge = edge
            waiting.append(child)


# Which slot of which optimizer ----------------------------------------------------


def _slots_by_owner(
    slots: Mapping[str, NamedSlot], specs: Mapping[str, TensorSpec]
) -> list[tuple[str, _Owner, str]]:
    """Return (key, optimizer, slot name) of all slots.

    A number behind an optimizer's name counts its slots on one variable, and goes on
    counting where a second optimizer of that name has slots on it, too.
    """
    found = []
    together: dict[tuple[str, str, str], list[str]] = {}
    for key, slot in slots.items():
        last = slot.suffix.rpartition("/")[2]
        numbered = NUMBERED.fullmatch(last)
        assert numbered is not None  # a slot's name is not empty
        if slot.suffix.startswith(_ADAFACTOR_SUFFIX):
            found.append((key, _Owner("", "Adafactor"), slot.suffix.removeprefix(_ADAFACTOR_SUFFIX)))
        elif last in _OWN_NAMES:
            name, slot_name = _OWN_NAMES[last]
            found.append((key, _Owner(slot.prefix, name), slot_name))
        elif slot.prefix and last in KERAS_SLOTS:
            found.append((key, _Owner(slot.prefix, ""), last))
        else:
            # Of a slot with one key for each part (`t_0/Adagrad`), every part is counted by itself.
            where = (slot.prefix, numbered[1], slot.variable + slot.suffix.rpartition("/")[0])
            together.setdefault(where, []).append(key)
    for (scope, base, _), keys in together.items():
        ordered = sorted(keys, key=lambda key: (len(key), key))
        names = _tf1_names(scope, base, [specs[key] for key in ordered], specs)
        for at, key in enumerate(ordered):
            if names:
                owner = _Owner(scope, base, at // len(names))
                found.append((key, owner, names[at % len(names)]))
            else:
                found.append((key, _Owner(scope, ""), key.rpartition("/")[2]))
    return found


def _tf1_names(
    scope: str, base: str, members: list[TensorSpec], specs: Mapping[str, TensorSpec]
) -> tuple[str, ...]:
    """Return the slot names of an optimizer of tf.compat.v1.train, by its name and how many slots it has.

    Nothing where neither tells.
    """
    if base == "RMSProp" and len(members) == 3:
        return ("rms", "mg", "momentum")
    if base == "Adafactor":
        momentum = ("m",) if len({spec.rank for spec in members}) == 2 or len(members) == 3 else ()
        left = len(members) - len(momentum)
        return (*momentum, "v") if left == 1 else (*momentum, "vr", "vc")
    if base in TF1_SLOTS:
        return TF1_SLOTS[base]
    # An Adam of another name is told by its powers; they stand in its scope, or in none.
    powers = any(f"{prefix}beta1_power" in specs for prefix in (scope, ""))
    return ("m", "v") if powers and len(members) % 2 == 0 else ()


def _hyperparameter(key: str, owners: list[_Owner]) -> tuple[_Owner, str]:
    """Return the optimizer that a hyperparameter belongs to, and its name there."""
    power = _POWER.fullmatch(key)
    if power is None:
        prefix, _, name = key.rpartition("/")
        return _Owner(prefix + "/", ""), name
    number = int(power["number"] or 0)
    adams = [owner for owner in owners if owner.name not in ("", "AdamWeightDecay", "Adafactor")]
    named = [owner for owner in adams if owner.name == "Adam" or owner.name not in TF1_SLOTS]
    scoped = [owner for owner in named if owner.scope == power["scope"]] or named
    if number < len(scoped):
        return scoped[number], power["name"]
    where = scoped[0] if scoped else _Owner(power["scope"], "Adam")
    return where, key.rpartition("/")[2]


def _restored(optimizers: Mapping[_Owner, _GrowingNode], of_numbers: set[_Owner]) -> _Owner | None:
    """Return whose numbers are those of the slots that no name tells the optimizer of.

    Slots that a restore made, of a legacy optimizer of Keras, are `<variable>/m`; its numbers are
    `Adam/iter` all the same.
    """
    strangers = [owner for owner in of_numbers if owner not in optimizers]
    if _UNNAMED not in optimizers or len(strangers) != 1 or not strangers[0].scope or strangers[0].name:
        return None
    names = {name for name, _, _ in optimizers[_UNNAMED].slots or ()}
    return strangers[0] if names <= KERAS_SLOTS else None


def _share_iterations(
    optimizers: Mapping[_Owner, _GrowingNode], variables: Mapping[str, _GrowingNode]
) -> None:
    """Give Keras' optimizers without iterations of their own the global step, as Estimator heads do."""
    step = variables.get("global_step")
    for owner, node in optimizers.items():
        if step is not None and owner.scope and not owner.name and "iter" not in node.edges:
            node.add_edge("iter", step)


# Numbering -------------------------------------------------------------------------


def _numbered(root: _GrowingNode, counter: _GrowingNode) -> tuple[ObjectGraph, dict[str, str]]:
    """Return the graph as TensorFlow numbers it, breadth-first and slots last, and the keys of all names.

    Edges are used up, so that they are not there twice.
    """
    order = [root]
    root.number = 0
    for node in order:
        for child in node.edges.values():
            if child.number == _UNNUMBERED:
                child.number = len(order)
                order.append(child)
    for node in list(order):
        for _, _, slot in _by_number(node):
            slot.number = len(order)
            order.append(slot)
    keys: dict[str, str] = {}
    protos = []
    for node in order:
        key = "" if node.full_name is None and node.table is None else node.key
        protos.append(_proto(node, key))
        if node.full_name is not None and node is not counter:
            keys[node.full_name] = key
        if node.table is not None:
            keys |= {node.table + suffix: key + suffix for suffix in TABLE_SUFFIXES}
        node.edges = _NO_EDGES
    return ObjectGraph(TrackableObjectGraph(nodes=protos)), keys


def _by_number(node: _GrowingNode) -> list[tuple[str, _GrowingNode, _GrowingNode]]:
    """Return the slots of a node in the order in which TensorFlow numbers them."""
    return sorted(node.slots or (), key=lambda slot: (slot[0], slot[1].number))


def _proto(node: _GrowingNode, key: str) -> TrackableObject:
    """Return the message of a node that is numbered, as are all that it speaks of."""
    proto = TrackableObject.decode(b"")  # which has no lists of its own, of which nearly all would be empty
    proto.has_checkpoint_values = _HOLDS_VALUES
    if node.edges:
        proto.children = [
            ObjectReference(node_id=child.number, local_name=name) for name, child in node.edges.items()
        ]
    if node.full_name is not None:
        proto.attributes = [
            SerializedTensor(name=VARIABLE_VALUE, full_name=node.full_name, checkpoint_key=key)
        ]
    if node.table is not None:
        # TensorFlow gives a table no full name: its own differ from program to program.
        proto.attributes = [SerializedTensor(name=TABLE, checkpoint_key=key)]
    if node.slots:
        proto.slot_variables = [
            SlotVariableReference(
                original_variable_node_id=variable.number,
                slot_name=name,
                slot_variable_node_id=slot.number,
            )
            for name, variable, slot in _by_number(node)
        ]
    return proto
