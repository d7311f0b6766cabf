"""`ckpt graph`: the tree, the document, and files."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

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
    result = terminal("graph", NESTED, NO_COLOR="1")
    assert result.code == 0
    lines = result.out.splitlines()
    assert "├── shared_one  float32 [2, 2]  16 B  (shared)" in lines
    assert "├── shared_two  -> shared_one" in lines
    assert any(line.endswith("me  -> cycle") for line in lines)


def test_the_tree_collapses(terminal):
    result = terminal("graph", GUIDE, "--depth", 1, NO_COLOR="1")
    assert "├── optimizer  … 9 nodes, 104 B" in result.out.splitlines()
    assert "kernel" not in result.out


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


def test_without_graphviz_its_engine_is_refused(ckpt, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    done = ckpt("graph", GUIDE, "-o", tmp_path / "g.svg", "--engine", "dot")
    assert done.code == 3
    assert "Graphviz's dot, which is not installed" in done.err
    assert "hint: it comes with Graphviz" in done.err
    assert not (tmp_path / "g.svg").exists()


def test_what_graphviz_says_of_a_failure_is_told(ckpt, tmp_path, monkeypatch):
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
