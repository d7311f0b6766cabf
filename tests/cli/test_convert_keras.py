"""`ckpt convert` between Keras and TensorFlow, as a person runs it."""

from __future__ import annotations

import json
import shutil
import zipfile
from typing import TYPE_CHECKING, Any

import h5py
import pytest

import ckpt_cli.runtime as tf
import formats
from ckpt_cli.operations.convert.keras.plan import read_config
from formats.location import parse_location
from tests.formats.known.test_keras_h5_shards import BERT, write_hub_shards
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_the_command_takes_a_configuration(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    source = data_path("keras_conv", "conv")
    missing = ckpt("convert", source, tmp_path / "m.h5")
    assert missing.code == 3
    assert "configuration" in missing.err
    assert "--config FILE" in missing.err
    (tmp_path / "config.json").write_text(
        str(read_config(parse_location(data_path("keras_conv", "conv.full.h5"))).config)
    )
    for number, config in enumerate((tmp_path / "config.json", data_path("keras_conv", "conv.full.h5"))):
        result = ckpt("convert", source, tmp_path / f"{number}.h5", "--config", config, "--json")
        assert result.code == 0
        assert result.json["verified"]
    for text in ("{}", "{", "no json"):
        (tmp_path / "config.json").write_text(text)
        result = ckpt("convert", source, tmp_path / "x.h5", "--config", tmp_path / "config.json")
        assert result.code == 3
        assert "config.json" in result.err
        assert "Traceback" not in result.err


def test_the_plan_says_what_is_left_out(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    source = data_path("keras_mlp", "mlp.with_optimizer.h5")
    result = ckpt("convert", source, tmp_path / "m.weights.h5", "--weights-only", "--json", "-n")
    assert result.code == 0
    assert not list(tmp_path.iterdir())
    assert [row["to"] for row in result.json["tensors"]][:2] == ["layers/dense/vars/0", "layers/dense/vars/1"]
    assert not result.json["dropped"]


def test_a_programs_step_does_not_stop_a_conversion_to_keras(
    ckpt: Callable[..., Any], tmp_path: Path
) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(4,))])
    run = tf.train.Checkpoint(model=model, step=tf.Variable(7)).save(tmp_path / "run")
    (tmp_path / "m.json").write_text(model.to_json())
    result = ckpt("convert", run, tmp_path / "m.h5", "--config", tmp_path / "m.json", "--json")
    assert result.code == 0, result.err
    assert "step/.ATTRIBUTES/VARIABLE_VALUE" in {dropped["key"] for dropped in result.json["dropped"]}


