"""Readable names for slots in Keras files, if the file identifies their owners."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import formats
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

TOLD = {
    "keras3_mlp/mlp.keras": ("optimizer/vars/2", "layers/dense/vars/0 (momentum of optimizer)"),
    "keras3_mlp/mlp.legacy.h5": (
        "optimizer_weights/adam/mlp_hidden_kernel_momentum",
        "mlp/hidden/kernel (momentum of optimizer)",
    ),
    "keras_mlp/mlp.with_optimizer.h5": (
        "optimizer_weights/Adam/m/hidden/kernel",
        "hidden/kernel (m of optimizer)",
    ),
    "optimizers/legacy/adam/model.h5": ("optimizer_weights/Adam/d0/kernel/m", "d0/kernel (m of optimizer)"),
    "optimizers/new/adam/model.h5": ("optimizer_weights/m/d0/kernel", "d0/kernel (m of optimizer)"),
}


@pytest.mark.parametrize("path", TOLD)
def test_slots_are_called_by_their_variables(path: str) -> None:
    with formats.open_checkpoint(data_path(path)) as reader:
        slots = [key for key, kind in reader.kinds.items() if kind == "slot"]
        paths = reader.object_paths
        assert sorted(paths) == sorted(slots)
        assert len(set(paths.values())) == len(paths)
        key, name = TOLD[path]
        assert paths[key] == name
        for key, name in paths.items():
            variable = name.partition(" (")[0]
            assert reader.specs[variable].shape == reader.specs[key].shape
            assert reader.kinds[variable] == "variable"
        assert reader.edge_paths == {}, "rules see keys"


def test_without_a_configuration_nothing_shows_them() -> None:
    with formats.open_checkpoint(data_path("keras3_mlp/mlp.weights.h5")) as reader:
        assert reader.object_paths == {}


@pytest.mark.parametrize("config", ["{", json.dumps({"class_name": "Model", "config": {}})])
def test_a_configuration_that_shows_no_model_is_not_an_error(config: str, tmp_path: Path) -> None:
    path = tmp_path / "model.h5"
    path.write_bytes(_bytes("optimizers/new/adam/model.h5"))
    with h5py.File(path, "r+") as file:
        file.attrs["model_config"] = config
    with formats.open_checkpoint(path) as reader:
        assert reader.object_paths == {}


def test_slots_of_other_shapes_are_of_another_model(tmp_path: Path) -> None:
    path = tmp_path / "model.h5"
    path.write_bytes(_bytes("optimizers/new/adam/model.h5"))
    with h5py.File(path, "r+") as file:
        name = "optimizer_weights/m/d0/kernel:0"
        del file[name]
        file[name] = np.zeros((1, 2, 3), np.float32)
    with formats.open_checkpoint(path) as reader:
        assert reader.object_paths == {}


def _bytes(path: str) -> bytes:
    with open(data_path(path), "rb") as file:
        return file.read()
