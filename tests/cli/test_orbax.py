"""Commands on Orbax checkpoints, and on a CheckpointManager's directory, which is a run."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import ckpt_cli
import formats
from formats.model.writer import Placement
from formats.orbax import zarr
from tests import orbax_files
from tests.repository import Repository
from tests.servers.hub import Hub, serving_hub
from tests.servers.web import Web, serving
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEMPORARY = "4.orbax-checkpoint-tmp"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of the steps 2 and 10, with an unfinished step 4."""
    path = tmp_path / "run"
    shutil.copytree(data_path("orbax", "new/unfinished"), path)
    shutil.copytree(path / "2", path / "10")
    return path


def age(path: Path, seconds: float) -> None:
    """Make a folder and all in it older."""
    then = time.time() - seconds
    for folder, _, names in os.walk(path, topdown=False):
        for name in (*names, "."):
            os.utime(os.path.join(folder, name), (then, then))


def test_a_chunk_that_orbax_04_does_not_store_is_only_a_warning(ckpt: Callable) -> None:
    """`verify` called it a missing shard with the name of the folder, and exited with 1."""
    path = data_path("orbax", "old", "zarr3")
    done = ckpt("verify", path)
    assert done.code == 0
    assert done.rows[0][:2] == [path, "ok"]
    message = "1 chunk is not stored, so ckpt reads the fill value; the chunk may be lost"
    assert done.rows[1] == [path, "warning", "shard-missing", "dense_0/bias", path, "", message]


def test_a_directory_of_steps_is_a_run(run: Path, ckpt: Callable) -> None:
    done = ckpt("ls", "--json", run)
    assert [(row["name"], row["format"], row["step"]) for row in done.json["checkpoints"]] == [
        ("2", "orbax", 2),
        ("10", "orbax", 10),
    ]
    assert done.json["latest"] == "10"
    assert f"{TEMPORARY}: an unfinished step of Orbax" in done.err
    assert [row["step"] for row in ckpt("log", "--json", run).json["checkpoints"]] == [2, 10]
    shown = ckpt("show", "--json", run)
    assert (shown.json["step"], shown.json["metadata"]["items"]) == (10, {"config": {"width": 8}})
    assert ckpt("diff", run / "2", run / "10").code == 0
    verified = ckpt("verify", run)
    assert verified.code == 0
    assert "orbax stores no checksums, so values cannot be verified" in verified.err


def add_metrics(step: Path, **metrics: float) -> None:
    """Add what a CheckpointManager with a `best_fn` saves."""
    (step / "metrics").mkdir()
    (step / "metrics" / "metrics").write_text(json.dumps(metrics))


def test_log_shows_the_metrics_of_steps(run: Path, ckpt: Callable, terminal: Callable) -> None:
    add_metrics(run / "2", loss=0.5, accuracy=0.25)
    add_metrics(run / "10", loss=0.125, accuracy=float("nan"))
    rows = ckpt("log", "--json", run).json["checkpoints"]
    assert [(row["loss"], row["loss_step"]) for row in rows] == [(0.5, 2), (0.125, 10)]
    assert rows[1]["metrics"] == {"loss": 0.125, "accuracy": "nan"}
    tagged = ckpt("log", "--json", "--tag", "accuracy", run)
    assert [row["loss"] for row in tagged.json["checkpoints"]] == [0.25, "nan"]
    assert "no scalar" not in tagged.err
    shown = terminal("log", run, NO_COLOR="1", COLUMNS="200").out
    assert "METRICS" in shown
    assert "loss 0.5, accuracy 0.25" in shown
    assert ckpt("show", "--json", run / "2").json["metadata"]["items"]["metrics"]["loss"] == 0.5


def test_steps_without_metrics_have_none(run: Path, ckpt: Callable, terminal: Callable) -> None:
    rows = ckpt("log", "--json", run).json["checkpoints"]
    assert [(row["loss"], row["metrics"]) for row in rows] == [(None, None)] * 2
    assert "METRICS" not in terminal("log", run, NO_COLOR="1", COLUMNS="200").out


