"""Directories of directories: their content is reported, and -R includes it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs, a and b/c, of two checkpoints each; one in b/c holds a NaN."""
    for name in ("a", "b/c"):
        (tmp_path / name).mkdir(parents=True)
        for step in (1, 2):
            value = np.float32([step, np.nan if (name, step) == ("b/c", 2) else 0])
            write_bundle(str(tmp_path / name / f"ckpt-{step}"), {"w": value})
    (tmp_path / "a" / "circle").symlink_to("..")
    return tmp_path


@pytest.mark.parametrize("command", ["ls", "verify", "show", "stats", "log"])
def test_what_is_below_is_counted(runs: Path, command: str, ckpt: Callable) -> None:
    result = ckpt(command, runs)
    assert result.code == 1
    what = "this directory contains no checkpoints, but there are 4 checkpoints in 2 subdirectories"
    assert result.err.startswith(f"ckpt: error: {runs}: {what}\nhint: ")
    assert f"ckpt {'verify' if command == 'verify' else 'ls'} -R {runs}\n" in result.err


def test_where_nothing_is_below_nothing_is_reported_for_it(tmp_path: Path, ckpt: Callable) -> None:
    (tmp_path / "empty").mkdir()
    result = ckpt("ls", tmp_path)
    assert (result.code, result.err) == (
        1,
        f"ckpt: error: {tmp_path}: this directory contains no checkpoints\n",
    )


def test_nothing_is_reported_for_what_is_listed_too(runs: Path, ckpt: Callable) -> None:
    for name in ("one.npz", "other.npz"):
        np.savez(runs / name, w=np.zeros(3))
    assert f"ckpt ls -R {runs}\n" in ckpt("ls", runs).err
    result = ckpt("ls", "-R", runs)
    assert (result.code, result.err) == (0, "")
    assert len(result.rows) == 6


def test_verify_takes_all_and_ends_with_totals(runs: Path, ckpt: Callable, terminal: Callable) -> None:
    shard = runs / "a" / "ckpt-2.data-00000-of-00001"
    shard.write_bytes(b"\1" + shard.read_bytes()[1:])
    result = ckpt("verify", "-R", runs)
    assert result.code == 1
    assert [row[0] for row in result.rows if row[1] in ("ok", "damaged")] == [
        f"{runs}/{name}" for name in ("a/ckpt-1", "a/ckpt-2", "b/c/ckpt-1", "b/c/ckpt-2")
    ]
    assert result.err.endswith("note: 3 checkpoints are intact, 1 is damaged\n")
    assert len(ckpt("verify", "-R", "--json", runs).json["results"]) == 4
    lines = terminal("verify", "-R", str(runs), columns=200, NO_COLOR="1").out.splitlines()
    assert lines[-1] == "3 checkpoints are intact, 1 is damaged"
    statuses = [line for line in lines if "/ckpt-" in line and "tensor" in line]
    assert len({line.index("tf-name") for line in statuses}) == 1


def test_stats_takes_all_and_fails_on_any(runs: Path, ckpt: Callable) -> None:
    result = ckpt("stats", "-R", runs, "--fail-on", "nan")
    assert result.code == 1
    assert [row[:2] for row in result.rows] == [
        [f"{runs}/{name}", "w"] for name in ("a/ckpt-1", "a/ckpt-2", "b/c/ckpt-1", "b/c/ckpt-2")
    ]
    assert result.err == f"warning: {runs}/b/c/ckpt-2: w: 1 value is nan\n"
    documents = ckpt("stats", "-R", runs, "--json").json["results"]
    assert documents[0] == ckpt("stats", "--json", runs / "a" / "ckpt-1").json


def test_log_takes_every_run(runs: Path, ckpt: Callable) -> None:
    result = ckpt("log", "-R", runs)
    assert [row[:2] for row in result.rows] == [
        [f"{runs}/{name}", f"ckpt-{step}"] for name in ("a", "b/c") for step in (1, 2)
    ]
    documents = ckpt("log", "-R", runs, "--json").json["results"]
    assert documents == [ckpt("log", "--json", runs / name).json for name in ("a", "b/c")]


@pytest.mark.parametrize("command", ["stats", "verify"])
def test_a_damaged_one_does_not_hide_the_others(runs: Path, command: str, ckpt: Callable) -> None:
    index = runs / "a" / "ckpt-1.index"
    index.write_bytes(index.read_bytes()[:-3])
    result = ckpt(command, "-R", runs)
    assert result.code != 0
    assert f"{runs}/b/c/ckpt-2" in result.out
    assert f"{index}" in result.err


def test_diff_each_compares_what_is_below_by_relative_paths(
    runs: Path, tmp_path_factory: pytest.TempPathFactory, ckpt: Callable
) -> None:
    other = tmp_path_factory.mktemp("other")
    shutil.copytree(runs, other, symlinks=True, dirs_exist_ok=True)
    os.unlink(other / "b" / "c" / "ckpt-2.index")
    result = ckpt("diff", "--each", "-R", runs, other, "--json")
    assert result.code == 1
    assert [os.path.relpath(pair["left"], runs) for pair in result.json["pairs"]] == [
        "a/ckpt-1",
        "a/ckpt-2",
        "b/c/ckpt-1",
    ]
    assert result.json["only_left"] == ["b/c/ckpt-2"]
    assert ckpt("diff", "-R", runs, other).code == 2


def test_what_is_printed_opens_what_is_meant(tmp_path: Path, ckpt: Callable) -> None:
    for step, name in enumerate(("ckpt-1", "ckpt-1.index")):
        write_bundle(str(tmp_path / name), {"w": np.float32([step])})
    shutil.copy(data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10.index"), tmp_path / "ckpt-1.index")
    shutil.copy(
        data_path("guide_adam_legacy", "tf_ckpts", "ckpt-10.data-00000-of-00001"),
        tmp_path / "ckpt-1.data-00000-of-00001",
    )
    rows = ckpt("ls", "--json", tmp_path).json["checkpoints"]
    assert {row["name"]: row["tensors"] for row in rows} == {"ckpt-1": 15, "ckpt-1.index.index": 1}
    for row in rows:
        assert ckpt("ls", "--json", row["path"]).json["total"]["tensors"] == row["tensors"]
    assert "names" not in ckpt("ls", tmp_path / "ckpt-1").err
    assert f", name {tmp_path}/ckpt-1.index.index\n" in ckpt("ls", tmp_path / "ckpt-1.index").err
    # `verify` printed the path of one, and with it the command that rescues the other.
    found = ckpt("verify", "--json", tmp_path).json["results"]
    assert {one["path"]: one["checked"]["tensors"] for one in found} == {
        row["path"]: row["tensors"] for row in rows
    }
    assert [row[0] for row in ckpt("log", tmp_path).rows] == [row["name"] for row in rows]
    several = ckpt("stats", "-R", "--json", tmp_path, "--dtype", "float32").json["results"]
    assert [one["path"] for one in several] == [row["path"] for row in rows]
    assert ckpt("convert", "--each", tmp_path, tmp_path / "new").code == 0
    new = ckpt("ls", "--json", tmp_path / "new").json["checkpoints"]
    assert [(row["name"], row["tensors"]) for row in new] == [(row["name"], row["tensors"]) for row in rows]
