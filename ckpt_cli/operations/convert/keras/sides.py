"""The two sides of a conversion: optimizers' state on each and, where one is a file of Keras, the model.

An object graph and a file's configuration both describe the variables, their names, and whose each slot is. A
file without either, such as .weights.h5, uses the other side's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from formats.keras.facts import keras_facts
from formats.keras.match import fill, knows
from formats.keras.model import Edge, ModelError, Unit, Variable, from_config
from formats.keras.optimizer_state import stored_state, titled
from formats.keras.slot_owners import owned
from formats.keras.structure import StructureError, tree_of
from formats.keras.variable_layout import give_names
from formats.keras.walk import paired
from formats.model.reader import Family
from formats.orbax.optax_state import read_optax
from formats.tf.graph.states import states_of
from formats.torch import state as state_in_torch
from formats.torch.facts import TorchFacts

from ...select.view import DerivedReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.keras.training_state import TrainingState
    from formats.model.reader import FormatReader

    from ..optimizers import OptimizerOptions


class Differing(NamedTuple):
    """Two checkpoints whose structure does not pair them: why, naming the layer."""

    reason: str


class Side(NamedTuple):
    """A checkpoint: full names by key, the state of its optimizers, and the keys of the model's variables.

    `variables` are in the model's order; None if no configuration was needed, or there are names alone.
    """

    full_names: Mapping[str, str]
    states: Sequence[TrainingState]
    variables: Sequence[str | None] | None = None


def sides(
    source: FormatReader, template: FormatReader, given: OptimizerOptions
) -> tuple[Side, Side] | Differing | None:
    """Return both sides, or None if only a model would describe them, and one of them has none."""
    if source.format.is_tree != template.format.is_tree:
        return _tree_and_other(source, template, given)
    mine, theirs = states_of(source), states_of(template)
    if mine is not None and theirs is not None:
        return Side(source.full_names, mine), Side(template.full_names, theirs)
    if not (_is_keras_or_tensorflow(source) and _is_keras_or_tensorflow(template)):
        return None
    own, others = (keras_facts(reader.proved_facts()).config for reader in (source, template))
    one, other = own or others, others or own
    units = [_unit_of(text) for text in (one, other)]
    if all(unit is None or not unit.is_known for unit in units):
        found = _by_structure(source, mine, template, theirs, given)
        if not isinstance(found, Differing | None) or units[0] is None or units[1] is None:
            return found
    if units[0] is None or units[1] is None:
        return None
    with suppress(ModelError):
        return _side(source, units[0], mine, given), _side(template, units[1], theirs, given)
    return _by_structure(source, mine, template, theirs, given)


_UNKNOWN_MODEL = (
    "without a model's configuration, a Keras file does not name the weights of its slots; "
    "use a .keras or .h5 file of the whole model"
)


def _tree_and_other(
    source: FormatReader, template: FormatReader, given: OptimizerOptions
) -> tuple[Side, Side] | Differing | None:
    """Return a tree with optax state, and a checkpoint of another library; otherwise None."""
    both = side_of(source, given), side_of(template, given)
    if both[0] is not None and both[1] is not None:
        return both[0], both[1]
    without_side = [reader for reader, side in zip((source, template), both, strict=True) if side is None]
    return (
        Differing(_UNKNOWN_MODEL)
        if any(each.format.family is Family.KERAS for each in without_side)
        else None
    )


def side_of(reader: FormatReader, given: OptimizerOptions) -> Side | None:
    """Return a checkpoint with the optimizers that it describes itself, or None if it describes none."""
    if isinstance(reader, DerivedReader):
        return Side(reader.full_names, reader.states)
    if isinstance(reader.facts, TorchFacts):
        state = state_in_torch.read(reader)
        return None if state is None else Side(reader.full_names, [state])
    if reader.format.is_tree:
        state = read_optax(reader, given.optimizer)
        return None if state is None else Side(reader.full_names, [state])
    if not _is_keras_or_tensorflow(reader):
        return None
    states, unit = states_of(reader), _unit_of(keras_facts(reader.proved_facts()).config)
    if states is not None:
        return Side(reader.full_names, states)
    with suppress(ModelError):
        return None if unit is None or not knows(reader) else _side(reader, unit, states, given)
    return None


def _unit_of(config: str | None) -> Unit | None:
    """Return the model of a configuration, or None if there is none, or it describes no layers."""
    if config is not None:
        with suppress(ModelError):
            return from_config(config)
    return None


def _is_keras_or_tensorflow(reader: FormatReader) -> bool:
    return reader.format.family in (Family.KERAS, Family.TENSORFLOW)


def paired_by_model(mine: Side, theirs: Side) -> dict[str, str]:
    """Return the key on one side for that on the other, of all variables by their order in the model."""
    here, there = mine.variables or (), theirs.variables or ()
    if len(here) != len(there):
        return {}
    both = zip(there, here, strict=True)
    return {other: key for other, key in both if other is not None and key is not None}


def _by_structure(
    source: FormatReader,
    mine: Sequence[TrainingState] | None,
    template: FormatReader,
    theirs: Sequence[TrainingState] | None,
    given: OptimizerOptions,
) -> tuple[Side, Side] | Differing | None:
    """Return both sides as their trees of objects tell; None if one has no tree."""
    trees = tree_of(source), tree_of(template)
    if trees[0] is None or trees[1] is None:
        return None
    try:
        pairs = paired(trees[0], trees[1])
    except StructureError as error:
        return Differing(str(error))
    there, here = list(pairs), list(pairs.values())
    trained = trees[0].trained or [pairs[key] for key in trees[1].trained if key in pairs]
    partners = {own: key for key, own in pairs.items()}
    followed = [partners[key] for key in trained if key in partners]
    names = _with_names(pairs, source.full_names, template.full_names)
    own_names = _with_names(partners, template.full_names, source.full_names)
    return (
        _walked(source, mine, here, [(key, own_names.get(key, "")) for key in trained], given),
        _walked(template, theirs, there, [(key, names.get(key, "")) for key in followed], given),
    )


def _with_names(
    pairs: Mapping[str, str], others: Mapping[str, str], own: Mapping[str, str]
) -> dict[str, str]:
    """Return full names by key, those of the other side for what has none."""
    return {**{key: others[other] for key, other in pairs.items() if other in others}, **own}


def _walked(
    reader: FormatReader,
    states: Sequence[TrainingState] | None,
    variables: Sequence[str],
    trained: Sequence[tuple[str, str]],
    given: OptimizerOptions,
) -> Side:
    """Return a side whose variables the other one describes.

    `trained` are the keys and full names of those that are trained, in the model's order.
    """
    if states is not None:
        return Side(reader.full_names, states, variables)
    unit = Unit(edges=[Edge(key, Variable(key, True, name, key)) for key, name in trained])
    state = stored_state(reader, optimizer_name=given.optimizer)
    shapes = {key: spec.shape for key, spec in reader.specs.items()}
    found = [] if state is None else [owned(state, unit, shapes)]
    return Side(reader.full_names, found, variables)


def _side(
    reader: FormatReader, unit: Unit, states: Sequence[TrainingState] | None, given: OptimizerOptions
) -> Side:
    if not knows(reader):
        return Side(reader.full_names, states or ())
    fill(unit, reader)
    variables = list(unit.all_variables())
    keys = [variable.key for variable in variables]
    if states is not None:
        return Side(reader.full_names, states, keys)
    give_names(unit)
    names = {variable.key: variable.full_name for variable in variables if variable.key is not None}
    state = stored_state(reader, optimizer_name=given.optimizer)
    shapes = {key: spec.shape for key, spec in reader.specs.items()}
    found = [] if state is None else [owned(state, unit, shapes)]
    return Side({**names, **reader.full_names}, found, keys)


def differing_optimizers(
    source: FormatReader, template: FormatReader, optimizer_name: str | None = None
) -> str | None:
    """Return why the optimizers differ, apart from their names, or None if they do not.

    In .weights.h5 and .keras slots have numbers for names, which mean something else in another class. An
    .npz made from such a file has only these numbers.
    """
    if any(
        reader.format.family is not Family.KERAS and reader.object_graph is None
        for reader in (source, template)
    ):
        return None
    mine, theirs = (
        stored_state(source, optimizer_name=optimizer_name),
        stored_state(template, optimizer_name=optimizer_name),
    )
    if mine is None or theirs is None or not mine.called or not theirs.called:
        side = "TEMPLATE" if mine is not None and mine.called else "SRC"
        return f"{side} does not store the class of its optimizer, so the meaning of its slots is unknown"
    if (mine.generation, mine.row or mine.called) == (theirs.generation, theirs.row or theirs.called):
        return None
    return f"SRC's optimizer is {titled(mine)}, but TEMPLATE's is {titled(theirs)}"
