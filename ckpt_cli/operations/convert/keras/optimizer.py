"""An optimizer's state, as each layout of Keras has it.

    Keras 2, since 2.11    a list: iteration, then slots, as its class makes them
    Keras 2, legacy        iter, and slots by variable: all of one name, then all of the next
    Keras 3                a list: iteration, learning rate, then slots

In keras-h5 the list is `optimizer_weights`, in .weights.h5 and .keras `/optimizer/vars`, in
TensorFlow's graph the edge `_variables`; a legacy one's slots are slot variables there.  A
slot is carried as what it means of its variable (`formats.keras.optimizers`), and listed
where the target's Keras looks for it.  State of which that is not known goes to the same
generation only, as it is listed; elsewhere it has no place (`NoPlaceError`).
keras/src/optimizers/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import ConversionError
from formats.keras.config import snake_case
from formats.keras.facts import keras_facts
from formats.keras.model import Edge, Unit, Variable, legacy_order, trained_order
from formats.keras.optimizer_state import LOSS_SCALING, optimizer_state, settings_in, unwrapped
from formats.keras.optimizers import KERAS2, KERAS3, LEGACY, PYTORCH, TITLES, flaw_between, named, state_of
from formats.keras.slot_owners import SlotList, fits
from formats.keras.training_state import ITERATIONS, UNKNOWN_CLASS, training_states
from formats.model.reader import Family

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.keras.facts import KerasFacts
    from formats.keras.optimizers import Optimizer as Row
    from formats.keras.optimizers import SlotKind
    from formats.keras.variable_layout import Placed, SlotOf
    from formats.model.reader import FormatReader

    from ..optimizers import Given


RATE = "learning_rate"
_SCALER = "loss_scale_optimizer"
_WRAPPER = {
    "iterations": "iteration",
    RATE: RATE,
    "good_steps": "step_counter",
    "loss_scale": "dynamic_scale",
}
"""The numbers of Keras 3's LossScaleOptimizer in its order, by what they are."""
_PRODUCT = {KERAS2: "_u_product", KERAS3: "variable", LEGACY: "momentum_cache"}
"""What the product of Nadam's momentums is called."""


class NoPlaceError(ConversionError):
    """A layout has no place for an optimizer's state; the message says why."""


class Wanted(NamedTuple):
    """What a training configuration has its optimizer make: of which class, by which settings."""

    called: str
    row: Row | None
    made: frozenset[str]
    """The settings that make slots and are on."""

    is_scheduled: bool
    """Whether a schedule has the place of the learning rate, which is then no variable."""

    is_scaled: bool = False
    """Whether it is within a LossScaleOptimizer."""

    may_be_scaled: bool = False
    """Whether `compile` may put it into one without saying so, as it does for half precision."""

    @property
    def state(self) -> tuple[str, frozenset[str], bool, bool]:
        """All that decides which list it makes."""
        name = state_of(self.row) if self.row is not None else self.called
        return name, self.made, self.is_scheduled, self.is_scaled

    def meanings(self, generation: str) -> set[str]:
        """Return the meanings of the slots that it makes in a generation."""
        every = self.row.slots if self.row is not None else ()
        return {
            slot.meaning
            for slot in every
            if slot.name(generation)
            and (not slot.made_by or slot.made_by in self.made or generation in slot.idle_in)
        }


