"""Permission denied, broken links, pipes: said as what they are, never as damage or absence.

Root may read everything, so `ckpt` is started without the two capabilities that let it:
then a mode of 000 counts for root, too.  For everybody else that changes nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.cli.running import Starter
from tests.support import data_path, numbers, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.running import Finished

    OfAUser = Callable[..., Finished]

STEP = data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10")
_PR_CAPBSET_DROP = 24
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2


def _without_privileges() -> None:
    if os.geteuid() == 0:
        system = ctypes.CDLL(None, use_errno=True)
        for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
            if system.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "a capability cannot be given up")


@pytest.fixture(scope="module")
def ckpt_of_a_user() -> Iterator[OfAUser]:
    with Starter(preexec_fn=_without_privileges) as starter:
        yield starter.run


def _look_at(path: Path) -> str:
    """Return the hint of an error about permissions."""
    return f"hint: to see the owner and the permissions: ls -ld {path}\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A directory with one sound checkpoint, ckpt-10."""
    for name in (".index", ".data-00000-of-00001"):
        shutil.copy(STEP + name, tmp_path / f"ckpt-10{name}")
    return tmp_path


def test_a_shard_that_may_not_be_read_is_one_finding(run: Path, ckpt_of_a_user: OfAUser) -> None:
    shard = run / "ckpt-10.data-00000-of-00001"
    shard.chmod(0)
    result = ckpt_of_a_user("verify", run / "ckpt-10", "--json")
    (found,) = json.loads(result.out)["results"]
    assert result.code == 1
    assert [(one["code"], one["key"], one["file"], one["message"]) for one in found["findings"]] == [
        ("unreadable", None, str(shard), "permission denied")
    ]
    assert result.err == f"ckpt: error: {shard}: permission denied\n{_look_at(shard)}"
    plain = ckpt_of_a_user("verify", run / "ckpt-10")
    assert plain.out.split("\t")[1] == "unreadable"


def test_what_may_be_read_is_compared_with_a_listing(
    tmp_path: Path, ckpt: Callable, ckpt_of_a_user: OfAUser
) -> None:
    for name, value in (("a-1", 1.0), ("b-1", 2.0)):
        tensors = {"hidden": numbers(np.float32(value), shard=1), "seen": numbers(np.float32(value))}
        write_bundle(str(tmp_path / name), tensors, num_shards=2)
    lock = tmp_path / "a.lock"
    lock.write_text(ckpt("ls", tmp_path / "a-1", "--json", "-l", "--digest", "sha256").out)
    (tmp_path / "b-1.data-00001-of-00002").chmod(0)
    result = ckpt_of_a_user("verify", tmp_path / "b-1", "--against", lock)
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert (result.code, result.err) == (1, "")  # and nothing to rescue
    assert [(row[1], row[2], row[3]) for row in rows] == [
        ("other", "", ""),
        ("error", "unreadable", ""),
        ("error", "contract", "seen"),
    ]


@pytest.mark.parametrize("command", ["stats", "convert", "rescue", "show"])
def test_commands_that_need_values_say_so_and_write_nothing(
    run: Path, ckpt_of_a_user: OfAUser, command: str
) -> None:
    shard = run / "ckpt-10.data-00000-of-00001"
    shard.chmod(0)
    further = {"show": ["save_counter/.ATTRIBUTES/VARIABLE_VALUE"], "stats": []}.get(command, [run / "out"])
    result = ckpt_of_a_user(command, run / "ckpt-10", *further)
    assert (result.code, result.out) == (3, "")
    first, hint = result.err.splitlines(keepends=True)[-2:]
    assert first.startswith(f"ckpt: error: {shard}: ")
    assert first.endswith("permission denied\n")
    assert hint == _look_at(shard)
    assert sorted(os.listdir(run)) == ["ckpt-10.data-00000-of-00001", "ckpt-10.index"]


@pytest.mark.parametrize("command", ["ls", "show", "stats"])
def test_an_object_path_that_cannot_be_reported_is_not_a_tensor_that_is_missing(
    run: Path, ckpt_of_a_user: OfAUser, command: str
) -> None:
    shard = run / "ckpt-10.data-00000-of-00001"
    shard.chmod(0)
    result = ckpt_of_a_user(command, run / "ckpt-10", "net/l1/kernel")
    assert (result.code, result.out) == (3, "")
    assert f"ckpt: error: {shard}: permission denied; ckpt cannot tell whether 'net/l1/kernel'" in result.err
    assert "no tensor matches" not in result.err


