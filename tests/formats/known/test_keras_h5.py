"""Keras' older HDF5 files: the rule for keys, odd attributes, shapes compared with the configuration."""

from __future__ import annotations

import json
import shutil

import h5py
import numpy as np
import pytest

import formats
from formats.keras.facts import Weight, weight_keys
from tests.support import data_path


def write(path, layers, *, config=None, **attributes) -> str:
    """Write a file of layers: name -> {weight name: array}."""
    with h5py.File(path, "w") as file:
        group = file if config is None else file.create_group("model_weights")
        if config is not None:
            file.attrs["model_config"] = config if isinstance(config, str) else json.dumps(config)
        group.attrs["layer_names"] = [name.encode() for name in layers]
        for name, value in attributes.items():
            group.attrs[name] = value
        for layer, weights in layers.items():
            below = group.create_group(layer)
            below.attrs["weight_names"] = [name.encode() for name in weights]
            for name, array in weights.items():
                below[name] = array
    return str(path)


def keys(*weights):
    return weight_keys([Weight(layer, name, f"{layer}/{name}") for layer, name in weights])


def test_a_key_is_the_name_without_its_number():
    assert keys(("d", "d/kernel:0"), ("d", "d/bias")) == ["d/kernel", "d/bias"]


def test_each_name_that_occurs_twice_takes_its_layer():
    assert keys(("a", "scale:0"), ("b", "scale:0"), ("b", "x:0")) == ["a/scale", "b/scale", "x"]


def test_a_name_that_another_becomes_takes_its_layer_too():
    assert keys(("a", "b/c"), ("q", "b/c"), ("z", "a/b/c")) == ["a/b/c", "q/b/c", "z/a/b/c"]


def test_names_apart_only_by_their_number_go_by_their_path():
    assert keys(("a", "k"), ("a", "k:0")) == ["a/k", "a/k:0"]


def test_keys_are_unique_in_a_file(tmp_path):
    one, two = np.zeros(2, np.float32), np.ones(2, np.float32)
    path = write(tmp_path / "x.h5", {"a": {"scale:0": one}, "b": {"scale:0": two, "b/x:0": one}})
    with formats.open_checkpoint(path) as reader:
        assert list(reader) == ["a/scale", "b/scale", "b/x"]
        np.testing.assert_array_equal(reader["b/scale"].read(), two)


def test_a_file_without_version_has_none(tmp_path):
    path = write(
        tmp_path / "keras1.h5", {"dense_1": {"dense_1_W": np.zeros((2, 3)), "dense_1_b": np.zeros(3)}}
    )
    with formats.open_checkpoint(path) as reader:
        assert list(reader) == ["dense_1_W", "dense_1_b"]
        assert reader.facts.document()["version"] is None
        assert reader.facts.document()["producer"] == "keras"


def test_a_weight_that_is_missing_is_listed_without_dtype(tmp_path):
    path = write(tmp_path / "x.h5", {"d": {"d/kernel:0": np.zeros((2, 3)), "d/bias:0": np.zeros(3)}})
    with h5py.File(path, "a") as file:
        del file["d/d/bias:0"]
    with formats.open_checkpoint(path) as reader:
        assert reader.specs["d/bias"].dtype.name == "invalid"
        assert reader["d/kernel"].read().shape == (2, 3)
        (finding,) = [finding for step in reader.verify() for finding in step.findings]
        assert (finding.key, finding.code) == ("d/bias", "hdf5-read")
        assert "'d/d/bias:0'" in finding.message


def test_a_layer_that_is_missing_hides_keys(tmp_path):
    path = write(tmp_path / "x.h5", {"d": {"d/kernel:0": np.zeros((2, 3))}, "e": {}})
    with h5py.File(path, "a") as file:
        del file["e"]
    with pytest.raises(formats.CorruptCheckpointError, match="layer_names lists 'e'"):
        formats.open_checkpoint(path)
    with formats.open_checkpoint(path, lenient=True) as reader:
        assert list(reader) == ["d/kernel"]


@pytest.mark.parametrize(
    "value",
    [
        np.array([b"d"], "S9"),
        np.array(["d"], h5py.string_dtype()),
        np.array([b"d"], h5py.string_dtype("ascii")),
    ],
)
def test_names_may_be_stored_in_any_kind_of_string(tmp_path, value):
    path = write(tmp_path / "x.h5", {"d": {"k:0": np.zeros(2)}})
    with h5py.File(path, "a") as file:
        del file.attrs["layer_names"]
        file.attrs.create("layer_names", value)
    with formats.open_checkpoint(path) as reader:
        assert list(reader) == ["k"]


def test_names_that_are_numbers_are_corrupt(tmp_path):
    path = write(tmp_path / "x.h5", {"d": {"k:0": np.zeros(2)}})
    with h5py.File(path, "a") as file:
        file.attrs["layer_names"] = [1.5]
    with pytest.raises(formats.CorruptCheckpointError, match="'layer_names' is not text"):
        formats.open_checkpoint(path)


