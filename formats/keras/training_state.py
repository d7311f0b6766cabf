"""The state of every optimizer of a checkpoint: its slots by variable and name, and its numbers.

It is read from an object graph. Edges distinguish Keras' own optimizers, those of `tf.compat.v1`, and the
graph that is made from names alone:

    _iterations, _trainable_variables     Keras 3
    _iterations                           Keras 2.11 to 2.15
    iter                                  legacy Keras
    slot variables, neither of these      TensorFlow 1

Wrappers are transparent: a LossScaleOptimizer's numbers are those of the inner optimizer. The variable of a
slot is not computed from its number in the list. Keras 3 lists the variables of its slots. Before Keras 3,
full names and shapes identify them, or the model's order if several variables share both.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.words import natural_order
from ..model.object_graph import ROOT, optimizer_nodes
from ..model.object_keys import VARIABLE_VALUE
from .optimizers import (
    KERAS2,
    KERAS3,
    LEGACY,
    NO_SLOTS,
    OPTIMIZERS,
    TF1,
    TITLES,
    Optimizer,
    candidates,
    is_another,
    named,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..core.spec import TensorSpec
    from ..model.object_graph import ObjectGraph


ITERATIONS, LEARNING_RATE, MOMENTUM_PRODUCT = "iterations", "learning_rate", "momentum_product"
UNKNOWN_CLASS = "an optimizer of unknown class"
"""The name of an optimizer that neither names nor slots identify."""

LOSS_SCALE, GOOD_STEPS = "loss_scale", "good_steps"

ACCUMULATED_STEPS = "accumulated_steps"
"""How many gradients were summed that no step has used, and these sums, as optax keeps them."""

LEGACY_RATES = ("beta", "beta_1", "beta_2", "decay", LEARNING_RATE, "momentum", "rho")
"""Hyperparameters that a legacy optimizer's node has as variables, where its configuration has them."""

COUNT = "iter"
"""The edge to a legacy optimizer's count."""

_NUMBERS = {
    COUNT: ITERATIONS,
    "_iterations": ITERATIONS,
    "learning_rate": LEARNING_RATE,
    "_learning_rate": LEARNING_RATE,
    "momentum_cache": MOMENTUM_PRODUCT,
    "_u_product": MOMENTUM_PRODUCT,
    "dynamic_scale": LOSS_SCALE,
    "current_loss_scale": LOSS_SCALE,
    "step_counter": GOOD_STEPS,
}
"""Numbers that generations call differently, by their edges; all others have the edge's name."""

_NUMBER = re.compile(r"_\d+$")
_INNER = "inner_optimizer"
_MOST_LISTED = 4_000_000
"""Slots that are listed, all together: a hostile graph has many optimizers share one long list."""

SlotOf = tuple[str, str]
"""A slot: the key of its variable, and its name in the generation."""


