"""Contract section 2: everything that names a TensorFlow checkpoint, and what does not."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats import (
    CheckpointError,
    CheckpointNotFoundError,
    CorruptCheckpointError,
    InaccessibleError,
    UnknownFormatError,
    open_checkpoint,
)
from formats.errors import NoCheckpointsError
from formats.find.directory import Directory
from formats.find.opening import is_directory, locate
from formats.find.resolve import resolve, spelling
from formats.location import parse_location
from formats.model.checkpoint_files import is_leftover, step_of
from formats.tf.run.state_file import StateFile
from tests.support import data_path, shard_path, write_bundle

if TYPE_CHECKING:
    from pathlib import Path


def save(directory: Path, *names: str) -> None:
    for number, name in enumerate(names):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        write_bundle(str(directory / name), {"v": np.float32(number)})


def state(directory: Path, latest: str, *paths: str) -> None:
    (directory / "checkpoint").write_bytes(StateFile(latest, paths or (latest,)).text())


def latest(path: object) -> str:
    """Return which checkpoint of a directory is opened."""
    with open_checkpoint(str(path)) as reader:
        return os.path.relpath(reader.location.path, str(path))


def names(directory: Path | str) -> list[str]:
    return [member.name for member in Directory(parse_location(str(directory))).members]


# One checkpoint -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["ckpt-10", "model.ckpt", "my model v1.2-3", "a[0]", "x*y", "index", "data", ".hidden"]
)
def test_prefix_and_every_file_of_a_bundle_name_it(tmp_path: Path, name: str) -> None:
    save(tmp_path, name)
    prefix = str(tmp_path / name)
    (tmp_path / f"{name}.meta").write_bytes(b"a graph")
    for path in (prefix, prefix + ".index", prefix + ".meta", shard_path(prefix)):
        location = locate(parse_location(path))
        assert location.path == prefix
        assert location.head == prefix + ".index"
        assert location.files() == [prefix + ".index", shard_path(prefix)]


def test_paths_are_literal(tmp_path: Path) -> None:
    save(tmp_path, "a1", "a[1]")
    with open_checkpoint(tmp_path / "a[1]") as reader:
        assert reader["v"].read() == 1
    with pytest.raises(CheckpointNotFoundError):
        open_checkpoint(tmp_path / "a?")
    with pytest.raises(CheckpointNotFoundError):
        open_checkpoint(tmp_path / "*")


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, "ckpt-1")
    monkeypatch.chdir(tmp_path)
    for path in ("ckpt-1", "./ckpt-1", "ckpt-1.index", "ckpt-1.data-00000-of-00001", ".", ""):
        if path:
            with open_checkpoint(path) as reader:
                assert reader["v"].read() == 0
    with pytest.raises(CheckpointNotFoundError):
        open_checkpoint("")


def test_directory_named_in_any_way_lists_each_checkpoint_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, "run/ckpt-1", "run/ckpt-2")
    state(tmp_path / "run", "ckpt-2", "ckpt-1", str(tmp_path / "run" / "ckpt-2"))
    monkeypatch.chdir(tmp_path / "run")
    for path in (".", "./", "../run", str(tmp_path / "run") + "/", str(tmp_path / "run" / ".." / "run")):
        assert names(path) == ["ckpt-1", "ckpt-2"]


def test_bundle_goes_before_a_file_of_the_same_name(tmp_path: Path) -> None:
    """As in TensorFlow: where P and P.index are both there, it is V2."""
    save(tmp_path, "both-1")
    shutil.copy(data_path("v1_format/plain/model.ckpt-1"), tmp_path / "both-1")
    with open_checkpoint(tmp_path / "both-1") as reader:
        assert reader.format.name == "tf-name"
        what = "ckpt reads the checkpoint with this prefix, not the file with this name"
        assert reader.location.note == f"{tmp_path}/both-1: {what}"
    assert [member.location.head for member in Directory(parse_location(str(tmp_path))).members] == [
        str(tmp_path / "both-1.index")
    ]


def test_prefix_that_is_also_a_directory(tmp_path: Path) -> None:
    save(tmp_path, "run", "run/ckpt-1")
    assert not is_directory(parse_location(str(tmp_path / "run")))
    with open_checkpoint(tmp_path / "run") as reader:
        assert reader["v"].read() == 0


def test_v1_shards_are_one_checkpoint() -> None:
    folder = data_path("v1_format/sharded")
    pattern = os.path.join(folder, "model.ckpt-1-?????-of-00002")
    shards = [os.path.join(folder, f"model.ckpt-1-0000{shard}-of-00002") for shard in range(2)]
    for path in (os.path.join(folder, "model.ckpt-1"), pattern, *shards):
        location = resolve(parse_location(path))
        assert location.path == pattern
        assert location.files() == shards
    assert resolve(parse_location(os.path.join(folder, "model.ckpt-1.meta"))).path == pattern


def test_v1_file_is_itself() -> None:
    path = data_path("v1_format/plain/model.ckpt-1")
    assert resolve(parse_location(path)) == (path, path, None, None)
    assert resolve(parse_location(path)).files() == [path]


@pytest.mark.parametrize("folder", ["module", "keras_model"])
def test_saved_model_directory_names_its_variables(folder: str) -> None:
    path = data_path("saved_model", folder)
    assert not is_directory(parse_location(path))
    location = locate(parse_location(path))
    assert location.path == os.path.join(path, "variables", "variables")
    with open_checkpoint(path) as reader:
        assert reader.format.name == "tf-object"


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("ckpt-10", 10),
        ("model.ckpt-200", 200),
        ("model-7.ckpt", 7),
        ("w-3.weights.h5", 3),
        ("w-3.h5", 3),
        ("w-3.hdf5", 3),
        ("w-3.keras", 3),
        ("model.ckpt-1-?????-of-00002", 1),
        ("a-b-12", 12),
        ("ckpt-0010", 10),
        ("model", None),
        ("ckpt10", None),
        ("ckpt-", None),
        ("ckpt-1a", None),
        ("dir-5/model", None),
        ("easy_checkpoint", None),
    ],
)
def test_step_is_the_number_behind_the_last_dash(name: str, step: int | None) -> None:
    assert step_of(name) == step


# Directories ------------------------------------------------------------------------


def test_latest_is_what_the_state_file_names(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1", "ckpt-2", "ckpt-3")
    state(tmp_path, "ckpt-2", "ckpt-1", "ckpt-2")
    assert latest(tmp_path) == "ckpt-2"
    assert names(tmp_path) == ["ckpt-1", "ckpt-2", "ckpt-3"]
    with open_checkpoint(tmp_path / "checkpoint") as reader:
        assert reader["v"].read() == 1
        assert reader.location.note is None
        assert reader.location.reason == f"{tmp_path}/ckpt-2 was chosen, because the state file names it"


def test_stale_absolute_paths_are_looked_for_next_to_the_state_file(tmp_path: Path) -> None:
    save(tmp_path, "model-1", "model-2", "model-3")
    state(tmp_path, "/data/run1/model-2", "/data/run1/model-1", "/data/run1/model-2")
    assert latest(tmp_path) == "model-2"
    note = Directory(parse_location(str(tmp_path))).require_latest().note
    assert note is not None
    assert "/data/run1/model-2" in note


def test_moved_directories_of_tensorflow() -> None:
    """TensorFlow finds none of these; contract section 2 does."""
    assert latest(data_path("state_files/absolute")) == "model-2"
    with pytest.raises(CheckpointNotFoundError, match="'gone-9', which is missing") as caught:
        open_checkpoint(data_path("state_files/stale"))
    assert "here-3" in caught.value.hints[0]
    assert names(data_path("state_files/stale")) == ["here-3"]


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("crash", "ckpt-1"),
        ("no_state_file", "model-1"),
        ("relative", "sub/model-7"),
        ("spaces and.dots", "my model v1.2-3"),
        ("two_prefixes", "beta-2"),
    ],
)
def test_state_files_of_tensorflow(folder: str, found: str) -> None:
    assert latest(data_path("state_files", folder)) == found


def test_without_a_state_file_the_highest_step_is_the_latest(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-9", "ckpt-10", "ckpt-8", "nostep")
    assert latest(tmp_path) == "ckpt-10"
    assert names(tmp_path) == ["nostep", "ckpt-8", "ckpt-9", "ckpt-10"]


def test_among_equal_steps_the_newest_is_the_latest(tmp_path: Path) -> None:
    save(tmp_path, "a-1", "b-1", "c-1")
    for name, modified in (("a-1", 3000), ("b-1", 5000), ("c-1", 4000)):
        os.utime(tmp_path / f"{name}.index", (modified, modified))
    assert latest(tmp_path) == "b-1"


def test_without_steps_the_newest_is_the_latest(tmp_path: Path) -> None:
    save(tmp_path, "x", "y")
    os.utime(tmp_path / "x.index", (5000, 5000))
    os.utime(tmp_path / "y.index", (4000, 4000))
    assert latest(tmp_path) == "x"


def test_a_listing_is_not_a_checkpoint_of_its_directory(tmp_path: Path) -> None:
    """A lock that is newer than its checkpoint was the directory's latest."""
    save(tmp_path, "old")
    for name in ("old.lock", "old.index.lock", "ckpt-9.lock", "listed.json", "other.index"):
        (tmp_path / name).write_text('{"schema": 1, "tensors": []}')
    os.utime(tmp_path / "old.index", (1000, 1000))
    assert names(tmp_path) == ["old"]
    assert latest(tmp_path) == "old"
    for name in ("old.lock", "listed.json", "other.index"):
        with open_checkpoint(tmp_path / name) as reader:
            assert reader.format.name == "listing"


