"""Matching one object graph with another, as a restore would."""

from __future__ import annotations

import pytest

import formats
from formats.model.object_graph import ObjectGraph
from formats.tf.graph.matching import GraphTarget, Matching, display_names
from formats.wire.messages import (
    BoolValue,
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)
from tests.matching import match_graphs
from tests.support import data_path


def graph_of(*edges, slots=(), values=()):
    """Return a graph of (from, name, to), slots (optimizer, variable, name, node), and who holds values."""
    count = max([0, *(max(start, end) for start, _, end in edges), *(slot[3] for slot in slots)]) + 1
    nodes = [TrackableObject() for _ in range(count)]
    for start, name, end in edges:
        nodes[start].children.append(ObjectReference(node_id=end, local_name=name))
    for optimizer, variable, name, node in slots:
        nodes[optimizer].slot_variables.append(
            SlotVariableReference(
                original_variable_node_id=variable, slot_name=name, slot_variable_node_id=node
            )
        )
    for node in values:
        nodes[node].attributes.append(SerializedTensor(name="VARIABLE_VALUE", checkpoint_key=f"{node}"))
    return ObjectGraph(TrackableObjectGraph(nodes=nodes))


def stored(*parts):
    with formats.open_checkpoint(data_path(*parts)) as reader:
        return reader.object_graph


@pytest.mark.parametrize(
    "prefix", ["guide_adam_legacy/tf_ckpts/ckpt-10", "containers/nested", "keras_rnn/rnn"]
)
def test_a_graph_matches_itself_node_for_node(prefix):
    graph = stored(prefix)
    matching, target = match_graphs(graph, graph)
    assert dict(matching.bound) == {number: number for number in range(len(graph.nodes))}
    assert not matching.slot_requests
    assert not matching.waiting_slots
    assert not target.deferred


def test_a_part_is_matched_and_the_rest_waits():
    whole = stored("guide_adam_legacy/tf_ckpts/ckpt-10")
    part = graph_of((0, "net", 1), (1, "l1", 2), (2, "bias", 3), values=[3])
    matching, target = match_graphs(whole, part)
    assert matching.bound == {0: 0, 2: 1, 6: 2, 13: 3}
    waiting = {(owner, name) for owner, name, _ in target.deferred}
    assert waiting == {(0, "iterator"), (0, "optimizer"), (0, "step"), (0, "save_counter"), (2, "kernel")}
    assert set(matching.slot_requests) == {12}  # the kernel's m and v
    assert set(matching.waiting_slots) == {3}  # the bias's, until an optimizer comes


def test_slots_are_matched_when_the_optimizer_comes_last():
    graph = graph_of((0, "w", 1), (0, "z", 2), slots=[(2, 1, "m", 3)], values=[1, 3])
    matching, _ = match_graphs(graph, graph)
    assert matching.bound[3] == 3


def test_the_first_path_to_a_node_wins():
    file = graph_of((0, "a", 1), (0, "b", 1), values=[1])
    live = graph_of((0, "a", 1), (0, "b", 2), values=[1, 2])
    matching, target = match_graphs(file, live)
    assert matching.bound == {0: 0, 1: 1}
    assert target.conflicts == []


def test_two_objects_for_one_node_are_reported():
    file = graph_of((0, "a", 1), values=[1])
    target = GraphTarget(graph_of((0, "a", 1), (0, "b", 2)))
    matching = Matching(file, target, {})
    assert list(matching.match(0, 0)) == [(0, 0), (1, 1)]
    assert list(matching.match(1, 2)) == []
    assert target.conflicts == [(1, 1, 2)]
    assert matching.bound[1] == 1


def test_cycles_and_nodes_that_point_nowhere_end():
    file = graph_of((0, "self", 0), (0, "a", 1), (1, "back", 0))
    file.nodes[0].children.append(ObjectReference(node_id=99, local_name="gone"))
    matching, _ = match_graphs(file, file)
    assert matching.bound == {0: 0, 1: 1}


def test_nothing_waits_for_a_subtree_without_values():
    file = graph_of((0, "empty", 1), (0, "full", 2), (0, "unsaid", 3), values=[2])
    file.nodes[1].has_checkpoint_values = BoolValue(value=False)
    file.nodes[2].has_checkpoint_values = BoolValue(value=True)
    _, target = match_graphs(file, graph_of((0, "other", 1)))
    assert target.deferred == [(0, "full", 2)]


def test_names_are_those_of_tensorflows_messages():
    names = display_names(stored("guide_adam_legacy/tf_ckpts/ckpt-10"))
    assert names[0] == "(root)"
    assert names[13] == "(root).net.l1.bias"
    assert names[15] == "(root).optimizer's state 'm' for (root).net.l1.bias"
