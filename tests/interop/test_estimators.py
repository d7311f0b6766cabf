"""Estimators' checkpoints: TensorFlow restores the converted ones; `log` shows all of its own runs."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from tests.cli.running import run_ckpt
from tests.estimators import NAMES
from tests.interop import estimating
from tests.support import data_path, digest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

# Run, optimizer of the oracle, whether it is Keras', slots.
RUNS = [
    (("estimator_iris", "models", "iris", "model.ckpt-200"), "adagrad", False),
    (("estimator_replay", "v1", "model.ckpt-100"), "adagrad", False),
    (("estimator_iris_v2", "models", "iris", "model.ckpt-200"), "adagrad", True),
    (("estimator_replay", "v2_lr_0.05", "model.ckpt-200"), "adagrad", True),
    (("estimator_keep_max", "run", "model.ckpt-40"), "ftrl", True),
]


def told(reader: formats.FormatReader, key: str) -> list:
    spec = reader.specs[key]
    return [spec.dtype.name, list(spec.shape), digest(reader[key].read())]


def slots_of(path: str) -> list[list[str]]:
    """Return [key, variable's key, slot name], by the object graph that the names become."""
    from formats.tf.graph.invent import invent_graph

    with formats.open_checkpoint(path) as reader:
        invented = invent_graph(reader.specs)
        key_of = {key: name for name, key in invented.keys.items()}
        owners = invented.graph.tensors(dict.fromkeys(key_of))
        by_node = {number: key_of[key] for key, (number, _, _) in owners.items()}
        return [[by_node[slot.node], by_node[slot.variable], slot.name] for slot in invented.graph.slots]


@pytest.mark.parametrize(("parts", "optimizer", "keras"), RUNS, ids=str)
def test_objects_with_their_slots(
    old_tensorflow: TensorFlow, parts: tuple[str, ...], optimizer: str, keras: bool, tmp_path: Path
) -> None:
    source, target = data_path(*parts), str(tmp_path / "objects-1")
    assert run_ckpt("convert", source, target, "--to", "object").code == 0
    slots = slots_of(source)
    with formats.open_checkpoint(source) as reader:
        shapes = {
            key: list(reader.specs[key].shape) for key, kind in reader.kinds.items() if kind == "variable"
        }
        found = old_tensorflow.ask(
            "convert", "restore", path=target, optimizer=optimizer, keras=keras, shapes=shapes, slots=slots
        )
        assert found == {key: told(reader, key) for key in found}
        assert {key for key, kind in reader.kinds.items() if kind in ("variable", "slot")} == set(found)


@pytest.mark.parametrize("legacy", [True, False])
@pytest.mark.parametrize("fixture", ["estimator_iris", "estimator_iris_v2"])
def test_a_keras_model_says_what_the_estimator_said(
    old_tensorflow: TensorFlow, fixture: str, legacy: bool, tmp_path: Path
) -> None:
    source = data_path(fixture, "models", "iris", "model.ckpt-200")
    fresh = old_tensorflow.ask("estimators", "save_fresh", path=str(tmp_path / "fresh"), legacy=legacy)
    names = tmp_path / "names.tsv"
    names.write_text("".join(f"{old}\t{new}\n" for old, new in NAMES.items()))
    target = str(tmp_path / "tf2" / "iris-1")
    done = run_ckpt("convert", source, target, "--like", fresh, "--map", names)
    assert done.code == 0, done.err
    with open(data_path(fixture, "predictions.json"), encoding="utf-8") as file:
        predictions = json.load(file)
    step, logits, slots = old_tensorflow.ask(
        "estimators", "restore_into_program", path=target, legacy=legacy, features=predictions["features"]
    )
    assert step == 200
    np.testing.assert_allclose(logits, predictions["logits"], rtol=1e-5, atol=1e-5)
    keys = {variable: key for key, variable, _ in slots_of(source)}
    with formats.open_checkpoint(source) as reader:
        assert slots == {new: told(reader, keys[old]) for old, new in NAMES.items()}


def test_a_saver_restores_what_match_says(old_tensorflow: TensorFlow) -> None:
    runs = [
        data_path(*parts, "model.ckpt-" + step)
        for parts, step in (
            (("estimator_replay", "v1"), "100"),
            (("estimator_iris", "models", "iris"), "200"),
            (("estimator_iris", "models", "iris_20_20"), "1"),
            (("estimator_replay", "v2"), "100"),
        )
    ]
    verdicts = set()
    for target in runs:
        with formats.open_checkpoint(target) as reader:
            shapes = {key: [spec.dtype.name, list(spec.shape)] for key, spec in reader.specs.items()}
        for checkpoint in runs:
            restores = old_tensorflow.ask("estimators", "saver_restores", path=checkpoint, shapes=shapes)
            assert (run_ckpt("match", checkpoint, target).code == 0) is restores, (checkpoint, target)
            verdicts.add(restores)
    assert verdicts == {True, False}


def test_a_run_of_tensorflows_own(old_tensorflow: TensorFlow, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    losses, norm, latest = old_tensorflow.ask("estimators", "train", model_dir=run, steps=7)
    found = json.loads(run_ckpt("log", "--json", run).out)
    rows = found["checkpoints"]
    assert os.path.join(run, found["latest"]) == latest
    assert [row["step"] for row in rows] == [row["global_step"] for row in rows]
    assert rows[-1]["step"] == 7
    assert rows[-1]["l2"] == pytest.approx(norm, rel=1e-6)
    assert [(row["loss_step"], row["loss"]) for row in rows if row["loss"] is not None] == [
        (int(step), value) for step, value in losses.items() if int(step) in {row["step"] for row in rows}
    ]
    listed = json.loads(run_ckpt("ls", "-l", "--json", latest).out)
    marks = {tensor["key"]: tensor["trainable"] for tensor in listed["tensors"]}
    assert marks == {tensor["key"]: tensor["kind"] == "variable" for tensor in listed["tensors"]}


@pytest.mark.parametrize("v1", [False, True], ids=["v2", "v1"])
@pytest.mark.parametrize("name", estimating.RUNS)
def test_each_continues_the_others_runs(
    old_tensorflow: TensorFlow, name: str, v1: bool, tmp_path: Path
) -> None:
    """A run of each, continued by both for 3 steps: the same keys, dtypes, shapes and values."""

    def theirs(run: str, steps: int) -> dict[str, list]:
        return old_tensorflow.ask(
            "estimators", "go_on", name=name, directory=str(tmp_path / run), steps=steps, v1=v1
        )

    theirs("tensorflow", 2)
    estimating.go_on(tf, name, str(tmp_path / "runtime"), 2, v1)
    for begun in ("tensorflow", "runtime"):
        shutil.copytree(tmp_path / begun, tmp_path / f"{begun}_again")
        mine = estimating.go_on(tf, name, str(tmp_path / begun), 3, v1)
        expected = theirs(f"{begun}_again", 3)
        assert_the_same(mine, expected)


def assert_the_same(mine: dict[str, np.ndarray], expected: dict[str, list]) -> None:
    assert mine["global_step"] == 5
    assert mine.keys() == expected.keys()
    for key, value in mine.items():
        dtype, shape, elements = expected[key]
        assert [value.dtype.name, list(value.shape)] == [dtype, shape], key
        np.testing.assert_allclose(value.ravel(), elements, rtol=1e-5, atol=1e-6, err_msg=key)


def test_each_continues_the_others_sessions(old_tensorflow: TensorFlow, tmp_path: Path) -> None:
    def theirs(run: str, steps: int, restores: bool) -> dict[str, list]:
        return old_tensorflow.ask(
            "estimators", "session", folder=str(tmp_path / run), steps=steps, restores=restores
        )

    theirs("tensorflow", 2, False)
    estimating.session(tf, str(tmp_path / "runtime"), 2, False)
    for begun in ("tensorflow", "runtime"):
        shutil.copytree(tmp_path / begun, tmp_path / f"{begun}_again")
        mine = estimating.session(tf, str(tmp_path / begun), 3, True)
        assert_the_same(mine, theirs(f"{begun}_again", 3, True))
