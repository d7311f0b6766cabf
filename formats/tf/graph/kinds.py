"""What a tensor is to a program: variable, slot, optimizer, state or graph.

Object-based checkpoints tell by their edges.  Name-based ones only have names; the
rules are those by which TensorFlow's optimizers name their slots, and a name counts
only where the variable it speaks of is there with the same shape.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import ItemsView, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import compress, islice
from typing import TYPE_CHECKING, NamedTuple

from ...core.dtypes import STRING, VARIANT
from ...model.object_graph import ROOT
from ...model.object_keys import VARIABLE_VALUE
from ..bundle.index import OBJECT_GRAPH_KEY

if TYPE_CHECKING:
    from ...core.spec import TensorSpec
    from ...model.object_graph import ObjectGraph


GRAPH_KEY = OBJECT_GRAPH_KEY.decode()

# Object-based ------------------------------------------------------------------

NOWHERE = -1  # no node: a key that no attribute stands for
_OPTIMIZER_EDGES = frozenset(("iter", "_iterations"))
_LISTS = ("_variables", "_trainable_variables")
_MOST_LISTED = 4_000_000
"""Nodes that optimizers list, all together: a hostile graph has many optimizers share one long list."""

_STATE_EDGES = frozenset(("metrics", "save_counter", "keras_api"))


def optimizer_nodes(graph: ObjectGraph) -> set[int]:
    """Return the optimizers: nodes with slot triples, or with an edge that counts iterations."""
    return {
        number
        for number, node in enumerate(graph.nodes)
        if node.slot_variables or any(child.local_name in _OPTIMIZER_EDGES for child in node.children)
    }


def _node_specs(graph: ObjectGraph, specs: Mapping[str, TensorSpec]) -> dict[int, TensorSpec]:
    """Return the spec of each node that is a variable."""
    return {
        number: specs[attribute.checkpoint_key]
        for number, node in enumerate(graph.nodes)
        for attribute in node.attributes
        if attribute.name == VARIABLE_VALUE and attribute.checkpoint_key in specs
    }


def paired_slots(
    graph: ObjectGraph, optimizer: int, model: list[int], specs: Mapping[int, TensorSpec]
) -> dict[int, int]:
    """Return slot variable -> variable of an optimizer that keeps its slots in a list.

    Since Keras 2.11 there are no triples: `_variables` lists the iteration (and in
    Keras 3 the learning rate), then for each trainable variable in order all its
    slots.  Keras 3 lists the trainable variables, too; elsewhere they are those of
    `model`, of which some may not be trainable, so a slot may pass over variables.
    """
    edges = dict(graph.children(optimizer))
    scalars = {edges.get("_iterations"), edges.get("_learning_rate"), edges.get("iter")}
    listed = "_trainable_variables" in edges
    variables = [node for _, node in graph.children(edges["_trainable_variables"])] if listed else model
    variables = [node for node in variables if node in specs]
    # For each shape the places of its variables: a list that fits none of them costs no search.
    places: dict[tuple[int, ...], list[int]] = {}
    for place, node in enumerate(variables):
        places.setdefault(specs[node].shape, []).append(place)
    pairs: dict[int, int] = {}
    at = 0
    for _, node in graph.children(edges["_variables"]) if "_variables" in edges else ():
        if node in scalars or node not in specs:
            continue
        fitting = places.get(specs[node].shape, [])
        following = bisect.bisect_left(fitting, at)
        if following < len(fitting):
            at = fitting[following]
            pairs[node] = variables[at]
    return pairs


class ListedSlot(NamedTuple):
    """A slot variable that an optimizer keeps in a list, by the name of the list's edge."""

    optimizer: int
    variable: int
    name: str
    node: int