class TrainingState(NamedTuple):
    """A checkpoint's state of one optimizer.

    `called` is the checkpoint's name for it, usually its class; `known` are the optimizers of the table that
    it can be. `numbers` are keys by meaning, several if a wrapper has them, too. `unowned` are slots without
    a known variable.
    """

    generation: str
    path: str
    called: str
    known: tuple[Optimizer, ...]
    slots: Mapping[SlotOf, str]
    numbers: Mapping[str, tuple[str, ...]]
    unowned: tuple[str, ...] = ()
    values: Mapping[str, float] = MappingProxyType({})
    """Numbers by meaning from a configuration or an option, instead of tensors."""

    settings: Mapping[str, Any] = MappingProxyType({})
    """Its settings in a training configuration; empty if that has another class."""

    names: Mapping[str, str] = MappingProxyType({})
    """Full names as stored, by key, or by meaning for a number that no tensor holds."""

    scaled: bool = False
    """Whether a LossScaleOptimizer wraps it, as far as known."""

    wrapper: Mapping[str, str] = MappingProxyType({})
    """The keys of the numbers that a LossScaleOptimizer of Keras 3 around it has, by meaning."""

    copies: Mapping[str, str] = MappingProxyType({})
    """Keys of second copies in a wrapper's list, each with that of the first."""

    listed: tuple[str, ...] = ()
    """All that an optimizer of Keras since 2.11 lists, in its order, which is one in all layouts."""

    trained: tuple[str, ...] = ()
    """The keys of the variables that it trains, in the model's order, if that is known."""

    flaw: str = ""
    """Why the state cannot become another's, although its class is known."""

    @property
    def keys(self) -> set[str]:
        """The keys of all that it is made of."""
        numbers = (key for keys in self.numbers.values() for key in keys)
        return {*self.slots.values(), *numbers, *self.unowned, *self.copies}

    @property
    def row(self) -> Optimizer | None:
        """The table's row for its class, the first of several."""
        return self.known[0] if self.known else None

    @property
    def rate(self) -> float | None:
        """The learning rate if no tensor has it."""
        return self.values.get(LEARNING_RATE)

    @property
    def in_use(self) -> frozenset[str]:
        """The meanings of slots that a setting turns on."""
        slots = self.row.slots if self.row is not None else ()
        return frozenset(slot.meaning for slot in slots if self.settings.get(slot.made_by))

    @property
    def idle_meanings(self) -> set[str]:
        """The meanings of slots that are made though a setting turns them off, as Keras 2.11 does for SGD."""
        settings, slots = self.settings, self.row.slots if self.row is not None else ()
        off = {slot.meaning for slot in slots if slot.made_by in settings and not settings[slot.made_by]}
        return {slot.meaning for slot in slots if slot.meaning in off and self.generation in slot.idle_in}

    def number(self, name: str) -> str | None:
        """Return the key of a number of its own, which is none of a wrapper around it."""
        theirs = set(self.wrapper.values())
        return next((key for key in self.numbers.get(name, ()) if key not in theirs), None)

    @property
    def ordered(self) -> tuple[str, ...]:
        """The keys of its slots in the order stored."""
        numbers = {self.number(name) for name in (ITERATIONS, LEARNING_RATE, MOMENTUM_PRODUCT)}
        listed = tuple(key for key in self.listed if key not in numbers)
        return listed or (*self.slots.values(), *self.unowned)

    @property
    def rates(self) -> list[str]:
        """The names of its hyperparameters that a tensor or a configuration has."""
        names = LEGACY_RATES if self.generation == LEGACY else (LEARNING_RATE,)
        return [name for name in names if name in self.values or self.number(name) is not None]

    @property
    def stored_keys(self) -> list[str]:
        """The keys of all that is read of it, its numbers first; none for a number that is given."""
        numbers = (ITERATIONS, *self.rates)
        held = [self.number(name) for name in numbers if name not in self.values]
        held += [*self.ordered, self.number(MOMENTUM_PRODUCT)]
        return [*(key for key in held if key is not None), *self.wrapper.values(), *self.copies]

    def with_numbers(self, iterations: int | None, learning_rate: float | None) -> TrainingState:
        """Return the same with numbers in place of those that the checkpoint has."""
        given = {ITERATIONS: iterations, LEARNING_RATE: learning_rate}
        values = {name: value for name, value in given.items() if value is not None}
        return self._replace(
            values={**self.values, **values}, names={LEARNING_RATE: LEARNING_RATE, **self.names}
        )

    @property
    def slot_names(self) -> set[str]:
        return {name for _, name in self.slots}

    @property
    def variables(self) -> set[str]:
        """The keys of the variables that it has slots of."""
        return {variable for variable, _ in self.slots}

    def slot_name(self, name: str) -> str:
        """Return what its generation calls a slot: in lists, what full names have, `m` or `momentum`."""
        if self.generation not in (KERAS2, KERAS3):
            return name
        kinds = (slot for row in self.known or OPTIMIZERS for slot in row.slots)
        names = {slot.common_name(self.generation) for slot in kinds if slot.name(self.generation) == name}
        return names.pop() if len(names) == 1 else name.strip("_")

    @property
    def slot_paths(self) -> Iterator[tuple[str, str, str]]:
        """Yield each slot's key, its variable's key, and what people call it: `m of optimizer`."""
        for (variable, name), key in self.slots.items():
            yield key, variable, f"{self.slot_name(name)} of {self.path}"

    @property
    def title(self) -> str:
        """Its name in messages: the class if known, otherwise the checkpoint's name for it."""
        names = dict.fromkeys(row.tf1 if self.generation == TF1 else row.name for row in self.known)
        if self.called and (not names or named(self.called) is None):
            return self.called
        return " or ".join(names) or UNKNOWN_CLASS

    def spelled(self, row: Optimizer | None = None) -> str:
        """Return its name with its generation, for people; that of a row that it can be."""
        name = self.title if row is None else row.tf1 if self.generation == TF1 and row.tf1 else row.name
        if self.called == NO_SLOTS:
            name = NO_SLOTS
        return f"{name} ({TITLES[self.generation]})"


