"""Carrying optimizers' state from one checkpoint into another by what it means.

Each optimizer of TEMPLATE is found in SRC by the variables that it trains. Each of its slots comes from the
slot with the same variable and the same meaning. Its name and position in SRC's generation do not matter. A
value that has the same meaning in another form is converted: TensorFlow 1's momentum is a sum of gradients,
and Keras' is -learning_rate times that. Step counts, beta1_power, beta2_power and the learning rate are
converted as well. Hyperparameters that a generation does not save stay with the program. If the optimizers
differ, or one keeps state that the other lacks, nothing is converted: that is an error.
"""

from __future__ import annotations

import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import counted
from formats.errors import ConversionError
from formats.keras.between_generations import SUMS, factor_between, flaw_between, reason_of_others
from formats.keras.config import snake_case
from formats.keras.optimizers import (
    BY_NAME,
    KERAS2,
    KERAS3,
    LEGACY,
    NO_SLOTS,
    OPTAX,
    OPTIMIZERS,
    TF1,
    TITLES,
    Optimizer,
    is_another,
    named,
    state_of,
)
from formats.keras.step_count import (
    GLOBAL_STEP,
    POWERS,
    StepCount,
    is_count,
    power_of,
    steps_taken,
    stored_rate,
)
from formats.keras.training_state import (
    ACCUMULATED_STEPS,
    ITERATIONS,
    LEARNING_RATE,
    MOMENTUM_PRODUCT,
    UNKNOWN_CLASS,
    TrainingState,
    common_rows,
)

from .accounting import KEEP_OPTIMIZER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy as np

    from formats.model.reader import FormatReader


_NO_BIAS = 1e-3
"""How far the correction of Adam's bias is from 1 where it is as good as none, after some 6,200 steps."""

_ALIKE = frozenset((LEARNING_RATE, ITERATIONS, MOMENTUM_PRODUCT, "loss_scale", "good_steps"))
"""Numbers that mean the same in all generations."""


class OptimizerError(ConversionError):
    """SRC's optimizer cannot continue as TEMPLATE's."""


GENERATIONS = (KERAS2, KERAS3)
"""What --generation takes."""


class OptimizerOptions(NamedTuple):
    """The options about an optimizer that no file contains."""

    iterations: int | None = None
    learning_rate: float | None = None
    optimizer: str | None = None
    """The class of the optimizer, of a file that does not tell it."""

    allows_missing: bool = False
    """Whether the count is any, for a way there and back, on which nothing may need one."""


def known_optimizer(name: str) -> str:
    """Return the class that an optimizer's name means; ValueError for one that no Keras has."""
    row = named(name)
    if row is not None or is_another(name):
        return row.name if row is not None else name
    known = ", ".join(one.name for one in OPTIMIZERS if one.generations)
    raise ValueError(f"{name!r:.60} is not a known optimizer; expected one of {known}, Adafactor, Muon")


def contradiction(source: FormatReader, optimizer_name: str | None, known: str) -> ConversionError | None:
    """Return the error of --optimizer, if SRC calls its optimizer otherwise."""
    row = named(known)
    if optimizer_name is None or not known or named(optimizer_name) is row or row is None:
        return None
    message = f"--optimizer says {optimizer_name}, but the optimizer of SRC is {known}"
    return ConversionError(message, path=source.location.path, hints=("remove --optimizer",))


_WITH_TEMPLATE = "to convert the optimizer for another program, pass a checkpoint of it with --like TEMPLATE"
AS_THEY_ARE = "this conversion copies all tensors unchanged"


def changes_nothing(
    source: FormatReader, option: str, why: str, hint: str = _WITH_TEMPLATE
) -> ConversionError:
    """Return the error of an option that is given where it has no effect."""
    hints = (f"remove {option}", hint)
    return ConversionError(f"{option} has no effect: {why}", path=source.location.path, hints=hints)


class _Carrying:
    """`Carried` in progress, optimizer by optimizer."""

    def __init__(self) -> None:
        self.origins: dict[str, Origin] = {}
        self.kept: set[str] = set()
        self.dropped: dict[str, str] = {}
        self.notes: list[str] = []


class Origin(NamedTuple):
    """The source of a value: a tensor of SRC, unchanged or times a factor, or a number."""

    key: str | None = None
    factor: float | None = None
    value: np.ndarray[Any, Any] | None = None


