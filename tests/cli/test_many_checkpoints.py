"""Directories of many checkpoints: four times as many are four times the work, and not sixteen times."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.location import Location, other_names, parse_location
from formats.store.local.files import LOCAL
from formats.tf.run import leftovers
from formats.tf.run.state_file import StateFile
from tests.support import write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMANDS = ["ls", "log --no-values", "state", "state --keep 3 -n", "state --fix -n", "verify", "verify -R"]


def calls_of(ckpt: Callable, *words: object) -> int:
    """Return the number of function calls of a command, which is independent of the machine's load, unlike
    seconds.
    """
    found = 0

    def counted(_: object, event: str, __: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        done = ckpt(*words)
    finally:
        sys.setprofile(None)
    assert done.code == 0, done.err
    return found


def grows_as_fast(ckpt: Callable, command: str, make: Callable[[int], Path]) -> bool:
    words = command.split()
    # The first time, modules are imported as well.
    _, few, many = (calls_of(ckpt, words[0], make(number), *words[1:]) for number in (10, 60, 240))
    return many < 4.5 * few


def run_of(path: Path, number: int, listed: str) -> Path:
    path.mkdir()
    for step in range(number):
        write_bundle(str(path / f"ckpt-{step}"), {"w": np.float32(1)})
    names = tuple(f"ckpt-{step}" for step in range(number))
    if listed != "none":
        kept = names if listed == "all" else names[-1:]
        (path / "checkpoint").write_bytes(StateFile(names[-1], kept).text())
    return path


@pytest.mark.parametrize("listed", ["all", "latest", "none"])
@pytest.mark.parametrize("command", COMMANDS)
def test_checkpoints_that_the_state_file_does_not_list(
    command: str, listed: str, tmp_path: Path, ckpt: Callable
) -> None:
    """Each unlisted checkpoint was compared with all earlier ones."""
    assert grows_as_fast(ckpt, command, lambda number: run_of(tmp_path / str(number), number, listed))


@pytest.mark.parametrize("command", COMMANDS)
def test_checkpoints_that_share_a_shard(command: str, tmp_path: Path, ckpt: Callable) -> None:
    def make(number: int) -> Path:
        path = run_of(tmp_path / str(number), number, "none")
        for shard in sorted(path.glob("*.data-*"))[1:]:
            shard.unlink()
            os.link(path / "ckpt-0.data-00000-of-00001", shard)
        return path

    assert grows_as_fast(ckpt, command, make)


@pytest.mark.parametrize("command", ["ls", "state --keep 3 -n", "state --fix -n"])
def test_checkpoints_whose_shards_are_links_to_the_one_before(
    command: str, tmp_path: Path, ckpt: Callable
) -> None:
    def make(number: int) -> Path:
        path = run_of(tmp_path / str(number), number, "none")
        for step in range(1, number):
            shard = path / f"ckpt-{step}.data-00000-of-00001"
            shard.unlink()
            shard.symlink_to(f"ckpt-{step - 1 if step % 30 else 0}.data-00000-of-00001")
        return path

    assert grows_as_fast(ckpt, command, make)


@pytest.mark.parametrize("command", ["state", "state --fix -n"])
def test_shards_without_an_index(
    command: str, tmp_path: Path, ckpt: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = {f"/elsewhere/{at}/file" for at in range(1000)}
    monkeypatch.setattr(leftovers, "_open_files", lambda: opened)

    def make(number: int) -> Path:
        path = run_of(tmp_path / str(number), number, "none")
        for index in sorted(path.glob("*.index"))[1:]:
            index.unlink()
        opened.add(str(path / "ckpt-7.data-00000-of-00001"))
        return path

    assert grows_as_fast(ckpt, command, make)
    assert "a process has it open" in ckpt("state", "--fix", "-n", tmp_path / "240").err


def test_the_names_of_shards_are_looked_for_in_one_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Location, "entry", lambda path: asked.append(path) or LOCAL.stat(path))
    names = [str(tmp_path / f"c-1.data-{at:05d}-of-00050") for at in range(50)]
    for name in names:
        open(name, "wb").close()
        os.link(name, name + ".other")
    os.symlink(names[0], tmp_path / "link")
    found = other_names(map(parse_location, names))
    assert found == {name: [os.path.basename(name) + ".other"] for name in names} | {
        names[0]: [os.path.basename(names[0]) + ".other", "link"]
    }
    assert len(asked) <= 50 + 101
