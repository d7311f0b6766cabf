from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import open_checkpoint
from formats.model.object_graph import ObjectGraph
from formats.wire.messages import (
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)
from tests.support import data_path, recorded

GOLDENS = recorded("tf-v2-object")


@pytest.mark.parametrize("golden", GOLDENS, ids=[golden["path"] for golden in GOLDENS])
def test_graphs_are_what_tensorflow_says(golden: dict[str, Any]) -> None:
    known = golden["object_graph"]
    with open_checkpoint(data_path(golden["path"])) as reader:
        graph = reader.object_graph
        assert graph is not None
        assert len(graph.nodes) == known["nodes"]
        edges = [
            [node, name, child] for node in range(len(graph.nodes)) for name, child in graph.children(node)
        ]
        assert len(edges) == known["edges"]
        assert edges == known.get("edge_list", edges)  # left out of the manifest where it is long
        attributes = [
            [number, attribute.name, attribute.full_name, attribute.checkpoint_key]
            for number, node in enumerate(graph.nodes)
            for attribute in node.attributes
        ]
        assert attributes == known["attribute_list"]
        assert len(graph.slots) == known["slot_variables"]
        assert sorted(map(list, graph.slots)) == sorted(known["slot_list"])
        assert list(graph.flaws(reader.specs)) == []
        # Everything but the graph itself belongs to some node, and comes back by its key.
        assert set(graph.tensors(reader.specs)) == set(reader.specs) - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
        data = reader["_CHECKPOINTABLE_OBJECT_GRAPH"].read().item()
        assert graph.proto.encode() == data


def node(
    *children: tuple[str, int],
    keys: tuple[str, ...] = (),
    slots: tuple[tuple[int, str, int], ...] = (),
) -> TrackableObject:
    return TrackableObject(
        children=[ObjectReference(node_id=number, local_name=name) for name, number in children],
        attributes=[
            SerializedTensor(name="VARIABLE_VALUE", full_name=f"full/{key}", checkpoint_key=key)
            for key in keys
        ],
        slot_variables=[
            SlotVariableReference(
                original_variable_node_id=variable, slot_name=name, slot_variable_node_id=slot
            )
            for variable, name, slot in slots
        ],
    )


def graph_of(*nodes: TrackableObject) -> ObjectGraph:
    return ObjectGraph.decode(TrackableObjectGraph(nodes=list(nodes)).encode())


def flaws(graph: ObjectGraph, *keys: str) -> list[tuple[str, str, str | None]]:
    return [(flaw.severity, flaw.code, flaw.key) for flaw in graph.flaws(dict.fromkeys(keys))]


def test_object_paths_are_unescaped_edge_names() -> None:
    graph = graph_of(
        node(("net", 1), ("a.b/c", 2)), node(("l1", 3)), node(), node(("kernel", 4)), node(keys=("k",))
    )
    assert graph.paths == {0: "", 1: "net", 2: "a.b/c", 3: "net/l1", 4: "net/l1/kernel"}
    assert graph.tensors({"k": None}) == {"k": (4, "VARIABLE_VALUE", "full/k")}


def test_the_shortest_way_names_an_object_and_among_equals_the_first() -> None:
    graph = graph_of(node(("deep", 1), ("first", 2), ("second", 2)), node(("again", 2)), node())
    assert graph.paths[2] == "first"


def test_slots_are_named_by_their_variable() -> None:
    graph = graph_of(
        node(("v", 1), ("opt", 2)), node(), node(slots=((1, "m", 3), (1, "v", 4))), node(), node()
    )
    assert graph.paths[3] == "v (m of opt)"
    assert graph.paths[4] == "v (v of opt)"
    assert [slot[:] for slot in graph.slots] == [(2, 1, "m", 3), (2, 1, "v", 4)]


def test_trap_22_two_edges_to_one_node_are_one_object() -> None:
    graph = graph_of(node(("field", 1), ("0", 1)), node(keys=("k",)))
    assert len(graph.paths) == 2
    assert flaws(graph, "k") == []


