"""Reading commands work on any store: the lines of `examples`, again over `mem://`.

Each line runs in a directory of this machine, and again with every checkpoint, and every file that it reads,
in memory. The output without the scheme, the written files and the exit code are the same.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from formats.location import reachable
from formats.store.memory import MemoryStore
from tests.cli.anywhere import LINES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.anywhere import Place

FOLDER = "mem://place"


@pytest.fixture(scope="module")
def store(laid_out: Path) -> Iterator[MemoryStore]:
    found = MemoryStore()
    with reachable(found):
        assert found.put_tree("mem://", str(laid_out)) == FOLDER
        yield found


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_has_the_same_result_in_every_store(
    line: str, store: MemoryStore, place: Place
) -> None:
    place.compare(line, FOLDER, store.forget)
    assert store.stats or place.is_of_usage


WRITING = {
    "extract mem://place/run/ckpt-10 --kind variable -o mem://place/new/": (
        "new: this output cannot be written to mem://"
    ),
    "rename mem://place/run/ckpt-10 mem://place/run/r-1 --sub net=>n": "r-1: data shards can only be renamed",
    "demo mem://place/new": "new/tf_ckpts: this output cannot be written to mem://",
    "convert run/ckpt-10 https://example.org/c-1": "c-1: https:// can be read, but not written",
    "convert run/ckpt-10 hf://org/repo/c-1": "c-1: hf:// can be read, but not written",
    "extract run/ckpt-10 net/l1/kernel -o http://example.org/k.npy": "k.npy: http:// can be read, but not",
    "graph run/ckpt-10 -o https://example.org/g.dot": "g.dot: https:// can be read, but not written",
}
"""Lines that would write to a place that is read-only, and their errors."""


@pytest.mark.parametrize("line", sorted(WRITING))
def test_what_is_not_written_there_is_rejected(line: str, store: MemoryStore, place: Place) -> None:
    before = store.names
    done, _ = place.run(shlex.split(line))
    assert done.code == 3
    assert WRITING[line] in done.err
    assert store.names == before
