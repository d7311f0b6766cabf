"""`ckpt match`: exit codes, the document, and the command that it proposes."""

from __future__ import annotations

import itertools
import os
import shlex
from typing import TYPE_CHECKING, Any

import pytest

import ckpt_cli.runtime as tf
import formats
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


def test_unused_values_are_allowed_where_requested(ckpt, tmp_path):
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
    assert "rejects" in result.json["failures"][0]
    words = shlex.split(result.json["fix"])
    monkeypatch.chdir(tmp_path)
    assert ckpt(*words[1:]).code == 0
    assert os.path.exists(words[3] + ".index")
    assert ckpt("match", words[3], newer).code == 0


def test_on_a_terminal_what_matters_comes_first(terminal, renamed):
    result = terminal("match", GUIDE, renamed, NO_COLOR="1")
    assert result.code == 1
    assert "needs attention" in result.out
    assert "similar key in CHECKPOINT: net/l1/kernel" in result.out
    assert result.out.index("needs attention") < result.out.index("harmless")
    assert "ckpt rename" in result.out
    assert "assert_consumed()                  fails" in result.out


@pytest.mark.parametrize("role", ["TARGET", "CHECKPOINT"])
def test_what_has_no_object_graph_is_rejected(ckpt, role):
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
    assert "note: 44 pairs can be guessed from structure; to write them" in told.err
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
    assert (again.code, "already exists, and it contains other pairs" in again.err) == (3, True)


def test_a_save_counter_that_is_all_that_is_missing_is_named(ckpt: Callable, tmp_path: Path) -> None:
    """`Checkpoint.write` saves none, and `restore` looks for one; `read` does not."""
    program = tf.train.Checkpoint(v=tf.Variable([1.0]))
    written, saved = program.write(tmp_path / "written"), program.save(tmp_path / "saved")
    told = ckpt("match", written, written)
    assert (told.code, told.rows[0][:2]) == (1, ["harmless", "no value"])
    command = f"ckpt match {written} {written} --read"
    assert "note: only the save counter is missing; Checkpoint.write() and" in told.err
    assert told.err.rstrip().endswith(command)
    for target in (written, saved):  # a program has no counter of its own before it saves
        assert ckpt("match", written, target, "--read").code == 0
    left = ckpt("match", saved, written, "--read")
    assert (left.code, left.rows) == (
        1,
        [["harmless", "unused", "save_counter/.ATTRIBUTES/VARIABLE_VALUE", ""]],
    )
    assert f"to match with it, as restore() does: ckpt match {saved} {written}" in left.err
    assert ckpt("match", saved, written, "--read", "--allow-unused").code == 0
    assert ckpt("match", saved, written).code == 0


def trained(model: Any, optimizer: Any) -> Any:
    for layer in model:
        layer.build((None, 3))
    variables = [variable for layer in model for variable in layer.trainable_variables]
    optimizer.apply_gradients([(tf.ones(variable.shape), variable) for variable in variables])
    return tf.train.Checkpoint(layers=model)


def programs(tmp_path: Path, first: int) -> tuple[str, str, list[float]]:
    """Save layers of one shape at the root, and below `model`; names count from 1, and from `first`."""
    dense, adam = tf.keras.layers.Dense, tf.keras.optimizers.Adam
    paths = []
    for number, at in enumerate((1, first)):
        optimizer = adam(0.1)
        model = trained([dense(3, name=f"dense_{at + n}") for n in range(3)], optimizer)
        for layer, value in zip(model.layers, (1.0, 2.0, 3.0), strict=True):
            layer.kernel.assign(tf.fill([3, 3], value + 10 * number))
        parts = {"model": model, "step": tf.Variable(7)} if number else {"layers": model.layers}
        paths.append(tf.train.Checkpoint(optimizer=optimizer, **parts).save(tmp_path / f"program-{number}"))
    return paths[0], paths[1], [1.0, 2.0, 3.0]


