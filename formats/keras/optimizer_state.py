"""An optimizer's state, found in whichever layout of Keras a checkpoint has.

    layout    keras-h5                      keras-weights, keras      TensorFlow's graph
    2         iteration, slots              iteration, slots          _iterations, _variables
    legacy    <name>/iter, slots            iter, slots               iter, slot variables
    3         <name>/iteration,             iteration, rate, slots    _iterations, _variables,
              <name>/learning_rate, slots                             _trainable_variables

Style 2 are the optimizers of Keras 2 since 2.11, legacy those before.  In keras-h5 the list
is `optimizer_weights`, in .weights.h5 and .keras `/optimizer/vars`.  What no tensor holds,
the learning rate of style 2 for one, a training configuration tells: `training_config` of
a whole model in HDF5, `compile_config` in a .keras archive.
keras/src/optimizers/ (Keras 2.15, 3.15)
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..wire.jsontext import parse_object
from .config import snake_case
from .facts import keras_facts
from .optimizers import BY_NAME, KERAS2, KERAS3, LEGACY, TF1, TITLES, named
from .training_state import (
    GOOD_STEPS,
    ITERATIONS,
    LEARNING_RATE,
    LEGACY_RATES,
    LOSS_SCALE,
    MOMENTUM_PRODUCT,
    UNKNOWN_CLASS,
    TrainingState,
    training_states,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..model.reader import FormatReader
    from .facts import KerasFacts
    from .optimizers import Optimizer as Row


OPTIMIZER = "optimizer"

LOSS_SCALING = ("LossScaleOptimizer", "LossScaleOptimizerV3")
"""Wrappers that have numbers of their own beside those of the optimizer in them."""

_WRAPPER = {
    "iteration": ITERATIONS,
    "learning_rate": LEARNING_RATE,
    "step_counter": GOOD_STEPS,
    "dynamic_scale": LOSS_SCALE,
}
"""The numbers of Keras 3's LossScaleOptimizer in its order, and what they are."""

_WRAPPER_EDGES = ("_iterations", "_learning_rate", "step_counter", "dynamic_scale")
"""The edges of its node to these numbers."""

_COUNTED = re.compile(r"_\d+$")
_LARGEST_RATE = 1e38  # What float32 holds.


Told = tuple[str | None, dict[str, Any]]
"""The class of an optimizer and its settings, as far as a training configuration tells."""


def stored_state(
    source: FormatReader, beside: KerasFacts | None = None, said: str | None = None
) -> TrainingState | None:
    """Return the state that a checkpoint has of its optimizer; None where it has none that is known here.

    `beside` are a configuration, and one of training, that are given beside the checkpoint.  `said` is the
    class of the optimizer if the checkpoint does not tell it.  Of a LossScaleOptimizer it is that of the
    optimizer in it.  Whose the slots of a list are, the model tells (`slot_owners`).
    """
    read = _READERS.get(source.format.name)
    told = unwrapped(optimizer_settings(source, beside))
    found = read(source, told) if read is not None else None
    if found is None:
        return None
    called, settings = told[0] or "", told[1]
    known, beside_it = named(found.called), named(called)
    is_another = known is not None and beside_it is not None and known is not beside_it
    found = found._replace(
        called=found.called or called or said or "",
        settings={} if is_another else settings,
        scaled=found.scaled or optimizer_settings(source)[0] in LOSS_SCALING,
    )
    row = named(found.called)
    if source.object_graph is None:
        return found._replace(known=(row,) if row is not None else ())
    wanted = unwrapped(settings_in(beside))[0] if beside is not None else None
    return _of_one_class(found, row, named(wanted or ""))


def _of_one_class(state: TrainingState, *told: Row | None) -> TrainingState:
    """Return an optimizer of a graph as one of those that its slots may be of, by what is told of its class.

    TensorFlow 1's, to which a count was added, has legacy Keras' slots under other names.
    """
    rows = [row for one in told for row in state.known if row is one] or list(state.known)
    # What can be one or the other, as SGD and Lion of Keras 2.11, is listed alike by both.
    if len({tuple(map(len, row.order)) for row in rows}) != 1:
        return state._replace(known=(), generation=LEGACY if state.generation == TF1 else state.generation)
    row, meanings = rows[0], rows[0].meanings(state.generation)
    called = state.called if state.generation == LEGACY else row.name
    state = state._replace(known=(row,), called=called)
    if state.generation != TF1:
        return state
    slots = {
        (variable, row.slot(meanings[name]).legacy): key for (variable, name), key in state.slots.items()
    }
    return state._replace(generation=LEGACY, slots=slots)


