"""An object graph for tensors that only have names.

    dense/kernel          root -> dense -> kernel
    dense/kernel/Adam     slot `m` of the node `optimizer` for dense/kernel
    beta1_power           optimizer -> beta1_power
    training/Adam/iter    optimizer -> iter
    words-keys, -values   root -> words, a hash table

Each `/` of a name is an edge. An empty part becomes `_`, and so does the dot of a part that ends in
`.ATTRIBUTES`, below which TensorFlow restores nothing. Slots become slot variables under the names of
TensorFlow's optimizers, and hyperparameters become children of their optimizer, so that a program with such
an optimizer restores them. The save counter has its own edge, as programs restore it. A second object on the
same path gets `_1`. The full name of each node is the old name, which a conversion back uses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ...keras.training_state import COUNT, name_of_added_count
from ...model.name_kinds import KERAS_SLOTS, NUMBERED, TF1_SLOTS, NamedSlot, name_kinds, named_slots
from ...model.object_keys import (
    ATTRIBUTES,
    SAVE_COUNTER,
    TABLE_SUFFIXES,
    VARIABLE_VALUE,
    escape,
)
from ...model.object_names import ObjectNames
from ...wire.messages import (
    BoolValue,
    ObjectReference,
    SerializedTensor,
    TrackableObject,
)
from .exported import grow_exported
from .growing import GrowingNode, name_edges, node_of, numbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...core.spec import TensorSpec
    from ...model.object_graph import ObjectGraph


_POWER = re.compile(r"(?P<scope>(?:.*/)?)(?P<name>beta[12]_power)(?:_(?P<number>[0-9]+))?", re.DOTALL)
_ADAFACTOR_SUFFIX = "_slot_"
_TABLE_KEYS = frozenset({"string", "int64", "int32"})
"""Dtypes of a hash table's keys: tensorflow/core/kernels/lookup_table_op.cc registers no other."""

# Names of slots that tell their optimizer themselves.
_OWN_NAMES = {"adam_m": ("AdamWeightDecay", "m"), "adam_v": ("AdamWeightDecay", "v")}


class Invented(NamedTuple):
    """A graph, the key of each name in it, and that of the save counter where no name is that already.

    `tables` are the names that became hash tables, each without `-keys` and `-values`.
    """

    graph: ObjectGraph
    keys: dict[str, str]
    save_counter: str | None
    tables: tuple[str, ...] = ()
    is_export: bool = False
    """Whether the names are keys of objects, which the graph gives them back."""


class _Owner(NamedTuple):
    """The name parts that distinguish one optimizer of a name-based checkpoint from another.

    `scope` precedes a variable's name, `name` is the optimizer's if the slot's name has it, and `number`
    counts optimizers of the same name on one variable.
    """

    scope: str
    name: str
    number: int = 0


_UNNAMED = _Owner("", "")
"""The owner of slots whose names say nothing of their optimizer."""


def invent_graph(specs: Mapping[str, TensorSpec]) -> Invented:
    """Return an object graph for the tensors of a name-based checkpoint, or of an export of objects."""
    objects, slots = ObjectNames(specs), named_slots(specs)
    # Of Keras' optimizers under TensorFlow 1's names the counts alone are called as those of objects.
    is_export = objects.has_slots or (
        not slots and (objects.is_marked or objects.has_counter or objects.is_escaped)
    )
    if is_export and objects.are_distinct:
        return _exported(specs)
    kinds = name_kinds(specs, slots)
    root = GrowingNode()
    owners = {slot.variable for slot in slots.values()}
    hyperparameters = {
        key for key, kind in kinds.items() if kind == "optimizer" and kinds.is_number(key, specs[key])
    } - owners
    tables = _tables(specs)
    apart = {*slots, *hyperparameters, *(table + suffix for table in tables for suffix in TABLE_SUFFIXES)}
    for table in tables:
        node_of(root, table).table = table
    variables = _hang(root, [key for key in specs if key not in apart], has_counter=objects.has_counter)
    optimizers: dict[_Owner, GrowingNode] = {}

    def optimizer(owner: _Owner) -> GrowingNode:
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
    counter = None if objects.has_counter else _counter(root)
    graph, keys = numbered(root, counter)
    return Invented(graph, keys, counter.key if counter else None, tuple(tables))


def _counter(root: GrowingNode) -> GrowingNode:
    counter = root.new_child(SAVE_COUNTER)
    counter.full_name = SAVE_COUNTER
    return counter


def _exported(specs: Mapping[str, TensorSpec]) -> Invented:
    """Return the graph of an export, in which keys and slots are what they were."""
    grown = grow_exported(specs)
    counter = _counter(grown.root) if grown.counter is None else None
    graph, _ = numbered(grown.root, counter)
    return Invented(graph, grown.keys(), counter.key if counter else None, is_export=True)


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
    # This full name distinguishes it from the tensors of a name-based checkpoint.
    name = name_of_added_count(f"{optimizer}/{COUNT}")
    attribute = SerializedTensor(name=VARIABLE_VALUE, full_name=name, checkpoint_key=key)
    graph.nodes.append(TrackableObject(attributes=[attribute], has_checkpoint_values=BoolValue(value=True)))
    del graph.paths
    return key


def _hang(root: GrowingNode, names: Iterable[str], *, has_counter: bool) -> dict[str, GrowingNode]:
    """Return a new node for each name, hung up below the root by way of its parts.

    With `has_counter`, what is called as the save counter is one.
    """
    variables = {}
    for name in names:
        variables[name] = node = node_of(root, name)
        node.full_name = name
    name_edges(root, variables[SAVE_COUNTER] if has_counter else None)
    return variables


# Slots and their optimizers --------------------------------------------------------


def _slots_by_owner(
    slots: Mapping[str, NamedSlot], specs: Mapping[str, TensorSpec]
) -> list[tuple[str, _Owner, str]]:
    """Return (key, optimizer, slot name) of all slots.

    A number after an optimizer's name counts its slots on one variable. The count includes the slots of a
    second optimizer of that name.
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

    Return () if neither shows them.
    """
    if base == "RMSProp" and len(members) == 3:
        return ("rms", "mg", "momentum")
    if base == "Adafactor":
        momentum = ("m",) if len({spec.rank for spec in members}) == 2 or len(members) == 3 else ()
        left = len(members) - len(momentum)
        return (*momentum, "v") if left == 1 else (*momentum, "vr", "vc")
    if base in TF1_SLOTS:
        return TF1_SLOTS[base]
    # An Adam of another name is recognised by its powers, which are in its scope, or in none.
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


def _restored(optimizers: Mapping[_Owner, GrowingNode], of_numbers: set[_Owner]) -> _Owner | None:
    """Return the owner of the numbers for slots whose names show no optimizer.

    Slots that a restore made, of a legacy optimizer of Keras, are `<variable>/m`; its numbers are
    `Adam/iter` all the same.
    """
    strangers = [owner for owner in of_numbers if owner not in optimizers]
    if _UNNAMED not in optimizers or len(strangers) != 1 or not strangers[0].scope or strangers[0].name:
        return None
    names = {name for name, _, _ in optimizers[_UNNAMED].slots or ()}
    return strangers[0] if names <= KERAS_SLOTS else None


def _share_iterations(optimizers: Mapping[_Owner, GrowingNode], variables: Mapping[str, GrowingNode]) -> None:
    """Give Keras' optimizers without iterations of their own the global step, as Estimator heads do."""
    step = variables.get("global_step")
    for owner, node in optimizers.items():
        if step is not None and owner.scope and not owner.name and "iter" not in node.edges:
            node.add_edge("iter", step)
