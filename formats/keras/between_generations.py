"""Convert a slot between generations: the factor of its value, and state without a counterpart.

    momentum of    Keras                            TensorFlow 1, PyTorch, optax
    SGD            -learning_rate * their sum       the sum of gradients
    RMSprop        the step, also in TensorFlow 1   PyTorch: the step / learning_rate, optax: -1 * the step

optax/_src/alias.py: in rmsprop, `trace` follows scale_by_learning_rate, which negates (optax 0.2.8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .optimizers import KERAS2, LEGACY, OPTAX, PYTORCH, TF1

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from .optimizers import Optimizer, SlotKind

SUMS = frozenset((TF1, PYTORCH, OPTAX))
"""Generations whose momentum is the sum of gradients."""

_NO_MOMENTUM = 1e-6
"""How far momentums may be apart for the next steps to be the same within what float32 can tell."""


class _Unit(NamedTuple):
    """The conversion of a stored value to Keras': a sign, and whether the learning rate is a factor."""

    sign: float = 1.0
    by_rate: bool = False

    def value(self, rate: Callable[[], float]) -> float:
        return self.sign * rate() if self.by_rate else self.sign


_KERAS = _Unit()


def factor_between(
    slot: SlotKind, generation: str, following: str, rate: Callable[[], float]
) -> float | None:
    """Return the factor from one generation's value of a slot to another's; None if they are equal.

    `rate` is called only if the factor depends on the learning rate.
    """
    mine, theirs = _unit(slot, generation), _unit(slot, following)
    if mine == theirs:
        return None
    if theirs == _KERAS:
        return mine.value(rate)
    return 1 / theirs.value(rate) if mine == _KERAS else mine.value(rate) / theirs.value(rate)


def _unit(slot: SlotKind, generation: str) -> _Unit:
    if slot.turns and generation in SUMS:
        return _Unit(-1.0, by_rate=True)
    if slot.is_step and generation in (PYTORCH, OPTAX):
        return _Unit(by_rate=True) if generation == PYTORCH else _Unit(-1.0)
    return _KERAS


def flaw_between(
    optimizer: Optimizer, generation: str, following: str, decay: float | None = None, steps: int = 0
) -> str | None:
    """Return why an optimizer's state of one generation is of no use to another; None if it is.

    `decay` is what a legacy Nadam has as its decay, `steps` are those taken.
    """
    if optimizer.name != "Nadam" or generation == following:
        return None
    if LEGACY in (generation, following) and not _is_one_schedule(decay, steps):
        with_decay = f" with decay {decay:.6g}" if decay is not None else ""
        return (
            f"legacy Keras decays the momentum by 0.96 ** (decay * step){with_decay}, but newer Keras by "
            "0.96 ** step, so the next steps would differ"
        )
    if following == KERAS2:
        return (
            "Keras 2.11 to 2.15 does not restore how often Nadam decayed its momentum, not even "
            "from its own checkpoints"
        )
    return None


def reason_of_others(called: Collection[str], generations: Collection[str]) -> str:
    """Return why the state of an optimizer outside the table differs; nothing if unknown."""
    if OPTAX in generations and any(name.casefold() == "adafactor" for name in called):
        return (
            "; optax keeps Adafactor's means over the two largest dimensions of a weight, "
            "and only if both are large enough, but Keras over the last two"
        )
    return ""


def _is_one_schedule(decay: float | None, steps: int) -> bool:
    """Whether the momentums of Nadam's next steps are those of the newer generations, too.

    They are beta_1 * (1 - 0.96 ** (decay * step) / 2): the same where decay is 1, and where
    so many steps were taken that nothing is left of the power.
    """
    return decay is not None and abs(0.96 ** (decay * (steps + 1)) - 0.96 ** (steps + 1)) < _NO_MOMENTUM
