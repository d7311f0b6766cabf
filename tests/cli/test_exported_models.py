"""Exported models under commands: what they tell, and what they write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from tests.exports_samples import gguf_truth
from tests.schemas import QUANTIZED
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAIN, TYPES = (data_path("exports", "gguf", name) for name in ("plain.gguf", "types.gguf"))


def test_writing_gguf_is_rejected_with_the_suffixes_that_can_be_written(
    tmp_path: Path, ckpt: Callable
) -> None:
    target = tmp_path / "out.gguf"
    done = ckpt("convert", PLAIN, target)
    assert (done.code, target.exists()) == (3, False)
    assert ".gguf is the suffix of gguf, which ckpt does not write" in done.err
    assert "hint: use one of .h5, .keras, " in done.err


def test_commands_on_gguf_tell_the_stored_type_and_total_stored_bytes(tmp_path: Path, ckpt: Callable) -> None:
    path = TYPES
    listed = ckpt("ls", "--json", "-l", path).json
    rows = {row["key"]: row for row in listed["tensors"]}
    assert rows["t.q4_k.weight"]["stored"] == {"dtype": "Q4_K", "nbytes": 288}
    assert (rows["t.q4_k.weight"]["dtype"], rows["t.q4_k.weight"]["nbytes"]) == ("float32", 2048)
    assert (rows["t.iq1_s.weight"]["dtype"], rows["t.iq1_s.weight"]["stored"]["dtype"]) == (None, "IQ1_S")
    assert listed["total"]["nbytes"] == sum(
        entry["bytes"] for entry in gguf_truth()["types.gguf"]["tensors"].values()
    )
    assert "stored\tQ4_K\n" in ckpt("show", path, "t.q4_k.weight").out
    assert "stores no checksums" in ckpt("verify", path).err
    kept = ("--exclude", "*iq[123]*", "--exclude", "*q1_0*", "--exclude", "*q8_[1k]*")
    target = tmp_path / "out.safetensors"
    assert ckpt("convert", path, target, *kept).code == 0
    assert ckpt("diff", path, target, *kept).code == 0
    with formats.open_checkpoint(path) as reader, formats.open_checkpoint(target) as out:
        assert all(np.array_equal(reader[key].read(), out[key].read(), equal_nan=True) for key in out)
        assert all(spec.stored_as is None for spec in out.specs.values())


def test_the_schema_has_the_scale_of_quantized_tensors(ckpt: Callable) -> None:
    listed = ckpt("ls", "--json", "-l", data_path("exports", "tflite", "int8.tflite")).json
    stored = [row["stored"] for row in listed["tensors"] if "stored" in row]
    assert {field for each in stored for field in each} == {"dtype", "nbytes", "scale", "zero_point", "axis"}
    allowed = {"dtype", "nbytes", *QUANTIZED}
    assert all(each.keys() <= allowed for each in stored)


def layers_model(folder: Path, topology: dict[str, Any]) -> Path:
    """Write a layers model of TensorFlow.js with the weights of a file of Keras, and return its path."""
    data, weights = b"", []
    with formats.open_checkpoint(data_path("keras_nested", "nest.full.h5")) as reader:
        for key, kind in reader.kinds.items():
            if kind == "variable":
                value = reader[key].read()
                weights.append({"name": key, "shape": list(value.shape), "dtype": value.dtype.name})
                data += value.tobytes()
    document = {"format": "layers-model", "modelTopology": topology}
    manifest = [{"paths": ["w.bin"], "weights": weights}]
    (folder / "w.bin").write_bytes(data)
    (folder / "model.json").write_text(json.dumps({**document, "weightsManifest": manifest}))
    return folder / "model.json"


@pytest.mark.parametrize("from_javascript", [False, True])
def test_a_layers_model_of_tensorflow_js_brings_the_configuration_of_keras(
    from_javascript: bool, tmp_path: Path, ckpt: Callable
) -> None:
    path = data_path("keras_nested", "nest.full.h5")
    config = json.loads(ckpt("show", "--json", path).json["metadata"]["config"])
    topology = config if from_javascript else {"keras_version": "2.15.0", "model_config": config}
    model = layers_model(tmp_path, topology)
    assert json.loads(ckpt("show", "--json", model).json["metadata"]["config"]) == config
    for suffix in (".h5", ".weights.h5"):
        mine, theirs = tmp_path / f"mine{suffix}", tmp_path / f"theirs{suffix}"
        for source, target in ((model, mine), (path, theirs)):
            done = ckpt("convert", source, target, "--weights-only")
            assert done.code == 0, done.err
        assert ckpt("diff", mine, theirs, "--kind", "variable").code == 0