class Carried(NamedTuple):
    """The result for optimizer state, by keys of TEMPLATE, and by keys of SRC for what is dropped.

    `kept` are values that TEMPLATE keeps since SRC's program, not its checkpoint, had them.
    """

    origins: Mapping[str, Origin] = MappingProxyType({})
    kept: AbstractSet[str] = frozenset()
    dropped: Mapping[str, str] = MappingProxyType({})
    notes: Sequence[str] = ()


# Which is which ---------------------------------------------------------------------


def carry(  # noqa: PLR0917  from, to, by which variables, and with what
    source: FormatReader,
    mine: Sequence[TrainingState],
    template: FormatReader,
    there: Sequence[TrainingState],
    pairs: Mapping[str, str],
    given: OptimizerOptions,
    *,
    partial: bool = False,
) -> Carried:
    """Return what becomes of optimizers' state; `pairs` are those of variables, TEMPLATE's key first.

    Raises ConversionError if an optimizer cannot continue as TEMPLATE's. With `partial`, TEMPLATE keeps its
    own state, and SRC's is dropped.
    """
    if not mine and _may_have_descended(source, there):
        mine = [_without_slots()]
    elif not there and _may_have_descended(template, mine):
        there = [_without_slots()]
    carried = _Carrying()
    for theirs in there:
        one = _counterpart(mine, theirs, there, pairs)
        if one is None:
            continue
        one = _with_counts(one, mine, theirs)
        pair = _Pair(source, template, one, theirs, pairs, given, alone=len(mine) == 1)
        try:
            pair.carry(carried)
        except ConversionError as error:
            if not partial:
                error.path = error.path or source.location.path
                raise
            carried.notes.append(f"{error.message}; TEMPLATE's own state is kept")
            carried.kept.update(theirs.keys)
            carried.dropped.update(dict.fromkeys(one.keys, "TEMPLATE does not have this optimizer"))
        _copy(one, theirs, carried)
    return Carried(carried.origins, carried.kept, carried.dropped, carried.notes)


def _with_counts(one: TrainingState, mine: Sequence[TrainingState], theirs: TrainingState) -> TrainingState:
    """Return an optimizer with the numbers that SRC has where TEMPLATE's has its own.

    Several optimizers of Keras under TensorFlow 1's names have their slots there, but not their numbers.
    """
    bare = [state for state in mine if state.path == theirs.path and not (state.slots or state.unowned)]
    numbers = {name: keys for state in bare for name, keys in state.numbers.items()}
    return one._replace(numbers={**numbers, **one.numbers})


def _copy(mine: TrainingState, theirs: TrainingState, carried: _Carrying) -> None:
    """Give a wrapper's second copies what the first ones get; those of SRC are not needed."""
    for key, first in theirs.copies.items():
        if first in carried.origins:
            carried.origins[key] = carried.origins[first]
            carried.kept.discard(key)
    carried.dropped.update(dict.fromkeys(mine.copies, "a LossScaleOptimizer stores these values twice"))


def name_optimizer(mine: TrainingState, theirs: TrainingState) -> tuple[str, ...]:
    """Return the hint that names the class of an optimizer for a file that does not tell it."""
    titles = [state.known[0].name if state.known else state.title for state in (mine, theirs)]
    names = [title for title in titles if title != UNKNOWN_CLASS]
    if len(names) != 1:
        return ()
    side, other = ("SRC", "TEMPLATE") if mine.title == UNKNOWN_CLASS else ("TEMPLATE", "SRC")
    return (f"if {side} has the same optimizer as {other}, pass --optimizer {shlex.quote(names[0])}",)


def _may_have_descended(reader: FormatReader, others: Sequence[TrainingState]) -> bool:
    """Whether a checkpoint without slots may be of gradient descent, as the only one opposite is."""
    return reader.format.is_by_name and len(others) == 1 and BY_NAME["SGD"] in others[0].known


def _without_slots() -> TrainingState:
    """Return TensorFlow 1's gradient descent, which leaves nothing in a checkpoint but the global step."""
    return TrainingState(TF1, "", NO_SLOTS, (BY_NAME["SGD"],), {}, {})


