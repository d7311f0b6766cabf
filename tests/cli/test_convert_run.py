"""`ckpt convert --each`: a run with its state file; and what the state file says after other writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from formats.location import parse_location
from formats.tf.run.state_file import StateFile
from tests.support import data_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN = data_path("guide_adam_legacy", "tf_ckpts")
CKPT = os.path.join(RUN, "ckpt-10")


def test_the_state_file_keeps_order_times_and_what_is_preserved(tmp_path: Path, ckpt: Callable) -> None:
    """Trap 23: a manager forgets entries that are not newer than last_preserved_timestamp."""
    before = StateFile.read(parse_location(os.path.join(RUN, "checkpoint")))
    assert ckpt("convert", "--each", RUN, tmp_path / "out", "--to", "npz").code == 0
    after = StateFile.read(parse_location(str(tmp_path / "out" / "checkpoint")))
    assert after.latest == "ckpt-10.npz"
    found = ckpt("ls", "--json", tmp_path / "out").json["checkpoints"]
    assert [(each["name"], each["format"]) for each in found] == [
        (f"ckpt-{step}.npz", "npz") for step in (8, 9, 10)
    ]
    assert ckpt("convert", "--each", CKPT, tmp_path / "x").code == 2
    assert after.paths == tuple(f"{path}.npz" for path in before.paths)
    assert (after.timestamps, after.last_preserved) == (before.timestamps, before.last_preserved)


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("two_prefixes", ("alpha-1", "alpha-2", "beta-1", "beta-2")),  # not in the order of steps
        ("absolute", ("model-1", "model-2")),
        ("relative", ("sub/model-7",)),
        ("stale", ("here-3",)),  # gone-8 and gone-9, the latest, have nothing to become
        ("no_state_file", None),
    ],
)
def test_entries_are_those_of_the_old_file(
    name: str, paths: tuple[str, ...] | None, tmp_path: Path, ckpt: Callable
) -> None:
    assert ckpt("convert", "--each", data_path("state_files", name), tmp_path / "out").code == 0
    state = tmp_path / "out" / "checkpoint"
    assert state.exists() is (paths is not None)
    if paths is not None:
        assert StateFile.read(parse_location(str(state)))[:2] == (paths[-1], paths)


def test_a_checkpoint_listed_elsewhere_comes_into_the_directory(tmp_path: Path, ckpt: Callable) -> None:
    run = tmp_path / "a" / "run"
    run.mkdir(parents=True)
    assert ckpt("convert", CKPT, tmp_path / "old" / "ckpt-10").code == 0
    (run / "checkpoint").write_bytes(StateFile("../../old/ckpt-10", ("../../old/ckpt-10",)).text())
    assert ckpt("convert", "--each", run, tmp_path / "b" / "out").code == 0
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "old"]
    assert StateFile.read(parse_location(str(tmp_path / "b" / "out" / "checkpoint"))).latest == "ckpt-10"


def test_a_state_file_that_is_there_is_rejected_before_anything_is_written(
    tmp_path: Path, ckpt: Callable
) -> None:
    """Others' checkpoints are in it, which would be forgotten."""
    old = StateFile("other-1", ("other-1",)).text()
    (tmp_path / "checkpoint").write_bytes(old)
    result = ckpt("convert", "--each", RUN, tmp_path)
    assert (result.code, os.listdir(tmp_path)) == (3, ["checkpoint"])
    assert f"{tmp_path}/checkpoint: this path already exists" in result.err
    assert (tmp_path / "checkpoint").read_bytes() == old
    assert ckpt("convert", "--each", RUN, tmp_path, "--overwrite").code == 0
    assert StateFile.read(parse_location(str(tmp_path / "checkpoint"))).latest == "ckpt-10"


def test_one_that_cannot_be_converted_is_rejected_before_the_others_are(
    tmp_path: Path, ckpt: Callable
) -> None:
    (tmp_path / "ckpt-10.npz").write_bytes(b"old")
    assert ckpt("convert", "--each", RUN, tmp_path, "--to", "npz").code == 3
    assert os.listdir(tmp_path) == ["ckpt-10.npz"]


