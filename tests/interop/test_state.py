"""TensorFlow reads what `ckpt state` wrote, and CheckpointManager continues with it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from ckpt_cli.operations.runs.state import Run
from ckpt_cli.operations.runs.state_changes import RequestedChanges, carry_out, make_plan
from formats.location import parse_location
from formats.tf.run.state_file import StateFile
from tests.support import data_path

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import TensorFlow


def change(directory: str, wish: RequestedChanges) -> None:
    run = Run(parse_location(directory))
    carry_out(run, make_plan(run, wish))


@pytest.fixture
def run(tensorflow: TensorFlow, tmp_path: Path) -> str:
    """A directory in which this very TensorFlow saved ckpt-1 to ckpt-5."""
    directory = str(tmp_path / "run")
    tensorflow.ask("state", "train", directory=directory, saves=5, max_to_keep=5)
    return directory


def files(*names: str) -> list[str]:
    parts = [f"{name}.{part}" for name in names for part in ("data-00000-of-00001", "index")]
    return sorted(["checkpoint", *parts])


def test_nothing_needs_repair_in_files_of_tensorflow(tensorflow: TensorFlow, run: str) -> None:
    assert make_plan(Run(parse_location(run)), RequestedChanges(fix=True)) == ([], None, [])


def test_the_manager_continues_after_keep(tensorflow: TensorFlow, run: str) -> None:
    change(run, RequestedChanges(keep=2))
    assert sorted(os.listdir(run)) == files("ckpt-4", "ckpt-5")
    after = tensorflow.ask("state", "train", directory=run, saves=2, max_to_keep=3)
    assert after["found"] == ["ckpt-4", "ckpt-5"]
    assert (after["restored"], after["began"]) == ("ckpt-5", 5)
    assert after["checkpoints"] == ["ckpt-5", "ckpt-6", "ckpt-7"]
    assert after["files"] == files("ckpt-5", "ckpt-6", "ckpt-7")


def test_training_continues_from_what_was_set(tensorflow: TensorFlow, run: str) -> None:
    change(run, RequestedChanges(latest="ckpt-3"))
    told = tensorflow.ask("state", "state", directory=run)
    assert told["latest"] == os.path.join(run, "ckpt-3")
    after = tensorflow.ask("state", "train", directory=run, saves=1, max_to_keep=5)
    assert (after["restored"], after["began"]) == ("ckpt-3", 3)
    # It is number 4 again, which takes the place of the old one.
    assert after["checkpoints"] == ["ckpt-1", "ckpt-2", "ckpt-5", "ckpt-3", "ckpt-4"]


def test_a_moved_directory_is_found_again(tensorflow: TensorFlow, run: str) -> None:
    state = StateFile.read(parse_location(os.path.join(run, "checkpoint")))
    stale = state._replace(
        latest=f"/gone/{state.latest}", paths=tuple(f"/gone/{path}" for path in state.paths)
    )
    with open(os.path.join(run, "checkpoint"), "wb") as file:
        file.write(stale.text())
    assert tensorflow.ask("state", "state", directory=run)["latest"] is None
    change(run, RequestedChanges(fix=True))
    told = tensorflow.ask("state", "state", directory=run)
    assert told["latest"] == os.path.join(run, "ckpt-5")
    assert told["timestamps"] == list(state.timestamps)
    assert told["last_preserved"] == state.last_preserved


def test_what_the_manager_preserved_stays_preserved_when_it_is_listed_again(
    tensorflow: TensorFlow, tmp_path: Path
) -> None:
    directory = str(tmp_path / "run")
    made = tensorflow.ask("state", "train", directory=directory, saves=4, max_to_keep=1, keep_every=1e-9)
    assert made["checkpoints"] == ["ckpt-4"]
    assert made["files"] == files("ckpt-1", "ckpt-2", "ckpt-3", "ckpt-4")
    change(directory, RequestedChanges(fix=True))
    told = tensorflow.ask("state", "state", directory=directory)
    assert [os.path.basename(path) for path in told["paths"]] == ["ckpt-1", "ckpt-2", "ckpt-3", "ckpt-4"]
    after = tensorflow.ask("state", "train", directory=directory, saves=1, max_to_keep=1)
    assert after["found"] == ["ckpt-4"]
    assert after["files"] == files("ckpt-1", "ckpt-2", "ckpt-3", "ckpt-5")


def test_a_state_file_that_was_lost_is_written_for_the_manager(tensorflow: TensorFlow, run: str) -> None:
    os.unlink(os.path.join(run, "checkpoint"))
    change(run, RequestedChanges(fix=True))
    after = tensorflow.ask("state", "train", directory=run, saves=1, max_to_keep=2)
    assert after["found"] == [f"ckpt-{number}" for number in range(1, 6)]
    assert after["files"] == files("ckpt-5", "ckpt-6")


@pytest.mark.parametrize("name", ["absolute", "crash", "no_state_file", "stale", "two_prefixes"])
def test_mended_folders_have_a_latest_checkpoint(tensorflow: TensorFlow, name: str, tmp_path: Path) -> None:
    directory = str(shutil.copytree(data_path("state_files", name), tmp_path / name))
    change(directory, RequestedChanges(fix=True))
    told = tensorflow.ask("state", "state", directory=directory)
    assert (
        told["latest"]
        == told["paths"][-1]
        == os.path.join(
            directory, StateFile.read(parse_location(os.path.join(directory, "checkpoint"))).latest
        )
    )
