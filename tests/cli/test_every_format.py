"""`ckpt ls`, `verify` and `show` on every checkpoint of the manifest that is not a bundle or V1 file."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.support import FORMAT_IDS, data_path, recorded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHERS = recorded(*(name for name in FORMAT_IDS if not name.startswith("tf-")))


@pytest.mark.parametrize("entry", OTHERS, ids=lambda entry: entry["path"])
def test_every_checkpoint_lists_verifies_and_shows(entry: dict, ckpt: Callable) -> None:
    path = data_path(entry["path"])
    listed = ckpt("ls", "-l", "--json", path)
    assert (listed.code, listed.err) == (0, "")
    assert listed.json["format"] == FORMAT_IDS[entry["format"]]
    tensors = listed.json["tensors"]
    # Keys of keras-h5 are made of the datasets' paths; their content is the same.
    assert sorted((t["dtype"], t["shape"], t["nbytes"]) for t in tensors) == sorted(
        (t["dtype"], t["shape"], t["nbytes"]) for t in entry["tensors"]
    )
    assert [t["key"].encode() for t in tensors] == sorted(t["key"].encode() for t in tensors)
    assert all(t["shard"] is t["offset"] is t["crc32c"] is None for t in tensors)

    verified = ckpt("verify", "--json", path)
    assert verified.code == 0
    (found,) = verified.json["results"]
    assert (found["ok"], found["checked"]["tensors"]) == (True, len(entry["tensors"]))
    has_checksums = listed.json["format"] in ("npz", "keras")
    assert ("stores no checksums" in verified.err) != has_checksums

    shown = ckpt("show", "--json", path).json
    assert shown["format"] == listed.json["format"]
    assert sum(kind["tensors"] for kind in shown["kinds"].values()) == len(tensors)


def test_a_full_model_shows_its_layers_in_order(ckpt: Callable) -> None:
    rows = ckpt("show", data_path("keras_mlp", "mlp.full.h5")).rows
    layers = [row[1].split(":")[0] for row in rows if row[0] == "layer"]
    assert layers == [
        "hidden (Dense)",
        "bn (BatchNormalization)",
        "ln (LayerNormalization)",
        "dropout (Dropout)",
        "head (Dense)",
    ]
    metadata = ckpt("show", "--json", data_path("keras_mlp", "mlp.full.h5")).json["metadata"]
    assert json.loads(metadata["config"])["class_name"] == "Sequential"


def test_a_listing_stands_for_its_checkpoint(tmp_path: Path, ckpt: Callable) -> None:
    source = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
    saved = tmp_path / "ckpt-10.json"
    saved.write_text(ckpt("ls", "-l", "--json", source).out)
    again = ckpt("ls", "-l", "--json", saved)
    assert again.code == 0
    assert again.json["format"] == "listing"
    assert again.json["tensors"] == json.loads(saved.read_text())["tensors"]
    result = ckpt("show", saved, "net/l1/kernel")
    assert result.code == 3
    assert "listing" in result.err


@pytest.mark.parametrize("name", ["h5_cut", "h5_cut_end", "h5_empty", "h5_signature", "h5_text"])
def test_damaged_hdf5_is_one_line(name: str, ckpt: Callable) -> None:
    path = data_path("corrupt", name, "weights.h5")
    for command in ("ls", "verify", "show"):
        result = ckpt(command, path)
        assert result.code == 3
        assert result.err.startswith(f"ckpt: error: {path}: ")
        assert "hint: " in result.err
        assert "Traceback" not in result.err


def test_a_truncated_file_says_what_it_has_and_should_have(ckpt: Callable) -> None:
    err = ckpt("ls", data_path("corrupt", "h5_cut", "weights.h5")).err
    size = os.path.getsize(data_path("corrupt", "h5_cut", "weights.h5"))
    assert f"it has {size} bytes, but its superblock says 13864" in err


def test_what_is_read_elsewhere_is_named(tmp_path: Path, ckpt: Callable) -> None:
    for content, word in (
        (b"GGUF\x03\x00\x00\x00", "GGUF"),
        (b"\x80\x02}q\x00.", "pickle"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html></html>", "HTML page"),
    ):
        path = tmp_path / "weights.h5"
        path.write_bytes(content)
        result = ckpt("ls", path)
        assert result.code == 3
        assert word in result.err
