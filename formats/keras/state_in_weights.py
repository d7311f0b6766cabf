"""An optimizer's state in .weights.h5 and .keras: the list `/optimizer/vars`, whose entries have numbers.

    Keras 2    iteration, slots
    Keras 3    iteration, rate, slots

A LossScaleOptimizer lists its own numbers there, and the optimizer in it in `inner_optimizer` again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .config import snake_case
from .facts import keras_facts
from .optimizer_settings import rates_in
from .optimizers import KERAS2, KERAS3
from .state_list import SCALER, WRAPPER, cased, from_list, with_product, wrapper_of
from .training_state import ITERATIONS, LEARNING_RATE

if TYPE_CHECKING:
    from ..model.reader import FormatReader
    from .optimizer_settings import ClassAndSettings
    from .state_list import StateList
    from .training_state import TrainingState
    from .variable_layout import Placed


_OUTER, _INNER = "optimizer/vars", "optimizer/inner_optimizer/vars"


def read(source: FormatReader, configured: ClassAndSettings) -> TrainingState | None:
    """Return the state in a file, whose slots have no owners yet, or None if it has none."""
    reader: Any = source
    inner, outer = reader.variables(_INNER), reader.variables(_OUTER)
    keys = inner or outer
    if not keys:
        return None
    wrapper: dict[str, str] = {}
    copies: dict[str, str] = {}
    own = len(outer) - len(inner)
    if inner and own in (0, len(WRAPPER)):
        # Keras 2 lists none of the wrapper's own numbers.
        wrapper = wrapper_of(outer[:own]) if own else {}
        copies = dict(zip(outer[own:], inner, strict=True))
    name = keras_facts(source.facts).object_names.get(_INNER if inner else _OUTER)
    numbers, values = {ITERATIONS: keys[0]}, {}
    generation = KERAS3
    if name is None or len(keys) < 2 or source.specs[keys[1]].shape:
        # For Keras 2, or for Keras 3 with a schedule, which is not a variable.
        values = rates_in((LEARNING_RATE,), configured[1])
        # This program names the optimizer of Keras 2, too, whose configuration then has no schedule.
        may_be_scheduled = not configured[1] or isinstance(configured[1].get(LEARNING_RATE), dict)
        is_keras_3 = keras_facts(source.facts).major == "3" and may_be_scheduled
        generation = KERAS3 if is_keras_3 else KERAS2
    else:
        numbers = with_product({**numbers, LEARNING_RATE: keys[1]}, keys, source)
    state = from_list(generation, cased(name or ""), numbers, keys, wrapper)
    names = {LEARNING_RATE: LEARNING_RATE} if values else {}
    return state._replace(values=values, names=names, copies=copies, scaled=bool(inner))


def write(state: StateList, major: str) -> list[Placed]:
    """Return the paths under which a file of Keras 2 or 3 has the state."""
    listed = state.listed(KERAS3 if major == "3" else KERAS2)
    groups = {_OUTER: listed}
    if state.state.scaled:
        groups = {_OUTER: [*(state.wrapped() if major == "3" else ()), *listed], _INNER: listed}
    return [
        (variable, f"{group}/{number}")
        for group, held in groups.items()
        for number, (variable, _) in enumerate(held)
    ]


def names(state: TrainingState) -> dict[str, str]:
    """Return the names of the groups: Keras 2 reads none, but without them the class would be unknown."""
    name = snake_case(state.called)
    if not name:
        return {}
    return {_OUTER: SCALER, _INNER: name} if state.scaled else {_OUTER: name}