class StoredOptimizer(NamedTuple):
    """State of an optimizer; slots are in the order stored.

    `row` is what the table knows of its class.  `rates` are hyperparameters, whose values a
    configuration may give where no tensor does.
    """

    generation: str
    name: str
    row: Row | None
    iteration: Variable
    slots: tuple[Variable, ...]
    rates: Mapping[str, Variable]
    settings: Mapping[str, Any] = {}
    product: Variable | None = None
    owners: tuple[tuple[str, str], ...] = ()
    """The key of each slot's variable and the slot's meaning, where an object graph tells."""

    held: Mapping[tuple[int, str], Variable] = {}
    """The slot of each variable of the model, by its identity and the slot's meaning, where that is known."""

    scaled: bool = False
    """Whether the file has it within a LossScaleOptimizer."""

    wrapper: Mapping[str, str] = {}
    copies: Mapping[str, str] = {}
    """The keys of a LossScaleOptimizer's own numbers, and of its copies of the optimizer's."""

    wanted: Wanted | None = None
    """What the target's configuration says, where it does."""

    def given(self, given: Given) -> StoredOptimizer:
        """Return the same with what options say in place of what SRC does."""
        found = self
        if given.iterations is not None:
            found = found._replace(iteration=replace(found.iteration, key=None, value=given.iterations))
        if given.learning_rate is not None:
            rate = found.rates.get(RATE, Variable(RATE, False, RATE))
            rates = {**found.rates, RATE: replace(rate, key=None, value=given.learning_rate)}
            found = found._replace(rates=rates)
        return found

    # Whose the slots are ------------------------------------------------------------------

    def owned(self, model: Unit, shapes: Mapping[str, tuple[int, ...]]) -> StoredOptimizer:
        """Return the same with the variable and the meaning of each slot.

        `shapes` are those of all tensors: what does not fit is of another model, and stays unknown.
        """
        if self.row is None:
            return self
        listed = self._by_key(model) if self.owners else self._told_by(self.row, model)
        if not fits(self.slots, listed, shapes):
            return self
        pairs = zip(self.slots, listed, strict=True)
        return self._replace(held={(id(variable), meaning): slot for slot, (variable, meaning) in pairs})

    def _told_by(self, row: Row, model: Unit) -> list[tuple[Variable, str]]:
        return SlotList(row, self.generation, self.name, self.slots, self.settings).owners(model)

    def _by_key(self, model: Unit) -> list[tuple[Variable, str]]:
        variables = {variable.key: variable for variable in model.all_variables()}
        return [(variables[key], meaning) for key, meaning in self.owners if key in variables]

    # In a generation ----------------------------------------------------------------------

    def listed(self, generation: str, model: Unit) -> list[tuple[Variable, str]]:
        """Return the list that a generation has, each with its full name.

        Raises NoPlaceError where that is not known.
        """
        wanted, rate = self.wanted, self.rates.get(RATE)
        self._check_wrapper(generation)
        filled = self._filled(generation, model)
        if wanted is not None:
            filled._check(wanted, generation)
        slots = filled._slots(generation, model)
        if wanted is not None and wanted.is_scheduled:
            rate = None
        elif generation == KERAS3 and rate is None and (wanted is not None or self.generation != KERAS3):
            message = "Keras 3 lists the learning rate with it, and SRC does not store the rate"
            raise NoPlaceError(message, hints=("--learning-rate R gives it",))
        if (
            generation != KERAS2
            and self.row is not None
            and self.row.name == "Nadam"
            and self.product is None
        ):
            message = f"{TITLES[self.generation]} leaves the product of Nadam's momentums out of files"
            raise NoPlaceError(message)
        prefix = self._prefix(generation)
        heads = {KERAS2: "iteration", LEGACY: f"{prefix}/iter", KERAS3: f"{prefix}/iteration"}
        listed = [(self.iteration, heads[generation])]
        if generation == KERAS3 and rate is not None:
            listed.append((rate, f"{prefix}/{RATE}"))
        if generation == LEGACY and self.product is not None:
            listed.append((self.product, f"{prefix}/{_PRODUCT[LEGACY]}"))
        listed += slots
        if generation == KERAS3 and self.product is not None:
            listed.append((self.product, _PRODUCT[KERAS3]))
        return listed

    def _check_wrapper(self, generation: str) -> None:
        """Raise NoPlaceError if only one side has a LossScaleOptimizer, or one of another generation."""
        wanted = self.wanted
        may_differ = wanted is None or (self.scaled and wanted.may_be_scaled)
        if wanted is not None and wanted.is_scaled != self.scaled and not may_differ:
            side, other = (
                ("SRC's", "the configuration's") if self.scaled else ("the configuration's", "SRC's")
            )
            raise NoPlaceError(f"{side} optimizer is within a LossScaleOptimizer, {other} is not")
        is_whole = generation != KERAS3 or len(self.wrapper) == len(_WRAPPER)
        if self.scaled and not (generation == self.generation and is_whole):
            message = "it is within a LossScaleOptimizer, whose own numbers SRC does not hold in this form"
            raise NoPlaceError(message)

    def _wrapped(self) -> list[tuple[Variable, str]]:
        """Return the numbers that a LossScaleOptimizer of Keras 3 lists before others, with their names."""
        held = [(name, self.wrapper.get(what)) for what, name in _WRAPPER.items()]
        return [
            (Variable(name, False, f"{_SCALER}/{name}", key), f"{_SCALER}/{name}")
            for name, key in held
            if key
        ]

    def _check(self, wanted: Wanted, generation: str) -> None:
        """Raise NoPlaceError where the configuration's optimizer would take these slots for others."""
        row, other, called = self.row, wanted.row, wanted.called
        mine = row or named(self.name)
        of_one_class = snake_case(self.name) == snake_case(called)
        if not of_one_class and (mine is None or other is None or state_of(mine) != state_of(other)):
            raise NoPlaceError(f"the configuration's optimizer is {called}")
        if row is None and other is not None:
            raise NoPlaceError(f"these are not the slots of the configuration's {called}")
        if row is None or not self.is_told:
            return
        have = {
            meaning
            for _, meaning in self.held
            if meaning not in self._idle or generation in row.slot(meaning).idle_in
        }
        want = wanted.meanings(generation)
        for these, what in ((have - want, "keeps no"), (want - have, "keeps, and SRC does not,")):
            if these:
                names = " and ".join(sorted(these))
                raise NoPlaceError(f"the configuration's {called} {what} {names}")

    def _slots(self, generation: str, model: Unit) -> list[tuple[Variable, str]]:
        """Return the slots of a generation in its order, each with its full name."""
        row = self.row
        if row is None or not self.is_told:
            if generation == self.generation:
                return self._as_stored()
            raise NoPlaceError(self._unknown)
        flaw = flaw_between(row, self.generation, generation)
        if flaw is not None:
            raise NoPlaceError(flaw)
        listed = []
        for group in row.listed(generation):
            for variable in legacy_order(model):
                for meaning in group:
                    slot = self.held.get((id(variable), meaning))
                    if slot is not None and (
                        meaning not in self._idle or generation in row.slot(meaning).idle_in
                    ):
                        if not slot.full_name or generation != self.generation:
                            slot.full_name = self._full_name(generation, row.slot(meaning), variable)
                        listed.append((slot, slot.full_name))
        return listed

    @property
    def is_told(self) -> bool:
        """Whether it is told whose the slots are; of gradient descent, which may have none, it is."""
        row = self.row
        return bool(self.held) or (
            not self.slots and row is not None and all(one.made_by for one in row.slots)
        )

    @property
    def _unknown(self) -> str:
        if self.row is None:
            return f"the slots of {self.name or UNKNOWN_CLASS} are not known here"
        return "SRC does not identify these slots; pass --config with a file of the compiled model"

    @property
    def title(self) -> str:
        """Its name for people, with its generation."""
        return f"{self.name or UNKNOWN_CLASS} of {TITLES[self.generation]}"

    @property
    def idle(self) -> set[str]:
        """The keys of slots that are made without need, as Keras 2.11 does of SGD without momentum."""
        found = (slot for (_, meaning), slot in self.held.items() if meaning in self._idle)
        return {slot.key for slot in found if slot.key is not None}

    @property
    def in_use(self) -> frozenset[str]:
        """The meanings of slots that a setting turns on."""
        slots = self.row.slots if self.row is not None else ()
        return frozenset(slot.meaning for slot in slots if self.settings.get(slot.made_by))

    @property
    def _idle(self) -> set[str]:
        """The meanings of slots that are made here though a setting turns them off."""
        settings, slots = self.settings, self.row.slots if self.row is not None else ()
        off = {slot.meaning for slot in slots if slot.made_by in settings and not settings[slot.made_by]}
        return {slot.meaning for slot in slots if slot.meaning in off and self.generation in slot.idle_in}

    def _filled(self, generation: str, model: Unit) -> StoredOptimizer:
        """Return the same with zeros for slots that another generation makes without need."""
        if self.row is None or not self.is_told or generation == self.generation:
            return self
        have = {meaning for _, meaning in self.held}
        added = {
            (id(variable), slot.meaning): Variable(slot.name(generation), False, value=0.0, like=variable.key)
            for slot in self.row.slots
            if generation in slot.idle_in and slot.meaning not in have
            for variable in trained_order(model)
        }
        return self._replace(held={**self.held, **added})

    def _as_stored(self) -> list[tuple[Variable, str]]:
        prefix = self._prefix(self.generation)
        names = [slot.full_name or f"{prefix}/slot_{at}" for at, slot in enumerate(self.slots)]
        return list(zip(self.slots, names, strict=True))

    def _prefix(self, generation: str) -> str:
        """Return what the names of its variables begin with; nobody needs it, so any will do."""
        name = self.name or "optimizer"
        return snake_case(name) if generation == KERAS3 else name

    def _full_name(self, generation: str, slot: SlotKind, variable: Variable) -> str:
        prefix = self._prefix(generation)
        if generation == LEGACY:
            return f"{prefix}/{variable.full_name}/{slot.legacy}"
        if generation == KERAS2:
            return f"{prefix}/{slot.keras2}/{variable.full_name}"
        return f"{prefix}/{variable.full_name.replace('/', '_')}_{slot.keras3}"

    @property
    def listed_keys(self) -> tuple[str, ...]:
        """The keys of all that a newer optimizer lists, in its order; nothing of a legacy one."""
        if self.generation not in (KERAS2, KERAS3):
            return ()
        every = (self.iteration, self.rates.get(RATE), *self.slots, self.product)
        return tuple(each.key for each in every if each is not None and each.key is not None)

    def keys(self) -> list[str]:
        """Return the keys of all that it is made of in the source."""
        product = [self.product] if self.product is not None else []
        variables = (self.iteration, *self.rates.values(), *self.slots, *product)
        held = [variable.key for variable in variables if variable.key is not None]
        return [*held, *self.wrapper.values(), *self.copies]

    # In the layouts ----------------------------------------------------------------------

    def graph(self, model: Unit, facts: KerasFacts) -> tuple[Unit, list[SlotOf]]:
        """Return the optimizer's node in the graph of Keras 2, and its slot variables.

        `facts` tell for which of its generations, where the state is none of Keras'.
        """
        if LEGACY in (self.generation, generation_told(facts) if self.generation == PYTORCH else None):
            return self._legacy_graph(model)
        if self.scaled:
            raise NoPlaceError("it is within a LossScaleOptimizer, whose own numbers SRC does not hold")
        whole = self._filled(KERAS2, model)
        listed = whole.listed(KERAS2, model)
        for variable, full_name in listed:
            variable.full_name = full_name
        node = Unit()
        node.edges = [
            Edge("_variables", _list([variable for variable, _ in listed])),
            Edge("_iterations", self.iteration),
        ]
        if RATE in self.rates:
            node.edges.append(Edge(f"_{RATE}", self.rates[RATE]))
        node.edges.append(Edge("_index_dict", Unit()))
        for slot in self.row.slots if self.row is not None else ():
            members = [whole.held.get((id(variable), slot.meaning)) for variable in legacy_order(model)]
            found = [member for member in members if member is not None]
            if found:
                node.edges.append(Edge(slot.list2, _list(found)))
        if self.product is not None:
            node.edges.append(Edge(_PRODUCT[KERAS2], self.product))
        return node, []

    def keras3_node(self, model: Unit) -> Unit:
        """Return the optimizer's node in the graph of Keras 3."""
        whole = self._filled(KERAS3, model)
        listed = whole.listed(KERAS3, model)
        for variable, full_name in listed:
            variable.full_name = full_name
        node = Unit()
        node.edges = [
            Edge("_variables", _list([variable for variable, _ in listed])),
            Edge("_trainable_variables", _list(trained_order(model))),
            Edge("_iterations", self.iteration),
        ]
        if any(variable is self.rates.get(RATE) for variable, _ in listed):
            node.edges.append(Edge(f"_{RATE}", self.rates[RATE]))
        for slot in self.row.slots if self.row is not None else ():
            members = [whole.held.get((id(variable), slot.meaning)) for variable in legacy_order(model)]
            found = [member for member in members if member is not None]
            if found:
                node.edges.append(Edge(slot.list3, _list(found)))
        if self.product is not None:
            node.edges.append(Edge("_u_product", self.product))
        return self._scaler_of(node) if self.scaled else node

    def _scaler_of(self, inner: Unit) -> Unit:
        """Return the node of a LossScaleOptimizer of Keras 3."""
        held = [variable for variable, _ in self._wrapped()]
        names = ("_iterations", f"_{RATE}", "step_counter", "dynamic_scale")
        edges = [Edge(name, variable) for name, variable in zip(names, held, strict=True)]
        return Unit(edges=[Edge("_variables", _list(held)), *edges, Edge("inner_optimizer", inner)])

    def _legacy_graph(self, model: Unit) -> tuple[Unit, list[SlotOf]]:
        if self.slots and not self.held:
            raise NoPlaceError(self._unknown)
        slots = [
            (slot.legacy, variable, self.held[id(variable), slot.meaning])
            for slot in (self.row.slots if self.row is not None else ())
            for variable in model.all_variables()
            if (id(variable), slot.meaning) in self.held
        ]
        node = Unit(edges=[Edge("iter", self.iteration)])
        node.edges += [Edge(name, variable) for name, variable in self.rates.items()]
        if self.product is not None:
            node.edges.append(Edge(_PRODUCT[LEGACY], self.product))
        return node, slots

    def h5_names(self, model: Unit, facts: KerasFacts) -> list[tuple[Variable, str]]:
        """Return the names, without `:0`, under which keras-h5 has the state; `facts` are the file's own."""
        if facts.major == "3":
            return [*self._wrapped(), *self.listed(KERAS3, model)]
        return self.listed(generation_told(facts) or (LEGACY if self.generation == LEGACY else KERAS2), model)

    def weights_paths(self, model: Unit, major: str) -> list[Placed]:
        """Return the paths under which keras-weights and keras have the state."""
        listed = self.listed(KERAS3 if major == "3" else KERAS2, model)
        if not self.scaled:
            return [(variable, f"optimizer/vars/{number}") for number, (variable, _) in enumerate(listed)]
        # A LossScaleOptimizer lists the variables of the optimizer in it a second time.
        groups = {"optimizer/vars": [*self._wrapped(), *listed], "optimizer/inner_optimizer/vars": listed}
        return [
            (variable, f"{group}/{number}")
            for group, held in groups.items()
            for number, (variable, _) in enumerate(held)
        ]


