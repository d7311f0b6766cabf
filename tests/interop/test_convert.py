"""Converted checkpoints, restored by TensorFlow: names into objects, a BERT into a Keras model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import formats
from tests.cli.running import run_ckpt
from tests.support import data_path, digest, facts

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

TF1 = [
    "adadelta",
    "adagrad",
    "adam",
    "adam_named",
    "ftrl",
    "momentum",
    "proximal_adagrad",
    "rmsprop",
    "rmsprop_centered",
]
KERAS = [
    "adadelta",
    "adagrad",
    "adam",
    "adam_amsgrad",
    "adam_named",
    "adamax",
    "ftrl",
    "nadam",
    "rmsprop",
    "rmsprop_centered",
    "sgd_momentum",
]


def told(reader: formats.FormatReader, key: str) -> list:
    spec = reader.specs[key]
    return [spec.dtype.name, list(spec.shape), digest(reader[key].read())]


def check_optimizer(tensorflow: TensorFlow, folder: str, name: str, tmp_path: Path) -> None:
    known = facts("slot_names")["checkpoints"][f"{folder}/{name}/model.ckpt-3"]
    source = data_path("slot_names", folder, name, "model.ckpt-3")
    target = str(tmp_path / "ckpt-3")
    assert run_ckpt("convert", source, target, "--to", "object").code == 0
    with formats.open_checkpoint(source) as reader:
        shapes = {variable: list(reader.specs[variable].shape) for variable in known["variables"]}
        found = tensorflow.ask(
            "convert",
            "restore",
            path=target,
            optimizer=name,
            keras=folder != "tf1",
            shapes=shapes,
            slots=known["slots"],
        )
        assert found == {key: told(reader, key) for key in found}
    assert len(found) == len(shapes) + len(known["slots"])


@pytest.mark.parametrize("name", TF1)
def test_slots_of_tf1_optimizers(tensorflow: TensorFlow, name: str, tmp_path: Path) -> None:
    check_optimizer(tensorflow, "tf1", name, tmp_path)


@pytest.mark.parametrize("name", KERAS)
def test_slots_of_keras_optimizers(old_tensorflow: TensorFlow, name: str, tmp_path: Path) -> None:
    check_optimizer(old_tensorflow, "keras_head", name, tmp_path)


@pytest.mark.parametrize(
    ("template", "options"),
    [
        ("other_names", ["--map", data_path("bert_template", "gold_map.tsv")]),
        ("same_names", []),
    ],
)
def test_a_tf1_bert_becomes_a_tf2_model(
    tensorflow: TensorFlow, template: str, options: list[str], tmp_path: Path
) -> None:
    source = data_path("bert_tiny", "bert_model.ckpt-2")
    target = str(tmp_path / "bert-1")
    like = data_path("bert_template", template, "model", "ckpt-1")
    assert run_ckpt("convert", source, target, "--like", like, "--weights-only", *options).code == 0
    with open(data_path("bert_template", "gold_map_paths.tsv"), encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t") for line in file if line.strip()]
    with formats.open_checkpoint(source) as reader:
        shapes = [list(reader.specs[name].shape) for name, _ in pairs]
        found = tensorflow.ask(
            "convert", "restore_template", path=target, edges=[path for _, path in pairs], shapes=shapes
        )
        assert found == {path: told(reader, name) for name, path in pairs}
    assert len(found) == 44


@pytest.mark.parametrize("by_names", [False, True])
def test_a_hash_table_of_another_size(tensorflow: TensorFlow, by_names: bool, tmp_path: Path) -> None:
    source, target = data_path("hash_tables", "three"), str(tmp_path / "out")
    if by_names:
        names = str(tmp_path / "names")
        assert run_ckpt("convert", source, names, "--to", "name").code == 0
        source = names
    assert run_ckpt("convert", source, target, "--like", data_path("hash_tables", "forty")).code == 0
    found = tensorflow.ask("convert", "restore_table", path=target, words=["word0", "word2", "word3", "old"])
    assert found == [[1.0, 2.0], [0, 2, -1, -1]]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("file", ["x.npz", "x.safetensors", "x.pt", "x.h5"])
def test_an_export_goes_back_into_its_program(
    tensorflow: TensorFlow, legacy: bool, file: str, tmp_path: Path
) -> None:
    if legacy and not tensorflow.is_old:
        return  # this release has no such optimizers
    saved = tensorflow.ask("convert", "save_guide", path=str(tmp_path / "run"), legacy=legacy)
    to = ["--to", "hdf5"] if file == "x.h5" else []
    assert run_ckpt("convert", saved, str(tmp_path / file), *to).code == 0
    back = str(tmp_path / "back-1")
    assert run_ckpt("convert", str(tmp_path / file), back, "--like", saved).code == 0
    again, before = (
        tensorflow.ask("convert", "restore_guide", path=path, legacy=legacy) for path in (back, saved)
    )
    assert again == before
    assert len(before) >= 8
