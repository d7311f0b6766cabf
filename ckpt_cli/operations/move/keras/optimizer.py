"""An optimizer's state, as each layout of Keras has it.

    Keras 2, since 2.11    a list: iteration, then slots, as its class makes them
    Keras 2, legacy        iter, and slots by variable: all of one name, then all of the next
    Keras 3                a list: iteration, learning rate, then slots

In keras-h5 the list is `optimizer_weights`, in .weights.h5 and .keras `/optimizer/vars`, in
TensorFlow's graph the edge `_variables`; a legacy one's slots are slot variables there.  A
slot is carried as what it means of its variable (`formats.keras.optimizers`), and listed
where the target's Keras looks for it.  State of which that is not known goes to the same
generation only, as it is listed; elsewhere it is left out, and listed.
keras/src/optimizers/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.keras.config import snake_case
from formats.keras.model import Edge, Unit, Variable, legacy_order, trained_order
from formats.keras.optimizer_state import optimizer_state, settings_in
from formats.keras.optimizers import KERAS2, KERAS3, LEGACY, flaw_between, named
from formats.keras.training_state import ITERATIONS, training_states

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.keras.facts import KerasFacts
    from formats.keras.layouts import Placed, SlotOf
    from formats.keras.optimizer_state import Held
    from formats.keras.optimizers import Optimizer as Row
    from formats.keras.optimizers import Slot
    from formats.model.reader import CheckpointReader


_GENERATIONS = {"2": KERAS2, "legacy": LEGACY, "3": KERAS3}
_RATE = "learning_rate"
_PRODUCT = {KERAS2: "_u_product", KERAS3: "variable", LEGACY: "momentum_cache"}
"""What the product of Nadam's momentums is called."""


