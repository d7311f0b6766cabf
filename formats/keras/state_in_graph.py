"""An optimizer's state in TensorFlow's graph: edges to its numbers, and slots in lists or as slot variables.

Keras 2, since 2.11    _iterations, _variables, a list of each kind of slot
Keras 2, legacy        iter, slot variables
Keras 3                _iterations, _trainable_variables, _variables, the lists
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model import Edge, Unit, legacy_order, trained_order
from .optimizer_settings import generation_of_config
from .optimizers import KERAS2, KERAS3, LEGACY, PYTORCH, TF1
from .state_list import OPTIMIZER, WRAPPER, NoPlaceError, cased
from .training_state import GOOD_STEPS, ITERATIONS, LEARNING_RATE, LOSS_SCALE, training_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..model.reader import FormatReader
    from .facts import KerasFacts
    from .model import Variable
    from .optimizer_settings import ClassAndSettings
    from .optimizers import Optimizer as Row
    from .state_list import StateList
    from .training_state import TrainingState
    from .variable_layout import SlotOf


_WRAPPER_EDGES = ("_iterations", "_learning_rate", "step_counter", "dynamic_scale")
"""The edges of a LossScaleOptimizer's node to its numbers, in the order of `WRAPPER`."""


def read(source: FormatReader, _: ClassAndSettings) -> TrainingState | None:
    """Return the state of the model's optimizer; None if there is none."""
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
        edges_of_wrapper = zip(_WRAPPER_EDGES, WRAPPER, strict=True)
        wrapper = {what: keys[outer[edge]] for edge, what in edges_of_wrapper if outer.get(edge) in keys}
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
    return state._replace(called=cased(name))


def of_one_class(state: TrainingState, *rows_of_class: Row | None) -> TrainingState:
    """Return a graph's optimizer as one of those that its slots allow, by the known facts about its class.

    TensorFlow 1's, to which a count was added, has legacy Keras' slots under other names.
    """
    rows = [row for one in rows_of_class for row in state.known if row is one] or list(state.known)
    # Ambiguous classes, such as SGD and Lion of Keras 2.11, list the same slots.
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


def write(state: StateList, facts: KerasFacts) -> tuple[Unit, list[SlotOf]]:
    """Return the optimizer's node in the graph of Keras 2, and its slot variables.

    `facts` tell for which of its generations, where the state is none of Keras'.
    """
    mine = state.state
    if LEGACY in (mine.generation, generation_of_config(facts) if mine.generation == PYTORCH else None):
        return _legacy(state)
    node = _node(state, KERAS2)
    node.edges += _loss_scale(state)
    return node, []


def _loss_scale(state: StateList) -> list[Edge]:
    """Return the edge to what a LossScaleOptimizer adds to the node of the optimizer in it, in Keras 2."""
    if not state.scaling:
        return []
    names = {LOSS_SCALE: "current_loss_scale", GOOD_STEPS: "good_steps"}
    for what, name in names.items():
        state.scaling[what].full_name = name
    edges = [Edge(name, state.scaling[what]) for what, name in names.items()]
    return [Edge("loss_scale", Unit(edges=edges))]


def write_keras3(state: StateList) -> Unit:
    """Return the optimizer's node in the graph of Keras 3."""
    node = _node(state, KERAS3)
    if not state.state.scaled:
        return node
    held = [variable for variable, _ in state.wrapped()]
    edges = [Edge(name, variable) for name, variable in zip(_WRAPPER_EDGES, held, strict=True)]
    return Unit(edges=[Edge("_variables", _list(held)), *edges, Edge("inner_optimizer", node)])


def _node(state: StateList, generation: str) -> Unit:
    """Return the node of an optimizer that keeps its slots in lists."""
    held = state.filled(generation)
    state.held = held  # the list has the same variables
    listed = state.listed(generation)
    for variable, full_name in listed:
        variable.full_name = full_name
    rate = state.rates.get(LEARNING_RATE)
    in_list = [variable for variable, _ in listed]
    edges = [Edge("_variables", _list(in_list))]
    if generation == KERAS3:
        edges.append(Edge("_trainable_variables", _list(trained_order(state.model))))
    edges.append(Edge("_iterations", state.iteration))
    if rate is not None and (generation == KERAS2 or any(variable is rate for variable in in_list)):
        edges.append(Edge(f"_{LEARNING_RATE}", rate))
    if generation == KERAS2:
        edges.append(Edge("_index_dict", Unit()))
    for slot in state.state.row.slots if state.state.row is not None else ():
        members = [held.get((id(variable), slot.meaning)) for variable in legacy_order(state.model)]
        found = [member for member in members if member is not None]
        if found:
            edges.append(Edge(slot.name(generation), _list(found)))
    if state.product is not None:
        edges.append(Edge("_u_product", state.product))
    return Unit(edges=edges)


def _legacy(state: StateList) -> tuple[Unit, list[SlotOf]]:
    mine = state.state
    if state.slots and not state.held:
        raise NoPlaceError(state.unknown)
    slots = [
        (slot.legacy, variable, state.held[id(variable), slot.meaning])
        for slot in (mine.row.slots if mine.row is not None else ())
        for variable in state.model.all_variables()
        if (id(variable), slot.meaning) in state.held
    ]
    edges = [Edge("iter", state.iteration), *(Edge(*rate) for rate in state.rates.items())]
    if state.product is not None:
        edges.append(Edge("momentum_cache", state.product))
    return Unit(edges=[*edges, *_loss_scale(state)]), slots


def _list(variables: Sequence[Variable]) -> Unit:
    return Unit(edges=[Edge(str(number), variable) for number, variable in enumerate(variables)])
