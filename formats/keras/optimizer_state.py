"""An optimizer's state, found in whichever layout of Keras a checkpoint has.

    layout    keras-h5                      keras-weights, keras      TensorFlow's graph
    2         iteration, slots              iteration, slots          _iterations, _variables
    legacy    <name>/iter, slots            iter, slots               iter, slot variables
    3         <name>/iteration,             iteration, rate, slots    _iterations, _variables,
              <name>/learning_rate, slots                             _trainable_variables

Style 2 are the optimizers of Keras 2 since 2.11, legacy those before.  In keras-h5 the list
is `optimizer_weights`, in .weights.h5 and .keras `/optimizer/vars`.  What no tensor holds,
the learning rate of style 2 for one, a training configuration tells: `training_config` of
a whole model in HDF5, `compile_config` in a .keras archive.
keras/src/optimizers/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire.jsontext import parse_object
from .config import snake_case
from .facts import keras_facts
from .model import Variable
from .optimizers import BY_NAME, KERAS2, KERAS3, LEGACY, OPTIMIZERS, TITLES, named
from .training_state import ITERATIONS, LEARNING_RATE, UNKNOWN_CLASS, training_states

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..model.reader import FormatReader
    from .facts import KerasFacts
    from .optimizers import Optimizer as Row


OPTIMIZER = "optimizer"

LOSS_SCALING = ("LossScaleOptimizer", "LossScaleOptimizerV3")
"""Wrappers that have numbers of their own beside those of the optimizer in them."""

_WRAPPER = {
    "iteration": "iterations",
    "learning_rate": "learning_rate",
    "step_counter": "good_steps",
    "dynamic_scale": "loss_scale",
}
"""The numbers of Keras 3's LossScaleOptimizer in its order, and what they are."""

_WRAPPER_EDGES = ("_iterations", "_learning_rate", "step_counter", "dynamic_scale")
"""The edges of its node to these numbers."""

_COUNTED = re.compile(r"_\d+$")
_SLOT_NAMES = frozenset(slot.keras2 for row in OPTIMIZERS for slot in row.slots)
_LARGEST_RATE = 1e38  # What float32 holds.
_LEGACY_SCALARS = ("beta", "beta_1", "beta_2", "decay", "learning_rate", "momentum", "rho")
"""Hyperparameters that a legacy optimizer's node has as variables, where its configuration has them."""


Told = tuple[str | None, dict[str, Any]]
"""The class of an optimizer and its settings, as far as a training configuration tells."""


class StoredOptimizer(NamedTuple):
    """What a checkpoint has of an optimizer; `name` is its class, as far as is known, slots as stored.

    `row` is what the table knows of its class.  `rates` are hyperparameters, whose values a
    configuration may give where no tensor does.
    """

    generation: str
    name: str
    iteration: Variable
    slots: tuple[Variable, ...]
    rates: Mapping[str, Variable]
    row: Row | None = None
    settings: Mapping[str, Any] = {}
    """What a training configuration says of it; nothing where that is of another class."""

    product: Variable | None = None
    """The product of Nadam's momentums."""

    scaled: bool = False
    """Whether a LossScaleOptimizer is around it, as far as is told."""

    wrapper: Mapping[str, str] = {}
    """The keys of the numbers that a LossScaleOptimizer around it has, by what they are."""

    copies: Mapping[str, str] = {}
    """The keys of second copies that a LossScaleOptimizer lists, each with that of the first."""

    owners: tuple[tuple[str, str], ...] = ()
    """The key of each slot's variable and the slot's meaning, where an object graph tells."""

    held: Mapping[tuple[int, str], Variable] = {}
    """The slot of each variable of the model, by its identity and the slot's meaning, where that is known."""

    def with_numbers(self, iterations: float | None, learning_rate: float | None) -> StoredOptimizer:
        """Return the same with numbers in place of those that the checkpoint has."""
        found = self
        if iterations is not None:
            found = found._replace(iteration=replace(found.iteration, key=None, value=iterations))
        if learning_rate is not None:
            rate = found.rates.get(LEARNING_RATE, Variable(LEARNING_RATE, False, LEARNING_RATE))
            rates = {**found.rates, LEARNING_RATE: replace(rate, key=None, value=learning_rate)}
            found = found._replace(rates=rates)
        return found

    @property
    def title(self) -> str:
        """Its name for people, with its generation."""
        return f"{self.name or UNKNOWN_CLASS} of {TITLES[self.generation]}"

    @property
    def is_told(self) -> bool:
        """Whether it is told whose the slots are; of gradient descent, which may have none, it is."""
        row = self.row
        return bool(self.held) or (
            not self.slots and row is not None and all(one.made_by for one in row.slots)
        )

    @property
    def in_use(self) -> frozenset[str]:
        """The meanings of slots that a setting turns on."""
        slots = self.row.slots if self.row is not None else ()
        return frozenset(slot.meaning for slot in slots if self.settings.get(slot.made_by))

    @property
    def idle(self) -> set[str]:
        """The keys of slots that are made without need, as Keras 2.11 does of SGD without momentum."""
        found = (slot for (_, meaning), slot in self.held.items() if meaning in self.idle_meanings)
        return {slot.key for slot in found if slot.key is not None}

    @property
    def idle_meanings(self) -> set[str]:
        """The meanings of slots that are made here though a setting turns them off."""
        settings, slots = self.settings, self.row.slots if self.row is not None else ()
        off = {slot.meaning for slot in slots if slot.made_by in settings and not settings[slot.made_by]}
        return {slot.meaning for slot in slots if slot.meaning in off and self.generation in slot.idle_in}

    @property
    def listed_keys(self) -> tuple[str, ...]:
        """The keys of all that a newer optimizer lists, in its order; nothing of a legacy one."""
        if self.generation not in (KERAS2, KERAS3):
            return ()
        every = (self.iteration, self.rates.get(LEARNING_RATE), *self.slots, self.product)
        return tuple(each.key for each in every if each is not None and each.key is not None)

    def keys(self) -> list[str]:
        """Return the keys of all that it is made of in the source."""
        product = [self.product] if self.product is not None else []
        variables = (self.iteration, *self.rates.values(), *self.slots, *product)
        held = [variable.key for variable in variables if variable.key is not None]
        return [*held, *self.wrapper.values(), *self.copies]


