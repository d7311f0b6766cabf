"""`ckpt verify --trains-like` where a configuration describes the model and its optimizer."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import ckpt_cli.runtime as tf
import formats
from formats.keras.facts import keras_facts
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

K, L = tf.keras, tf.keras.layers

TRAINED = ("keras_mlp/mlp.with_optimizer.h5", "keras3_mlp/mlp.keras", "keras3_mlp/mlp.legacy.h5")
"""Fixtures with the configurations of a model and of its optimizer, all of one model with ten weights."""
VARIABLES = 10 + 1 + 2 * 8

CONV = {
    "class_name": "Sequential",
    "config": {
        "name": "net",
        "layers": [
            {"class_name": "InputLayer", "config": {"name": "i", "batch_input_shape": [None, 4, 4, 2]}},
            {
                "class_name": "Conv2D",
                "config": {"name": "conv", "filters": 3, "kernel_size": [3, 3], "padding": "same"},
            },
            {"class_name": "Flatten", "config": {"name": "flat"}},
            {"class_name": "Dense", "config": {"name": "head", "units": 2, "activation": "tanh"}},
        ],
    },
}


@pytest.mark.parametrize("path", TRAINED)
@pytest.mark.parametrize("target", ["c-1", "c.weights.h5", "c.h5", "c.keras"])
def test_training_continues_after_a_conversion(
    path: str, target: str, tmp_path: Path, ckpt: Callable
) -> None:
    source = data_path(path)
    if target == "c.keras" and path != "keras3_mlp/mlp.keras":
        archive = data_path("keras3_mlp", "mlp.keras")
        assert ckpt("convert", source, tmp_path / target, "--config", archive).code == 0
    else:
        assert ckpt("convert", source, tmp_path / target).code == 0
    result = ckpt("verify", "--json", tmp_path / target, "--trains-like", source)
    assert result.code == 0, result.err
    (found,) = result.json["results"]
    expected = {"like": source, "variables": VARIABLES, "differing": 0, "first": None, "optimizer": "Adam"}
    assert found["training"] == expected


def _trained(folder: Path, optimizer: tf.keras.optimizers.Optimizer, ckpt: Callable) -> Path:
    """Return a whole model in HDF5 after a step: what Keras would write, its training configuration, too."""
    K.backend.clear_session()
    tf.random.set_seed(3)
    model = K.Sequential(
        [
            L.Input([4, 4, 2]),
            L.Conv2D(3, 3, padding="same", name="conv"),
            L.Flatten(),
            L.Dense(2, activation="tanh", name="head"),
        ]
    )
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(np.ones((2, 4, 4, 2), "f4")) ** 2)
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer).save(folder / "a")
    config, whole = folder / "net.json", folder / "whole.h5"
    config.write_text(json.dumps(CONV))
    converted = ckpt("convert", saved, whole, "--config", config)
    assert converted.code == 0, converted.err
    told = {"class_name": f"Custom>{type(optimizer).__name__}", "config": optimizer.get_config()}
    with h5py.File(whole, "r+") as file:
        file.attrs["training_config"] = json.dumps({"loss": "mse", "optimizer_config": told}, default=float)
    return whole


OPTIMIZERS = {
    "Adam": (lambda: K.optimizers.Adam(0.1), 2),
    "amsgrad": (lambda: K.optimizers.Adam(0.1, amsgrad=True, weight_decay=0.01), 3),
    "SGD": (lambda: K.optimizers.SGD(0.1, clipnorm=1.0), 1),
    "nesterov": (lambda: K.optimizers.SGD(0.1, momentum=0.5, nesterov=True), 1),
    "RMSprop": (lambda: K.optimizers.RMSprop(0.1), 1),
    "centered": (lambda: K.optimizers.RMSprop(0.1, momentum=0.5, centered=True), 3),
    "Adagrad": (lambda: K.optimizers.Adagrad(0.1), 1),
    "legacy Adam": (lambda: K.optimizers.legacy.Adam(0.1, decay=0.01), 2),
    "legacy amsgrad": (lambda: K.optimizers.legacy.Adam(0.1, amsgrad=True), 3),
    "legacy SGD": (lambda: K.optimizers.legacy.SGD(0.1), 0),
    "legacy momentum": (lambda: K.optimizers.legacy.SGD(0.1, momentum=0.5), 1),
    "legacy RMSprop": (lambda: K.optimizers.legacy.RMSprop(0.1, momentum=0.5, centered=True), 3),
    "legacy Adagrad": (lambda: K.optimizers.legacy.Adagrad(0.1), 1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_through_an_object_graph(name: str, tmp_path: Path, ckpt: Callable) -> None:
    make, slots = OPTIMIZERS[name]
    optimizer = make()
    whole = _trained(tmp_path, optimizer, ckpt)
    assert ckpt("convert", whole, tmp_path / "b-1").code == 0
    result = ckpt("verify", "--json", tmp_path / "b-1", "--trains-like", whole)
    assert result.code == 0, result.err
    training = result.json["results"][0]["training"]
    assert (training["variables"], training["optimizer"]) == (4 + 1 + 4 * slots, type(optimizer).__name__)
    with h5py.File(whole, "r+") as file:
        slot = file["optimizer_weights"]
        slot.visititems(lambda _, held: held.write_direct(np.full_like(held, 7)) if _is_array(held) else None)
    result = ckpt("verify", "--json", tmp_path / "b-1", "--trains-like", whole)
    assert (result.code, "Traceback" in result.err) == (1, False)
    assert result.json["results"][0]["training"]["differing"] > 0


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_through_weights(name: str, tmp_path: Path, ckpt: Callable) -> None:
    """State is carried there and back; the legacy ones' as that of those since Keras 2.11, which load it."""
    whole = _trained(tmp_path, OPTIMIZERS[name][0](), ckpt)
    weights, back = tmp_path / "b.weights.h5", tmp_path / "back.h5"
    plan = ckpt("convert", "--json", whole, weights, "--config", whole).json
    assert plan["dropped"] == []
    with formats.open_checkpoint(str(weights)) as reader:
        ranks = [len(reader.specs[key].shape) for key in reader.specs if key.startswith("optimizer/vars/")]
    assert ranks.count(0) <= 2  # the steps and Nadam's product: what is made up has the variable's shape
    if name.startswith("legacy"):
        return
    found = ckpt("verify", weights, "--trains-like", whole)
    assert found.code == 0, found.err
    assert ckpt("convert", weights, back, "--config", whole).code == 0
    with formats.open_checkpoint(str(whole)) as first, formats.open_checkpoint(str(back)) as second:
        told = [keras_facts(reader.facts).optimizer for reader in (first, second)]
        keys = [group.keys if group is not None else [] for group in told]
        assert keys[0] == keys[1]
        assert all((first[key].read() == second[key].read()).all() for key in keys[0])


