"""`ckpt graph`: the tree, the document, and files."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from ckpt_cli.operations.look import report
from ckpt_cli.render.tables import width
from formats.core.dtypes import BY_NAME
from formats.core.spec import TensorSpec
from formats.core.version import VERSION
from formats.orbax.facts import TreeFacts
from formats.store.work.workers import SERIAL
from tests.pages import PageSource
from tests.support import data_path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
NESTED = data_path("containers", "nested")


def test_the_document(ckpt):
    result = ckpt("graph", GUIDE, "--json")
    assert (result.code, result.err) == (0, "")
    assert result.json["schema"] == 1
    assert result.json["path"] == GUIDE
    nodes = result.json["nodes"]
    assert [node["id"] for node in nodes] == list(range(18))
    assert nodes[0]["object_path"] == ""
    assert nodes[0]["children"][1] == {"name": "net", "id": 2}
    assert (nodes[3]["kind"], nodes[3]["key"]) == ("optimizer", None)
    assert nodes[3]["slots"][0] == {"variable": 12, "name": "m", "id": 14}
    assert (nodes[12]["kind"], nodes[12]["key"]) == ("variable", "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE")
    assert nodes[14]["kind"] == "slot"


def test_the_tree(terminal):
    result = terminal("graph", NESTED, NO_COLOR="1", LINES="50")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert "├── shared_one = shared_two  float32 [2, 2]  16 B" in lines
    assert "└── cycle  (shared)" in lines
    assert "    │   └── back  -> cycle" in lines
    assert lines[-1] == "    └── me  -> cycle"


def test_the_tree_collapses(terminal):
    result = terminal("graph", GUIDE, "--depth", 1, NO_COLOR="1")
    assert "├── optimizer  4 slots  +5 nodes  104 B" in result.out.splitlines()
    assert "kernel" not in result.out
    assert result.err == ""


def test_slots_of_the_tree_are_counted_unless_they_are_requested(terminal):
    counted = terminal("graph", GUIDE, NO_COLOR="1").out.splitlines()
    assert "│       └── bias  float32 [5]  +2 slots (m, v)  20 B" in counted
    shown = terminal("graph", GUIDE, "--slots", "--depth", 9, NO_COLOR="1").out.splitlines()
    at = shown.index("│       └── bias  float32 [5]  20 B")
    assert shown[at + 1 : at + 3] == [
        *("│           ├── m  float32 [5]  20 B", "│           └── v  float32 [5]  20 B"),
    ]
    coloured = terminal("graph", GUIDE, "--slots").out
    assert all(f"\x1b[{color}m" in coloured for color in (31, 33, 34))


LAYERS = 12


@pytest.fixture(scope="module")
def tower(tmp_path_factory):
    """A model of twelve layers that are alike, one that is not, names that are wide and long, and Adam."""
    names = [f"layer_{number}" for number in range(LAYERS)]
    layers = {name: tf.train.Checkpoint(kernel=tf.Variable(tf.zeros([2, 3]))) for name in names}
    model = tf.train.Checkpoint(**layers, other=tf.train.Checkpoint(kernel=tf.Variable(1.0)))
    setattr(model, "重み" * 40, tf.train.Checkpoint(kernel=model.other.kernel))
    model.first = tf.train.Checkpoint(**{"n" * 90: tf.Variable(1.0)})
    root = tf.train.Checkpoint(model=model, optimizer=tf.keras.optimizers.legacy.Adam())
    trained = [getattr(model, name).kernel for name in names]
    root.optimizer.apply_gradients((tf.zeros([2, 3]), variable) for variable in trained)
    return root.save(tmp_path_factory.mktemp("tower") / "ckpt")


def test_the_tree_has_a_row_for_layers_that_are_alike(terminal, tower):
    lines = terminal("graph", tower, NO_COLOR="1").out.splitlines()
    at = lines.index("│   ├── layer_{0..11}  (12 alike)")
    assert lines[at + 1] == "│   │   └── kernel  float32 [2, 3]  +2 slots (m, v)  24 B"
    assert not [line for line in lines if "layer_1 " in line]
    collapsed = terminal("graph", tower, "--depth", 2, NO_COLOR="1").out.splitlines()
    assert "│   ├── layer_{0..11}  (12 alike)  +1 node  24 B each" in collapsed


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_no_line_of_the_tree_is_wider_than_the_terminal(terminal, tower, columns):
    shown = terminal("graph", tower, "--slots", "--depth", 9, columns=columns, NO_COLOR="1").out
    widths = [width(line) for line in shown.splitlines()]
    assert max(widths) <= columns
    assert "  -> model/other/kernel" in shown if columns > 100 else "..." in shown


def test_a_tree_deeper_than_the_terminal_is_wide_shows_where_things_hang(terminal, tmp_path):
    leaf = root = tf.train.Checkpoint()
    for _ in range(30):
        leaf.further = tf.train.Checkpoint()
        leaf = leaf.further
    leaf.weight = tf.Variable(1.0)
    path = root.save(tmp_path / "deep")
    lines = terminal("graph", path, "--depth", 99, columns=60, NO_COLOR="1").out.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[31].endswith(" └── weight  float32 []  4 B")


@pytest.mark.parametrize("lines", [10, 24, 30, 40, 60, 200])
def test_the_tree_has_as_many_rows_as_the_terminal(terminal, tower, lines):
    result = terminal("graph", tower, "--slots", NO_COLOR="1", LINES=str(lines))
    shown = result.out.splitlines()
    assert len(shown) <= max(20, lines - 3)
    whole = terminal("graph", tower, "--slots", "--depth", 99, NO_COLOR="1").out.splitlines()
    if len(whole) <= max(20, lines - 3):
        assert (shown, result.err) == (whole, "")
    else:
        deeper = re.fullmatch(
            r"note: [0-9]+ nodes? (?:is|are) not shown; --depth ([0-9]+) shows more\n", result.err
        )[1]
        assert len(terminal("graph", tower, "--slots", "--depth", deeper).out.splitlines()) > len(shown)


def test_a_narrow_line_leaves_out_names_of_slots_then_their_count(terminal):
    def kernel(columns):
        shown = terminal("graph", GUIDE, columns=columns, NO_COLOR="1").out.splitlines()
        return next(line.split("kernel  ")[1] for line in shown if "kernel" in line)

    assert kernel(80) == "float32 [1, 5]  +2 slots (m, v)  20 B"
    assert kernel(52) == "float32 [1, 5]  +2 slots  20 B"
    assert kernel(42) == "float32 [1, 5]  20 B"


def test_a_tree_of_more_than_a_screen_is_collapsed_and_says_so(terminal, tmp_path):
    parts = {
        f"p{at}": tf.train.Checkpoint(**{f"{name}{at}": tf.Variable(1.0) for name in "abcd"})
        for at in range(20)
    }
    path = tf.train.Checkpoint(**parts).save(tmp_path / "wide")
    result = terminal("graph", path, NO_COLOR="1")
    assert "├── p0  +4 nodes  16 B" in result.out.splitlines()
    assert result.err == "note: 80 nodes are not shown; --depth 2 shows more\n"
    assert "a19" in terminal("graph", path, "--depth", 2, NO_COLOR="1").out
    many = {f"x{'y' * at}": tf.Variable(1.0) for at in range(120)}
    path = tf.train.Checkpoint(**many).save(tmp_path / "many")
    result = terminal("graph", path, NO_COLOR="1")
    assert result.out.splitlines()[-1] == "└── … 21 more"
    assert result.err == "note: only the first children of large objects are shown; --depth N shows all\n"
    assert len(terminal("graph", path, "--depth", 1, NO_COLOR="1").out.splitlines()) == 122


def test_in_a_pipe_an_edge_is_a_line(ckpt):
    rows = ckpt("graph", GUIDE).rows
    assert ["6", "kernel", "12", "variable", "float32", "1,5", "20"] in rows
    assert ["3", "m of 12", "14", "slot", "float32", "1,5", "20"] in rows
    assert len(rows) == 17


@pytest.mark.parametrize("suffix", [".svg", ".dot", ".mmd", ".html"])
def test_files(ckpt, tmp_path, suffix):
    output = tmp_path / f"g{suffix}"
    assert ckpt("graph", GUIDE, "-o", output, "--dry-run").code == 0
    assert not output.exists()
    assert ckpt("graph", GUIDE, "-o", output).code == 0
    text = output.read_text(encoding="utf-8")
    assert "learning_rate" in text
    again = ckpt("graph", GUIDE, "-o", output)
    assert (again.code, output.read_text(encoding="utf-8")) == (3, text)
    assert "--overwrite" in again.err
    assert ckpt("graph", GUIDE, "-o", output, "--overwrite", "--depth", 1).code == 0
    assert "learning_rate" not in output.read_text(encoding="utf-8")


def test_a_page_says_when_it_was_made_by_which_version_and_command(ckpt, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    target = tmp_path / "g.html"
    assert ckpt("graph", GUIDE, "-o", target, "--depth", 2, "--slots").code == 0
    page = PageSource(target)
    assert page.document["made"] == "2023-11-14T22:13:20Z"
    assert page.document["command"] == f"ckpt graph {GUIDE} --depth 2 --slots -o g.html"
    assert f"2023-11-14T22:13:20Z · ckpt {VERSION} · {page.document['command']}" in page.still
    assert "ckpt-10 - ckpt graph" in page.of("title")


def test_svg_is_well_formed_and_fetches_nothing(ckpt, tmp_path):
    assert ckpt("graph", NESTED, "-o", tmp_path / "g.svg").code == 0
    root = ET.parse(tmp_path / "g.svg").getroot()
    assert not [element for element in root.iter() if element.tag.endswith(("script", "image", "use"))]


def with_dot(monkeypatch, tmp_path, script):
    """Have a program of that name where programs are looked for, alone."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "dot"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def test_graphviz_lays_out_where_it_is_installed(ckpt, tmp_path, monkeypatch):
    target = tmp_path / "g.svg"
    with_dot(monkeypatch, tmp_path, 'read -r first; echo "<svg>$1 $first</svg>"; exec /bin/cat >/dev/null')
    assert ckpt("graph", GUIDE, "-o", target, "--engine", "dot").code == 0
    assert target.read_text() == '<svg>-Tsvg digraph "ckpt-10" {</svg>\n'
    assert ckpt("graph", GUIDE, "-o", tmp_path / "g.html", "--engine", "dot").code == 2