@pytest.mark.parametrize("named", ["old.lock", "other"])
def test_a_state_file_makes_no_checkpoint_of_a_listing(tmp_path: Path, named: str) -> None:
    save(tmp_path, "old")
    for name in ("old.lock", "other.index"):
        (tmp_path / name).write_text('{"schema": 1, "tensors": []}')
    state(tmp_path, named)
    with pytest.raises(CheckpointNotFoundError, match="which is a saved listing") as caught:
        open_checkpoint(tmp_path)
    assert caught.value.hints[0].endswith("/old")


def test_a_directory_of_listings_alone_has_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "old.lock").write_text('{"schema": 1, "tensors": []}')
    with pytest.raises(NoCheckpointsError) as caught:
        open_checkpoint(tmp_path)
    assert caught.value.hints == (f"to read a saved listing, pass its name: {tmp_path}/old.lock",)


def test_two_prefixes_in_one_directory(tmp_path: Path) -> None:
    save(tmp_path, "best-3", "last-3", "last-7")
    state(tmp_path, "best-3")
    assert latest(tmp_path) == "best-3"
    assert set(names(tmp_path)) == {"best-3", "last-3", "last-7"}


def test_damaged_state_file_is_noted_and_passed_over(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1", "ckpt-2")
    (tmp_path / "checkpoint").write_bytes(b'model_checkpoint_path: "ckpt-1" colour: "red"')
    directory = Directory(parse_location(str(tmp_path)))
    assert directory.require_latest().name == "ckpt-2"
    assert "the field 'colour' is unknown" in directory.notes[0]


def test_names_in_a_state_file_can_be_hostile(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1")
    for listed in (
        b"a\\000b",
        b"a\\000/b",
        b"\\000",
        b"../" * 3000 + b"x",
        b"x" * 100_000,
        b"\\377\\376",
        b"/",
        b".",
        b"/dev/zero",
    ):
        (tmp_path / "checkpoint").write_bytes(b'model_checkpoint_path: "' + listed + b'"\n')
        assert names(tmp_path) == ["ckpt-1"]
        with pytest.raises(CheckpointError):
            open_checkpoint(tmp_path)


def test_directory_without_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "odd").write_text("nothing")
    assert names(tmp_path) == []
    with pytest.raises(CheckpointNotFoundError, match="no checkpoints") as caught:
        open_checkpoint(tmp_path)
    assert caught.value.path == str(tmp_path)


def test_of_pipes_and_broken_links_in_a_directory_an_index_is_a_member(tmp_path: Path) -> None:
    """Opening a pipe waits for a writer that never comes; a file with an index's name was meant as one."""
    save(tmp_path, "ckpt-1")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe-2.index")
    os.symlink("nowhere", tmp_path / "broken-3.index")
    os.symlink("nowhere", tmp_path / "broken")
    (tmp_path / "folder-4.index").mkdir()
    assert names(tmp_path) == ["ckpt-1", "pipe-2", "broken-3"]
    errors = [
        str(member.error).rpartition(": ")[2] for member in Directory(parse_location(str(tmp_path))).members
    ]
    assert errors == [
        "None",
        "this is a pipe, not a regular file",
        "this is a broken symbolic link",
    ]
    assert latest(tmp_path) == "ckpt-1"


def test_links_of_a_directory_that_lead_in_circles_are_not_a_hang(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "ckpt-9.index").symlink_to("ckpt-9.index")
    save(tmp_path, "ckpt-1")
    assert names(tmp_path) == ["ckpt-1", "ckpt-9"]
    assert latest(tmp_path) == "ckpt-1"


def test_pipe_in_place_of_a_shard_is_an_error(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1")
    os.unlink(shard_path(str(tmp_path / "ckpt-1")))
    os.mkfifo(shard_path(str(tmp_path / "ckpt-1")))
    with (
        open_checkpoint(tmp_path / "ckpt-1") as reader,
        pytest.raises(CheckpointError, match="not a regular file"),
    ):
        reader["v"].read()


def test_what_is_neither_file_nor_directory_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    named = {
        "pipe": "a pipe",
        "dangling": "a broken symbolic link",
        "loop": "a broken symbolic link",
        "/dev/zero": "a device",
    }
    for name, what in named.items():
        with pytest.raises(InaccessibleError, match=f"this is {what}") as caught:
            open_checkpoint(tmp_path / name)
        assert caught.value.hints == ()
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(CheckpointNotFoundError) as caught:
        open_checkpoint(tmp_path / "file" / "ckpt-1")
    assert caught.value.hints == (f"check the path: {tmp_path}/file is not a directory",)


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    save(tmp_path, "store/ckpt-1")
    for name in ("ckpt-1.index", "ckpt-1.data-00000-of-00001"):
        os.symlink(tmp_path / "store" / name, tmp_path / name)
    assert latest(tmp_path) == "ckpt-1"


# Leftovers of interrupted saves ---------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "directory", "leftover"),
    [
        ("ckpt-2.data-00000-of-00001.tempstate12345", False, True),
        ("ckpt-2.index.tempstate98765432109876543210", False, True),
        ("model.ckpt.tempstate1", False, True),
        ("ckpt-2_temp", True, True),
        ("ckpt-2_temp_0123456789abcdef0123456789abcdef", True, True),
        ("ckpt-2_temp", False, False),
        ("room_temp_sensor", True, False),
        ("tempstate", False, False),
        ("ckpt-2.tempstate", False, False),
    ],
)
def test_names_of_leftovers(name: str, directory: bool, leftover: bool) -> None:
    assert is_leftover(name, directory=directory) == leftover


def test_leftovers_are_not_checkpoints(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1", "ckpt-2_temp/part-00000-of-00001", "ckpt-3.index.tempstate17")
    shutil.move(tmp_path / "ckpt-3.index.tempstate17.index", tmp_path / "ckpt-3.index.tempstate17")
    assert names(tmp_path) == ["ckpt-1"]
    assert names(data_path("state_files/crash")) == ["ckpt-1"]


def test_part_of_an_interrupted_save_can_be_opened_by_name() -> None:
    with open_checkpoint(data_path("state_files/crash/ckpt-2_temp/part-00000-of-00001")) as reader:
        assert len(reader) == 4


# What is not a checkpoint ---------------------------------------------------------------


LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\n"
    b"size 12345\n"
)
HTML = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body></body></html>\n"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (LFS, "this is a Git LFS pointer, not the file"),
        (HTML, "this is an HTML page, not a checkpoint"),
        (b"\n\n  <html lang='en'>", "this is an HTML page"),
        (b"<!-- saved from url -->\n<!doctype HTML>", "this is an HTML page"),
        (b"", "the file is empty"),
        (b"\x80\x02}q\x00.", "this is a Python pickle"),
    ],
)
@pytest.mark.parametrize("name", ["ckpt-1.index", "ckpt-1"])
def test_foreign_files_are_named(tmp_path: Path, name: str, content: bytes, what: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnknownFormatError, match=what) as caught:
        open_checkpoint(tmp_path / "ckpt-1")
    assert caught.value.path == str(tmp_path / name)
    assert caught.value.hints


