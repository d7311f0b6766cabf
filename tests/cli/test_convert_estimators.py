"""The way out of Estimators and back: names into objects, another program's structure, bytes as they were."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from tests.estimators import NAMES, Program, logits
from tests.support import data_path, partitioned, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME_BASED = [
    ("estimator_iris", "models", "iris"),
    ("estimator_iris", "models", "iris_20_20"),
    ("estimator_iris_v2", "models", "iris"),
    ("estimator_iris_v2", "models", "iris_20_20"),
    ("estimator_keep_max", "run"),
    ("estimator_replay", "v1"),
    ("estimator_replay", "v2"),
    ("estimator_replay", "v2_lr_0.05"),
]
IRIS = ["estimator_iris", "estimator_iris_v2"]


def bundle_bytes(prefix: str) -> list[bytes]:
    found = []
    for end in (".index", ".data-00000-of-00001"):
        with open(prefix + end, "rb") as file:
            found.append(file.read())
    return found


@pytest.mark.parametrize("parts", NAME_BASED, ids="/".join)
def test_every_checkpoint_of_a_run_into_objects_and_back_to_the_same_bytes(
    parts: tuple[str, ...], tmp_path: Path, ckpt: Callable
) -> None:
    run = data_path(*parts)
    assert ckpt("convert", "--each", run, tmp_path / "objects", "--to", "object").code == 0
    assert ckpt("convert", "--each", tmp_path / "objects", tmp_path / "names", "--to", "name").code == 0
    checkpoints = ckpt("ls", "--json", run).json["checkpoints"]
    for row in checkpoints:
        objects = tmp_path / "objects" / row["name"]
        with formats.open_checkpoint(row["path"]) as one, formats.open_checkpoint(objects) as other:
            assert list(one.kinds.values()).count("slot") == list(other.kinds.values()).count("slot") >= 6
            assert {kind for key, kind in other.kinds.items() if "OPTIMIZER_SLOT" in key} == {"slot"}
        assert bundle_bytes(str(tmp_path / "names" / row["name"])) == bundle_bytes(row["path"])
    assert [row["name"] for row in ckpt("ls", "--json", tmp_path / "names").json["checkpoints"]] == [
        row["name"] for row in checkpoints
    ]


def test_a_directory_stands_for_its_latest_checkpoint(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", data_path(*NAME_BASED[0]), tmp_path / "iris-1", "--to", "object")
    assert result.code == 0
    assert tf.train.load_variable(tmp_path / "iris-1", "global_step/.ATTRIBUTES/VARIABLE_VALUE") == 200


def test_partitioned_variables_and_their_slots(tmp_path: Path, ckpt: Callable) -> None:
    array = np.arange(14, dtype="f4").reshape(7, 2)
    parts = [((0, 4), (0, 2)), ((4, 3), (0, 2))]
    tensors = {
        "dnn/w": partitioned(array, parts),
        "dnn/w/Adam": partitioned(array + 1, parts),
        "dnn/w/Adam_1": partitioned(array + 2, parts),
        "beta1_power": np.float32(0.9**4),
        "beta2_power": np.float32(0.999**4),
        "global_step": np.int64(3),
    }
    source = str(tmp_path / "model.ckpt-3")
    write_bundle(source, dict(sorted(tensors.items())))
    assert ckpt("convert", source, tmp_path / "objects-3", "--to", "object").code == 0
    with formats.open_checkpoint(tmp_path / "objects-3") as reader:
        slots = {path: key for key, path in reader.object_paths.items() if " of " in path}
        assert set(slots) == {"dnn/w (m of optimizer)", "dnn/w (v of optimizer)"}
        assert np.array_equal(reader[slots["dnn/w (v of optimizer)"]].read(), array + 2)
        assert len(reader[slots["dnn/w (v of optimizer)"]].pieces()) == 2
    assert ckpt("convert", tmp_path / "objects-3", tmp_path / "names-3", "--to", "name").code == 0
    assert bundle_bytes(str(tmp_path / "names-3")) == bundle_bytes(source)
    assert ckpt("convert", source, tmp_path / "whole-3", "--to", "object", "--merge-slices").code == 0
    assert (
        ckpt("diff", "-q", tmp_path / "whole-3", tmp_path / "objects-3", "--kind", "variable,slot").code == 0
    )


@pytest.mark.parametrize(
    "parts",
    [
        ("name_based", "partitioned", "model.ckpt-4"),
        ("slot_names", "tf1", "adam_partitioned", "model.ckpt-3"),
        ("slot_names", "tf1", "adagrad_one_part_in_dnn", "model.ckpt-3"),
        ("slot_names", "tf1", "adagrad_one_part_in_linear", "model.ckpt-3"),
        ("slot_names", "canned", "linear_v1", "model.ckpt-3"),
        ("slot_names", "canned", "dnn_linear_v1", "model.ckpt-3"),
        ("slot_names", "canned", "dnn_linear_v2", "model.ckpt-3"),
    ],
    ids="/".join,
)
def test_partitions_as_tensorflow_saved_them(parts: tuple[str, ...], tmp_path: Path, ckpt: Callable) -> None:
    source = data_path(*parts)
    assert ckpt("convert", source, tmp_path / "objects", "--to", "object").code == 0
    with formats.open_checkpoint(source) as one, formats.open_checkpoint(tmp_path / "objects") as other:
        slots = list(one.kinds.values()).count("slot")
        assert list(other.kinds.values()).count("slot") == slots > 0
    assert ckpt("convert", tmp_path / "objects", tmp_path / "names", "--to", "name").code == 0
    assert bundle_bytes(str(tmp_path / "names")) == bundle_bytes(source)


def test_an_object_based_estimator_checkpoint_goes_to_names_and_back(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("estimator_object_based", "tf_estimator_example", "model.ckpt-10")
    assert ckpt("convert", source, tmp_path / "names-10", "--to", "name").code == 0
    with formats.open_checkpoint(tmp_path / "names-10") as reader:
        assert {"net/dense/kernel", "Adam/net/dense/kernel/m", "global_step"} <= set(reader.specs)
    back = tmp_path / "back-10"
    assert ckpt("convert", tmp_path / "names-10", back, "--like", source).code == 0
    assert ckpt("diff", "-q", source, back).code == 0
    found = ckpt("match", back, source)  # the Estimator saved without a save counter, which a restore makes
    assert found.rows == [["harmless", "no value", "save_counter/.ATTRIBUTES/VARIABLE_VALUE", ""]]
    assert found.err.startswith("note: only the save counter is missing")
    assert found.err.count("\n") == 2
    assert found.err.endswith("--read\n")


# Into another program -------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [tf.keras.optimizers.legacy.Adagrad, tf.keras.optimizers.Adagrad])
@pytest.mark.parametrize("fixture", IRIS)
def test_a_keras_model_says_what_the_estimator_said(
    fixture: str, optimizer: Callable, tmp_path: Path, ckpt: Callable
) -> None:
    source = data_path(fixture, "models", "iris", "model.ckpt-200")
    fresh = Program(optimizer).checkpoint.save(tmp_path / "fresh" / "ckpt")
    names = tmp_path / "names.tsv"
    names.write_text("".join(f"{old}\t{new}\n" for old, new in NAMES.items()))
    target = tmp_path / "tf2" / "iris-1"
    assert ckpt("convert", source, target, "--like", fresh, "--map", names).code == 0
    program = Program(optimizer)
    program.checkpoint.restore(target).assert_existing_objects_matched()
    with open(data_path(fixture, "predictions.json"), encoding="utf-8") as file:
        told = json.load(file)
    found = logits(program, told["features"])
    np.testing.assert_allclose(found, told["logits"], rtol=1e-5, atol=1e-5)
    assert found.argmax(1).tolist() == told["class_ids"]
    assert program.global_step.numpy() == 200
    with formats.open_checkpoint(source) as reader:
        slots = sorted(reader[key].read().sum() for key, kind in reader.kinds.items() if kind == "slot")
    restored = (
        [program.optimizer.get_slot(variable, "accumulator") for variable in program.model.variables]
        if optimizer is tf.keras.optimizers.legacy.Adagrad
        else program.optimizer._accumulators
    )
    assert sorted(variable.numpy().sum() for variable in restored) == slots

    back = tmp_path / "back-200"
    rules = [
        f"^model/layer_with_weights-{number}(?=/|$)=>dnn/{layer}"
        for number, layer in enumerate(("hiddenlayer_0", "hiddenlayer_1", "logits"))
    ]
    subs = [word for rule in rules for word in ("--sub", rule)]
    assert ckpt("convert", target, back, "--like", source, *subs).code == 0
    assert bundle_bytes(str(back)) == bundle_bytes(source)


@pytest.mark.parametrize("fixture", IRIS)
def test_another_step_of_the_run_fills_the_same_structure(
    fixture: str, tmp_path: Path, ckpt: Callable
) -> None:
    run = data_path(fixture, "models", "iris")
    assert ckpt("convert", run, tmp_path / "objects-200", "--to", "object").code == 0
    first = os.path.join(run, "model.ckpt-1")
    assert ckpt("convert", first, tmp_path / "objects-1", "--like", tmp_path / "objects-200").code == 0
    assert ckpt("convert", tmp_path / "objects-1", tmp_path / "names-1", "--to", "name").code == 0
    assert bundle_bytes(str(tmp_path / "names-1")) == bundle_bytes(first)


# Resuming with another model ------------------------------------------------------


@pytest.mark.parametrize("fixture", IRIS)
def test_other_hidden_units_are_reported_before_training(fixture: str, ckpt: Callable) -> None:
    old, new = data_path(fixture, "models", "iris"), data_path(fixture, "models", "iris_20_20")
    result = ckpt("match", old, new)
    assert result.code == 1
    assert [
        "matters",
        "shape",
        "dnn/hiddenlayer_0/bias",
        "[10] in CHECKPOINT, but [20] in TARGET",
    ] in result.rows
    assert (
        "10 shapes differ; for example, dnn/hiddenlayer_0/bias is [20] in TARGET, but [10] in CHECKPOINT"
        in result.err
    )
    assert (
        "Build the program with the sizes of CHECKPOINT, or train it from scratch in a new directory"
        in result.err
    )
    found = ckpt("match", old, new, "--json").json
    assert found["assert_consumed"] is found["assert_existing_objects_matched"] is False
    assert found["shape_mismatch"][0] == {"key": "dnn/hiddenlayer_0/bias", "checkpoint": [10], "target": [20]}
    assert len(found["shape_mismatch"]) == 10
    assert "from scratch in a new directory" in found["remedy"]
    assert found["fix"] is None


def test_the_same_model_continues(ckpt: Callable) -> None:
    one, other = data_path("estimator_replay", "v1"), data_path("estimator_iris", "models", "iris")
    result = ckpt("match", one, other, "--json")
    assert (result.code, result.json["remedy"]) == (0, None)
    assert len(result.json["restored"]) == 13


def test_the_optimizer_of_another_release_is_found_again(tmp_path: Path, ckpt: Callable, monkeypatch) -> None:
    one, other = data_path("estimator_replay", "v2"), data_path("estimator_iris", "models", "iris")
    result = ckpt("match", one, other, "--json")
    assert result.code == 1
    assert "dnn/hiddenlayer_0/bias/t_0/Adagrad" in result.json["unmatched_target"]
    monkeypatch.chdir(tmp_path)
    words = result.json["fix"].split()
    assert words[:2] == ["ckpt", "convert"]
    assert ckpt(*words[1:]).code == 0
    assert ckpt("match", words[3], other).code == 0


def test_renamed_variables_are_found_again(tmp_path: Path, ckpt: Callable, monkeypatch) -> None:
    run = data_path("estimator_iris", "models", "iris")
    renamed = tmp_path / "renamed" / "model.ckpt-1"
    assert ckpt("rename", run, renamed, "--sub", "^dnn/=>net/").code == 0
    result = ckpt("match", run, renamed, "--json")
    assert result.code == 1
    monkeypatch.chdir(tmp_path)
    words = result.json["fix"].replace("'", "").split()
    assert words[:2] == ["ckpt", "rename"]
    assert ckpt(*words[1:]).code == 0
    assert ckpt("match", words[3], renamed).code == 0
