"""A sharded Hugging Face folder through the commands: one checkpoint, or a word of what is missing."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import click
import numpy as np
import pytest

import formats
from tests.support import data_path, recorded_at
from tests.writing import read_all, save

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Ckpt

INDEX = "model.safetensors.index.json"
KEYS = [tensor["key"] for tensor in recorded_at(f"hf/{INDEX}")["tensors"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the golden folder."""
    copy = tmp_path / "run" / "hf"
    shutil.copytree(data_path("hf"), copy)
    return copy


@pytest.mark.parametrize("name", ["", INDEX])
def test_all_of_it_is_converted(name: str, folder: Path, tmp_path: Path, ckpt: Ckpt) -> None:
    done = ckpt("convert", folder / name, tmp_path / "o.npz", "--cast", "float32", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert (document["source"], document["verified"]) == (str(folder / INDEX), True)
    assert sorted(read_all(tmp_path / "o.npz")) == KEYS
    assert "highest step" not in done.err


def test_a_folder_lists_tensors_and_its_parent_one_member(folder: Path, ckpt: Ckpt) -> None:
    found = json.loads(ckpt("ls", folder, "--json").out)
    assert (found["format"], [tensor["key"] for tensor in found["tensors"]]) == ("safetensors", KEYS)
    for top in (folder.parent, folder):
        (directory,) = json.loads(ckpt("ls", "-R", top, "--json").out)["directories"]
        (member,) = directory["checkpoints"]
        assert (member["name"], member["step"], member["tensors"]) == (INDEX, None, len(KEYS))


def test_there_and_back_is_the_same(folder: Path, tmp_path: Path, ckpt: Ckpt) -> None:
    for target, size in (("one.safetensors", None), ("out/", "100"), ("x.safetensors", "200")):
        options = ["--to", "safetensors", *(["--shard-size", size] if size else [])]
        path = f"{tmp_path}/{target}"
        assert ckpt("convert", folder, path, *options).code == 0
        assert ckpt("diff", folder, path).code == 0
        assert ckpt("verify", path).code == 0
    assert os.path.exists(tmp_path / "out" / "model-00001-of-00006.safetensors")


def test_a_dry_run_says_how_many_shards_and_writes_nothing(folder: Path, tmp_path: Path, ckpt: Ckpt) -> None:
    done = ckpt("convert", folder, tmp_path / "x.safetensors", "--shard-size", "200", "-n")
    assert done.code == 0
    assert f"3 shards next to {tmp_path}/x.safetensors.index.json" in done.err
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "{}"),
        ("show", "{}", "lm_head.weight"),
        ("stats", "{}"),
        ("log", "{}"),
        ("state", "{}"),
        ("verify", "{}"),
        ("average", "{}", "{}/" + INDEX, "-o", "mean.safetensors"),
        ("rename", "{}", "named.safetensors", "--sub", "^model.=>m."),
        ("extract", "{}", "lm_head.weight", "-o", "head.npy"),
        ("extract", "{}", "-o", "some.safetensors"),
        ("convert", "{}", "like.safetensors", "--like", "{}"),
        ("convert", "{}", "tf/ck-1", "--to", "tf-name"),
        ("rescue", "{}", "saved.safetensors"),
    ],
    ids=" ".join,
)
def test_every_command_takes_the_folder(
    arguments: tuple[str, ...], folder: Path, tmp_path: Path, ckpt: Ckpt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = ckpt(*(argument.format(folder) for argument in arguments))
    assert done.code == 0, done.err


def test_renaming_in_place_is_rejected(folder: Path, ckpt: Ckpt) -> None:
    done = ckpt("rename", "--in-place", folder, "--sub", "^model.=>m.")
    assert done.code == 3
    assert "this checkpoint has 4 files, so it cannot be renamed in place" in done.err


def test_a_missing_shard_is_reported_by_every_command(folder: Path, tmp_path: Path, ckpt: Ckpt) -> None:
    lost = "model-00002-of-00003.safetensors"
    os.unlink(folder / lost)
    for arguments in (
        ("convert", folder, tmp_path / "o.safetensors"),
        ("stats", folder),
        ("ls", folder),
        ("diff", folder, folder),
    ):
        done = ckpt(*arguments)
        assert done.code == 3
        assert lost in done.err
    done = ckpt("verify", folder, "--json")
    (finding,) = json.loads(done.out)["results"][0]["findings"]
    assert (done.code, finding["code"], finding["file"]) == (1, "shard-missing", str(folder / lost))
    done = ckpt("rescue", folder, tmp_path / "saved.safetensors", "--json")
    document = json.loads(done.out)
    assert len(document["lost"]) == 3
    assert {row["code"] for row in document["lost"]} == {"shard-missing"}
    assert len(read_all(tmp_path / "saved.safetensors")) == 6


def test_shards_without_an_index_are_never_half_a_model(folder: Path, tmp_path: Path, ckpt: Ckpt) -> None:
    os.unlink(folder / INDEX)
    for arguments in (("convert", folder, tmp_path / "o.safetensors"), ("stats", folder), ("verify", folder)):
        done = ckpt(*arguments)
        assert done.code == 3, arguments
        assert f"found 3 of 3 shards, but not {INDEX}" in done.err
    assert not os.path.exists(tmp_path / "o.safetensors")
    (row,) = json.loads(ckpt("ls", folder, "--json").out)["checkpoints"]
    assert (row["format"], row["name"]) == (None, "model-?????-of-00003.safetensors")


def test_state_fix_clears_what_a_kill_left_and_keeps_the_rest(folder: Path, ckpt: Ckpt) -> None:
    save(folder / "model-00001-of-00009.safetensors", {"old": np.arange(3)}, "safetensors")
    done = ckpt("state", folder, "--fix")
    assert done.code == 0, done.err
    assert sorted(os.listdir(folder)) == sorted(os.listdir(data_path("hf")))


def test_keeping_the_latest_deletes_all_files_of_the_others(tmp_path: Path, ckpt: Ckpt) -> None:
    for step in (1, 2):
        save(
            tmp_path / f"m-{step}.safetensors",
            {"a": np.arange(4), "b": np.arange(4)},
            "safetensors",
            shard_size=8,
        )
    assert ckpt("state", tmp_path, "--keep", "1").code == 0
    assert all(name.startswith("m-2") for name in os.listdir(tmp_path))
    assert len(os.listdir(tmp_path)) == 3


def test_a_shard_that_is_written_to_meanwhile_is_noticed(folder: Path) -> None:
    with formats.open_checkpoint(folder) as reader:
        assert not reader.has_changed()
        os.utime(folder / "model-00001-of-00003.safetensors", (1, 1))
        assert reader.has_changed()


def test_completion_offers_the_index_and_not_its_shards(folder: Path) -> None:
    from ckpt_cli.cli.completion import checkpoints

    offered = checkpoints(click.Context(click.Command("ls")), click.Argument(["path"]), f"{folder}/model")
    assert [item.value for item in offered] == [str(folder / INDEX)]


def test_what_is_next_to_a_folder_s_model_is_not_passed_over_in_silence(folder: Path, ckpt: Ckpt) -> None:
    assert "to read another file, name it" not in ckpt("ls", folder).err
    shutil.copy(next(folder.glob("model-00001-*.safetensors")), folder / "adapter.safetensors")
    for command in ("ls", "show"):
        result = ckpt(command, folder)
        assert result.code == 0
        assert (
            "ckpt reads the checkpoint of this folder; to read another file, name it: adapter.safetensors"
            in result.err
        )