def test_an_index_that_may_not_be_read_is_not_a_damage(run: Path, ckpt_of_a_user: OfAUser) -> None:
    (run / "ckpt-10.index").chmod(0)
    for command in ("ls", "show", "verify", "stats"):
        result = ckpt_of_a_user(command, run / "ckpt-10")
        assert result.code == 3
        index = run / "ckpt-10.index"
        assert result.err == f"ckpt: error: {index}: permission denied\n{_look_at(index)}"
    listed = ckpt_of_a_user("ls", run)
    assert listed.err == f"warning: {run}/ckpt-10.index: permission denied\n"


def test_a_file_that_may_not_be_read_is_not_a_question_of_usage(run: Path, ckpt_of_a_user: OfAUser) -> None:
    (run / "w.npz").touch(mode=0)
    (run / "model.ckpt-1").touch(mode=0)
    result = ckpt_of_a_user("show", run / "w.npz", "w")
    error = f"ckpt: error: {run}/w.npz: permission denied\n{_look_at(run / 'w.npz')}"
    assert (result.code, result.err) == (3, error)
    listed = ckpt_of_a_user("ls", run)
    assert f"warning: {run}/w.npz: permission denied\n" in listed.err
    assert f"warning: {run}/model.ckpt-1: permission denied\n" in listed.err


def test_directories_that_may_not_be_entered_or_listed(run: Path, ckpt_of_a_user: OfAUser) -> None:
    inside = run / "inside"
    inside.mkdir()
    for name in (".index", ".data-00000-of-00001"):
        shutil.copy(STEP + name, inside / f"ckpt-1{name}")
    inside.chmod(0)
    result = ckpt_of_a_user("ls", inside / "ckpt-1")
    assert result.code == 3
    error = f"ckpt: error: {inside}/ckpt-1: permission denied: cannot enter {inside}\n"
    assert result.err == error + _look_at(inside)
    for command in ("ls", "log", "state", "verify", "stats"):
        result = ckpt_of_a_user(command, inside)
        error = f"ckpt: error: {inside}: permission denied\n{_look_at(inside)}"
        assert (result.code, result.err) == (3, error)
    for command in ("ls", "stats", "log"):
        result = ckpt_of_a_user(command, "-R", run)
        assert result.code == 3
        assert f"ckpt: error: {inside}: permission denied\n" in result.err
        assert "ckpt-10" in result.out
    assert ckpt_of_a_user("verify", "-R", run).code == 1
    inside.chmod(0o400)  # listed, but not entered: its files look as if they did not exist
    for command in ("ls", "verify", "log", "stats"):
        result = ckpt_of_a_user(command, inside)
        error = f"ckpt: error: {inside}: permission denied\n{_look_at(inside)}"
        assert (result.code, result.err) == (3, error)
    assert ckpt_of_a_user("verify", "-R", run).code == 1
    inside.chmod(
        0o311
    )  # entered, but not listed: TensorFlow reads what it knows the name of, and so does this
    result = ckpt_of_a_user("verify", inside / "ckpt-1")
    assert (result.code, result.out.split("\t")[1]) == (0, "ok")
    assert ckpt_of_a_user("ls", inside / "ckpt-1").err == ""
    inside.chmod(0o755)


def test_links_pipes_and_directories_in_place_of_a_shard(run: Path, ckpt_of_a_user: OfAUser) -> None:
    shard = run / "ckpt-10.data-00000-of-00001"
    shard.unlink()
    for put, what in (
        (lambda: shard.symlink_to("nowhere"), "this is a broken symbolic link"),
        (lambda: os.mkfifo(shard), "this is a pipe, not a regular file"),
        (shard.mkdir, "this is a directory, not a regular file"),
    ):
        put()
        result = ckpt_of_a_user("verify", run / "ckpt-10")
        assert (result.code, result.err) == (1, f"ckpt: error: {shard}: {what}\n")
        assert ckpt_of_a_user("show", run / "ckpt-10").code == 0
        shard.rmdir() if shard.is_dir() else shard.unlink()


def test_an_index_that_is_a_broken_link_is_a_member_of_its_directory(
    run: Path, ckpt_of_a_user: OfAUser
) -> None:
    (run / "ckpt-9.index").symlink_to("gone.index")
    (run / "folder.index").mkdir()
    message = f"{run}/ckpt-9.index: this is a broken symbolic link"
    listed = ckpt_of_a_user("ls", run)
    assert (listed.code, listed.err) == (0, f"warning: {message}\n")
    assert [line.split("\t")[:2] for line in listed.out.splitlines()] == [
        ["ckpt-9", ""],
        ["ckpt-10", "tf-object"],
    ]
    verified = ckpt_of_a_user("verify", run)
    assert verified.code == 1
    assert f"ckpt: error: {message}\n" in verified.err
