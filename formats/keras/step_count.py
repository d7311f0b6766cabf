"""The number of steps that an optimizer has taken, from all evidence.

    iterations, iter     the count itself
    beta1_power          beta1 ** (steps + 1) in float32, which tells while it is above 1e-37:
                         at 0.9 to step 800 or so; then it sticks at what is left, or at 0
    beta2_power          the same of beta2, to about one step in 10,000
    global_step          steps of the program, which are those of its only optimizer

More specific evidence comes first; a contradiction, beyond the precision of float32, is an error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ..errors import ConversionError
from .training_state import ITERATIONS, LEARNING_RATE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..model.reader import FormatReader
    from .training_state import TrainingState


GLOBAL_STEP = "global_step"
_LEAST_POWER = 1e-37
"""Below it float32 loses digits, and where denormals are flushed there is nothing left."""

_ROUNDING = 2.0**-24
"""How much of a float32 is lost in one multiplication."""

POWERS = {"beta1_power": ("beta_1", 0.9), "beta2_power": ("beta_2", 0.999)}
"""Powers of TensorFlow 1's Adam: what Keras calls their base, and the base where nothing says another."""


class StepCount(NamedTuple):
    """A number of steps: its evidence, the key that holds it if any, and its possible error."""

    taken: int
    counted_from: str
    key: str | None = None
    error: int = 0

    def sentence(self, name: str) -> str:
        """Say what a count is set to, and why."""
        why = (
            f"computed from {self.counted_from}"
            if self.counted_from
            else "because SRC stores none and needs none"
        )
        return f"{name} is set to {self.taken}, {why}"


def power_of(source: FormatReader, state: TrainingState, name: str, steps: int) -> float:
    """Return a power of beta after so many steps: of the base that the state stores, or of the usual one."""
    import numpy as np

    base_name, usual = POWERS[name]
    given = state.numbers.get(base_name)
    base = float(source[given[0]].read()) if given else float(np.float32(usual))
    return base ** (steps + 1)


def stored_rate(source: FormatReader, state: TrainingState) -> float | None:
    """Return the learning rate from a tensor or a configuration, or None."""
    held = state.numbers.get(LEARNING_RATE, ())[:1]
    rates = [*(float(source[key].read()) for key in held), state.rate or 0.0]
    return next((rate for rate in rates if rate > 0), None)


def steps_taken(
    source: FormatReader, state: TrainingState, *, alone: bool, requested: int | None = None
) -> StepCount | None:
    """Return how many steps an optimizer has taken, or None if unknown.

    `alone` says that the checkpoint has no other optimizer, so that the global step counts
    the steps of this one.  Raises ConversionError for numbers that contradict each other.
    """
    if requested is not None:
        return StepCount(requested, "--iterations")
    found = list(_stored_counts(source, state, alone=alone))
    for other in found[1:]:
        first = found[0]
        if abs(other.taken - first.taken) > first.error + other.error:
            message = (
                f"{first.counted_from} says {first.taken} steps, "
                f"but {other.counted_from} says {other.taken}, "
                f"so the step count of {state.title} is ambiguous"
            )
            hints = ("pass the step count with --iterations N",)
            raise ConversionError(message, path=source.location.path, hints=hints)
    return found[0] if found else None


def _stored_counts(source: FormatReader, state: TrainingState, *, alone: bool) -> Iterator[StepCount]:
    if ITERATIONS in state.values:
        yield StepCount(int(state.values[ITERATIONS]), ITERATIONS)
    counts = state.numbers.get(ITERATIONS, ())[:1]
    own = [
        count for key in counts for count in _counted(source, key, source.full_names.get(key) or ITERATIONS)
    ]
    yield from own
    for name, base in POWERS.items():
        # TensorFlow 1 numbers the powers of several optimizers, and names show no more.
        several = sorted(each for each in state.numbers if each == name or each.startswith(f"{name}_"))
        found = [count for each in several for count in _of_power(source, state, each, *base)]
        fitting = [
            count for count in found if all(abs(count.taken - one.taken) <= count.error for one in own)
        ]
        yield from fitting[:1] if own and fitting else found
    if alone:
        yield from _counted(source, GLOBAL_STEP, GLOBAL_STEP)


def _counted(source: FormatReader, key: str, counted_from: str) -> Iterator[StepCount]:
    """Yield the content of a counter; a number below 0 only shares its name."""
    if is_count(source, key) and (taken := int(source[key].read())) >= 0:
        yield StepCount(taken, counted_from, key)


def is_count(reader: FormatReader, key: str) -> bool:
    """Whether a checkpoint has a key that holds one whole number."""
    return key in reader.specs and _is_number(reader, key, "int", "uint")


def _is_number(source: FormatReader, key: str, *families: str) -> bool:
    """Whether a tensor is one number of a kind; of another shape or kind it is something of that name."""
    spec = source.specs[key]
    return not spec.shape and spec.dtype.family in families


def _of_power(
    source: FormatReader, state: TrainingState, name: str, base_name: str, usual: float
) -> Iterator[StepCount]:
    import numpy as np

    key, *_ = state.numbers[name]
    given = state.numbers.get(base_name)
    if not all(_is_number(source, one, "float") for one in (key, *(given or ())[:1])):
        return
    power = float(source[key].read())
    base = float(np.float32(source[given[0]].read() if given else usual))
    if not (_LEAST_POWER < power < 1 and 0 < base < 1):
        return
    exact = math.log(power) / math.log(base) - 1
    count = round(exact)
    error = (count + 2) * _ROUNDING / -math.log(base)
    counted_from = f"{key}{'' if given else f' (with {base_name} {usual})'}"
    if count < 0 or abs(exact - count) > max(error, 0.01):
        message = (
            f"{key} is {power:.8g}, which is not a power of {base_name} "
            f"({usual} unless the file stores another)"
        )
        hints = ("pass the step count with --iterations N",)
        raise ConversionError(message, path=source.location.path, key=key, hints=hints)
    yield StepCount(count, counted_from, error=math.ceil(error) if error > 0.5 else 0)
