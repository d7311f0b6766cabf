"""`ckpt verify --outputs-like`: two checkpoints make one model say the same, or do not."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FULL = data_path("keras_mlp", "mlp.full.h5")


@pytest.mark.parametrize(
    ("path", "suffix"),
    [
        (path, suffix)
        for path in ("keras_mlp/mlp.full.h5", "keras_conv/conv.full.h5", "keras3_conv/conv.keras",
                     "keras_rnn/rnn.full.h5", "keras_attention/attn.full.h5", "keras3_rnn/rnn.keras")
        for suffix in (".npz", ".safetensors", "_name")
    ],
)  # fmt: skip
def test_a_converted_model_says_the_same(path: str, suffix: str, tmp_path: Path, ckpt: Callable) -> None:
    target = tmp_path / f"converted{suffix}"
    options = ["--to", "name"] if suffix == "_name" else []
    assert ckpt("convert", data_path(path), target, "--weights-only", *options).code == 0
    result = ckpt("verify", "--json", target, "--outputs-like", data_path(path))
    assert result.code == 0, result.err
    (found,) = result.json["results"]
    assert found["findings"] == []
    assert found["outputs"]["elements"] > 0
    assert found["outputs"]["differing"] == 0


def test_a_changed_weight_is_an_error(tmp_path: Path, ckpt: Callable) -> None:
    changed = tmp_path / "changed.h5"
    shutil.copy(FULL, changed)
    with h5py.File(changed, "r+") as file:
        file["model_weights/hidden/hidden/bias:0"][0] += 0.5
    result = ckpt("verify", "--json", changed, "--outputs-like", FULL)
    assert result.code == 1
    (found,) = result.json["results"]
    (finding,) = found["findings"]
    assert (finding["severity"], finding["code"]) == ("error", "outputs")
    assert found["outputs"]["max_abs"] > 1e-3


def test_an_input_of_ones_own(tmp_path: Path, ckpt: Callable) -> None:
    given = data_path("keras_mlp", "mlp.input.npy")
    result = ckpt("verify", FULL, "--outputs-like", data_path("keras_mlp", "mlp"), "--input", given)
    assert result.code == 0
    assert "12 outputs equal those of" in result.err
    wrong = tmp_path / "wrong.npy"
    np.save(wrong, np.zeros((2, 5), "f4"))
    result = ckpt("verify", FULL, "--outputs-like", FULL, "--input", wrong)
    assert result.code == 3
    assert "the input is float32 [2, 5], but the model takes float32 [any, 6]" in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((FULL, "--input", "x.npy"), 2, "--input does nothing without --outputs-like"),
        ((FULL, "--outputs-like", FULL, "--input", "nowhere.npy"), 3, "nowhere.npy"),
        ((FULL, "--outputs-like", FULL, "--input", FULL), 3, "this is not an .npy array of numbers"),
        ((FULL, "--outputs-like", data_path("nowhere")), 3, "no such file"),
        (
            (FULL, "--outputs-like", data_path("keras_conv", "conv")),
            3,
            "the layers of the model in the object graph differ from its configuration",
        ),
        (
            (FULL, "--outputs-like", data_path("keras_conv", "conv.weights_only.h5")),
            3,
            "5 layers have weights",
        ),
        (
            (data_path("keras_mlp", "mlp"), "--outputs-like", data_path("keras_mlp", "mlp_ckpt-1")),
            3,
            "contains a model configuration",
        ),
    ],
)
def test_what_cannot_be_computed(arguments: tuple, code: int, message: str, ckpt: Callable) -> None:
    result = ckpt("verify", *arguments)
    assert (result.code, "Traceback" in result.err) == (code, False)
    assert message in result.err
