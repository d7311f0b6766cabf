"""Keras' newer weights: kinds, shards, and archives packed again by hand."""

from __future__ import annotations

import json
import shutil
import zipfile

import h5py
import numpy as np
import pytest

import formats
from tests.support import data_path, digest, recorded_at


def write_shards(directory, weight_map=None) -> str:
    """Write weights in two shards, one object in both, and their map."""
    with h5py.File(directory / "m_00000.weights.h5", "w") as file:
        file["layers/dense/vars/0"] = np.arange(6, dtype=np.float32).reshape(2, 3)
    with h5py.File(directory / "m_00001.weights.h5", "w") as file:
        file["layers/dense/vars/1"] = np.ones(3, np.float32)
        file["layers/dense_1/vars/0"] = np.zeros((3, 1), np.float32)
    document = {
        "metadata": {"total_size": 48.0},
        "weight_map": weight_map
        or {
            "/layers/dense/vars": ["m_00000.weights.h5", "m_00001.weights.h5"],
            "/layers/dense_1/vars": "m_00001.weights.h5",
        },
    }
    path = directory / "m.weights.json"
    path.write_text(json.dumps(document, indent=4))
    return str(path)


def test_shards_are_one_checkpoint(tmp_path):
    path = write_shards(tmp_path)
    with formats.open_checkpoint(path) as reader:
        assert reader.format.name == "keras-weights"
        assert list(reader) == ["layers/dense/vars/0", "layers/dense/vars/1", "layers/dense_1/vars/0"]
        np.testing.assert_array_equal(reader["layers/dense/vars/1"].read(), [1, 1, 1])
        assert reader.files() == [path, *(str(tmp_path / f"m_0000{number}.weights.h5") for number in (0, 1))]
        assert [finding for step in reader.verify() for finding in step.findings] == []


def test_a_missing_shard_is_named(tmp_path):
    path = write_shards(tmp_path)
    (tmp_path / "m_00001.weights.h5").unlink()
    with pytest.raises(formats.CheckpointNotFoundError) as caught:
        formats.open_checkpoint(path)
    assert caught.value.path == str(tmp_path / "m_00001.weights.h5")
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert list(reader) == ["layers/dense/vars/0"]
        (finding,) = reader.findings
        assert finding.code == "shard-missing"
        assert finding.message == (
            "shard m_00001.weights.h5 is missing; it should contain 2 groups,"
            " for example '/layers/dense/vars'"
        )


@pytest.mark.parametrize("name", ["../m.h5", "/etc/passwd", "..", "a/b.h5", "a\\b.h5", "", "x\0y"])
def test_a_map_names_files_next_to_it_only(tmp_path, name):
    path = write_shards(tmp_path, {"/layers/dense/vars": name})
    with pytest.raises(formats.UnsupportedFeatureError, match="not a file in this folder"):
        formats.open_checkpoint(path)


def test_a_group_that_no_shard_has_is_a_finding(tmp_path):
    path = write_shards(
        tmp_path, {"/layers/dense/vars": "m_00000.weights.h5", "/layers/gone/vars": "m_00001.weights.h5"}
    )
    with formats.open_checkpoint(path) as reader:
        found = [finding for step in reader.verify() for finding in step.findings]
    assert [(finding.severity, finding.message) for finding in found] == [
        ("error", "weight_map lists 'layers/gone/vars', but no shard has it"),
        ("warning", "weight_map does not list 'layers/dense_1/vars'"),
    ]


def kinds_of(tmp_path, arrays, *, name=None):
    path = str(tmp_path / "k.weights.h5")
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[key] = array
        if name is not None:
            file["optimizer/vars"].attrs["name"] = name
    with formats.open_checkpoint(path) as reader:
        return dict(reader.kinds)


def test_keras_2_keeps_no_learning_rate(tmp_path):
    arrays = {
        "layers/d/vars/0": np.float32(1),
        "optimizer/vars/0": np.int64(3),
        "metrics/mean/vars/0": np.float32(0),
    }
    arrays["optimizer/vars/1"] = np.float32(0.5)
    kinds = kinds_of(tmp_path, arrays)
    assert kinds == {
        "layers/d/vars/0": "variable",
        "metrics/mean/vars/0": "state",
        "optimizer/vars/0": "optimizer",
        "optimizer/vars/1": "slot",
    }
    assert kinds_of(tmp_path, arrays, name="adam")["optimizer/vars/1"] == "optimizer"


