"""What `ckpt convert` and its like refuse as a target, in a dry run as in a real one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from tests.support import data_path, numbers, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
BERT = data_path("bert_tiny", "bert_model.ckpt-2")
TEMPLATE = data_path("bert_template", "other_names", "model", "ckpt-1")
GOLD_MAP = data_path("bert_template", "gold_map.tsv")
STEPS = [data_path("pairs", "step1.h5"), data_path("pairs", "step2.h5")]


@pytest.mark.parametrize(
    ("command", "target"),
    [
        (("convert", GUIDE, "TARGET"), "x.index"),
        (("convert", GUIDE, "TARGET", "--to", "v1", "--kind", "variable"), "x"),
        (("convert", GUIDE, "TARGET"), "x.npz"),
        (("rename", GUIDE, "TARGET", "--sub", "net=>n"), "x.index"),
        (("average", GUIDE, GUIDE, "-o", "TARGET"), "x.index"),
        (("average", *STEPS, "-o", "TARGET"), "x.h5"),
        (("extract", GUIDE, "step", "-o", "TARGET"), "x.npy"),
        (("extract", GUIDE, "step", "-o", "TARGET"), "x.safetensors"),
        (("extract", GUIDE, "step", "-o", "TARGET"), "x.json"),
    ],
)
def test_a_dry_run_refuses_what_is_there_as_the_real_one_does(
    command: tuple[str, ...], target: str, tmp_path: Path, ckpt: Callable
) -> None:
    (tmp_path / target).write_bytes(b"old")
    arguments = [str(tmp_path / target) if part == "TARGET" else part for part in command]
    planned, real = ckpt(*arguments, "--dry-run"), ckpt(*arguments)
    assert planned.code == real.code == 3
    assert planned.err == real.err
    assert f"{tmp_path}/{target}: is there already" in real.err
    assert (os.listdir(tmp_path), (tmp_path / target).read_bytes()) == ([target], b"old")


@pytest.mark.parametrize("dry_run", [[], ["-n"]])
def test_what_only_a_writer_knows_is_refused_in_a_dry_run_too(
    dry_run: list[str], tmp_path: Path, ckpt: Callable
) -> None:
    write_bundle(str(tmp_path / "b"), {"a/./b": numbers(np.zeros(1))})
    result = ckpt("convert", tmp_path / "b", tmp_path / "out.h5", "--to", "hdf5", *dry_run)
    assert result.code == 3
    assert not os.path.exists(tmp_path / "out.h5")


@pytest.mark.parametrize("name", ["out", "out/", "out/.", "."])
def test_a_directory_is_no_bundle(name: str, tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "out").mkdir()
    result = ckpt("convert", GUIDE, f"{tmp_path}/{name}", "--overwrite")
    assert result.code == 3
    assert "a directory; a bundle's path is the prefix of its files" in result.err
    assert os.listdir(tmp_path) == ["out"]


def test_pipes_and_devices_are_not_replaced(tmp_path: Path, ckpt: Callable) -> None:
    """Moving a file to the place of `/dev/null` would take it from the whole system."""
    os.mkfifo(tmp_path / "x.npz")
    (tmp_path / "x.npy").symlink_to("x.npz")
    for command in (
        ("convert", GUIDE, tmp_path / "x.npz", "--weights-only"),
        ("extract", GUIDE, "step", "-o", tmp_path / "x.npz"),
        ("extract", GUIDE, "step", "-o", tmp_path / "x.npy"),
        ("convert", BERT, tmp_path / "c", "--like", TEMPLATE, "--save-map", tmp_path / "x.npz"),
    ):
        result = ckpt(*command, "--overwrite")
        assert (result.code, "is a device or a pipe" in result.err) == (3, True)
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.npz"]


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (2, "no format 'nope'; there are tf-object", ("convert", GUIDE, "x", "--to", "nope")),
        (2, "no format 'nope'; there are tf-object", ("verify", GUIDE, "--roundtrip", "nope")),
        (
            2,
            "--like gives the layout of tf-object, x.npz ends like npz",
            ("convert", GUIDE, "x.npz", "--like", GUIDE),
        ),
        (3, "x.npz: npz is not written in shards", ("convert", GUIDE, "x.npz", "--shard-size", "100")),
        (3, "x.npz: ends like npz, and averaging keeps the format", ("average", GUIDE, GUIDE, "-o", "x.npz")),
    ],
)
def test_targets_that_contradict_what_is_asked_for(
    code: int,
    message: str,
    arguments: tuple[str, ...],
    tmp_path: Path,
    ckpt: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = ckpt(*arguments)
    assert result.code == code
    assert message in result.err
    assert os.listdir(tmp_path) == []


def test_json_is_a_listing_and_made_for_whoever_asks_for_one(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", GUIDE, tmp_path / "x.json")
    assert (result.code, os.listdir(tmp_path)) == (3, [])
    assert "x.json: ends like a listing, which holds no values" in result.err
    assert "--to listing" in result.err
    assert ckpt("convert", GUIDE, tmp_path / "x.json", "--to", "listing").code == 0
    with formats.open_checkpoint(tmp_path / "x.json") as reader:
        assert reader.format.name == "listing"
    result = ckpt("convert", "-n", tmp_path / "x.json", tmp_path / "y")
    assert (result.code, "a listing has no values" in result.err) == (3, True)


def test_a_string_that_does_not_fit_names_its_checkpoint(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "b"), {"s": strings([b"ok", b"cut\0"])})
    for target in ("x.npz", "x.h5"):
        result = ckpt(
            "convert", tmp_path / "b", tmp_path / target, "--to", "npz" if "npz" in target else "hdf5"
        )
        assert (result.code, os.path.exists(tmp_path / target)) == (3, False)
        assert f"error: {tmp_path}/b: tensor 's': an element ends in NUL" in result.err
    assert "b: tensor 's'" in ckpt("extract", tmp_path / "b", "s", "-o", "-").err


def test_the_map_is_saved_where_pairs_are_missing(tmp_path: Path, ckpt: Callable) -> None:
    """That is when it is to be edited; what was edited is not overwritten."""
    with open(GOLD_MAP, encoding="utf-8") as file:
        gold = file.read().splitlines()
    (tmp_path / "some.tsv").write_text("\n".join(gold[:40]) + "\n")
    saved = tmp_path / "saved.tsv"
    command = ("convert", BERT, tmp_path / "out", "--like", TEMPLATE, "--weights-only", "--save-map", saved)
    result = ckpt(*command, "--map", tmp_path / "some.tsv")
    assert result.code == 3
    assert sorted(saved.read_text().splitlines()) == sorted(gold[:40])
    assert ckpt(*command, "--map", tmp_path / "some.tsv").code == 3
    assert ckpt(*command, "--map", GOLD_MAP).code == 3
    assert len(saved.read_text().splitlines()) == 40
    saved.write_text("\n".join(gold) + "\n")
    assert ckpt(*command, "--map", saved).code == 0


# Names that tell too little, or something else -----------------------------------------


def test_full_names_that_variables_share_name_nothing(tmp_path: Path, ckpt: Callable) -> None:
    """Trap 15: every unnamed variable is called `Variable`, and the last would win in TensorFlow."""
    source = data_path("containers", "nested")
    result = ckpt("convert", source, tmp_path / "names", "--to", "name")
    assert "named by their object paths: full names are missing or not unique" in result.err
    with formats.open_checkpoint(source) as reader, formats.open_checkpoint(tmp_path / "names") as names:
        paths = {path: key for key, path in reader.object_paths.items()}
        assert len({name for name in reader.full_names.values() if name}) < len(names) == len(paths)
        assert all(names[path].read().tolist() == reader[key].read().tolist() for path, key in paths.items())


def test_weights_that_keras_3_keys_below_the_optimizer_are_the_models(tmp_path: Path, ckpt: Callable) -> None:
    """Trap 16: the shortest path to a weight runs through the optimizer; edges tell the layer."""
    source, like = data_path("keras3_mlp", "mlp_both-1"), data_path("keras3_mlp", "mlp.weights.h5")
    config = data_path("keras3_mlp", "mlp.keras")
    result = ckpt("convert", "--json", source, tmp_path / "m.weights.h5", "--config", config)
    below = {row["to"] for row in result.json["tensors"] if "/_trainable_variables/" in row["from"]}
    assert "layers/dense/vars/0" in below
    assert ckpt("diff", tmp_path / "m.weights.h5", like, "--exact").code == 0
    with formats.open_checkpoint(source) as reader:
        weights = {key for key, kind in reader.kinds.items() if kind == "variable"}
    kept = ckpt("convert", "--json", source, tmp_path / "w-1", "--weights-only").json["tensors"]
    assert {row["from"] for row in kept} == {row["to"] for row in kept} == weights
    assert ckpt("verify", tmp_path / "w-1").code == 0
