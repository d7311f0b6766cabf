"""An optimizer's state between Keras and PyTorch: slots with the axes of their weights, and settings.

Keras has one group of parameters. It continues with the hyperparameters of its own configuration; a note
reports those that differ from PyTorch's. `formats.torch.state` reads and writes the layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import ConversionError
from formats.keras.in_pytorch import model_names
from formats.keras.model import trained_order
from formats.keras.optimizer_settings import generation_of_config, settings_in
from formats.keras.optimizer_state import stored_state, titled
from formats.keras.optimizers import KERAS3, PYTORCH
from formats.keras.optimizers_in_pytorch import GROUPS, NO_STEP, lack_of, remark_on, settings_of
from formats.keras.slot_owners import are_owners_known, idle_slots, owned, owned_slots
from formats.keras.training_state import ITERATIONS
from formats.keras.training_state import LEARNING_RATE as RATE
from formats.torch.facts import TorchFacts
from formats.torch.optimizer import optimizers_in
from formats.torch.state import MOST_STEPS, NamedOptimizer, slot_key, weight_key, write

from ..select.view import Constant
from .following_slots import SlotTarget, follow_weights, is_trained
from .optimizers import reason_of_idle
from .plan import Dropped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from formats.keras.facts import KerasFacts
    from formats.keras.model import Unit
    from formats.keras.optimizers import Optimizer as Row
    from formats.keras.training_state import TrainingState
    from formats.model.reader import FormatReader
    from formats.torch.optimizer import TorchOptimizer

    from ..select.relations import Relation
    from .optimizers import OptimizerOptions


WEIGHTS_ONLY = "pass --kind variable to leave out optimizer state"

_COMPILED = "to supply what is missing, pass a .keras or .h5 file of the compiled model with --config FILE"
_RATE_GIVEN = "pass the learning rate with --learning-rate R"
_CLOSE = 1e-6
"""How far numbers of two configurations may be apart, relatively, to be the same in float32."""


# To PyTorch ----------------------------------------------------------------------------------


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
        return _followed(reader, model, state, weights)
    except ConversionError as error:
        error.path = error.path or reader.location.path
        error.hints = (*error.hints, WEIGHTS_ONLY)
        raise


def _followed(reader: FormatReader, model: Unit, state: TrainingState, weights: ModelWeights) -> Followed:
    shapes = {key: spec.shape for key, spec in reader.specs.items()}
    held = owned_slots(state, model, shapes)
    _check_row(state, is_known=are_owners_known(state, held))
    settings = _known_settings(reader, state)
    idle = idle_slots(state, held)
    every = owned(state, model, shapes)
    kept = {at: key for at, key in every.slots.items() if key not in idle}
    state = every._replace(slots=kept, settings=settings)
    row, slots = state.known[0], _kept_slots(state)
    variables = model.all_variables() if every.slots else trained_order(model)
    owners = every.variables
    trained = [one.key for one in variables if one.key is not None and (not owners or one.key in owners)]
    _check_whole(weights, trained)
    by_target = {target: relation for relation in weights.relations for target in relation.targets}
    there = [name for name in weights.names if name in by_target]
    names = [name for name in there if is_trained(by_target[name], trained, PYTORCH)]
    numbers = {name: number for number, name in enumerate(names)}
    changed = {id(by_target[name]): by_target[name] for name in names}.values()

    def key(name: str, meaning: str) -> str:
        return slot_key(numbers[name], row.slot(meaning).pytorch)

    title = titled(state)
    following = follow_weights(state, [*changed], SlotTarget(PYTORCH, slots, key, settings[RATE], title))
    if row.name != NO_STEP:
        state = state._replace(values={**state.values, ITERATIONS: _steps(reader, state)})
    written = write(state, [*weights.names, *(one.key for one in weights.constants)], names)
    relations = [
        relation._replace(targets=tuple(map(weight_key, relation.targets))) for relation in weights.relations
    ]
    constants = [constant._replace(key=weight_key(constant.key)) for constant in weights.constants]
    constants += [Constant(at, value, (), "float32") for at, value in written.steps.items()]
    dropped = [Dropped(at, reason_of_idle(state.generation)) for at in sorted(idle)]
    notes = _notes_to_pytorch(row, state.generation, settings)
    return Followed([*relations, *following.relations], constants, written.facts, dropped, notes)


def _check_row(state: TrainingState, *, is_known: bool) -> None:
    """Reject an optimizer that PyTorch does not have, and slots of unknown variables."""
    row, title = state.row, titled(state)
    if state.scaled:
        raise ConversionError(
            f"{title} is inside a LossScaleOptimizer, which PyTorch's layout cannot represent"
        )
    if row is None or row.name not in GROUPS:
        raise ConversionError(
            f"PyTorch's layout cannot represent the state of {title}; expected one of {', '.join(GROUPS)}"
        )
    if not is_known:
        raise ConversionError(
            f"SRC does not say which variables the slots of {title} belong to", hints=(_COMPILED,)
        )


def _known_settings(reader: FormatReader, state: TrainingState) -> dict[str, Any]:
    """Return the optimizer's settings, those that tensors hold as they hold them."""
    name, title = state.known[0].name, titled(state)
    found = {**state.settings, **{rate: _value(reader, state, rate) for rate in state.rates}}
    lacking = sorted(each for each in settings_of(name) if found.get(each) is None)
    if lacking:
        raise ConversionError(f"SRC does not store the setting {lacking[0]!r} of {title}", hints=(_COMPILED,))
    rate = found[RATE]
    if type(rate) is not float or not 0 < rate < float("inf"):
        what = "a schedule" if isinstance(rate, dict) else repr(rate)
        raise ConversionError(
            f"the learning rate of {title} is {what}; expected a positive number", hints=(_RATE_GIVEN,)
        )
    odd = next((each for each in settings_of(name) if not _is_number(found[each])), None)
    if odd is not None:
        raise ConversionError(f"the setting {odd!r} of {title} is {found[odd]!r:.60}; expected a number")
    lack = lack_of(name, found)
    if lack is not None:
        message = f"{title} has {lack}={found[lack]!r:.60}, which PyTorch's {state.known[0].pytorch}"
        raise ConversionError(f"{message} does not support")
    return found


