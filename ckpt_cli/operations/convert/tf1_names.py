"""The way back to TensorFlow 1: optimizers' state of Keras under the names of `tf.compat.v1.train`.

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
from typing import TYPE_CHECKING, NamedTuple

from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.core.words import counted
from formats.errors import ConversionError
from formats.keras.between_generations import factor_between
from formats.keras.optimizers import (
    KERAS2,
    KERAS3,
    NO_SLOTS,
    TF1,
    TITLES,
    Optimizer,
    state_of,
)
from formats.keras.step_count import GLOBAL_STEP, POWERS, power_of, steps_taken, stored_rate
from formats.keras.training_state import TrainingState, training_states

from .lazy import scaled
from .optimizers import spell
from .plan import Move

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.model.reader import FormatReader

    from .optimizers import Given


LEAVE_OUT = "to leave out optimizer state, pass --weights-only; to leave out a part of it, pass --exclude"


class Named(NamedTuple):
    """The result for optimizer state: moves by the key in the source, moves of computed values, and notes."""

    moves: dict[str, Move]
    made: list[Move]
    notes: list[str]


def named_state(source: FormatReader, names: Mapping[str, str], given: Given) -> Named:
    """Return the state of a source's optimizers as TensorFlow 1 calls it; `names` are all names by key.

    Raises ConversionError for what TensorFlow 1 has no counterpart of.
    """
    assert source.object_graph is not None
    states = training_states(source.object_graph, source.specs, source.full_names)
    naming = _Naming(source, names, given, alone=len(states) == 1)
    try:
        for state in states:
            told = state.known or state.slots or state.unowned
            if told and state.generation in (KERAS2, KERAS3) and state.keys & names.keys():
                naming.add(state)
    except ConversionError as error:
        error.path = error.path or source.location.path
        raise
    return naming.named


class _Naming:
    """Names for one optimizer after another."""

    def __init__(self, source: FormatReader, names: Mapping[str, str], given: Given, *, alone: bool) -> None:
        self.source = source
        self.names = names
        self.given = given
        self.alone = alone
        self.named = Named({}, [], [])
        self.slots = Counter[tuple[str, str]]()
        self.powers = 0

    def add(self, state: TrainingState) -> None:
        row = _row(state)
        spelled = spell(state)
        steps = steps_taken(self.source, state, alone=self.alone, asked=self.given.iterations)
        if steps is None and row.counts:
            hints = ("pass the step count with --iterations N",)
            raise ConversionError(f"the step count of {spelled} is unknown", hints=hints)
        self._add_slots(state, row)
        if row.has_powers and steps is not None:
            self._add_powers(state, steps.taken)
        if self.alone and steps is not None and GLOBAL_STEP not in self.names.values():
            self._make(GLOBAL_STEP, "int64", steps.taken)
        into = row.tf1 if state.slots else NO_SLOTS
        self.named.notes.append(
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
                    self.named.moves[key] = self._move(key, name, factor)
                else:
                    spec = self.source.specs[variable]
                    self._make(name, spec.dtype.name, 0, spec.shape)

    def _move(self, key: str, name: str, factor: float | None) -> Move:
        tensor = self.source[key]
        if factor is None:
            return Move(tensor.spec._replace(key=name), key, tensor)
        turned = scaled(tensor, factor)
        return Move(turned.spec._replace(key=name), key, turned)

    def _rate(self, state: TrainingState) -> float:
        """Return the learning rate by which momentum is turned."""
        if self.given.learning_rate is not None:
            return self.given.learning_rate
        rate = stored_rate(self.source, state)
        if rate is not None:
            said = f"momentum is converted with the learning rate {rate:.6g}"
            self.named.notes.extend([said] if said not in self.named.notes else [])
            return rate
        message = (
            "momentum of TensorFlow 1 is a sum of gradients; to convert it, ckpt needs the "
            f"learning rate of {spell(state)}, which SRC does not store"
        )
        raise ConversionError(message, hints=("pass the learning rate with --learning-rate R", LEAVE_OUT))

    def _add_powers(self, state: TrainingState, steps: int) -> None:
        for name, (base_name, usual) in POWERS.items():
            power = power_of(self.source, state, name, steps)
            self._make(_numbered(name, self.powers), "float32", power)
            if not state.numbers.get(base_name):
                self.named.notes.append(
                    f"{_numbered(name, self.powers)} was computed with the default {base_name} {usual}"
                )
        self.powers += 1

    def _make(self, name: str, dtype: str, value: float, shape: tuple[int, ...] = ()) -> None:
        import numpy as np

        spec = TensorSpec(name, BY_NAME[dtype], shape)
        self.named.made.append(Move(spec, None, None, np.full(shape, value, spec.dtype.numpy)))


def _numbered(name: str, number: int) -> str:
    return f"{name}_{number}" if number else name


def _row(state: TrainingState) -> Optimizer:
    """Return what the table says of an optimizer that TensorFlow 1 has, too."""
    if len({state_of(row) for row in state.known}) > 1:
        message = f"SRC does not name the class of its optimizer: {spell(state)}"
        hint = "pass a checkpoint of the TensorFlow 1 program with --like TEMPLATE"
        raise ConversionError(message, hints=(hint, LEAVE_OUT))
    row = next((row for row in state.known if row.tf1), None)
    if row is None:
        what = counted(len(state.slots) + len(state.unowned), "slot")
        message = f"TensorFlow 1 has no counterpart for {spell(state)} and its {what}"
        raise ConversionError(message, hints=(LEAVE_OUT,))
    meanings = row.meanings(state.generation)
    for name in sorted(state.slot_names):
        if not row.slot(meanings[name]).tf1:
            message = f"TensorFlow 1 has no counterpart for the slot {name!r} of {spell(state)}"
            raise ConversionError(message, hints=(LEAVE_OUT,))
    return row
