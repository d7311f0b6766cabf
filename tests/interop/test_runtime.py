"""The same programs run by TensorFlow and by the runtime: the same files, and each continues the other's."""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from tests.interop import described, edges, programs, signatures
from tests.interop.known_answers import read_expressions, read_losses
from tests.runtime.test_edges import difference
from tests.runtime.test_json import assert_outputs
from tests.runtime.test_json import recorded as recorded_models
from tests.runtime.test_known_answers import assert_close, assert_evaluated
from tests.runtime.test_masks import assert_same
from tests.runtime.test_masks import recorded as recorded_masks
from tests.runtime.test_optimizers import recorded
from tests.support import digest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

# Float32 over a few steps; Adam's first steps divide by what is nearly zero.
CLOSE = {"rtol": 2e-4, "atol": 2e-5}


def ours(program: str, **arguments: Any) -> Any:
    return getattr(programs, program)(tf, tf.keras, **arguments)


def theirs(tensorflow: TensorFlow, program: str, **arguments: Any) -> Any:
    return tensorflow.ask("runtime", "run", program=program, arguments=arguments)


def folder(path: Path, name: str) -> str:
    made = path / name
    made.mkdir()
    return str(made)


def laid_out(path: str) -> Any:
    """Return the object graph, and keys, dtypes and shapes in the order of the file."""
    with formats.open_checkpoint(path) as reader:
        stored = sorted(reader.items(), key=lambda item: item[1].stored.offset)
        tensors = [(key, tensor.spec.dtype.name, tensor.spec.shape) for key, tensor in stored]
        return reader.object_graph.encode(), tensors


MODELS = [
    "attention", "convolution", "convolutions", "embedding", "masked", "masked_rows", "mixed", "net",
    "recurrent", "sequential", "tower",
]  # fmt: skip
RUNS = [(model, "adam") for model in MODELS] + [
    ("sequential", name) for name in sorted(programs.optimizers(tf.keras)) if name != "adam"
]


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])  # 2.21 comes without Keras 2
@pytest.mark.parametrize(("model", "optimizer"), RUNS)
def test_training_is_tensorflows(tensorflow: TensorFlow, model: str, optimizer: str, tmp_path: Path) -> None:
    """Losses, object graph, keys and their order; and each side continues from the other's checkpoint."""
    what = {"model": model, "optimizer": optimizer}
    mine = ours("train_and_save", directory=folder(tmp_path, "ours"), **what)
    other = theirs(tensorflow, "train_and_save", directory=folder(tmp_path, "theirs"), **what)
    np.testing.assert_allclose(mine["losses"] + mine["then"], other["losses"] + other["then"], **CLOSE)
    graph, tensors = laid_out(mine["path"])
    expected_graph, expected_tensors = laid_out(other["path"])
    assert tensors == expected_tensors
    assert graph == expected_graph

    continued = theirs(tensorflow, "restore_and_train", path=mine["path"], **what)
    np.testing.assert_allclose(continued["losses"], mine["then"], **CLOSE)
    continued = ours("restore_and_train", path=other["path"], **what)
    np.testing.assert_allclose(continued["losses"], other["then"], **CLOSE)


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
@pytest.mark.parametrize("suffix", ["", ".h5", ".weights.h5"])
@pytest.mark.parametrize("model", MODELS)
def test_weight_files_go_both_ways(tensorflow: TensorFlow, model: str, suffix: str, tmp_path: Path) -> None:
    """In TensorFlow's form and both of HDF5; datasets and their places are Keras'."""
    mine, other = (os.path.join(folder(tmp_path, side), f"w{suffix}") for side in ("ours", "theirs"))
    saved = ours("weights", model=model, path=mine, save=True)
    assert theirs(tensorflow, "weights", model=model, path=other, save=True) == saved
    assert theirs(tensorflow, "weights", model=model, path=mine, save=False) == saved
    assert ours("weights", model=model, path=other, save=False) == saved
    if suffix:
        assert datasets(mine) == datasets(other)


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
def test_recorded_steps_are_tensorflows(tensorflow: TensorFlow) -> None:
    """The recorded steps of optimizers are those that TensorFlow computes."""
    for row in recorded():
        what = {name: row[name] for name in ("optimizer", "legacy", "settings")}
        found = theirs(tensorflow, "optimizer_steps", **what)
        assert found["variables"] == row["variables"]
        np.testing.assert_allclose(found["values"], row["values"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
def test_recorded_masks_are_tensorflows(tensorflow: TensorFlow) -> None:
    """The recorded layers, losses and metrics with masks are those that TensorFlow computes."""
    found = tensorflow.ask("runtime", "masks")
    assert list(found) == list(recorded_masks())
    for name, row in recorded_masks().items():
        assert_same(found[name], row)


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
def test_json_texts_go_both_ways(tensorflow: TensorFlow) -> None:
    """The recorded JSON is Keras', and Keras builds the same models from the runtime's JSON."""
    texts, written = recorded_models(), tensorflow.ask("runtime", "json_texts")
    assert list(written) == list(texts)
    for name, row in texts.items():
        assert written[name]["text"] == row["text"]
        assert_outputs(written[name]["outputs"], row["outputs"])  # the last digit is a processor's own
        mine = described.written(tf, name)
        found = tensorflow.ask("runtime", "read_json", name=name, text=mine["text"])
        assert json.loads(found["text"]) == json.loads(row["text"])
        assert_outputs(found["outputs"], row["outputs"])


def datasets(path: str) -> dict[str, Any]:
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: getattr(item, "shape", None)}))
    return found


