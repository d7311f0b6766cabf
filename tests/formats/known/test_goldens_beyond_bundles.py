"""Every checkpoint of tests/data that is not a bundle, compared with the manifest."""

from __future__ import annotations

import os
from collections import Counter

import pytest

import formats
from formats.core.spec import key_bytes
from formats.find.registry import all_formats, detect_format
from formats.find.resolve import resolve
from formats.location import parse_location
from formats.model.probe import Probe
from tests.formats.test_contract import GOLDENS
from tests.support import DATA, FORMAT_IDS, data_path, digest, manifest, reads_alike, recorded

HDF5 = ("h5-keras2-weights", "h5-keras2-model", "h5-keras3-weights")
OTHERS = recorded(*HDF5, "keras3-zip", "npz", "safetensors")


def paths(entries):
    return [entry["path"] for entry in entries]


def expected_keys(entry: dict) -> dict[str, dict]:
    """Return the manifest's tensors by our keys: for keras-h5, the key rule applied to dataset paths."""
    if "keras2_layers" not in entry:
        return {tensor["key"]: tensor for tensor in entry["tensors"]}
    by_path = {tensor["key"]: tensor for tensor in entry["tensors"]}
    base = "model_weights/" if any(path.startswith("model_weights/") for path in by_path) else ""
    layers = []
    for layer, listed in entry["keras2_layers"]:
        # Of very many names the manifest has the number alone.
        counted = isinstance(listed, int)
        names = [path.removeprefix(f"{layer}/") for path in by_path if path.startswith(f"{layer}/")]
        layers += [(layer, name) for name in (names if counted else listed)]
    count = Counter(name.removesuffix(":0") for _, name in layers)
    out = {}
    for layer, name in layers:
        plain = name.removesuffix(":0")
        out[plain if count[plain] == 1 else f"{layer}/{plain}"] = by_path.pop(f"{base}{layer}/{name}")
    for path, tensor in by_path.items():
        assert path.startswith("optimizer_weights/")
        out[path.removesuffix(":0")] = tensor
    return out


@pytest.mark.parametrize("entry", OTHERS, ids=paths(OTHERS))
def test_every_tensor_is_what_its_producer_wrote(entry):
    expected = expected_keys(entry)
    with formats.open_checkpoint(data_path(entry["path"])) as reader:
        assert reader.format.name == FORMAT_IDS[entry["format"]]
        assert list(reader) == sorted(expected, key=key_bytes)
        assert reader.findings == []
        for key, tensor in expected.items():
            spec = reader.specs[key]
            assert (spec.dtype.name, list(spec.shape)) == (tensor["dtype"], tensor["shape"]), key
            array = reads_alike(reader[key])
            assert digest(array) == tensor["sha256"], key
            assert b"".join(bytes(chunk) for chunk in reader[key].chunks(24)) == array.tobytes()


@pytest.mark.parametrize("entry", OTHERS, ids=paths(OTHERS))
def test_goldens_are_sound(entry):
    with formats.open_checkpoint(data_path(entry["path"])) as reader:
        steps = list(reader.verify())
        assert [finding for step in steps for finding in step.findings] == []
        assert sum(step.tensors for step in steps) == len(reader)
        assert sum(step.nbytes for step in steps) >= entry["total_nbytes"]


ALL = [entry for entry in manifest()["checkpoints"] if entry["format"] in FORMAT_IDS]


@pytest.mark.parametrize("entry", ALL, ids=paths(ALL))
def test_exactly_one_format_recognises_a_golden(entry):
    probe = Probe(resolve(parse_location(data_path(entry["path"]))))
    said_yes = [found.name for found in all_formats() if found.sniff(probe)]
    assert said_yes == [FORMAT_IDS[entry["format"]]]


def test_content_decides_and_not_the_suffix(tmp_path):
    for entry in recorded("npz", "safetensors", "keras3-zip", *HDF5)[:12]:
        disguised = tmp_path / "weights.bin"
        with open(data_path(entry["path"]), "rb") as file:
            disguised.write_bytes(file.read())
        assert detect_format(resolve(parse_location(str(disguised)))) == FORMAT_IDS[entry["format"]]