def test_the_metrics_of_a_step_are_written(run: Path, tmp_path: Path, ckpt: Callable) -> None:
    add_metrics(run / "2", loss=0.5)
    assert ckpt("convert", run / "2", tmp_path / "new" / "2", "--to", "orbax").code == 0
    assert json.loads((tmp_path / "new" / "2" / "metrics" / "metrics").read_text()) == {"loss": 0.5}


def test_prefixed_steps_are_in_order(run: Path, ckpt: Callable) -> None:
    for name, new in (("2", "model_000002"), ("10", "model_000010")):
        (run / name).rename(run / new)
    found = ckpt("ls", "--json", run).json
    assert [row["step"] for row in found["checkpoints"]] == [2, 10]
    assert found["latest"] == "model_000010"


def test_an_old_unfinished_step_is_removed_and_a_recent_one_is_not(run: Path, ckpt: Callable) -> None:
    age(run / TEMPORARY, 60)  # the samples are as old as the checkout
    kept = ckpt("state", "--fix", run)
    assert "changed within the last hour" in kept.err
    assert (run / TEMPORARY).is_dir()
    age(run / TEMPORARY, 7200)
    assert ckpt("state", "--fix", run).code == 0
    assert sorted(os.listdir(run)) == ["10", "2"]  # and no state file of TensorFlow's


def test_a_file_that_changed_deep_within_an_unfinished_step_keeps_it(run: Path, ckpt: Callable) -> None:
    age(run / TEMPORARY, 7200)
    (run / TEMPORARY / "state" / "manifest.ocdbt").touch()
    ckpt("state", "--fix", run)
    assert (run / TEMPORARY).is_dir()


def test_every_checkpoint_is_found_once_below_a_directory(run: Path, ckpt: Callable) -> None:
    shutil.copytree(data_path("orbax", "old/aggregate"), run / "other")
    done = ckpt("ls", "-R", "-q", run)
    paths = [row[0].rpartition("run/")[2] for row in done.rows]
    assert paths == ["2", "10", "other"]
    assert "state file" not in done.err


def test_keys_of_one_stored_name_are_reported(ckpt: Callable) -> None:
    path = data_path("orbax", "new/clash")
    assert "so one overwrote the other" in ckpt("ls", path).err
    found = ckpt("verify", "--json", path)
    assert found.code == 1
    assert found.json["results"][0]["findings"][0]["code"] == "overlap"
    assert ckpt("show", path, "a.b/c").code == 3


def test_weights_alone_are_converted(tmp_path: Path, ckpt: Callable) -> None:
    target = tmp_path / "w.safetensors"
    done = ckpt("convert", data_path("orbax", "new/pytree"), target, "--weights-only")
    assert done.code == 0
    assert ckpt("diff", data_path("orbax", "new/pytree"), target, "--kind", "variable").code == 0
    assert all(row[0].startswith("params/") for row in ckpt("ls", target).rows)


def test_digests_notice_what_no_checksum_does(tmp_path: Path, ckpt: Callable) -> None:
    path = tmp_path / "copy"
    shutil.copytree(data_path("orbax", "new/uncompressed"), path)
    listing = tmp_path / "digests.json"
    listing.write_text(ckpt("ls", "--json", "-l", "--digest", "sha256", path).out)
    assert ckpt("verify", path, "--against", listing).code == 0
    data = next(each for each in path.rglob("d/*") if each.stat().st_size > 1600)
    flipped = bytearray(data.read_bytes())
    flipped[100] ^= 1
    data.write_bytes(flipped)
    assert ckpt("verify", path).code == 0
    assert ckpt("verify", path, "--against", listing).code == 1


def tree(path: Path, **arrays: np.ndarray) -> Path:
    """Write a checkpoint of these arrays."""
    orbax_files.save(str(path), arrays)
    return path


TREE = {"a": np.ones((2, 3), np.float32), "b": np.zeros(4, np.float32)}


