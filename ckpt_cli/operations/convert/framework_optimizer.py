"""An optimizer's state in the layout of PyTorch: a training checkpoint as PyTorch's programs save one.

    model/<name>                       the weights
    optimizer/state/<number>/<slot>    slots, with the axes of their weights
    optimizer/param_groups             what `formats.keras.optimizers_in_pytorch` says, and `param_names`

PyTorch counts parameters in the order in which its optimizer was given them, and has no names;
`param_names` are there for the program to give them in this order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.axes import Cut
from formats.errors import ConversionError
from formats.keras.between_generations import factor_between
from formats.keras.model import trained_order
from formats.keras.optimizer_state import titled
from formats.keras.optimizers import PYTORCH
from formats.keras.optimizers_in_pytorch import (
    GROUPS,
    NO_STEP,
    group_of,
    lack_of,
    remark_on,
    settings_of,
)
from formats.keras.slot_owners import held_slots, idle_slots, is_told
from formats.keras.training_state import ITERATIONS
from formats.keras.training_state import LEARNING_RATE as RATE
from formats.torch.facts import TorchFacts
from formats.torch.keys import escaped
from formats.torch.named_optimizer import MOST_STEPS
from formats.torch.objects import TensorPosition
from formats.torch.structure import NestedStructure
from formats.torch.values import Pairs

from ..select.relations import Relation
from ..select.view import Constant
from .optimizers import reason_of_idle
from .plan import Dropped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.keras.model import Unit
    from formats.keras.optimizers import Optimizer as Row
    from formats.keras.optimizers import SlotKind
    from formats.keras.training_state import TrainingState
    from formats.model.reader import FormatReader


WEIGHTS_ONLY = "pass --kind variable to leave out optimizer state"

_COMPILED = "to supply what is missing, pass a .keras or .h5 file of the compiled model with --config FILE"
_RATE_GIVEN = "pass the learning rate with --learning-rate R"


class Followed(NamedTuple):
    """Weights and an optimizer's state as a training checkpoint has them."""

    relations: list[Relation]
    constants: list[Constant]
    facts: TorchFacts
    dropped: list[Dropped]
    notes: list[str]


class ModelWeights(NamedTuple):
    """A model's tensors in PyTorch's layout; `names` are those made of the model's, in its order."""

    relations: Sequence[Relation]
    constants: Sequence[Constant]
    names: Sequence[str]


def follow(reader: FormatReader, model: Unit, state: TrainingState, weights: ModelWeights) -> Followed:
    """Return a training checkpoint of weights and their optimizer.

    Raises ConversionError, which says why, for a state that PyTorch's optimizers have no equal of.
    """
    try:
        return _Following(reader, model, state).followed(weights)
    except ConversionError as error:
        error.path = error.path or reader.location.path
        error.hints = (*error.hints, WEIGHTS_ONLY)
        raise