class Optimizer(NamedTuple):
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

    # Whose the slots are ------------------------------------------------------------------

    def owned(self, model: Unit, shapes: Mapping[str, tuple[int, ...]]) -> Optimizer:
        """Return the same with the variable and the meaning of each slot.

        `shapes` are those of all tensors: what does not fit is of another model, and stays unknown.
        """
        if self.row is None:
            return self
        listed = self._by_key(model) if self.owners else self._by_name(model) or self._by_order(model)
        if len(listed) != len(self.slots) or any(
            variable.key is None or slot.key is None or shapes[variable.key] != shapes[slot.key]
            for slot, (variable, _) in zip(self.slots, listed, strict=True)
        ):
            return self
        pairs = zip(self.slots, listed, strict=True)
        return self._replace(held={(id(variable), meaning): slot for slot, (variable, meaning) in pairs})

    def _by_key(self, model: Unit) -> list[tuple[Variable, str]]:
        variables = {variable.key: variable for variable in model.all_variables()}
        return [(variables[key], meaning) for key, meaning in self.owners if key in variables]

    def _by_name(self, model: Unit) -> list[tuple[Variable, str]]:
        """Return whose a legacy optimizer's slots are, where the names of all say it."""
        if self.generation != LEGACY or self.row is None:
            return []
        meanings = self.row.meanings(LEGACY)
        variables = {variable.full_name: variable for variable in model.all_variables()}
        found = [(variables.get(self._owner(slot)), meanings.get(slot.name)) for slot in self.slots]
        known = [(variable, meaning) for variable, meaning in found if variable is not None and meaning]
        return known if len(known) == len(found) else []

    def _owner(self, slot: Variable) -> str:
        """Return the full name of the variable that a legacy optimizer's slot belongs to."""
        return slot.full_name.removeprefix(f"{self.name}/").removesuffix(f"/{slot.name}")

    def _by_order(self, model: Unit) -> list[tuple[Variable, str]]:
        """Return whose the slots are, by the order in which the optimizer makes them."""
        trained = trained_order(model)
        groups = self._groups(len(trained))
        return [(variable, meaning) for group in groups for variable in trained for meaning in group]

    def _groups(self, trained: int) -> list[tuple[str, ...]]:
        """Return the groups of slots that there are, by their number or, where that is not enough, names."""
        assert self.row is not None
        groups = list(self._order(self.row, self.generation))
        if self.row.name == "RMSprop" and len(self.slots) == 2 * trained:
            spoken = {slot.name for slot in self.slots if slot.name}
            is_centered = bool(self.settings.get("centered")) or bool(spoken & {"average_gradient", "mg"})
            return [groups[0], groups[2 if is_centered else 1]] if self.settings or spoken else []
        while groups and sum(map(len, groups)) * trained > len(self.slots):
            groups.pop()
        return groups

    @staticmethod
    def _order(row: Row, generation: str) -> tuple[tuple[str, ...], ...]:
        return row.legacy_order if generation == LEGACY else row.order

    # In a generation ----------------------------------------------------------------------

    def listed(self, generation: str, model: Unit) -> list[tuple[Variable, str]] | None:
        """Return the list that a generation has, each with its full name; None where that is not known."""
        slots, rate = self._slots(generation, model), self.rates.get(_RATE)
        if slots is None or (generation == KERAS3 and rate is None and self.generation != KERAS3):
            return None
        if (
            generation != KERAS2
            and self.row is not None
            and self.row.name == "Nadam"
            and self.product is None
        ):
            return None  # Keras 2 leaves its product out of files.
        prefix = self._prefix(generation)
        heads = {KERAS2: "iteration", LEGACY: f"{prefix}/iter", KERAS3: f"{prefix}/iteration"}
        listed = [(self.iteration, heads[generation])]
        if generation == KERAS3 and rate is not None:
            listed.append((rate, f"{prefix}/{_RATE}"))
        if generation == LEGACY and self.product is not None:
            listed.append((self.product, f"{prefix}/{_PRODUCT[LEGACY]}"))
        listed += slots
        if generation == KERAS3 and self.product is not None:
            listed.append((self.product, _PRODUCT[KERAS3]))
        return listed

    def _slots(self, generation: str, model: Unit) -> list[tuple[Variable, str]] | None:
        """Return the slots of a generation in its order, each with its full name."""
        if self.row is not None and self.row.name == "SGD" and self._is_without_momentum():
            if generation != KERAS2:
                return []
            if not self.slots:
                return [] if self.generation == KERAS2 else None
        if not self.held:
            return self._as_stored() if generation == self.generation else None
        assert self.row is not None
        if flaw_between(self.row, self.generation, generation) is not None:
            return None
        listed = []
        for group in self._order(self.row, generation):
            for variable in legacy_order(model):
                for meaning in group:
                    slot = self.held.get((id(variable), meaning))
                    if slot is not None:
                        if not slot.full_name or generation != self.generation:
                            slot.full_name = self._full_name(generation, self.row.slot(meaning), variable)
                        listed.append((slot, slot.full_name))
        return listed

    def _is_without_momentum(self) -> bool:
        """Whether an SGD has no momentum: Keras 2 keeps it all the same, the others do not."""
        return not self.slots or self.settings.get("momentum") == 0

    def _as_stored(self) -> list[tuple[Variable, str]]:
        prefix = self._prefix(self.generation)
        names = [slot.full_name or f"{prefix}/slot_{at}" for at, slot in enumerate(self.slots)]
        return list(zip(self.slots, names, strict=True))

    def _prefix(self, generation: str) -> str:
        """Return what the names of its variables begin with; nobody needs it, so any will do."""
        name = self.name or "optimizer"
        return snake_case(name) if generation == KERAS3 else name

    def _full_name(self, generation: str, slot: Slot, variable: Variable) -> str:
        prefix = self._prefix(generation)
        if generation == LEGACY:
            return f"{prefix}/{variable.full_name}/{slot.legacy}"
        if generation == KERAS2:
            return f"{prefix}/{slot.keras2}/{variable.full_name}"
        return f"{prefix}/{variable.full_name.replace('/', '_')}_{slot.keras3}"

    def keys(self) -> list[str]:
        """Return the keys of all that it is made of in the source."""
        product = [self.product] if self.product is not None else []
        variables = (self.iteration, *self.rates.values(), *self.slots, *product)
        return [variable.key for variable in variables if variable.key is not None]

    # In the layouts ----------------------------------------------------------------------

    def graph(self, model: Unit) -> tuple[Unit, list[SlotOf]] | None:
        """Return the optimizer's node in the graph of Keras 2, and its slot variables."""
        if self.generation == LEGACY:
            return self._legacy_graph(model)
        listed = self.listed(KERAS2, model)
        if listed is None:
            return None
        for variable, full_name in listed:
            variable.full_name = full_name
        node = Unit()
        node.edges = [
            Edge("_variables", _list([variable for variable, _ in listed])),
            Edge("_iterations", self.iteration),
        ]
        if _RATE in self.rates:
            node.edges.append(Edge(f"_{_RATE}", self.rates[_RATE]))
        node.edges.append(Edge("_index_dict", Unit()))
        for slot in self.row.slots if self.row is not None else ():
            members = [self.held.get((id(variable), slot.meaning)) for variable in legacy_order(model)]
            found = [member for member in members if member is not None]
            if found:
                node.edges.append(Edge(slot.list2, _list(found)))
        if self.product is not None:
            node.edges.append(Edge(_PRODUCT[KERAS2], self.product))
        return node, []

    def _legacy_graph(self, model: Unit) -> tuple[Unit, list[SlotOf]] | None:
        if self.slots and not self.held:
            return None
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

    def h5_names(self, model: Unit, facts: KerasFacts) -> list[tuple[Variable, str]] | None:
        """Return the names, without `:0`, under which keras-h5 has the state; `facts` are the file's own."""
        if facts.major == "3":
            return self.listed(KERAS3, model)
        _, settings = settings_in(facts)
        # Of Keras 2 the newer ones say that they are not legacy, the legacy ones have a decay.
        told = KERAS2 if "is_legacy_optimizer" in settings else LEGACY if "decay" in settings else None
        return self.listed(told or (LEGACY if self.generation == LEGACY else KERAS2), model)

    def weights_paths(self, model: Unit, major: str) -> list[Placed] | None:
        """Return the paths under which keras-weights and keras have the state."""
        listed = self.listed(KERAS3 if major == "3" else KERAS2, model)
        if listed is None:
            return None
        return [(variable, f"optimizer/vars/{number}") for number, (variable, _) in enumerate(listed)]


