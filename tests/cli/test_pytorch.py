"""PyTorch's files as targets: the structure that they keep, and the messages about the rest."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats import TensorSpec
from formats.core.dtypes import BY_NAME
from tests.support import data_path, same
from tests.torch_files import legacy, storage, tensor, written, zipped

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
        f"out args, epoch, optimizer/param_groups: they are not tensors, and {middle} stores only tensors"
        in there.err
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
def test_dtypes_that_torch_does_not_have_are_rejected_by_name(
    dtype: str, remedy: str, tmp_path: Path, ckpt: Callable
) -> None:
    source, spec = tmp_path / "source", TensorSpec("w", BY_NAME[dtype], (2,))
    with formats.create_checkpoint(source, format="tf-name", specs=[spec]) as writer:
        writer.write("w", np.zeros(2, spec.dtype.numpy))
    done = ckpt("convert", source, tmp_path / "x.pt")
    assert (done.code, done.out) == (3, "")
    assert f"pytorch cannot store {dtype} tensors" in done.err
    assert remedy in done.err
    assert not (tmp_path / "x.pt").exists()


def test_weights_alone_leave_the_optimizer_out_and_say_what_it_held(tmp_path: Path, ckpt: Callable) -> None:
    done = ckpt("convert", TRAINING, tmp_path / "x.ckpt", "--to", "pytorch", "--weights-only")
    assert done.code == 0
    assert "note: left out optimizer/param_groups: the tensors next to it are not written" in done.err
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
        refused = ckpt(*line)
        assert refused.code == 3
        assert (
            "shards contain only tensors, so they cannot store optimizer/param_groups of the optimizer state"
            in refused.err
        )
        done = ckpt(*line, "--weights-only")
        assert done.code == 0, done.err
        assert "left out args, epoch, optimizer/param_groups: a shard contains only tensors" in done.err
        names = sorted(os.listdir(out))
        assert names[-1] == "pytorch_model.bin.index.json"
        assert all(name.endswith(f"-of-{len(names) - 1:05}.bin") for name in names[:-1])
        before, after = arrays_of(TRAINING), arrays_of(out)
        assert {"model/0.weight", "model/2.running_var"} < set(after)
        assert all(same(after[key], before[key]) for key in after)
    assert ckpt("convert", TRAINING, out / "pytorch_model.bin", "--overwrite").code == 0
    assert os.listdir(out) == ["pytorch_model.bin"]


def test_safetensors_keep_what_they_say_of_themselves(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("interop", "weights.safetensors")
    assert ckpt("convert", source, tmp_path / "x.safetensors").code == 0
    said = [ckpt("show", "--json", path).json["metadata"] for path in (source, tmp_path / "x.safetensors")]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "target",
    ["m --to tf-name", "m --to tf-v1", "m --to tf-object", "m.npz", "m.h5 --to hdf5", "m.safetensors"],
)
def test_a_key_that_is_not_utf8_is_rejected_where_it_would_be_damage(
    target: str, tmp_path: Path, ckpt: Callable
) -> None:
    """Text of a pickle can hold half a character."""
    source = written(tmp_path / "s.pt", zipped({"a\ud800": tensor(), "b": tensor()}, {"0": SIX.tobytes()}))
    name, *options = target.split()
    done = ckpt("convert", source, tmp_path / name, *options)
    assert (done.code, done.out) == (3, "")
    assert "not UTF-8" in done.err
    assert r"a\udced\udca0\udc80" in done.err
    assert sorted(os.listdir(tmp_path)) == ["s.pt"]
    (tmp_path / "names.json").write_text(json.dumps({"a\udced\udca0\udc80": "a"}))
    assert ckpt("convert", source, tmp_path / name, *options, "--map", tmp_path / "names.json").code == 0
    assert ckpt("verify", tmp_path / name).code == 0


@pytest.mark.parametrize("form", [zipped, legacy])
def test_a_file_that_was_cut_off_is_rescued_as_far_as_it_goes(
    form: Callable, tmp_path: Path, ckpt: Callable
) -> None:
    keys = [f"w{number}" for number in range(6)]
    value = {
        "model": {key: tensor(storage(str(number), 600), 0, (600,), (1,)) for number, key in enumerate(keys)}
    }
    data = {str(number): np.full(600, number, "<f4").tobytes() for number in range(6)}
    whole = form(
        value | {"epoch": 3}, data if form is zipped else {key: (600, each) for key, each in data.items()}
    )
    damaged = written(tmp_path / "cut.pt", whole[: len(whole) // 2])
    done = ckpt("rescue", damaged, tmp_path / "x.pt", "--json")
    assert done.code == 1
    saved, lost = arrays_of(tmp_path / "x.pt"), [row["key"] for row in done.json["lost"]]
    assert sorted([*saved, *lost]) == [f"model/{key}" for key in keys]
    assert len(saved) in (2, 3)
    assert all(set(array) == {int(key[-1])} for key, array in saved.items())
    assert values_of(tmp_path / "x.pt", ckpt) == {"epoch": 3}
    assert [row["proof"] for row in done.json["tensors"]] == ["checksum" if form is zipped else None] * len(
        saved
    )


def test_sums_behind_members_are_found_where_the_directory_is_lost(tmp_path: Path, ckpt: Callable) -> None:
    """As torch writes them, in one piece and over the edges of pieces that are read."""
    arrays = {"a": np.arange(400_000, dtype=np.float32), "b": np.arange(7, dtype=np.int8)}
    specs = [TensorSpec(key, BY_NAME[array.dtype.name], array.shape) for key, array in arrays.items()]
    with formats.create_checkpoint(tmp_path / "x.pt", format="pytorch", specs=specs) as writer:
        for key, array in arrays.items():
            writer.write(key, array)
    data = (tmp_path / "x.pt").read_bytes()
    damaged = written(tmp_path / "cut.pt", data[: data.index(b"PK\1\2") + 9])
    assert ckpt("rescue", damaged, tmp_path / "y.pt").code == 0
    found = arrays_of(tmp_path / "y.pt")
    assert all(same(found[key], array) for key, array in arrays.items())


def test_what_names_more_than_tensors_is_rejected_not_damaged(ckpt: Callable) -> None:
    done = ckpt("verify", "--json", data_path("pytorch", "evil.pt"))
    assert done.code == 3
    (found,) = done.json["results"]
    assert [(each["severity"], each["code"]) for each in found["findings"]] == [("error", "refused")]
    assert "'posix.system'" in found["findings"][0]["message"]
    both = ckpt("verify", data_path("pytorch", "evil.pt"), TRAINING)
    assert [row[1] for row in both.rows if row[1] != "error"] == ["refused", "ok"]
    assert "1 checkpoint is intact, 1 is rejected" in both.err


def test_bytes_of_tied_tensors_are_counted_once(tmp_path: Path, ckpt: Callable) -> None:
    value = {"a": tensor(), "b": tensor(), "t": tensor(storage(), 0, (3, 2), (2, 1))}
    path = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes()}))
    assert ckpt("ls", "--json", path).json["total"] == {"tensors": 3, "parameters": 18, "nbytes": 48}
    assert ckpt("show", "--json", path).json["kinds"] == {"variable": {"tensors": 3, "nbytes": 48}}
    (row,) = ckpt("ls", "--json", tmp_path).json["checkpoints"]
    assert (row["tensors"], row["nbytes"]) == (3, 48)
    assert ckpt("ls", "--json", path, "b").json["total"]["nbytes"] == 24


@pytest.mark.parametrize(
    ("text", "is_shown"),
    [
        ('{"model_type": "bert", "hidden_size": 8}', True),
        ('{"_class_name": "UNet"}', True),
        ('{"other": 1}', False),
        ("[1]", False),
        ("{", False),
        (" " * (2 << 20) + '{"model_type": "bert"}', False),
    ],
)
def test_the_configuration_of_a_folder_is_shown(
    text: str, is_shown: bool, tmp_path: Path, ckpt: Callable
) -> None:
    shutil.copytree(data_path("pytorch", "hf_bin"), tmp_path / "hf")
    (tmp_path / "hf" / "config.json").write_text(text)
    done = ckpt("show", "--json", tmp_path / "hf")
    assert done.code == 0
    assert done.json["metadata"].get("config") == (json.loads(text) if is_shown else None)
    assert ("config" in [row[0] for row in ckpt("show", tmp_path / "hf").rows]) == is_shown


def test_a_tensor_without_a_name_keeps_that_where_others_are_renamed(tmp_path: Path, ckpt: Callable) -> None:
    value = {"": tensor(), "a": tensor(storage("1"))}
    source = written(tmp_path / "x.pt", zipped(value, {"0": SIX.tobytes(), "1": SIX.tobytes()}))
    assert ckpt("rename", source, tmp_path / "y.pt", "--sub", "a=>b").code == 0
    assert sorted(arrays_of(tmp_path / "y.pt")) == ["", "b"]


def test_a_file_without_tensors_is_reported_to_have_none(tmp_path: Path, ckpt: Callable) -> None:
    source = written(tmp_path / "x.pt", zipped({"epoch": 3}, {}))
    done = ckpt("convert", source, tmp_path / "y.safetensors")
    assert (done.code, done.err) == (
        1,
        f"ckpt: error: {source}: nothing is left to write: SRC has no tensors\n",
    )


def test_a_map_with_operations_keeps_what_is_around_the_tensors(tmp_path: Path, ckpt: Callable) -> None:
    """Tensors that are joined leave no place for the rest, which is then named."""
    lines = {
        "turned": "model/0.weight\tmodel/first.weight\tT\n",
        "joined": "model/2.bias\tmodel/2.both\tconcat(0)\nmodel/2.weight\tmodel/2.both\tconcat(0)\n",
    }
    for name, text in lines.items():
        (tmp_path / f"{name}.tsv").write_text(text + "{*path}\t{*path}\n")
    turned, joined = tmp_path / "turned.pt", tmp_path / "joined.pt"
    done = ckpt("convert", TRAINING, turned, "--map", tmp_path / "turned.tsv")
    assert (done.code, "left out" in done.err) == (0, False)
    assert values_of(turned, ckpt) == values_of(TRAINING, ckpt)
    before, after = arrays_of(TRAINING), arrays_of(turned)
    before["model/first.weight"] = before.pop("model/0.weight").T
    assert before.keys() == after.keys()
    assert all(same(before[key], after[key]) for key in before)
    back = ckpt("convert", TRAINING, tmp_path / "turned.npz", "--map", tmp_path / "turned.tsv")
    assert "left out args, epoch, optimizer/param_groups: they are not tensors" in back.err
    done = ckpt("convert", TRAINING, joined, "--map", tmp_path / "joined.tsv")
    assert done.code == 0
    assert "left out args, epoch, optimizer/param_groups: after tensors are joined or split" in done.err
    assert arrays_of(joined)["model/2.both"].shape == (10,)
