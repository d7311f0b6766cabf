"""Object graphs under other paths: what follows, what stays, what is rejected."""

from __future__ import annotations

import random
from typing import Any

import pytest

from formats import ConversionError, DuplicateKeyError, open_checkpoint
from formats.model.object_graph import ObjectGraph
from formats.tf.graph.edit import edit_graph
from formats.tf.graph.plan import escaped_paths, in_words, spell
from formats.wire.messages import (
    BoolValue,
    ObjectReference,
    SerializedTensor,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)
from tests.support import data_path, recorded

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
SLOT = "/.OPTIMIZER_SLOT/"


class Graph:
    """A graph made of edges `(parent, name, child)`, by nodes' own names; `root` is the root."""

    def __init__(
        self,
        edges: list[tuple[str, str, str]],
        variables: dict[str, str],
        slots: list[tuple[str, str, str, str]] = (),  # type: ignore[assignment]  # optimizer, variable, name, node
        *,
        told: bool = False,
    ) -> None:
        names = ["root", *(child for _, _, child in edges), *(node for *_, node in slots)]
        self.ids = {name: number for number, name in enumerate(dict.fromkeys(names))}
        nodes = [TrackableObject() for _ in self.ids]
        for parent, name, child in edges:
            nodes[self.ids[parent]].children.append(ObjectReference(local_name=name, node_id=self.ids[child]))
        self.keys = []
        for name, stem in variables.items():
            key = stem if "/.ATTRIBUTES/" in stem else stem + VALUE
            attribute = key.rpartition("/")[2]
            full_name = f"full/{name}"
            nodes[self.ids[name]].attributes.append(
                SerializedTensor(name=attribute, full_name=full_name, checkpoint_key=key)
            )
            self.keys.append(key)
        for optimizer, variable, name, node in slots:
            nodes[self.ids[optimizer]].slot_variables.append(
                SlotVariableReference(
                    original_variable_node_id=self.ids[variable],
                    slot_name=name,
                    slot_variable_node_id=self.ids[node],
                )
            )
        self.graph = ObjectGraph(TrackableObjectGraph(nodes=nodes))
        if told:
            self.graph.mark_checkpoint_values()

    def edit(self, moves: dict[str, str], **options: Any) -> tuple[set[str], dict[str, str]]:
        """Return the edges after an edit, `path -name-> path`, and the keys that changed."""
        before = self.graph.encode()
        edited = edit_graph(self.graph, self.keys, {self.ids[n]: p for n, p in moves.items()}, **options)
        assert self.graph.encode() == before, "the graph that was given is left alone"
        self.edited = edited.graph
        assert list(self.edited.flaws(dict.fromkeys(edited.keys.values()))) == []
        return edges_of(self.edited), {old: new for old, new in edited.keys.items() if old != new}


def edges_of(graph: ObjectGraph) -> set[str]:
    """Return all edges, each end by its shortest path."""
    paths = graph.paths
    return {
        f"{paths.get(number, '?')} -{name}-> {paths.get(child, '?')}"
        for number in range(len(graph.nodes))
        for name, child in graph.children(number)
    }


def small(**options: Any) -> Graph:
    """`net/l1/{kernel,bias}` and an optimizer with a slot for each."""
    edges = [
        ("root", "net", "net"),
        ("root", "optimizer", "optimizer"),
        ("net", "l1", "l1"),
        ("l1", "kernel", "kernel"),
        ("l1", "bias", "bias"),
    ]
    stems = {"kernel": "net/l1/kernel", "bias": "net/l1/bias"}
    slots = [("optimizer", name, "m", f"{name}_m") for name in stems]
    keys = {f"{name}_m": f"{stem}{SLOT}optimizer/m" for name, stem in stems.items()}
    return Graph(edges, {**stems, **keys}, slots, **options)


# One parent -----------------------------------------------------------------------


def test_an_edge_is_renamed_and_keys_and_slots_follow() -> None:
    edges, keys = small().edit({"kernel": "net/l1/w"})
    assert "net/l1 -w-> net/l1/w" in edges
    assert keys == {
        f"net/l1/kernel{VALUE}": f"net/l1/w{VALUE}",
        f"net/l1/kernel{SLOT}optimizer/m{VALUE}": f"net/l1/w{SLOT}optimizer/m{VALUE}",
    }


