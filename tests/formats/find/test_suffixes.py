"""Targets that say by their suffix, or by being a URL, something else than what would be written there."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import formats
from formats.find.directory import Directory
from formats.find.registry import all_formats
from formats.find.suffixes import format_of_suffix, without_suffix
from formats.location import parse_location
from formats.store.local.staging import Staging, replace_file
from tests.support import data_path
from tests.writing import spec_of

if TYPE_CHECKING:
    from pathlib import Path

FALSE = [
    "pt2",
    "onnx",
    "gguf",
    "tflite",
    "npy",
    "zip",
    "tar",
    "tar.gz",
    "ckpt.zip",
    "pb",
    "jsonl",
    "parquet",
    "pkl",
    "pdparams",
    "mlmodel",
    "csv",
    "txt",
    "nc",
    "engine",
    "db",
    "png",
    "py",
]


@pytest.mark.parametrize("suffix", FALSE)
@pytest.mark.parametrize("name", [found.name for found in all_formats() if found.writer is not None])
def test_no_format_is_written_under_the_suffix_of_what_is_never_written(
    name: str, suffix: str, tmp_path: Path
) -> None:
    with pytest.raises(formats.ConversionError, match="ckpt does not write") as caught:
        formats.create_checkpoint(tmp_path / f"x.{suffix}", format=name, specs=[])
    assert ".safetensors" in caught.value.hints[0]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "target", "own"),
    [
        ("npz", "x.h5", "keras-h5"),
        ("safetensors", "x.npz", "npz"),
        ("tf-name", "x.sft", "safetensors"),
        ("safetensors", "x.pt", "pytorch"),
        ("tf-object", "x.PTH", "pytorch"),
        ("pytorch", "x.npz", "npz"),
        ("safetensors", "x.bin.index.json", "pytorch"),
        ("tf-name", "x.NPZ", "npz"),
        ("tf-object", "x.keras", "keras"),
        ("hdf5", "x.keras", "keras"),
        ("keras", "x.h5", "keras-h5"),
        ("npz", "x.json", "listing"),
        ("tf-v1", "x.weights.h5", "keras-weights"),
        ("listing", "x.weights.json", "keras-weights"),
        ("listing", "x.safetensors.index.json", "safetensors"),
    ],
)
def test_no_format_is_written_under_the_suffix_of_another(
    name: str, target: str, own: str, tmp_path: Path
) -> None:
    with pytest.raises(
        formats.ConversionError, match=f"the name has the suffix of {own}, but the output is {name}"
    ):
        formats.create_checkpoint(tmp_path / target, format=name, specs=[])


@pytest.mark.parametrize("target", ["ckpt-1.5", "x.ckpt", "v1.2-3", ".hidden", ".npz", "x", "x.h5.index"])
def test_unknown_suffixes_are_free(target: str, tmp_path: Path) -> None:
    with formats.create_checkpoint(
        tmp_path / target, format="tf-name", specs=[spec_of("a", np.zeros(1))]
    ) as writer:
        writer.write("a", np.zeros(1))


@pytest.mark.parametrize("target", ["x.index", "x.data-00000-of-00001", "x.npz.tempstate12"])
@pytest.mark.parametrize("name", ["npz", "safetensors", "hdf5", "listing", "tf-v1"])
def test_no_file_takes_the_name_of_a_part(name: str, target: str, tmp_path: Path) -> None:
    """It would be opened as the bundle, not be found, or be removed as a leftover."""
    with pytest.raises(formats.ConversionError, match=f"this is the name of .*, but the output is {name}"):
        formats.create_checkpoint(tmp_path / target, format=name, specs=[])


def test_a_file_under_the_name_of_an_index_is_read(tmp_path: Path) -> None:
    """It was taken for a shard without its index, and ended in a ValueError."""
    shutil.copy(data_path("interop", "weights.safetensors"), tmp_path / "x.index")
    with formats.open_checkpoint(tmp_path / "x.index") as reader:
        assert reader.format.name == "safetensors"


def test_a_file_that_is_there_in_this_format_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    shutil.copy(data_path("interop", "weights.safetensors"), path)
    options = {"format": "safetensors", "specs": [spec_of("a", np.zeros(1))], "overwrite": True}
    with formats.create_checkpoint(path, **options) as writer:
        writer.write("a", np.ones(1))
    with pytest.raises(formats.ConversionError, match="the name has the suffix of pytorch"):
        formats.create_checkpoint(path, **{**options, "format": "npz"})


def test_suffixes_and_names_without_them() -> None:
    for path, name in (
        ("x.H5", "keras-h5"),
        ("x.sft", "safetensors"),
        ("x.weights.h5", "keras-weights"),
        ("a.npz/x", None),
    ):
        found = format_of_suffix(path)
        assert (found.name if found else None) == name
    for path, name in (("a.npz", "a"), ("a.weights.h5", "a"), ("a-1.5", "a-1.5"), (".npz", ".npz")):
        assert without_suffix(path) == name


# URLs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("hdfs://x/y", "copy the file to this machine"),
        ("git+ssh://x", "copy the file to this machine"),
    ],
)
def test_a_url_is_not_a_path(url: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for take in (
        formats.open_checkpoint,
        Directory,
        Staging,
        lambda path: replace_file(path, b""),
        lambda path: formats.create_checkpoint(path, format="tf-name", specs=[]),
    ):
        with pytest.raises(formats.UnsupportedFeatureError, match="://") as caught:
            take(parse_location(url))
        assert hint in caught.value.hints[0]
    assert os.listdir(tmp_path) == []


def test_a_path_in_which_a_colon_is_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("./s3://b/x", "a:b/c-1", "run/x://y"):
        with formats.create_checkpoint(path, format="tf-name", specs=[]):
            pass
        with formats.open_checkpoint(path) as reader:
            assert not reader.specs