def test_without_graphviz_its_engine_is_rejected(ckpt, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = ckpt("graph", GUIDE, "-o", tmp_path / "g.svg", "--engine", "dot")
    assert done.code == 3
    assert "Graphviz's dot, which is not installed" in done.err
    assert "hint: install Graphviz" in done.err
    assert not (tmp_path / "g.svg").exists()


def test_what_graphviz_says_of_a_failure_is_reported(ckpt, tmp_path, monkeypatch):
    with_dot(monkeypatch, tmp_path, "echo 'Error: out of memory' >&2; echo more >&2; exit 1")
    done = ckpt("graph", GUIDE, "-o", tmp_path / "g.svg", "--engine", "dot")
    assert done.code == 3
    assert "dot failed: Error: out of memory\n" in done.err
    assert not (tmp_path / "g.svg").exists()


def test_another_suffix_is_a_usage_error(ckpt, tmp_path):
    result = ckpt("graph", GUIDE, "-o", tmp_path / "g.png")
    assert result.code == 2
    assert ".svg, .dot, .mmd, .html" in result.err


def test_without_an_object_graph(ckpt):
    result = ckpt("graph", data_path("name_based", "adam"))
    assert result.code == 3
    assert "no object graph" in result.err


ADAM = {"params/dense/kernel": (2, 3), "params/dense/bias": (3,), "opt_state/0/count": ()} | {
    f"opt_state/0/{name}/dense/{key}": shape
    for name in ("mu", "nu")
    for key, shape in (("kernel", (2, 3)), ("bias", (3,)))
}


@pytest.fixture(params=["orbax", "flax"])
def tree(request, tmp_path):
    """A tree with Adam's state, a text and an empty container."""
    path = tmp_path / ("tree" if request.param == "orbax" else "tree.msgpack")
    specs = [TensorSpec(key, BY_NAME["float32"], shape) for key, shape in ADAM.items()]
    facts = TreeFacts("", {"note": "hello"}, {"opt_state/1": "None"})
    with formats.create_checkpoint(path, format=request.param, specs=specs, facts=facts) as writer:
        for spec in specs:
            writer.write(spec.key, np.ones(spec.shape, np.float32))
    return path


def test_a_tree_of_arrays_is_a_graph(ckpt, tree):
    result = ckpt("graph", tree, "--json")
    assert (result.code, result.err) == (0, "")
    nodes = {node["object_path"]: node for node in result.json["nodes"]}
    assert [node["id"] for node in result.json["nodes"]] == list(range(len(nodes)))
    assert [child["name"] for child in nodes[""]["children"]] == ["opt_state", "params", "note"]
    kernel = nodes["params/dense/kernel"]
    assert (kernel["key"], kernel["kind"], kernel["shape"]) == ("params/dense/kernel", "variable", [2, 3])
    assert (nodes["params"]["key"], nodes["params"]["kind"]) == (None, None)
    assert (nodes["note"]["key"], nodes["opt_state/0/count"]["kind"]) == (None, "optimizer")
    mu = nodes["opt_state/0/mu/dense/kernel"]
    assert mu["kind"] == "slot"
    assert {"variable": kernel["id"], "name": "mu", "id": mu["id"]} in nodes["opt_state"]["slots"]
    assert len(nodes["opt_state"]["slots"]) == 4


def test_a_tree_of_arrays_has_its_slots_at_their_variables(terminal, tree):
    lines = terminal("graph", tree, NO_COLOR="1").out.splitlines()
    assert "│       ├── bias  float32 [3]  +2 slots (mu, nu)  12 B" in lines
    assert "├── opt_state  4 slots" in lines
    assert "│   └── 1  None" in lines
    assert "└── note  string" in lines
    assert "mu" not in " ".join(line for line in lines if "+2 slots" not in line)
    shown = terminal("graph", tree, "--slots", "--depth", 9, NO_COLOR="1").out
    assert "│           ├── mu  float32 [2, 3]  24 B" in shown


@pytest.mark.parametrize("suffix", ["svg", "dot", "mmd", "html"])
def test_a_tree_of_arrays_is_drawn(ckpt, tree, tmp_path, suffix):
    target = tmp_path / f"out.{suffix}"
    assert ckpt("graph", tree, "-o", target).code == 0
    assert "kernel" in target.read_text()


def test_a_page_about_a_tree_of_arrays_has_its_graph(tree):
    with formats.open_checkpoint(tree) as reader:
        graph = report.checkpoint(reader, workers=SERIAL)[0]["graph"]
    assert graph["reached"] == len(graph["tensors"]) > 9
    assert sum(map(len, graph["tensors"])) == len(ADAM)