# The configuration -----------------------------------------------------------------


def shape_findings(path: str) -> list[str]:
    with formats.open_checkpoint(path) as reader:
        found = [finding for step in reader.verify() for finding in step.findings]
    assert {finding.code for finding in found} <= {"config-shape"}
    return [finding.message for finding in found]


def dense(name="d", **config):
    return {"class_name": "Dense", "config": {"name": name, "units": 3, "use_bias": True, **config}}


def sequential(*layers):
    return {"class_name": "Sequential", "config": {"name": "s", "layers": list(layers)}}


def test_shapes_that_fit_are_not_a_finding(tmp_path):
    weights = {"d": {"d/kernel:0": np.zeros((2, 3)), "d/bias:0": np.zeros(3)}}
    assert shape_findings(write(tmp_path / "x.h5", weights, config=sequential(dense()))) == []


def test_a_bias_of_another_length_is_found(tmp_path):
    weights = {"d": {"d/kernel:0": np.zeros((2, 3)), "d/bias:0": np.zeros(4)}}
    (message,) = shape_findings(write(tmp_path / "x.h5", weights, config=sequential(dense())))
    assert message == "the shape is [4], but the configuration of layer 'd' (Dense) requires [3]"


def test_a_missing_weight_is_found(tmp_path):
    weights = {"d": {"d/kernel:0": np.zeros((2, 3))}}
    (message,) = shape_findings(write(tmp_path / "x.h5", weights, config=sequential(dense())))
    assert "has no weight 'bias'" in message


def test_dimensions_of_one_name_have_to_agree(tmp_path):
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    weights = {"bn": {f"bn/{name}:0": np.zeros(5 if name == "beta" else 4) for name in names}}
    layer = {"class_name": "BatchNormalization", "config": {"name": "bn", "axis": [3]}}
    (message,) = shape_findings(write(tmp_path / "x.h5", weights, config=sequential(layer)))
    assert message.startswith("the shape is [5]")


def test_layers_of_nested_models_are_compared(tmp_path):
    inner = {
        "class_name": "Sequential",
        "config": {"name": "inner", "layers": [dense("a"), dense("b", units=7)]},
    }
    weights = {
        "inner": {"a/kernel:0": np.zeros((2, 3)), "a/bias:0": np.zeros(3), "b/kernel:0": np.zeros((3, 8))}
    }
    (message,) = shape_findings(write(tmp_path / "x.h5", weights, config=sequential(inner)))
    assert message == "the shape is [3, 8], but the configuration of layer 'b' (Dense) requires [any, 7]"


@pytest.mark.parametrize(
    "config",
    [
        dense(quantization_config={"mode": "int8"}),
        {**dense(), "registered_name": "mine>Dense"},
        dense(units=None),
    ],
)
def test_what_a_configuration_does_not_show_is_not_compared(tmp_path, config):
    weights = {"d": {"d/kernel:0": np.zeros((9, 9)), "d/bias:0": np.zeros(1)}}
    assert shape_findings(write(tmp_path / "x.h5", weights, config=sequential(config))) == []


def test_a_list_for_a_configuration_is_an_early_sequential(tmp_path):
    weights = {"d": {"d/kernel:0": np.zeros((2, 4)), "d/bias:0": np.zeros(3)}}
    config = {"class_name": "Sequential", "config": [dense()]}
    assert len(shape_findings(write(tmp_path / "x.h5", weights, config=config))) == 1


@pytest.mark.parametrize("config", ["{", "[1]", '{"config": ' + "[" * 100_000 + "]" * 100_000 + "}"])
def test_a_configuration_that_is_none_is_a_finding(tmp_path, config):
    path = write(tmp_path / "x.h5", {"d": {"d/kernel:0": np.zeros((2, 3))}}, config=config)
    (message,) = shape_findings(path)
    assert message.startswith("model_config: ")
    with formats.open_checkpoint(path) as reader:
        assert reader.facts.document()["config"] == config
        assert reader.facts.document()["layers"][0]["name"] == "d"


def test_a_weight_of_another_shape_in_a_real_model_is_found(tmp_path):
    path = str(tmp_path / "rnn.h5")
    shutil.copy(data_path("keras_rnn/rnn.full.h5"), path)
    with h5py.File(path, "a") as file:
        group = file["model_weights/emb"]
        (name,) = [
            value.decode() if isinstance(value, bytes) else value for value in group.attrs["weight_names"]
        ]
        shape = group[name].shape
        del group[name]
        group[name] = np.zeros((shape[0] + 1, shape[1]), np.float32)
    (message,) = shape_findings(path)
    assert message.startswith(
        f"the shape is [{shape[0] + 1}, {shape[1]}], but the configuration of layer 'emb' (Embedding)"
    )