def stored_optimizer(
    source: FormatReader, beside: KerasFacts | None = None, said: str | None = None
) -> StoredOptimizer | None:
    """Return the state that a checkpoint has of its optimizer; None where it has none that is known here.

    `beside` are a configuration, and one of training, that are given beside the checkpoint.  `said` is the
    class of the optimizer if the checkpoint does not tell it.  Of a LossScaleOptimizer it is that of the
    optimizer in it.
    """
    read = _READERS.get(source.format.name)
    told = unwrapped(optimizer_settings(source, beside))
    found = read(source, told) if read is not None else None
    if found is None:
        return None
    called, settings = told[0] or "", told[1]
    known, beside_it = named(found.name), named(called)
    is_another = known is not None and beside_it is not None and known is not beside_it
    name = found.name or called or said or ""
    scaled = found.scaled or optimizer_settings(source)[0] in LOSS_SCALING
    found = found._replace(name=name, row=named(name), settings={} if is_another else settings, scaled=scaled)
    if source.object_graph is None:
        return found
    wanted = unwrapped(settings_in(beside))[0] if beside is not None else None
    return _in_graph(found, source, named(wanted or ""))


def unwrapped(told: Told) -> Told:
    """Return class and settings of the optimizer in a LossScaleOptimizer, and of any other itself."""
    inner = told[1].get("inner_optimizer") if told[0] in LOSS_SCALING else None
    return _class_and_settings(inner) if isinstance(inner, dict) else told


def optimizer_settings(source: FormatReader, beside: KerasFacts | None = None) -> Told:
    """Return class and settings of the optimizer that a training configuration tells of."""
    own = keras_facts(source.facts)
    return settings_in(*(facts for facts in (own, beside) if facts is not None))


def settings_in(*texts: KerasFacts) -> Told:
    """Return class and settings of the optimizer that the first of these tells of that does."""
    found = next((one for facts in texts if (one := _told(facts.training_config, "optimizer_config"))), None)
    if found is None:
        compiled = next((one for facts in texts if (one := _told(facts.config, "compile_config"))), None)
        found = compiled.get("optimizer") if compiled is not None else None
    return _class_and_settings(found) if isinstance(found, dict) else (None, {})


def _class_and_settings(found: dict[str, Any]) -> Told:
    name, config = found.get("class_name"), found.get("config")
    known = name.rpartition(">")[2] if isinstance(name, str) else None
    return known, config if isinstance(config, dict) else {}


def _told(text: str | None, name: str) -> dict[str, Any] | None:
    try:
        found = parse_object(text).get(name) if text else None
    except ValueError:
        return None  # The weights do not depend on it; `verify` says what is wrong with it.
    return found if isinstance(found, dict) else None


def _rates(names: Sequence[str], settings: Mapping[str, Any], prefix: str) -> dict[str, Variable]:
    given = {name: settings.get(name) for name in names}
    return {
        name: Variable(name, False, f"{prefix}{name}", value=float(value))
        for name, value in given.items()
        if isinstance(value, int | float) and abs(value) <= _LARGEST_RATE
    }