def test_trap_10_checkpoint_key_that_is_a_beginning() -> None:
    graph = graph_of(node(keys=("it/.ATTRIBUTES/ITERATOR", "table/.ATTRIBUTES/table", "x/.ATTRIBUTES/py")))
    keys = [
        "it/.ATTRIBUTES/ITERATOR_STATE",
        "table/.ATTRIBUTES/table-keys",
        "table/.ATTRIBUTES/table-values",
        "x/.ATTRIBUTES/python_state",
    ]
    assert set(graph.tensors(dict.fromkeys(keys))) == set(keys)
    assert flaws(graph, *keys) == []


def test_cycles_and_aliases_are_legal() -> None:
    graph = graph_of(node(("self", 0), ("child", 1)), node(("parent", 0), ("alias", 1)))
    assert graph.paths == {0: "", 1: "child"}
    assert flaws(graph) == []


def test_what_contradicts_itself_is_reported() -> None:
    graph = graph_of(
        node(("far", 9), ("back", -1), ("twice", 1), ("twice", 2)),
        node(keys=("there", "missing"), slots=((7, "m", 2), (0, "v", -3))),
        node(keys=("there",)),
    )
    assert flaws(graph, "there") == [
        ("error", "graph-node", None),
        ("error", "graph-node", None),
        ("error", "graph-duplicate", None),
        ("error", "graph-node", None),
        ("error", "graph-node", None),
        ("error", "graph-key", "missing"),
        ("warning", "graph-duplicate", "there"),
    ]
    assert graph.slots == []
    assert graph.paths == {0: "", 1: "twice", 2: "twice"}
    assert graph.tensors({"there": None}) == {"there": (1, "VARIABLE_VALUE", "full/there")}


@pytest.mark.parametrize("data", [b"", b"\x0a", b"\x0a\x05\x0a", b"\xff\xff"])
def test_what_is_not_a_graph(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no nodes|varint|runs past|are left"):
        ObjectGraph.decode(data)


references = st.tuples(st.sampled_from(["a", "b", "."]), st.integers(-2, 8))


@given(st.lists(st.lists(references, max_size=4), min_size=1, max_size=7), st.data())
def test_any_graph_is_walked(children: list[list[tuple[str, int]]], data: st.DataObject) -> None:
    number = st.integers(-2, 8)
    slots = [data.draw(st.lists(st.tuples(number, st.just("m"), number), max_size=2)) for _ in children]
    graph = graph_of(
        *(node(*edges, slots=tuple(triples)) for edges, triples in zip(children, slots, strict=True))
    )
    reached = graph.reachable()
    assert set(reached) <= set(range(len(children)))
    assert set(reached) <= set(graph.paths)
    for found in graph.flaws({}):
        assert found.severity in ("error", "warning")


def test_deep_chain_does_not_fill_the_memory_with_paths() -> None:
    """Each path repeats the one above it: 40,000 nodes of 10 bytes would have 1.6 GB of paths."""
    depth = 40_000
    graph = graph_of(*(node(("x", number + 1)) for number in range(depth)), node(keys=("k",)))
    assert sum(map(len, graph.paths.values())) < 1 << 27
    assert graph.paths[1] == "x"


def test_keys_claimed_over_and_over_take_no_time() -> None:
    keys = dict.fromkeys(f"k{number}" for number in range(3000))
    graph = graph_of(*(node(keys=("k",)) for _ in range(3000)))
    start = time.process_time()
    assert len(graph.tensors(keys)) == 3000
    assert len(list(graph.flaws(keys))) == 2999
    assert time.process_time() - start < 2


@pytest.mark.parametrize(("count", "is_graph"), [(1024, True), (1024 + 257, True), (1024 + 700, False)])
def test_more_nodes_than_the_bytes_have_edges_for_are_rejected(count: int, is_graph: bool) -> None:
    data = b"\x0a\x00" * count
    if is_graph:
        assert len(ObjectGraph.decode(data).nodes) == count
    else:
        with pytest.raises(
            ValueError, match=f"declares {count} nodes, but its {len(data)} bytes are too few"
        ):
            ObjectGraph.decode(data)


def test_other_fields_of_a_graph_are_not_nodes() -> None:
    data = b"\x0a\x00" + b"\x12\x00" * 5000
    assert len(ObjectGraph.decode(data).nodes) == 1