def test_no_other_file_of_the_data_is_taken_for_a_checkpoint():
    known = {data_path(entry["path"]) for entry in manifest()["checkpoints"]}
    goldens = {path.partition("/")[0] for name, path in GOLDENS if name not in FORMAT_IDS.values()}
    stray = []
    for directory, _, files in os.walk(DATA):
        # Damaged files, models after a step of an optimizer and answers that TensorFlow gave are recorded
        # elsewhere, and so are the goldens of formats that the manifest does not have.
        if any(
            os.sep + place in directory
            for place in ("corrupt", "optimizers", "known_answers", "origin", "structure", *goldens)
        ):
            continue
        for name in files:
            path = os.path.join(directory, name)
            is_part = ".data-" in name or name.endswith((".index", ".meta")) or "-of-" in name
            if is_part or path in known:
                continue
            meant = resolve(parse_location(path))
            if meant.path in known:
                continue  # a file of a SavedModel, which any of its files names
            try:
                stray.append((path, detect_format(meant)))
            except formats.UnknownFormatError:
                continue
    assert stray == []


def kinds_of(path: str) -> dict[str, str]:
    with formats.open_checkpoint(data_path(path)) as reader:
        return dict(reader.kinds)


def test_optimizer_state_is_distinguished_from_weights():
    kinds = kinds_of("keras_mlp/mlp.with_optimizer.h5")
    assert kinds["optimizer_weights/iteration"] == "optimizer"
    assert kinds["optimizer_weights/Adam/m/hidden/kernel"] == "slot"
    assert kinds["hidden/kernel"] == "variable"
    kinds = kinds_of("keras3_mlp/mlp.legacy.h5")
    assert [key for key, kind in kinds.items() if kind == "optimizer"] == [
        "optimizer_weights/adam/iteration",
        "optimizer_weights/adam/learning_rate",
    ]
    for path in ("keras3_mlp/mlp.weights.h5", "keras3_mlp/mlp.keras"):
        kinds = kinds_of(path)
        assert [key for key, kind in kinds.items() if kind == "optimizer"] == [
            "optimizer/vars/0",
            "optimizer/vars/1",
        ]
        assert Counter(kinds.values()) == {"variable": 10, "slot": 16, "optimizer": 2}


def test_metadata_shows_producer_version_and_layers_in_order():
    with formats.open_checkpoint(data_path("keras_mlp/mlp.with_optimizer.h5")) as reader:
        metadata = reader.facts.document()
    assert (metadata["producer"], metadata["version"], metadata["backend"]) == (
        "keras",
        "2.15.0",
        "tensorflow",
    )
    assert metadata["config"].startswith('{"class_name": "Sequential"')
    assert '"optimizer_config"' in metadata["training_config"]
    layers = [(layer["name"], layer["class_name"], len(layer["weights"])) for layer in metadata["layers"]]
    assert layers == [
        ("hidden", "Dense", 2),
        ("bn", "BatchNormalization", 4),
        ("ln", "LayerNormalization", 2),
        ("dropout", "Dropout", 0),
        ("head", "Dense", 2),
    ]
    assert metadata["layers"][0]["weights"] == ["hidden/kernel", "hidden/bias"]


def test_a_keras_archive_shows_its_layers_and_their_weights():
    with formats.open_checkpoint(data_path("keras3_conv/conv.keras")) as reader:
        metadata = reader.facts.document()
        known = set(reader)
    assert metadata["version"] == "3.15.1"
    with_weights = {layer["name"]: layer["weights"] for layer in metadata["layers"] if layer["weights"]}
    assert list(with_weights)[:2] == ["conv_a", "bn_a"]
    assert with_weights["conv_a"] == ["layers/conv2d/vars/0", "layers/conv2d/vars/1"]
    assert {key for keys in with_weights.values() for key in keys} == known


def test_variables_are_in_the_order_of_their_numbers():
    with formats.open_checkpoint(data_path("keras3_mlp/mlp.weights.h5")) as reader:
        assert reader.variables("optimizer/vars")[:3] == [f"optimizer/vars/{number}" for number in range(3)]
        assert reader.variables("optimizer/vars")[-1] == "optimizer/vars/17"


def test_attributes_in_parts_are_put_together():
    with formats.open_checkpoint(data_path("keras_long_attrs/many_weights.h5")) as reader:
        weights = reader.facts.document()["layers"][1]["weights"]
    assert len(weights) == 700
    assert weights == sorted(weights)


@pytest.mark.parametrize(
    "damaged", [e for e in manifest()["corrupt"] if e["kind"] == "h5"], ids=lambda e: e["path"]
)
def test_damaged_files_are_rejected_as_the_manifest_says(damaged):
    path = data_path(damaged["path"])
    if damaged["verdict"] == "ok":
        with formats.open_checkpoint(path) as reader:
            assert len(reader) == 4
        return
    with pytest.raises(formats.CheckpointError) as caught:
        formats.open_checkpoint(path)
    assert caught.value.path == path
    assert caught.value.hints
    if "h5_cut" in path:
        assert isinstance(caught.value, formats.CorruptCheckpointError)
        assert f"it has {os.path.getsize(path)} bytes, but its superblock says 13864" in str(caught.value)
