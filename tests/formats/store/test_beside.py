"""A directory is listed once for all who look for files in it, and again when it has changed."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.find.directory import Directory
from formats.find.opening import open_location
from formats.location import parse_location
from formats.store.siblings import SHARD, V1_SHARD, matching_files
from tests.support import write_bundle

if TYPE_CHECKING:
    from pathlib import Path

_LONG_AGO = 1_600_000_000_123_456_789


def run_of(directory: Path, count: int) -> Path:
    """Write so many checkpoints and their state file, the last of them missing, and wait for the clock."""
    directory.mkdir()
    for step in range(count):
        write_bundle(str(directory / f"ckpt-{step}"), {"w": np.zeros(2, np.float32)})
    listed = "".join(f'all_model_checkpoint_paths: "/gone/ckpt-{step}"\n' for step in range(count + 1))
    (directory / "checkpoint").write_text(f'model_checkpoint_path: "ckpt-{count - 1}"\n{listed}')
    time.sleep(0.05)
    return directory


class Listings:
    """Counts how often directories are listed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("listdir", "scandir"):
            monkeypatch.setattr(os, name, self._counting(getattr(os, name)))

    def _counting(self, function):
        def counted(*arguments):
            self.count += 1
            return function(*arguments)

        return counted


@pytest.mark.parametrize("look", ["members", "open", "latest"])
def test_a_directory_is_listed_as_often_for_many_as_for_few(
    tmp_path: Path, look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for count in (1, 3, 30):  # the first time, modules are looked for as well
        path = run_of(tmp_path / str(count), count)
        with monkeypatch.context() as patch:
            listings = Listings(patch)
            directory = Directory(parse_location(str(path)))
            if look == "latest":
                assert directory.require_latest().name == f"ckpt-{count - 1}"
            else:
                assert len(directory.members) == count
            for member in directory.members if look == "open" else ():
                with open_location(member.location) as reader:
                    assert reader.missing_files() == []
                    assert len(member.location.files()) == 2
                    reader.check_unchanged()
            counts.append(listings.count)
    assert counts[1] == counts[2] <= 2


def test_what_comes_and_goes_is_seen(tmp_path: Path) -> None:
    os.utime(tmp_path, ns=(_LONG_AGO, _LONG_AGO))
    prefix = str(tmp_path / "ckpt-1")
    shards = [f"{prefix}.data-0000{number}-of-00002" for number in range(2)]
    assert matching_files(parse_location(prefix), SHARD) == []
    for number, shard in enumerate(shards):
        open(shard, "wb").close()
        assert matching_files(parse_location(prefix), SHARD) == shards[: number + 1]
    os.unlink(shards[0])
    assert matching_files(parse_location(prefix), SHARD) == shards[1:]


def test_a_listing_is_doubted_while_the_clock_is_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change within one tick leaves the directory's time unchanged, and a tick may take a second."""
    prefix = str(tmp_path / "ckpt-1")
    stood = time.time_ns() - 1_000_000_001
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: stood)
    for number in range(3):
        open(f"{prefix}-{number:05d}-of-00003", "wb").close()
        os.utime(tmp_path, ns=(stood, stood))
        assert len(matching_files(parse_location(prefix), V1_SHARD)) == number + 1
        open(f"{prefix}.data-{number:05d}-of-00003", "wb").close()
        os.utime(tmp_path, ns=(stood, stood))
        assert len(matching_files(parse_location(prefix), SHARD)) == number + 1


def test_each_pattern_has_its_own_prefixes(tmp_path: Path) -> None:
    names = ["a.data-00000-of-00001", "a-00000-of-00002", "a-00001-of-00002", "ab.data-00000-of-00001", "a"]
    for name in names:
        (tmp_path / name).touch()
    prefix = str(tmp_path / "a")
    assert matching_files(parse_location(prefix), SHARD) == [prefix + ".data-00000-of-00001"]
    assert matching_files(parse_location(prefix), V1_SHARD) == [
        prefix + "-00000-of-00002",
        prefix + "-00001-of-00002",
    ]


def test_a_directory_that_is_another_by_now_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"ckpt-{name}.data-00000-of-00001").touch()
        os.utime(tmp_path / name, ns=(_LONG_AGO, _LONG_AGO))
        monkeypatch.chdir(tmp_path / name)
        assert matching_files(parse_location(f"ckpt-{name}"), SHARD) == [f"ckpt-{name}.data-00000-of-00001"]
