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

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import ConversionError
from formats.keras.config import snake_case
from formats.keras.model import Edge, Unit, Variable, legacy_order, trained_order
from formats.keras.optimizer_state import LOSS_SCALING, settings_in, stored_state, titled, unwrapped
from formats.keras.optimizers import KERAS2, KERAS3, LEGACY, PYTORCH, TITLES, flaw_between, named, state_of
from formats.keras.slot_owners import held_slots, idle_slots, is_told
from formats.keras.training_state import ITERATIONS, MOMENTUM_PRODUCT, UNKNOWN_CLASS
from formats.model.reader import Family

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.keras.facts import KerasFacts
    from formats.keras.optimizers import Optimizer as Row
    from formats.keras.optimizers import SlotKind
    from formats.keras.training_state import TrainingState
    from formats.keras.variable_layout import Placed, SlotOf
    from formats.model.reader import FormatReader


RATE = "learning_rate"
_SCALER = "loss_scale_optimizer"
_WRAPPER = {
    "iterations": "iteration",
    RATE: RATE,
    "good_steps": "step_counter",
    "loss_scale": "dynamic_scale",
}
"""The numbers of Keras 3's LossScaleOptimizer in its order, by what they are."""
Held = Mapping[tuple[int, str], Variable]
"""The slot of each variable of the model, by its identity and the slot's meaning."""


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


