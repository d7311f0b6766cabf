"""SavedModels: their signatures, and Keras files made of their weights."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.model.object_keys import GRAPH_KEY
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KERAS_2 = data_path("saved_model", "keras_model")
MODULE = data_path("saved_model", "module")
EXPORT, MODEL = (data_path("exports", "saved_model", name) for name in ("saved", "model.keras"))


def weights(path: object) -> dict[str, Any]:
    """Return the values of the weights of a file of Keras by key."""
    with formats.open_checkpoint(str(path)) as reader:
        return {key: reader[key].read() for key, kind in reader.kinds.items() if kind == "variable"}


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(np.array_equal(left[key], right[key]) for key in left)


def test_show_prints_signatures(ckpt: Callable) -> None:
    rows = ckpt("show", MODULE).rows
    shown = [row[1] for row in rows if row[0] == "signature"]
    assert "serving_default (serve): s string [?] -> output_0 float32 [?, 2]" in shown
    assert ["tag_set", '["serve"]'] in rows
    signatures = ckpt("show", "--json", MODULE).json["metadata"]["signatures"]
    assert {each["name"] for each in signatures} >= {"serving_default"}


@pytest.mark.parametrize("suffix", [".weights.h5", ".keras"])
def test_an_export_of_keras_3_becomes_the_file_that_keras_saves(
    suffix: str, tmp_path: Path, ckpt: Callable
) -> None:
    target = tmp_path / f"out{suffix}"
    done = ckpt("convert", EXPORT, target, "--config", MODEL, "--json")
    assert done.code == 0, done.err
    dropped = {row["key"].split("/")[0]: row["reason"] for row in done.json["dropped"]}
    assert dropped["_all_variables"] == "another tensor stores the same variable"
    assert same(weights(target), weights(MODEL))
    like = tmp_path / f"like{suffix}"
    template = MODEL if suffix == ".keras" else target
    assert ckpt("convert", EXPORT, like, "--like", template).code == 0
    assert same(weights(like), weights(MODEL))


def test_an_export_becomes_a_file_of_pytorch(tmp_path: Path, ckpt: Callable) -> None:
    for source, name in ((EXPORT, "export"), (MODEL, "model")):
        target = tmp_path / f"{name}.safetensors"
        line = ("convert", source, target, "--layout", "pytorch", "--config", MODEL)
        done = ckpt(*line)
        assert done.code == 0, done.err
    assert ckpt("diff", tmp_path / "export.safetensors", tmp_path / "model.safetensors").code == 0


def test_without_a_configuration_the_message_says_what_is_missing(tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("convert", EXPORT, tmp_path / "x.weights.h5")
    assert done.code == 3
    assert "needs the model's configuration" in done.err
    assert "--config FILE" in done.err


def test_keras_2_stores_the_configuration_next_to_the_variables(tmp_path: Path, ckpt: Callable) -> None:
    for suffix in (".h5", ".weights.h5"):
        done = ckpt("convert", KERAS_2, tmp_path / f"out{suffix}")
        assert done.code == 0, done.err
    found = weights(tmp_path / "out.h5")
    with formats.open_checkpoint(KERAS_2) as reader:
        for key, name in reader.full_names.items():
            assert np.array_equal(found[name], reader[key].read())
    assert ckpt("convert", KERAS_2, tmp_path / "out.keras").code == 0
    config = json.loads(ckpt("show", "--json", tmp_path / "out.keras").json["metadata"]["config"])
    assert (config["module"], config["class_name"], config["registered_name"]) == (
        "keras",
        "Sequential",
        None,
    )
    assert ckpt("diff", tmp_path / "out.keras", tmp_path / "out.weights.h5", "--kind", "variable").code == 0
    shutil.copytree(KERAS_2, tmp_path / "damaged")
    path = tmp_path / "damaged" / "keras_metadata.pb"
    path.write_bytes(path.read_bytes()[:100])
    done = ckpt("convert", tmp_path / "damaged", tmp_path / "x.h5")
    assert (done.code, (tmp_path / "x.h5").exists()) == (3, False)
    assert f"{path}: offset 0: field 1 needs" in done.err


def rewritten(tmp_path: Path, names: dict[str, str], values: dict[str, Any]) -> Path:
    """Rewrite the export with other full names, and other values of some keys."""
    path = tmp_path / "variables" / "variables"
    path.parent.mkdir()
    with formats.open_checkpoint(EXPORT) as reader:
        graph = reader.object_graph
        assert graph is not None
        for node in graph.nodes:
            for attribute in node.attributes:
                attribute.full_name = names.get(attribute.full_name, attribute.full_name)
        specs = [spec for key, spec in reader.specs.items() if key != GRAPH_KEY]
        with formats.create_checkpoint(path, format="tf-object", specs=specs, object_graph=graph) as writer:
            for spec in specs:
                writer.write(spec.key, values.get(spec.key, reader[spec.key].read()))
    return tmp_path


def test_a_second_copy_with_other_values_is_an_error(tmp_path: Path, ckpt: Callable) -> None:
    copy = "_all_variables/1/.ATTRIBUTES/VARIABLE_VALUE"
    source = rewritten(tmp_path, {}, {copy: np.zeros(4, np.float32)})
    done = ckpt("convert", source, tmp_path / "x.weights.h5", "--config", MODEL)
    assert (done.code, (tmp_path / "x.weights.h5").exists()) == (3, False)
    assert (
        "has the full name of 'variables/1/.ATTRIBUTES/VARIABLE_VALUE', 'conv/bias', but different values"
        in done.err
    )


def bare_names() -> dict[str, str]:
    """Return the last component of each full name: so a model has them that another backend runs."""
    with formats.open_checkpoint(EXPORT) as reader:
        return {name: name.rpartition("/")[2] for name in reader.full_names.values()}


def test_where_names_do_not_tell_layers_the_order_of_the_model_does(tmp_path: Path, ckpt: Callable) -> None:
    source, target = rewritten(tmp_path, bare_names(), {}), tmp_path / "x.weights.h5"
    done = ckpt("convert", source, target, "--config", MODEL, "--exclude", "_all_variables/*")
    assert done.code == 0, done.err
    assert same(weights(target), weights(MODEL))


def test_variables_of_another_model_are_rejected(tmp_path: Path, ckpt: Callable) -> None:
    source = rewritten(tmp_path, bare_names() | {"conv/kernel": "bias", "conv/bias": "kernel"}, {})
    line = ("convert", source, tmp_path / "x.weights.h5", "--exclude", "_all_variables/*")
    done = ckpt(*line, "--config", MODEL)
    assert done.code == 3
    assert "the export has 'bias' where the configuration has 'conv/kernel'" in done.err
    done = ckpt(*line, "--config", data_path("keras3_mlp", "mlp.keras"))
    assert done.code == 3
    assert "the export has 'bias' where the configuration has" in done.err


@pytest.mark.parametrize("name", ["saved_model.pb", "keras_metadata.pb"])
def test_any_file_of_a_saved_model_names_it(name: str, ckpt: Callable) -> None:
    done, folder = ckpt("ls", f"{KERAS_2}/{name}"), ckpt("ls", KERAS_2)
    assert (done.code, done.out) == (0, folder.out)
    assert "ckpt reads the variables of this SavedModel" in done.err


def test_a_saved_model_without_its_variables_says_what_is_missing(tmp_path: Path, ckpt: Callable) -> None:
    shutil.copy(f"{KERAS_2}/saved_model.pb", tmp_path)
    done = ckpt("ls", tmp_path)
    assert (done.code, done.out) == (3, "")
    assert f"{tmp_path}: this is a SavedModel without its variables" in done.err
    assert "variables/variables.index" in done.err
