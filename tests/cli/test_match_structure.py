"""The weights of a tree and those of a model of Keras or TensorFlow are paired by structure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.find.opening import open_reader
from formats.location import local_location
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KERAS = data_path("keras3_mlp", "mlp.keras")
NAMES = {
    "params/Dense_0/kernel": "layers/dense/vars/0",
    "params/Dense_0/bias": "layers/dense/vars/1",
    "params/Dense_1/kernel": "layers/dense_1/vars/0",
    "params/Dense_1/bias": "layers/dense_1/vars/1",
    "params/BatchNorm_0/scale": "layers/batch_normalization/vars/0",
    "params/BatchNorm_0/bias": "layers/batch_normalization/vars/1",
    "batch_stats/BatchNorm_0/mean": "layers/batch_normalization/vars/2",
    "batch_stats/BatchNorm_0/var": "layers/batch_normalization/vars/3",
    "params/LayerNorm_0/scale": "layers/layer_normalization/vars/0",
    "params/LayerNorm_0/bias": "layers/layer_normalization/vars/1",
}
"""The weights of the model as Flax calls them."""


def tree(folder: Path, ckpt: Callable, ending: str = "", dtype: str = "float32") -> str:
    """Write the model as a tree of Flax Linen, or of NNX, whose names have an ending."""
    with open_reader(local_location(KERAS)) as reader:
        arrays = {f"{name}{ending}": reader[key].read().astype(dtype) for name, key in NAMES.items()}
    np.savez(folder / "tree.npz", **arrays)
    assert ckpt("convert", folder / "tree.npz", folder / "tree", "--to", "orbax").code == 0
    return str(folder / "tree")


@pytest.mark.parametrize("ending", ["", "/value"])
def test_the_pairs_are_a_map_for_convert(tmp_path: Path, ckpt: Callable, ending: str) -> None:
    source, names = tree(tmp_path, ckpt, ending), tmp_path / "names.tsv"
    done = ckpt("match", source, KERAS, "--save-map", names)
    assert done.code == 0, done.out
    assert ckpt("match", KERAS, source).code == 0
    made = tmp_path / "made.keras"
    options = ("--like", KERAS, "--map", names, "--weights-only")
    assert ckpt("convert", source, made, *options).code == 0
    assert ckpt("diff", made, KERAS, "--exact").code == 0


def test_other_dtypes_are_named(tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("match", tree(tmp_path, ckpt, dtype="float16"), KERAS, "--json")
    found = json.loads(done.out)
    assert done.code == 1
    assert len(found["dtype_mismatch"]) == len(NAMES)
    assert found["unmatched_target"] == found["unused_checkpoint"] == []


def test_equal_layers_are_not_paired_by_their_order_alone(tmp_path: Path, ckpt: Callable) -> None:
    """Names without a number and a word in common say nothing: the pairs are there to be checked."""
    with open_reader(local_location(KERAS)) as reader:
        arrays = {f"params/{chr(97 + n)}": reader[key].read() for n, key in enumerate(NAMES.values())}
    np.savez(tmp_path / "odd.npz", **arrays)
    assert ckpt("convert", tmp_path / "odd.npz", tmp_path / "odd", "--to", "orbax").code == 0
    done = ckpt("match", tmp_path / "odd", KERAS, "--save-map", tmp_path / "names.tsv")
    assert done.code == 1
    assert "# ambiguous: " in (tmp_path / "names.tsv").read_text()


@pytest.mark.parametrize(("target", "to"), [("m-1", "object"), ("w.weights.h5", None)])
def test_other_templates_are_matched(tmp_path: Path, ckpt: Callable, target: str, to: str | None) -> None:
    """Objects and names tell layers and roles, a weights file shapes alone, so that pairs are ambiguous."""
    options = ("--weights-only", *(("--to", to) if to else ()))
    assert ckpt("convert", KERAS, tmp_path / target, *options).code == 0
    done = ckpt("match", tree(tmp_path, ckpt), tmp_path / target, "--json")
    found = json.loads(done.out)
    assert {pair["checkpoint"] for pair in found["restored"]} | set(found["unused_checkpoint"]) == set(NAMES)
    assert (done.code == 0) == (to is not None)
