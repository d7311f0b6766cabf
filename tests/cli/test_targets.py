"""Targets that writing commands reject, also in a dry run: false suffixes, existing files, URLs."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from tests.support import data_path, numbers, strings, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = data_path("guide_adam_legacy", "tf_ckpts")
WEIGHTS = data_path("interop", "weights.safetensors")
GUIDE = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
WRITABLE = "object, name, v1, h5, weights-h5, hdf5, keras, npz, safetensors, flax, orbax, pytorch\n"
BERT = data_path("bert_tiny", "bert_model.ckpt-2")
TEMPLATE = data_path("bert_template", "other_names", "model", "ckpt-1")
GOLD_MAP = data_path("bert_template", "gold_map.tsv")
STEPS = [data_path("pairs", "step1.h5"), data_path("pairs", "step2.h5")]
URL = "s3://bucket/run/ckpt-1"

WRITING = {
    "convert": ("convert", RUN),
    "convert to": ("convert", RUN, "--to", "name"),
    "convert like": ("convert", RUN, "--like", RUN),
    "rename": ("rename", RUN, "--sub", "net=>model"),
    "average": ("average", RUN, RUN, "-o"),
    "rescue": ("rescue", RUN),
    "rescue a file": ("rescue", WEIGHTS),
}


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
@pytest.mark.parametrize("suffix", ["pt2", "pkl", "onnx", "gguf", "tflite", "npy"])
@pytest.mark.parametrize("command", WRITING)
def test_no_command_writes_under_the_suffix_of_what_is_never_written(
    command: str, suffix: str, dry: tuple[str, ...], tmp_path: Path, ckpt: Callable
) -> None:
    arguments = (*WRITING[command], tmp_path / f"x.{suffix}", *dry)
    result = ckpt(*arguments)
    assert (result.code, os.listdir(tmp_path)) == (3, []), result.err
    assert f"x.{suffix}: ckpt does not write .{suffix} files (" in result.err
    hint = result.err.partition("hint: use one of ")[2].partition(", or a prefix")[0]
    assert set(hint.split(", ")) >= {".h5", ".keras", ".npz", ".pt", ".safetensors", ".weights.h5"}
    assert not {".index", ".json", ".ckpt"} & set(hint.split(", "))


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (
            "x.h5: the name has the suffix of keras-h5, but --to says npz",
            ("convert", RUN, "x.h5", "--to", "npz"),
        ),
        (
            "x.json: the name has the suffix of listing, but --to",
            ("convert", RUN, "x.json", "--to", "safetensors"),
        ),
        (
            "x.weights.json: the name has the suffix of keras-weights, but --to says safetensors",
            ("convert", RUN, "x.weights.json", "--to", "safetensors"),
        ),
        (
            "x.npz: the name has the suffix of npz, but averaging keeps the format",
            ("average", RUN, RUN, "-o", "x.npz"),
        ),
        (
            "x.npz: the name has the suffix of npz, but rescue keeps the format, safetensors",
            ("rescue", WEIGHTS, "x.npz"),
        ),
        (
            "x.npz: the name has the suffix of npz, but rename keeps the format, safetensors",
            ("rename", WEIGHTS, "x.npz", "--add-prefix", "p/"),
        ),
    ],
)
def test_a_suffix_of_another_format_is_rejected(
    message: str, arguments: tuple[str, ...], tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for dry in ((), ("-n",)):
        result = ckpt(*arguments, *dry)
        assert (result.code, os.listdir(tmp_path)) == (3, [])
        assert message in result.err
        assert "hint: " in result.err


def test_a_free_suffix_says_nothing(tmp_path: Path, ckpt: Callable) -> None:
    for name in ("x.ckpt", "ckpt-1.5"):
        assert ckpt("convert", RUN, tmp_path / name, "--to", "npz").code == 0
        with formats.open_checkpoint(tmp_path / name) as reader:
            assert reader.format.name == "npz"


def test_a_file_with_a_false_suffix_can_be_renamed_in_place(tmp_path: Path, ckpt: Callable) -> None:
    shutil.copy(WEIGHTS, tmp_path / "model.bin")
    assert ckpt("rename", "--in-place", tmp_path / "model.bin", "--add-prefix", "p/").code == 0


def test_each_takes_the_old_suffix_away(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", "--each", RUN, tmp_path / "npz", "--to", "npz").code == 0
    assert ckpt("convert", "--each", tmp_path / "npz", tmp_path / "names", "--to", "name").code == 0
    assert {name.partition(".")[0] for name in os.listdir(tmp_path / "names")} >= {"ckpt-10"}
    assert not any(".npz" in name for name in os.listdir(tmp_path / "names"))


def test_each_refuses_two_members_under_one_name(tmp_path: Path, ckpt: Callable) -> None:
    assert ckpt("convert", RUN, tmp_path / "run" / "a.npz").code == 0
    assert ckpt("convert", RUN, tmp_path / "run" / "a.h5", "--to", "hdf5", "--weights-only").code == 0
    result = ckpt("convert", "--each", tmp_path / "run", tmp_path / "out", "--to", "name", "--overwrite")
    assert (result.code, os.path.exists(tmp_path / "out")) == (3, False)
    assert "would both be written to this path" in result.err


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (2, f"the format 'nope' is unknown; use one of {WRITABLE}", ("convert", GUIDE, "x", "--to", "nope")),
        (2, f"the format 'nope' is unknown; use one of {WRITABLE}", ("verify", GUIDE, "--roundtrip", "nope")),
        (
            2,
            f"'torch' is unknown; did you mean pytorch? Use one of {WRITABLE}",
            ("convert", GUIDE, "x", "--to", "torch"),
        ),
        (
            2,
            f"'tf2' is unknown; did you mean object? Use one of {WRITABLE}",
            ("convert", GUIDE, "x", "--to", "tf2"),
        ),
        (
            2,
            f"'fp16' is unknown; did you mean --cast? Use one of {WRITABLE}",
            ("convert", GUIDE, "x", "--to", "fp16"),
        ),
        (3, "x: onnx can be read, but not written\n", ("convert", GUIDE, "x", "--to", "onnx")),
        (
            2,
            "--like writes the format of TEMPLATE, tf-object, but the suffix of x.npz means npz",
            ("convert", GUIDE, "x.npz", "--like", GUIDE),
        ),
        (3, "x.npz: npz cannot be written in shards", ("convert", GUIDE, "x.npz", "--shard-size", "100")),
    ],
)
def test_targets_that_contradict_what_is_requested(
    code: int,
    message: str,
    arguments: tuple[str, ...],
    tmp_path: Path,
    ckpt: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = ckpt(*arguments)
    assert (result.code, os.listdir(tmp_path)) == (code, [])
    assert message in result.err


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
    assert f"{tmp_path}/{target}: this path already exists" in real.err
    assert (os.listdir(tmp_path), (tmp_path / target).read_bytes()) == ([target], b"old")


@pytest.mark.parametrize("dry_run", [[], ["-n"]])
def test_what_only_a_writer_knows_is_rejected_in_a_dry_run_too(
    dry_run: list[str], tmp_path: Path, ckpt: Callable
) -> None:
    write_bundle(str(tmp_path / "b"), {"a/./b": numbers(np.zeros(1))})
    result = ckpt("convert", tmp_path / "b", tmp_path / "out.h5", "--to", "hdf5", *dry_run)
    assert result.code == 3
    assert not os.path.exists(tmp_path / "out.h5")


@pytest.mark.parametrize("name", ["out", "out/", "out/.", "."])
def test_a_directory_is_not_a_bundle(name: str, tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "out").mkdir()
    result = ckpt("convert", GUIDE, f"{tmp_path}/{name}", "--overwrite")
    assert result.code == 3
    assert (
        "this is a directory, but a TensorFlow checkpoint is named by the common prefix of its files"
        in result.err
    )
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


def test_json_is_a_listing_if_it_is_requested(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("convert", GUIDE, tmp_path / "x.json")
    assert (result.code, os.listdir(tmp_path)) == (3, [])
    assert "x.json: the suffix means a listing, and a listing stores no values" in result.err
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
    """That is when the user edits it; an edited map is not overwritten."""
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


READING = {
    "ls": ("ls", URL),
    "show": ("show", URL),
    "stats": ("stats", URL),
    "verify": ("verify", RUN, URL),
    "verify outputs": ("verify", RUN, "--outputs-like", URL),
    "verify input": ("verify", RUN, "--outputs-like", RUN, "--input", URL),
    "diff": ("diff", RUN, URL),
    "match": ("match", URL, RUN),
    "graph": ("graph", URL),
    "log": ("log", URL),
    "log events": ("log", RUN, "--events", URL),
    "state": ("state", URL),
    "convert": ("convert", URL, "x"),
    "convert like": ("convert", RUN, "x", "--like", URL),
    "convert map": ("convert", RUN, "x", "--map", URL),
    "convert config": ("convert", RUN, "x.keras", "--config", URL),
    "convert save map": ("convert", RUN, "x", "--like", RUN, "--save-map", URL),
    "convert each": ("convert", "--each", RUN, URL),
    "extract": ("extract", RUN, "-o", URL + ".npz"),
    "extract folder": ("extract", RUN, "-o", URL + "/"),
    "graph output": ("graph", RUN, "-o", URL + ".svg"),
    "rescue sibling": ("rescue", RUN, "x", "--sibling", URL),
    "demo": ("demo", URL),
}
TO_URL = {f"{command} to it": (*arguments, URL) for command, arguments in WRITING.items()}


@pytest.mark.parametrize("arguments", [*READING.values(), *TO_URL.values()], ids=[*READING, *TO_URL])
def test_a_url_is_rejected_by_name(
    arguments: tuple[str, ...], tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where what reads it is not installed."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.chdir(tmp_path)
    result = ckpt(*arguments)
    assert (result.code, os.listdir(tmp_path)) == (3, []), result.err
    assert f"ckpt: error: {URL}" in result.err
    assert "s3:// needs obstore, which is not installed" in result.err
    assert "hint: to install it: pip install 'ckpt-tools[remote]'" in result.err