def _list(variables: Sequence[Variable]) -> Unit:
    return Unit(edges=[Edge(str(number), variable) for number, variable in enumerate(variables)])


# From the layouts ------------------------------------------------------------------------


def generation_told(facts: KerasFacts) -> str | None:
    """Return the generation of the optimizer that a training configuration tells of, if it does."""
    _, settings = unwrapped(settings_in(facts))
    if facts.major == "3":
        return KERAS3 if settings else None
    # Of Keras 2 the newer ones say that they are not legacy, the legacy ones have a decay.
    return KERAS2 if "is_legacy_optimizer" in settings else LEGACY if "decay" in settings else None


def wanted_by(facts: KerasFacts) -> Wanted | None:
    """Return what a training configuration has its optimizer make; None where it tells of none."""
    told = settings_in(facts)
    called, settings = unwrapped(told)
    if called is None:
        return None
    row = named(called)
    made = frozenset(slot.made_by for slot in (row.slots if row else ()) if settings.get(slot.made_by))
    is_scheduled = isinstance(settings.get(RATE), dict)
    is_half = "mixed_float16" in (facts.config or "")
    return Wanted(called, row, made, is_scheduled, told[0] in LOSS_SCALING, is_half)


def optimizer_of(
    source: FormatReader, beside: KerasFacts | None = None, said: str | None = None
) -> StoredOptimizer | None:
    """Return the state that a checkpoint has of its optimizer; None where it has none that is known here.

    `beside` are configurations that may tell the optimizer's class, `said` is its class if nothing does.
    """
    state = optimizer_state(source, beside, said)
    if state is None:
        return None
    found = StoredOptimizer(
        state.generation,
        state.name,
        named(state.name),
        state.iteration,
        state.slots,
        state.rates,
        state.settings,
        state.product,
        scaled=state.scaled
        or ((told := wanted_by(keras_facts(source.facts))) is not None and told.is_scaled),
        wrapper=state.wrapper,
        copies=state.copies,
        wanted=wanted_by(beside) if beside is not None else None,
    )
    return _in_graph(found, source) if source.object_graph is not None else found


