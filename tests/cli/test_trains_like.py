"""`ckpt verify --trains-like`: whether training continues from two checkpoints in the same way."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ckpt_cli.runtime as tf
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

K, L = tf.keras, tf.keras.layers
GUIDE = [("guide_adam_legacy", 7), ("guide_adam_new", 7), ("guide_adam_keras3", 7)]


@pytest.mark.parametrize(("folder", "variables"), GUIDE)
@pytest.mark.parametrize("suffix", ["_object", "_name", "_v1", ".npz", ".safetensors", "_hdf5"])
def test_training_continues_after_a_conversion_and_back(
    folder: str, variables: int, suffix: str, tmp_path: Path, ckpt: Callable
) -> None:
    source, middle, back = data_path(folder, "tf_ckpts", "ckpt-10"), tmp_path / f"m{suffix}", tmp_path / "b-1"
    to = ["--to", suffix[1:]] if suffix.startswith("_") else []
    assert ckpt("convert", source, middle, *to).code == 0
    assert ckpt("convert", middle, back, "--like", source).code == 0
    result = ckpt("verify", "--json", back, "--trains-like", source)
    assert result.code == 0, result.err
    (found,) = result.json["results"]
    assert (found["training"]["variables"], found["training"]["differing"]) == (variables, 0)
    assert found["training"]["optimizer"] == "Adam"


@pytest.mark.parametrize(("folder", "variables"), GUIDE)
def test_another_step_trains_otherwise(folder: str, variables: int, ckpt: Callable) -> None:
    left, right = (data_path(folder, "tf_ckpts", name) for name in ("ckpt-9", "ckpt-10"))
    result = ckpt("verify", "--json", left, "--trains-like", right)
    assert result.code == 1
    (found,) = result.json["results"]
    assert [finding["code"] for finding in found["findings"]] == ["training"]
    assert found["training"]["differing"] == variables


def _save(prefix: Path, model: tf.keras.Model, optimizer: object, shape: tuple[int, ...]) -> str:
    """Save a model and its optimizer after one step."""
    K.backend.clear_session()
    tf.random.set_seed(3)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(np.ones((2, *shape), "f4")) ** 2)
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return tf.train.Checkpoint(model=model, optimizer=optimizer).save(prefix)


def _stack() -> tf.keras.Model:
    return K.Sequential([L.Input([4, 4, 2]), L.Conv2D(3, 3, padding="same"), L.Flatten(), L.Dense(2)])


@pytest.mark.parametrize(
    ("make", "slots"),
    [
        (lambda: K.optimizers.Adam(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.SGD(0.1), 4 + 1),
        (lambda: K.optimizers.RMSprop(0.1), 4 + 1),
        (lambda: K.optimizers.RMSprop(0.1, momentum=0.5, centered=True), 3 * 4 + 1),
        (lambda: K.optimizers.Adagrad(0.1), 4 + 1),
        (lambda: K.optimizers.AdamW(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.Adamax(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.Nadam(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.Adadelta(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.Ftrl(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.Lion(0.1), 4 + 1),
        (lambda: K.optimizers.legacy.Adamax(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.legacy.Nadam(0.1), 2 * 4 + 2),
        (lambda: K.optimizers.legacy.Adadelta(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.legacy.Ftrl(0.1), 2 * 4 + 1),
        (lambda: K.optimizers.legacy.Adam(0.1, amsgrad=True), 3 * 4 + 1),
        (lambda: K.optimizers.legacy.SGD(0.1), 1),
        (lambda: K.optimizers.legacy.SGD(0.1, momentum=0.5), 4 + 1),
        (lambda: K.optimizers.legacy.RMSprop(0.1, momentum=0.5), 2 * 4 + 1),
        (lambda: K.optimizers.legacy.RMSprop(0.1, centered=True), 2 * 4 + 1),
        (lambda: K.optimizers.legacy.Adagrad(0.1), 4 + 1),
    ],
)
def test_every_optimizer_of_a_stack_with_images(
    make: Callable, slots: int, tmp_path: Path, ckpt: Callable
) -> None:
    path = _save(tmp_path / "a", _stack(), make(), (4, 4, 2))
    result = ckpt("verify", "--json", path, "--trains-like", path)
    assert result.code == 0, result.err
    training = result.json["results"][0]["training"]
    assert (training["differing"], training["variables"]) == (0, 4 + slots)


def optimized(family: str, name: str, saved: str = "ckpt-3") -> str:
    return data_path("optimizers", family, name, saved)


@pytest.mark.parametrize("target", ["tf1", "legacy", "new", "k3"])
@pytest.mark.parametrize("source", ["tf1", "legacy", "new", "k3"])
def test_one_state_in_two_generations_takes_one_step(
    source: str, target: str, tmp_path: Path, ckpt: Callable
) -> None:
    """Names have their layers, objects of Keras 3 their kernels under other names; the step is the same."""
    first, fresh = optimized(source, "adam"), optimized(target, "adam", "fresh-1")
    assert ckpt("convert", first, tmp_path / "a-3", "--like", fresh).code == 0
    result = ckpt("verify", "--json", tmp_path / "a-3", "--trains-like", first)
    assert result.code == 0, result.err
    training = result.json["results"][0]["training"]
    assert (training["differing"], training["variables"], training["optimizer"]) == (0, 19, "Adam")
    assert ckpt("verify", fresh, "--trains-like", first).code == 1


def test_a_slot_of_names_that_was_lost_is_found(tmp_path: Path, ckpt: Callable) -> None:
    rules = ["--sub", "/Adam$=>/x", "--sub", "/Adam_1$=>/Adam", "--sub", "/x$=>/Adam_1"]
    assert ckpt("rename", optimized("tf1", "adam"), tmp_path / "swapped-3", *rules).code == 0
    result = ckpt("verify", tmp_path / "swapped-3", "--trains-like", optimized("tf1", "adam"))
    assert result.code == 1, result.err


@pytest.mark.parametrize("family", ["legacy", "new", "k3"])
def test_momentum_of_names_is_turned_by_the_rate_of_the_other(
    family: str, tmp_path: Path, ckpt: Callable
) -> None:
    first, fresh = optimized("tf1", "momentum"), optimized(family, "momentum", "fresh-1")
    assert ckpt("convert", first, tmp_path / "a-3", "--like", fresh).code == 0
    result = ckpt("verify", tmp_path / "a-3", "--trains-like", first)
    assert result.code == 0, result.err


def test_another_optimizer_is_named(ckpt: Callable) -> None:
    result = ckpt("verify", optimized("new", "adam"), "--trains-like", optimized("new", "rmsprop"))
    assert result.code == 3
    assert "the optimizer is Adam" in result.err
    assert "has RMSprop" in result.err


@pytest.mark.parametrize("slot", ["m", "v", "learning_rate"])
def test_state_that_was_lost_is_found(slot: str, tmp_path: Path, ckpt: Callable) -> None:
    optimizer, model = K.optimizers.legacy.Adam(0.1), _stack()
    first = _save(tmp_path / "a", model, optimizer, (4, 4, 2))
    if slot == "learning_rate":
        optimizer.learning_rate = 0.2
    else:
        kernel = model.trainable_variables[0]
        optimizer.get_slot(kernel, slot).assign(optimizer.get_slot(kernel, slot) * 0.0)
    second = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "b")
    result = ckpt("verify", "--json", second, "--trains-like", first)
    assert result.code == 1
    assert result.json["results"][0]["training"]["differing"] >= 2


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("keras_conv/conv", "there are 0 optimizers; expected one"),
        ("keras_mlp/mlp_ckpt-1", "does not belong to a Dense or Conv2D layer"),
        ("bert_tiny/bert_model.ckpt-2", "does not belong to a Dense or Conv2D layer"),
        ("keras3_conv/conv.weights.h5", "this file has no model configuration"),
        ("keras_mlp/mlp.full.h5", "the model was saved without its optimizer"),
    ],
)
def test_what_cannot_be_rebuilt_is_named(
    path: str, message: str, ckpt: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    result = ckpt("verify", data_path(path), "--trains-like", data_path(path))
    assert (result.code, "Traceback" in result.err) == (3, False)
    assert message in result.err
    assert "ckpt cannot take a training step: " in result.err
