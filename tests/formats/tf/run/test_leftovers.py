"""Leftovers of writers that ended, and files that a running writer still needs."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import numpy as np

import formats
from formats.location import parse_location
from formats.store.local.staging import Staging
from formats.tf.run.leftovers import Leftover, find_leftovers
from tests.support import data_path, shard_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

HEX = "0123456789abcdef" * 2


def found_in(
    path: Path, listed: Collection[str] = (), *, has_checkpoints: bool = True
) -> dict[str, Leftover]:
    leftovers = find_leftovers(parse_location(str(path)), listed, has_checkpoints=has_checkpoints)
    return {os.path.basename(leftover.path): leftover for leftover in leftovers}


def removable(path: Path, listed: Collection[str] = (), *, has_checkpoints: bool = True) -> list[str]:
    found = found_in(path, listed, has_checkpoints=has_checkpoints)
    return [name for name, leftover in found.items() if leftover.in_the_way is None]


def bundle_at(path: Path, num_shards: int = 1) -> str:
    write_bundle(str(path), {"v": np.arange(3.0)}, num_shards=num_shards)
    return str(path)


def test_what_tensorflow_left_when_it_was_killed(tmp_path: Path) -> None:
    shutil.copytree(data_path("state_files", "crash"), tmp_path / "run")
    assert removable(tmp_path / "run") == [
        "ckpt-2.data-00000-of-00001.tempstate12345678901234567890",
        "ckpt-2_temp",
    ]
    leftover = found_in(tmp_path / "run")["ckpt-2_temp"]
    part = leftover.what.split("; ")[1].split(" ")[0]
    with formats.open_checkpoint(os.path.join(leftover.path, part)) as reader:
        assert len(reader) == 4
    for leftover in found_in(tmp_path / "run").values():
        leftover.clear()
    assert sorted(os.listdir(tmp_path / "run")) == [
        "checkpoint",
        "ckpt-1.data-00000-of-00001",
        "ckpt-1.index",
    ]


def test_names_of_every_kind(tmp_path: Path) -> None:
    bundle_at(tmp_path / "ckpt-1")
    for name in ("ckpt-2.index.tempstate17", f"checkpoint.tmp{HEX}", shard_path("ckpt-3")):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / f"ckpt-4_temp_{HEX}").mkdir()
    assert removable(tmp_path) == [
        f"checkpoint.tmp{HEX}",
        "ckpt-2.index.tempstate17",
        shard_path("ckpt-3"),
        f"ckpt-4_temp_{HEX}",
    ]


def test_what_only_looks_like_debris(tmp_path: Path) -> None:
    bundle_at(tmp_path / "ckpt-1")
    (tmp_path / "my_temp").mkdir()
    (tmp_path / "my_temp" / "thesis.txt").write_text("weeks of work")
    (tmp_path / "a.tempstate").write_text("")
    (tmp_path / "checkpoint.tmp").write_text("")
    (tmp_path / "elsewhere_temp").symlink_to(data_path())
    assert found_in(tmp_path) == {}


def test_a_data_shard_whose_index_may_have_been_lost_stays(tmp_path: Path) -> None:
    lost = bundle_at(tmp_path / "ckpt-1")
    os.unlink(lost + ".index")
    assert removable(tmp_path, [lost]) == []
    assert removable(tmp_path, has_checkpoints=False) == []
    assert removable(tmp_path) == [shard_path("ckpt-1")]
    (leftover,) = found_in(tmp_path, [lost]).values()
    assert "rescue" in (leftover.in_the_way or "")


def test_second_names_of_a_killed_exchange(tmp_path: Path) -> None:
    prefix = bundle_at(tmp_path / "ckpt-1", 2)
    for shard in range(2):
        os.link(shard_path(prefix, shard, 2), shard_path(prefix, shard, 3))
    assert removable(tmp_path) == [shard_path("ckpt-1", 0, 3), shard_path("ckpt-1", 1, 3)]


def test_surplus_shards_stay_where_the_index_misses_its_own(tmp_path: Path) -> None:
    prefix = bundle_at(tmp_path / "ckpt-1", 2)
    os.rename(shard_path(prefix, 0, 2), shard_path(prefix, 0, 3))
    assert found_in(tmp_path) == {}


def test_surplus_shards_of_a_damaged_index_stay(tmp_path: Path) -> None:
    prefix = bundle_at(tmp_path / "ckpt-1")
    os.link(shard_path(prefix), shard_path(prefix, 0, 2))
    with open(prefix + ".index", "r+b") as file:
        file.truncate(100)
    assert found_in(tmp_path) == {}


def test_a_living_writer_keeps_what_it_needs(tmp_path: Path) -> None:
    prefix = bundle_at(tmp_path / "ckpt-1")
    os.link(shard_path(prefix), shard_path(prefix, 0, 2))
    staging = Staging(parse_location(prefix))
    assert len(found_in(tmp_path)) == 2
    assert removable(tmp_path) == []
    staging.remove()
    assert removable(tmp_path) == [shard_path("ckpt-1", 0, 2)]


def test_what_a_process_has_open_stays(tmp_path: Path) -> None:
    path = tmp_path / "ckpt-2.index.tempstate17"
    with open(path, "wb"):
        (leftover,) = found_in(tmp_path).values()
        assert leftover.in_the_way == "a process has it open"
    assert removable(tmp_path) == [path.name]


def test_an_old_set_that_was_moved_aside_goes_back(tmp_path: Path) -> None:
    prefix = bundle_at(tmp_path / "ckpt-1", 2)
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    staged = tmp_path / f"ckpt-1_temp_{HEX}" / "aside"
    staged.mkdir(parents=True)
    for name in before:
        os.rename(tmp_path / name, staged / name)
    (tmp_path / "ckpt-1.index").write_bytes(b"half of the new one")
    (leftover,) = (found for found in found_in(tmp_path).values() if found.aside)
    assert leftover.aside == tuple(
        sorted((shard_path(prefix, 0, 2), shard_path(prefix, 1, 2), prefix + ".index"))
    )
    leftover.clear()
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == before


def test_staging_sets_aside_and_puts_back(tmp_path: Path) -> None:
    prefix = bundle_at(tmp_path / "ckpt-1")
    before = sorted(os.listdir(tmp_path))
    staging = Staging(parse_location(prefix))
    staging.move_old_aside(before)
    assert [name for name in os.listdir(tmp_path) if "_temp_" not in name] == []
    staging.remove()
    assert sorted(os.listdir(tmp_path)) == before
    staging = Staging(parse_location(prefix))
    staging.move_old_aside(before)
    staging.discard_old_set()
    staging.remove()
    assert os.listdir(tmp_path) == []
