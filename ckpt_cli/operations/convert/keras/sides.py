"""The two sides of a conversion: optimizers' state on each and, where one is a file of Keras, the model.

What an object graph tells of itself, a file's configuration does: which variables there are, what
they are called and whose each slot is.  A file without one, as .weights.h5 is, goes by that of the
other side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.keras.facts import keras_facts
from formats.keras.match import fill, knows
from formats.keras.model import ModelError, from_config
from formats.keras.training_state import ITERATIONS, MOMENTUM_PRODUCT, TrainingState
from formats.keras.variable_layout import give_names
from formats.model.reader import Family
from formats.tf.graph.states import states_of

from .optimizer import RATE, optimizer_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.keras.model import Unit
    from formats.model.reader import CheckpointReader

    from .optimizer import StoredOptimizer


class Side(NamedTuple):
    """A checkpoint: full names by key, the state of its optimizers, and the keys of the model's variables.

    `variables` are in the model's order; None where no configuration was needed, or there are names alone.
    """

    full_names: Mapping[str, str]
    states: Sequence[TrainingState]
    variables: Sequence[str | None] | None = None


def sides(source: CheckpointReader, template: CheckpointReader) -> tuple[Side, Side] | None:
    """Return both; None where only a model would tell what they have, and nothing tells of one of both."""
    mine, theirs = states_of(source), states_of(template)
    if mine is not None and theirs is not None:
        return Side(source.full_names, mine), Side(template.full_names, theirs)
    own, others = (keras_facts(reader.proved_facts()).config for reader in (source, template))
    one, other = own or others, others or own
    if one is None or other is None or not (_is_told(source) and _is_told(template)):
        return None
    try:
        return _side(source, one, mine), _side(template, other, theirs)
    except ModelError:
        return None


def _is_told(reader: CheckpointReader) -> bool:
    return reader.format.family in (Family.KERAS, Family.TENSORFLOW)


def paired_by_model(mine: Side, theirs: Side) -> dict[str, str]:
    """Return the key on one side for that on the other, of all variables by their order in the model."""
    here, there = mine.variables or (), theirs.variables or ()
    if len(here) != len(there):
        return {}
    both = zip(there, here, strict=True)
    return {other: key for other, key in both if other is not None and key is not None}


def _side(reader: CheckpointReader, config: str, states: Sequence[TrainingState] | None) -> Side:
    if not knows(reader):
        return Side(reader.full_names, states or ())
    unit = from_config(config)
    fill(unit, reader)
    variables = list(unit.all_variables())
    keys = [variable.key for variable in variables]
    if states is not None:
        return Side(reader.full_names, states, keys)
    give_names(unit)
    names = {variable.key: variable.full_name for variable in variables if variable.key is not None}
    optimizer = optimizer_of(reader)
    shapes = {key: spec.shape for key, spec in reader.specs.items()}
    found = [] if optimizer is None else [_state(optimizer.owned(unit, shapes), unit)]
    return Side({**names, **reader.full_names}, found, keys)


def _state(optimizer: StoredOptimizer, unit: Unit) -> TrainingState:
    """Return an optimizer's state as an object graph would tell it."""
    row, generation, rate = optimizer.row, optimizer.generation, optimizer.rates.get(RATE)
    keys = {id(variable): variable.key for variable in unit.all_variables()}
    slots: dict[tuple[str, str], str] = {}
    unowned: tuple[str, ...] = ()
    if row is not None and optimizer.is_told and not optimizer.scaled:
        for (owner, meaning), slot in optimizer.held.items():
            variable = keys[owner]
            assert variable is not None
            assert slot.key is not None
            slots[variable, row.slot(meaning).name(generation)] = slot.key
    else:
        row, unowned = None, tuple(slot.key for slot in optimizer.slots if slot.key is not None)
    counts = ((ITERATIONS, optimizer.iteration), (MOMENTUM_PRODUCT, optimizer.product))
    numbers = [*counts, *optimizer.rates.items()]
    return TrainingState(
        generation,
        "optimizer",
        optimizer.name,
        (row,) if row is not None else (),
        slots,
        {name: (held.key,) for name, held in numbers if held is not None and held.key is not None},
        unowned,
        rate.value if rate is not None else None,
        optimizer.in_use,
    )
