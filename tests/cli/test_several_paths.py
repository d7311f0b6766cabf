"""The paths from a shell's `run/ckpt-*`: one checkpoint is several paths, and 10 comes before 9."""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.operations.select.arguments import each_once
from formats import open_checkpoint
from formats.location import parse_location
from formats.model.checkpoint_files import CheckpointLocation
from tests.support import write_bundle
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def run_of(directory: Path, *steps: int, num_shards: int = 3) -> list[str]:
    """Write checkpoints that hold their step, and return what a shell makes of `ckpt-*`."""
    directory.mkdir()
    for step in steps:
        values = {"w": np.float32([step]), "step": np.int64(step)}
        write_bundle(str(directory / f"ckpt-{step}"), values, num_shards=num_shards)
    return sorted(glob.glob(str(directory / "ckpt-*")))


def test_average_counts_checkpoints_not_files(tmp_path: Path, ckpt: Callable) -> None:
    write_bundle(str(tmp_path / "once"), {"w": np.float32([0])})
    expanded = run_of(tmp_path / "run", 1, 2, 10)
    expanded.remove(f"{tmp_path}/run/ckpt-1.data-00002-of-00003")  # so that files would have weights
    result = ckpt("average", *expanded, "-o", tmp_path / "mean")
    assert result.code == 0
    note = f"note: 11 paths name 3 checkpoints; sorted by step: {tmp_path}/run/ckpt-1, "
    assert note + f"{tmp_path}/run/ckpt-2, {tmp_path}/run/ckpt-10\n" in result.err
    assert "1 tensor is averaged over 3 checkpoints; " in result.err
    with open_checkpoint(tmp_path / "mean") as reader:
        assert reader["w"].read() == np.float32(13 / 3)
        assert reader["step"].read() == 10  # not that of ckpt-2, which the shell puts last


def test_steps_are_ordered_where_each_has_one_path(tmp_path: Path, ckpt: Callable) -> None:
    expanded = [path for path in run_of(tmp_path / "run", 2, 10) if path.endswith(".index")]
    result = ckpt("average", *expanded, "-o", tmp_path / "mean")
    assert result.err.startswith(f"note: sorted by step: {tmp_path}/run/ckpt-2, ")
    with open_checkpoint(tmp_path / "mean") as reader:
        assert reader["step"].read() == 10


def test_verify_checks_each_checkpoint_once(tmp_path: Path, ckpt: Callable) -> None:
    expanded = run_of(tmp_path / "run", 2, 10)
    result = ckpt("verify", *expanded, tmp_path / "run", "--json")
    assert [one["path"] for one in result.json["results"]] == [f"{tmp_path}/run/ckpt-{n}" for n in (2, 10)]
    assert "note: 10 paths name 2 checkpoints; sorted by step" in result.err


def test_ls_lists_each_checkpoint_once(tmp_path: Path, ckpt: Callable) -> None:
    expanded = run_of(tmp_path / "run", 2, 10)
    two, ten = (f"{tmp_path}/run/ckpt-{step}" for step in (2, 10))
    result = ckpt("ls", *expanded)
    assert [row[:3] for row in result.rows] == [
        [path, key, dtype] for path in (two, ten) for key, dtype in (("step", "int64"), ("w", "float32"))
    ]
    document = ckpt("ls", "--json", *expanded).json
    assert document["schema"] == 1
    assert [one["path"] for one in document["results"]] == [two, ten]
    for one, path in zip(document["results"], (two, ten), strict=True):
        assert one == ckpt("ls", "--json", path).json