def listed_slots(graph: ObjectGraph, specs: Mapping[str, TensorSpec]) -> Iterator[ListedSlot]:
    """Yield the slots of optimizers since Keras 2.11, where the graph tells of which variable each is.

    An optimizer has one list for each kind, `_momentums`.  Keras 3 lists the variables in
    the same order, `_trainable_variables`; in Keras 2 a slot has its variable's full name
    in its own, `Adam/m/<full name>`.
    """
    by_node = _node_specs(graph, specs)
    full_names = {
        number: attribute.full_name
        for number in by_node
        for attribute in graph.nodes[number].attributes
        if attribute.name == VARIABLE_VALUE
    }
    named: dict[str, list[int]] = {}
    for number, full_name in full_names.items():
        named.setdefault(full_name, []).append(number)
    seen: set[int] = set()  # A list is of one optimizer; a hostile graph could give it to all.
    for optimizer in sorted(optimizer_nodes(graph)):
        edges = {name: node for name, node in graph.children(optimizer) if node not in seen}
        seen.update(edges.values())
        held = set(_listed(graph, edges.get("_variables")))
        trained = _listed(graph, edges.get("_trainable_variables"))
        for name, group in edges.items():
            slots = _listed(graph, group)
            if not slots or name == "_variables" or not held.issuperset(slots):
                continue
            owners = (
                trained
                if len(trained) == len(slots)
                else [_owner(full_names.get(slot, ""), named) for slot in slots]
            )
            for slot, owner in zip(slots, owners, strict=True):
                if owner in by_node and slot in by_node and by_node[owner].shape == by_node[slot].shape:
                    yield ListedSlot(optimizer, owner, name, slot)


def _listed(graph: ObjectGraph, group: int | None) -> list[int]:
    return [node for _, node in graph.children(group)] if group is not None else []


def _owner(full_name: str, named: Mapping[str, list[int]]) -> int:
    """Return the variable whose full name a slot has in its own; nowhere where that is not one."""
    found = named.get(full_name.split("/", 2)[-1], []) if full_name.count("/") > 1 else []
    return found[0] if len(found) == 1 else NOWHERE


def object_kinds(graph: ObjectGraph, specs: Mapping[str, TensorSpec]) -> dict[str, str]:
    """Return the kind of each key of an object-based checkpoint."""
    optimizers = optimizer_nodes(graph)
    node_specs = _node_specs(graph, specs)
    state_roots = {
        child
        for node in range(len(graph.nodes))
        for name, child in graph.children(node)
        if name in _STATE_EDGES
    }
    model = graph.reachable((ROOT,), without=optimizers | state_roots)
    groups = {
        group
        for optimizer in optimizers
        for name, group in graph.children(optimizer)
        if name == "_trainable_variables"
    }
    trainable = {node for group in groups for _, node in graph.children(group)}
    kinds_of_nodes = dict.fromkeys(graph.reachable(optimizers), "optimizer")
    kinds_of_nodes.update(dict.fromkeys(graph.reachable(state_roots, without=optimizers), "state"))
    kinds_of_nodes.update(dict.fromkeys([*model, *trainable], "variable"))
    in_order = [node for node in model if node in node_specs]
    left = _MOST_LISTED
    for optimizer in optimizers:
        lists = [group for name, group in graph.children(optimizer) if name in _LISTS]
        left -= sum(len(graph.nodes[group].children) for group in lists) + (len(in_order) if lists else 0)
        if not lists or left < 0:
            continue
        for node in paired_slots(graph, optimizer, in_order, node_specs):
            if kinds_of_nodes.get(node) != "variable":
                kinds_of_nodes[node] = "slot"
    kinds_of_nodes.update((slot.node, "slot") for slot in graph.slots)
    kinds = {}
    owners = graph.tensors(specs)
    for key, spec in specs.items():
        owner, attribute, _ = owners.get(key, (NOWHERE, "", ""))
        kind = kinds_of_nodes.get(owner, "variable") if owner != NOWHERE else "state"
        if kind == "variable" and (attribute != VARIABLE_VALUE or spec.dtype in (STRING, VARIANT)):
            kind = "state"
        kinds[key] = "graph" if key == GRAPH_KEY else kind
    return kinds


# Name-based --------------------------------------------------------------------