def _of_h5(source: FormatReader, told: Told) -> StoredOptimizer | None:
    group = keras_facts(source.facts).optimizer
    if group is None or not group.weights:
        return None
    held = [Variable("", False, name, key) for key, name in group.names]
    wrapper: dict[str, str] = {}
    if [one.full_name.rpartition("/")[2] for one in held[:4]] == list(_WRAPPER):
        wrapper, held = _wrapper([key for key, _ in group.names[:4]]), held[4:]
    first, (called, settings) = held[0].full_name, told
    if first == "iteration":
        slots = [replace(one, name=_slot_name(one.full_name)) for one in held[1:]]
        name = called or (slots[0].full_name.partition("/")[0] if slots else "")
        return StoredOptimizer(KERAS2, name, held[0], tuple(slots), _rates(("learning_rate",), settings, ""))
    if first == "iter" or first.endswith("/iter"):  # the former where a program looked at it before training
        name = first.removesuffix("iter").removesuffix("/").rpartition("/")[2] or called or ""
        slots = [replace(one, name=one.full_name.rpartition("/")[2]) for one in held[1:]]
        product = slots.pop(0) if slots and slots[0].name == "momentum_cache" else None
        rates = _rates(_LEGACY_SCALARS, settings, f"{name}/")
        return StoredOptimizer(LEGACY, name, held[0], tuple(slots), rates, product=product)
    if first.endswith("/iteration"):
        name = called or _cased(first.partition("/")[0])
        # A schedule is no variable.
        has_rate = len(held) > 1 and held[1].full_name.endswith("/learning_rate")
        rates = {"learning_rate": held[1]} if has_rate else {}
        slots, product = _without_product(held[1 + len(rates) :], source)
        return StoredOptimizer(
            KERAS3, name, held[0], tuple(slots), rates, product=product, wrapper=wrapper, scaled=bool(wrapper)
        )
    return None


def _wrapper(keys: Sequence[str]) -> dict[str, str]:
    """Return the keys of a LossScaleOptimizer's own numbers, by what they are."""
    return dict(zip(_WRAPPER.values(), keys, strict=True))


def _slot_name(full_name: str) -> str:
    """Return the slot in a full name of Keras 2.11 and later: `m` in `Adam/m/kernel` and in `m/kernel`."""
    parts = full_name.split("/")[:2]
    return next((part for part in parts if part in _SLOT_NAMES), "")


def _without_product(held: list[Variable], source: FormatReader) -> tuple[list[Variable], Variable | None]:
    """Return slots without the product of momentums, a scalar that Keras 3's Nadam has behind them."""
    last = source.specs[held[-1].key] if held and held[-1].key is not None else None
    if last is None or last.shape or len(held) % 2 == 0:
        return held, None
    return held[:-1], held[-1]


def _cased(name: str) -> str:
    """Return the class that an optimizer of Keras 3 is named after: `rm_sprop_1` after RMSprop."""
    base = _COUNTED.sub("", name)
    return next((known for known in BY_NAME if snake_case(known) == base), name)


def _of_weights(source: FormatReader, told: Told) -> StoredOptimizer | None:
    reader: Any = source
    inner, outer = reader.variables("optimizer/inner_optimizer/vars"), reader.variables("optimizer/vars")
    keys = inner or outer
    if not keys:
        return None
    held = [Variable("", False, key=key) for key in keys]
    wrapper: dict[str, str] = {}
    copies: dict[str, str] = {}
    own = len(outer) - len(inner)
    if inner and own in (0, len(_WRAPPER)):
        # Keras 2 lists none of the wrapper's own numbers.
        wrapper = _wrapper(outer[:own]) if own else {}
        copies = dict(zip(outer[own:], inner, strict=True))
    group = "optimizer/inner_optimizer/vars" if inner else "optimizer/vars"
    name = keras_facts(source.facts).object_names.get(group)
    if name is None or len(held) < 2 or source.specs[keys[1]].shape:
        # Of Keras 2; or of Keras 3 with a schedule, which is no variable.
        rates = _rates(("learning_rate",), told[1], "")
        # This program names the optimizer of Keras 2, too, whose configuration then has no schedule.
        may_be_scheduled = not told[1] or isinstance(told[1].get("learning_rate"), dict)
        is_keras_3 = keras_facts(source.facts).major == "3" and may_be_scheduled
        generation = KERAS3 if is_keras_3 else KERAS2
        state = StoredOptimizer(generation, _cased(name or ""), held[0], tuple(held[1:]), rates)
        return state._replace(wrapper=wrapper, copies=copies, scaled=bool(inner))
    slots, product = _without_product(held[2:], source)
    rates = {"learning_rate": held[1]}
    state = StoredOptimizer(KERAS3, _cased(name), held[0], tuple(slots), rates, product=product)
    return state._replace(wrapper=wrapper, copies=copies, scaled=bool(inner))


