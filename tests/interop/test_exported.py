"""Weights out of SavedModels, loaded by the Keras that wrote them: the models answer as they did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.cli.running import run_ckpt
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.conftest import TensorFlow

FOLDERS = {
    "mlp": "keras_mlp",
    "conv": "keras_conv",
    "rnn": "keras_rnn",
    "attn": "keras_attention",
    "nest": "keras_nested",
}
LOADED = [".h5", ".weights.h5"]


def inputs_of(model: str) -> str:
    return data_path(FOLDERS[model], f"{model}.input.npy")


def convert(*arguments: Any) -> None:
    done = run_ckpt("convert", *arguments)
    assert done.code == 0, done.err


def check(tensorflow: TensorFlow, model: str, path: Path, answer: Any) -> None:
    """Load weights into the model, or the whole model, and compare its answers."""
    inputs = inputs_of(model)
    if path.name.endswith((".h5", ".keras")) and not path.name.endswith(".weights.h5"):
        found = tensorflow.ask("keras", "loaded", path=str(path), inputs=inputs)
    else:
        found = tensorflow.ask("keras", "outputs", model=model, weights=str(path), inputs=inputs)
    np.testing.assert_allclose(found, answer, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("model", FOLDERS)
def test_keras_2_loads_the_weights_of_its_saved_models(
    model: str, old_tensorflow: TensorFlow, tmp_path: Path
) -> None:
    answer, _ = old_tensorflow.ask(
        "exported", "save", folder=str(tmp_path), model=model, inputs=inputs_of(model)
    )
    for suffix in (*LOADED, ".keras"):
        convert(tmp_path / "saved", tmp_path / f"out{suffix}")
        check(old_tensorflow, model, tmp_path / f"out{suffix}", answer)
    config = ("--config", tmp_path / "model.keras")
    for suffix in (*LOADED, ".keras"):
        convert(tmp_path / "saved", tmp_path / f"given{suffix}", *config)
        check(old_tensorflow, model, tmp_path / f"given{suffix}", answer)
    convert(tmp_path / "saved", tmp_path / "like.keras", "--like", tmp_path / "model.keras")
    check(old_tensorflow, model, tmp_path / "like.keras", answer)


@pytest.mark.parametrize("legacy", [False, True])
def test_the_optimizer_of_a_saved_model_goes_along(
    legacy: bool, old_tensorflow: TensorFlow, tmp_path: Path
) -> None:
    answer, state = old_tensorflow.ask(
        "exported",
        "save",
        folder=str(tmp_path),
        model="nest",
        inputs=inputs_of("nest"),
        optimizer="Adam",
        legacy=legacy,
    )
    convert(tmp_path / "saved", tmp_path / "out.h5")
    check(old_tensorflow, "nest", tmp_path / "out.h5", answer)
    found = old_tensorflow.ask("keras", "loaded_optimizer_state", path=str(tmp_path / "out.h5"))
    assert found["rate"] == state["rate"]
    for mine, other in zip(found["values"], state["values"], strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("model", FOLDERS)
def test_keras_3_loads_the_weights_of_its_exports(
    model: str, new_tensorflow: TensorFlow, tmp_path: Path
) -> None:
    answer, _ = new_tensorflow.ask(
        "exported", "save", folder=str(tmp_path), model=model, inputs=inputs_of(model)
    )
    assert (
        run_ckpt("convert", tmp_path / "saved", tmp_path / "x.weights.h5").code == 3
    )  # it has no configuration
    for suffix in (*LOADED, ".keras"):
        convert(tmp_path / "saved", tmp_path / f"out{suffix}", "--config", tmp_path / "model.keras")
        check(new_tensorflow, model, tmp_path / f"out{suffix}", answer)
    for suffix in (*LOADED, ".keras"):
        template = tmp_path / ("model.keras" if suffix == ".keras" else f"out{suffix}")
        convert(tmp_path / "saved", tmp_path / f"like{suffix}", "--like", template)
        check(new_tensorflow, model, tmp_path / f"like{suffix}", answer)