# Suffix -> slot names in the order of their numbers, for the optimizers of tf.compat.v1.train
# and tensor2tensor, and the variables that other optimizers make for themselves.
TF1_SLOTS: dict[str, tuple[str, ...]] = {
    "Adam": ("m", "v"),
    "Momentum": ("momentum",),
    "Adagrad": ("accumulator",),
    "RMSProp": ("rms", "momentum"),
    "Adadelta": ("accum", "accum_update"),
    "Ftrl": ("accum", "linear"),
    "ProximalAdagrad": ("accumulator",),
    "AdagradDA": ("gradient_accumulator", "gradient_squared_accumulator"),
    "adam_m": ("m",),
    "adam_v": ("v",),
}
KERAS_SLOTS = frozenset(
    ("m", "v", "vhat", "momentum", "accumulator", "accum_grad", "accum_var", "rms", "mg", "linear")
)
_HYPERPARAMETERS = frozenset(
    [
        "iter",
        "beta",
        "beta_1",
        "beta_2",
        "decay",
        "learning_rate",
        "learning_rate_power",
        "momentum",
        "momentum_cache",
        "rho",
        "epsilon",
        "l1_regularization_strength",
        "l2_regularization_strength",
    ]
)
_KERAS_OPTIMIZERS = frozenset(["Adam", "Adamax", "Nadam", "SGD", "Adagrad", "Adadelta", "RMSprop", "Ftrl"])
_POWER = re.compile(r"beta[12]_power(_[0-9]+)?")
NUMBERED = re.compile(r"(.+?)(?:_([0-9]+))?", re.DOTALL)
"""A name, and the number behind it that tells it from others of that name."""

_ADAFACTOR = re.compile(r"(.+)_slot_(v|m|vr|vc)", re.DOTALL)
_MOST_COMPONENTS = 100
_AVERAGE = "ExponentialMovingAverage"


class NamedSlot(NamedTuple):
    """A slot as a name tells it: its variable's key, and what stands around it.

    `prefix` and `suffix` surround the variable's name: `training/Adam/` and `/m`,
    or nothing and `/Adam_1`.
    """

    variable: str
    prefix: str
    suffix: str