class Layouts:
    """Where each layout has an optimizer's state; `wanted` is what the target's configuration says."""

    def __init__(
        self,
        state: TrainingState,
        model: Unit,
        shapes: Mapping[str, tuple[int, ...]],
        wanted: Wanted | None,
    ) -> None:
        self.state = state
        self.model = model
        self.wanted = wanted
        held = held_slots(state, model, shapes)
        self.is_told = is_told(state, held)
        self.idle = idle_slots(state, held)
        self.slots = {key: Variable("", False, state.names.get(key, ""), key) for key in state.ordered}
        self.held: Held = {at: self.slots[key] for at, key in held.items()}
        self.iteration = self._number(ITERATIONS) or Variable(ITERATIONS, False)
        self.rates = {name: one for name in state.rates if (one := self._number(name)) is not None}
        self.product = self._number(MOMENTUM_PRODUCT)

    def _number(self, name: str) -> Variable | None:
        """Return a number as a variable: what is given comes before what is stored."""
        key = self.state.number(name)
        full_name = self.state.names.get(key or name, "")
        if name in self.state.values:
            return Variable(name, False, full_name, value=self.state.values[name])
        return Variable(name, False, full_name, key) if key is not None else None

    # In a generation ----------------------------------------------------------------------

    def _listed(self, generation: str) -> list[tuple[Variable, str]]:
        """Return the list that a generation has, each with its full name.

        Raises NoPlaceError where that is not known.
        """
        mine, wanted = self.state, self.wanted
        rate = self.rates.get(RATE)
        self._check_wrapper(generation)
        held = self._held(generation)
        if wanted is not None:
            self._check(wanted, generation, held)
        slots = self._slots(generation, held)
        if wanted is not None and wanted.is_scheduled:
            rate = None
        elif generation == KERAS3 and rate is None and (wanted is not None or mine.generation != KERAS3):
            message = "Keras 3 lists the learning rate with it, and SRC does not store the rate"
            raise NoPlaceError(message, hints=("--learning-rate R gives it",))
        is_nadam = mine.row is not None and mine.row.name == "Nadam"
        if generation != KERAS2 and is_nadam and self.product is None:
            message = f"{TITLES[mine.generation]} leaves the product of Nadam's momentums out of files"
            raise NoPlaceError(message)
        prefix = self._prefix(generation)
        heads = {KERAS2: "iteration", LEGACY: f"{prefix}/iter", KERAS3: f"{prefix}/iteration"}
        listed = [(self.iteration, heads[generation])]
        if generation == KERAS3 and rate is not None:
            listed.append((rate, f"{prefix}/{RATE}"))
        if generation == LEGACY and self.product is not None:
            listed.append((self.product, f"{prefix}/momentum_cache"))
        listed += slots
        if generation == KERAS3 and self.product is not None:
            listed.append((self.product, "variable"))
        return listed

    def _check_wrapper(self, generation: str) -> None:
        """Raise NoPlaceError if only one side has a LossScaleOptimizer, or one of another generation."""
        mine, wanted = self.state, self.wanted
        may_differ = wanted is None or (mine.scaled and wanted.may_be_scaled)
        if wanted is not None and wanted.is_scaled != mine.scaled and not may_differ:
            side, other = (
                ("SRC's", "the configuration's") if mine.scaled else ("the configuration's", "SRC's")
            )
            raise NoPlaceError(f"{side} optimizer is within a LossScaleOptimizer, {other} is not")
        is_whole = generation != KERAS3 or len(mine.wrapper) == len(_WRAPPER)
        if mine.scaled and not (generation == mine.generation and is_whole):
            message = "it is within a LossScaleOptimizer, whose own numbers SRC does not hold in this form"
            raise NoPlaceError(message)

    def _check(self, wanted: Wanted, generation: str, held: Held) -> None:
        """Raise NoPlaceError where the configuration's optimizer would take these slots for others."""
        row, other, called = self.state.row, wanted.row, wanted.called
        mine = row or named(self.state.called)
        of_one_class = snake_case(self.state.called) == snake_case(called)
        if not of_one_class and (mine is None or other is None or state_of(mine) != state_of(other)):
            raise NoPlaceError(f"the configuration's optimizer is {called}")
        if row is None and other is not None:
            raise NoPlaceError(f"these are not the slots of the configuration's {called}")
        if row is None or not self.is_told:
            return
        have = {meaning for _, meaning in held if self._is_kept(row, meaning, generation)}
        want = wanted.meanings(generation)
        for these, what in ((have - want, "keeps no"), (want - have, "keeps, and SRC does not,")):
            if these:
                names = " and ".join(sorted(these))
                raise NoPlaceError(f"the configuration's {called} {what} {names}")

    def _slots(self, generation: str, held: Held) -> list[tuple[Variable, str]]:
        """Return the slots of a generation in its order, each with its full name."""
        mine = self.state
        row = mine.row
        if row is None or not self.is_told:
            if generation != mine.generation:
                raise NoPlaceError(self._unknown)
            prefix = self._prefix(generation)
            return [
                (slot, slot.full_name or f"{prefix}/slot_{at}") for at, slot in enumerate(self.slots.values())
            ]
        flaw = flaw_between(row, mine.generation, generation)
        if flaw is not None:
            raise NoPlaceError(flaw)
        listed = []
        for group in row.listed(generation):
            for variable, meaning in product(legacy_order(self.model), group):
                slot = held.get((id(variable), meaning))
                if slot is not None and self._is_kept(row, meaning, generation):
                    if not slot.full_name or generation != mine.generation:
                        slot.full_name = self._full_name(generation, row.slot(meaning), variable)
                    listed.append((slot, slot.full_name))
        return listed

    def _is_kept(self, row: Row, meaning: str, generation: str) -> bool:
        """Whether a generation has slots of a meaning, though they may be made without need."""
        return meaning not in self.state.idle_meanings or generation in row.slot(meaning).idle_in

    @property
    def _unknown(self) -> str:
        if self.state.row is None:
            return f"the slots of {self.state.called or UNKNOWN_CLASS} are not known here"
        return "SRC does not identify these slots; pass --config with a file of the compiled model"

    def _held(self, generation: str) -> Held:
        """Return the slots, with zeros for those that another generation makes without need."""
        mine = self.state
        if mine.row is None or not self.is_told or generation == mine.generation:
            return self.held
        have = {meaning for _, meaning in self.held}
        added = {
            (id(variable), slot.meaning): Variable(slot.name(generation), False, value=0.0, like=variable.key)
            for slot in mine.row.slots
            if generation in slot.idle_in and slot.meaning not in have
            for variable in trained_order(self.model)
        }
        return {**self.held, **added}

    def _prefix(self, generation: str) -> str:
        """Return what the names of its variables begin with; nobody needs it, so any will do."""
        name = self.state.called or "optimizer"
        return snake_case(name) if generation == KERAS3 else name

    def _full_name(self, generation: str, slot: SlotKind, variable: Variable) -> str:
        prefix = self._prefix(generation)
        if generation == LEGACY:
            return f"{prefix}/{variable.full_name}/{slot.legacy}"
        if generation == KERAS2:
            return f"{prefix}/{slot.keras2}/{variable.full_name}"
        return f"{prefix}/{variable.full_name.replace('/', '_')}_{slot.keras3}"

    # In the layouts ----------------------------------------------------------------------

    def graph(self, facts: KerasFacts) -> tuple[Unit, list[SlotOf]]:
        """Return the optimizer's node in the graph of Keras 2, and its slot variables.

        `facts` tell for which of its generations, where the state is none of Keras'.
        """
        mine = self.state
        if LEGACY in (mine.generation, generation_told(facts) if mine.generation == PYTORCH else None):
            return self._legacy_graph()
        if mine.scaled:
            raise NoPlaceError("it is within a LossScaleOptimizer, whose own numbers SRC does not hold")
        return self._node(KERAS2), []

    def keras3_node(self) -> Unit:
        """Return the optimizer's node in the graph of Keras 3."""
        node = self._node(KERAS3)
        if not self.state.scaled:
            return node
        held = [variable for variable, _ in self._wrapped()]
        names = ("_iterations", f"_{RATE}", "step_counter", "dynamic_scale")
        edges = [Edge(name, variable) for name, variable in zip(names, held, strict=True)]
        return Unit(edges=[Edge("_variables", _list(held)), *edges, Edge("inner_optimizer", node)])

    def _node(self, generation: str) -> Unit:
        """Return the node of an optimizer that keeps its slots in lists."""
        held = self._held(generation)
        self.held = held  # the list has the same variables
        listed = self._listed(generation)
        for variable, full_name in listed:
            variable.full_name = full_name
        rate = self.rates.get(RATE)
        in_list = [variable for variable, _ in listed]
        edges = [Edge("_variables", _list(in_list))]
        if generation == KERAS3:
            edges.append(Edge("_trainable_variables", _list(trained_order(self.model))))
        edges.append(Edge("_iterations", self.iteration))
        if rate is not None and (generation == KERAS2 or any(variable is rate for variable in in_list)):
            edges.append(Edge(f"_{RATE}", rate))
        if generation == KERAS2:
            edges.append(Edge("_index_dict", Unit()))
        for slot in self.state.row.slots if self.state.row is not None else ():
            members = [held.get((id(variable), slot.meaning)) for variable in legacy_order(self.model)]
            found = [member for member in members if member is not None]
            if found:
                edges.append(Edge(slot.name(generation), _list(found)))
        if self.product is not None:
            edges.append(Edge("_u_product", self.product))
        return Unit(edges=edges)

    def _legacy_graph(self) -> tuple[Unit, list[SlotOf]]:
        mine = self.state
        if self.slots and not self.held:
            raise NoPlaceError(self._unknown)
        slots = [
            (slot.legacy, variable, self.held[id(variable), slot.meaning])
            for slot in (mine.row.slots if mine.row is not None else ())
            for variable in self.model.all_variables()
            if (id(variable), slot.meaning) in self.held
        ]
        edges = [Edge("iter", self.iteration), *(Edge(*rate) for rate in self.rates.items())]
        if self.product is not None:
            edges.append(Edge("momentum_cache", self.product))
        return Unit(edges=edges), slots

    def _wrapped(self) -> list[tuple[Variable, str]]:
        """Return the numbers that a LossScaleOptimizer of Keras 3 lists before others, with their names."""
        held = [(name, self.state.wrapper.get(what)) for what, name in _WRAPPER.items()]
        variables = [Variable(name, False, f"{_SCALER}/{name}", key) for name, key in held if key]
        return [(variable, variable.full_name) for variable in variables]

    def h5_names(self, facts: KerasFacts) -> list[tuple[Variable, str]]:
        """Return the names, without `:0`, under which keras-h5 has the state; `facts` are the file's own."""
        if facts.major == "3":
            return [*self._wrapped(), *self._listed(KERAS3)]
        is_legacy = self.state.generation == LEGACY
        return self._listed(generation_told(facts) or (LEGACY if is_legacy else KERAS2))

    def weights_paths(self, major: str) -> list[Placed]:
        """Return the paths under which keras-weights and keras have the state."""
        listed = self._listed(KERAS3 if major == "3" else KERAS2)
        groups = {"optimizer/vars": listed}
        if self.state.scaled:
            # A LossScaleOptimizer lists the variables of the optimizer in it a second time.
            groups = {
                "optimizer/vars": [*self._wrapped(), *listed],
                "optimizer/inner_optimizer/vars": listed,
            }
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
    mine, theirs = stored_state(source, said=said), stored_state(template, said=said)
    if mine is None or theirs is None or not mine.called or not theirs.called:
        side = "TEMPLATE" if mine is not None and mine.called else "SRC"
        return f"the class of {side}'s optimizer is not stored, so the meaning of its slots is unknown"
    if (mine.generation, mine.row or mine.called) == (theirs.generation, theirs.row or theirs.called):
        return None
    return f"SRC's optimizer is {titled(mine)}, TEMPLATE's is {titled(theirs)}"