def test_what_hangs_below_goes_along() -> None:
    graph = small()
    edges, keys = graph.edit({"net": "model"})
    assert edges == {
        " -model-> model",
        " -optimizer-> optimizer",
        "model -l1-> model/l1",
        "model/l1 -kernel-> model/l1/kernel",
        "model/l1 -bias-> model/l1/bias",
    }
    assert set(keys.values()) == {
        f"model/l1/{name}{tail}{VALUE}" for name in ("kernel", "bias") for tail in ("", f"{SLOT}optimizer/m")
    }


def test_slot_keys_follow_the_optimizer() -> None:
    _, keys = small().edit({"optimizer": "opt"})
    assert keys == {
        f"net/l1/{name}{SLOT}optimizer/m{VALUE}": f"net/l1/{name}{SLOT}opt/m{VALUE}"
        for name in ("kernel", "bias")
    }


def test_slots_are_renamed_with_their_triples() -> None:
    graph = small()
    _, keys = graph.edit({}, slot_names={graph.ids["kernel_m"]: "mom.entum"})
    assert [slot.name for slot in graph.edited.slots] == ["mom.entum", "m"]
    assert keys == {
        f"net/l1/kernel{SLOT}optimizer/m{VALUE}": f"net/l1/kernel{SLOT}optimizer/mom..entum{VALUE}"
    }


def test_two_names_are_exchanged() -> None:
    _, keys = small().edit({"kernel": "net/l1/bias", "bias": "net/l1/kernel"})
    assert keys[f"net/l1/kernel{VALUE}"] == f"net/l1/bias{VALUE}"
    assert keys[f"net/l1/bias{VALUE}"] == f"net/l1/kernel{VALUE}"


def test_edge_names_are_escaped_in_keys_alone() -> None:
    """Section 10.3: a dot is doubled and a slash becomes .S in keys, never on edges."""
    edges, keys = small().edit({"kernel": "net/l1/a..b.Sc"})
    assert "net/l1 -a.b/c-> net/l1/a.b/c" in edges
    assert keys[f"net/l1/kernel{VALUE}"] == f"net/l1/a..b.Sc{VALUE}"


def test_full_names_stay_unless_requested() -> None:
    graph = small()
    graph.edit({"kernel": "net/l1/w"})
    names = {attribute.full_name for node in graph.edited.nodes for attribute in node.attributes}
    assert "full/kernel" in names
    graph.edit({"kernel": "net/l1/w"}, full_names={"full/kernel": "full/w"})
    names = {attribute.full_name for node in graph.edited.nodes for attribute in node.attributes}
    assert {"full/w", "full/bias"} <= names
    assert "full/kernel" not in names


# Other parents --------------------------------------------------------------------


def test_another_parent_is_made_and_an_empty_one_removed() -> None:
    graph = small()
    edges, _ = graph.edit({"kernel": "head/a/kernel", "bias": "tail/bias"})
    assert edges == {
        " -head-> head",
        " -tail-> tail",
        " -optimizer-> optimizer",
        "head -a-> head/a",
        "head/a -kernel-> head/a/kernel",
        "tail -bias-> tail/bias",
    }
    assert [(slot.name, graph.edited.paths[slot.variable]) for slot in graph.edited.slots] == [
        ("m", "head/a/kernel"),
        ("m", "tail/bias"),
    ]


def test_a_node_goes_to_a_parent_that_is_there() -> None:
    edges, keys = small().edit({"kernel": "optimizer/kernel"})
    assert "optimizer -kernel-> optimizer/kernel" in edges
    assert "net/l1 -bias-> net/l1/bias" in edges
    assert keys[f"net/l1/kernel{SLOT}optimizer/m{VALUE}"] == f"optimizer/kernel{SLOT}optimizer/m{VALUE}"


def test_a_container_that_loses_all_children_to_one_new_parent_is_that_parent() -> None:
    """Its other edges (here an alias, as Keras' layer-0) stay with it."""
    edges = [
        ("root", "w-0", "layer"),
        ("root", "layer-0", "layer"),
        ("layer", "kernel", "kernel"),
        ("layer", "axis", "axis"),
    ]
    graph = Graph(edges, {"kernel": "w-0/kernel"})
    after, _ = graph.edit({"kernel": "first/kernel", "axis": "first/axis"})
    assert after == {
        " -first-> first",
        " -layer-0-> first",
        "first -kernel-> first/kernel",
        "first -axis-> first/axis",
    }
    assert len(graph.edited.nodes) == len(graph.graph.nodes)


