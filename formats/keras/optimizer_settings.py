"""An optimizer in a training configuration: its class, its settings, and the variables that these create.

It is `training_config` of a whole model in HDF5, `compile_config` in a .keras archive.
keras/src/saving/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire.jsontext import parse_object
from .facts import keras_facts
from .optimizers import KERAS2, KERAS3, LEGACY, named, state_of
from .training_state import LEARNING_RATE, LOSS_SCALE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..model.reader import FormatReader
    from .facts import KerasFacts
    from .optimizers import Optimizer as Row


LOSS_SCALING = ("LossScaleOptimizer", "LossScaleOptimizerV3")
"""Wrappers with numbers of their own in addition to those of the inner optimizer."""

_LARGEST_RATE = 1e38  # What float32 holds.

ClassAndSettings = tuple[str | None, dict[str, Any]]
"""The class of an optimizer and its settings, as far as a training configuration has them."""


def unwrapped(configured: ClassAndSettings) -> ClassAndSettings:
    """Return class and settings of the optimizer in a LossScaleOptimizer, and of any other itself."""
    inner = configured[1].get("inner_optimizer") if configured[0] in LOSS_SCALING else None
    return _class_and_settings(inner) if isinstance(inner, dict) else configured


def optimizer_settings(source: FormatReader, beside: KerasFacts | None = None) -> ClassAndSettings:
    """Return class and settings of the optimizer in a training configuration."""
    own = keras_facts(source.facts)
    return settings_in(*(facts for facts in (own, beside) if facts is not None))


def settings_in(*texts: KerasFacts) -> ClassAndSettings:
    """Return class and settings from the first of these facts that has an optimizer."""
    found = next((one for facts in texts if (one := _read(facts.training_config, "optimizer_config"))), None)
    if found is None:
        compiled = next((one for facts in texts if (one := _read(facts.config, "compile_config"))), None)
        found = compiled.get("optimizer") if compiled is not None else None
    return _class_and_settings(found) if isinstance(found, dict) else (None, {})


def _class_and_settings(found: dict[str, Any]) -> ClassAndSettings:
    name, config = found.get("class_name"), found.get("config")
    known = name.rpartition(">")[2] if isinstance(name, str) else None
    return known, config if isinstance(config, dict) else {}


def _read(text: str | None, name: str) -> dict[str, Any] | None:
    try:
        found = parse_object(text).get(name) if text else None
    except ValueError:
        return None  # The weights do not depend on it; `verify` says what is wrong with it.
    return found if isinstance(found, dict) else None


def rates_in(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among these settings."""
    given = {name: settings.get(name) for name in names}
    return {
        name: float(value)
        for name, value in given.items()
        if isinstance(value, int | float) and abs(value) <= _LARGEST_RATE
    }


def scale_in(configured: ClassAndSettings) -> dict[str, float]:
    """Return the loss scale that a LossScaleOptimizer starts with; nothing for one that never changes it."""
    name, settings = configured
    if name not in LOSS_SCALING or settings.get("dynamic", True) is not True:
        return {}
    scale = rates_in(("initial_scale",), settings)
    return {LOSS_SCALE: scale["initial_scale"]} if scale else {}


class Wanted(NamedTuple):
    """The optimizer that a training configuration creates: its class and settings."""

    called: str
    row: Row | None
    made: frozenset[str]
    """The settings that make slots and are on."""

    is_scheduled: bool
    """Whether a schedule has the place of the learning rate, which is then no variable."""

    is_scaled: bool = False
    """Whether it is within a LossScaleOptimizer."""

    may_be_scaled: bool = False
    """Whether `compile` may put it into one without saying so, as it does for half precision."""

    @property
    def state(self) -> tuple[str, frozenset[str], bool, bool]:
        """All that decides which list it makes."""
        name = state_of(self.row) if self.row is not None else self.called
        return name, self.made, self.is_scheduled, self.is_scaled

    def meanings(self, generation: str) -> set[str]:
        """Return the meanings of the slots that it makes in a generation."""
        every = self.row.slots if self.row is not None else ()
        return {
            slot.meaning
            for slot in every
            if slot.name(generation)
            and (not slot.made_by or slot.made_by in self.made or generation in slot.idle_in)
        }


def generation_of_config(facts: KerasFacts) -> str | None:
    """Return the generation of the optimizer in a training configuration, if it has one."""
    _, settings = unwrapped(settings_in(facts))
    if facts.major == "3":
        return KERAS3 if settings else None
    # Of Keras 2 the newer ones say that they are not legacy, the legacy ones have a decay.
    return KERAS2 if "is_legacy_optimizer" in settings else LEGACY if "decay" in settings else None


def wanted_by(facts: KerasFacts) -> Wanted | None:
    """Return the optimizer that a training configuration creates, or None without one."""
    configured = settings_in(facts)
    called, settings = unwrapped(configured)
    if called is None:
        return None
    row = named(called)
    made = frozenset(slot.made_by for slot in (row.slots if row else ()) if settings.get(slot.made_by))
    is_scheduled = isinstance(settings.get(LEARNING_RATE), dict)
    is_half = "mixed_float16" in (facts.config or "")
    return Wanted(called, row, made, is_scheduled, configured[0] in LOSS_SCALING, is_half)