def titled(state: TrainingState) -> str:
    """Return an optimizer's name for people, with its generation."""
    return f"{state.called or UNKNOWN_CLASS} of {TITLES[state.generation]}"


def unwrapped(told: Told) -> Told:
    """Return class and settings of the optimizer in a LossScaleOptimizer, and of any other itself."""
    inner = told[1].get("inner_optimizer") if told[0] in LOSS_SCALING else None
    return _class_and_settings(inner) if isinstance(inner, dict) else told


def optimizer_settings(source: FormatReader, beside: KerasFacts | None = None) -> Told:
    """Return class and settings of the optimizer that a training configuration tells of."""
    own = keras_facts(source.facts)
    return settings_in(*(facts for facts in (own, beside) if facts is not None))


def settings_in(*texts: KerasFacts) -> Told:
    """Return class and settings of the optimizer that the first of these tells of that does."""
    found = next((one for facts in texts if (one := _told(facts.training_config, "optimizer_config"))), None)
    if found is None:
        compiled = next((one for facts in texts if (one := _told(facts.config, "compile_config"))), None)
        found = compiled.get("optimizer") if compiled is not None else None
    return _class_and_settings(found) if isinstance(found, dict) else (None, {})


def _class_and_settings(found: dict[str, Any]) -> Told:
    name, config = found.get("class_name"), found.get("config")
    known = name.rpartition(">")[2] if isinstance(name, str) else None
    return known, config if isinstance(config, dict) else {}


def _told(text: str | None, name: str) -> dict[str, Any] | None:
    try:
        found = parse_object(text).get(name) if text else None
    except ValueError:
        return None  # The weights do not depend on it; `verify` says what is wrong with it.
    return found if isinstance(found, dict) else None


def _rates(names: Sequence[str], settings: Mapping[str, Any]) -> dict[str, float]:
    given = {name: settings.get(name) for name in names}
    return {
        name: float(value)
        for name, value in given.items()
        if isinstance(value, int | float) and abs(value) <= _LARGEST_RATE
    }


def _of_h5(source: FormatReader, told: Told) -> TrainingState | None:
    group = keras_facts(source.facts).optimizer
    if group is None or not group.weights:
        return None
    names = dict(group.names)
    keys = [key for key, _ in group.names]
    wrapper: dict[str, str] = {}
    if len(keys) > 4 and [names[key].rpartition("/")[2] for key in keys[:4]] == list(_WRAPPER):
        wrapper, keys = _wrapper(keys[:4]), keys[4:]
    first, (called, settings) = names[keys[0]], told
    if first == "iteration":
        name = called or (names[keys[1]].partition("/")[0] if len(keys) > 1 else "")
        return _listed(KERAS2, name, {ITERATIONS: keys[0]}, keys)._replace(
            names=names | {LEARNING_RATE: LEARNING_RATE}, values=_rates((LEARNING_RATE,), settings)
        )
    if first == "iter" or first.endswith("/iter"):  # the former where a program looked at it before training
        name = first.removesuffix("iter").removesuffix("/").rpartition("/")[2] or called or ""
        numbers = {ITERATIONS: keys[0]}
        if len(keys) > 1 and names[keys[1]].rpartition("/")[2] == "momentum_cache":
            numbers[MOMENTUM_PRODUCT] = keys[1]
        values = _rates(LEGACY_RATES, settings)
        state = _listed(LEGACY, name, numbers, keys)
        return state._replace(values=values, names=names | {each: f"{name}/{each}" for each in values})
    if not first.endswith("/iteration"):
        return None
    numbers = {ITERATIONS: keys[0]}
    # A schedule is no variable.
    if len(keys) > 1 and names[keys[1]].endswith("/learning_rate"):
        numbers[LEARNING_RATE] = keys[1]
    name = called or _cased(first.partition("/")[0])
    state = _listed(KERAS3, name, _with_product(numbers, keys, source), keys, wrapper)
    return state._replace(names=names, scaled=bool(wrapper))


def _listed(
    generation: str,
    name: str,
    numbers: Mapping[str, str],
    keys: Sequence[str],
    wrapper: Mapping[str, str] | None = None,
) -> TrainingState:
    """Return an optimizer that stores a list of keys: its numbers and slots, which a model tells apart."""
    slots = tuple(key for key in keys if key not in numbers.values())
    theirs = wrapper or {}
    held = {
        each: tuple(key for one in (numbers, theirs) if (key := one.get(each)) is not None)
        for each in (*numbers, *(other for other in theirs if other not in numbers))
    }
    state = TrainingState(generation, OPTIMIZER, name, (), {}, held, slots, wrapper=theirs)
    return state._replace(listed=tuple(keys)) if generation != LEGACY else state