def common_rows(mine: TrainingState, theirs: TrainingState) -> list[tuple[Optimizer, Optimizer]]:
    """Return the rows of the table that two optimizers can both be, equal names first."""
    both = [(a, b) for a in mine.known for b in theirs.known if state_of(a) == state_of(b)]
    return sorted(both, key=lambda rows: rows[0].name != rows[1].name)


def name_of_added_count(path: str) -> str:
    """Return the full name of a count of steps that was added to TensorFlow 1's state, at an object path.

    No variable can have one with a space, so that none is taken for it.
    """
    return f"{path} (steps)"


def is_added_count(path: str, full_name: str | None) -> bool:
    """Whether a count of steps was added to TensorFlow 1's state, by its object path and full name."""
    return full_name == name_of_added_count(path)


def training_states(
    graph: ObjectGraph, specs: Mapping[str, TensorSpec], full_names: Mapping[str, str]
) -> list[TrainingState]:
    """Return the state of each optimizer that an object graph has, in the order of their nodes."""
    found = _StateGraph(graph, specs, full_names)
    wrapped = {
        child: node for node in found.optimizers for name, child in graph.children(node) if name == _INNER
    }
    reached = graph.reachable()
    return [
        found.state(node, wrapped.get(node))
        for node in sorted(found.optimizers & reached.keys())
        if node not in wrapped.values()
    ]


