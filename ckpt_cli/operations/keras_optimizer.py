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

from formats.jsontext import parse_object

from .keras_graph import OPTIMIZER, SlotOf
from .keras_model import Edge, Unit, Variable, legacy_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from formats.h5.weights import WeightsReader
    from formats.model import CheckpointReader

    from .keras_model import Placed

__all__ = ["Optimizer", "optimizer_of"]

_SAME_SLOTS = frozenset(("adam", "adamw"))

_SLOT_LISTS: dict[str, dict[str, str]] = {
    "Adam": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "AdamW": {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
    "Nadam": {"m": "_momentums", "v": "_velocities"},
    "SGD": {"m": "momentums"},
    "RMSprop": {
        "velocity": "_velocities",
        "momentum": "_momentums",
        "average_gradient": "_average_gradients",
    },
    "Adagrad": {"accumulator": "_accumulators"},
    "Adamax": {"m": "_m", "u": "_u"},
    "Ftrl": {"accumulator": "_accumulators", "linear": "_linears"},
    "Adadelta": {
        "accumulated_grad": "_accumulated_grads",
        "accumulated_delta_var": "_accumulated_delta_vars",
    },
}
"""Attributes in which optimizers of Keras 2 list their slots, by class and the slot's name."""

_LARGEST_RATE = 1e38  # What float32 holds.
_LEGACY_SCALARS = ("beta", "beta_1", "beta_2", "decay", "learning_rate", "momentum", "rho")
"""Hyperparameters that a legacy optimizer's node has as variables, where its configuration has them."""


class Optimizer(NamedTuple):
    """State of an optimizer: `style` is 2, legacy or 3, see above; slots are in the order stored.

    `rates` are hyperparameters, whose values a configuration may give where no tensor does.
    """

    style: str
    name: str
    iteration: Variable
    slots: tuple[Variable, ...]
    rates: Mapping[str, Variable]

    def variables(self, style: str) -> list[Variable] | None:
        """Return the list that a style has; None where this optimizer cannot be told in it."""
        rate = self.rates.get("learning_rate")
        if style != self.style and (
            "legacy" in (style, self.style) or self.name.lower() not in _SAME_SLOTS or rate is None
        ):
            return None
        head = [self.iteration, rate] if style == "3" and rate is not None else [self.iteration]
        return [*head, *self.slots]

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
        slots: dict[str, list[Variable]] = {}
        lists = _SLOT_LISTS.get(self.name, {})
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
        prefix = self.name.lower() if style == "3" else self.name
        heads = {"2": ("iteration",), "legacy": (f"{prefix}/iter",)}
        head = heads.get(style, (f"{prefix}/iteration", f"{prefix}/learning_rate"))
        names = list(head)
        for number, slot in enumerate(self.slots):
            given = slot.full_name if self.style == style else ""
            names.append(given or f"{prefix}/slot_{number}")
        return list(zip(listed, names, strict=True))

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
    read = _READERS.get(source.format.name)
    return read(source) if read is not None else None


def _settings(source: CheckpointReader) -> tuple[str | None, dict[str, Any]]:
    """Return class and settings of the optimizer that a training configuration tells of."""
    text = source.metadata.get("training_config")
    try:
        found = parse_object(text).get("optimizer_config") if text else None
    except ValueError:
        found = None  # The weights do not depend on it; `verify` says what is wrong with it.
    if not isinstance(found, dict):
        return None, {}
    name, config = found.get("class_name"), found.get("config")
    known = str(name).rpartition(">")[2] if isinstance(name, str) else None
    return known, config if isinstance(config, dict) else {}


def _rates(names: Sequence[str], settings: Mapping[str, Any], prefix: str) -> dict[str, Variable]:
    given = {name: settings.get(name) for name in names}
    return {
        name: Variable(name, False, f"{prefix}{name}", value=float(value))
        for name, value in given.items()
        if isinstance(value, int | float) and abs(value) <= _LARGEST_RATE
    }


def _of_h5(source: CheckpointReader) -> Optimizer | None:
    group = source.metadata.get("optimizer")
    if not group:
        return None
    full = [name.removesuffix(":0") for name in group["weight_names"]]
    first, settings = full[0], _settings(source)
    variables = [Variable("", False, name, key) for name, key in zip(full, group["weights"], strict=True)]
    if first == "iteration":
        name = settings[0] or (full[1].partition("/")[0] if len(full) > 1 else "")
        for variable in variables[1:]:
            variable.name = variable.full_name.split("/")[1] if "/" in variable.full_name else ""
        rates = _rates(("learning_rate",), settings[1], "")
        return Optimizer("2", name, variables[0], tuple(variables[1:]), rates)
    if first.endswith("/iter"):
        name = first.removesuffix("/iter")
        for variable in variables[1:]:
            variable.name = variable.full_name.rpartition("/")[2]
        rates = _rates(_LEGACY_SCALARS, settings[1], f"{name}/")
        return Optimizer("legacy", name, variables[0], tuple(variables[1:]), rates)
    if first.endswith("/iteration") and len(full) > 1 and full[1].endswith("/learning_rate"):
        return Optimizer(
            "3",
            _cased(first.partition("/")[0]),
            variables[0],
            tuple(variables[2:]),
            {"learning_rate": variables[1]},
        )
    return None


def _cased(name: str) -> str:
    """Return the class that an optimizer of Keras 3 is named after."""
    return next((known for known in _SLOT_LISTS if known.lower() == name), name)


def _of_weights(source: CheckpointReader) -> Optimizer | None:
    reader: WeightsReader = source  # type: ignore[assignment]
    keys = reader.variables("optimizer/vars")
    if not keys:
        return None
    variables = [Variable("", False, "", key) for key in keys]
    name = source.metadata["object_names"].get("optimizer/vars")
    if name is None:
        return Optimizer("2", "", variables[0], tuple(variables[1:]), {})
    if len(variables) < 2:
        return None
    rates = {"learning_rate": variables[1]}
    return Optimizer("3", _cased(name), variables[0], tuple(variables[2:]), rates)


def _of_graph(source: CheckpointReader) -> Optimizer | None:
    graph = source.object_graph
    if graph is None:
        return None
    keys = {node: key for key, (node, _, _) in graph.tensors(source.specs).items()}
    # `Checkpoint(model=...)` has it below the model.
    found_at = (dict(graph.children(at)).get(OPTIMIZER) for at in graph.reachable())
    node = next((at for at in found_at if at is not None), None)
    if node is None:
        return None
    edges = dict(graph.children(node))

    def variable(at: int | None, name: str = "") -> Variable | None:
        if at is None or at not in keys:
            return None
        return Variable(name, False, source.full_names.get(keys[at], ""), keys[at])

    iteration = variable(edges.get("_iterations", edges.get("iter")))
    if iteration is None:
        return None
    slots = [variable(slot.node, slot.name) for slot in graph.slots if slot.optimizer == node]
    if "iter" in edges:
        rates = {name: held for name in _LEGACY_SCALARS if (held := variable(edges.get(name), name))}
        name = iteration.full_name.removesuffix("/iter")
        return Optimizer("legacy", name, iteration, tuple(slot for slot in slots if slot), rates)
    listed = dict(graph.children(edges["_variables"])) if "_variables" in edges else {}
    order = [listed[name] for name in sorted(listed, key=lambda name: (len(name), name))]
    is_keras_3 = "_trainable_variables" in edges
    found = [variable(at) for at in order[2 if is_keras_3 else 1 :]]
    if None in found:
        return None
    rate = variable(edges.get("_learning_rate"), "learning_rate")
    names = [held.full_name.split("/") for held in found if held is not None]
    for held, name_parts in zip(found, names, strict=True):
        assert held is not None
        held.name = name_parts[1] if len(name_parts) > 2 else ""
    name = names[0][0] if names else ""
    rates = {"learning_rate": rate} if rate is not None else {}
    kept = tuple(held for held in found if held is not None)
    return Optimizer("3" if is_keras_3 else "2", _cased(name), iteration, kept, rates)


_READERS: dict[str, Callable[[CheckpointReader], Optimizer | None]] = {
    "keras-h5": _of_h5,
    "keras-weights": _of_weights,
    "keras": _of_weights,
    "tf-object": _of_graph,
}
