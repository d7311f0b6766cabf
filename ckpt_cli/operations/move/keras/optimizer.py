"""An optimizer's state, as each layout of Keras has it.

    Keras 2, since 2.11    a list: iteration, then slots, as its class makes them
    Keras 2, legacy        iter, and slots by variable: all of one name, then all of the next
    Keras 3                a list: iteration, learning rate, then slots

In keras-h5 the list is `optimizer_weights`, in .weights.h5 and .keras `/optimizer/vars`, in
TensorFlow's graph the edge `_variables`; a legacy one's slots are slot variables there.  The
lists of Keras 2 and 3 have the same slots in the same order for the classes in
`_SAME_SLOTS`; state of others is not carried from one to the other, and listed.
keras/src/optimizers/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.keras.config import snake_case
from formats.keras.model import Edge, Unit, Variable, legacy_order, trained_order
from formats.keras.optimizer_state import SLOT_LISTS, optimizer_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.keras.layouts import Placed, SlotOf
    from formats.keras.optimizer_state import Held
    from formats.model.reader import CheckpointReader


_SAME_SLOTS = frozenset(("adagrad", "adam", "adamw", "rmsprop", "sgd"))

_ORDER: dict[str, tuple[tuple[str, ...], ...]] = {
    "Adam": (("m", "v"), ("vhat",)),
    "AdamW": (("m", "v"), ("vhat",)),
    "Nadam": (("m", "v"),),
    "SGD": (("m",),),
    "RMSprop": (("velocity",), ("momentum",), ("average_gradient",)),
    "Adagrad": (("accumulator",),),
    "Adamax": (("m", "u"),),
    "Ftrl": (("accumulator", "linear"),),
    "Adadelta": (("accumulated_grad", "accumulated_delta_var"),),
}
"""Slots by class, as they are listed: for each variable those of the first group, then of the next."""
_IN_KERAS_3 = {"m": "momentum", "v": "velocity", "vhat": "velocity_hat", "u": "norm"}


class Optimizer(NamedTuple):
    """State of an optimizer: `style` is 2, legacy or 3, see above; slots are in the order stored.

    `rates` are hyperparameters, whose values a configuration may give where no tensor does.
    """

    style: str
    name: str
    iteration: Variable
    slots: tuple[Variable, ...]
    rates: Mapping[str, Variable]
    settings: Mapping[str, Any] = {}
    owners: tuple[Variable, ...] = ()
    """The variable of the model that each slot belongs to, where that is known."""

    def owned(self, model: Unit, shapes: Mapping[str, tuple[int, ...]]) -> Optimizer:
        """Return the same with the owners of its slots, and with names for slots that have none.

        `shapes` are those of all tensors: what does not fit is of another model, and stays unnamed.
        """
        if self.style == "legacy" or self.name not in _ORDER:
            return self
        trained = trained_order(model)
        listed = [
            (slot, variable) for group in self._groups(len(trained)) for variable in trained for slot in group
        ]
        if len(listed) != len(self.slots) or any(
            variable.key is None or held.key is None or shapes[variable.key] != shapes[held.key]
            for held, (_, variable) in zip(self.slots, listed, strict=True)
        ):
            return self
        for held, (slot, _) in zip(self.slots, listed, strict=True):
            held.name = slot
        return self._replace(owners=tuple(variable for _, variable in listed))

    def _groups(self, trained: int) -> list[tuple[str, ...]]:
        """Return the groups of slots that there are, by their number or, where that is not enough, names."""
        groups = list(_ORDER[self.name])
        if self.name == "RMSprop" and len(self.slots) == 2 * trained:
            named = {slot.name for slot in self.slots if slot.name}
            is_centered = bool(self.settings.get("centered")) or "average_gradient" in named
            return [groups[0], groups[2 if is_centered else 1]] if self.settings or named else []
        while groups and sum(map(len, groups)) * trained > len(self.slots):
            groups.pop()
        return groups

    def variables(self, style: str) -> list[Variable] | None:
        """Return the list that a style has; None where this optimizer cannot be told in it."""
        rate = self.rates.get("learning_rate")
        if style != self.style and (
            "legacy" in (style, self.style)
            or self.name.lower() not in _SAME_SLOTS
            or rate is None
            or not self._has_momentum()
        ):
            return None
        head = [self.iteration, rate] if style == "3" and rate is not None else [self.iteration]
        return [*head, *self.slots]

    def _has_momentum(self) -> bool:
        """Whether an SGD has slots in both: Keras 2 keeps momentums that are not used, Keras 3 does not."""
        if self.name != "SGD":
            return True
        return bool(self.slots) and (self.style == "3" or self.settings.get("momentum") != 0)

    def _full_names(self, style: str) -> list[str]:
        """Return the full names of the slots in a style; none where it is not known whose they are."""
        if self.style == style and all(slot.full_name for slot in self.slots):
            return [slot.full_name for slot in self.slots]
        owned = list(zip(self.slots, self.owners, strict=True)) if self.owners else []
        if style != "3":
            return [f"{self.name}/{slot.name}/{owner.full_name}" for slot, owner in owned]
        named = [
            (_IN_KERAS_3.get(slot.name, slot.name), owner.full_name.replace("/", "_"))
            for slot, owner in owned
        ]
        return [f"{snake_case(self.name)}/{owner}_{slot}" for slot, owner in named]

    def keys(self) -> list[str]:
        """Return the keys of all that it is made of in the source."""
        variables = (self.iteration, *self.rates.values(), *self.slots)
        return [variable.key for variable in variables if variable.key is not None]

    # In the layouts ----------------------------------------------------------------------

    def graph(self, model: Unit) -> tuple[Unit, list[SlotOf]] | None:
        """Return the optimizer's node in TensorFlow's graph, and its slot variables."""
        if self.style == "legacy":
            return self._legacy_graph(model)
        listed = self.variables("2")
        if listed is None:
            return None
        for slot, full_name in zip(self.slots, self._full_names("2"), strict=False):
            slot.full_name = full_name
        slots: dict[str, list[Variable]] = {}
        lists = SLOT_LISTS.get(self.name, {})
        for variable in self.slots:
            edge = lists.get(variable.name)
            if edge is not None:
                slots.setdefault(edge, []).append(variable)
        node = Unit()
        node.edges = [Edge("_variables", _listed(listed)), Edge("_iterations", self.iteration)]
        if "learning_rate" in self.rates:
            node.edges.append(Edge("_learning_rate", self.rates["learning_rate"]))
        node.edges.append(Edge("_index_dict", Unit()))
        node.edges += [Edge(edge, _listed(variables)) for edge, variables in slots.items()]
        return node, []

    def in_order(self, model: Unit) -> Optimizer:
        """Return a legacy optimizer with its slots as it makes them: by name, then as variables are trained.

        A graph has them by the numbers of nodes, which is another order in nested models.
        """
        if self.style != "legacy":
            return self
        trained = {variable.full_name: at for at, variable in enumerate(legacy_order(model))}
        slots = {slot.name: at for at, slot in reversed(list(enumerate(self.slots)))}
        last = len(trained)
        order = sorted(self.slots, key=lambda slot: (slots[slot.name], trained.get(self._owner(slot), last)))
        return self._replace(slots=tuple(order))

    def _owner(self, slot: Variable) -> str:
        """Return the full name of the variable that a legacy optimizer's slot belongs to."""
        return slot.full_name.removeprefix(f"{self.name}/").removesuffix(f"/{slot.name}")

    def _legacy_graph(self, model: Unit) -> tuple[Unit, list[SlotOf]] | None:
        by_name = {variable.full_name: variable for variable in model.all_variables()}
        slots = []
        for slot in self.slots:
            owner = by_name.get(self._owner(slot))
            if owner is None:
                return None
            slots.append((slot.name, owner, slot))
        node = Unit(edges=[Edge("iter", self.iteration)])
        node.edges += [Edge(name, variable) for name, variable in self.rates.items()]
        return node, slots

    def h5_names(self, major: str) -> list[tuple[Variable, str]] | None:
        """Return the names, without `:0`, under which keras-h5 has the state."""
        style = "legacy" if self.style == "legacy" and major == "2" else major
        listed = self.variables(style)
        if listed is None:
            return None
        prefix = snake_case(self.name) if style == "3" else self.name
        heads = {"2": ("iteration",), "legacy": (f"{prefix}/iter",)}
        head = heads.get(style, (f"{prefix}/iteration", f"{prefix}/learning_rate"))
        named = self._full_names(style) or [f"{prefix}/slot_{number}" for number in range(len(self.slots))]
        return list(zip(listed, [*head, *named], strict=True))

    def weights_paths(self, major: str) -> list[Placed] | None:
        """Return the paths under which keras-weights and keras have the state."""
        listed = self.variables(major)
        if listed is None:
            return None
        return [(variable, f"optimizer/vars/{number}") for number, variable in enumerate(listed)]


def _listed(variables: Sequence[Variable]) -> Unit:
    return Unit(edges=[Edge(str(number), variable) for number, variable in enumerate(variables)])


# From the layouts ------------------------------------------------------------------------


def optimizer_of(source: CheckpointReader) -> Optimizer | None:
    """Return the state that a checkpoint has of its optimizer; None where it has none that is known here."""
    state = optimizer_state(source)
    if state is None:
        return None
    rates = {name: _variable(held) for name, held in state.rates.items()}
    slots = tuple(_variable(held) for held in state.slots)
    iteration = _variable(state.iteration)
    return Optimizer(state.style, state.name, iteration, slots, rates, state.settings)


def _variable(held: Held) -> Variable:
    return Variable(held.name, False, held.full_name, held.key, held.value)