def test_a_container_whose_children_all_go_to_one_node_dissolves_in_it() -> None:
    edges = [
        ("root", "model", "model"),
        ("root", "counter", "counter"),
        ("model", "a", "a"),
        ("model", "b", "b"),
        ("model", "again", "a"),
    ]
    graph = Graph(edges, {"a": "model/a", "b": "model/b", "counter": "counter"})
    after, keys = graph.edit({"a": "a", "b": "b"})
    assert after == {" -a-> a", " -b-> b", " -again-> a", " -counter-> counter"}
    assert keys == {f"model/a{VALUE}": f"a{VALUE}", f"model/b{VALUE}": f"b{VALUE}"}


def test_two_containers_become_one() -> None:
    edges = [("root", "one", "one"), ("root", "two", "two"), ("one", "a", "a"), ("two", "b", "b")]
    graph = Graph(edges, {"a": "one/a", "b": "two/b"})
    after, keys = graph.edit({"two": "one"})
    assert after == {" -one-> one", "one -a-> one/a", "one -b-> one/b"}
    assert keys == {f"two/b{VALUE}": f"one/b{VALUE}"}


def test_a_node_may_go_below_its_old_path() -> None:
    after, _ = small().edit({"net": "net/old"})
    assert {" -net-> net", "net -old-> net/old", "net/old -l1-> net/old/l1"} <= after


def test_a_parent_is_found_by_its_other_names() -> None:
    edges = [("root", "a", "a"), ("root", "b", "a"), ("a", "x", "x"), ("root", "y", "y")]
    after, keys = Graph(edges, {"x": "a/x", "y": "y"}).edit({"y": "b/y"})
    assert after == {" -a-> a", " -b-> a", "a -x-> a/x", "a -y-> a/y"}
    assert keys == {f"y{VALUE}": f"b/y{VALUE}"}


def test_new_names_of_one_node_for_all_are_as_good_as_any() -> None:
    """All paths at once: every node is given a prefix."""
    graph = small()
    paths = escaped_paths(graph.graph)
    moves = {name: f"p/{paths[number]}" for name, number in graph.ids.items() if paths.get(number)}
    after, _ = graph.edit(moves)
    assert {f"p/{path}" if path else "p" for path in paths.values()} | {""} == {
        path for path in graph.edited.paths.values() if " (" not in path
    }
    assert " -p-> p" in after


# Aliases and namedtuples ----------------------------------------------------------


def test_other_edges_to_a_moved_node_stay() -> None:
    edges = [("root", "one", "v"), ("root", "two", "v"), ("root", "box", "box"), ("box", "mine", "v")]
    after, keys = Graph(edges, {"v": "one"}).edit({"v": "far/away"})
    assert after == {" -two-> two", " -box-> box", "box -mine-> two", " -far-> far", "far -away-> two"}
    assert keys == {f"one{VALUE}": f"far/away{VALUE}"}


def pair() -> Graph:
    edges = [
        ("root", "pair", "pair"),
        ("pair", "x", "x"),
        ("pair", "y", "y"),
        ("pair", "0", "x"),
        ("pair", "1", "y"),
    ]
    return Graph(edges, {"x": "pair/x", "y": "pair/y"})


def test_the_index_of_a_namedtuples_field_goes_with_it() -> None:
    """Trap 22: a namedtuple has each field twice, by name and by index."""
    after, _ = pair().edit({"x": "x"})
    assert after == {" -pair-> pair", "pair -y-> pair/y", "pair -1-> pair/y", " -x-> x"}


def test_the_index_of_a_renamed_field_stays() -> None:
    after, _ = pair().edit({"x": "pair/z"})
    assert {"pair -z-> pair/z", "pair -0-> pair/z"} <= after


def test_a_namedtuple_becomes_a_list() -> None:
    after, _ = pair().edit({"x": "pair/0", "y": "pair/1"})
    assert after == {" -pair-> pair", "pair -0-> pair/0", "pair -1-> pair/1"}


def test_a_namedtuple_that_dissolves_leaves_no_indices() -> None:
    graph = pair()
    after, _ = graph.edit({"x": "x", "y": "y"})
    assert after == {" -x-> x", " -y-> y"}


