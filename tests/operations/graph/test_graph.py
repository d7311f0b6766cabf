"""Object graphs as data and as pictures: what is drawn, how deep, and that no edge name breaks out."""

from __future__ import annotations

import base64
import json
import re
import xml.etree.ElementTree as ET
import zlib
from collections import Counter
from types import SimpleNamespace

import pytest

import ckpt_cli.runtime as tf
import formats
from ckpt_cli.operations.graph.folding import draw
from ckpt_cli.operations.graph.pictures import WRITERS, dot, mermaid, svg, visible
from ckpt_cli.operations.graph.tree import GraphNode, graph_nodes, slot_label, span
from ckpt_cli.render.drawing import html
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.keras.training_state import training_states
from formats.model.object_graph import ObjectGraph
from formats.wire.messages import (
    ObjectReference,
    SlotVariableReference,
    TrackableObject,
    TrackableObjectGraph,
)
from tests.support import data_path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
SVG = "{http://www.w3.org/2000/svg}"


def drawing(path, depth=None, *, slots=False):
    with formats.open_checkpoint(path) as reader:
        nodes = graph_nodes(reader, reader.object_graph)
    return draw("title", nodes, span(nodes), depth, slots=slots)


def of_edges(edges, slots=()):
    """Return the nodes of a graph of these edges (from, to, name), without tensors, and its tree."""
    protos = [TrackableObject() for _ in range(max(max(start, end) for start, end, _ in edges) + 1)]
    for start, end, name in edges:
        protos[start].children.append(ObjectReference(node_id=end, local_name=name))
    protos += [TrackableObject() for _ in slots]
    for optimizer, variable, name, slot in slots:
        reference = SlotVariableReference(
            original_variable_node_id=variable, slot_name=name, slot_variable_node_id=slot
        )
        protos[optimizer].slot_variables.append(reference)
    graph = ObjectGraph(TrackableObjectGraph(nodes=protos))
    nodes = graph_nodes(SimpleNamespace(specs={}, kinds={}, full_names={}, object_paths={}), graph)
    return nodes, span(nodes)


def lines(picture):
    """Return the rows of a picture as text, indented by their level."""
    return ["  " * row.level + f"{row.name}  {row.text}".rstrip() for row in picture.rows]


def seen(picture):
    """Return what an SVG shows: colour by object path, and edges as (from, to, name, dashed)."""
    root = ET.fromstring(svg(picture))
    paths, colors = {}, {}
    for group in root.iter(f"{SVG}g"):
        if group.get("class") == "alias":
            continue
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
    colors, edges = seen(drawing(GUIDE, slots=True))
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
        expected |= {(variable, slot, name, True)}
    assert edges == Counter(expected)


@pytest.mark.parametrize(
    ("path", "kernel", "names"),
    [
        ("guide_adam_new/tf_ckpts/ckpt-10", "kernel", ("m", "v")),
        ("guide_adam_keras3/tf_ckpts/ckpt-10", "_kernel", ("momentum", "velocity")),
    ],
)
def test_slots_in_lists_are_tied_to_their_variables(path, kernel, names):
    """Optimizers since Keras 2.11 have lists: names tell the ties, or the list of what is trained."""
    colors, edges = seen(drawing(data_path(path), 9, slots=True))
    variables = [f"net/l1/{at}" for at in (kernel, "bias")]
    slots = {
        (variable, f"{variable} ({name} of optimizer)", name) for variable in variables for name in names
    }
    assert {slot for slot, color in colors.items() if color == "orange"} == {slot for _, slot, _ in slots}
    assert {(start, end, name) for start, end, name, dashed in edges if dashed} == slots


def test_slots_of_equal_shapes_are_distinguished():
    with formats.open_checkpoint(data_path("keras3_mlp", "mlp_both-1")) as reader:
        names = reader.full_names
        (state,) = training_states(reader.object_graph, reader.specs, names)
        found = {(names[variable], name): names[key] for (variable, name), key in state.slots.items()}
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
    picture = drawing(data_path("containers", "nested"))
    colors, edges = seen(picture)
    assert edges["", "shared_one", "shared_one = shared_two", False] == 1
    assert edges["cycle", "cycle", "me", False] == 1
    assert "me  cycle" in [line.strip() for line in lines(picture)]
    assert sum(row.parent == 0 and not row.is_alias for row in picture.rows[1:]) == len(
        {end for start, end, *_ in edges if not start}
    )
    assert colors[""] == "black"


def test_slots_are_counted_at_their_variables():
    assert lines(drawing(GUIDE)) == [
        "(root)",
        "  iterator  variant [5]",
        "  net",
        "    l1",
        "      kernel  float32 [1, 5]  +2 slots (m, v)",
        "      bias  float32 [5]  +2 slots (m, v)",
        "  optimizer  4 slots",
        *(f"    {name}" for name in ("iter  int64 []", "beta_1  float32 []", "beta_2  float32 []")),
        *(f"    {name}" for name in ("decay  float32 []", "learning_rate  float32 []")),
        "  step  int32 []",
        "  save_counter  int64 []",
    ]
    assert "orange" not in re.sub("<style>.*</style>", "", svg(drawing(GUIDE)))


