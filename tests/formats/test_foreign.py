"""Files under a checkpoint's name that are something else, and are named as what they are."""

from __future__ import annotations

import pickle
import shutil
import zipfile

import pytest

import formats
from tests.support import data_path

CONTENTS = {
    "an HTML page": b"<!DOCTYPE html><html><body>Sign in",
    "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
    "a GGUF model": b"GGUF\3\0\0\0",
    "a Python pickle": pickle.dumps({"state_dict": {}}),
    "not an HDF5 file: begins with b'PK": b"PK no archive",
    "the file is empty": b"",
}


@pytest.mark.parametrize("what", CONTENTS)
def test_what_it_is_instead_is_said(tmp_path, what):
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


@pytest.mark.parametrize("name", ["archive/data.pkl", "data.pkl", "model/data.pkl"])
def test_a_torch_archive_is_named(tmp_path, name):
    path = str(tmp_path / "model.pt")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, b"")
        archive.writestr("archive/data/0", b"1234")
    with pytest.raises(formats.UnknownFormatError, match="PyTorch"):
        formats.open_checkpoint(path)


def test_other_archives_are_no_checkpoints(tmp_path):
    path = str(tmp_path / "x.zip")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", b"")
    with pytest.raises(formats.UnknownFormatError, match="no checkpoint format"):
        formats.open_checkpoint(path)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(formats.UnknownFormatError, match="empty zip"):
        formats.open_checkpoint(path)