@pytest.mark.parametrize(
    ("target", "fields", "code", "code_unused"),
    [
        (TREE, {}, 0, 0),
        (TREE | {"c": TREE["b"]}, {"unmatched_target": ["c"]}, 1, 1),
        ({"a": TREE["a"]}, {"unused_checkpoint": ["b"]}, 1, 0),
        (
            TREE | {"b": np.zeros(6, np.float32)},
            {"shape_mismatch": [{"key": "b", "checkpoint": [4], "target": [6]}]},
            1,
            1,
        ),
        (
            TREE | {"b": np.zeros(4, np.int32)},
            {"dtype_mismatch": [{"key": "b", "checkpoint": "float32", "target": "int32"}]},
            1,
            1,
        ),
    ],
    ids=["same", "missing", "unused", "shape", "dtype"],
)
def test_trees_are_matched_by_key(
    tmp_path: Path, ckpt: Callable, target: dict, fields: dict, code: int, code_unused: int
) -> None:
    one, other = tree(tmp_path / "one", **TREE), tree(tmp_path / "other", **target)
    done = ckpt("match", "--json", one, other)
    assert done.code == code
    lists = ("unmatched_target", "unused_checkpoint", "shape_mismatch", "dtype_mismatch")
    assert {name: done.json[name] for name in lists if done.json[name]} == fields
    assert ckpt("match", "--allow-unused", one, other).code == code_unused


def test_texts_are_matched_too(tmp_path: Path, ckpt: Callable) -> None:
    whole = data_path("orbax", "new/odd_names")
    assert ckpt("match", whole, whole).code == 0
    texts = ckpt("show", "--json", whole).json["metadata"]["values"]
    bare = tmp_path / "bare"
    shutil.copytree(whole, bare)
    document = json.loads((bare / "_METADATA").read_text())
    for name, entry in [*document["tree_metadata"].items()]:
        if entry["value_metadata"]["value_type"] == "string":
            del document["tree_metadata"][name]
    (bare / "_METADATA").write_text(json.dumps(document))
    assert ckpt("match", "--json", bare, whole).json["unmatched_target"] == sorted(texts)
    assert ckpt("match", "--json", whole, bare).json["unused_checkpoint"] == sorted(texts)


def test_a_tree_on_a_terminal_has_verdicts_of_its_own(tmp_path: Path, terminal: Callable) -> None:
    one, other = tree(tmp_path / "one", **TREE), tree(tmp_path / "other", a=TREE["a"])
    shown = terminal("match", one, other, NO_COLOR="1").out
    assert "1 value restored, by key" in shown
    assert "restores all of TARGET" in shown
    assert "assert_consumed" not in shown


def test_orbax_next_to_a_program_of_tensorflow_of_another_model_is_not_paired(ckpt: Callable) -> None:
    program = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
    found = ckpt("match", data_path("orbax", "new/pytree"), program, "--json")
    assert found.code == 1
    assert found.json["restored"] == []
    assert "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE" in found.json["unmatched_target"]


@pytest.mark.parametrize("dtype", [["<f4"], {"name": "<f4"}, None, 4])
def test_a_dtype_that_is_not_a_text_is_damage(tmp_path: Path, ckpt: Callable, dtype: object) -> None:
    path = tmp_path / "tree"
    shutil.copytree(data_path("orbax", "old/zarr2_files"), path)
    metadata = path / "dense_0.bias" / ".zarray"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"dtype": dtype}))
    done = ckpt("ls", path)
    assert done.code == 3
    assert "dtype" in done.err