def test_lists_and_layers_are_not_namedtuples() -> None:
    edges = [("root", "0", "a"), ("root", "1", "b"), ("root", "first", "a")]
    after, _ = Graph(edges, {"a": "0", "b": "1"}).edit({"a": "box/a"})
    assert " -first-> first" in after


# Keys that are not what paths say -------------------------------------------------


@pytest.mark.parametrize(
    ("attribute", "tensors"),
    [
        ("ITERATOR", ["_STATE"]),
        ("table", ["-keys", "-values"]),
        ("a..Sb....c", [""]),
        ("strange", ["/one", "/two"]),
    ],
)
def test_keys_keep_what_follows_the_path(attribute: str, tensors: list[str]) -> None:
    """Traps 10 and 11: attributes stand for keys that begin with theirs, escaped in ways of their own."""
    graph = Graph([("root", "it", "it")], {"it": f"it/.ATTRIBUTES/{attribute}"})
    graph.keys = [f"it/.ATTRIBUTES/{attribute}{tail}" for tail in tensors]
    _, keys = graph.edit({"it": "data/source"})
    assert keys == {old: f"data/source{old.removeprefix('it')}" for old in graph.keys}


def test_keys_of_unchanged_paths_stay_with_any_content() -> None:
    graph = Graph([("root", "a", "a"), ("root", "b", "b")], {"a": "zz", "b": "old/name"})
    _, keys = graph.edit({"b": "c"})
    assert keys == {f"old/name{VALUE}": f"c{VALUE}"}


def test_two_objects_that_claim_one_key_still_do() -> None:
    graph = Graph([("root", "a", "a"), ("root", "b", "b")], {"a": "k", "b": "k"})
    edited = edit_graph(graph.graph, ["k" + VALUE], {graph.ids["a"]: "x"})
    assert edited.keys == {"k" + VALUE: "x" + VALUE}
    assert {attribute.checkpoint_key for node in edited.graph.nodes for attribute in node.attributes} == {
        "x" + VALUE
    }


def test_keys_that_no_object_claims_stay() -> None:
    graph = small()
    graph.keys.append("orphan")
    _, keys = graph.edit({"net": "model"})
    assert "orphan" not in keys


# What nodes say of themselves -----------------------------------------------------


def test_new_nodes_and_emptied_ones_say_whether_they_hold_values() -> None:
    """Trap 14: values below a node that is marked as without values are lost."""
    edges = [("root", "bn", "bn"), ("bn", "axis", "axis"), ("bn", "gamma", "gamma"), ("root", "void", "void")]
    graph = Graph(edges, {"gamma": "bn/gamma"}, told=True)
    graph.edit({"gamma": "void/new/gamma"})
    says = {
        path: graph.edited.nodes[node].has_checkpoint_values.value  # type: ignore[union-attr]
        for node, path in graph.edited.paths.items()
    }
    assert says == {
        "": True,
        "bn": False,
        "bn/axis": False,
        "void": True,
        "void/new": True,
        "void/new/gamma": True,
    }


def test_graphs_that_say_nothing_still_do() -> None:
    graph = small()
    graph.edit({"kernel": "a/b/c"})
    assert all(node.has_checkpoint_values is None for node in graph.edited.nodes)


def test_unknown_fields_survive() -> None:
    graph = small(told=True)
    unknown = b"\x98\x06\x07"  # field 99, varint 7
    nodes = graph.graph.nodes
    nodes[graph.ids["net"]].unknown = unknown
    nodes[graph.ids["net"]].children[0].unknown = unknown
    nodes[graph.ids["kernel"]].attributes[0].unknown = unknown
    nodes[graph.ids["optimizer"]].slot_variables[0].unknown = unknown
    has = nodes[graph.ids["net"]].has_checkpoint_values
    assert isinstance(has, BoolValue)
    has.unknown = unknown
    graph.graph.proto.unknown = unknown
    graph.edit({"kernel": "head/kernel", "l1": "net/l2"})
    assert graph.edited.encode().count(unknown) == 6


