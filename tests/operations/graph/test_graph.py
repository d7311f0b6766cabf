"""Object graphs as data and as pictures: what is drawn, how deep, and that no edge name breaks out."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from types import SimpleNamespace

import pytest

import ckpt_cli.runtime as tf
import formats
from ckpt_cli.operations.graph.pictures import WRITERS, dot, html, mermaid, svg
from ckpt_cli.operations.graph.tree import draw, graph_nodes, readable_depth, span
from formats.model.object_graph import ObjectGraph
from formats.tf.graph.kinds import listed_slots
from formats.wire.messages import ObjectReference, TrackableObject, TrackableObjectGraph
from tests.support import data_path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
SVG = "{http://www.w3.org/2000/svg}"


def drawing(path, depth=None):
    with formats.open_checkpoint(path) as reader:
        nodes = graph_nodes(reader, reader.object_graph)
    tree = span(nodes)
    return draw("title", nodes, tree, depth or readable_depth(tree))


def seen(picture):
    """Return what an SVG shows: colour by object path, and edges as (from, to, name, dashed)."""
    root = ET.fromstring(svg(picture))
    paths, colors = {}, {}
    for group in root.iter(f"{SVG}g"):
        paths[group.get("id").removeprefix("n")] = group.get("data-path")
        colors[group.get("data-path")] = group.find(f"{SVG}circle").get("fill")
    edges = Counter(
        (
            paths[path.get("data-from")],
            paths[path.get("data-to")],
            path.find(f"{SVG}title").text or "",
            path.get("stroke-dasharray") is not None,
        )
        for path in root.iter(f"{SVG}path")
    )
    return colors, edges


def plain(*edges):
    return {(start, end, name, False) for start, end, name in edges}


def test_the_guides_whole_graph():
    colors, edges = seen(drawing(GUIDE))
    variables = ["step", "save_counter", "net/l1/kernel", "net/l1/bias"]
    hyper = ["iter", "beta_1", "beta_2", "decay", "learning_rate"]
    slots = [(variable, name) for variable in ("net/l1/kernel", "net/l1/bias") for name in ("m", "v")]
    assert colors == {
        **dict.fromkeys(["", "iterator", "net", "net/l1"], "black"),
        "optimizer": "red",
        **dict.fromkeys([*variables, *(f"optimizer/{name}" for name in hyper)], "blue"),
        **dict.fromkeys([f"{variable} ({name} of optimizer)" for variable, name in slots], "orange"),
    }
    expected = plain(
        *(("", name, name) for name in ("iterator", "net", "optimizer", "step", "save_counter")),
        ("net", "net/l1", "l1"),
        *(("net/l1", f"net/l1/{name}", name) for name in ("kernel", "bias")),
        *(("optimizer", f"optimizer/{name}", name) for name in hyper),
    )
    for variable, name in slots:
        slot = f"{variable} ({name} of optimizer)"
        expected |= {("optimizer", slot, name, True), (variable, slot, name, True)}
    assert edges == Counter(expected)


@pytest.mark.parametrize(
    ("path", "variables", "first"),
    [
        ("guide_adam_new/tf_ckpts/ckpt-10", {"kernel": "net/l1/kernel", "bias": "net/l1/bias"}, 1),
        ("guide_adam_keras3/tf_ckpts/ckpt-10", {"kernel": "net/l1/_kernel", "bias": "net/l1/bias"}, 2),
    ],
)
def test_slots_in_lists_are_tied_to_their_variables(path, variables, first):
    """Optimizers since Keras 2.11 have lists: names tell the ties, or the list of what is trained."""
    colors, edges = seen(drawing(data_path(path)))
    slots = [f"optimizer/_variables/{first + number}" for number in range(4)]
    assert [slot for slot, color in colors.items() if color == "orange"] == slots
    ties = {(start, end, name) for start, end, name, dashed in edges if dashed}
    assert ties == {
        (variables[at], slots[2 * number + which], name)
        for number, at in enumerate(("kernel", "bias"))
        for which, name in enumerate(("_momentums", "_velocities"))
    }


def test_slots_of_equal_shapes_are_told_apart():
    with formats.open_checkpoint(data_path("keras3_mlp", "mlp_both-1")) as reader:
        graph, names = reader.object_graph, full_names(reader)
        found = {
            (names[slot.variable], slot.name): names[slot.node] for slot in listed_slots(graph, reader.specs)
        }
    model = (
        "hidden/kernel",
        "hidden/bias",
        "bn/gamma",
        "bn/beta",
        "ln/gamma",
        "ln/beta",
        "head/kernel",
        "head/bias",
    )
    assert found == {
        (f"mlp/{at}", f"_{slot}"): f"adam/mlp_{at.replace('/', '_')}_{kind}"
        for at in model
        for slot, kind in (("momentums", "momentum"), ("velocities", "velocity"))
    }


def full_names(reader):
    owners = reader.object_graph.tensors(reader.specs)
    return {node: reader.full_names[key] for key, (node, _, _) in owners.items() if key in reader.full_names}


def test_the_guides_partial_graph(tmp_path):
    layer = tf.train.Checkpoint(bias=tf.Variable(tf.zeros([5])))
    path = tf.train.Checkpoint(net=tf.train.Checkpoint(l1=layer)).save(tmp_path / "part")
    colors, edges = seen(drawing(path))
    black = dict.fromkeys(["", "net", "net/l1"], "black")
    assert colors == {**black, "net/l1/bias": "blue", "save_counter": "blue"}
    assert edges == Counter(
        plain(
            ("", "net", "net"),
            ("net", "net/l1", "l1"),
            ("net/l1", "net/l1/bias", "bias"),
            ("", "save_counter", "save_counter"),
        )
    )


def test_shared_objects_and_cycles_are_drawn_once_with_all_their_edges():
    colors, edges = seen(drawing(data_path("containers", "nested")))
    assert edges["", "shared_one", "shared_one", False] == edges["", "shared_one", "shared_two", False] == 1
    assert edges["cycle", "cycle", "me", False] == 1
    assert len(colors) == len({end for _, end, *_ in edges} | {""})


def test_what_is_deeper_is_counted(tmp_path):
    picture = drawing(GUIDE, depth=1)
    colors, edges = seen(picture)
    assert set(colors) == {"", "iterator", "net", "optimizer", "step", "save_counter"}
    assert len(edges) == 5
    assert "+3 nodes" in svg(picture)
    assert "+9 nodes" in dot(picture)


HOSTILE = [
    '"></text><script>alert(1)</script>',
    'a"]; evil [label="',
    "back\\slash\n\x1b[31m\u202e",
    "`md` #quot; |x| --> n0",
    "]]>&amp;",
]


@pytest.fixture
def hostile(tmp_path):
    root = tf.Module()
    for name in HOSTILE:
        setattr(root, name, tf.Variable(1.0))
    return drawing(tf.train.Checkpoint(root).write(tmp_path / "hostile"))


def test_hostile_names_stay_text(hostile):
    root = ET.fromstring(svg(hostile))
    assert not list(root.iter(f"{SVG}script"))
    texts = {path.get("data-path") for path in root.iter(f"{SVG}g")}
    assert HOSTILE[0] in texts
    assert "back\\slash\\x0a\\x1b[31m\\u202e" in texts
    assert "<script" not in html(hostile)
    for text in (writer(hostile) for writer in WRITERS.values()):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800-\udfff]", text)


def test_hostile_names_do_not_leave_their_quotes(hostile):
    statement = re.compile(
        r'  n\d+( -> n\d+)? \[label="(?:[^"\\]|\\["\\])*"(, color=\w+|, style=dashed, color=\w+)?\];'
    )
    body = dot(hostile).splitlines()[3:-1]
    assert len(body) == 2 * len(HOSTILE) + 2  # and the root, and the edge by which it hangs on itself
    assert [line for line in body if not statement.fullmatch(line)] == []
    statement = re.compile(
        r'  (n\d+\(\["[^"<>`|\n]*"\]\):::\w+|n\d+ -->\|"[^"<>`|\n]*"\| n\d+|classDef \w+ stroke:\w+)'
    )
    body = mermaid(hostile).splitlines()[1:]
    assert [line for line in body if not statement.fullmatch(line)] == []


SHAPES = {
    "chain": ([(number, number + 1) for number in range(10_000)], 400),
    "star": ([(0, number + 1) for number in range(10_000)], 10_001),
    "fan": (
        [(0 if number % 100 == 0 else number - number % 100 + 1, number + 1) for number in range(10_000)],
        101,
    ),
    "circle": ([(number, (number + 1) % 10_000) for number in range(10_000)], 400),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_ten_thousand_nodes(shape):
    edges, drawn = SHAPES[shape]
    protos = [TrackableObject() for _ in range(max(max(edge) for edge in edges) + 1)]
    for start, end in edges:
        protos[start].children.append(ObjectReference(node_id=end, local_name=f"n{end}"))
    graph = ObjectGraph(TrackableObjectGraph(nodes=protos))
    nodes = graph_nodes(SimpleNamespace(specs={}, kinds={}), graph)
    tree = span(nodes)
    assert tree.below[0] == len(protos) - 1
    picture = draw("title", nodes, tree, readable_depth(tree))
    assert len(picture.nodes) == drawn
    for writer in WRITERS.values():
        assert writer(picture)
    assert len(ET.fromstring(svg(picture)).findall(f"{SVG}g")) == drawn