def _value(reader: FormatReader, state: TrainingState, name: str) -> float | None:
    """Return a number of the optimizer: what is given comes before what is stored."""
    if name in state.values:
        return state.values[name]
    key = state.number(name)
    if key is None:
        return None
    spec = reader.specs[key]
    if spec.shape:
        raise ConversionError(f"this tensor has shape {list(spec.shape)}; expected one number", key=key)
    return float(reader[key].read())


def _kept_slots(state: TrainingState) -> list[str]:
    """Return the names of the slots that it keeps, which are those that its settings make."""
    row, settings = state.known[0], state.settings
    meanings = row.meanings(state.generation)
    kept = {meanings[name] for name in state.slot_names}
    wanted = [slot for slot in row.slots if not slot.made_by or settings.get(slot.made_by)]
    if kept != {slot.meaning for slot in wanted}:
        found, expected = (
            " and ".join(sorted(each)) or "none" for each in (kept, [slot.meaning for slot in wanted])
        )
        raise ConversionError(f"{titled(state)} has the slots {found}, but its settings require {expected}")
    return [slot.name(state.generation) for slot in wanted]


def _check_whole(weights: ModelWeights, trained: Sequence[str]) -> None:
    """Reject slots without their weight, because PyTorch's optimizer would have no parameter for them."""
    there = {source for relation in weights.relations for source in relation.sources}
    lost = next((key for key in trained if key not in there), None)
    if lost is not None:
        raise ConversionError("this weight is left out, but its optimizer state is not", key=lost)


def _steps(reader: FormatReader, state: TrainingState) -> int:
    steps = _value(reader, state, ITERATIONS)
    if steps is None or not 0 <= steps <= MOST_STEPS:
        raise ConversionError(
            f"the step count is {steps}; PyTorch counts in float32, at most {MOST_STEPS} steps"
        )
    return int(steps)


def _notes_to_pytorch(row: Row, generation: str, settings: dict[str, Any]) -> list[str]:
    names = "pass the parameters to the optimizer in the order of param_names in optimizer/param_groups"
    remark_text = (names, remark_on(row.name, generation, settings))
    return [f"torch.optim.{row.pytorch}: {each}" for each in remark_text if each]


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


# From PyTorch --------------------------------------------------------------------------------


class Returned(NamedTuple):
    """Slots as tensors of Keras' variables, and the optimizer that they make."""

    relations: list[Relation]
    optimizer: TrainingState
    notes: list[str]


class ReturnedWeights(NamedTuple):
    """A model, and the tensors of PyTorch, by name, that become its variables."""

    model: Unit
    relations: Sequence[Relation]