def test_what_is_deeper_is_counted(tmp_path):
    picture = drawing(GUIDE, depth=1)
    colors, edges = seen(picture)
    assert set(colors) == {"", "iterator", "net", "optimizer", "step", "save_counter"}
    assert len(edges) == 5
    assert "+3 nodes" in svg(picture)
    assert "4 slots  +5 nodes" in dot(picture)


def test_slots_below_the_last_level_are_counted_where_they_would_be_shown():
    picture = drawing(GUIDE, depth=3, slots=True)
    assert "      kernel  float32 [1, 5]  +2 slots (m, v)" in lines(picture)
    assert "        m  float32 [1, 5]" in lines(drawing(GUIDE, depth=4, slots=True))


def bert_base():
    """The graph of a BERT of twelve layers with Adam, except for its norms."""
    names, edges, slots = ["root"], [], []

    def child(parent, name):
        names.append(name)
        edges.append((parent, len(names) - 1, name))
        return len(names) - 1

    model, optimizer = child(0, "model"), child(0, "optimizer")
    encoder = child(model, "encoder")
    layers = child(encoder, "layers")
    parts = [child(model, f"{name}_embeddings") for name in ("word", "position", "type")]
    for number in range(12):
        layer = child(layers, str(number))
        attention = child(layer, "attention")
        parts += [child(attention, name) for name in ("query", "key", "value", "output")]
        parts += [child(layer, name) for name in ("intermediate", "output")]
    parts += [child(model, name) for name in ("pooler", "masked_lm", "next_sentence")]
    variables = [child(part, name) for part in parts for name in ("kernel", "bias")]
    for name in ("iter", "beta_1", "beta_2", "decay", "learning_rate"):
        child(optimizer, name)
    for variable in variables:
        for name in "mv":
            names.append(name)
            slots.append((optimizer, variable, name, len(names) - 1))
    return *of_edges(edges, slots), len(names)


def test_bert_fits_a_screen_and_unfolds_to_everything():
    nodes, tree, count = bert_base()
    picture = draw("bert", nodes, tree)
    assert any(line.strip().startswith("{0..11}  (12 alike)") for line in lines(picture))
    assert 20 < len(picture.rows) <= 40
    width, height = map(float, re.search('width="(.*?)" height="(.*?)"', svg(picture)).groups())
    assert (width < 1000, height < 950) == (True, True)
    whole = draw("bert", nodes, tree, 20, slots=True)
    shown = sum(max(map(len, drawn)) for drawn in [[row.members for row in whole.rows if row.level == 4]])
    assert shown == 12
    # The page has every object once: below its own, or among the alike ones of a row.
    data = page_data(html(picture, tree, "bert", "1"))["graph"]
    listed = [node for rows in data["below"].values() for _, *members in rows for node in members]
    listed += [node for rows in data["slots"].values() for _, node in rows]
    assert sorted(listed) == list(range(1, count))


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize("screen", [20, 25, 33, 40, 60, 100, 200])
def test_a_screen_is_filled_with_what_most_hangs_below(screen, slots):
    nodes, tree, _ = bert_base()
    picture = draw("bert", nodes, tree, slots=slots, screen=screen)
    assert len(picture.rows) <= screen
    closed = [row for row in picture.rows if row.hidden]
    assert picture.deeper == min(row.level + 1 for row in closed) if closed else picture.hidden == 0
    # No row of the first level that is not drawn whole would have had room below it.
    drawn = {row.parent for row in picture.rows if row.level == picture.deeper}
    whole = draw("bert", nodes, tree, picture.deeper, slots=slots).rows
    below = Counter(row.parent for row in whole if row.level == picture.deeper)
    assert all(len(picture.rows) + rows > screen for number, rows in below.items() if number not in drawn)


def page_data(page):
    text = re.search('id="data">(.*?)<', page.decode())[1]
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_only_what_is_alike_folds():
    edges = [(0, number + 1, f"layer_{number}") for number in range(5)]
    edges += [(number, number + 5, "k") for number in (1, 2, 3, 5)] + [(4, 11, "other"), (0, 12, "layer_x")]
    assert lines(draw("t", *of_edges(edges))) == [
        *("(root)", "  layer_{0..2,4}  (4 alike)", "    k", "  layer_3", "    other", "  layer_x"),
    ]


def test_numbers_are_written_as_in_the_names_they_are_of():
    padded = [(0, number + 1, f"block_{number:02d}") for number in range(8, 12)]
    assert lines(draw("t", *of_edges(padded))) == ["(root)", "  block_{08..11}  (4 alike)"]
    mixed = [(0, at + 1, name) for at, name in enumerate(("a1", "a01", "a002", "b²", "b³", "b¹"))]
    assert lines(draw("t", *of_edges(mixed))) == ["(root)", *(f"  {name}" for _, _, name in mixed)]