def test_the_shards_of_a_folder_are_one_checkpoint_with_their_index(tmp_path: Path, ckpt: Callable) -> None:
    arrays = {"a": np.arange(9), "b": np.arange(9)}
    save(tmp_path / "model.safetensors", arrays, "safetensors", shard_size=80)
    expanded = sorted(glob.glob(f"{tmp_path}/*"))
    index = f"{tmp_path}/model.safetensors.index.json"
    note = f"note: 3 paths name 1 checkpoint: {index}\n"
    verified = ckpt("verify", "--json", *expanded)
    assert [one["path"] for one in verified.json["results"]] == [index]
    assert note in verified.err
    listed = ckpt("ls", *expanded)
    assert [row[:2] for row in listed.rows] == [[index, "a"], [index, "b"]]
    assert note in listed.err
    alone = ckpt("verify", *expanded[:2])
    assert [row[0] for row in alone.rows] == expanded[:2]
    assert f"note: {expanded[0]} is one of 2 shards; the whole checkpoint is {index}\n" in alone.err


def test_verify_says_what_is_next_to_a_model(tmp_path: Path, ckpt: Callable) -> None:
    arrays = {"a": np.arange(9), "b": np.arange(9)}
    save(tmp_path / "model.safetensors", arrays, "safetensors", shard_size=80)
    write_bundle(str(tmp_path / "ckpt-1"), {"w": np.float32([0])})
    err = ckpt("verify", tmp_path).err
    assert "ckpt reads the checkpoint of this folder; to read another file, name it: ckpt-1.index\n" in err


def test_keys_are_among_paths_and_go_before_them(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of(tmp_path / "run", 1, 2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w").write_text("a file that is called like a key")
    assert [row[:2] for row in ckpt("ls", "run/ckpt-1", "w", "run/ckpt-2").rows] == [
        ["run/ckpt-1", "w"],
        ["run/ckpt-2", "w"],
    ]
    assert [row[0] for row in ckpt("ls", "run/ckpt-1", "s*").rows] == ["step"]
    result = ckpt("ls", "--regex", "run/ckpt-1", "run")  # a pattern, even if a file has that name
    assert (result.code, result.out) == (1, "")


def test_ls_of_directories_and_checkpoints_continues_past_errors(tmp_path: Path, ckpt: Callable) -> None:
    run_of(tmp_path / "run", 1)
    (tmp_path / "junk").write_bytes(b"\xff" * 100)
    result = ckpt("ls", tmp_path / "run", tmp_path / "junk", tmp_path / "run" / "ckpt-1")
    assert result.code == 3
    assert [row[0] for row in result.rows] == [f"{tmp_path}/run/ckpt-1"] * 3
    assert f"ckpt: error: {tmp_path}/junk: this is not a known checkpoint format" in result.err


def test_links_lead_to_the_same_checkpoint(tmp_path: Path, ckpt: Callable) -> None:
    run_of(tmp_path / "run", 1, 2)
    (tmp_path / "link").symlink_to("run")
    paths = (tmp_path / "run" / "ckpt-1", tmp_path / "link" / "ckpt-1", tmp_path / "run" / "ckpt-2")
    assert len(ckpt("verify", *paths, "--json").json["results"]) == 2


def at(path: str) -> CheckpointLocation:
    return CheckpointLocation(parse_location(path), parse_location(path + ".index"))


NAMED = st.lists(
    st.builds("{}/{}-{}".format, st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 12)),
    max_size=12,
)


@given(NAMED)
def test_each_is_there_once_and_each_series_in_order(named: list[str]) -> None:
    found = [place.path for place in each_once([at(path) for path in named])[0]]
    assert sorted(found) == sorted(set(named))
    series = [path.rpartition("-")[0] for path in dict.fromkeys(named)]
    assert [path.rpartition("-")[0] for path in found] == series  # a series keeps its places
    for one in set(series):
        steps = [int(path.rpartition("-")[2]) for path in found if path.startswith(one + "-")]
        assert steps == sorted(steps)


@given(NAMED)
def test_naming_again_changes_nothing(named: list[str]) -> None:
    once, _ = each_once([at(path) for path in named])
    again, notes = each_once(once)
    assert (again, notes) == (once, [])