def _less_one_dimension(factor: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether `factor` is `shape` less one of its dimensions, as Adafactor keeps row and column means."""
    return len(shape) - len(factor) == 1 and all(factor.count(dim) <= shape.count(dim) for dim in factor)


@lru_cache(1 << 12)  # names of weights and slots, which are the same below every layer
def _base(last: str) -> str:
    """Return the last part of a key without the number that tells one slot from another of its name."""
    numbered = NUMBERED.fullmatch(last)
    return numbered[1] if numbered else last


@lru_cache(1 << 12)
def _is_power(last: str) -> bool:
    return _POWER.fullmatch(last) is not None


def _too_deep(key: str) -> bool:
    """Whether a key has so many components that trying each would take its length squared."""
    return key.count("/") > _MOST_COMPONENTS


class _Names:
    """The keys of a name-based checkpoint, and what each of them is asked about the others."""

    def __init__(self, specs: Mapping[str, TensorSpec]) -> None:
        self.specs = specs
        # Whatever begins with a key stands behind it in this order, one such key right behind it.
        ordered = sorted(specs)
        begun = compress(ordered, map(str.startswith, islice(ordered, 1, None), ordered))
        self.shapes = {key: specs[key].shape for key in begun}
        """Shapes of keys with which others begin: the variables of nearly all slots are among them."""

        # An Adam of another name that minimized within a scope has its powers there.
        end = "/beta1_power"
        self.scopes = {key.removesuffix(end) for key in specs if key.endswith(end) and key.count("/") == 1}

    def slot(self, key: str, spec: TensorSpec) -> NamedSlot | None:
        """Return the slot that a key is, or None; of `w/Adam/Adam` that is the one of `w/Adam`."""
        head, _, last = key.rpartition("/")
        if not last or last.startswith(_AVERAGE) or _too_deep(key):
            return None
        # <v>/Adam, <v>/t_0/Adagrad, <v>/adam_m: whatever the optimizer is called.
        at = len(head) if self.shapes else 0
        while at > 0:
            if self.shapes.get(key[:at]) == spec.shape:
                return NamedSlot(key[:at], "", key[at:])
            at = key.rfind("/", 0, at)
        base = _base(last)
        if base == "Adafactor" and head in self.shapes and _less_one_dimension(spec.shape, self.shapes[head]):
            return NamedSlot(head, "", f"/{last}")
        adafactor = _ADAFACTOR.fullmatch(key) if "_slot_" in key else None
        if adafactor and adafactor[1] in self.shapes:
            variable, slot = adafactor[1], adafactor[2]
            shape = self.shapes[variable]
            factored = slot in ("vr", "vc")
            fits = _less_one_dimension(spec.shape, shape) if factored else shape == spec.shape
            return NamedSlot(variable, "", f"_slot_{slot}") if fits else None
        # training/<Opt>/<v>/<slot> and <Opt>/<v>/<slot>; <scope>/<v>/Adam, minimized in a variable scope.
        if last not in KERAS_SLOTS and base not in TF1_SLOTS and head.partition("/")[0] not in self.scopes:
            return None
        parts = head.split("/")
        for depth in range(1, 3 if last in KERAS_SLOTS else len(parts)):
            found = self.specs.get("/".join(parts[depth:]))
            if found is not None and found.key and found.shape == spec.shape:
                return NamedSlot(found.key, "/".join(parts[:depth]) + "/", f"/{last}")
        return None


def named_slots(specs: Mapping[str, TensorSpec]) -> dict[str, NamedSlot]:
    """Return the slots of a name-based checkpoint by key; none has a slot for its variable.

    Of `w/Adam/Adam` both are slots of `w`.
    """
    return _named_slots(_Names(specs))


def _named_slots(names: _Names) -> dict[str, NamedSlot]:
    found = ((key, names.slot(key, spec)) for key, spec in names.specs.items())
    slots = {key: slot for key, slot in found if slot is not None}
    # The variable's key is the shorter one, so that what it is of itself is settled first.
    for key in sorted(slots, key=len):
        slot = slots[key]
        above = slots.get(slot.variable)
        if above is not None:
            slots[key] = NamedSlot(above.variable, slot.prefix + above.prefix, above.suffix + slot.suffix)
    return slots


class _NameKinds(Mapping[str, str]):
    """Kinds by key, each told when somebody asks for it: a listing begins before it has all of a million."""

    def __init__(self, specs: Mapping[str, TensorSpec], slots: Mapping[str, NamedSlot] | None) -> None:
        self._specs = specs
        self._given = slots

    @cached_property
    def _names(self) -> _Names:
        return _Names(self._specs)

    @cached_property
    def _slot_prefixes(self) -> set[str]:
        slots = _named_slots(self._names) if self._given is None else self._given
        return {slot.prefix for slot in slots.values() if slot.prefix}

    def _is_slot(self, key: str, spec: TensorSpec) -> bool:
        return self._names.slot(key, spec) is not None if self._given is None else key in self._given

    def _is_hyperparameter(self, key: str, spec: TensorSpec) -> bool:
        head, _, last = key.rpartition("/")
        if last not in _HYPERPARAMETERS or spec.shape:
            return False
        return head.startswith("training/") or head in _KERAS_OPTIMIZERS or head + "/" in self._slot_prefixes

    def _kind(self, key: str, spec: TensorSpec) -> str:
        if self._is_slot(key, spec):
            return "slot"
        if key == GRAPH_KEY and spec.dtype is STRING:
            return "graph"
        if key == "global_step" or spec.dtype in (STRING, VARIANT):
            return "state"
        if _is_power(key.rpartition("/")[2]) or self._is_hyperparameter(key, spec):
            return "optimizer"
        return "variable"

    def __getitem__(self, key: str) -> str:
        return self._kind(key, self._specs[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def items(self) -> ItemsView[str, str]:
        return _Kinds(self)


class _Kinds(ItemsView[str, str]):
    _mapping: _NameKinds

    def __iter__(self) -> Iterator[tuple[str, str]]:
        kind = self._mapping._kind
        return ((key, kind(key, spec)) for key, spec in self._mapping._specs.items())


def name_kinds(
    specs: Mapping[str, TensorSpec], slots: Mapping[str, NamedSlot] | None = None
) -> Mapping[str, str]:
    """Return the kind of each key of a name-based checkpoint, whose `slots` are looked for unless given."""
    return _NameKinds(specs, slots)