KERAS = data_path("orbax", "new/keras_orbax/0")
PLACES = {
    "layers/dense/vars/0": "sequential/d/kernel",
    "layers/dense/vars/1": "sequential/d/bias",
    "layers/batch_normalization/vars/0": "sequential/bn/gamma",
    "layers/batch_normalization/vars/1": "sequential/bn/beta",
    "layers/batch_normalization/vars/2": "sequential/bn/moving_mean",
    "layers/batch_normalization/vars/3": "sequential/bn/moving_variance",
    "optimizer/vars/0": "adam/iteration",
    "optimizer/vars/1": "adam/learning_rate",
} | {
    f"optimizer/vars/{number}": f"adam/sequential_{name}"
    for number, name in enumerate(
        (
            f"{of}_{slot}"
            for of in ("d_kernel", "d_bias", "bn_gamma", "bn_beta")
            for slot in ("momentum", "velocity")
        ),
        2,
    )
}


@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5"])
def test_a_step_of_keras_becomes_a_file_of_keras(tmp_path: Path, ckpt: Callable, name: str) -> None:
    """It contains its configuration."""
    done = ckpt("convert", "--json", KERAS, tmp_path / name)
    assert done.code == 0, done.err
    truth = _truth_of_keras()
    with formats.open_checkpoint(tmp_path / name) as reader:
        assert set(reader) == set(PLACES)
        for key, path in PLACES.items():
            assert np.array_equal(reader[key].read(), truth[path]), key
    sources = {row["to"]: row["from"] for row in done.json["tensors"]}
    assert sources["layers/dense/vars/0"] == "pytree/trainable_variables/sequential/d/kernel"
    assert {row["key"] for row in done.json["dropped"]} == {
        "pytree/metrics_variables/loss/count",
        "pytree/metrics_variables/loss/total",
    }


def _truth_of_keras() -> dict[str, np.ndarray]:
    """Return what Keras says that the step holds."""
    with np.load(data_path("orbax", "new/keras_orbax.npz")) as file:
        return dict(file)


