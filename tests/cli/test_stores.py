"""What reads checkpoints reads them from any store: the lines of `examples`, once more over `mem://`.

Each line runs in a directory of this machine, and again with every checkpoint, and every file that it
reads, in memory.  What it prints, but for the scheme, what it writes and its exit code are the same.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from formats.store.memory import MemoryStore
from formats.store.paths import reachable
from tests.cli.anywhere import LINES, Place
from tests.cli.examples import lay_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Result

FOLDER = "mem://place"


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
def place(
    laid_out: Path, tmp_path: Path, ckpt: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> Place:
    return Place(laid_out, tmp_path, ckpt, monkeypatch)


@pytest.mark.parametrize("line", LINES)
def test_a_line_comes_to_the_same_wherever_its_checkpoints_lie(
    line: str, store: MemoryStore, place: Place
) -> None:
    place.compare(line, FOLDER, store.forget)
    assert store.stats or place.is_of_usage


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
def test_what_is_only_read_is_not_written(line: str, store: MemoryStore, place: Place) -> None:
    before = store.names
    done, _ = place.run(shlex.split(line))
    assert done.code == 3
    assert f"{WRITING[line]}: mem:// is read here, and not written" in done.err
    assert store.names == before
