"""The way back of `layout_optimizer`: the state of PyTorch's optimizer as one of Keras'.

    state/<number>/<slot>    the slot of the weights of that parameter, axes as theirs
    step                     iterations; all parameters have taken the same number of steps
    param_groups             the rate, and whose the numbers are, by `param_names`

The result is the same record that Keras' own files produce, so that each layout of Keras writes it like any
other. Keras has one group of parameters, and continues with the hyperparameters of its own configuration; a
note reports those that differ from PyTorch's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.axes import Join
from formats.errors import ConversionError
from formats.keras.between_generations import factor_between
from formats.keras.in_pytorch import model_names
from formats.keras.model import trained_order
from formats.keras.optimizer_settings import generation_told, settings_in
from formats.keras.optimizer_state import stored_state
from formats.keras.optimizers import BY_NAME, KERAS3, PYTORCH
from formats.keras.optimizers_in_pytorch import NO_STEP, remark_on
from formats.keras.slot_owners import held_slots
from formats.keras.training_state import ITERATIONS, TrainingState
from formats.keras.training_state import LEARNING_RATE as RATE
from formats.torch.facts import TorchFacts
from formats.torch.named_optimizer import NamedOptimizer
from formats.torch.optimizer import KeptTensor, optimizers_in

from ..select.relations import Relation
from ..select.view import Constant
from .framework_optimizer import WEIGHTS_ONLY

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from formats.keras.facts import KerasFacts
    from formats.keras.model import Unit
    from formats.keras.optimizers import SlotKind
    from formats.model.reader import FormatReader
    from formats.torch.optimizer import TorchOptimizer

    from .optimizers import Given


_CLOSE = 1e-6
"""How far numbers of two configurations may be apart, relatively, to be the same in float32."""


class Returned(NamedTuple):
    """Slots as tensors of Keras' variables, and the optimizer that they make."""

    relations: list[Relation]
    optimizer: TrainingState
    notes: list[str]


class ReturnedWeights(NamedTuple):
    """A model, and the tensors of PyTorch, by name, that become its variables."""

    model: Unit
    relations: Sequence[Relation]


def chosen_optimizer(reader: FormatReader, wanted: Collection[str], given: Given) -> TorchOptimizer | None:
    """Return the optimizer whose tensors are chosen. Raises ConversionError if they belong to several.

    One that keeps none, as SGD without momentum, is meant where the steps are given that it has taken.
    """
    facts = reader.facts
    if not isinstance(facts, TorchFacts) or facts.structure is None:
        return None
    try:
        every = optimizers_in(facts.structure.root)
    except ValueError as error:
        raise ConversionError(str(error), path=reader.location.path) from error
    found = [one for one in every if not one.keys().isdisjoint(wanted)]
    if not found and given.iterations is not None:
        found = [one for one in every if not one.keys()]
    if len(found) > 1:
        some = " and ".join(repr(one.path or "the file itself") for one in found[:3])
        message = f"found {len(found)} optimizers ({some}), but a Keras model has one"
        raise ConversionError(
            message,
            path=reader.location.path,
            hints=("to leave out all but one, pass --exclude", WEIGHTS_ONLY),
        )
    return found[0] if found else None


def bring_back(
    reader: FormatReader,
    torch: TorchOptimizer,
    weights: ReturnedWeights,
    given: Given,
    config: KerasFacts,
) -> Returned:
    """Return an optimizer's state for Keras.

    Raises ConversionError, which says why, for a state that Keras' optimizers have no equal of.
    """
    try:
        return _Returning(reader, torch, weights, given).returned(config)
    except ConversionError as error:
        error.path = error.path or reader.location.path
        error.hints = (*error.hints, WEIGHTS_ONLY)
        raise


