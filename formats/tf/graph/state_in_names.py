"""Optimizers' state under the names of `tf.compat.v1.train`: read by a graph made of names, and written.

    slot m of dense/kernel    dense/kernel/Adam
    slot v of dense/kernel    dense/kernel/Adam_1
    iterations                beta1_power, beta2_power, and global_step

The number after a name counts the slots that optimizers of that name have on a variable; that after a power
counts the optimizers that have powers. Values have the same meaning except momentum, which TensorFlow 1 keeps
as a sum of gradients. Numbers that it does not save, such as the rate, keep their own names, because a saver
ignores them. So does everything without slots that the table does not list, which may be anything with
an edge `_iterations`. A legacy optimizer in a graph keeps its full names, by which TensorFlow 1 knows it.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.dtypes import BY_NAME
from ...core.spec import TensorSpec
from ...core.words import counted
from ...errors import ConversionError
from ...keras.between_generations import factor_between
from ...keras.optimizers import KERAS2, KERAS3, NO_SLOTS, TF1, TITLES, Optimizer, state_of
from ...keras.step_count import GLOBAL_STEP, POWERS, power_of, steps_taken, stored_rate
from ...keras.training_state import TrainingState, training_states
from ...model.reader import Family
from .invent import invent_graph

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from ...model.reader import FormatReader
    from .invent import Invented


LEAVE_OUT = "to leave out optimizer state, pass --weights-only; to leave out a part of it, pass --exclude"


def read(reader: FormatReader) -> list[TrainingState] | None:
    """Return the state of each optimizer that names tell of; None for a file of Keras, which has others."""
    invented = graph_of_names(reader)
    if invented is None:
        return None
    names = {key: name for name, key in invented.keys.items()}
    specs = {key: reader.specs[name]._replace(key=key) for key, name in names.items()}
    return [_renamed(state, names) for state in training_states(invented.graph, specs, names)]


def graph_of_names(reader: FormatReader) -> Invented | None:
    """Return the object graph that a checkpoint's names make, with the keys by name; None of an export."""
    if reader.format.family is Family.KERAS:
        return None
    own, kinds = reader.own_keys, reader.kinds
    keys = {own.get(key, key): key for key in reader.specs if kinds.get(key) != "graph"}
    invented = invent_graph({name: reader.specs[key]._replace(key=name) for name, key in keys.items()})
    if invented.is_export:
        return None
    return invented._replace(keys={keys[name]: key for name, key in invented.keys.items()})


def _renamed(state: TrainingState, names: Mapping[str, str]) -> TrainingState:
    return state._replace(
        slots={(names[owner], slot): names[key] for (owner, slot), key in state.slots.items()},
        numbers={name: tuple(names[key] for key in keys) for name, keys in state.numbers.items()},
    )


class NamedState(NamedTuple):
    """The result for optimizer state, and notes.

    `slots` are the name of each slot by its key in the source, and the factor of its values if they change;
    `made` are computed values.
    """

    slots: dict[str, tuple[str, float | None]]
    made: list[tuple[TensorSpec, np.ndarray[Any, Any]]]
    notes: list[str]


def write(
    source: FormatReader,
    names: Mapping[str, str],
    iterations: int | None = None,
    learning_rate: float | None = None,
) -> NamedState:
    """Return the state of a source's optimizers as TensorFlow 1 calls it; `names` are all names by key.

    Raises ConversionError for what TensorFlow 1 has no counterpart of. The numbers are those that are given.
    """
    assert source.object_graph is not None
    states = training_states(source.object_graph, source.specs, source.full_names)
    naming = _Naming(source, names, (iterations, learning_rate), alone=len(states) == 1)
    try:
        for state in states:
            is_known_state = state.known or state.slots or state.unowned
            if is_known_state and state.generation in (KERAS2, KERAS3) and state.keys & names.keys():
                naming.add(state)
    except ConversionError as error:
        error.path = error.path or source.location.path
        raise
    return naming.written


