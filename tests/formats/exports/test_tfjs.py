"""TensorFlow.js models: what their quantization says, and manifests that mislead."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import formats
from formats import CheckpointError, UnsupportedFeatureError
from tests.exports_samples import survive_flips, told, truth_of
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = data_path("exports", "tfjs")


def test_weights_are_the_dequantized_ones() -> None:
    with formats.open_checkpoint(os.path.join(FOLDER, "model.json")) as reader:
        truth = truth_of("tfjs")["tfjs/model.json"]["tensors"]
        assert {key: told(tensor.read()) for key, tensor in reader.items()} == truth
        for tensor in reader.values():
            assert b"".join(map(bytes, tensor.chunks(64))) == tensor.read().tobytes()
        stored = {key: spec.stored_as and spec.stored_as.name for key, spec in reader.specs.items()}
        assert set(stored.values()) == {None, "float16", "uint8", "uint16"}


def model(folder: Path, weights: list[dict[str, Any]], data: bytes, paths: list[str]) -> Path:
    (folder / "w.bin").write_bytes(data)
    path = folder / "model.json"
    path.write_text(json.dumps({"weightsManifest": [{"paths": paths, "weights": weights}]}))
    return path


def test_strings_and_bools_are_read(tmp_path: Path) -> None:
    weights = [
        {"name": "s", "shape": [2], "dtype": "string"},
        {"name": "b", "shape": [2], "dtype": "bool"},
    ]
    data = b"\1\0\0\0a\2\0\0\0bc\0\7"
    with formats.open_checkpoint(model(tmp_path, weights, data, ["w.bin"])) as reader:
        assert reader["s"].read().tolist() == [b"a", b"bc"]
        assert reader["b"].read().tolist() == [False, True]


W = {"name": "w", "shape": [2], "dtype": "int32"}


@pytest.mark.parametrize(
    ("weights", "paths", "said"),
    [
        ([W], ["../w.bin"], "the folder of the model"),
        ([W], ["/etc/passwd"], "the folder of the model"),
        ([W], ["w.bin", "w.bin"], "named twice"),
        ([W, W], ["w.bin"], "of its shards, but they have only 8"),
        ([], ["w.bin"], "the shards have 8 bytes; expected 0"),
        ([{**W, "shape": [1 << 62]}], ["w.bin"], "of its shards"),
        ([{**W, "shape": [-1]}], ["w.bin"], "invalid shape"),
        ([{**W, "dtype": "x"}], ["w.bin"], "not supported"),
        ([{**W, "dtype": "string", "shape": [1 << 60]}], ["w.bin"], "strings do not fit in 8 bytes"),
        (
            [{**W, "shape": [1]}, {"name": "s", "dtype": "string", "shape": [2]}],
            ["w.bin"],
            "2 strings do not fit in 4 bytes",
        ),
        ([{**W, "quantization": {"dtype": "uint8"}}], ["w.bin"], "a scale and a min"),
        ([{**W, "quantization": 1}], ["w.bin"], "not supported"),
        ([7], ["w.bin"], "weights with names"),
    ],
)
def test_hostile_manifests_are_errors(
    tmp_path: Path, weights: list[Any], paths: list[str], said: str
) -> None:
    with pytest.raises(CheckpointError, match=said):
        formats.open_checkpoint(model(tmp_path, weights, bytes(8), paths))


def test_a_link_out_of_the_folder_is_rejected_and_a_missing_shard_reported(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = model(folder, [W], bytes(8), ["w.bin"])
    os.rename(folder / "w.bin", tmp_path / "secret")
    with formats.open_checkpoint(path) as reader:
        assert [each.name for each in reader.missing_files()] == ["w.bin"]
        with pytest.raises(CheckpointError, match="missing"):
            reader["w"].read()
    os.symlink("../secret", folder / "w.bin")
    with pytest.raises(UnsupportedFeatureError, match="the folder of the model"):
        formats.open_checkpoint(path)


def test_a_flipped_bit_in_each_byte_gives_a_value_or_an_error(tmp_path: Path) -> None:
    for name in os.listdir(FOLDER):
        shutil.copy(os.path.join(FOLDER, name), tmp_path)
    survive_flips(tmp_path / "model.json", (tmp_path / "model.json").read_bytes(), 2)


def test_the_operations_of_a_graph_model_are_known(tmp_path: Path) -> None:
    weights = [{"name": "w", "shape": [1], "dtype": "float32"}]
    path = model(tmp_path, weights, b"\0" * 4, ["a.bin"])
    document = json.loads(path.read_text())
    document["modelTopology"] = {
        "node": [
            {"name": "y", "op": "BiasAdd", "input": ["x:0", "w"]},
            {"name": "x", "op": "Placeholder"},
            {"name": "w", "op": "Const"},
            {"name": 7, "op": [], "input": [None]},
            "node",
        ]
    }
    path.write_text(json.dumps(document))
    with formats.open_checkpoint(path) as reader:
        found = {one.operation: one for one in reader.nodes()}
    assert (found["BiasAdd"].inputs, found["BiasAdd"].operands) == (("", "w"), ("x", "w"))
    assert "Const" not in found
    for topology in (None, [], {"node": 3}):
        path.write_text(json.dumps(document | {"modelTopology": topology}))
        with formats.open_checkpoint(path) as reader:
            assert list(reader.nodes()) == []