def test_a_step_of_keras_becomes_objects(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", KERAS, tmp_path / "ckpt-1", "--to", "object").code == 0
    assert ckpt("convert", KERAS, tmp_path / "model.keras").code == 0
    assert (
        ckpt("convert", tmp_path / "ckpt-1", tmp_path / "b.keras", "--like", tmp_path / "model.keras").code
        == 0
    )
    assert ckpt("diff", tmp_path / "b.keras", tmp_path / "model.keras").code == 0
    assert ckpt("convert", KERAS, tmp_path / "w.keras", "--weights-only").code == 0
    assert len(ckpt("ls", tmp_path / "w.keras").rows) == 6


@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5", "model-1"])
def test_a_step_of_keras_fills_a_template_of_keras(tmp_path: Path, ckpt: Callable, name: str) -> None:
    """With its optimizer, which was taken for one of optax and rejected."""
    to = ["--to", "object"] if name == "model-1" else []
    assert ckpt("convert", KERAS, tmp_path / name, *to).code == 0
    (tmp_path / "out").mkdir()
    done = ckpt("convert", KERAS, tmp_path / "out" / name, "--like", tmp_path / name)
    assert done.code == 0, done.err
    assert ckpt("diff", tmp_path / "out" / name, tmp_path / name).code == 0
    assert len(ckpt("ls", tmp_path / "out" / name).rows) >= len(PLACES)


@pytest.mark.parametrize("to", ["keras-weights", "keras", "keras-h5", "tf-object"])
def test_a_step_of_keras_survives_the_way_to_keras_and_back(ckpt: Callable, to: str) -> None:
    done = ckpt("verify", "--json", "--roundtrip", to, KERAS)
    assert done.code == 0, done.err
    findings = done.json["results"][0]["findings"]
    assert {each["key"] for each in findings} == {
        "pytree/metrics_variables/loss/count",
        "pytree/metrics_variables/loss/total",
    }


@pytest.mark.parametrize("name", ["model.keras", "model.weights.h5", "model-1"])
def test_files_and_objects_of_keras_become_a_step_like_another(
    tmp_path: Path, ckpt: Callable, name: str
) -> None:
    """The step has Keras' own names, the configuration, and the optimizer."""
    into = ["--to", "object"] if name == "model-1" else []
    assert ckpt("convert", KERAS, tmp_path / name, *into).code == 0
    step = tmp_path / "run" / "3"
    done = ckpt("convert", tmp_path / name, step, "--like", KERAS)
    assert done.code == 0, done.err
    assert "left out pytree/metrics_variables/loss/count" in done.err
    truth = _truth_of_keras()
    with formats.open_checkpoint(step) as reader, formats.open_checkpoint(KERAS) as other:
        assert len(reader) == len(PLACES)
        assert reader.facts.values == other.facts.values
        for key in reader:
            assert np.array_equal(reader[key].read(), truth[key.split("/", 2)[2]]), key
    assert json.loads((step / "_CHECKPOINT_METADATA").read_text())["item_handlers"].keys() == {
        "pytree",
        "model_config",
    }


def step_of(path: Path, optimizer: dict, arrays: dict[str, np.ndarray]) -> Path:
    """Write a step as the sample is, with another optimizer and other variables of it."""
    with formats.open_checkpoint(KERAS) as reader:
        whole = {key.removeprefix("pytree/"): reader[key].read() for key in reader}
    weights = {key: array for key, array in whole.items() if not key.startswith("optimizer_variables/")}
    every = weights | {f"optimizer_variables/{key}": array for key, array in arrays.items()}
    np.savez(f"{path}.npz", **every)
    ckpt_cli.convert(f"{path}.npz", path / "tree", to="orbax")
    (path / "tree").rename(path / "pytree")
    shutil.copytree(f"{KERAS}/model_config", path / "model_config")
    shutil.copy(f"{KERAS}/_CHECKPOINT_METADATA", path)
    texts = path / "model_config" / "_strings.json"
    config = json.loads(json.loads(texts.read_text())["config"])
    config["compile_config"]["optimizer"] = optimizer
    texts.write_text(json.dumps({"config": json.dumps(config)}))
    return path


def numbered_slots(prefix: str) -> dict[str, np.ndarray]:
    """Return the slots of the sample's model as those of another optimizer."""
    truth = _truth_of_keras()
    slots = {name.removeprefix("adam/"): truth[name] for name in PLACES.values() if "adam/seq" in name}
    return {f"{prefix}/{name}": array for name, array in slots.items()}


def optimizer_of(class_name: str, **config: object) -> dict:
    return {"module": "keras.optimizers", "class_name": class_name, "config": config, "registered_name": None}


ADAM = optimizer_of("Adam", name="adam", learning_rate=0.5)
COUNT = {"iteration": np.array(7, np.int64), "learning_rate": np.array(0.5, np.float64)}


@pytest.mark.parametrize("product", ["variable", "variable_3", "nadam/variable"])
def test_the_product_of_nadam_goes_behind_its_slots(tmp_path: Path, ckpt: Callable, product: str) -> None:
    """Keras with JAX and with TensorFlow gives it different paths."""
    arrays = {f"nadam/{name}": array for name, array in COUNT.items()} | numbered_slots("nadam")
    nadam = optimizer_of("Nadam", name="nadam", learning_rate=0.5)
    step = step_of(tmp_path / "0", nadam, arrays | {product: np.array(0.25, np.float32)})
    file = tmp_path / "model.weights.h5"
    done = ckpt("convert", step, file)
    assert done.code == 0, done.err
    with formats.open_checkpoint(file) as reader:
        assert reader["optimizer/vars/10"].read() == 0.25
        assert reader["optimizer/vars/0"].read() == 7
    assert ckpt("convert", file, tmp_path / "3", "--like", step).code == 0
    assert ckpt("diff", step, tmp_path / "3", "--exclude", "*/metrics_variables/*").code == 0


@pytest.mark.parametrize("slots", ["adam", "loss_scale_optimizer/adam"])
def test_an_optimizer_that_scales_losses_is_converted(tmp_path: Path, ckpt: Callable, slots: str) -> None:
    """Keras' file lists the inner optimizer twice."""
    scaler = {f"loss_scale_optimizer/{name}": array for name, array in COUNT.items()}
    scaler["loss_scale_optimizer/step_counter"] = np.array(3, np.int64)
    scaler["loss_scale_optimizer/dynamic_scale"] = np.array(1024.0)
    arrays = {f"adam/{name}": array + 1 for name, array in COUNT.items()} | numbered_slots(slots)
    told = optimizer_of("LossScaleOptimizer", name="loss_scale_optimizer", inner_optimizer=ADAM)
    step = step_of(tmp_path / "0", told, scaler | arrays)
    file = tmp_path / "model.weights.h5"
    done = ckpt("convert", step, file)
    assert done.code == 0, done.err
    with formats.open_checkpoint(file) as reader:
        numbers = [float(reader[f"optimizer/vars/{at}"].read()) for at in range(6)]
        assert numbers == [7, 0.5, 3, 1024, 8, 1.5]
        for at in range(10):
            inner = reader[f"optimizer/inner_optimizer/vars/{at}"].read()
            assert np.array_equal(inner, reader[f"optimizer/vars/{at + 4}"].read())
    assert ckpt("convert", file, tmp_path / "3", "--like", step).code == 0
    assert ckpt("diff", step, tmp_path / "3", "--exclude", "*/metrics_variables/*").code == 0


def test_weights_alone_fill_a_step_that_keeps_its_optimizer(tmp_path: Path, ckpt: Callable) -> None:
    weights = tmp_path / "model.weights.h5"
    assert ckpt("convert", KERAS, weights, "--weights-only").code == 0
    done = ckpt("convert", weights, tmp_path / "3", "--like", KERAS)
    assert done.code == 3
    assert "gets no value" in done.err
    assert not (tmp_path / "3").exists()
    assert ckpt("convert", weights, tmp_path / "3", "--like", KERAS, "--keep-optimizer").code == 0
    assert len(ckpt("ls", tmp_path / "3").rows) == len(PLACES)


def test_a_model_of_another_shape_does_not_fill_a_step(tmp_path: Path, ckpt: Callable) -> None:
    weights = tmp_path / "model.weights.h5"
    assert ckpt("convert", KERAS, weights).code == 0
    with h5py.File(weights, "r+") as file:
        held = file["layers/dense/vars"]
        shape = held["0"].shape
        del held["0"]
        held["0"] = np.zeros((shape[0], shape[1] + 1), np.float32)
    done = ckpt("convert", weights, tmp_path / "3", "--like", KERAS)
    assert done.code == 3
    assert "shape" in done.err
    assert not (tmp_path / "3").exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('\\"name\\": \\"d\\"', '\\"name\\": \\"e\\"', "'e/kernel' is missing"),
        ("Adam", "Mine", "does not belong to a layer or an optimizer that ckpt knows"),
    ],
)
def test_a_step_that_does_not_fit_its_configuration_is_rejected(
    tmp_path: Path, ckpt: Callable, old: str, new: str, words: str
) -> None:
    shutil.copytree(KERAS, tmp_path / "0")
    texts = tmp_path / "0" / "model_config" / "_strings.json"
    assert old in texts.read_text()
    texts.write_text(texts.read_text().replace(old, new))
    done = ckpt("convert", tmp_path / "0", tmp_path / "model.keras")
    assert done.code == 3
    assert words in done.err
    assert not (tmp_path / "model.keras").exists()


