"""An optimizer's state in keras-h5: the list `optimizer_weights`, whose entries have full names.

Keras 2, since 2.11    iteration, slots; the rate is in the training configuration
Keras 2, legacy        <name>/iter, slots
Keras 3                <name>/iteration, <name>/learning_rate, slots
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .facts import keras_facts
from .optimizer_settings import generation_of_config, rates_in
from .optimizers import KERAS2, KERAS3, LEGACY
from .state_list import WRAPPER, cased, from_list, with_product, wrapper_of
from .training_state import ITERATIONS, LEARNING_RATE, LEGACY_RATES, MOMENTUM_PRODUCT

if TYPE_CHECKING:
    from ..model.reader import FormatReader
    from .facts import KerasFacts
    from .model import Variable
    from .optimizer_settings import ClassAndSettings
    from .state_list import StateList
    from .training_state import TrainingState


def read(source: FormatReader, configured: ClassAndSettings) -> TrainingState | None:
    """Return the state in a file, whose slots have no owners yet, or None if it has none."""
    group = keras_facts(source.facts).optimizer
    if group is None or not group.weights:
        return None
    names = dict(group.names)
    keys = [key for key, _ in group.names]
    wrapper: dict[str, str] = {}
    if len(keys) > 4 and [names[key].rpartition("/")[2] for key in keys[:4]] == list(WRAPPER.values()):
        wrapper, keys = wrapper_of(keys[:4]), keys[4:]
    first, (called, settings) = names[keys[0]], configured
    if first == "iteration":
        name = called or (names[keys[1]].partition("/")[0] if len(keys) > 1 else "")
        return from_list(KERAS2, name, {ITERATIONS: keys[0]}, keys)._replace(
            names=names | {LEARNING_RATE: LEARNING_RATE}, values=rates_in((LEARNING_RATE,), settings)
        )
    if first == "iter" or first.endswith("/iter"):  # "iter" if a program read it before training
        name = first.removesuffix("iter").removesuffix("/").rpartition("/")[2] or called or ""
        numbers = {ITERATIONS: keys[0]}
        if len(keys) > 1 and names[keys[1]].rpartition("/")[2] == "momentum_cache":
            numbers[MOMENTUM_PRODUCT] = keys[1]
        values = rates_in(LEGACY_RATES, settings)
        state = from_list(LEGACY, name, numbers, keys)
        return state._replace(values=values, names=names | {each: f"{name}/{each}" for each in values})
    if not first.endswith("/iteration"):
        return None
    numbers = {ITERATIONS: keys[0]}
    # A schedule is not a variable.
    if len(keys) > 1 and names[keys[1]].endswith("/learning_rate"):
        numbers[LEARNING_RATE] = keys[1]
    name = called or cased(first.partition("/")[0])
    state = from_list(KERAS3, name, with_product(numbers, keys, source), keys, wrapper)
    return state._replace(names=names, scaled=bool(wrapper))


def write(state: StateList, facts: KerasFacts) -> list[tuple[Variable, str]]:
    """Return the names, without `:0`, under which a file has the state; `facts` are the file's own."""
    if facts.major == "3":
        return [*state.wrapped(), *state.listed(KERAS3)]
    is_legacy = state.state.generation == LEGACY
    return state.listed(generation_of_config(facts) or (LEGACY if is_legacy else KERAS2))