class _StateGraph:
    """An object graph with what its variables' nodes hold."""

    def __init__(
        self, graph: ObjectGraph, specs: Mapping[str, TensorSpec], full_names: Mapping[str, str]
    ) -> None:
        self.graph = graph
        self.specs = specs
        self.full_names = full_names
        self.optimizers = optimizer_nodes(graph)
        owners = graph.tensors(specs)
        self.keys = {node: key for key, (node, name, _) in owners.items() if name == VARIABLE_VALUE}
        self._left = _MOST_LISTED

    def state(self, node: int, wrapper: int | None) -> TrainingState:
        """Return the state of the optimizer at a node, within a wrapper or not."""
        edges = dict(self.graph.children(node))
        generation = self._generation(node, edges)
        numbers = self._numbers(edges)
        if wrapper is not None:
            for name, keys in self._numbers(dict(self.graph.children(wrapper))).items():
                numbers[name] = (*numbers.get(name, ()), *keys)
        unowned: list[str] = []
        if generation in (KERAS2, KERAS3):
            slots = self._listed(generation, edges, unowned)
        else:
            slots = {
                (self.keys[slot.variable], slot.name): self.keys[slot.node]
                for slot in self.graph.slots
                if slot.optimizer == node and slot.variable in self.keys and slot.node in self.keys
            }
        called = self._called(generation, numbers, slots) or self._class_in(unowned)
        state = TrainingState(
            generation, self.graph.paths.get(node, ""), called, (), slots, numbers, tuple(unowned)
        )
        if generation in (KERAS2, KERAS3):
            listed = tuple(self.keys[each] for each in self._members(edges.get("_variables")))
            trained = [self.keys[each] for each in self._members(edges.get("_trainable_variables"))]
            trained = trained or [variable for variable, _ in slots]
            state = state._replace(listed=listed, trained=tuple(dict.fromkeys(trained)))
        known = _known(state)
        if generation == KERAS3 and not self._members(edges["_trainable_variables"]):
            known = ()  # before its first step it has no slots, for every class
        if generation == KERAS2:
            known = tuple(row for row in known if self._is_named_as(row, slots))
        return state._replace(known=known)

    def _generation(self, node: int, edges: Mapping[str, int]) -> str:
        if "_iterations" in edges:
            return KERAS3 if "_trainable_variables" in edges else KERAS2
        if COUNT not in edges:
            return TF1
        path, counter = f"{self.graph.paths.get(node)}/{COUNT}", self.keys.get(edges[COUNT], "")
        # Every legacy optimizer of Keras has a decay.
        is_added = is_added_count(path, self.full_names.get(counter)) and "decay" not in edges
        return TF1 if is_added else LEGACY

    def _is_named_as(self, row: Optimizer, slots: Mapping[SlotOf, str]) -> bool:
        """Whether slots have the names in their full names that an optimizer gives them.

        Of Adam `_momentums` are `m/<variable>`, of RMSprop `momentum/<variable>`.
        """
        names = {slot.list2: slot.keras2 for slot in row.slots}
        named_parts = (
            (names[name], self.full_names.get(key, "").split("/")[:2]) for (_, name), key in slots.items()
        )
        return all(name in parts for name, parts in named_parts if len(parts) > 1)

    def _numbers(self, edges: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
        """Return the keys of an optimizer's variables that are not slots, by meaning."""
        numbers: dict[str, tuple[str, ...]] = {
            _NUMBERS.get(name, name): (self.keys[at],) for name, at in edges.items() if at in self.keys
        }
        if LOSS_SCALE in edges:
            scale = self._numbers(dict(self.graph.children(edges[LOSS_SCALE])))
            numbers.update({name: scale[name] for name in (LOSS_SCALE, GOOD_STEPS) if name in scale})
        return numbers

    # Lists --------------------------------------------------------------------------

    def _listed(self, generation: str, edges: Mapping[str, int], unowned: list[str]) -> dict[SlotOf, str]:
        """Return the slots that an optimizer keeps in lists; ambiguous ones go to `unowned`."""
        slots: dict[SlotOf, str] = {}
        every = set(self._members(edges.get("_variables")))
        trained = self._members(edges.get("_trainable_variables"))
        for name, group in edges.items():
            members = self._members(group) if name not in ("_variables", "_trainable_variables") else []
            self._left -= len(members)
            if not members or not every.issuperset(members) or self._left < 0:
                continue
            owners = trained if generation == KERAS3 else self._owners(name, members)
            if not self._fit(owners, members):
                unowned += [self.keys[member] for member in members]
                owners = []
            for owner, member in zip(owners, members, strict=False):
                slots[self.keys[owner], name] = self.keys[member]
        return slots

    def _members(self, group: int | None) -> list[int]:
        """Return the nodes of a list that hold values, in its order; none where others are among them."""
        if group is None:
            return []
        children = sorted(self.graph.children(group), key=lambda child: (len(child[0]), child[0]))
        nodes = [node for _, node in children]
        return nodes if all(node in self.keys for node in nodes) else []

    def _fit(self, owners: Sequence[int], members: Sequence[int]) -> bool:
        return len(owners) == len(members) and all(
            self._shape(owner) == self._shape(member) for owner, member in zip(owners, members, strict=True)
        )

    def _shape(self, node: int) -> tuple[int, ...]:
        return self.specs[self.keys[node]].shape

    def _owners(self, name: str, members: Sequence[int]) -> list[int]:
        """Return whose the slots of a list are, by their full names and shapes; [] where those do not tell.

        Several variables of one name and shape are identified by their order, if it is the same in all kinds
        of objects, and Keras': the order of a program's own `Variable`s is arbitrary.
        """
        prefixes = {slot.keras2 for row in OPTIMIZERS for slot in row.slots if slot.list2 == name}
        by_name_and_shape: defaultdict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
        for member in members:
            rests = _rests(self.full_names.get(self.keys[member], ""), prefixes)
            shape = self._shape(member)
            by_name_and_shape[
                next((rest for rest in rests if (rest, shape) in self.named), ""), shape
            ].append(member)
        owners: dict[int, int] = {}
        for (full_name, shape), same in by_name_and_shape.items():
            found = self.named.get((full_name, shape), [])
            if len(found) != len(same) or (len(found) > 1 and not self._is_ordered(full_name, found)):
                return []
            owners.update(zip(same, found, strict=True))
        return [owners[member] for member in members]

    @cached_property
    def named(self) -> dict[tuple[str, tuple[int, ...]], list[int]]:
        """The model's variables by their full names and shapes, depth-first."""
        nodes: defaultdict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
        for node in self._orders[0]:
            full_name = self.full_names.get(self.keys[node], "")
            if full_name:
                nodes[full_name, self._shape(node)].append(node)
        return dict(nodes)

    def _is_ordered(self, full_name: str, nodes: Sequence[int]) -> bool:
        """Whether variables of one name, as Keras gives it, come one after another in all orders."""
        return "/" in full_name and all(
            order[one] < order[other] for order in self._orders for one, other in pairwise(nodes)
        )

    @cached_property
    def _orders(self) -> list[dict[int, int]]:
        """The places of the model's variables in the orders in which a program may list them.

        A Keras layer has its own variables before those of others, a model behind them, as their
        attributes were set; a tf.Module has its own first, too, and goes by its attributes' names.
        """
        keys: list[Callable[[tuple[str, int]], Any]] = [
            lambda _: 0,
            lambda child: child[1] not in self.keys,
            lambda child: child[1] in self.keys,
            lambda child: (child[1] not in self.keys, natural_order(child[0])),
        ]
        return [{node: at for at, node in enumerate(self._depth_first(key))} for key in keys]

    def _depth_first(self, key: Callable[[tuple[str, int]], Any]) -> Iterator[int]:
        """Yield the variables that no optimizer owns, the children of each node ordered by `key`."""
        seen, waiting = set(self.optimizers), [ROOT]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if node in self.keys:
                yield node
            children = sorted(self.graph.children(node), key=key)
            waiting += [child for _, child in reversed(children)]

    # Names --------------------------------------------------------------------------

    def _class_in(self, slots: Sequence[str]) -> str:
        """Return the class that the full names of slots begin with, if it is one of an optimizer."""
        first = self.full_names.get(slots[0], "").partition("/")[0] if slots else ""
        return first if named(first) is not None or is_another(first) else ""

    def _called(
        self, generation: str, numbers: Mapping[str, tuple[str, ...]], slots: Mapping[SlotOf, str]
    ) -> str:
        """Return what full names call an optimizer."""
        counter = self.full_names.get(numbers.get(ITERATIONS, ("",))[0], "")
        above = counter.rpartition("/")[0].rpartition("/")[2]
        if generation == KERAS3 or (generation == LEGACY and above):
            return above
        for (variable, name), key in slots.items():
            full, owner = self.full_names.get(key, ""), self.full_names.get(variable, "")
            if generation == TF1:
                last = full.rpartition("/")[2]
                return "AdamWeightDecay" if last in ("adam_m", "adam_v") else _NUMBER.sub("", last)
            if generation == LEGACY:
                return full.removesuffix(f"{owner}/{name}").rstrip("/").rpartition("/")[2]
            parts = full.removesuffix(owner).rstrip("/").split("/")
            return parts[0] if len(parts) > 1 else ""
        return ""


def _rests(full_name: str, prefixes: set[str]) -> Iterator[str]:
    """Yield what a slot's full name may say of its variable: what follows `m/` or `Adam/m/`."""
    first, _, rest = full_name.partition("/")
    if first in prefixes:
        yield rest
    second, _, rest = rest.partition("/")
    if second in prefixes:
        yield rest


def _known(state: TrainingState) -> tuple[Optimizer, ...]:
    """Return the optimizers that have slots of these names; one where the checkpoint calls it so."""
    if state.unowned or is_another(state.called):
        return ()
    found = tuple(candidates(state.generation, state.slot_names))
    called = named(state.called) if state.called else None
    if called in found:
        return (called,)
    if called is not None:
        return ()
    if state.generation == TF1 and "beta1_power" in state.numbers:
        return tuple(row for row in found if row.has_powers)
    if any(row.name == "Nadam" for row in found):
        has_product = MOMENTUM_PRODUCT in state.numbers
        return tuple(row for row in found if (row.name == "Nadam") == has_product)
    return found