# Elsewhere ------------------------------------------------------------------------


def everywhere() -> dict[str, bytes]:
    """Return the files of a tree, a run and a file of Flax, by their paths."""
    found = Web()
    for sample in ("new/pytree", "new/unfinished", "new/flax_msgpack"):
        found.put_tree(data_path("orbax", sample))
    return {name.lstrip("/"): data for name, data in found.files.items()}


def are_read(ckpt: Callable, tree: str, step: str, flax: str) -> None:
    """Compare the content of these paths with the samples."""
    places = {
        tree: data_path("orbax", "new/pytree"),
        step: data_path("orbax", "new/unfinished/2"),
        flax: data_path("orbax", "new/flax_msgpack/flax_model.msgpack"),
    }
    for place, sample in places.items():
        assert ckpt("ls", "-l", place).rows == ckpt("ls", "-l", sample).rows
        assert ckpt("diff", place, sample).code == 0
        assert ckpt("verify", place).code == 0


def test_checkpoints_are_read_from_a_web_server(ckpt: Callable) -> None:
    web = Web()
    web.files.update({f"/{name}": data for name, data in everywhere().items()})
    with serving(web):
        flax = f"{web.url}/flax_msgpack/flax_model.msgpack"
        are_read(ckpt, f"{web.url}/pytree/_METADATA", f"{web.url}/unfinished/2/_CHECKPOINT_METADATA", flax)