@pytest.mark.parametrize("model", MODELS)
def test_every_release_restores_what_was_saved(tensorflow: TensorFlow, model: str, tmp_path: Path) -> None:
    """Into plain objects that hang together as the saved ones did; nothing is left over on either side."""
    mine = ours("train_and_save", model=model, optimizer="adam", directory=str(tmp_path))
    with formats.open_checkpoint(mine["path"]) as reader:
        expected = {key: digest(reader[key].read()) for key in reader if key.endswith("VARIABLE_VALUE")}
    assert tensorflow.ask("runtime", "mirrored", path=mine["path"]) == expected


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
def test_savers_without_sessions(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """The same bytes, and each side restores the other's."""
    mine = ours("save_by_name", directory=folder(tmp_path, "ours"))
    other = theirs(tensorflow, "save_by_name", directory=folder(tmp_path, "theirs"))
    for suffix in (".index", ".data-00000-of-00001"):
        with open(mine + suffix, "rb") as one, open(other + suffix, "rb") as two:
            assert one.read() == two.read(), suffix
    assert ours("restore_by_name", path=other) == theirs(tensorflow, "restore_by_name", path=mine)


def test_containers(tensorflow: TensorFlow, tmp_path: Path) -> None:
    mine = ours("containers", directory=folder(tmp_path, "ours"))
    other = theirs(tensorflow, "containers", directory=folder(tmp_path, "theirs"))
    for which in ("path", "rooted"):
        for suffix in (".index", ".data-00000-of-00001"):
            with open(mine[which] + suffix, "rb") as one, open(other[which] + suffix, "rb") as two:
                assert one.read() == two.read(), which + suffix
    expected = ours("restore_containers", **other)
    assert expected["values"] == [3.0, 5.0, 6.0, 8.0, 9.0, 10.0, 11.0, 15.0, 13.0, 13.0, 3.0, 16.0]
    assert expected["vector"] == [14]
    assert theirs(tensorflow, "restore_containers", **mine) == expected


def test_state_files_go_both_ways(tensorflow: TensorFlow, tmp_path: Path) -> None:
    directory = str(tmp_path)
    checkpoint = tf.train.Checkpoint(v=tf.Variable(2.0))
    manager = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2)
    for _ in range(3):
        manager.save()
    paths = [os.path.join(directory, f"ckpt-{number}") for number in (2, 3)]
    assert tensorflow.ask("runtime", "latest", directory=directory) == paths[-1]
    assert tensorflow.ask("runtime", "state", directory=directory) == [paths[-1], paths, 2]
    before, latest, after = tensorflow.ask("runtime", "managed", directory=directory, saves=1)
    assert (before, latest) == (paths, paths[-1])
    again = tf.train.CheckpointManager(checkpoint, directory, max_to_keep=2)
    assert again.checkpoints == after == [paths[-1], os.path.join(directory, "ckpt-4")]


def test_recorded_expressions_are_tensorflows(tensorflow: TensorFlow) -> None:
    """The recorded operations are those that both releases compute."""
    for text, row in read_expressions().items():
        assert_evaluated(tensorflow.ask("runtime", "evaluate", text=text), row)


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
def test_recorded_losses_are_tensorflows(tensorflow: TensorFlow) -> None:
    found, recorded = tensorflow.ask("runtime", "losses"), read_losses()
    assert list(found) == list(recorded)
    for name, row in recorded.items():
        assert_close(name, found[name], row)