def _list(variables: Sequence[Variable]) -> Unit:
    return Unit(edges=[Edge(str(number), variable) for number, variable in enumerate(variables)])


# From the layouts ------------------------------------------------------------------------


def optimizer_of(source: CheckpointReader, beside: KerasFacts | None = None) -> Optimizer | None:
    """Return the state that a checkpoint has of its optimizer; None where it has none that is known here.

    `beside` are configurations that may tell the optimizer's class.
    """
    state = optimizer_state(source, beside)
    if state is None:
        return None
    rates = {name: _variable(held) for name, held in state.rates.items()}
    slots = tuple(_variable(held) for held in state.slots)
    found = Optimizer(
        _GENERATIONS[state.style],
        state.name,
        named(state.name),
        _variable(state.iteration),
        slots,
        rates,
        state.settings,
        _variable(state.product) if state.product is not None else None,
    )
    return _in_graph(found, source) if source.object_graph is not None else found


def _in_graph(optimizer: Optimizer, source: CheckpointReader) -> Optimizer:
    """Return the same with what the object graph tells: whose the slots are, and of which class."""
    assert source.object_graph is not None
    states = training_states(source.object_graph, source.specs, source.full_names)
    iteration = optimizer.iteration.key
    state = next(one for one in states if iteration in one.numbers.get(ITERATIONS, ()))
    rows = [row for row in state.known if row is optimizer.row] or list(state.known)
    # What can be one or the other, as SGD and Lion of Keras 2.11, is listed alike by both.
    if len({tuple(map(len, row.order)) for row in rows}) != 1:
        return optimizer._replace(row=None)
    row, meanings = rows[0], rows[0].meanings(state.generation)
    owners = {key: (variable, meanings[name]) for (variable, name), key in state.slots.items()}
    name = optimizer.name if state.generation == LEGACY else row.name
    known = [owners[slot.key] for slot in optimizer.slots if slot.key in owners]
    return optimizer._replace(row=row, name=name, owners=tuple(known))


def _variable(held: Held) -> Variable:
    return Variable(held.name, False, held.full_name, held.key, held.value)