def test_a_dry_run_prints_what_the_real_one_does(tmp_path: Path, ckpt: Callable) -> None:
    planned = ckpt("convert", "--each", "-n", RUN, tmp_path / "out")
    assert os.listdir(tmp_path) == []
    real = ckpt("convert", "--each", RUN, tmp_path / "out")
    targets = [f"{tmp_path}/out/ckpt-{step}" for step in (8, 9, 10)]
    assert {row[0] for row in planned.rows} == set(targets)
    assert real.out == ""
    wrote = [line for line in real.err.splitlines() if line.startswith("wrote ")]
    assert [line.split()[1] for line in wrote] == targets
    assert all(line.endswith(", verified") for line in wrote)
    found = ckpt("convert", "--each", "--json", RUN, tmp_path / "json").json
    assert [document["target"] for document in found["checkpoints"]] == [
        f"{tmp_path}/json/ckpt-{step}" for step in (8, 9, 10)
    ]
    assert all(document["verified"] and document["tensors"] for document in found["checkpoints"])


def test_a_damaged_member_is_reported_and_the_rest_converted(tmp_path: Path, ckpt: Callable) -> None:
    run = tmp_path / "run"
    assert ckpt("convert", "--each", RUN, run).code == 0
    (run / "ckpt-9.index").write_bytes(b"damaged")
    result = ckpt("convert", "--each", run, tmp_path / "out")
    assert result.code == 3
    assert f"warning: not converted: {run}/ckpt-9.index" in result.err
    assert StateFile.read(parse_location(str(tmp_path / "out" / "checkpoint"))).paths == ("ckpt-8", "ckpt-10")


# --update-state ---------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".index", ".data-00000-of-00001"])
def test_the_state_file_names_the_prefix(suffix: str, tmp_path: Path, ckpt: Callable) -> None:
    """TensorFlow takes what the file says for a prefix, and finds nothing behind `x.index`."""
    assert ckpt("convert", CKPT, tmp_path / f"x-6{suffix}").code == 0
    assert not (tmp_path / "checkpoint").exists()
    assert ckpt("convert", CKPT, tmp_path / f"x-7{suffix}", "--update-state").code == 0
    assert StateFile.read(parse_location(str(tmp_path / "checkpoint"))).paths == ("x-7",)


def test_the_state_file_of_the_current_directory_is_updated(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (
        ("convert", CKPT, "x-1"),
        ("rename", CKPT, "x-2", "--sub", "net=>n"),
        ("average", CKPT, os.path.join(RUN, "ckpt-9"), "-o", "x-3"),
    ):
        done = ckpt(*command, "--update-state")
        assert done.code == 0, done.err
    paths = StateFile.read(parse_location(str(tmp_path / "checkpoint"))).paths
    assert paths == ("x-1", "x-2", "x-3")


@pytest.mark.parametrize("target", ["x.npz", "x.safetensors", "x.h5"])
def test_a_file_that_tensorflow_cannot_restore_is_not_listed(
    target: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state file named x.npz, and `tf.train.latest_checkpoint` returned None."""
    monkeypatch.chdir(tmp_path)
    line = ("convert", CKPT, target, *(("--to", "hdf5") if target == "x.h5" else ()), "--update-state")
    done = ckpt(*line)
    assert done.code == 3
    assert "a state file lists only TensorFlow checkpoints" in done.err
    assert "hint: remove --update-state\n" in done.err
    assert os.listdir(tmp_path) == []
    assert ckpt(*line[:-1]).code == 0


@pytest.mark.parametrize("special", ["device", "pipe"])
def test_a_checkpoint_is_not_written_next_to_a_device_or_a_pipe(
    special: str, tmp_path: Path, ckpt: Callable
) -> None:
    """`convert X /dev/full` wrote /dev/full.index."""
    target = tmp_path / "sink"
    if special == "device":
        target.symlink_to("/dev/full")
    else:
        os.mkfifo(target)
    done = ckpt("convert", CKPT, target)
    assert (done.code, "this is a device or a pipe; name a file" in done.err) == (3, True)
    assert os.listdir(tmp_path) == ["sink"]


def test_a_state_file_that_cannot_be_read_is_rejected_first(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "checkpoint").write_text("garbage: 1")
    for command in (
        ("convert", CKPT, tmp_path / "x"),
        ("rename", CKPT, tmp_path / "x", "--sub", "net=>n"),
        ("average", CKPT, CKPT, "-o", tmp_path / "x"),
    ):
        assert ckpt(*command, "--update-state").code == 3
    assert os.listdir(tmp_path) == ["checkpoint"]