# Impossible -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "error", "words"),
    [
        ({"kernel": "net/l1/bias"}, DuplicateKeyError, "'net/l1/bias' and 'net/l1/kernel' would both become"),
        ({"kernel": "x", "bias": "x"}, DuplicateKeyError, "both become 'x'"),
        ({"kernel": "net/l1"}, ConversionError, "'net/l1' already has this path"),
        ({"net": "optimizer"}, None, ""),
        (
            {"optimizer": "net"},
            ConversionError,
            "'optimizer' cannot become 'net': 'net' already has this path",
        ),
        ({"kernel": ""}, ConversionError, "needs a name"),
        ({"kernel": "a//b"}, ConversionError, "needs a name"),
        ({"kernel": "a/"}, ConversionError, "needs a name"),
        ({"net": "net/l1/x"}, ConversionError, "'net/l1' is a part of it"),
        ({"root": "x"}, ConversionError, "no path"),
        ({"kernel_m": "x"}, ConversionError, "no path"),
    ],
)
def test_impossible_moves_are_rejected(
    moves: dict[str, str], error: type[Exception] | None, words: str
) -> None:
    graph = small()
    if error is None:
        graph.edit(moves)
        return
    with pytest.raises(error, match=words):
        graph.edit(moves)


def test_a_container_with_other_names_does_not_vanish_in_another() -> None:
    edges = [("root", "a", "a"), ("root", "b", "b"), ("root", "alias", "a"), ("a", "x", "x"), ("b", "y", "y")]
    with pytest.raises(ConversionError, match="'a' cannot become 'b': 'b' already has this path"):
        Graph(edges, {"x": "a/x", "y": "b/y"}).edit({"a": "b"})


def test_the_name_of_an_alias_is_taken() -> None:
    graph = Graph(
        [("root", "mine", "a"), ("root", "alias", "a"), ("root", "b", "b")], {"a": "mine", "b": "b"}
    )
    with pytest.raises(ConversionError, match="two objects would be named 'alias'"):
        graph.edit({"b": "alias"})


def test_a_node_is_not_hung_up_below_itself_by_an_alias() -> None:
    """root/z is the shortest way to the node below a: the cycle shows only on the way."""
    edges = [("root", "a", "a"), ("root", "other", "a"), ("a", "b", "b"), ("b", "c", "c")]
    with pytest.raises(ConversionError, match="would contain itself"):
        Graph(edges, {"c": "a/b/c"}).edit({"a": "other/b/x"})


def test_keys_that_collide_with_one_that_no_object_claims_are_rejected() -> None:
    graph = small()
    graph.keys.append("w" + VALUE)
    with pytest.raises(DuplicateKeyError) as caught:
        graph.edit({"kernel": "w"})
    assert caught.value.key == "w" + VALUE


# Files ----------------------------------------------------------------------------

GOLDENS = recorded("tf-v2-object")


@pytest.mark.parametrize("golden", GOLDENS, ids=[golden["path"] for golden in GOLDENS])
def test_there_and_back_again_is_the_same_checkpoint(golden: dict[str, Any]) -> None:
    """Every edge of every fixture is renamed and renamed back, and the graph is the same to the byte."""
    with open_checkpoint(data_path(golden["path"])) as reader:
        graph = reader.object_graph
        assert graph is not None
        paths = escaped_paths(graph)
        moves = {
            node: "/".join(f"{part}_x" for part in path.split("/")) for node, path in paths.items() if path
        }
        there = edit_graph(graph, reader.specs, moves)
        assert set(escaped_paths(there.graph).values()) == {"", *moves.values()}
        back = edit_graph(there.graph, there.keys.values(), {node: paths[node] for node in moves})
        assert back.graph.encode() == graph.encode()
        assert {old: back.keys[new] for old, new in there.keys.items()} == {key: key for key in reader.specs}


@pytest.mark.parametrize("golden", GOLDENS, ids=[golden["path"] for golden in GOLDENS])
def test_nothing_to_change_changes_nothing(golden: dict[str, Any]) -> None:
    with open_checkpoint(data_path(golden["path"])) as reader:
        graph = reader.object_graph
        assert graph is not None
        same = edit_graph(graph, reader.specs, escaped_paths(graph))
        assert same.graph.encode() == graph.encode()
        assert all(old == new for old, new in same.keys.items())