def test_what_comes_of_a_restore_is_what_tensorflow_says(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """Fifteen trees into each other: errors, the three assertions, and every value."""
    paths = ours("save_trees", directory=folder(tmp_path, "ours"))
    expected = theirs(tensorflow, "verdicts", paths=paths)
    found = ours("verdicts", paths=paths)
    assert len(found) == 15 * 15
    assert expected["wider > flat"] == ["ValueError"]
    assert expected["flat > more"][:3] == [False, False, True]
    assert expected["flat > less"] == [False, True, True, 1.0]
    assert {name: told for name, told in found.items() if told != expected[name]} == {}


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
@pytest.mark.parametrize("family", edges.families())
def test_recorded_edges_are_tensorflows(tensorflow: TensorFlow, family: str) -> None:
    """The recorded values and errors of edge cases are TensorFlow's."""
    programs = edges.cases(family)
    found = tensorflow.ask("runtime", "edges", programs=list(programs.values()))
    for title, program in programs.items():
        assert not difference(found[program], edges.read_answers(family)[program]), title


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
def test_recorded_signatures_are_tensorflows(tensorflow: TensorFlow) -> None:
    names = sorted(signatures.public_names())
    assert tensorflow.ask("runtime", "signatures", names=names) == signatures.read()


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
def test_an_interrupted_fit_continues_on_the_other_side(tensorflow: TensorFlow, tmp_path: Path) -> None:
    """BackupAndRestore of either side restores epoch, batch, weights and optimizer of the other's."""
    runs = []
    for first, then in (
        (ours, functools.partial(theirs, tensorflow)),
        (functools.partial(theirs, tensorflow), ours),
    ):
        directory = folder(tmp_path, f"run{len(runs)}")
        first("backed_up", directory=directory, stop=5)
        runs.append(then("backed_up", directory=directory, stop=99))
        assert not os.path.isdir(os.path.join(directory, "chief"))
    np.testing.assert_allclose(runs[0]["losses"], runs[1]["losses"], **CLOSE)
    for one, other in zip(runs[0]["weights"], runs[1]["weights"], strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


def _settings(path: str) -> Any:
    """Return what a file says of a model and of how it is trained."""
    with formats.open_checkpoint(path) as reader:
        facts = reader.facts
        return [
            _unshared(json.loads(text)) if text else None for text in (facts.config, facts.training_config)
        ]


def _unshared(value: Any) -> Any:
    """Leave out addresses in memory, which show that two layers share an initializer."""
    if isinstance(value, dict):
        return {key: _unshared(one) for key, one in value.items() if key != "shared_object_id"}
    return list(map(_unshared, value)) if isinstance(value, list) else value


WHOLE = {"rtol": 5e-4, "atol": 5e-5}  # large steps of Adam


@pytest.mark.parametrize("tensorflow", ["2.15"], indirect=True, ids=["tf2.15"])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("name", programs.whole_models(tf.keras))
def test_whole_models_go_both_ways(tensorflow: TensorFlow, name: str, suffix: str, tmp_path: Path) -> None:
    """Configurations, datasets and their places are Keras'; each side trains on from the other's file."""
    mine, other = (os.path.join(folder(tmp_path, side), f"m{suffix}") for side in ("ours", "theirs"))
    saved = ours("save_whole", name=name, path=mine, steps=2)
    expected = theirs(tensorflow, "save_whole", name=name, path=other, steps=2)
    assert _settings(mine) == _settings(other)
    if suffix == ".h5":
        assert datasets(mine) == datasets(other)
    for key in ("before", "outputs", "then"):
        np.testing.assert_allclose(saved[key], expected[key], **WHOLE)
    for path in (mine, other):
        there, here = theirs(tensorflow, "load_whole", path=path), ours("load_whole", path=path)
        assert json.loads(here.pop("text")) == json.loads(there.pop("text"))
        np.testing.assert_allclose(here.pop("outputs"), expected["outputs"], **WHOLE)
        np.testing.assert_allclose(there.pop("outputs"), expected["outputs"], **WHOLE)
        then = here.pop("then"), there.pop("then")
        np.testing.assert_allclose(*then, **WHOLE)
        if (name, suffix) != ("older", ".keras"):  # Keras does not store these optimizers there
            np.testing.assert_allclose(then[0], expected["then"], **WHOLE)
        assert here == there


@pytest.mark.parametrize("tensorflow", ["2.21"], indirect=True, ids=["tf2.21"])
@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize("name", programs.whole_models(tf.keras))
def test_whole_models_of_keras_3_are_trained_on(
    tensorflow: TensorFlow, name: str, suffix: str, tmp_path: Path
) -> None:
    path = str(tmp_path / f"m{suffix}")
    expected = theirs(tensorflow, "save_whole", name=name, path=path, steps=2)
    found = ours("load_whole", path=path)
    np.testing.assert_allclose(found["outputs"], expected["outputs"], **CLOSE)
    np.testing.assert_allclose(found["then"], expected["then"], **CLOSE)
