"""What reads checkpoints reads them from any store: the lines of `examples`, once more over `mem://`.

Each line runs in a directory of this machine, and again with every checkpoint, and every file that it
reads, in memory.  What it prints, but for the scheme, what it writes and its exit code are the same.
"""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

from formats.find.location import find
from formats.model.location import data_shards
from formats.store.memory import MemoryStore
from formats.store.paths import entry_at, reachable
from tests.cli.examples import examples, lay_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Result

FOLDER = "mem://place"

READING = ("average", "convert", "diff", "extract", "graph", "log", "ls", "match")
READING += ("rename", "rescue", "show", "stats", "verify")

WRITTEN = ("-o", "--save-map")
"""Options whose value is written."""

LINES = {
    line
    for (command, option), (base, more) in examples().items()
    for line in (base, f"{base} {more}")
    if command in READING and option not in ("--jobs", "--color", "--verbose", "--in-place", "--link")
}


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("laid") / "place"
    directory.mkdir()
    lay_out(directory)
    return directory


@pytest.fixture(scope="module")
def store(laid_out: Path) -> Iterator[MemoryStore]:
    found = MemoryStore()
    with reachable(found):
        assert found.put_tree("mem://", str(laid_out)) == FOLDER
        yield found


@pytest.fixture
def run(
    laid_out: Path, tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[str]], tuple[Result, dict[str, bytes]]]:
    """Run a line in a fresh copy of the directory; return what it printed and the files there."""
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    place = tmp_path / "place"

    def run(words: list[str]) -> tuple[Result, dict[str, bytes]]:
        shutil.copytree(laid_out, place)
        monkeypatch.chdir(place)
        done = ckpt(*words)
        files = {
            os.path.relpath(path, place): path.read_bytes() for path in place.rglob("*") if path.is_file()
        }
        monkeypatch.chdir(tmp_path)
        shutil.rmtree(place)
        return done, files

    return run


def in_memory(words: list[str]) -> list[str]:
    """Return a line with what it reads in memory."""
    found = []
    for at, word in enumerate(words):
        path = FOLDER if word == "." else f"{FOLDER}/{word}"
        is_target = words[at - 1] in WRITTEN or (words[0] in ("convert", "rename", "rescue") and at == 2)
        is_read = at and not is_target and (entry_at(path) or find(path) or data_shards(path))
        found.append(path if is_read else word)
    return found


@pytest.mark.parametrize("line", sorted(LINES))
def test_a_line_comes_to_the_same_wherever_its_checkpoints_lie(
    line: str, store: MemoryStore, run: Callable[[list[str]], tuple[Result, dict[str, bytes]]]
) -> None:
    words = shlex.split(line)
    here, written = run(words)
    there = in_memory(words)
    assert there != words
    store.forget()
    found, files = run(there)
    assert store.stats or here.code == 2  # of usage
    assert (found.code, _here(found.out), _here(found.err)) == (here.code, *map(_plain, here[1:]))
    assert files == written


def _here(text: str) -> str:
    return text.replace(f"{FOLDER}/", "").replace(FOLDER, ".")


def _plain(text: str) -> str:
    """Return what was printed with paths as they are called where they are not below `.`."""
    return text.replace("./", "")


WRITING = {
    "average mem://place/run/ckpt-9 mem://place/run/ckpt-10 -o mem://place/new/mean-1": "mem://place/new/mean-1",
    "convert run/ckpt-10 mem://place/new/c-1": "mem://place/new/c-1",
    "convert mem://place/run/ckpt-10 mem://place/new/c-1.npz": "mem://place/new/c-1.npz",
    "convert mem://place/run mem://place/new --each": "mem://place/new/ckpt-8",
    "extract mem://place/run/ckpt-10 net/l1/kernel -o mem://place/new.npy": "mem://place/new.npy",
    "extract mem://place/run/ckpt-10 --kind variable -o mem://place/new/": "mem://place/new",
    "graph mem://place/run/ckpt-10 -o mem://place/new.dot": "mem://place/new.dot",
    "rename mem://place/run/ckpt-10 --sub net=>n --in-place": "mem://place/run/ckpt-10",
    "rename mem://place/run/ckpt-10 mem://place/run/r-1 --sub net=>n": "mem://place/run/r-1",
    "rescue run/ckpt-10 mem://place/new/s-1": "mem://place/new/s-1",
    "match mem://place/run/ckpt-10 mem://place/fewer --save-map mem://place/map.tsv": "mem://place/map.tsv",
    "state mem://place/run": "mem://place/run",
    "state mem://place/run --keep 1": "mem://place/run",
    "demo mem://place/new": "mem://place/new/tf_ckpts",
}
"""Lines that would write to a store that is only read, and what they are told about."""


@pytest.mark.parametrize("line", sorted(WRITING))
def test_what_is_only_read_is_not_written(
    line: str, store: MemoryStore, run: Callable[[list[str]], tuple[Result, dict[str, bytes]]]
) -> None:
    before = store.names
    done, _ = run(shlex.split(line))
    assert done.code == 3
    assert f"{WRITING[line]}: mem:// is read here, and not written" in done.err
    assert store.names == before
