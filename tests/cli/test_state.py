"""`ckpt state`: contract section 5, on directories that TensorFlow wrote."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import formats
from formats.core.dtypes import BY_NAME
from formats.core.words import age_in_words
from formats.location import parse_location
from formats.store.local.staging import holding
from formats.tf.run.state_file import StateFile
from tests.support import data_path, manifest, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HEX = "0123456789abcdef" * 2
FOLDERS = ["absolute", "crash", "no_state_file", "relative", "spaces and.dots", "stale", "two_prefixes"]


@pytest.fixture
def copy(tmp_path: Path) -> Callable[..., str]:
    """Copy a folder of tests/data to `run`."""

    def make(*parts: str, to: str = "run") -> str:
        return str(shutil.copytree(data_path(*parts), tmp_path / to))

    return make


def state_of(run: str) -> StateFile:
    return StateFile.read(parse_location(os.path.join(run, "checkpoint")))


def is_sound(run: str) -> bool:
    """Whether the state file is one, and names, last the latest, checkpoints that can be read."""
    state = state_of(run)
    assert state.paths[-1] == state.latest
    assert len(state.timestamps) in (0, len(state.paths))
    for path in state.paths:
        with formats.open_checkpoint(os.path.join(run, path)) as reader:
            assert reader.missing_files() == []
            assert [finding for step in reader.verify() for finding in step.findings] == []
    return True


# Showing --------------------------------------------------------------------------


def test_folders_are_known() -> None:
    assert sorted(os.listdir(data_path("state_files"))) == sorted([*FOLDERS, "facts.json"])


@pytest.mark.parametrize("name", [name for name in FOLDERS if name != "no_state_file"])
def test_shows_what_tensorflow_parses(name: str, ckpt: Callable) -> None:
    fields = manifest()["state_files"][f"state_files/{name}/checkpoint"]
    result = ckpt("state", "--json", data_path("state_files", name))
    assert result.code == 0
    found = result.json
    assert (found["schema"], found["directory"]) == (1, data_path("state_files", name))
    assert [entry["listed"] for entry in found["checkpoints"]] == fields["all_model_checkpoint_paths"]
    times = fields["all_model_checkpoint_timestamps"] or [None] * len(found["checkpoints"])
    assert [entry["timestamp"] for entry in found["checkpoints"]] == times
    latest = {entry["listed"]: entry["name"] for entry in found["checkpoints"]}
    assert found["latest"] == latest[fields["model_checkpoint_path"]]
    for entry in found["checkpoints"]:
        assert entry["exists"] == os.path.isfile(entry["path"] + ".index")
    assert found["changes"] == []


def test_a_moved_directory_is_shown_by_its_own_names(ckpt: Callable) -> None:
    found = ckpt("state", "--json", data_path("state_files", "absolute")).json
    assert found["latest"] == "model-2"
    assert [(entry["name"], entry["exists"]) for entry in found["checkpoints"]] == [
        ("model-1", True),
        ("model-2", True),
    ]


def test_leftovers_and_what_is_not_listed(ckpt: Callable) -> None:
    found = ckpt("state", "--json", data_path("state_files", "crash")).json
    assert found["leftovers"] == ["ckpt-2.data-00000-of-00001.tempstate12345678901234567890", "ckpt-2_temp"]
    result = ckpt("state", "--json", data_path("state_files", "no_state_file"))
    assert (result.code, result.json["latest"], result.json["checkpoints"]) == (0, None, [])
    assert result.json["unlisted"] == ["model-1"]
    assert "ckpt state --fix" in result.err


def test_tsv_in_a_pipe(ckpt: Callable) -> None:
    assert ckpt("state", data_path("state_files", "stale")).rows == [
        ["checkpoint", "gone-8", "", "missing"],
        ["latest", "gone-9", "", "missing"],
        ["checkpoint", "here-3", "", "exists"],
    ]


def test_a_table_on_a_terminal(terminal: Callable) -> None:
    result = terminal("state", data_path("state_files", "crash"), NO_COLOR="1")
    assert result.code == 0
    assert "NAME" in result.out
    assert "ckpt-1" in result.out
    assert "2026-" in result.out
    assert "latest" in result.out
    assert "LEFTOVER" in result.out
    assert "ckpt-2_temp" in result.out


def test_the_state_file_names_its_directory(ckpt: Callable) -> None:
    folder = data_path("state_files", "two_prefixes")
    found = ckpt("state", "--json", os.path.join(folder, "checkpoint")).json
    assert (found["directory"], found["latest"]) == (folder, "beta-2")


def test_a_directory_without_checkpoints_is_a_no(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("state", tmp_path)
    assert (result.code, result.out) == (1, "")
    assert "no checkpoints" in result.err


@pytest.mark.parametrize("options", [(), ("--fix",), ("--keep", "1"), ("--set", "ckpt-1")])
def test_what_is_not_a_directory_is_rejected(
    options: tuple[str, ...], tmp_path: Path, ckpt: Callable
) -> None:
    (tmp_path / "file").write_text("text")
    for path in (tmp_path / "none", tmp_path / "file"):
        result = ckpt("state", *options, path)
        assert result.code == 3
        assert str(path) in result.err


# --set ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ckpt-8", "ckpt-8.index", "ckpt-8.data-00000-of-00001"])
def test_set_makes_a_checkpoint_the_latest(name: str, copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    before = state_of(run)
    assert ckpt("state", "--set", name, run).code == 0
    after = state_of(run)
    assert after.latest == "ckpt-8"
    assert after.paths == ("ckpt-9", "ckpt-10", "ckpt-8")
    assert after.timestamps == (*before.timestamps[1:], before.timestamps[0])
    assert after.last_preserved == before.last_preserved
    assert is_sound(run)
    assert ckpt("ls", "--json", run).json["latest"] == "ckpt-8"


def test_set_takes_paths_from_here(copy: Callable, ckpt: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    monkeypatch.chdir(os.path.dirname(run))
    assert ckpt("state", "--set", "run/ckpt-9", "run").code == 0
    assert state_of(run).latest == "ckpt-9"


def test_set_what_is_missing_or_not_whole_is_rejected(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    before = state_of(run)
    result = ckpt("state", "--set", "ckpt-7", run)
    assert (result.code, result.out) == (3, "")
    assert "did you mean" in result.err
    os.unlink(os.path.join(run, "ckpt-9.data-00000-of-00001"))
    result = ckpt("state", "--set", "ckpt-9", run)
    assert result.code == 3
    assert "ckpt-9.data-00000-of-00001 is missing" in result.err
    assert state_of(run) == before


def test_set_begins_a_state_file(copy: Callable, ckpt: Callable) -> None:
    run = copy("state_files", "no_state_file")
    assert ckpt("state", "--set", "model-1", run).code == 0
    state = state_of(run)
    assert (state.latest, state.paths, len(state.timestamps)) == ("model-1", ("model-1",), 1)


def test_set_what_is_the_latest_changes_nothing(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    result = ckpt("state", "--set", "ckpt-10", run)
    assert (result.code, result.out) == (0, "")
    assert "nothing to change" in result.err


# --fix ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOLDERS)
def test_fix_leaves_a_sound_directory(name: str, copy: Callable, ckpt: Callable) -> None:
    run = copy("state_files", name)
    planned = ckpt("state", "--fix", "-n", "--json", run).json["changes"]
    done = ckpt("state", "--fix", "--json", run)
    assert done.code == 0
    assert done.json["changes"] == planned
    assert done.json["leftovers"] == done.json["unlisted"] == []
    assert all(entry["exists"] and entry["listed"] == entry["name"] for entry in done.json["checkpoints"])
    assert is_sound(run)
    again = ckpt("state", "--fix", "--json", run).json
    assert again["changes"] == []


def test_fix_mends_stale_paths_and_keeps_times(copy: Callable, ckpt: Callable) -> None:
    run = copy("state_files", "absolute")
    before = state_of(run)
    assert ckpt("state", "--fix", run).code == 0
    assert state_of(run) == before._replace(latest="model-2", paths=("model-1", "model-2"))


def test_fix_takes_a_copy_for_its_own(copy: Callable, ckpt: Callable) -> None:
    """The absolute paths of a copied directory lead to the original, as long as that is there."""
    original, run = copy("state_files", "absolute", to="original"), copy("state_files", "absolute")
    paths = tuple(os.path.join(original, name) for name in ("model-1", "model-2"))
    with open(os.path.join(run, "checkpoint"), "wb") as file:
        file.write(StateFile(paths[-1], paths).text())
    before = sorted(os.listdir(original))
    assert ckpt("state", "--fix", "--keep", "1", run).code == 0
    assert state_of(run).paths == ("model-2",)
    assert sorted(os.listdir(run)) == ["checkpoint", "model-2.data-00000-of-00001", "model-2.index"]
    assert sorted(os.listdir(original)) == before


def test_fix_drops_what_is_gone_and_finds_another_latest(copy: Callable, ckpt: Callable) -> None:
    run = copy("state_files", "stale")
    assert ckpt("state", "--fix", run).rows == [
        ["drop", "gone-8", "does not exist", "0"],
        ["drop", "gone-9", "does not exist", "0"],
        ["set", "here-3", "the latest was gone-9, which does not exist", "0"],
    ]
    assert state_of(run) == StateFile("here-3", ("here-3",))


def test_set_says_that_the_index_is_missing(tmp_path: Path, ckpt: Callable) -> None:
    """It proposed the name that it had just rejected."""
    for name in ("ckpt-1", "ckpt-2"):
        write_bundle(str(tmp_path / name), {"a": np.zeros(3)})
    (tmp_path / "ckpt-2.index").unlink()
    done = ckpt("state", tmp_path, "--set", "ckpt-2")
    assert done.code == 3
    assert "did you mean" not in done.err
    assert f"ckpt rescue {tmp_path / 'ckpt-2'} OUT --sibling {tmp_path / 'ckpt-1'}" in done.err
    assert ckpt("rescue", tmp_path / "ckpt-2", tmp_path / "OUT", "--sibling", tmp_path / "ckpt-1").code == 0


@pytest.mark.parametrize("lost", ["ckpt-1", "ckpt-2", "ckpt-3"])
def test_fix_keeps_a_checkpoint_whose_index_is_lost(lost: str, tmp_path: Path, ckpt: Callable) -> None:
    """Its data shards are all there is of it: a second `--fix` removed them, as the first took it off."""
    names = ("ckpt-1", "ckpt-2", "ckpt-3")
    for name in names:
        write_bundle(str(tmp_path / name), {"a": np.zeros(3)})
    assert ckpt("state", "--fix", tmp_path).code == 0
    (tmp_path / f"{lost}.index").unlink()
    others = [name for name in names if name != lost]
    rows = []
    if lost == "ckpt-3":
        rows = [["set", "ckpt-2", "the latest was ckpt-3, which does not exist", "0"]]
    for expected in (rows, []):
        done = ckpt("state", "--fix", tmp_path)
        assert (done.code, done.rows) == (0, expected)
        assert f"{lost}.data-00000-of-00001 (a data shard without an index) is kept" in done.err
        assert (tmp_path / f"{lost}.data-00000-of-00001").exists()
        state = state_of(str(tmp_path))
        assert state.latest == others[-1]
        assert set(state.paths) == set(names)
        assert [name for name in state.paths if name != lost] == others
    if lost != "ckpt-3":
        assert state.paths == names


def test_fix_adds_in_order_without_giving_the_manager_something_to_delete(
    copy: Callable, ckpt: Callable
) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    before = state_of(run)
    kept = before._replace(paths=before.paths[1:], timestamps=before.timestamps[1:])
    with open(os.path.join(run, "checkpoint"), "wb") as file:
        file.write(kept.text())
    assert ckpt("state", "--fix", run).rows == [["add", "ckpt-8", "exists, but was not listed", "0"]]
    after = state_of(run)
    assert after.paths == before.paths
    assert after.timestamps[1:] == before.timestamps[1:]
    assert after.last_preserved is not None
    assert after.timestamps[0] <= after.last_preserved


def test_fix_lets_the_latest_be_the_latest(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    before = state_of(run)
    with open(os.path.join(run, "checkpoint"), "wb") as file:
        file.write(StateFile("ckpt-9", before.paths[:2], before.timestamps[:2], 1.0).text())
    result = ckpt("state", "--fix", run)
    assert result.code == 0
    assert "ckpt-9 stays the latest, although ckpt-10 is newer" in result.err
    assert (state_of(run).latest, state_of(run).paths) == ("ckpt-9", ("ckpt-8", "ckpt-10", "ckpt-9"))


@pytest.mark.parametrize("text", ["", 'model_checkpoint_path: "ckpt-9"\nmine: 1\n', "{"])
def test_fix_writes_an_unreadable_state_file_again(text: str, copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    with open(os.path.join(run, "checkpoint"), "w", encoding="utf-8") as file:
        file.write(text)
    refused = ckpt("state", "--keep", "1", run)
    assert refused.code == 3
    assert "ckpt state --fix" in refused.err
    assert ckpt("state", "--fix", run).code == 0
    assert state_of(run).paths == ("ckpt-8", "ckpt-9", "ckpt-10")
    assert is_sound(run)


def test_fix_makes_times_as_many_as_paths(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    uneven = state_of(run)._replace(timestamps=(1.0,))
    with open(os.path.join(run, "checkpoint"), "wb") as file:
        file.write(uneven.text())
    assert ckpt("state", "--fix", run).rows == [["mend", "checkpoint", "it has 1 timestamp for 3 paths", "0"]]
    assert is_sound(run)


def test_set_gives_what_is_gone_no_time(copy: Callable, ckpt: Callable) -> None:
    """If the list has some times, but not one for each: the files' own, and otherwise 0."""
    run = copy("guide_adam_legacy", "tf_ckpts")
    paths = state_of(run).paths
    for name in os.listdir(run):
        if name.startswith(f"{paths[0]}."):
            os.remove(os.path.join(run, name))
    lines = [f'model_checkpoint_path: "{paths[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{path}"' for path in paths]
    with open(os.path.join(run, "checkpoint"), "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, "all_model_checkpoint_timestamps: 5.0", ""]))
    assert ckpt("state", run, "--set", paths[-2]).code == 0
    state = state_of(run)
    assert state.latest == paths[-2]
    assert len(state.timestamps) == len(paths)
    for path, time_ in zip(state.paths, state.timestamps, strict=True):
        index = os.path.join(run, f"{path}.index")
        assert time_ == (os.stat(index).st_mtime if path != paths[0] else 0.0)


def test_fix_does_not_list_what_is_damaged_or_no_checkpoint_of_tensorflow(
    copy: Callable, ckpt: Callable
) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    shutil.copy(data_path("keras_mlp", _h5()), os.path.join(run, "weights-11.h5"))
    with open(os.path.join(run, "ckpt-11.index"), "wb") as file:
        file.write(b"torn")
    open(os.path.join(run, "ckpt-11.data-00000-of-00001"), "wb").close()
    result = ckpt("state", "--fix", run)
    assert (result.code, result.out) == (0, "")
    assert "it is not added" in result.err
    assert state_of(run).paths == ("ckpt-8", "ckpt-9", "ckpt-10")


def _h5() -> str:
    return next(name for name in sorted(os.listdir(data_path("keras_mlp"))) if name.endswith(".h5"))


def test_fix_puts_back_what_was_moved_aside(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    aside = os.path.join(run, f"ckpt-10_temp_{HEX}", "aside")
    os.makedirs(aside)
    for name in ("ckpt-10.index", "ckpt-10.data-00000-of-00001"):
        os.rename(os.path.join(run, name), os.path.join(aside, name))
    shown = ckpt("state", "--json", run)
    assert shown.json["leftovers"] == [f"ckpt-10_temp_{HEX}"]
    result = ckpt("state", "--fix", run)
    assert [row[0] for row in result.rows] == ["put-back"]
    assert sorted(os.listdir(run)) == sorted(os.listdir(data_path("guide_adam_legacy", "tf_ckpts")))
    assert is_sound(run)


@contextlib.contextmanager
def full_until_gone(path: str, number: int) -> Iterator[None]:
    """Have nothing written or made while a file is there, which fills the disk."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("pwrite", "mkdir", "link"):

            def call(real: Callable, *arguments: Any, **options: Any) -> Any:
                if os.path.lexists(path):
                    raise OSError(number, os.strerror(number))
                return real(*arguments, **options)

            patch.setattr(os, name, partial(call, getattr(os, name)))
        yield


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("name", ["ckpt-10.data-00000-of-00001.tempstate5", f"ckpt-11_temp_{HEX}/part"])
def test_fix_makes_room_before_it_writes(name: str, number: int, copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    leftover = os.path.join(run, name)
    os.makedirs(os.path.dirname(leftover), exist_ok=True)
    shutil.copy(os.path.join(run, "ckpt-8.index"), leftover)
    for path in (os.path.join(run, "ckpt-9.index"), os.path.join(run, "ckpt-9.data-00000-of-00001")):
        os.unlink(path)
    with full_until_gone(leftover, number):
        done = ckpt("state", "--fix", run)
    assert done.code == 0, done.err
    assert not os.path.lexists(leftover)
    assert state_of(run).paths == ("ckpt-8", "ckpt-10")
    assert is_sound(run)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_keep_makes_room_where_the_state_file_has_none(number: int, copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    with full_until_gone(os.path.join(run, "ckpt-8.data-00000-of-00001"), number):
        done = ckpt("state", "--keep", "1", run)
    assert done.code == 0, done.err
    assert sorted(os.listdir(run)) == ["checkpoint", "ckpt-10.data-00000-of-00001", "ckpt-10.index"]
    assert [os.path.basename(path) for path in state_of(run).paths] == ["ckpt-10"]


def test_nothing_changes_on_a_full_disk_where_nothing_must_be_deleted(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    before = sorted(os.listdir(run)), state_of(run)
    with full_until_gone(run, errno.ENOSPC):
        done = ckpt("state", "--set", "ckpt-9", run)
    assert done.code == 3
    assert f"ckpt: error: {run}/checkpoint: cannot be written: no space left on device" in done.err
    assert (sorted(os.listdir(run)), state_of(run)) == before


def test_fix_removes_what_it_can_and_shows_the_first_error(
    copy: Callable, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    for number in (1, 2):
        shutil.copy(os.path.join(run, "ckpt-8.index"), os.path.join(run, f"a.tempstate{number}"))
    real = os.unlink

    def unlink(path: Any, **options: Any) -> None:
        if str(path).endswith("tempstate1"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(path, **options)

    monkeypatch.setattr(os, "unlink", unlink)
    done = ckpt("state", "--fix", run)
    assert done.code == 3
    assert f"ckpt: error: {run}/a.tempstate1: cannot be written: input/output error" in done.err
    assert [name for name in os.listdir(run) if "tempstate" in name] == ["a.tempstate1"]


@pytest.mark.parametrize("options", [("--fix",), ("--keep", "1")])
def test_what_is_removed_needs_no_sync(
    options: tuple[str, ...], copy: Callable, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk on which no fsync succeeds, no half of a checkpoint stays, and no leftover."""
    run = copy("guide_adam_legacy", "tf_ckpts")
    os.unlink(os.path.join(run, "checkpoint"))
    os.mkdir(os.path.join(run, f"ckpt-11_temp_{HEX}"))

    def fsync(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    done = ckpt("state", *options, run)
    assert done.code == 3
    assert "input/output error" in done.err
    assert "Traceback" not in done.err
    left = {name.partition(".")[0] for name in os.listdir(run)}
    expected = (
        {f"ckpt-11_temp_{HEX}", "ckpt-10"} if options == ("--keep", "1") else {"ckpt-8", "ckpt-9", "ckpt-10"}
    )
    assert left == expected


def test_fix_warns_of_what_changed_just_now(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    path = os.path.join(run, "ckpt-11.index.tempstate1")
    open(path, "wb").close()
    result = ckpt("state", "--fix", run)
    assert [row[:2] for row in result.rows] == [["remove", "ckpt-11.index.tempstate1"]]
    assert "seconds ago" in result.err
    assert not os.path.exists(path)


# --keep ---------------------------------------------------------------------------


def test_keep_deletes_all_files_of_the_others(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    for step in (8, 9, 10):
        open(os.path.join(run, f"ckpt-{step}.meta"), "wb").close()
    before = state_of(run)
    assert [row[:2] for row in ckpt("state", "--keep", "2", run).rows] == [["delete", "ckpt-8"]]
    after = state_of(run)
    assert after == before._replace(paths=before.paths[1:], timestamps=before.timestamps[1:])
    assert not [name for name in os.listdir(run) if name.startswith("ckpt-8")]
    assert len(os.listdir(run)) == 1 + 2 * 3
    assert is_sound(run)


def test_keep_counts_in_the_order_of_the_list(copy: Callable, ckpt: Callable) -> None:
    run = copy("state_files", "two_prefixes")
    assert ckpt("state", "--keep", "2", run).code == 0
    assert state_of(run).paths == ("beta-1", "beta-2")
    assert [name for name in os.listdir(run) if name.startswith("alpha")] == []


def test_keep_after_set_calls_nothing_older_that_is_newer(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    result = ckpt("state", run, "--set", "ckpt-9", "--keep", "1", "-n")
    assert [row[:3] for row in result.rows if row[0] == "delete"] == [
        ["delete", "ckpt-8", "not the latest"],
        ["delete", "ckpt-10", "not the latest"],
    ]


def test_a_run_of_orbax_has_no_state_file(tmp_path: Path, ckpt: Callable) -> None:
    """It said that the directory has no checkpoints."""
    step = tmp_path / "run" / "3"
    assert ckpt("convert", data_path("pairs", "step1.h5"), step, "--to", "orbax").code == 0
    result = ckpt("state", tmp_path / "run")
    assert (result.code, result.out) == (1, "")
    assert "the checkpoints are steps of Orbax, which has no state file" in result.err
    assert f"hint: to list the steps: ckpt ls {tmp_path / 'run'}\n" in result.err


def test_a_folder_of_runs_says_what_is_below(tmp_path: Path, ckpt: Callable, copy: Callable) -> None:
    copy("guide_adam_legacy", "tf_ckpts", to="runs/a")
    result = ckpt("state", tmp_path / "runs")
    assert result.code == 1
    assert "this directory contains no checkpoints and no state file, but there are 3 " in result.err
    assert f"hint: to list them: ckpt ls -R {tmp_path / 'runs'}\n" in result.err


def test_keep_of_more_than_there_are_changes_nothing(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    names = sorted(os.listdir(run))
    result = ckpt("state", "--keep", "3", run)
    assert (result.code, result.out) == (0, "")
    assert sorted(os.listdir(run)) == names


def test_keep_nothing_is_a_usage_error(copy: Callable, ckpt: Callable) -> None:
    assert ckpt("state", "--keep", "0", copy("guide_adam_legacy", "tf_ckpts")).code == 2


def test_keep_counts_only_what_is_whole(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    os.unlink(os.path.join(run, "ckpt-10.data-00000-of-00001"))
    result = ckpt("state", "--keep", "1", run)
    assert [row[:2] for row in result.rows] == [["delete", "ckpt-8"]]
    assert "ckpt-10 is kept" in result.err
    assert os.path.exists(os.path.join(run, "ckpt-9.index"))


def test_keep_lists_what_it_keeps_where_nothing_else_is_left(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    with open(os.path.join(run, "checkpoint"), "wb") as file:
        file.write(StateFile("gone-11", ("gone-11",)).text())
    assert ckpt("state", "--keep", "1", run).code == 0
    assert state_of(run) == StateFile("ckpt-10", ("ckpt-10",))
    assert sorted(os.listdir(run)) == ["checkpoint", "ckpt-10.data-00000-of-00001", "ckpt-10.index"]


def test_keep_spares_what_is_not_of_the_series(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    for name in ("index", "data-00000-of-00001"):
        shutil.copy(os.path.join(run, f"ckpt-8.{name}"), os.path.join(run, f"best.{name}"))
        shutil.copy(os.path.join(run, f"ckpt-8.{name}"), os.path.join(run, f"ckpt-7.{name}"))
    result = ckpt("state", "--keep", "1", run)
    assert {row[1] for row in result.rows} == {"ckpt-7", "ckpt-8", "ckpt-9"}
    assert "best is kept, because its name has no step" in result.err
    assert os.path.exists(os.path.join(run, "best.index"))


def _link(run: str, name: str, to: str) -> None:
    for suffix in ("index", "data-00000-of-00001"):
        link = os.path.join(run, f"{name}.{suffix}")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(link)
        os.symlink(f"{to}.{suffix}", link)


def test_keep_leaves_alone_what_a_link_that_stays_leads_to(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    _link(run, "best", "ckpt-8")
    result = ckpt("state", "--keep", "1", run)
    assert [row[:2] for row in result.rows] == [["delete", "ckpt-9"]]
    assert "ckpt-8 is kept, because the symbolic link" in result.err
    assert ckpt("verify", os.path.join(run, "best")).code == 0
    assert state_of(run).paths == ("ckpt-8", "ckpt-10")


def test_keep_leaves_alone_what_a_link_leads_over(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    _link(run, "ckpt-9", "ckpt-8")
    _link(run, "ckpt-10", "ckpt-9")
    assert ckpt("state", "--keep", "1", run).rows == []
    assert ckpt("verify", os.path.join(run, "ckpt-10")).code == 0


def test_keep_leaves_alone_what_a_link_leads_to_over_others_elsewhere(
    copy: Callable, ckpt: Callable, tmp_path: Path
) -> None:
    run, elsewhere = copy("guide_adam_legacy", "tf_ckpts"), str(tmp_path / "elsewhere")
    os.mkdir(elsewhere)
    _link(elsewhere, "second", os.path.join(run, "ckpt-8"))
    _link(elsewhere, "first", "second")
    _link(run, "best", os.path.join(elsewhere, "first"))
    result = ckpt("state", "--keep", "1", run)
    assert [row[:2] for row in result.rows] == [["delete", "ckpt-9"]]
    assert "ckpt-8 is kept, because the symbolic link" in result.err
    assert ckpt("verify", os.path.join(run, "best")).code == 0


def test_keep_deletes_links_with_what_they_lead_to(copy: Callable, ckpt: Callable) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    _link(run, "ckpt-9", "ckpt-8")
    os.symlink("round", os.path.join(run, "round"))
    assert {row[1] for row in ckpt("state", "--keep", "1", run).rows} == {"ckpt-8", "ckpt-9"}
    assert sorted(os.listdir(run)) == ["checkpoint", "ckpt-10.data-00000-of-00001", "ckpt-10.index", "round"]


def test_keep_of_v1_and_hdf5_without_a_state_file(tmp_path: Path, ckpt: Callable) -> None:
    h5 = data_path("keras_mlp", _h5())
    v1 = data_path(
        next(e["path"] for e in manifest()["checkpoints"] if e["format"] == "tf-v1" and len(e["files"]) == 1)
    )
    for step in (1, 2):
        shutil.copy(h5, tmp_path / f"weights-{step}.h5")
    for step in (3, 4, 5):
        shutil.copy(v1, tmp_path / f"model-{step}")
        (tmp_path / f"model-{step}.meta").write_bytes(b"")
    result = ckpt("state", "--keep", "2", tmp_path)
    assert [row[1] for row in result.rows] == ["weights-1.h5", "weights-2.h5", "model-3"]
    assert sorted(os.listdir(tmp_path)) == ["model-4", "model-4.meta", "model-5", "model-5.meta"]


def test_keep_deletes_every_shard_of_v1(tmp_path: Path, ckpt: Callable) -> None:
    sharded = next(e for e in manifest()["checkpoints"] if e["format"] == "tf-v1" and len(e["files"]) > 1)
    for step in (1, 2):
        for path in sharded["files"]:
            base = os.path.basename(path)
            shard = base[base.rindex("-0") - 6 :] if "-of-" in base else ".meta"
            tail = base[base.index("-of-") - 6 :] if "-of-" in base else shard
            shutil.copy(data_path(path), tmp_path / f"model-{step}{tail}")
    assert ckpt("state", "--keep", "1", tmp_path).code == 0
    names = os.listdir(tmp_path)
    assert names
    assert [name for name in names if name.startswith("model-1")] == []


@pytest.mark.parametrize(
    "options", [("--fix",), ("--keep", "1"), ("--set", "ckpt-8"), ("--fix", "--keep", "1")]
)
def test_a_dry_run_changes_nothing_and_says_what_the_real_one_does(
    options: tuple[str, ...], copy: Callable, ckpt: Callable
) -> None:
    run = copy("guide_adam_legacy", "tf_ckpts")
    open(os.path.join(run, "ckpt-11.index.tempstate1"), "wb").close()
    before = _snapshot(run)
    planned = ckpt("state", *options, "--dry-run", run)
    assert planned.code == 0
    assert planned.rows
    assert _snapshot(run) == before
    assert ckpt("state", *options, run).out == planned.out


def _snapshot(run: str) -> dict[str, Any]:
    found = {}
    for name in os.listdir(run):
        with open(os.path.join(run, name), "rb") as file:
            found[name] = file.read()
    return found


class KilledError(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.parametrize("options", [("--keep", "1"), ("--fix",), ("--set", "ckpt-8", "--keep", "2")])
def test_a_kill_at_any_point_leaves_a_sound_directory(
    options: tuple[str, ...], copy: Callable, monkeypatch: pytest.MonkeyPatch, ckpt: Callable
) -> None:
    """Stop before the first, second, ... thing that is done to the directory."""
    from ckpt_cli.operations.runs.state import Run
    from ckpt_cli.operations.runs.state_changes import RequestedChanges, carry_out, make_plan

    wish = RequestedChanges("ckpt-8" if "--set" in options else None, "--fix" in options)
    wish = wish._replace(keep=int(options[-1]) if "--keep" in options else None)
    last = -1
    for stop in range(100):
        run = copy("guide_adam_legacy", "tf_ckpts", to=f"run-{stop}")
        shutil.copytree(data_path("state_files", "crash", "ckpt-2_temp"), os.path.join(run, "ckpt-2_temp"))
        listed = state_of(run)
        stale = listed._replace(latest="/gone/ckpt-10", paths=(*listed.paths[:2], "/gone/ckpt-10"))
        if wish.fix:
            with open(os.path.join(run, "checkpoint"), "wb") as file:
                file.write(stale.text())
        done = 0

        def counted(real: Callable) -> Callable:
            def call(*args: Any, **named: Any) -> Any:
                nonlocal done
                if done == stop:  # noqa: B023  this very round's
                    raise KilledError
                done += 1
                return real(*args, **named)

            return call

        plan = make_plan(Run(parse_location(run)), wish)
        with monkeypatch.context() as patch:
            for name in ("unlink", "replace", "rmdir", "rename"):
                patch.setattr(os, name, counted(getattr(os, name)))
            try:
                carry_out(Run(parse_location(run)), plan)
            except KilledError:
                last = stop
        assert (wish.fix and state_of(run) == stale) or is_sound(run)
        if last != stop:
            break
        ckpt("state", "--fix", run)
        assert is_sound(run)
        assert ckpt("state", "--json", run).json["leftovers"] == []
    assert last >= 2


def test_a_state_file_that_changes_meanwhile_is_not_overwritten(copy: Callable) -> None:
    from ckpt_cli.operations.runs.state import Run
    from ckpt_cli.operations.runs.state_changes import RequestedChanges, carry_out, make_plan

    run = copy("guide_adam_legacy", "tf_ckpts")
    seen = Run(parse_location(run))
    plan = make_plan(seen, RequestedChanges(keep=1))
    saved = state_of(run)._replace(latest="ckpt-9")
    with open(os.path.join(run, "checkpoint"), "wb") as file:
        file.write(saved.text())
    with pytest.raises(formats.CheckpointError, match="another process has just changed this file"):
        carry_out(seen, plan)
    assert state_of(run) == saved
    assert os.path.exists(os.path.join(run, "ckpt-8.index"))


@pytest.mark.parametrize("num_shards", [1, 2])
def test_fix_cleans_up_after_a_writer_that_was_killed_anywhere(
    num_shards: int, tmp_path: Path, ckpt: Callable
) -> None:
    """Replace a checkpoint in a process of its own, which ends before its first, second, ... step."""
    stop = 0
    killed = True
    while killed:
        run = tmp_path / f"run-{stop}"
        _write(run, 0.0, num_shards)
        (run / "checkpoint").write_bytes(StateFile("ckpt-1", ("ckpt-1",)).text())
        child = os.fork()
        if child == 0:
            _die_at(stop)
            _write(run, 1.0, num_shards)
            os._exit(0)
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
        assert ckpt("state", "--fix", run).code == 0
        found = ckpt("state", "--json", run).json
        assert found["leftovers"] == found["unlisted"] == []
        assert is_sound(str(run))
        # The old bundle may have got another count of shards, but there is only one.
        shards = [name for name in os.listdir(run) if ".data-" in name]
        assert len({name[-5:] for name in shards}) == 1
        assert sorted(set(os.listdir(run)) - set(shards)) == ["checkpoint", "ckpt-1.index"]
        with formats.open_checkpoint(run) as reader:
            values = {float(reader[key].read()[0]) for key in reader}
        assert len(values) == 1
        assert stop > 0 or values == {0.0}
        assert killed or values == {1.0}
        stop += 1
    assert stop > 5


def _write(run: Path, value: float, num_shards: int) -> None:
    specs = [formats.TensorSpec(f"v{n}", BY_NAME["float32"], (4,)) for n in range(num_shards)]
    size = 16 if num_shards > 1 else None
    with formats.create_checkpoint(
        run / "ckpt-1", format="tf-name", specs=specs, overwrite=True, shard_size=size
    ) as writer:
        for spec in specs:
            writer.write(spec.key, np.full(4, value, np.float32))


def _die_at(stop: int) -> None:
    """Let this process end, as by a kill, in place of its `stop`th change to a directory."""
    left = stop

    def counted(real: Callable) -> Callable:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            return real(*args, **named)

        return call

    for name in ("mkdir", "link", "replace", "rename", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (0.5, "0 seconds"),
        (1, "1 second"),
        (119, "119 seconds"),
        (7300, "2 hours"),
        (90_000, "25 hours"),
        (200_000, "2 days"),
    ],
)
def test_what_is_removed_is_reported_with_its_age_and_size(age: float, said: str) -> None:
    assert age_in_words(age) == said


def test_a_killed_conversion_is_removed_with_its_age_and_size(tmp_path: Path, ckpt: Callable) -> None:
    staged = tmp_path / f"ckpt-1_temp_{'0' * 32}"
    staged.mkdir()
    (staged / "shard-0").write_bytes(bytes(1000))
    for path in (staged / "shard-0", staged):
        os.utime(path, (time.time() - 7300,) * 2)
    result = ckpt("state", "--fix", "-n", tmp_path)
    assert result.rows == [["remove", staged.name, "2 hours old: staged files of a checkpoint", "1000"]]
    (change,) = ckpt("state", "--fix", tmp_path, "--json").json["changes"]
    assert (change["why"], change["nbytes"]) == ("2 hours old: staged files of a checkpoint", 1000)
    assert os.listdir(tmp_path) == []


def test_of_what_a_killed_conversion_shares_only_its_own_is_freed(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "m.safetensors").write_bytes(bytes(5000))
    for number in "01":
        staged = tmp_path / f"ckpt-{number}_temp_{'0' * 32}"
        staged.mkdir()
        os.link(tmp_path / "m.safetensors", staged / "shard-0")
        (staged / "shard-1").write_bytes(bytes(10))
    first = tmp_path / f"ckpt-0_temp_{'0' * 32}"
    (first / "shard-2").write_bytes(bytes(700))
    os.link(first / "shard-2", tmp_path / f"ckpt-1_temp_{'0' * 32}" / "shard-2")
    changes = ckpt("state", "--fix", "-n", tmp_path, "--json").json["changes"]
    assert [change["nbytes"] for change in changes] == [10, 710]  # shared files are deleted with the second
    assert ckpt("state", "--fix", tmp_path).code == 0
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_changes_wait_for_who_moves_files_in(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "checkpoint.tempstate1").touch()
    monkeypatch.setenv("CKPT_LOCK_TIMEOUT", "0")
    with holding(parse_location(str(tmp_path))):
        result = ckpt("state", "--fix", tmp_path)
    assert result.code == 3
    assert "is changing files in this directory" in result.err
    assert os.listdir(tmp_path) == ["checkpoint.tempstate1"]