# Archives --------------------------------------------------------------------------------


def repack(tmp_path, change=None, source="keras3_mlp/mlp.keras", **options) -> str:
    """Pack a `.keras` archive again; `change` may edit its members."""
    path = str(tmp_path / "again.keras")
    with zipfile.ZipFile(data_path(source)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if change is not None:
        change(members)
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_deflated_archive_reads_like_a_stored_one(tmp_path):
    path = repack(tmp_path, compression=zipfile.ZIP_DEFLATED)
    expected = {tensor["key"]: tensor["sha256"] for tensor in recorded_at("keras3_mlp/mlp.keras")["tensors"]}
    with formats.open_checkpoint(path) as reader:
        assert {key: digest(reader[key].read()) for key in reader} == expected
        assert [finding for step in reader.verify() for finding in step.findings] == []


def test_assets_are_passed_over(tmp_path):
    path = repack(tmp_path, lambda members: members.update({"assets/vocabulary.txt": b"a\nb"}))
    with formats.open_checkpoint(path) as reader:
        assert len(reader) == 28


def test_a_flipped_bit_in_an_archive_is_found(tmp_path):
    path = tmp_path / "flipped.keras"
    shutil.copy(data_path("keras3_mlp/mlp.keras"), path)
    with formats.open_checkpoint(str(path)) as reader:
        value = reader["layers/dense/vars/0"].read().tobytes()
    data = bytearray(path.read_bytes())
    data[data.index(value) + 5] ^= 4
    path.write_bytes(data)
    with formats.open_checkpoint(str(path)) as reader:
        found = [finding for step in reader.verify() for finding in step.findings]
    assert [finding.code for finding in found] == ["tensor-checksum"]
    assert "model.weights.h5" in found[0].message


@pytest.mark.parametrize("name", ["../evil", "/etc/x", "a/../../b", "..\\evil"])
def test_members_that_lead_elsewhere_are_rejected(tmp_path, name):
    path = repack(tmp_path, lambda members: members.update({name: b""}))
    with pytest.raises(formats.UnsupportedFeatureError, match="points outside the archive"):
        formats.open_checkpoint(path)


def test_an_archive_without_weights_is_rejected(tmp_path):
    def without(members):
        members["model.weights.npz"] = members.pop("model.weights.h5")

    with pytest.raises(
        formats.UnsupportedFeatureError, match=r"reading weights from model\.weights\.npz is not supported"
    ):
        formats.open_checkpoint(repack(tmp_path, without))


def test_broken_texts_are_findings_and_the_tensors_still_read(tmp_path):
    def break_texts(members):
        members["metadata.json"] = b"{"
        members["config.json"] = b"\xff\xfe"

    with formats.open_checkpoint(repack(tmp_path, break_texts)) as reader:
        assert reader.facts.document()["version"] is None
        assert reader["layers/dense/vars/0"].read().shape == (6, 8)
        assert any("config.json is not UTF-8" in finding.message for finding in reader.findings)


def test_shapes_are_compared_with_the_configuration(tmp_path):
    def wider(members):
        config = json.loads(members["config.json"])
        for layer in config["config"]["layers"]:
            if layer["config"]["name"] == "hidden":
                layer["config"]["units"] = 9
        members["config.json"] = json.dumps(config).encode()

    with formats.open_checkpoint(repack(tmp_path, wider)) as reader:
        found = [finding for step in reader.verify() for finding in step.findings]
    assert {(finding.code, finding.key) for finding in found} == {
        ("config-shape", "layers/dense/vars/0"),
        ("config-shape", "layers/dense/vars/1"),
    }


def test_shapes_within_wrappers_and_cells_are_compared_with_the_configuration(tmp_path):
    def wider(members):
        config = json.loads(members["config.json"])
        (wrapper,) = (layer for layer in config["config"]["layers"] if layer["class_name"] == "Bidirectional")
        wrapper["config"]["backward_layer"]["config"]["units"] = 3
        members["config.json"] = json.dumps(config).encode()

    with formats.open_checkpoint(repack(tmp_path, wider, "keras3_rnn/rnn.keras")) as reader:
        found = [finding for step in reader.verify() for finding in step.findings]
    cell = "layers/bidirectional/backward_layer/cell/vars"
    assert {(finding.code, finding.key) for finding in found} == {
        ("config-shape", f"{cell}/{number}") for number in range(3)
    }
