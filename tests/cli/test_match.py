"""`ckpt match`: exit codes, the document, and the command that it proposes."""

from __future__ import annotations

import itertools
import os
import shlex
from typing import TYPE_CHECKING

import pytest

import ckpt_cli.runtime as tf
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")


@pytest.fixture
def renamed(ckpt, tmp_path):
    path = str(tmp_path / "renamed-10")
    assert ckpt("rename", GUIDE, path, "--sub", "^net(?=/|$)=>m[o.d]+^\\\\el").code == 0
    return path


def test_the_document(ckpt):
    result = ckpt("match", GUIDE, GUIDE, "--json")
    assert (result.code, result.err) == (0, "")
    found = result.json
    assert found["schema"] == 1
    assert found["checkpoint"] == found["target"] == GUIDE
    assert found["assert_consumed"] is found["assert_existing_objects_matched"] is True
    assert {"target", "checkpoint"} == set(found["restored"][0])
    for name in ("unmatched_target", "unused_checkpoint", "shape_mismatch", "dtype_mismatch"):
        assert found[name] == []
    assert found["fix"] is None


def test_unused_values_are_allowed_where_asked_for(ckpt, tmp_path):
    target = tf.train.Checkpoint(step=tf.Variable(1)).save(tmp_path / "target")
    result = ckpt("match", GUIDE, target)
    assert result.code == 1
    assert ["left", "unused", "net/l1/bias/.ATTRIBUTES/VARIABLE_VALUE", ""] in result.rows
    assert {row[0] for row in result.rows} == {"left", "harmless"}
    assert ckpt("match", GUIDE, target, "--allow-unused").code == 0
    assert ckpt("match", target, GUIDE, "--allow-unused").code == 1


@pytest.mark.parametrize("back", [False, True])
def test_the_command_for_a_renamed_model_works(ckpt, renamed, tmp_path, monkeypatch, back):
    checkpoint, target = (renamed, GUIDE) if back else (GUIDE, renamed)
    result = ckpt("match", checkpoint, target, "--json")
    assert result.code == 1
    assert len(result.json["likely_renames"]) == 2
    words = shlex.split(result.json["fix"])
    assert words[:2] == ["ckpt", "rename"]
    monkeypatch.chdir(tmp_path)
    assert ckpt(*words[1:]).code == 0
    assert ckpt("match", words[3], target).code == 0


def test_the_command_for_a_checkpoint_of_another_layout_works(ckpt, tmp_path, monkeypatch):
    """A legacy optimizer's checkpoint cannot be restored into a newer one; the weights can be taken over."""
    newer = data_path("guide_adam_new", "tf_ckpts", "ckpt-10")
    result = ckpt("match", GUIDE, newer, "--json")
    assert result.code == 1
    assert "refuses" in result.json["failures"][0]
    words = shlex.split(result.json["fix"])
    monkeypatch.chdir(tmp_path)
    assert ckpt(*words[1:]).code == 0
    assert os.path.exists(words[3] + ".index")
    assert ckpt("match", words[3], newer).code == 0


def test_on_a_terminal_what_matters_comes_first(terminal, renamed):
    result = terminal("match", GUIDE, renamed, NO_COLOR="1")
    assert result.code == 1
    assert "what matters" in result.out
    assert "perhaps net/l1/kernel" in result.out
    assert result.out.index("what matters") < result.out.index("harmless")
    assert "ckpt rename" in result.out
    assert "assert_consumed()                  fails" in result.out


@pytest.mark.parametrize("role", ["TARGET", "CHECKPOINT"])
def test_what_has_no_object_graph_is_refused(ckpt, role):
    other = data_path("keras_mlp", "mlp.full.h5") if role == "CHECKPOINT" else data_path("name_based", "adam")
    arguments = (other, GUIDE) if role == "CHECKPOINT" else (GUIDE, other)
    result = ckpt("match", *arguments)
    assert (result.code, result.out) == (3, "")
    assert f"{role} has no object graph" in result.err
    assert "hint:" in result.err


def test_a_missing_checkpoint(ckpt, tmp_path):
    assert ckpt("match", tmp_path / "nothing", GUIDE).code == 3


@pytest.mark.parametrize("damage", ["graph_cut", "graph_empty"])
@pytest.mark.parametrize("command", ["match", "graph"])
def test_a_damaged_object_graph_is_an_error(ckpt, command, damage):
    arguments = (GUIDE,) if command == "match" else ()
    result = ckpt(command, data_path("corrupt", damage, "ckpt"), *arguments)
    assert (result.code, result.out) == (3, "")
    assert "object graph" in result.err


@pytest.mark.parametrize("damage", ["graph_child_far", "graph_cycle", "graph_name_twice", "graph_slot_far"])
@pytest.mark.parametrize("command", ["match", "graph"])
def test_an_odd_object_graph_is_passed_through(ckpt, command, damage):
    arguments = (GUIDE,) if command == "match" else ()
    result = ckpt(command, data_path("corrupt", damage, "ckpt"), *arguments, "--json")
    assert result.code == (1 if command == "match" else 0)
    assert result.json["schema"] == 1


def test_a_map_from_structure_is_read_and_given_back(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("bert_tiny", "bert_model.ckpt-2")
    like = data_path("bert_template", "other_names", "with_adam", "ckpt-1")
    told = ckpt("match", source, like)
    assert "note: 44 pairs can be guessed from structure: --save-map FILE writes them" in told.err
    saved = tmp_path / "map.tsv"
    result = ckpt("match", "--json", source, like, "--save-map", saved)
    assert (result.code, len(result.json["proposed"])) == (1, 44)
    lines = saved.read_text().splitlines()
    with open(data_path("bert_template", "gold_map.tsv"), encoding="utf-8") as file:
        assert sorted(line for line in lines if "\t" in line) == sorted(file.read().splitlines())
    assert all("\t" in after for line, after in itertools.pairwise(lines[1:]) if line.startswith("# "))
    refused = ckpt("convert", source, tmp_path / "b-1", "--like", like)
    assert (refused.code, f"ckpt match {source} {like} --save-map map.tsv" in refused.err) == (3, True)
    assert ckpt("convert", source, tmp_path / "b-1", "--like", like, "--map", saved).code == 0
    saved.write_text(saved.read_text().replace("/beta\t", "/edited\t"))
    again = ckpt("match", source, like, "--save-map", saved)
    assert (again.code, "is there already, with other pairs" in again.err) == (3, True)