class _Naming:
    """Names for one optimizer after another."""

    def __init__(
        self,
        source: FormatReader,
        names: Mapping[str, str],
        given: tuple[int | None, float | None],
        *,
        alone: bool,
    ) -> None:
        self.source = source
        self.names = names
        self.iterations, self.learning_rate = given
        self.alone = alone
        self.written = NamedState({}, [], [])
        self.slots = Counter[tuple[str, str]]()
        self.powers = 0

    def add(self, state: TrainingState) -> None:
        row = _row(state)
        spelled = state.spelled()
        steps = steps_taken(self.source, state, alone=self.alone, requested=self.iterations)
        if steps is None and row.counts:
            hints = ("pass the step count with --iterations N",)
            raise ConversionError(f"the step count of {spelled} is unknown", hints=hints)
        self._add_slots(state, row)
        if row.has_powers and steps is not None:
            self._add_powers(state, steps.taken)
        if self.alone and steps is not None and GLOBAL_STEP not in self.names.values():
            self._make(GLOBAL_STEP, "int64", steps.taken)
        into = row.tf1 if state.slots else NO_SLOTS
        self.written.notes.append(
            f"the state of {spelled} is written under the names of {into} in {TITLES[TF1]}"
        )

    def _add_slots(self, state: TrainingState, row: Optimizer) -> None:
        meanings = row.meanings(state.generation)
        held = {(variable, meanings[name]): key for (variable, name), key in state.slots.items()}
        order = row.tf1_order({meaning for _, meaning in held})
        for variable in dict.fromkeys(variable for variable, _ in held):
            base = self.names.get(variable)
            if base is None or not any(held.get((variable, slot.meaning)) in self.names for slot in order):
                continue
            for slot in order:
                at = self.slots[base, row.tf1]
                self.slots[base, row.tf1] += 1
                name = _numbered(f"{base}/{row.tf1}", at)
                key = held.get((variable, slot.meaning))
                if key is not None:
                    factor = factor_between(slot, state.generation, TF1, partial(self._rate, state))
                    self.written.slots[key] = name, factor
                else:
                    spec = self.source.specs[variable]
                    self._make(name, spec.dtype.name, 0, spec.shape)

    def _rate(self, state: TrainingState) -> float:
        """Return the learning rate by which momentum is turned."""
        if self.learning_rate is not None:
            return self.learning_rate
        rate = stored_rate(self.source, state)
        if rate is not None:
            note = f"momentum is converted with the learning rate {rate:.6g}"
            self.written.notes.extend([note] if note not in self.written.notes else [])
            return rate
        message = (
            "momentum of TensorFlow 1 is a sum of gradients; to convert it, ckpt needs the "
            f"learning rate of {state.spelled()}, which SRC does not store"
        )
        raise ConversionError(message, hints=("pass the learning rate with --learning-rate R", LEAVE_OUT))

    def _add_powers(self, state: TrainingState, steps: int) -> None:
        for name, (base_name, usual) in POWERS.items():
            power = power_of(self.source, state, name, steps)
            self._make(_numbered(name, self.powers), "float32", power)
            if not state.numbers.get(base_name):
                self.written.notes.append(
                    f"{_numbered(name, self.powers)} was computed with the default {base_name} {usual}"
                )
        self.powers += 1

    def _make(self, name: str, dtype: str, value: float, shape: tuple[int, ...] = ()) -> None:
        import numpy as np

        spec = TensorSpec(name, BY_NAME[dtype], shape)
        self.written.made.append((spec, np.full(shape, value, spec.dtype.numpy)))


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name


def _row(state: TrainingState) -> Optimizer:
    """Return what the table says of an optimizer that TensorFlow 1 has, too."""
    if len({state_of(row) for row in state.known}) > 1:
        message = f"SRC does not name the class of its optimizer: {state.spelled()}"
        hint = "pass a checkpoint of the TensorFlow 1 program with --like TEMPLATE"
        raise ConversionError(message, hints=(hint, LEAVE_OUT))
    row = next((row for row in state.known if row.tf1), None)
    if row is None:
        what = counted(len(state.slots) + len(state.unowned), "slot")
        message = f"TensorFlow 1 has no counterpart for {state.spelled()} and its {what}"
        raise ConversionError(message, hints=(LEAVE_OUT,))
    meanings = row.meanings(state.generation)
    for name in sorted(state.slot_names):
        if not row.slot(meanings[name]).tf1:
            message = f"TensorFlow 1 has no counterpart for the slot {name!r} of {state.spelled()}"
            raise ConversionError(message, hints=(LEAVE_OUT,))
    return row