def test_checkpoints_are_read_from_the_hub(ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    hub.files.update(everywhere())
    with serving_hub(hub):
        monkeypatch.setenv("HF_ENDPOINT", hub.web.url)
        root = "hf://org/repo"
        are_read(ckpt, f"{root}/pytree", f"{root}/unfinished/2", f"{root}/flax_msgpack/flax_model.msgpack")
        found = ckpt("ls", "--json", f"{root}/unfinished").json
        assert ([row["name"] for row in found["checkpoints"]], found["latest"]) == (["2"], "2")


def test_checkpoints_are_read_from_git(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = Repository(tmp_path / "repository")
    for name, data in everywhere().items():
        path = repository.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    repository.commit("one")
    for name in ("pytree", "unfinished", "flax_msgpack"):
        shutil.rmtree(repository.folder / name)
    monkeypatch.chdir(repository.folder)
    are_read(ckpt, "HEAD:pytree", "HEAD:unfinished/2", "HEAD:flax_msgpack/flax_model.msgpack")
    found = ckpt("ls", "--json", "HEAD:unfinished").json
    assert ([row["name"] for row in found["checkpoints"]], found["latest"]) == (["2"], "2")


def _of_chunks(tmp_path: Path, ckpt: Callable) -> Path:
    """Write a tree whose tensors are several compressed chunks."""
    rows = np.arange(4096, dtype=np.float32).reshape(64, 64)
    np.savez(tmp_path / "rows.npz", **{"params/a": rows, "params/b": rows + 1})
    options = ("--to", "orbax", "--compress", "zstd", "--shard-size", "4096")
    assert ckpt("convert", tmp_path / "rows.npz", tmp_path / "tree", *options).code == 0
    return tmp_path / "tree"


def test_chunks_are_decoded_once_to_be_written_and_verified(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, decoded = _of_chunks(tmp_path, ckpt), []
    decode = zarr.decompress_into
    monkeypatch.setattr(zarr, "decompress_into", lambda data, out: decoded.append(data) or decode(data, out))
    assert ckpt("convert", source, tmp_path / "a.safetensors", "-j", "1").code == 0
    assert len(decoded) == 8
    assert ckpt("convert", source, tmp_path / "b.safetensors", "-j", "1", "--verify", "none").code == 0
    assert len(decoded) == 16
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_what_is_written_otherwise_than_it_was_decoded_is_found(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _of_chunks(tmp_path, ckpt)
    write = Placement.write

    def flipped(self: Placement, at: int, data: bytes) -> None:
        write(self, at, bytes(data)[:-1] + bytes([data[-1] ^ 1]))

    monkeypatch.setattr(Placement, "write", flipped)
    done = ckpt("convert", source, tmp_path / "a.safetensors", "-j", "1")
    assert done.code == 3
    assert "verification failed" in done.err
    assert not (tmp_path / "a.safetensors").exists()


@pytest.mark.parametrize("to", ["orbax", "flax"])
def test_a_tree_made_from_a_keras_file_is_not_called_a_step_of_keras(
    to: str, tmp_path: Path, ckpt: Callable
) -> None:
    done = ckpt("convert", data_path("keras3_mlp", "mlp.keras"), tmp_path / f"tree.{to}", "--to", to)
    assert done.code == 0
    assert "note: Keras cannot load this tree; to write a step that Keras resumes" in done.err