def test_text_file_under_the_name_of_an_index(tmp_path: Path) -> None:
    (tmp_path / "ckpt-1.index").write_bytes(
        b"just some text, long enough to hold a footer of 48 bytes, too\n"
    )
    with pytest.raises(
        CorruptCheckpointError, match="not the index of a TensorFlow checkpoint, or it is truncated"
    ) as caught:
        open_checkpoint(tmp_path / "ckpt-1")
    assert caught.value.code == "footer"


def test_lfs_pointer_in_place_of_an_index_is_listed_as_damaged(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1", "ckpt-2")
    (tmp_path / "ckpt-2.index").write_bytes(LFS)
    members = Directory(parse_location(str(tmp_path))).members
    assert [(member.name, member.error is None) for member in members] == [
        ("ckpt-1", True),
        ("ckpt-2", False),
    ]
    assert latest(tmp_path) == "ckpt-1"


def test_lfs_pointer_in_place_of_a_shard(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1")
    with open(shard_path(str(tmp_path / "ckpt-1")), "wb") as file:
        file.write(LFS[:2])
    with open_checkpoint(tmp_path / "ckpt-1") as reader, pytest.raises(CorruptCheckpointError):
        reader["v"].read()


def test_data_without_an_index(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1")
    os.unlink(tmp_path / "ckpt-1.index")
    for path in (str(tmp_path / "ckpt-1"), shard_path(str(tmp_path / "ckpt-1"))):
        with pytest.raises(CheckpointNotFoundError, match=r"exists, but ckpt-1\.index does not") as caught:
            open_checkpoint(path)
        assert caught.value.path == path
        assert "interrupted" in caught.value.hints[0]


def test_mistyped_name_is_answered_with_close_ones(tmp_path: Path) -> None:
    save(tmp_path, "model.ckpt-100", "model.ckpt-200")
    with pytest.raises(CheckpointNotFoundError, match="no such file, prefix or directory") as caught:
        open_checkpoint(tmp_path / "model.ckpt-101")
    assert str(tmp_path / "model.ckpt-100") in caught.value.hints[0]
    with pytest.raises(CheckpointNotFoundError) as caught:
        open_checkpoint(tmp_path / "nowhere" / "ckpt-1")
    assert "does not exist" in caught.value.hints[0]
    assert isinstance(caught.value, FileNotFoundError)


def test_the_graph_of_a_v1_checkpoint_names_it(tmp_path: Path) -> None:
    for name in ("model.ckpt-1", "model.ckpt-1.meta", "shards-00000-of-00001", "shards.meta"):
        (tmp_path / name).write_bytes(b"")
    assert resolve(parse_location(f"{tmp_path}/model.ckpt-1.meta")).path == f"{tmp_path}/model.ckpt-1"
    assert resolve(parse_location(f"{tmp_path}/shards.meta")).path == f"{tmp_path}/shards-?????-of-00001"


def test_a_file_that_is_also_a_prefix_is_that_file_and_a_note_says_so(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1", "ckpt-1.index")
    prefix = f"{tmp_path}/ckpt-1"
    found = resolve(parse_location(prefix + ".index"))
    assert (found.path, found.head) == (prefix, prefix + ".index")
    assert found.note is not None
    assert found.note.endswith(f"to read the checkpoint with this prefix, name {prefix}.index.index")
    other = resolve(parse_location(prefix + ".index.index"))
    assert (other.path, spelling(other), other.note) == (prefix + ".index", prefix + ".index.index", None)
    assert resolve(parse_location(prefix)).note is None


def test_a_state_file_names_prefixes(tmp_path: Path) -> None:
    save(tmp_path, "ckpt-1", "ckpt-1.index")
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "ckpt-1.index"\n')
    assert Directory(parse_location(str(tmp_path))).require_latest().path == f"{tmp_path}/ckpt-1.index"


def test_pipes_links_and_directories_in_place_of_an_index_are_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.index")
    (tmp_path / "d.index").mkdir()
    (tmp_path / "l.index").symlink_to("nowhere")
    for name, what in {"f": "a pipe", "d": "a directory", "l": "a broken symbolic link"}.items():
        with pytest.raises(InaccessibleError, match=f"/{name}.index: this is {what}; expected an index"):
            resolve(parse_location(f"{tmp_path}/{name}"))
    (tmp_path / "gone").symlink_to("nowhere")
    with pytest.raises(InaccessibleError, match="gone is a broken symbolic link"):
        resolve(parse_location(f"{tmp_path}/gone/ckpt-1"))