def _wrapper(keys: Sequence[str]) -> dict[str, str]:
    """Return the keys of a LossScaleOptimizer's own numbers, by what they are."""
    return dict(zip(_WRAPPER.values(), keys, strict=True))


def _with_product(numbers: dict[str, str], keys: Sequence[str], source: FormatReader) -> dict[str, str]:
    """Return numbers with the product of momentums, a scalar that Keras 3's Nadam has behind its slots."""
    slots = keys[len(numbers) :]
    if slots and not source.specs[slots[-1]].shape and len(slots) % 2:
        return numbers | {MOMENTUM_PRODUCT: slots[-1]}
    return numbers


def _cased(name: str) -> str:
    """Return the class that an optimizer of Keras 3 is named after: `rm_sprop_1` after RMSprop."""
    base = _COUNTED.sub("", name)
    return next((known for known in BY_NAME if snake_case(known) == base), name)


def _of_weights(source: FormatReader, told: Told) -> TrainingState | None:
    reader: Any = source
    inner, outer = reader.variables("optimizer/inner_optimizer/vars"), reader.variables("optimizer/vars")
    keys = inner or outer
    if not keys:
        return None
    wrapper: dict[str, str] = {}
    copies: dict[str, str] = {}
    own = len(outer) - len(inner)
    if inner and own in (0, len(_WRAPPER)):
        # Keras 2 lists none of the wrapper's own numbers.
        wrapper = _wrapper(outer[:own]) if own else {}
        copies = dict(zip(outer[own:], inner, strict=True))
    group = "optimizer/inner_optimizer/vars" if inner else "optimizer/vars"
    name = keras_facts(source.facts).object_names.get(group)
    numbers, values = {ITERATIONS: keys[0]}, {}
    generation = KERAS3
    if name is None or len(keys) < 2 or source.specs[keys[1]].shape:
        # Of Keras 2; or of Keras 3 with a schedule, which is no variable.
        values = _rates((LEARNING_RATE,), told[1])
        # This program names the optimizer of Keras 2, too, whose configuration then has no schedule.
        may_be_scheduled = not told[1] or isinstance(told[1].get(LEARNING_RATE), dict)
        is_keras_3 = keras_facts(source.facts).major == "3" and may_be_scheduled
        generation = KERAS3 if is_keras_3 else KERAS2
    else:
        numbers = _with_product({**numbers, LEARNING_RATE: keys[1]}, keys, source)
    state = _listed(generation, _cased(name or ""), numbers, keys, wrapper)
    names = {LEARNING_RATE: LEARNING_RATE} if values else {}
    return state._replace(values=values, names=names, copies=copies, scaled=bool(inner))


def _of_graph(source: FormatReader, _: Told) -> TrainingState | None:
    graph = source.object_graph
    if graph is None:
        return None
    # `Checkpoint(model=...)` has it below the model, a LossScaleOptimizer of Keras 3 within itself.
    found_at = (dict(graph.children(at)).get(OPTIMIZER) for at in graph.reachable())
    node = next((at for at in found_at if at is not None), None)
    if node is None:
        return None
    outer = dict(graph.children(node))
    inner = outer.get("inner_optimizer", node)
    states = training_states(graph, source.specs, source.full_names)
    state = next((one for one in states if one.path == graph.paths.get(inner)), None)
    if state is None:
        return None
    wrapper = {}
    if "inner_optimizer" in outer:
        keys = {at: key for key, (at, _, _) in graph.tensors(source.specs).items()}
        told = zip(_WRAPPER_EDGES, _WRAPPER.values(), strict=True)
        wrapper = {what: keys[outer[edge]] for edge, what in told if outer.get(edge) in keys}
    scaled = "inner_optimizer" in outer or "loss_scale" in outer
    state = state._replace(scaled=scaled, wrapper=wrapper, names=source.full_names)
    iteration, edges = state.number(ITERATIONS), dict(graph.children(inner))
    has_list = "_variables" in edges and any(True for _ in graph.children(edges["_variables"]))
    if iteration is None or (has_list and not state.listed):
        return None
    first = source.full_names.get(iteration, "")
    if state.generation in (LEGACY, TF1):
        return state._replace(called=first.removesuffix("/iter"))
    slots = state.ordered
    name = (source.full_names.get(slots[0], "") if slots else first).partition("/")[0]
    return state._replace(called=_cased(name))


_READERS: dict[str, Callable[[FormatReader, Told], TrainingState | None]] = {
    "keras-h5": _of_h5,
    "keras-weights": _of_weights,
    "keras": _of_weights,
    "tf-object": _of_graph,
}