def test_slots_that_nothing_distinguishes_are_rejected(tmp_path: Path, ckpt: Callable) -> None:
    """Next to Adam's two there is a third for each variable: of amsgrad, or an average of the variable."""
    whole = _trained(tmp_path, K.optimizers.Adam(0.1, amsgrad=True), ckpt)
    weights, described = tmp_path / "b.weights.h5", tmp_path / "config.json"
    assert ckpt("convert", whole, weights).code == 0  # as Keras 3 lists them
    with formats.open_checkpoint(str(whole)) as reader:
        facts = keras_facts(reader.facts)
    described.write_text(facts.config or "")
    refused = ckpt("convert", weights, tmp_path / "b-1", "--config", described)
    assert (refused.code, "--config with a file of the compiled model" in refused.err) == (3, True)
    assert ckpt("convert", weights, tmp_path / "b-1", "--config", whole).code == 0


def _is_array(held: object) -> bool:
    return isinstance(held, h5py.Dataset)


def test_another_learning_rate_is_found(tmp_path: Path, ckpt: Callable) -> None:
    source, changed = data_path(TRAINED[2]), tmp_path / "changed.h5"
    shutil.copy(source, changed)
    with h5py.File(changed, "r+") as file:
        file["optimizer_weights/adam/learning_rate"][()] = 0.5
    result = ckpt("verify", "--json", changed, "--trains-like", source)
    assert result.code == 1
    assert [finding["code"] for finding in result.json["results"][0]["findings"]] == ["training"]


def _with_settings(folder: Path, change: dict[str, object], class_name: str = "Custom>Adam") -> Path:
    path = folder / "told.h5"
    shutil.copy(data_path(TRAINED[0]), path)
    with h5py.File(path, "r+") as file:
        told = json.loads(file.attrs["training_config"])
        told["optimizer_config"]["class_name"] = class_name
        told["optimizer_config"]["config"] |= change
        file.attrs["training_config"] = json.dumps(told)
    return path


@pytest.mark.parametrize(
    ("class_name", "change", "message"),
    [
        ("Custom>Lamb", {}, "optimizer 'Lamb' is not supported"),
        ("Adam", {"use_ema": True}, "optimizer 'Adam' with use_ema=True is not supported"),
        ("Adam", {"decay": 0.5}, "optimizer 'Adam' with decay=0.5 is not supported"),
        (
            "Adam",
            {"learning_rate": {"class_name": "CosineDecay"}},
            "with learning_rate={'class_name': 'CosineDecay'} is not",
        ),
        ("Adam", {"clipnorm": 1.0, "global_clipnorm": 1.0}, "the optimizer 'Adam' cannot be created"),
        ("Adam", {"amsgrad": True}, "the 16 slots do not fit Adam and this model"),
        ("SGD", {}, "optimizer 'SGD' with beta_1=0.9 is not supported"),
        ("Adam", {"beta_1": "many"}, "optimizer 'Adam' with beta_1='many' is not supported"),
    ],
)
def test_what_is_not_known_is_named(
    class_name: str, change: dict[str, object], message: str, tmp_path: Path, ckpt: Callable
) -> None:
    path = _with_settings(tmp_path, change, class_name)
    result = ckpt("verify", path, "--trains-like", path)
    assert (result.code, "Traceback" in result.err) == (3, False)
    assert message in result.err
    assert "ckpt cannot take a training step: " in result.err


@pytest.mark.parametrize("target", ["lost.npz", "lost-1"])
def test_state_that_is_missing_is_named(target: str, tmp_path: Path, ckpt: Callable) -> None:
    source = data_path(TRAINED[0])
    assert ckpt("convert", source, tmp_path / target, "--weights-only").code == 0
    result = ckpt("verify", tmp_path / target, "--trains-like", source)
    assert result.code == 3
    assert "ckpt cannot take a training step: this file has no optimizer state" in result.err
