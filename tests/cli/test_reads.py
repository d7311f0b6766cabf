"""Each command reads an index once, and lists a directory once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from formats import location
from formats.location import reachable
from formats.store.memory import MemoryStore
from tests.support import data_path, write_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RUN = "mem://tests/run"


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with three checkpoints, whose indexes have many blocks, and their state file."""
    directory = tmp_path_factory.mktemp("laid") / "run"
    directory.mkdir()
    for step in range(3):
        tensors = {
            f"layer_{number:04d}/kernel": np.full(2, number + step, np.float32) for number in range(1500)
        }
        write_bundle(str(directory / f"ckpt-{step}"), tensors)
    (directory / "checkpoint").write_text('model_checkpoint_path: "ckpt-2"\n')
    return directory


@pytest.fixture
def store(laid_out: Path) -> Iterator[MemoryStore]:
    found = MemoryStore()
    with reachable(found):
        found.put_tree("mem://tests", str(laid_out))
        yield found


LINES = {
    "ls": (f"ls {RUN}/ckpt-1", (1,)),
    "ls by its index": (f"ls {RUN}/ckpt-1.index", (1,)),
    "ls -l": (f"ls -l {RUN}/ckpt-1", (1,)),
    "ls DIR": (f"ls {RUN}", (0, 1, 2)),
    "ls -R DIR": (f"ls -R {RUN}", (0, 1, 2)),
    "show": (f"show {RUN}/ckpt-1", (1,)),
    "show KEY": (f"show {RUN}/ckpt-1 layer_0007/kernel", (1,)),
    "diff": (f"diff {RUN}/ckpt-0 {RUN}/ckpt-1", (0, 1)),
    "diff --each": (f"diff {RUN} {RUN} --each", (0, 1, 2)),
    "verify": (f"verify {RUN}/ckpt-1", (1,)),
    "verify DIR": (f"verify {RUN}", (0, 1, 2)),
    "stats": (f"stats {RUN}", (2,)),
    "match": (f"match {RUN}/ckpt-0 {RUN}/ckpt-1", (0, 1)),
    "log": (f"log {RUN}", (0, 1, 2)),
    "state": (f"state {RUN}", ()),
    "extract": (f"extract {RUN}/ckpt-1 layer_0007/kernel -o x.npy", (1,)),
    "average": (f"average {RUN}/ckpt-0 {RUN}/ckpt-1 -o mean-1", (0, 1)),
    "convert": (f"convert {RUN}/ckpt-1 copy-1", (1,)),
    "convert --like": (f"convert {RUN}/ckpt-1 copy-1 --like {RUN}/ckpt-0", (0, 1)),
    "convert --each": (f"convert {RUN} copies --each --to v1", (0, 1, 2)),
    "rename": (f"rename {RUN}/ckpt-1 renamed-1 --sub layer=>block", (1,)),
}
"""Lines, and which of the run's checkpoints each of them reads."""


@pytest.mark.parametrize("name", LINES)
def test_an_index_is_read_once_and_its_directory_listed_once(
    name: str, store: MemoryStore, ckpt: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    line, steps = LINES[name]
    done = ckpt(*line.split())
    assert done.code in (0, 1), done.err
    for step in steps:
        path = f"{RUN}/ckpt-{step}.index"
        entry = store.stat(path)
        assert entry is not None
        assert entry.size > 3 * 4096
        whole = [read for read in store.reads if read[0] == path and read[2] > 4096]
        assert whole == [(path, 0, entry.size)]
        assert store.read_of(path) == entry.size
    assert set(store.lists) <= {RUN}
    assert store.lists[RUN] <= 1


@pytest.mark.parametrize("command", ["ls", "show", "verify"])
def test_a_map_of_shards_is_read_once(command: str, store: MemoryStore, ckpt: Callable) -> None:
    folder = store.put_tree("mem://tests", data_path("hf"))
    path = f"{folder}/model.safetensors.index.json"
    entry = store.stat(path)
    assert entry is not None
    assert ckpt(command, folder).code == 0
    assert store.read_of(path) == entry.size
    assert store.lists == {folder: 1}


def test_what_was_replaced_is_read_again(store: MemoryStore, laid_out: Path, ckpt: Callable) -> None:
    before = ckpt("ls", "-l", f"{RUN}/ckpt-1").out
    for suffix in (".index", ".data-00000-of-00001"):
        store.put(f"{RUN}/ckpt-1{suffix}", (laid_out / f"ckpt-2{suffix}").read_bytes())
    after = ckpt("ls", "-l", f"{RUN}/ckpt-1").out
    assert after != before
    assert after == ckpt("ls", "-l", f"{RUN}/ckpt-2").out


def test_a_name_that_comes_is_seen(store: MemoryStore, ckpt: Callable) -> None:
    assert "missing" not in ckpt("ls", f"{RUN}/ckpt-1").err
    store.remove(f"{RUN}/ckpt-1.data-00000-of-00001")
    assert "missing" in ckpt("ls", f"{RUN}/ckpt-1").err


PARSERS = (location.parse_location, location.local_location)
"""What makes locations of text."""

MOST_PARSED = 3


@pytest.mark.parametrize(
    ("name", "options"),
    [("ckpt-1", ""), ("ckpt-1", "-l"), ("ckpt-1.index", "--json"), (".", ""), (".", "--recursive")],
)
def test_a_path_is_parsed_once(name: str, options: str, laid_out: Path, ckpt: Callable) -> None:
    """Opening a checkpoint parsed its path 18 times: from then on, its location is passed."""
    asked = {function.__code__: 0 for function in PARSERS}

    def count(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code in asked:
            asked[frame.f_code] += 1

    sys.setprofile(count)
    try:
        done = ckpt("ls", *options.split(), laid_out / name)
    finally:
        sys.setprofile(None)
    assert done.code == 0
    assert 0 < sum(asked.values()) <= MOST_PARSED