def test_a_learning_rate_that_only_the_configuration_has(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    source = data_path("keras_mlp", "mlp.with_optimizer.h5")
    result = ckpt("convert", source, tmp_path / "mlp", "--json")
    assert result.code == 0
    key = "optimizer/_learning_rate/.ATTRIBUTES/VARIABLE_VALUE"
    (rate,) = (row for row in result.json["tensors"] if row["to"] == key)
    assert rate == {"from": None, "to": key, "dtype": "float32", "shape": []}
    with formats.open_checkpoint(source) as reader:
        settings = json.loads(reader.facts.document()["training_config"])["optimizer_config"]["config"]
    with formats.open_checkpoint(str(tmp_path / "mlp")) as reader:
        assert float(reader[key].read()) == settings["learning_rate"]


def test_a_subclassed_model_takes_a_template(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    """Both blocks have a variable `scale`; their layers tell them apart."""
    source = data_path("keras_nested", "tower.weights_only.h5")
    refused = ckpt("convert", source, tmp_path / "tower", "--to", "object")
    assert refused.code == 3
    assert "hint: pass --like TEMPLATE" in refused.err
    template = data_path("keras_nested", "tower")
    assert ckpt("convert", source, tmp_path / "tower", "--like", template).code == 0
    assert ckpt("diff", tmp_path / "tower", template).code == 0
    assert ckpt("convert", template, tmp_path / "tower.h5", "--like", source).code == 0
    assert ckpt("diff", tmp_path / "tower.h5", source).code == 0


def test_weights_are_cast(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    source = data_path("keras_conv", "conv.full.h5")
    assert (
        ckpt(
            "convert", source, tmp_path / "m.weights.h5", "--cast", "bfloat16", "--generation", "keras3"
        ).code
        == 0
    )
    with formats.open_checkpoint(str(tmp_path / "m.weights.h5")) as reader:
        assert {spec.dtype.name for spec in reader.specs.values()} == {"bfloat16"}


def test_bfloat16_that_keras_does_not_load_is_rejected(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    """Keras writes two opaque bytes into .h5, Keras 2 into all of its files, and reads none of them."""
    source, config = data_path("keras_conv", "conv"), data_path("keras_conv", "conv.full.h5")
    narrow = ["--config", config, "--cast", "bfloat16"]
    for name in ("m.h5", "m.weights.h5"):
        result = ckpt("convert", source, tmp_path / name, *narrow)
        assert (result.code, result.out) == (3, "")
        assert "Keras 2 does not load bfloat16 from keras-" in result.err
        assert "--cast float32" in result.err
    assert not list(tmp_path.iterdir())
    assert ckpt("convert", source, tmp_path / "conv-1", *narrow, "--to", "object").code == 0


def test_rules_that_a_models_configuration_would_not_follow_are_rejected(
    ckpt: Callable[..., Any], tmp_path: Path
) -> None:
    """Layers that should have been swapped stayed in place, with exit 0."""
    source = data_path("optimizers", "tf1", "adam", "ckpt-3")
    config = data_path("optimizers", "new", "adam", "model.h5")
    names, swapped = tmp_path / "names-3", ("--sub", "^d0/=>d_/", "--sub", "^d1/=>d0/", "--sub", "^d_/=>d1/")
    assert ckpt("rename", source, names, "--sub", "^net/=>").code == 0
    told = ("--config", config, "--weights-only")
    result = ckpt("convert", names, tmp_path / "a.h5", *told, *swapped)
    assert (result.code, result.out) == (3, "")
    assert "rules cannot change them" in result.err
    assert "rename tensors in the result" in result.err
    assert ckpt("rename", names, tmp_path / "swapped-3", *swapped).code == 0
    assert ckpt("convert", tmp_path / "swapped-3", tmp_path / "a.h5", *told).code == 0


def test_keras_2_finds_the_metrics_of_a_fitted_model(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    """Keras 2.15 loads weights into a fitted model only if the file has its metrics, too."""
    source = data_path("keras_mlp", "mlp.with_optimizer.h5")
    result = ckpt("convert", source, tmp_path / "m.weights.h5", "--config", source, "--json")
    assert result.code == 0, result.err
    rows = {row["to"]: row for row in result.json["tensors"] if row["to"].startswith("metrics/")}
    assert list(rows) == ["metrics/mean/vars/0", "metrics/mean/vars/1"]
    assert {(row["from"], row["dtype"], tuple(row["shape"])) for row in rows.values()} == {
        (None, "float32", ())
    }
    plain = ckpt("convert", source, tmp_path / "2.weights.h5", "--json")
    assert [row["to"] for row in plain.json["tensors"]] == [row["to"] for row in result.json["tensors"]]
    assert (
        "the optimizer state is written for Keras 2.11 to 2.15; to choose another Keras, pass --generation"
        in (plain.err)
    )
    for_keras_3 = ckpt("convert", source, tmp_path / "3.weights.h5", "--json", "--generation", "keras3")
    assert "note: the optimizer state is written for Keras 3\n" in for_keras_3.err
    assert not [row for row in for_keras_3.json["tensors"] if row["to"].startswith("metrics/")]


def test_metrics_that_are_not_known_are_named(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    source, config = data_path("keras_mlp", "mlp.with_optimizer.h5"), str(tmp_path / "config.h5")
    shutil.copy(source, config)
    with h5py.File(config, "r+") as file:
        compiled = json.loads(file.attrs["training_config"])
        compiled["metrics"] = [
            "mae",
            {"class_name": "AUC", "config": {}},
            {"class_name": "Sum", "config": {}},
        ]
        file.attrs["training_config"] = json.dumps(compiled)
    result = ckpt("convert", source, tmp_path / "m.weights.h5", "--config", config)
    assert result.code == 0, result.err
    assert (
        "the metrics AUC are written without state; load the weights before you fit the model" in result.err
    )


def test_shards_become_a_model_in_one_file(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    """Layers and names of weights are what transformers looks for in tf_model.h5."""
    (tmp_path / "model").mkdir()
    arrays = write_hub_shards(tmp_path / "model")
    result = ckpt("convert", tmp_path / "model", tmp_path / "tf_model.h5")
    assert result.code == 0, result.err
    with h5py.File(tmp_path / "tf_model.h5") as file:
        assert list(file.attrs["layer_names"]) == ["bert", "mlm___cls"]
        assert list(file["bert"].attrs["weight_names"]) == list(BERT)[:3]
        for name in list(BERT)[:3]:
            assert (file["bert"][name][()] == arrays[name.removesuffix(":0")]).all()


def with_assets(source: str, target: Path, **assets: str) -> Path:
    """Write a copy of a `.keras` archive with vocabularies of layers."""
    shutil.copy(source, target)
    with zipfile.ZipFile(target, "a") as archive:
        for layer, text in assets.items():
            archive.writestr(f"assets/layers/{layer}/vocabulary.txt", text)
    return target


def assets_in(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name.startswith("assets/")}


def test_assets_go_from_archive_to_archive(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    """Keras did not load what was written: the vocabulary of a layer was left out."""
    keras = data_path("keras3_mlp", "mlp.keras")
    source = with_assets(keras, tmp_path / "source.keras", lookup="ant\nbee", other="x")
    template = with_assets(keras, tmp_path / "like.keras", lookup="cat", other="y")
    for number, options in enumerate(([], ["--like", template], ["--config", template])):
        target = tmp_path / f"{number}.keras"
        result = ckpt("convert", source, target, *options)
        assert result.code == 0, result.err
        assert assets_in(target) == assets_in(source)
        assert "left out" not in result.err
        assert ckpt("verify", target).code == 0


def test_assets_that_the_source_does_not_store(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    keras = data_path("keras3_mlp", "mlp.keras")
    weights = data_path("keras3_mlp", "mlp.weights.h5")
    template = with_assets(keras, tmp_path / "like.keras", lookup="cat")
    for option in ("--like", "--config"):
        result = ckpt("convert", weights, tmp_path / "m.keras", option, template)
        assert result.code == 3
        assert "model needs assets, such as vocabularies, that SRC does not store: " in result.err
        assert "'assets/layers/lookup/vocabulary.txt'" in result.err
    taken = ckpt("convert", weights, tmp_path / "m.keras", "--like", template, "--partial")
    assert taken.code == 0, taken.err
    assert "warning: 1 asset of TEMPLATE is used, because SRC stores none: 'assets/" in taken.err
    assert assets_in(tmp_path / "m.keras") == assets_in(template)
    other = with_assets(keras, tmp_path / "other.keras", another="cat")
    result = ckpt("convert", other, tmp_path / "o.keras", "--like", template)
    assert result.code == 3
    assert "the assets of SRC differ from those of the file with the configuration" in result.err


def with_layer(source: str, target: Path, class_name: str, **settings: Any) -> Path:
    """Write a copy of a `.keras` archive whose model has one more layer, without weights."""
    with zipfile.ZipFile(source) as held, zipfile.ZipFile(target, "w") as archive:
        for name in held.namelist():
            content = held.read(name)
            if name == "config.json":
                config = json.loads(content)
                item = {"module": "keras.layers", "class_name": class_name, "registered_name": None}
                config["config"]["layers"].append({**item, "config": settings})
                content = json.dumps(config).encode()
            archive.writestr(name, content)
    return target


ADAPTED = {"bin_boundaries": [0.5, 1.5], "num_bins": 3}


def test_boundaries_that_the_source_does_not_store(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    """Conversion through .pt gave the model TEMPLATE's boundaries: other outputs, with exit 0."""
    keras = data_path("keras3_mlp", "mlp.keras")
    source = with_layer(keras, tmp_path / "a.keras", "Discretization", name="bins", **ADAPTED)
    template = with_layer(
        keras, tmp_path / "b.keras", "Discretization", name="bins_1", bin_boundaries=[0.1, 0.2], num_bins=3
    )
    between = ckpt("convert", source, tmp_path / "m.npz")
    assert between.code == 0
    assert "left out bin_boundaries of layer 'bins': npz does not store a configuration" in between.err
    for options in (["--like", template], ["--to", "keras", "--config", template]):
        result = ckpt("convert", data_path("keras3_mlp", "mlp.weights.h5"), tmp_path / "m.keras", *options)
        assert result.code == 3
        assert "learned settings that SRC does not store: bin_boundaries of layer 'bins_1'" in result.err
        assert (
            "hint: to use those of a Keras file of the program, pass --like TEMPLATE --partial" in result.err
        )
    result = ckpt("convert", tmp_path / "m.npz", tmp_path / "m.keras", "--like", template)
    assert (result.code, "that SRC does not store: bin_boundaries" in result.err) == (3, True)
    taken = ckpt("convert", tmp_path / "m.npz", tmp_path / "m.keras", "--like", template, "--partial")
    assert taken.code == 0, taken.err
    assert (
        "warning: bin_boundaries of layer 'bins_1' of TEMPLATE is used, because SRC stores none" in taken.err
    )


@pytest.mark.parametrize(
    ("class_name", "own", "other"),
    [
        ("Discretization", ADAPTED, {**ADAPTED, "bin_boundaries": [0.1, 0.2]}),
        ("Discretization", ADAPTED, {**ADAPTED, "bin_boundaries": None}),
        ("Normalization", {"mean": [1.0], "variance": [2.0]}, {"mean": [1.5], "variance": [2.0]}),
        ("StringLookup", {"vocabulary": ["a", "b"]}, {"vocabulary": ["b", "a"]}),
        (
            "TimeDistributed",
            {"layer": {"class_name": "Discretization", "config": {"name": "in", **ADAPTED}}},
            {"layer": {"class_name": "Discretization", "config": {"name": "in_1", "bin_boundaries": [3.0]}}},
        ),
    ],
)
def test_settings_learned_from_other_data(
    class_name: str, own: dict[str, Any], other: dict[str, Any], ckpt: Callable[..., Any], tmp_path: Path
) -> None:
    """Layers pair by order where Keras numbers their names; wrapped layers count, too."""
    keras = data_path("keras3_mlp", "mlp.keras")
    source = with_layer(keras, tmp_path / "a.keras", class_name, name="layer", **own)
    for name in ("layer", "layer_1"):
        template = with_layer(keras, tmp_path / "b.keras", class_name, name=name, **other)
        for option in ("--like", "--config"):
            result = ckpt("convert", source, tmp_path / "m.keras", option, template)
            assert result.code == 3, (name, option)
            assert "differ between the configurations" in result.err
        template = with_layer(keras, tmp_path / "b.keras", class_name, name=name, **own)
        same = ckpt("convert", source, tmp_path / f"{name}.keras", "--like", template)
        assert same.code == 0, same.err


def test_constants_of_a_program_are_named_where_they_are_unknown(
    ckpt: Callable[..., Any], tmp_path: Path
) -> None:
    keras = data_path("keras3_mlp", "mlp.keras")
    template = with_layer(keras, tmp_path / "b.keras", "Discretization", name="bins", bin_boundaries=[0.1])
    result = ckpt(
        "convert", data_path("keras3_mlp", "mlp.weights.h5"), tmp_path / "m.keras", "--like", template
    )
    assert result.code == 0, result.err
    assert "SRC does not store bin_boundaries of layer 'bins'; ckpt uses the configuration" in (result.err)


def test_assets_that_the_target_does_not_store_are_named(ckpt: Callable[..., Any], tmp_path: Path) -> None:
    source = with_assets(data_path("keras3_mlp", "mlp.keras"), tmp_path / "a.keras", lookup="ant")
    for name in ("m.weights.h5", "m.h5", "m.npz"):
        result = ckpt("convert", source, tmp_path / name)
        assert result.code == 0, result.err
        assert "left out 1 asset ('assets/layers/lookup/vocabulary.txt'): " in result.err
