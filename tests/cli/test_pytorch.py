"""PyTorch's files as targets: what they keep of what was read, and what is said of what they do not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats import TensorSpec
from formats.core.dtypes import BY_NAME
from tests.support import data_path, same
from tests.torch_files import storage, tensor, written, zipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRAINING = data_path("pytorch", "training.bin")
SIX = np.arange(6, dtype="<f4")


def arrays_of(path: object) -> dict[str, np.ndarray]:
    with formats.open_checkpoint(str(path)) as reader:
        return {key: reader[key].read() for key in reader.specs}


def values_of(path: object, ckpt: Callable) -> dict:
    return ckpt("show", "--json", path).json["metadata"]["values"]


@pytest.mark.parametrize("middle", ["tf-object", "tf-name", "safetensors", "npz", "hdf5", "tf-v1"])
def test_there_and_back_the_tensors_are_the_same(middle: str, tmp_path: Path, ckpt: Callable) -> None:
    there = ckpt("convert", TRAINING, tmp_path / "m", "--to", middle, "--json")
    assert there.code == 0
    assert (
        f"left out args, epoch, optimizer/param_groups: no tensors, which alone go into {middle}" in there.err
    )
    back = ckpt("convert", tmp_path / "m", tmp_path / "x.pt", "--exclude", "save_counter*", "--json")
    assert back.code == 0
    first, second = ({row["from"]: row["to"] for row in done.json["tensors"]} for done in (there, back))
    before, after = arrays_of(TRAINING), arrays_of(tmp_path / "x.pt")
    assert len(before) == len(after)
    assert all(same(after[second[first[key]]], before[key]) for key in before)


@pytest.mark.parametrize(
    "source",
    ["keras_mlp/mlp.full.h5", "keras3_mlp/mlp.weights.h5", "keras3_mlp/mlp.keras", "interop/weights.npz"],
)
def test_keras_and_arrays_become_state_dicts(source: str, tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("convert", data_path(source), tmp_path / "x.pth", "--json")
    assert done.code == 0, done.err
    before, after = arrays_of(data_path(source)), arrays_of(tmp_path / "x.pth")
    moved = {row["from"]: row["to"] for row in done.json["tensors"]}
    assert {row["key"] for row in done.json["dropped"]} == set(before) - set(moved)
    assert all(same(before[key], after[new]) for key, new in moved.items())


@pytest.mark.parametrize(("dtype", "remedy"), [("qint8", "--exclude"), ("float8_e4m3b11fnuz", "--cast")])
def test_dtypes_that_torch_does_not_have_are_refused_by_name(
    dtype: str, remedy: str, tmp_path: Path, ckpt: Callable
) -> None:
    source, spec = tmp_path / "source", TensorSpec("w", BY_NAME[dtype], (2,))
    with formats.create_checkpoint(source, format="tf-name", specs=[spec]) as writer:
        writer.write("w", np.zeros(2, spec.dtype.numpy))
    done = ckpt("convert", source, tmp_path / "x.pt")
    assert (done.code, done.out) == (3, "")
    assert f"pytorch has no {dtype}" in done.err
    assert remedy in done.err
    assert not (tmp_path / "x.pt").exists()


def test_weights_alone_leave_the_optimizer_out_and_say_what_it_held(tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("convert", TRAINING, tmp_path / "x.ckpt", "--to", "pytorch", "--weights-only")
    assert done.code == 0
    assert "note: left out optimizer/param_groups: all tensors beside are, too" in done.err
    assert all(key.startswith("model/") for key in arrays_of(tmp_path / "x.ckpt"))
    assert values_of(tmp_path / "x.ckpt", ckpt) == values_of(TRAINING, ckpt)


def test_renaming_and_averaging_keep_the_structure(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("rename", TRAINING, tmp_path / "r.bin", "--sub", "^model/=>net/").code == 0
    assert ckpt("average", TRAINING, TRAINING, "-o", tmp_path / "a.pt").code == 0
    for path in (tmp_path / "r.bin", tmp_path / "a.pt"):
        assert values_of(path, ckpt) == values_of(TRAINING, ckpt)
    before, after = arrays_of(TRAINING), arrays_of(tmp_path / "r.bin")
    assert {key.replace("model/", "net/") for key in before} == set(after)


def test_the_mean_of_what_only_one_has_tied_is_two_tensors(tmp_path: Path, ckpt: Callable) -> None:
    tied = {"a": tensor(), "b": tensor()}
    loose = {"a": tensor(), "b": tensor(storage("1"))}
    data = {"0": SIX.tobytes(), "1": (SIX + 2).tobytes()}
    one = written(tmp_path / "1.pt", zipped(loose, data))
    other = written(tmp_path / "2.pt", zipped(tied, data))
    assert ckpt("average", one, other, "-o", tmp_path / "x.pt").code == 0
    found = arrays_of(tmp_path / "x.pt")
    assert found["a"].reshape(-1).tolist() == SIX.tolist()
    assert found["b"].reshape(-1).tolist() == (SIX + 1).tolist()


def test_a_folder_of_shards_is_written_and_overwritten(tmp_path: Path, ckpt: Callable) -> None:
    out = tmp_path / "out"
    for size in (100, 300):
        line = ("convert", TRAINING, f"{out}/", "--to", "pytorch", "--shard-size", size, "--overwrite")
        done = ckpt(*line)
        assert done.code == 0, done.err
        assert "left out args, epoch, optimizer/param_groups: a shard holds tensors alone" in done.err
        names = sorted(os.listdir(out))
        assert names[-1] == "pytorch_model.bin.index.json"
        assert all(name.endswith(f"-of-{len(names) - 1:05}.bin") for name in names[:-1])
        before, after = arrays_of(TRAINING), arrays_of(out)
        assert all(same(after[key], before[key]) for key in before)
    assert ckpt("convert", TRAINING, out / "pytorch_model.bin", "--overwrite").code == 0
    assert os.listdir(out) == ["pytorch_model.bin"]


def test_safetensors_keep_what_they_say_of_themselves(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("interop", "weights.safetensors")
    assert ckpt("convert", source, tmp_path / "x.safetensors").code == 0
    said = [ckpt("show", "--json", path).json["metadata"] for path in (source, tmp_path / "x.safetensors")]
    assert said[0] == said[1]