def _of_graph(source: FormatReader, _: Told) -> StoredOptimizer | None:
    graph = source.object_graph
    if graph is None:
        return None
    keys = {node: key for key, (node, _, _) in graph.tensors(source.specs).items()}
    # `Checkpoint(model=...)` has it below the model, a LossScaleOptimizer of Keras 3 within itself.
    found_at = (dict(graph.children(at)).get(OPTIMIZER) for at in graph.reachable())
    node = next((at for at in found_at if at is not None), None)
    if node is None:
        return None
    outer = dict(graph.children(node))
    wrapper = {}
    is_scaled = "inner_optimizer" in outer or "loss_scale" in outer
    if "inner_optimizer" in outer:
        told = zip(_WRAPPER_EDGES, _WRAPPER.values(), strict=True)
        wrapper = {what: keys[outer[edge]] for edge, what in told if outer.get(edge) in keys}
    node = outer.get("inner_optimizer", node)
    edges = dict(graph.children(node))

    def held(at: int | None, name: str = "") -> Variable | None:
        if at is None or at not in keys:
            return None
        return Variable(name, False, source.full_names.get(keys[at], ""), keys[at])

    iteration = held(edges.get("_iterations", edges.get("iter")))
    if iteration is None:
        return None
    if "iter" in edges:
        own = [slot for slot in graph.slots if slot.optimizer == node and slot.node in keys]
        slots = [held(slot.node, slot.name) for slot in own]
        owners = tuple((keys[slot.variable], slot.name) for slot in own if slot.variable in keys)
        rates = {name: rate for name in _LEGACY_SCALARS if (rate := held(edges.get(name), name))}
        name = iteration.full_name.removesuffix("/iter")
        product = held(edges.get("momentum_cache"))
        found = tuple(slot for slot in slots if slot)
        return StoredOptimizer(
            LEGACY, name, iteration, found, rates, product=product, scaled=is_scaled, owners=owners
        )
    listed = dict(graph.children(edges["_variables"])) if "_variables" in edges else {}
    order = [listed[name] for name in sorted(listed, key=lambda name: (len(name), name))]
    is_keras_3 = "_trainable_variables" in edges
    learning_rate = held(edges.get("_learning_rate"), "learning_rate")
    product = held(edges.get("_u_product"))
    numbers = {one.key for one in (iteration, learning_rate, product) if one is not None}
    stored = [held(at) for at in order]
    members = [one for one in stored if one is not None and one.key not in numbers]
    if None in stored:
        return None
    named = [replace(one, name=_slot_name(one.full_name)) for one in members]
    rates = {"learning_rate": learning_rate} if learning_rate is not None else {}
    name = _cased((members[0] if members else iteration).full_name.partition("/")[0])
    generation = KERAS3 if is_keras_3 else KERAS2
    state = StoredOptimizer(generation, name, iteration, tuple(named), rates, product=product)
    return state._replace(wrapper=wrapper, scaled=is_scaled)


def _in_graph(optimizer: StoredOptimizer, source: FormatReader, wanted: Row | None) -> StoredOptimizer:
    """Return the same with what the object graph tells: whose the slots are, and of which class."""
    assert source.object_graph is not None
    states = training_states(source.object_graph, source.specs, source.full_names)
    iteration = optimizer.iteration.key
    state = next(one for one in states if iteration in one.numbers.get(ITERATIONS, ()))
    rows = [row for told in (optimizer.row, wanted) for row in state.known if row is told]
    rows = rows or list(state.known)
    # What can be one or the other, as SGD and Lion of Keras 2.11, is listed alike by both.
    if len({tuple(map(len, row.order)) for row in rows}) != 1:
        return optimizer._replace(row=None)
    row, meanings = rows[0], rows[0].meanings(state.generation)
    owners = {key: (variable, meanings[name]) for (variable, name), key in state.slots.items()}
    name = optimizer.name if state.generation == LEGACY else row.name
    known = [owners[slot.key] for slot in optimizer.slots if slot.key in owners]
    return optimizer._replace(row=row, name=name, owners=tuple(known))


_READERS: dict[str, Callable[[FormatReader, Told], StoredOptimizer | None]] = {
    "keras-h5": _of_h5,
    "keras-weights": _of_weights,
    "keras": _of_weights,
    "tf-object": _of_graph,
}