class _Returning:
    def __init__(
        self, reader: FormatReader, torch: TorchOptimizer, weights: ReturnedWeights, given: Given
    ) -> None:
        self._reader = reader
        self._torch = torch
        self._weights = weights
        self._given = given
        self._named = NamedOptimizer(reader, torch)
        self._title = self._named.title
        self._name, self._settings = self._named.told
        self._row = BY_NAME[self._name]
        self._rate = self._settings[RATE] if given.learning_rate is None else given.learning_rate
        self._numbers = self._named.numbers
        self._slots = [one for one in self._row.slots if one.pytorch and self._is_kept(one)]

    def _is_kept(self, slot: SlotKind) -> bool:
        return not slot.made_by or bool(self._settings.get(slot.made_by))

    def returned(self, config: KerasFacts) -> Returned:
        relations: list[Relation] = []
        slots: dict[tuple[str, str], str] = {}
        trained = [relation for relation in self._weights.relations if self._is_trained(relation)]
        self._check_whole(trained)
        for slot in self._slots:
            for relation in trained:
                relations.append(self._slot(relation, slot))
                slots |= {
                    (target, slot.pytorch): _slot_key(slot.meaning, target) for target in relation.targets
                }
        state = TrainingState(
            PYTORCH,
            self._torch.path,
            self._name,
            (self._row,),
            slots,
            {},
            values={ITERATIONS: self._steps(), RATE: self._rate},
            settings=self._settings,
            names={RATE: ""},
        )
        return Returned(relations, state, self._notes(config))

    # What it is ---------------------------------------------------------------------------

    def _steps(self) -> int:
        if self._given.iterations is not None:
            return self._given.iterations
        if self._name == NO_STEP:
            message = "PyTorch's SGD does not store a step count, but Keras' SGD needs one"
            raise ConversionError(message, hints=("pass the step count with --iterations N",))
        return self._named.steps()

    def _notes(self, config: KerasFacts) -> list[str]:
        generation = generation_told(config) or ""
        _, settings = settings_in(config)
        others = [
            f"{name}={value:.9g} (configuration: {settings[name]:.9g})"
            for name, value in {**self._settings, RATE: self._rate}.items()
            if isinstance(settings.get(name), bool | int | float)
            and abs(value - settings[name]) > _CLOSE * abs(value)
            and name != "initial_accumulator_value"  # it begins a sum, and this one has already begun
        ]
        goes_on = (
            "Keras uses the values of the configuration, except for a learning rate that is "
            "stored in the file"
        )
        remark = remark_on(self._name, generation, self._settings)
        told = (f"the file has {', '.join(others)}; {goes_on}" if others else None, remark)
        return [f"torch.optim.{self._row.pytorch}: {each}" for each in told if each]

    # Tensors ------------------------------------------------------------------------------

    def _is_trained(self, relation: Relation) -> bool:
        """Whether the optimizer changes a tensor; of several together it is all, or none."""
        trained = [source for source in relation.sources if source in self._numbers]
        if not trained:
            return False
        turn = relation.steps.turn
        if isinstance(turn, Join) and turn.kind == "sum":
            message = "PyTorch trains two biases separately, but Keras has only their sum"
            raise ConversionError(message, key=relation.sources[0])
        if len(trained) < len(relation.sources):
            message = f"{relation.targets[0]} is one variable in Keras, but only a part of it is trainable"
            raise ConversionError(message, key=trained[0])
        return True

    def _check_whole(self, trained: Sequence[Relation]) -> None:
        """Compare parameters with the model's trainable variables, which Keras lists."""
        sources = {source for relation in trained for source in relation.sources}
        lost = next((name for name in self._numbers if name not in sources), None)
        if lost is not None:
            raise ConversionError(
                f"{self._title} has a parameter that is not a weight of the model", key=lost
            )
        changed = {target for relation in trained for target in relation.targets}
        every = {id(variable) for variable in trained_order(self._weights.model)}
        for name, variable in model_names(self._weights.model).items():
            if (name in changed) != (id(variable) in every):
                does = "does not train this weight" if name in changed else "trains this weight"
                has = "does" if name in changed else "does not"
                message = f"the configuration {does}, but {self._title} {has}"
                raise ConversionError(message, key=name)

    def _slot(self, relation: Relation, slot: SlotKind) -> Relation:
        keys = tuple(self._kept(source, slot.pytorch) for source in relation.sources)
        targets = tuple(_slot_key(slot.meaning, target) for target in relation.targets)
        scale = factor_between(slot, PYTORCH, KERAS3, lambda: self._rate) or 1.0
        return Relation(keys, targets, relation.steps, relation.row, scale)

    def _kept(self, name: str, slot: str) -> str:
        """Return the key of the only value that is kept for a parameter."""
        state = self._torch.states.get(self._numbers[name], {})
        found = state.get(slot)
        if not isinstance(found, KeptTensor):
            raise ConversionError(f"{self._title} has no {slot} for this parameter", key=name)
        known = {"step", *(each.pytorch for each in self._slots)}
        for other, value in state.items():
            if isinstance(value, KeptTensor) and other not in known:
                message = (
                    f"{self._title} has {other!r:.60} for this parameter, but its settings do not use it"
                )
                raise ConversionError(message, key=name)
        return found.key


# As another checkpoint has it --------------------------------------------------------------


def as_in(
    like: FormatReader,
    config: KerasFacts,
    model: Unit,
    relations: Sequence[Relation],
    optimizer: TrainingState | None,
) -> tuple[list[Relation], list[Constant]]:
    """Return tensors under the keys of another checkpoint of the model, which is filled with these keys."""
    names = model_names(model)
    keys = {name: variable.key for name, variable in names.items() if variable.key is not None}
    constants: list[Constant] = []
    theirs = stored_state(like, config) if optimizer is not None else None
    if theirs is not None and optimizer is not None:
        held = held_slots(theirs, model, {key: spec.shape for key, spec in like.specs.items()})
        for name, variable in names.items():
            for (whose, meaning), slot in held.items():
                if whose == id(variable):
                    keys[_slot_key(meaning, name)] = slot
        for number in (ITERATIONS, RATE):
            key = theirs.number(number)
            if key is not None:
                spec = like.specs[key]
                constants.append(Constant(key, optimizer.values[number], spec.shape, spec.dtype.name))
    renamed = [
        relation._replace(targets=tuple(keys.get(target, target) for target in relation.targets))
        for relation in relations
    ]
    return renamed, constants


def _slot_key(meaning: str, name: str) -> str:
    return f"optimizer/{meaning}/{name}"