@pytest.mark.parametrize("first", [1, 0, 2])
def test_the_command_for_weights_below_another_object_carries_all(
    ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Correctly restored slots are not called mistaken; shifted full names mislead no one."""
    monkeypatch.chdir(tmp_path)
    source, target, kernels = programs(tmp_path, first)
    found = ckpt("match", source, target, "--json").json
    assert found["optimizers"] == []
    assert found["fix_keeps"] == ["step/.ATTRIBUTES/VARIABLE_VALUE"]
    told = ckpt("match", source, target)
    assert "TARGET keeps its own values of 'step'" in told.err
    words = shlex.split(found["fix"])
    assert ckpt(*words[1:]).code == 0
    with formats.open_checkpoint(words[3]) as reader, formats.open_checkpoint(source) as before:
        for number, value in enumerate(kernels):
            path = f"model/layers/{number}/kernel/.ATTRIBUTES/VARIABLE_VALUE"
            assert reader[path].read()[0, 0] == value
        slots = [key for key, kind in before.kinds.items() if kind == "slot"]
        assert len(slots) == 12
        assert all((reader[key].read() == before[key].read()).all() for key in slots)


def test_the_note_says_where_a_checkpoint_has_nothing_more(ckpt: Callable, tmp_path: Path) -> None:
    source = tf.train.Checkpoint(v=tf.Variable([1.0])).save(tmp_path / "one")
    target = tf.train.Checkpoint(v=tf.Variable([1.0]), more=tf.Variable([1.0, 2.0])).save(tmp_path / "two")
    found = ckpt("match", source, target, "--json").json
    words = shlex.split(found["fix"])
    assert (words[-1], found["fix_keeps"]) == ("--partial", ["more/.ATTRIBUTES/VARIABLE_VALUE"])
    doubtful = tf.train.Checkpoint(v=tf.Variable([1.0]), other=tf.Variable([3.0, 4.0])).save(tmp_path / "3")
    assert ckpt("match", doubtful, target, "--json").json["fix"] is not None  # the only one of its shape
    twice = {"x": tf.Variable([3.0, 4.0]), "y": tf.Variable([3.0, 4.0])}
    doubtful = tf.train.Checkpoint(v=tf.Variable([1.0]), **twice).save(tmp_path / "4")
    assert ckpt("match", doubtful, target, "--json").json["fix"] is None


def test_what_nothing_but_the_order_pairs_is_a_comment(ckpt: Callable, tmp_path: Path) -> None:
    def saved(name: str, *keys: str) -> str:
        variables = {key: tf.Variable(tf.fill([2, 2], float(at))) for at, key in enumerate(keys)}
        path: str = tf.train.Checkpoint(**variables).save(tmp_path / name)
        return path

    source, target = saved("old", "a", "b", "same"), saved("new", "p", "q", "same")
    end, saved_map = "/.ATTRIBUTES/VARIABLE_VALUE", tmp_path / "map.tsv"
    told = ckpt("match", source, target, "--save-map", saved_map)
    assert "2 pairs are proposed; 2 of them are ambiguous and commented out" in told.err
    lines = saved_map.read_text().splitlines()
    ambiguous = [f"# ambiguous: {old}{end} => {new}{end}" for old, new in (("a", "p"), ("b", "q"))]
    assert [line for line in lines if line.startswith("# ambiguous")] == ambiguous
    assert [line for line in lines if "\t" in line] == [f"same{end}\tsame{end}"]
    out = tmp_path / "out-1"
    refused = ckpt("convert", source, out, "--like", target, "--map", saved_map)
    assert (refused.code, "2 tensors of TEMPLATE get no value: 'p', 'q'" in refused.err) == (3, True)
    decided = (
        "\n".join(lines).replace(ambiguous[0], f"a{end}\tq{end}").replace(ambiguous[1], f"b{end}\tp{end}")
    )
    saved_map.write_text(decided)
    assert ckpt("convert", source, out, "--like", target, "--map", saved_map).code == 0
    with formats.open_checkpoint(str(out)) as reader:
        assert [reader[key + end].read()[0, 0] for key in ("p", "q", "same")] == [1.0, 0.0, 2.0]


def test_what_a_map_says_counts_more_than_full_names(ckpt: Callable, tmp_path: Path) -> None:
    """Two layers are swapped: each has the full name of the other's place."""
    variables = {name: tf.Variable([float(at)], name=name) for at, name in enumerate("ab")}
    source = tf.train.Checkpoint(**variables).save(tmp_path / "source")
    end, rows, out = "/.ATTRIBUTES/VARIABLE_VALUE", tmp_path / "map.tsv", tmp_path / "out-1"
    rows.write_text(f"a{end}\tb{end}\nb{end}\ta{end}\n")
    assert ckpt("convert", source, out, "--like", source, "--map", rows).code == 0
    with formats.open_checkpoint(str(out)) as reader:
        assert [reader[key + end].read()[0] for key in "ab"] == [1.0, 0.0]
    rows.write_text(f"a{end}\tnowhere{end}\n")
    refused = ckpt("convert", source, out, "--like", source, "--map", rows, "--overwrite")
    assert (refused.code, "1 tensor of TEMPLATE gets no value: 'a'" in refused.err) == (3, True)
