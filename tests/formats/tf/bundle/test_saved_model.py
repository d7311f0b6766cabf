"""The other content of SavedModels; damage is a CheckpointError."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from formats import CheckpointError, open_checkpoint
from formats.errors import CorruptCheckpointError
from formats.keras.facts import keras_facts
from formats.location import parse_location
from formats.tf.bundle.saved_model import read_saved_model
from tests.export_files import field
from tests.exports_samples import flips
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

KERAS_2 = data_path("saved_model", "keras_model")
KERAS_3 = data_path("exports", "saved_model", "saved")


def told(path: str | Path) -> dict[str, Any]:
    with open_checkpoint(str(path)) as reader:
        return reader.facts.document()


def test_signatures_have_inputs_outputs_and_tags() -> None:
    document = told(KERAS_3)
    assert (document["producer"], document["tensorflow_version"]) == ("tensorflow", "2.21.0")
    assert document["tag_sets"] == [["serve"]]
    by_name = {signature["name"]: signature for signature in document["signatures"]}
    assert by_name["serving_default"] == {
        "name": "serving_default",
        "method": "tensorflow/serving/predict",
        "inputs": [
            {
                "name": "keras_tensor",
                "tensor": "serving_default_keras_tensor:0",
                "dtype": "float32",
                "shape": [None, 4, 4, 2],
            }
        ],
        "outputs": [
            {
                "name": "output_0",
                "tensor": "StatefulPartitionedCall_1:0",
                "dtype": "float32",
                "shape": [None, 20],
            }
        ],
        "tags": ["serve"],
    }
    assert "config" not in document


def test_keras_2_stores_the_configuration() -> None:
    document = told(KERAS_2)
    assert document["keras_version"] == "2.15.0"
    config = json.loads(document["config"])
    assert [layer["class_name"] for layer in config["config"]["layers"]] == [
        "InputLayer",
        "Dense",
        "BatchNormalization",
    ]
    assert "__tuple__" not in document["config"]
    assert config["config"]["layers"][0]["config"]["batch_input_shape"] == [None, 2]


def test_tensorflow_before_2_5_has_the_configuration_in_the_object_graph(tmp_path: Path) -> None:
    model = {"class_name": "Sequential", "config": {"name": "s", "layers": []}}
    metadata = json.dumps({"model_config": model, "keras_version": "2.4.0"}).encode()
    user_object = field(1, b"_tf_keras_sequential") + field(3, metadata)
    objects = field(7, field(1, field(4, user_object)))
    (tmp_path / "saved_model.pb").write_bytes(field(1, 1) + field(2, objects))
    facts = read_saved_model(parse_location(str(tmp_path)))
    assert (facts.keras.config, facts.keras.version) == (json.dumps(model), "2.4.0")


@pytest.mark.parametrize("name", ["saved_model.pb", "keras_metadata.pb"])
def test_a_flipped_bit_in_each_byte_gives_facts_or_an_error(tmp_path: Path, name: str) -> None:
    shutil.copytree(KERAS_2, tmp_path / "x")
    path = tmp_path / "x" / name
    for data in flips(path.read_bytes(), 7):
        path.write_bytes(data)
        with suppress(CheckpointError):
            assert isinstance(read_saved_model(parse_location(str(tmp_path / "x"))).document(), dict)


def test_damage_is_reported_and_not_converted(tmp_path: Path) -> None:
    shutil.copytree(KERAS_2, tmp_path / "x")
    path = tmp_path / "x" / "keras_metadata.pb"
    path.write_bytes(path.read_bytes()[:100])
    with open_checkpoint(str(tmp_path / "x")) as reader:
        assert keras_facts(reader.facts).config is None
        assert [finding.file for finding in reader.findings] == [str(path)]
        with pytest.raises(CorruptCheckpointError, match="only"):
            reader.proved_facts()


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        (field(1, b"s") + field(2, field(1, b"") * 30_000), "the signatures have more than 20000 tensors"),
        (field(1, b"s" * (5 << 20)), "more than 4194304 bytes"),
        (field(1, b"s") + field(2, field(1, b"\xff")), "signature 's'"),
    ],
)
def test_signatures_are_bounded(tmp_path: Path, signature: bytes, said: str) -> None:
    (tmp_path / "saved_model.pb").write_bytes(field(2, field(5, signature)))
    with pytest.raises(CorruptCheckpointError, match=said):
        read_saved_model(parse_location(str(tmp_path)))
