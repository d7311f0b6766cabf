"""Files under a checkpoint's name that are something else, and are named as what they are."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import shutil
import tarfile
import zipfile

import pytest

import formats
from tests.support import data_path

CONTENTS = {
    "an HTML page": b"<!DOCTYPE html><html><body>Sign in",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
    "a Python pickle": pickle.dumps({"state_dict": {}}),
    "a TensorFlow graph as text": b'node {\n  name: "x"\n  op: "Const"\n}\n',
    "a Core ML model": b"\x08\x04\x12\x2a\x0a\x0e\x0a\x05input" + bytes(30),
    "a single array": b"\x93NUMPY\x01\0v\0{'descr': '<f4'}",
    "a gzip archive": gzip.compress(b"x"),
    "a bzip2 archive": bz2.compress(b"x"),
    "an xz archive": lzma.compress(b"x"),
    "a zstd archive": b"\x28\xb5\x2f\xfd\0",
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\0\4",
    "a RAR archive": b"Rar!\x1a\x07\x01\0",
    "a tar archive": tarfile.TarInfo("ckpt-1.index").tobuf(),
    "this is not an HDF5 file: it begins with 'PK no ar'": b"PK no archive",
    "the file is empty": b"",
}


@pytest.mark.parametrize("what", CONTENTS)
def test_what_it_is_instead_is_reported(tmp_path, what):
    path = tmp_path / "weights.h5"
    path.write_bytes(CONTENTS[what])
    with pytest.raises(formats.UnknownFormatError) as caught:
        formats.open_checkpoint(str(path))
    assert what in caught.value.message
    assert caught.value.hints


def test_the_index_of_a_bundle_under_another_name_is_named(tmp_path):
    path = tmp_path / "weights.h5"
    shutil.copy(data_path("keras_mlp/mlp.index"), path)
    with pytest.raises(formats.UnknownFormatError, match="index file of a TensorFlow checkpoint") as caught:
        formats.open_checkpoint(str(path))
    assert ".index" in caught.value.hints[0]


def test_a_bundle_whose_prefix_ends_in_h5_is_a_bundle(tmp_path):
    for suffix in (".index", ".data-00000-of-00001"):
        shutil.copy(data_path("keras_mlp/mlp" + suffix), tmp_path / f"weights.h5{suffix}")
    with formats.open_checkpoint(str(tmp_path / "weights.h5")) as reader:
        assert reader.format.name == "tf-object"


@pytest.mark.parametrize(
    ("what", "members"),
    [
        ("a zip archive with a Python pickle", {"data.pkl": b"", "archive/data/0": b"1234"}),
        ("a TorchScript archive", {"m/data.pkl": b"", "m/constants.pkl": b"", "m/code/x.py": b""}),
        ("a zip archive that contains run/ckpt-1.index", {"run/ckpt-1.index": b"", "run/notes.txt": b""}),
        ("a zip archive that contains w.safetensors", {"w.safetensors": b""}),
    ],
)
def test_what_is_in_an_archive_is_reported(tmp_path, what, members):
    path = str(tmp_path / "model")
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(formats.UnknownFormatError) as caught:
        formats.open_checkpoint(path)
    assert what in caught.value.message
    assert caught.value.hints


@pytest.mark.parametrize("below", ["", "1000", "default"])
def test_what_is_left_of_an_orbax_directory_is_named(tmp_path, below):
    os.makedirs(tmp_path / below, exist_ok=True)
    for name in ("_sharding", "manifest.ocdbt"):
        (tmp_path / below / name).write_bytes(b"{}")
    with pytest.raises(formats.UnknownFormatError, match="files of an Orbax checkpoint") as caught:
        formats.open_checkpoint(str(tmp_path))
    assert "copy" in caught.value.hints[0]


@pytest.mark.parametrize("name", ["saved_model/module/saved_model.pb", "name_based/adam/model.ckpt-5.meta"])
def test_what_begins_alike_is_not_an_onnx_model(name, tmp_path):
    shutil.copy(data_path(name), tmp_path / "model")
    with pytest.raises(formats.UnknownFormatError) as caught:
        formats.open_checkpoint(str(tmp_path / "model"))
    assert "ONNX" not in caught.value.message
    assert "GraphDef" not in caught.value.message


def test_other_archives_are_not_checkpoints(tmp_path):
    path = str(tmp_path / "x.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", b"")
    with pytest.raises(formats.UnknownFormatError, match="this is not a known checkpoint format"):
        formats.open_checkpoint(path)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(formats.UnknownFormatError, match="empty zip"):
        formats.open_checkpoint(path)
