"""What every writing command refuses alike: suffixes that lie, and URLs."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

import formats
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = data_path("guide_adam_legacy", "tf_ckpts")
WEIGHTS = data_path("interop", "weights.safetensors")
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
    assert f"x.{suffix}: .{suffix} is the suffix of" in result.err
    hint = result.err.partition("hint: what can be written: ")[2].partition(", or a prefix")[0]
    assert set(hint.split(", ")) >= {".h5", ".keras", ".npz", ".pt", ".safetensors", ".weights.h5"}
    assert not {".index", ".json", ".ckpt"} & set(hint.split(", "))


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("x.h5: ends like keras-h5, and --to asks for npz", ("convert", RUN, "x.h5", "--to", "npz")),
        ("x.json: ends like listing, and --to", ("convert", RUN, "x.json", "--to", "safetensors")),
        (
            "x.weights.json: ends like keras-weights, and --to asks for safetensors",
            ("convert", RUN, "x.weights.json", "--to", "safetensors"),
        ),
        ("x.npz: ends like npz, and rescuing keeps the format, safetensors", ("rescue", WEIGHTS, "x.npz")),
        (
            "x.npz: ends like npz, and renaming keeps the format, safetensors",
            ("rename", WEIGHTS, "x.npz", "--add-prefix", "p/"),
        ),
    ],
)
def test_a_suffix_of_another_format_is_refused(
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


def test_a_file_under_a_name_that_lies_can_be_renamed_in_place(tmp_path: Path, ckpt: Callable) -> None:
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
    assert "would both be written here" in result.err


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
def test_a_url_is_refused_by_name(
    arguments: tuple[str, ...], tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where what reads it is not installed."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.chdir(tmp_path)
    result = ckpt(*arguments)
    assert (result.code, os.listdir(tmp_path)) == (3, []), result.err
    assert f"ckpt: error: {URL}" in result.err
    assert "s3:// is read by obstore, which is not installed" in result.err
    assert "hint: pip install 'ckpt-tools[remote]'" in result.err