class _Following:
    def __init__(self, reader: FormatReader, model: Unit, state: TrainingState) -> None:
        self._reader = reader
        self._state = state
        self._held = held_slots(state, model, {key: spec.shape for key, spec in reader.specs.items()})
        self._idle = idle_slots(state, self._held)
        self._title = titled(state)
        self._row = self._known_row()
        self._settings = self._told_settings()
        self._slots = self._kept_slots()
        held = {variable for variable, _ in self._held}
        self._trained = {
            variable.key: id(variable)
            for variable in (model.all_variables() if held else trained_order(model))
            if variable.key is not None and (not held or id(variable) in held)
        }

    def followed(self, weights: ModelWeights) -> Followed:
        relations = [_moved(relation) for relation in weights.relations]
        made = [constant._replace(key=_of_model(constant.key)) for constant in weights.constants]
        by_target = {target: relation for relation in weights.relations for target in relation.targets}
        self._check_whole(weights)
        trained = [name for name in weights.names if name in by_target and self._is_trained(by_target[name])]
        numbers = {name: number for number, name in enumerate(trained)}
        for relation in {id(by_target[name]): by_target[name] for name in trained}.values():
            relations += [self._slot(relation, slot, numbers) for slot in self._slots]
        if self._row.name != NO_STEP:
            steps = self._steps()
            made += [Constant(_of_state(number, "step"), steps, (), "float32") for number in numbers.values()]
        idle = [Dropped(key, reason_of_idle(self._state.generation)) for key in sorted(self._idle)]
        every = [*weights.names, *(constant.key for constant in weights.constants)]
        root = self._root(every, trained)
        return Followed(relations, made, TorchFacts(structure=NestedStructure(root)), idle, self._notes())

    def _check_whole(self, weights: ModelWeights) -> None:
        """Reject slots without their weight, because PyTorch's optimizer would have no parameter for them."""
        there = {source for relation in weights.relations for source in relation.sources}
        lost = next((key for key in self._trained if key not in there), None)
        if lost is not None:
            raise ConversionError("this weight is left out, but its optimizer state is not", key=lost)

    # What it is ---------------------------------------------------------------------------

    def _known_row(self) -> Row:
        row, title = self._state.row, self._title
        if self._state.scaled:
            raise ConversionError(
                f"{title} is inside a LossScaleOptimizer, which PyTorch's layout cannot represent"
            )
        if row is None or row.name not in GROUPS:
            raise ConversionError(
                f"PyTorch's layout cannot represent the state of {title}; expected one of {', '.join(GROUPS)}"
            )
        if not is_told(self._state, self._held):
            raise ConversionError(
                f"SRC does not say which variables the slots of {title} belong to", hints=(_COMPILED,)
            )
        return row

    def _told_settings(self) -> dict[str, Any]:
        """Return the optimizer's settings, those that tensors hold as they hold them."""
        found = {**self._state.settings}
        for name in self._state.rates:
            found[name] = self._value(name)
        title = self._title
        lacking = sorted(name for name in settings_of(self._row.name) if found.get(name) is None)
        if lacking:
            raise ConversionError(
                f"SRC does not store the setting {lacking[0]!r} of {title}", hints=(_COMPILED,)
            )
        rate = found[RATE]
        if type(rate) is not float or not 0 < rate < float("inf"):
            what = "a schedule" if isinstance(rate, dict) else repr(rate)
            raise ConversionError(
                f"the learning rate of {title} is {what}; expected a positive number", hints=(_RATE_GIVEN,)
            )
        odd = next((name for name in settings_of(self._row.name) if not _is_number(found[name])), None)
        if odd is not None:
            raise ConversionError(f"the setting {odd!r} of {title} is {found[odd]!r:.60}; expected a number")
        lack = lack_of(self._row.name, found)
        if lack is not None:
            raise ConversionError(
                f"{title} has {lack}={found[lack]!r:.60}, which "
                f"PyTorch's {self._row.pytorch} does not support"
            )
        return found

    def _value(self, name: str) -> float | None:
        """Return a number of the optimizer: what is given comes before what is stored."""
        if name in self._state.values:
            return self._state.values[name]
        key = self._state.number(name)
        return self._number(key) if key is not None else None

    def _number(self, key: str) -> float:
        spec = self._reader.specs[key]
        if spec.shape:
            raise ConversionError(f"this tensor has shape {list(spec.shape)}; expected one number", key=key)
        return float(self._reader[key].read())

    def _kept_slots(self) -> list[SlotKind]:
        """Return the slots that it keeps, which are those that its settings make."""
        kept = {meaning for (_, meaning), key in self._held.items() if key not in self._idle}
        wanted = [slot for slot in self._row.slots if not slot.made_by or self._settings.get(slot.made_by)]
        if kept != {slot.meaning for slot in wanted}:
            found, expected = (
                " and ".join(sorted(each)) or "none" for each in (kept, [w.meaning for w in wanted])
            )
            raise ConversionError(f"{self._title} has the slots {found}, but its settings require {expected}")
        return wanted

    def _steps(self) -> int:
        steps = self._value(ITERATIONS)
        if steps is None or not 0 <= steps <= MOST_STEPS:
            raise ConversionError(
                f"the step count is {steps}; PyTorch counts in float32, at most {MOST_STEPS} steps"
            )
        return int(steps)

    def _notes(self) -> list[str]:
        names = "pass them to the optimizer in the order of param_names in optimizer/param_groups"
        remark = remark_on(self._row.name, self._state.generation, self._settings)
        title = f"torch.optim.{self._row.pytorch}"
        return [
            f"{title}: {each}"
            for each in (f"the state identifies parameters by number; {names}", remark)
            if each
        ]

    # Tensors ------------------------------------------------------------------------------

    def _is_trained(self, relation: Relation) -> bool:
        """Whether a tensor is one that the optimizer changes; of several together all are, or none."""
        trained = [source for source in relation.sources if source in self._trained]
        if not trained:
            return False
        if len(trained) < len(relation.sources):
            message = f"{relation.targets[0]} is one tensor in PyTorch, but only a part of it is trainable"
            raise ConversionError(message, key=trained[0])
        turn = relation.steps.turn
        if isinstance(turn, Cut) and turn.kind == "addends":
            message = (
                "PyTorch trains two biases instead of this one, so their sum would take two steps at once"
            )
            raise ConversionError(message, key=relation.sources[0])
        return True

    def _slot(self, relation: Relation, slot: SlotKind, numbers: Mapping[str, int]) -> Relation:
        keys = []
        for source in relation.sources:
            held = self._held.get((self._trained[source], slot.meaning))
            if held is None:
                raise ConversionError(f"{self._title} has no {slot.meaning} for this weight", key=source)
            keys.append(held)
        targets = tuple(_of_state(numbers[target], slot.pytorch) for target in relation.targets)
        scale = factor_between(slot, self._state.generation, PYTORCH, lambda: self._settings[RATE]) or 1.0
        return Relation(tuple(keys), targets, relation.steps, relation.row, scale)

    def _root(self, weights: Sequence[str], trained: Sequence[str]) -> Pairs:
        slots = [slot.pytorch for slot in self._slots]
        slots = slots if self._row.name == NO_STEP else ["step", *slots]
        states = [
            (number, Pairs([(slot, TensorPosition(_of_state(number, slot))) for slot in slots]))
            for number in range(len(trained))
            if slots
        ]
        group = group_of(self._row.name, self._settings)
        group |= {"params": [*range(len(trained))], "param_names": [*trained]}
        optimizer = Pairs([("state", Pairs(states)), ("param_groups", [Pairs([*group.items()])])])
        model = Pairs([(name, TensorPosition(_of_model(name))) for name in weights])
        return Pairs([("model", model), ("optimizer", optimizer)])


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


def _of_model(name: str) -> str:
    return f"model/{escaped(name)}"


def _of_state(number: int, slot: str) -> str:
    return f"optimizer/state/{number}/{slot}"


def _moved(relation: Relation) -> Relation:
    return relation._replace(targets=tuple(map(_of_model, relation.targets)))
