"""Exported models under commands: what they tell, and what they write."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from tests.exports_samples import gguf_truth
from tests.schemas import QUANTIZED
from tests.servers.web import Web, serving
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PLAIN, TYPES = (data_path("exports", "gguf", name) for name in ("plain.gguf", "types.gguf"))


def test_writing_gguf_is_rejected_with_the_suffixes_that_can_be_written(
    tmp_path: Path, ckpt: Callable
) -> None:
    target = tmp_path / "out.gguf"
    done = ckpt("convert", PLAIN, target)
    assert (done.code, target.exists()) == (3, False)
    assert "ckpt does not write .gguf files (gguf)" in done.err
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


ONLY_READ = [
    "gguf/plain.gguf",
    "tflite/int8.tflite",
    "onnx/external.onnx",
    "graphdef/frozen_v1.pb",
    "tfjs/model.json",
]


@pytest.mark.parametrize("name", ONLY_READ)
def test_changing_a_model_that_is_only_read_is_rejected_with_the_way_out(
    name: str, tmp_path: Path, ckpt: Callable
) -> None:
    path, out = data_path("exports", *name.split("/")), tmp_path / "out"
    for line in (("rename", path, out), ("rename", "--in-place", path)):
        done = ckpt(*line, "--add-prefix", "x/")
        assert done.code == 3
        assert "\nhint: to write another format, pass the same rules to convert" in done.err
    shutil.copytree(os.path.dirname(path), tmp_path / "copy")
    done = ckpt("average", path, tmp_path / "copy" / os.path.basename(path), "-o", out)
    assert done.code == 3
    assert "hint: convert the sources first, for example to .safetensors" in done.err
    done = ckpt("rescue", path, out)
    assert done.code == 3
    assert "hint: to save the tensors in another format, end OUT in .safetensors or .npz" in done.err
    assert not out.exists()


def test_what_is_left_of_a_model_that_is_cut_off_is_saved_in_another_format(
    tmp_path: Path, ckpt: Callable
) -> None:
    cut, out = data_path("exports", "gguf", "cut.gguf"), tmp_path / "out.safetensors"
    done = ckpt("rescue", cut, out)
    assert (done.code, "lost\tblk.1.attn_q.weight" in done.out) == (1, True)
    with formats.open_checkpoint(out) as saved, formats.open_checkpoint(PLAIN) as whole:
        assert len(saved) == len(whole) - 1
        assert all(np.array_equal(saved[key].read(), whole[key].read()) for key in saved)
        assert all(spec.stored_as is None for spec in saved.specs.values())
    done = ckpt("rescue", TYPES, tmp_path / "out.npz", "--json")
    assert done.code == 1
    lost = {row["key"]: row["reason"] for row in done.json["lost"]}
    assert lost["t.bf16.weight"] == "npz cannot store bfloat16 tensors"


@pytest.mark.parametrize(
    ("content", "said", "hint"),
    [
        (b"node {\n", "a TensorFlow graph as text (.pbtxt)", "tf.io.write_graph"),
        (b"saved_model_schema_version: 1\n", "a TensorFlow graph as text (.pbtxt)", "tf.io.write_graph"),
        (b"\x08\x05\x12\x10\x0a\x0einput stuff ab", "a Core ML model", "coremltools"),
        (b"\x08\x01\x12\xdd\x83\x04\x0a\xcb\x19\x12\x9b\x19", "the graph of a SavedModel", "variables.index"),
    ],
)
def test_graphs_that_are_not_read_are_named_with_the_way_out(
    content: bytes, said: str, hint: str, tmp_path: Path, ckpt: Callable
) -> None:
    (tmp_path / "model").write_bytes(content)
    done = ckpt("ls", tmp_path / "model")
    assert (done.code, done.out) == (3, "")
    assert said in done.err
    assert hint in done.err


@pytest.mark.parametrize("suffix", ["pbtxt", "mlmodel", "mlpackage", "gguf", "tflite", "onnx", "pb"])
def test_targets_that_are_not_written_are_rejected(suffix: str, tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("convert", PLAIN, tmp_path / f"out.{suffix}")
    assert (done.code, os.listdir(tmp_path)) == (3, [])
    assert f"ckpt does not write .{suffix} files (" in done.err
    assert "hint: use one of .h5, .keras, " in done.err


READ = [
    *ONLY_READ,
    "gguf/types.gguf",
    "gguf/split/m-00001-of-00003.gguf",
    "gguf/big_endian.gguf",
    "onnx/all.onnx",
]
READ += ["tflite/float16.tflite", "graphdef/frozen_v2.pb", "saved_model/saved"]
LINES = [
    "ls PATH",
    "ls -l --json --digest sha256 PATH",
    "show PATH",
    "show --json PATH KEY",
    "stats PATH READABLE",
    "diff PATH PATH --exact READABLE",
    "extract PATH READABLE --cast float32 -o OUT.h5",
    "convert PATH OUT.safetensors READABLE --cast float32",
    "convert PATH OUT.npz READABLE --cast float32",
    "verify PATH",
]
FLOATS = ("float32", "float16", "bfloat16", "float64")


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    found = Web()
    found.put_tree(data_path("exports"))
    with serving(found):
        yield found


def readable(path: str) -> list[str]:
    """Return options that choose a file's floating tensors whose values can be read."""
    with formats.open_checkpoint(path) as reader:
        keys = [key for key, spec in reader.specs.items() if spec.dtype.name in FLOATS]
    return [word for key in keys for word in ("--match", key)]


@pytest.mark.parametrize("name", READ)
def test_reading_commands_tell_the_same_of_a_file_and_of_its_url(
    name: str, tmp_path: Path, web: Web, ckpt: Callable
) -> None:
    chosen, told = readable(data_path("exports", *name.split("/"))), []
    for number, folder in enumerate((data_path("exports"), f"{web.url}/exports")):
        said = []
        for line in LINES:
            words = line.replace("PATH", f"{folder}/{name}")
            words = words.replace("OUT", str(tmp_path / f"out{number}"))
            meant = {"READABLE": chosen, "KEY": chosen[-1:]}
            row = [part for word in words.split() for part in meant.get(word, [word])]
            done = ckpt(*row)
            assert done.code == 0, (line, done.err)
            said.append([text.replace(folder, "").replace(f"out{number}", "out") for text in done[1:]])
        said.append(
            [(tmp_path / f"out{number}.{suffix}").read_bytes().hex() for suffix in ("npz", "safetensors")]
        )
        told.append(said)
    assert told[0] == told[1]
    is_bundle = name.startswith("saved_model")
    assert ("stores no checksums" in str(told[0])) != is_bundle
