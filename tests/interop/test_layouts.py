"""Weights of Keras in PyTorch's layers: both compute the same, and what comes back is the same bytes."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

import formats
from ckpt_cli.cli.main import main
from formats.keras.in_pytorch import LAYERS_IN_PYTORCH, LOOPS
from formats.keras.layers import LAYERS
from tests.sampling import turn
from tests.support import digest

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow

CLOSE = 1e-5
"""How far outputs may be apart, relative to the largest."""

_MODEL = re.compile(r'^    "([^"]+)": ', re.MULTILINE)


def _models() -> list[str]:
    """Return the names of the models that TensorFlow's Python builds."""
    path = os.path.join(os.path.dirname(__file__), "oracle_layouts.py")
    with open(path, encoding="utf-8") as file:
        return _MODEL.findall(file.read())


MODELS = _models()
SAVED = [(release, suffix) for release in ("2.15", "2.21") for suffix in (".h5", ".keras", ".weights.h5", "")]
_UNKNOWN_MODEL = {"GRU bare", "PReLU channels", "PReLU steps", "PReLU shared"}
NOT_TOLD = {"2.15": _UNKNOWN_MODEL, "2.21": {*_UNKNOWN_MODEL, "LayerNormalization scaled"}}
"""Models whose object graph does not tell what PyTorch has to be made of, in each TensorFlow."""


def run(*arguments: object) -> object:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def ckpt(*arguments: object) -> None:
    assert run(*arguments) == 0, arguments


@pytest.fixture(scope="module")
def judges(old_tensorflow: TensorFlow, new_tensorflow: TensorFlow) -> dict[str, TensorFlow]:
    return {"2.15": old_tensorflow, "2.21": new_tensorflow}


def test_each_layer_of_the_table_is_run() -> None:
    run = {name.partition(" ")[0] for name in MODELS}
    assert set(LAYERS_IN_PYTORCH) <= run
    wrappers = {name for name, row in LAYERS.items() if row.wraps}
    assert wrappers - LOOPS <= run


@pytest.mark.parametrize("number", range(len(SAVED)), ids=["".join(each) for each in SAVED])
def test_outputs_agree_and_weights_come_back(
    judges: dict[str, TensorFlow], pytorch: TensorFlow, number: int, tmp_path: Path
) -> None:
    release, suffix = SAVED[number]
    names = turn(MODELS, 12, number)
    untold = NOT_TOLD[release] if not suffix else set()
    names.sort(key=lambda name: name in untold)
    judges[release].ask("layouts", "saved", folder=str(tmp_path), names=names, suffix=suffix)
    told = len(names) - len(untold.intersection(names))
    for at in range(told, len(names)):
        assert (
            run("convert", tmp_path / f"{at}", tmp_path / "x.safetensors", "--layout", "pytorch", "-q") == 3
        )
    for at in range(told):
        there, back = tmp_path / f"{at}{suffix}", tmp_path / f"back_{at}{suffix}"
        config = tmp_path / f"{at}.json"
        said = ("--config", config) if suffix == ".weights.h5" else ()
        ckpt("convert", there, tmp_path / f"{at}.safetensors", "--layout", "pytorch", *said, "-q")
        given = ("--config", there if suffix == ".keras" else config) if suffix else ("--like", there)
        if not suffix:
            ckpt(
                "diff", tmp_path / f"{at}.safetensors", there, "--layout", "tensorflow", "--kind", "variable"
            )
        ckpt("convert", tmp_path / f"{at}.safetensors", back, "--layout", "tensorflow", *given, "-q")
        _are_the_same(there, back)
    far = pytorch.ask("layouts_torch", "answers", folder=str(tmp_path), names=names[:told])
    assert {name: distance for name, distance in far.items() if not distance < CLOSE} == {}


@pytest.mark.parametrize("release", ["2.15", "2.21"])
def test_a_programs_own_model_needs_no_configuration(
    judges: dict[str, TensorFlow], pytorch: TensorFlow, release: str, tmp_path: Path
) -> None:
    judges[release].ask("layouts", "trained", folder=str(tmp_path))
    saved, there, back = (tmp_path / name for name in ("net", "net.safetensors", "back"))
    ckpt("convert", saved, there, "--layout", "pytorch", "--weights-only", "-q")  # its step is not a weight
    assert pytorch.ask("layouts_torch", "trained", folder=str(tmp_path)) < CLOSE
    ckpt("convert", there, back, "--layout", "tensorflow", "--like", saved, "--partial", "-q")
    ckpt(
        "diff",
        there,
        back,
        "--layout",
        "tensorflow",
        "--kind",
        "variable",
        "--fail-on",
        "value,shape,removed",
    )
    ckpt("diff", saved, back, "--exact")


def _are_the_same(left: Path, right: Path) -> None:
    """Compare the weights of two files, bit for bit.

    Keys may be spelled as another Keras does; a layer's weights are loaded by their order.
    """
    one, other = _digests(left), _digests(right)
    assert sorted(one.values()) == sorted(other.values())
    if one.keys() == other.keys():
        assert one == other


def _digests(path: Path) -> dict[str, tuple[str, tuple[int, ...], str]]:
    with formats.open_checkpoint(path) as reader:
        weights = [key for key, kind in reader.kinds.items() if kind == "variable"]
        return {
            key: (reader.specs[key].dtype.name, reader.specs[key].shape, digest(reader[key].read()))
            for key in weights
        }
