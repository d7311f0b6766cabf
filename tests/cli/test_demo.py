"""`ckpt demo`: two runs that everything can be tried on."""

from __future__ import annotations

import os
import shlex
import signal
from typing import TYPE_CHECKING

import formats
from ckpt_cli.cli.signals import EndedBySignal
from ckpt_cli.runtime import guide

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

NAMES = ["ckpt-3", "ckpt-4", "ckpt-5"]


def test_it_leaves_two_runs_of_three_checkpoints(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("demo", "--json", tmp_path / "d")
    assert (result.code, result.err) == (0, "")
    first, second = result.json["runs"]
    assert (first["learning_rate"], second["learning_rate"]) == (0.1, 0.02)
    assert first["loss"] < second["loss"]
    assert sorted(os.listdir(tmp_path / "d")) == ["tf_ckpts", "tf_ckpts_slower"]
    for run in (first, second):
        assert run["checkpoints"] == NAMES
        listed = ckpt("ls", "--json", run["directory"]).json
        assert ([one["name"] for one in listed["checkpoints"]], listed["latest"]) == (NAMES, "ckpt-5")
        assert ckpt("verify", run["directory"]).code == 0


def test_every_command_it_proposes_works(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("demo", tmp_path / "it's here")
    assert result.code == 0
    lines = result.out.splitlines()
    assert len(lines) >= 8
    answers = ("diff", "match")  # they answer no, with 1
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "ckpt"
        done = ckpt(*words)
        assert done.code == 0 or (done.code == 1 and words[0] in answers), f"{line}\n{done.err}"


def test_both_runs_begin_alike_and_the_same_each_time(tmp_path: Path) -> None:
    losses = [guide.train(str(tmp_path / str(number)), 0.1).loss for number in range(2)]
    assert losses[0] == losses[1]
    shards = [(tmp_path / str(number) / "ckpt-5.data-00000-of-00001").read_bytes() for number in range(2)]
    assert shards[0] == shards[1]
    with formats.open_checkpoint(tmp_path / "0" / "ckpt-5") as reader:
        assert reader["step/.ATTRIBUTES/VARIABLE_VALUE"].read() == 50


def test_what_is_there_stays_by_default(tmp_path: Path, ckpt: Callable) -> None:
    own = tmp_path / "tf_ckpts_slower"
    own.mkdir()
    (own / "precious").write_text("mine")
    refused = ckpt("demo", tmp_path)
    assert refused.code == 3
    assert "tf_ckpts_slower: this path already exists" in refused.err
    assert os.listdir(tmp_path) == ["tf_ckpts_slower"]
    assert ckpt("demo", "--overwrite", tmp_path).code == 0
    assert sorted(os.listdir(tmp_path)) == ["tf_ckpts", "tf_ckpts_slower"]
    assert "precious" not in os.listdir(own)
    assert "ckpt-5.index" in os.listdir(own)


def test_a_run_that_fails_leaves_the_old_one(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ckpt("demo", tmp_path).code == 0
    before = (tmp_path / "tf_ckpts" / "ckpt-5.index").read_bytes()

    def fail(directory: str, learning_rate: float) -> guide.Training:
        raise OSError(28, "No space left on device", directory)

    monkeypatch.setattr(guide, "train", fail)
    assert ckpt("demo", "--overwrite", tmp_path).code == 3
    assert sorted(os.listdir(tmp_path)) == ["tf_ckpts", "tf_ckpts_slower"]
    assert (tmp_path / "tf_ckpts" / "ckpt-5.index").read_bytes() == before


def test_where_the_second_run_fails_the_first_is_not_left(
    tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = guide.train

    def fail_later(directory: str, learning_rate: float) -> guide.Training:
        if learning_rate == 0.02:
            raise EndedBySignal(signal.SIGTERM)
        return train(directory, learning_rate)

    monkeypatch.setattr(guide, "train", fail_later)
    assert ckpt("demo", tmp_path / "d").code == 143
    assert os.listdir(tmp_path) == []


def test_a_dry_run_writes_nothing(tmp_path: Path, ckpt: Callable) -> None:
    result = ckpt("demo", "-n", "--json", tmp_path / "d")
    assert result.code == 0
    assert [run["directory"] for run in result.json["runs"]] == [
        str(tmp_path / "d" / name) for name in ("tf_ckpts", "tf_ckpts_slower")
    ]
    assert os.listdir(tmp_path) == []