def test_edges_to_what_is_elsewhere_say_where():
    edges = [(0, 1, "a"), (1, 2, "b"), (0, 3, "c"), (3, 2, "again"), (3, 0, "up")]
    edges += [(0, 4, "list"), *((4, 2, str(number)) for number in range(9))]
    assert lines(draw("t", *of_edges(edges))) == [
        *("(root)", "  a", "    b", "  c", "    again  a/b", "    up  (root)", "  list"),
        "    0  a/b, and 8 more edges to what is shown elsewhere",
    ]


def test_an_edge_has_a_name_where_the_object_has_another():
    picture = draw("t", *of_edges([(0, 1, "a"), (0, 2, "b"), (2, 1, "again")]))
    assert '  n0 -> n2 [label=""];' in dot(picture)
    assert '  n2 -> n1 [label="again"];' in dot(picture)
    assert "  n0 --> n1" in mermaid(picture)
    assert '  n2 -->|"again"| n1' in mermaid(picture)


def test_no_edge_goes_through_a_name():
    """A line goes down left of its children's dots, and names are right of the dots."""
    root = ET.fromstring(svg(drawing(data_path("bert_template/same_names/with_adam/ckpt-1"), 9, slots=True)))
    texts = {float(text.get("y")) - 4: float(text.get("x")) for text in root.iter(f"{SVG}text")}
    paths = [re.fullmatch(r"M(.*) (.*)V(.*)H(.*)", path.get("d")) for path in root.iter(f"{SVG}path")]
    assert len(paths) > 100
    for x, top, bottom, end in (map(float, path.groups()) for path in paths):
        assert all(texts[y] > x for y in texts if top < y <= bottom)
        assert texts[bottom] > end


def test_no_picture_is_wider_than_a_screen():
    name = "a_very_long_name_" * 20
    nodes, tree = of_edges([(number, number + 1, name + str(number)) for number in range(2000)])
    for depth in (None, 1999):
        assert float(re.search('width="(.*?)"', svg(draw("t", nodes, tree, depth)))[1]) < 1600


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
    page = html(hostile, span(hostile.nodes), HOSTILE[0], "1").decode()
    assert page.count("<script") == 2  # the data, and the one that its policy knows
    assert "alert(1)</script" not in page
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
        r'  (n\d+\(\["[^"<>`|\n]*"\]\):::\w+|n\d+ -->(?:\|"[^"<>`|\n]*"\|)? n\d+|classDef \w+ stroke:\w+)'
    )
    body = mermaid(hostile).splitlines()[1:]
    assert [line for line in body if not statement.fullmatch(line)] == []


SHAPES = {
    "chain": [(number, number + 1) for number in range(10_000)],
    "star": [(0, number + 1) for number in range(10_000)],
    "fan": [(0 if number % 100 == 0 else number - number % 100 + 1, number + 1) for number in range(10_000)],
    "circle": [(number, (number + 1) % 10_000) for number in range(10_000)],
}


@pytest.mark.parametrize(
    "named", [lambda number: f"n{number}", lambda number: f"n{number}" + "x" * (number % 7)]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_ten_thousand_nodes(shape, named):
    nodes, tree = of_edges([(start, end, named(end)) for start, end in SHAPES[shape]])
    assert tree.below[0] == len(nodes) - 1
    picture = draw("title", nodes, tree)
    assert len(picture.rows) <= 102
    for writer in WRITERS.values():
        assert writer(picture)
    assert len(ET.fromstring(svg(picture)).findall(f"{SVG}g")) == len(picture.rows)


def test_a_node_of_several_tensors_says_how_many():
    node = GraphNode(*[None] * len(GraphNode._fields))
    spec = TensorSpec("a", BY_NAME["float32"], (2, 3))
    assert node._replace(keys=("a", "b"), spec=spec).remark == "2 tensors"
    assert node._replace(keys=("a",), spec=spec).remark == "float32 [2, 3]"
    assert node._replace(keys=(), leaf="a text").remark == "a text"
    assert node._replace(keys=()).remark == ""


def test_a_slot_has_the_first_thousand_characters_of_its_variable():
    for size, text in ((1000, "x" * 1000), (1001, "x" * 1000 + "…")):
        nodes = [SimpleNamespace(object_path="x" * size)]
        assert slot_label(nodes, 0, "m") == f"m of {text}"
    assert slot_label([SimpleNamespace(object_path="")], 0, "m") == "m of node 0"


@pytest.mark.parametrize(
    ("character", "text"),
    [
        ("\x00", "\\x00"),
        ("\x7f", "\\x7f"),
        ("\xad", "\\xad"),
        ("\u0378", "\\u0378"),
        ("\udc80", "\\x80"),
        ("\udcff", "\\xff"),
        ("\udc7f", "\\udc7f"),
        ("\udd00", "\\udd00"),
        ("\uffff", "\\uffff"),
        ("\U000e0001", "\\U000e0001"),
        ("\U0010ffff", "\\U0010ffff"),
    ],
)
def test_what_cannot_be_seen_is_spelled_with_the_digits_that_it_needs(character, text):
    assert visible(f"a{character}b") == f"a{text}b"
