"""Targets: what a checkpoint may replace, and other writers to the same place."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats import CheckpointError, CheckpointExistsError, ConversionError
from formats.find.creating import create_writer
from formats.location import parse_location
from formats.store.local.staging import Staging, replace_file
from tests.cli.conftest import ckpt
from tests.writing import read_all, save, spec_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["ckpt"]

OLD = {"a": np.arange(5), "b": np.ones((3, 2), np.float32)}
NEW = {"a": np.arange(7), "c": np.zeros((3, 2), np.float32)}


# Two writers of one target --------------------------------------------------------------


def test_two_commits_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of one and the data of the other would be no checkpoint at all."""
    writers = []
    for arrays in (OLD, NEW):
        specs = [spec_of(key, array) for key, array in arrays.items()]
        writer = formats.create_checkpoint(tmp_path / "c", format="tf-name", specs=specs, overwrite=True)
        for key, array in arrays.items():
            writer.write(key, array)
        writer.finish()
        writers.append(writer)
    moved: list[tuple[int, str]] = []
    second = threading.Thread(target=writers[1].commit)
    real = Staging.move

    def move(self: Staging, name: str, final: str | None = None) -> None:
        if not moved:
            second.start()
            time.sleep(0.1)
        moved.append((threading.get_ident(), name))
        real(self, name, final)

    monkeypatch.setattr(Staging, "move", move)
    writers[0].commit()
    second.join()
    owners = [owner for owner, _ in moved]
    assert len(set(owners)) == 2
    assert owners == sorted(owners, key=owners.index)
    assert list(read_all(tmp_path / "c")) == list(NEW)


# Paths that a file must not replace -----------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
def test_directories_and_devices_are_not_replaced(overwrite: bool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "link.npz").symlink_to("pipe.npz")
    (tmp_path / "d.npz").mkdir()
    for name, what in (
        ("pipe.npz", "a device or a pipe"),
        ("link.npz", "a device"),
        ("d.npz", "a directory"),
    ):
        with pytest.raises(CheckpointExistsError, match=what) as caught:
            formats.create_checkpoint(tmp_path / name, format="npz", specs=[], overwrite=overwrite)
        way = f"name the file, for example {tmp_path}/d.npz/NAME"
        assert caught.value.hints == ((way,) if name == "d.npz" else ())
    with pytest.raises(CheckpointExistsError, match="a device"):
        replace_file(parse_location(str(tmp_path / "pipe.npz")), b"")
    assert sorted(os.listdir(tmp_path)) == ["d.npz", "link.npz", "pipe.npz"]


def test_a_directory_is_not_a_prefix(tmp_path: Path) -> None:
    """`out` and `out.index` would be two checkpoints of one name."""
    (tmp_path / "run").mkdir()
    for path in (tmp_path / "run", tmp_path / "run" / "."):
        with pytest.raises(formats.ConversionError, match="a directory") as caught:
            formats.create_checkpoint(path, format="tf-name", specs=[])
        assert "ckpt-1" in caught.value.hints[0]


def test_a_rehearsal_refuses_and_touches_nothing(tmp_path: Path) -> None:
    options: dict[str, Any] = {"format": "tf-name", "specs": [spec_of("v", np.zeros(2))], "rehearsal": True}
    create_writer(tmp_path / "missing" / "c", **options)
    assert os.listdir(tmp_path) == []
    save(tmp_path / "c", OLD)
    with pytest.raises(CheckpointExistsError):
        create_writer(tmp_path / "c", **options)


@pytest.mark.parametrize("form", ["npz", "safetensors", "keras-h5"])
def test_slices_are_rejected_by_formats_that_have_none(form: str, tmp_path: Path) -> None:
    halves = {"c": (((0, 3),), ((3, 2),))}
    with pytest.raises(ConversionError, match="does not support slices"):
        formats.create_checkpoint(
            tmp_path / "new", format=form, specs=[spec_of("c", np.arange(5))], slices=halves
        )
    assert os.listdir(tmp_path) == []


# New directories ------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of what is brought to disk during a test."""
    found: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_directories_that_are_made_outlast_a_loss_of_power(tmp_path: Path, synced: list[str]) -> None:
    """A directory is lost where the one above it was not brought to disk, and with it all in it."""
    save(tmp_path / "new" / "run" / "c-1", OLD)
    above = [str(tmp_path), str(tmp_path / "new")]
    assert [path for path in synced if path in above] == above
    assert synced[-1] == str(tmp_path / "new" / "run")


def test_directories_of_tensors_outlast_a_loss_of_power(
    tmp_path: Path, synced: list[str], ckpt: Callable[..., Any]
) -> None:
    save(tmp_path / "c-1", {"a/b/x": np.zeros(2), "d/y": np.zeros(2)})
    assert ckpt("extract", tmp_path / "c-1", "a/b/x", "-o", f"{tmp_path}/out/").code == 0
    below = [path for path in synced if path.startswith(str(tmp_path)) and "/tensors" in path]
    assert [os.path.basename(path) for path in below] == ["x.npy", "b", "a", "tensors"]
    synced.clear()
    assert ckpt("extract", tmp_path / "c-1", "d/y", "-o", f"{tmp_path}/out/", "--overwrite").code == 0
    assert synced[-1] == str(tmp_path / "out" / "d")
    assert str(tmp_path / "out") in synced


def test_what_is_on_the_way_to_a_new_directory_is_reported(tmp_path: Path) -> None:
    os.symlink("nowhere", tmp_path / "link")
    with pytest.raises(CheckpointError, match="a broken symbolic link to nowhere") as caught:
        save(tmp_path / "link" / "run" / "c-1", OLD)
    assert caught.value.path == str(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="not a directory"):
        save(tmp_path / "file" / "c-1", OLD)