def _counterpart(
    mine: Sequence[TrainingState],
    theirs: TrainingState,
    there: Sequence[TrainingState],
    pairs: Mapping[str, str],
) -> TrainingState | None:
    """Return the optimizer of SRC that trains the variables of one of TEMPLATE's."""
    if len(mine) == len(there) == 1:
        return mine[0]
    wanted = {pairs[variable] for variable in theirs.variables if variable in pairs}
    found = [state for state in mine if state.variables & wanted]
    if not found:
        found = [state for state in mine if state.path == theirs.path and (state.unowned or not wanted)]
    if len(found) > 1:
        alike = [state for state in found if state.path == theirs.path] or [
            state for state in found if common_rows(state, theirs)
        ]
        found = alike or found
    if len(found) > 1:
        names = ", ".join(f"{state.title} at {state.path!r}" for state in found)
        message = f"several optimizers of SRC train the variables of TEMPLATE's {theirs.path!r}: {names}"
        hints = ("pass --exclude to leave out the state of all but one", KEEP_OPTIMIZER)
        raise OptimizerError(message, hints=hints)
    return found[0] if found else None


# One optimizer ----------------------------------------------------------------------


class _Pair(NamedTuple):
    """An optimizer of SRC, and the one of TEMPLATE that continues with its state."""

    source: FormatReader
    template: FormatReader
    mine: TrainingState
    theirs: TrainingState
    pairs: Mapping[str, str]
    given: OptimizerOptions
    alone: bool

    def carry(self, carried: _Carrying) -> None:
        mine, theirs = self.mine, self.theirs
        self._refuse_flaws()
        if not mine.known or not theirs.known:
            self._carry_alike(carried)
            return
        both = common_rows(mine, theirs)
        if not both:
            raise self._rejection(
                f"SRC's optimizer is {mine.spelled()}, but TEMPLATE's is {theirs.spelled()}"
            )
        row, into = both[0]
        flaw = flaw_between(row, mine.generation, theirs.generation, *self._schedule(row))
        if flaw is not None:
            raise self._rejection(
                f"the state of {mine.spelled(row)} cannot be converted to {theirs.spelled(into)}: {flaw}"
            )
        origins, notes = dict(self._slots(row, into, carried)), carried.notes
        numbers = self._numbers(row, into, notes)
        carried.origins.update(origins)
        carried.origins.update(numbers)
        self._settle(carried, set(origins) | set(numbers))
        self._say(row, into, notes)

    def _refuse_flaws(self) -> None:
        """Refuse what a side says of its state, and gradients that SRC has summed for a step to come."""
        for side, state in (("SRC", self.mine), ("TEMPLATE", self.theirs)):
            if state.flaw:
                what = state.spelled() if state.known else f"optimizer of {TITLES[state.generation]}"
                raise self._rejection(f"{side}'s {what} cannot be converted: {state.flaw}")
        for key in self.mine.numbers.get(ACCUMULATED_STEPS, ()):
            if not self.source.specs[key].shape and (count := int(self.source[key].read())):
                summed = counted(count, "gradient")
                error = self._rejection(f"{key!r} of SRC counts {summed} that no step has used yet")
                error.hints = ("convert a checkpoint that was saved after a whole step", *error.hints)
                raise error

    def _schedule(self, row: Optimizer) -> tuple[float | None, int]:
        """Return the decay of a legacy optimizer on either side, and the steps that SRC's has taken."""
        if row.name != "Nadam":
            return None, 0
        steps = steps_taken(self.source, self.mine, alone=self.alone, requested=self.given.iterations)
        for reader, state in ((self.source, self.mine), (self.template, self.theirs)):
            if state.generation == LEGACY and "decay" in state.numbers:
                return float(reader[state.numbers["decay"][0]].read()), steps.taken if steps else 0
        return None, 0

    def _settle(self, carried: _Carrying, filled: set[str]) -> None:
        """Let the rest of TEMPLATE's numbers keep their values, and list what is left of SRC's."""
        slots = set(self.theirs.slots.values())
        carried.kept.update(self.theirs.keys - slots - filled - self.pairs.keys())
        used = {origin.key for origin in carried.origins.values()}
        kept = f"{TITLES[self.theirs.generation]} does not save this part of the optimizer state"
        paired = set(self.pairs.values())
        lost = {key for (variable, _), key in self.mine.slots.items() if variable in paired}
        counts = self.mine.numbers.get(ITERATIONS, ()) if ITERATIONS in self.theirs.numbers else ()
        count_note = "TEMPLATE stores the step count under another key"
        if self.given.iterations is not None:
            count_note = f"--iterations {self.given.iterations} replaces the step count of SRC"
        for key in self.mine.keys - used - lost - carried.dropped.keys():
            carried.dropped[key] = count_note if key in counts else kept

    def _say(self, row: Optimizer, into: Optimizer, notes: list[str]) -> None:
        mine, theirs = self.mine, self.theirs
        if len({state_of(one) for one in mine.known}) > len({state_of(one) for one in theirs.known}):
            notes.append(
                f"SRC does not name the class of {mine.spelled()}; ckpt uses {row.name}, as in TEMPLATE"
            )
        if (mine.generation, row.name) != (theirs.generation, into.name):
            notes.append(
                f"the optimizer state is converted from {mine.spelled(row)} to {theirs.spelled(into)}"
            )

    def _rejection(self, message: str) -> OptimizerError:
        return OptimizerError(message, hints=(KEEP_OPTIMIZER,))

    # Optimizers that the table does not have ----------------------------------------------

    def _carry_alike(self, carried: _Carrying) -> None:
        """Carry the state of an optimizer that is only known to be the same on both sides."""
        mine, theirs = self.mine, self.theirs
        rows = named(mine.called), named(theirs.called)
        if rows[0] is not None and rows[1] is not None and state_of(rows[0]) != state_of(rows[1]):
            raise self._rejection(
                f"SRC's optimizer is {mine.spelled()}, but TEMPLATE's is {theirs.spelled()}"
            )
        if self._have_one_list:
            origins = dict(zip(theirs.listed, mine.listed, strict=True))
            carried.origins |= {key: Origin(own) for key, own in origins.items()}
        elif not self._are_called_alike:
            unknown = mine if not mine.known else theirs
            what = (
                f"the variables of {counted(len(unknown.unowned), 'slot')} of {unknown.spelled()} are unknown"
                if unknown.unowned
                else f"the slots of {unknown.spelled()} are not known"
                if unknown.slots or is_another(unknown.called)
                else f"{unknown.spelled()} has no slots (perhaps it has not taken a step)"
            )
            other = f"TEMPLATE has {theirs.spelled()}" if unknown is mine else f"SRC has {mine.spelled()}"
            why = reason_of_others((mine.called, theirs.called), (mine.generation, theirs.generation))
            error = self._rejection(f"{what}, so its state cannot be converted; {other}{why}")
            error.hints = (*name_optimizer(mine, theirs), *error.hints)
            raise error
        for (variable, name), key in theirs.slots.items():
            same_slot = mine.slots.get((self.pairs.get(variable, ""), name))
            if same_slot is not None:
                carried.origins[key] = Origin(same_slot)
        for name, keys in theirs.numbers.items():
            for key, same in zip(keys, mine.numbers.get(name, ()), strict=False):
                carried.origins[key] = Origin(same)
        self._settle(carried, set(carried.origins))

    @property
    def _have_one_list(self) -> bool:
        """Whether both list the same, as one class of optimizer does: the same program wrote both."""
        mine, theirs = self.mine, self.theirs
        shapes = [
            [(reader.specs[key].shape, reader.specs[key].dtype) for key in state.listed]
            for reader, state in ((self.source, mine), (self.template, theirs))
        ]
        named_so = [{snake_case(row.name) for row in state.known} for state in (mine, theirs)]
        classes = [
            rows or {snake_case(state.title)} for rows, state in zip(named_so, (mine, theirs), strict=True)
        ]
        shared_classes = classes[0] & classes[1] - (
            {snake_case(UNKNOWN_CLASS)} if not self._is_one_layout else set()
        )
        return mine.generation == theirs.generation and bool(shared_classes) and shapes[0] == shapes[1] != []

    @property
    def _is_one_layout(self) -> bool:
        return self.source.format is self.template.format

    @property
    def _are_called_alike(self) -> bool:
        """Whether only the variables distinguish the slots, which have one name on both sides."""
        mine, theirs = self.mine, self.theirs
        return (
            not mine.unowned
            and not theirs.unowned
            and (
                (mine.generation, mine.called, mine.slot_names, set(mine.numbers))
                == (theirs.generation, theirs.called, theirs.slot_names, set(theirs.numbers))
            )
        )

    # Slots --------------------------------------------------------------------------

    def _slots(self, row: Optimizer, into: Optimizer, carried: _Carrying) -> Iterator[tuple[str, Origin]]:
        mine, theirs = self.mine, self.theirs
        names = row.meanings(mine.generation)
        held = {(variable, names[name]): key for (variable, name), key in mine.slots.items()}
        wanted = into.meanings(theirs.generation)
        have = {meaning for _, meaning in held}
        want = {wanted[name] for name in theirs.slot_names}
        self._leave_idle(row, have - want, held, carried)
        self._refuse_missing(into, want - have, carried.notes)
        for (variable, name), key in theirs.slots.items():
            meaning = wanted[name]
            if meaning not in have:
                yield key, Origin(value=self._zeros(key))
                continue
            origin = held.get((self.pairs.get(variable, ""), meaning))
            if origin is not None:
                yield key, Origin(origin, self._factor(row, meaning, carried.notes))

    def _leave_idle(
        self, row: Optimizer, surplus: set[str], held: Mapping[tuple[str, str], str], carried: _Carrying
    ) -> None:
        """Leave out slots that are made without need; refuse what TEMPLATE's optimizer has no place for."""
        generation = self.mine.generation
        for meaning in surplus:
            slot = row.slot(meaning)
            keys = [key for (_, found), key in held.items() if found == meaning]
            if generation not in slot.idle_in or meaning in self.mine.in_use:
                message = (
                    f"SRC's {self.mine.spelled(row)} keeps {slot.name(generation)!r} of "
                    f"{counted(len(keys), 'variable')}, but TEMPLATE's {self.theirs.spelled()} "
                    "does not"
                )
                raise self._rejection(message)
            carried.dropped.update(dict.fromkeys(keys, reason_of_idle(generation)))

    def _refuse_missing(self, into: Optimizer, missing: set[str], notes: list[str]) -> None:
        for meaning in missing:
            name = into.slot(meaning).name(self.theirs.generation)
            kept = f"TEMPLATE's {self.theirs.spelled(into)} keeps {name!r}"
            what = f"{kept}, but SRC's {self.mine.spelled()} does not"
            if self.theirs.generation not in into.slot(meaning).idle_in:
                raise self._rejection(what)
            notes.append(f"{what}; {name!r} starts at 0")

    def _zeros(self, key: str) -> np.ndarray[Any, Any]:
        import numpy as np

        spec = self.template.specs[key]
        return np.zeros(spec.shape, spec.dtype.numpy)

    def _factor(self, row: Optimizer, meaning: str, notes: list[str]) -> float | None:
        """Return what turns a slot's value into TEMPLATE's; None if it is the same."""
        ways = self.mine.generation, self.theirs.generation
        return factor_between(row.slot(meaning), *ways, lambda: self._rate(row, notes))

    def _rate(self, row: Optimizer, notes: list[str]) -> float:
        """Return the learning rate for the conversion of momentum: SRC's, or that of TEMPLATE, which
        continues.
        """
        if self.given.learning_rate is not None:
            return self.given.learning_rate
        for side, reader, state in (
            ("SRC", self.source, self.mine),
            ("TEMPLATE", self.template, self.theirs),
        ):
            rate = stored_rate(reader, state)
            if rate is not None:
                note = f"momentum is converted with the learning rate of {side}, {rate:.6g}"
                notes += [note] if note not in notes else []
                return rate
        summing = self.mine if self.mine.generation in SUMS else self.theirs
        what = self.mine.spelled(row)
        message = (
            f"momentum of {TITLES[summing.generation]} is a sum of gradients; to convert it, "
            f"ckpt needs the learning rate of {what}, which neither SRC nor TEMPLATE stores"
        )
        error = self._rejection(message)
        error.hints = ("pass the learning rate with --learning-rate R", *error.hints)
        raise error

    # Numbers ------------------------------------------------------------------------

    def _numbers(self, row: Optimizer, into: Optimizer, notes: list[str]) -> dict[str, Origin]:
        """Return where TEMPLATE's counts, rates and powers come from."""
        mine, theirs = self.mine, self.theirs
        origins: dict[str, Origin] = {}
        same = mine.generation == theirs.generation
        for name, keys in theirs.numbers.items():
            held = mine.numbers.get(name)
            if held is not None and (same or name in _ALIKE):
                origins.update({key: Origin(own) for key, own in zip(keys, _alike(held, keys), strict=True)})
            origins.update({key: Origin(self.pairs[key]) for key in keys if key in self.pairs})
        stored_rate = mine.rate if LEARNING_RATE not in mine.numbers else None
        rate = stored_rate if self.given.learning_rate is None else self.given.learning_rate
        if rate is not None:
            for key in theirs.numbers.get(LEARNING_RATE, ()):
                origins[key] = Origin(value=self._number(key, rate))
        origins.update(self._counts(row, into, notes))
        zeros = theirs.numbers.get(ACCUMULATED_STEPS, ())
        return {**origins, **{key: Origin(value=self._zeros(key)) for key in zeros}}

    def _counts(self, row: Optimizer, into: Optimizer, notes: list[str]) -> dict[str, Origin]:
        counters = list(self.theirs.numbers.get(ITERATIONS, ()))
        state = self.mine
        named = [self.pairs[key] for key in counters if key in self.pairs]
        if named and ITERATIONS not in state.numbers:
            state = state._replace(numbers={**state.numbers, ITERATIONS: tuple(named)})
        if self.mine.generation == self.theirs.generation == TF1 and self.given.iterations is None:
            return {}
        steps = steps_taken(self.source, state, alone=self.alone, requested=self.given.iterations)
        origins: dict[str, Origin] = {}
        powers = [key for name in POWERS for key in self.theirs.numbers.get(name, ())]
        has_global_step = self.theirs.generation == TF1 and is_count(self.template, GLOBAL_STEP)
        if has_global_step and GLOBAL_STEP not in self.pairs:
            counters.append(GLOBAL_STEP)
        if steps is None:
            steps = self._no_steps(row, into, is_wanted=bool(counters or powers))
        self._check_bias(row, into, steps.taken)
        held = state.numbers.get(ITERATIONS, ())
        if self.mine.generation == self.theirs.generation and len(held) == len(counters) > 1:
            # Around an optimizer of Keras 3, a LossScaleOptimizer has a count of its own, which stays 0.
            origins |= {key: Origin(own) for key, own in zip(counters[1:], held[1:], strict=True)}
            counters = counters[:1]
        for key in counters:
            copied = (
                steps.key is not None and self.source.specs[steps.key].dtype is self.template.specs[key].dtype
            )
            origins[key] = Origin(steps.key) if copied else Origin(value=self._number(key, steps.taken))
        if steps.key is None or steps.counted_from == GLOBAL_STEP:
            notes.append(steps.sentence("the step count"))
        for name in POWERS:
            for key in self.theirs.numbers.get(name, ()):
                power = power_of(self.source, self.mine, name, steps.taken)
                origins[key] = Origin(value=self._number(key, power))
        return origins

    def _no_steps(self, row: Optimizer, into: Optimizer, *, is_wanted: bool) -> StepCount:
        """Return 0 steps; raise ConversionError if the state depends on a count that SRC does not tell."""
        if is_wanted and (into.counts or self.theirs.generation == OPTAX):
            error = self._rejection(
                f"SRC does not store the step count of {self.mine.spelled(row)}, but "
                f"{self.theirs.spelled(into)} needs it"
            )
            error.hints = ("pass the step count with --iterations N", *error.hints)
            raise error
        return StepCount(0, "")

    def _check_bias(self, row: Optimizer, into: Optimizer, steps: int) -> None:
        """Reject a bias correction that SRC's optimizer has not made, as long as it matters."""
        correction = (1 - 0.999**steps) ** 0.5 / (1 - 0.9**steps) if steps else 0.0
        if row.corrects_bias == into.corrects_bias or abs(correction - 1) < _NO_BIAS:
            return
        message = (
            f"{self.mine.spelled(row)} cannot be converted to {self.theirs.spelled(into)}: only "
            f"{(row if row.corrects_bias else into).name} corrects bias, which makes its updates "
            f"{correction:.3g} times as large after {steps} steps"
        )
        raise self._rejection(message)

    def _number(self, key: str, value: float) -> np.ndarray[Any, Any]:
        import numpy as np

        dtype = self.template.specs[key].dtype
        if dtype.family in ("int", "uint") and value > np.iinfo(dtype.numpy).max:
            message = f"the step count {value} does not fit into {dtype}, its dtype in TEMPLATE"
            raise ConversionError(message, path=self.source.location.path, key=key)
        return np.array(value, dtype.numpy)


def _alike(held: Sequence[str], keys: Sequence[str]) -> Sequence[str]:
    """Return for each key of TEMPLATE's the one of SRC's: where a wrapper has a number, too, each its own."""
    return held if len(held) == len(keys) else [held[0]] * len(keys)


def reason_of_idle(generation: str) -> str:
    """Return why slots are left out that a generation makes without need."""
    return (
        f"{TITLES[generation]} stores momentum even if it is 0, but the target's optimizer "
        "has no momentum; if SRC used momentum, the next steps will differ"
    )
