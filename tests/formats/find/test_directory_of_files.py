"""Directories of checkpoints that are one file each."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest

import formats
from formats.find.directory import Directory
from formats.location import parse_location
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path


def test_damaged_files_are_listed_with_what_is_wrong(tmp_path):
    shutil.copy(data_path("keras_mlp/mlp.full.h5"), tmp_path / "model-1.h5")
    shutil.copy(data_path("corrupt/h5_cut/weights.h5"), tmp_path / "model-2.h5")
    (tmp_path / "model-3.keras").write_bytes(b"")
    (tmp_path / "notes.bin").write_bytes(b"\x89HDF\r\n\x1a\n")
    (tmp_path / "loss.json").write_text("{}")
    members = {member.name: member.error for member in Directory(parse_location(str(tmp_path))).members}
    assert sorted(members) == ["model-1.h5", "model-2.h5", "model-3.keras"]
    assert members["model-1.h5"] is None
    assert "truncated" in str(members["model-2.h5"])
    assert "empty" in str(members["model-3.keras"])
    with formats.open_checkpoint(str(tmp_path)) as reader:
        assert os.path.basename(reader.location.path) == "model-1.h5"


def test_shards_are_listed_by_their_map_alone(tmp_path):
    for name in ("m_00000", "m_00001", "other_00000"):
        with h5py.File(tmp_path / f"{name}.weights.h5", "w") as file:
            file[f"{name}/vars/0"] = np.zeros(2)
    shards = [f"m_0000{number}.weights.h5" for number in (0, 1)]
    weight_map = {f"/{shard.partition('.')[0]}/vars": shard for shard in shards}
    (tmp_path / "m.weights.json").write_text(json.dumps({"weight_map": weight_map}))
    names = [member.name for member in Directory(parse_location(str(tmp_path))).members]
    assert sorted(names) == ["m.weights.json", "other_00000.weights.h5"]


@pytest.mark.parametrize("name", ["model.ckpt", "model.ckpt-10", "model.ckpt-10-00000-of-00001"])
@pytest.mark.parametrize("size", [0, 482])
def test_what_is_left_of_a_v1_checkpoint_is_a_damaged_member(tmp_path: Path, name: str, size: int) -> None:
    """Only a V1 checkpoint has no suffix that a format claims, so its directory seemed to be empty."""
    with open(data_path("corrupt", "v1_cut", "model.ckpt"), "rb") as file:
        (tmp_path / name).write_bytes(file.read(size))
    (tmp_path / "other.ckpt").write_bytes(b"neither TensorFlow nor PyTorch wrote this")
    (tmp_path / "empty").write_bytes(b"")
    (member,) = Directory(parse_location(str(tmp_path))).members
    assert member.error is not None
    assert ("empty" if not size else "footer") in member.error.message