def differing_optimizers(source: FormatReader, template: FormatReader, said: str | None = None) -> str | None:
    """Return why the state of one is not that of the other, whatever its names are; None where it is.

    In .weights.h5 and .keras slots have numbers for names, which another class counts otherwise.
    Of what only has such names, an .npz that was made of one, they are all there is to tell.
    """
    if any(
        reader.format.family is not Family.KERAS and reader.object_graph is None
        for reader in (source, template)
    ):
        return None
    mine, theirs = optimizer_of(source, said=said), optimizer_of(template, said=said)
    if mine is None or theirs is None or not mine.name or not theirs.name:
        side = "TEMPLATE" if mine is not None and mine.name else "SRC"
        return f"the class of {side}'s optimizer is not stored, so the meaning of its slots is unknown"
    if (mine.generation, mine.row or mine.name) == (theirs.generation, theirs.row or theirs.name):
        return None
    return f"SRC's optimizer is {mine.title}, TEMPLATE's is {theirs.title}"


def _in_graph(optimizer: StoredOptimizer, source: FormatReader) -> StoredOptimizer:
    """Return the same with what the object graph tells: whose the slots are, and of which class."""
    assert source.object_graph is not None
    states = training_states(source.object_graph, source.specs, source.full_names)
    iteration = optimizer.iteration.key
    state = next(one for one in states if iteration in one.numbers.get(ITERATIONS, ()))
    named_so = (optimizer.row, optimizer.wanted.row if optimizer.wanted is not None else None)
    rows = [row for told in named_so for row in state.known if row is told] or list(state.known)
    # What can be one or the other, as SGD and Lion of Keras 2.11, is listed alike by both.
    if len({tuple(map(len, row.order)) for row in rows}) != 1:
        return optimizer._replace(row=None)
    row, meanings = rows[0], rows[0].meanings(state.generation)
    owners = {key: (variable, meanings[name]) for (variable, name), key in state.slots.items()}
    name = optimizer.name if state.generation == LEGACY else row.name
    known = [owners[slot.key] for slot in optimizer.slots if slot.key in owners]
    return optimizer._replace(row=row, name=name, owners=tuple(known))