@pytest.mark.parametrize("seed", range(60))
def test_random_moves_keep_every_tensor_or_are_rejected(seed: int) -> None:
    """Nodes of the fixture with all containers go to random places: each tensor stays with its object."""
    rng = random.Random(seed)
    with open_checkpoint(data_path("containers", "nested")) as reader:
        graph = reader.object_graph
        assert graph is not None
        paths = escaped_paths(graph)
        places = [*paths.values(), "new", "new/deep", "listed/1/fresh"]
        nodes = rng.sample([node for node in paths if node], rng.randint(1, 6))
        moves = {
            node: "/".join(filter(None, (rng.choice(places), rng.choice(["p", "q", "0", "value"]))))
            for node in nodes
        }
        try:
            edited = edit_graph(graph, reader.specs, moves)
        except ConversionError:
            return
        owners = edited.graph.tensors(dict.fromkeys(edited.keys.values()))
        assert len(set(edited.keys.values())) == len(reader.specs)
        assert set(owners) == set(edited.keys.values()) - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
        assert list(edited.graph.flaws(dict.fromkeys(edited.keys.values()))) == []
        reachable = edited.graph.reachable()
        assert all(node in reachable for node, _, _ in owners.values())


@pytest.mark.parametrize("seed", range(200))
def test_broken_graphs_are_edited_or_rejected(seed: int) -> None:
    """Edges to nowhere, several of one name, circles, triples of anything: no error but ours."""
    rng = random.Random(seed)
    count = rng.randint(2, 9)
    anything = [*range(-1, count + 2)]
    nodes = [TrackableObject() for _ in range(count)]
    keys = []
    for number, trackable in enumerate(nodes):
        for _ in range(rng.randint(0, 4)):
            edge = ObjectReference(node_id=rng.choice(anything), local_name=rng.choice("ab01"))
            trackable.children.append(edge)
        if rng.random() < 0.5:
            keys.append(rng.choice([f"k{number}{VALUE}", f"k{VALUE}", "plain"]))
            trackable.attributes.append(SerializedTensor(name="VARIABLE_VALUE", checkpoint_key=keys[-1]))
        if rng.random() < 0.2:
            trackable.slot_variables.append(
                SlotVariableReference(
                    original_variable_node_id=rng.choice(anything),
                    slot_name="m",
                    slot_variable_node_id=rng.choice(anything),
                )
            )
    graph = ObjectGraph(TrackableObjectGraph(nodes=nodes))
    paths = [*filter(None, escaped_paths(graph).values())]
    for _ in range(20):
        chosen = [node for node, path in escaped_paths(graph).items() if path and rng.random() < 0.4]
        moves = {
            node: "/".join(filter(None, (rng.choice(["", "n", *paths]), rng.choice("abn0"))))
            for node in chosen
        }
        try:
            edited = edit_graph(graph, keys, moves)
        except ConversionError:
            continue
        assert len(set(edited.keys.values())) == len(set(keys))
        assert len(edited.graph.tensors(dict.fromkeys(edited.keys.values()))) == len(
            graph.tensors(dict.fromkeys(keys))
        )


# Spelling -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "spelled"),
    [
        ("a/b", "a/c", "a/c"),
        ("a/b", "x/y/z", "x/y/z"),
        ("a/b", "a/c.d", "a/c..d"),
        ("m/a.Sb", "m/a/c", "m/a.Sc"),
        ("m/a.Sb", "n/a/b", "n/a.Sb"),
        ("m/a.Sb", "a/b", "a.Sb"),
        ("m/a.Sb", "p/m/a/b", "p/m/a.Sb"),
        ("m/a.Sb", "m/c", "m/c"),
        ("m/a.Sb", "m/a/b/c", "m/a/b/c"),
        ("a.Sb/c", "a/b/d", "a.Sb/d"),
    ],
)
def test_slashes_within_edges_are_distinguished_from_those_between(old: str, new: str, spelled: str) -> None:
    assert spell(new, old) == spelled
    assert in_words(spelled) == new


@pytest.mark.parametrize("new", ["", "/a", "a/", "a//b"])
def test_edges_need_names(new: str) -> None:
    with pytest.raises(ConversionError, match="needs a name"):
        spell(new, "x/y")


def test_graph_with_a_nameless_edge_at_its_root_is_not_renamed() -> None:
    """`/a` is spelled like `a` there: a rule for one would speak of the other."""
    graph = Graph([("root", "", "nameless"), ("nameless", "a", "below")], {"below": "/a"})
    with pytest.raises(ConversionError, match="has no name"):
        graph.edit({"below": "c"})