def chosen_optimizer(
    reader: FormatReader, wanted: Collection[str], given: OptimizerOptions
) -> TorchOptimizer | None:
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


def optimizer_for_keras(
    reader: FormatReader,
    torch: TorchOptimizer,
    weights: ReturnedWeights,
    given: OptimizerOptions,
    config: KerasFacts,
) -> Returned:
    """Return an optimizer's state for Keras.

    Raises ConversionError, which says why, for a state that Keras' optimizers have no equal of.
    """
    try:
        return _returned(NamedOptimizer(reader, torch), weights, given, config)
    except ConversionError as error:
        error.path = error.path or reader.location.path
        error.hints = (*error.hints, WEIGHTS_ONLY)
        raise


def _returned(
    named: NamedOptimizer, weights: ReturnedWeights, given: OptimizerOptions, config: KerasFacts
) -> Returned:
    state, parameters = named.state(by_name=True), named.numbers
    row, settings = state.known[0], state.settings
    rate = settings[RATE] if given.learning_rate is None else given.learning_rate
    trained = [relation for relation in weights.relations if is_trained(relation, parameters, KERAS3)]
    _check_parameters(named.title, weights.model, parameters, trained)
    made = [slot for slot in row.slots if slot.pytorch and (not slot.made_by or settings.get(slot.made_by))]
    slots = [slot.pytorch for slot in made]
    following = follow_weights(state, trained, SlotTarget(KERAS3, slots, _slot_key, rate, named.title))
    for parameter, name in state.slots:
        if name not in slots:
            message = f"{named.title} has {name!r:.60} for this parameter, but its settings do not use it"
            raise ConversionError(message, key=parameter)
    values = {ITERATIONS: _count(named, given), RATE: rate}
    state = following.state._replace(numbers={}, values=values, names={RATE: ""})
    return Returned(following.relations, state, _notes_to_keras(state, config))


def _count(named: NamedOptimizer, given: OptimizerOptions) -> int:
    if given.iterations is not None:
        return given.iterations
    if named.class_and_settings[0] == NO_STEP:
        message = "PyTorch's SGD does not store a step count, but Keras' SGD needs one"
        raise ConversionError(message, hints=("pass the step count with --iterations N",))
    return named.steps()


def _notes_to_keras(state: TrainingState, config: KerasFacts) -> list[str]:
    row, generation = state.known[0], generation_of_config(config) or ""
    _, settings = settings_in(config)
    others = [
        f"{name}={value:.9g} (configuration: {settings[name]:.9g})"
        for name, value in {**state.settings, RATE: state.values[RATE]}.items()
        if isinstance(settings.get(name), bool | int | float)
        and abs(value - settings[name]) > _CLOSE * abs(value)
        and name != "initial_accumulator_value"  # it begins a sum, and this one has already begun
    ]
    continuation = (
        "Keras uses the values of the configuration, except for a learning rate that is stored in the file"
    )
    remark = remark_on(row.name, generation, state.settings)
    remarks = (f"the file has {', '.join(others)}; {continuation}" if others else None, remark)
    return [f"torch.optim.{row.pytorch}: {each}" for each in remarks if each]


def _check_parameters(
    title: str, model: Unit, parameters: Iterable[str], trained: Sequence[Relation]
) -> None:
    """Compare parameters with the model's trainable variables, which Keras lists."""
    sources = {source for relation in trained for source in relation.sources}
    lost = next((name for name in parameters if name not in sources), None)
    if lost is not None:
        raise ConversionError(f"{title} has a parameter that is not a weight of the model", key=lost)
    changed = {target for relation in trained for target in relation.targets}
    every = {id(variable) for variable in trained_order(model)}
    for name, variable in model_names(model).items():
        if (name in changed) != (id(variable) in every):
            does = "does not train this weight" if name in changed else "trains this weight"
            has = "does" if name in changed else "does not"
            message = f"the configuration {does}, but {title} {has}"
            raise ConversionError(message, key=name)


# As another checkpoint has it --------------------------------------------------------------


def under_keys_of(
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
        held = owned_slots(theirs, model, {key: spec.shape for key, spec in like.specs.items()})
        for name, variable in names.items():
            for (owner, meaning), slot in held.items():
                if owner == id(variable):
                    keys[_slot_key(name, meaning)] = slot
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


def _slot_key(name: str, meaning: str) -> str:
    return f"optimizer/{meaning}/{name}"
