"""A reader while a writer replaces: it sees the old checkpoint or the new one, or says what happened."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from formats.errors import CheckpointError
from formats.find.directory import Directory
from formats.find.opening import open_location
from formats.location import parse_location
from tests.counts import count
from tests.writing import save

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REPLACEMENTS = 120
"""Bundles of one, two or three shards that take each other's place."""


def content(number: int) -> dict[str, np.ndarray]:
    """Return tensors that tell by every value which save they are of."""
    return {key: np.full(50, number, np.int64) for key in ("a", "b", "c")}


@pytest.fixture
def replaced(tmp_path: Path) -> Iterator[Path]:
    """A directory in which another process replaces a checkpoint again and again."""
    path = tmp_path / "ckpt-1"
    save(path, content(0))
    child = os.fork()
    if child == 0:
        for number in range(1, REPLACEMENTS + 1):
            save(path, content(number), overwrite=True, shard_size=(None, 500, 1000)[number % 3])
        os._exit(0)
    yield tmp_path
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_a_reader_sees_one_save_or_says_what_happened(replaced: Path) -> None:
    seen: set[int] = set()
    looks, complaints = 0, []
    done = False
    while not done:
        looks += 1
        try:
            (member,) = Directory(parse_location(str(replaced))).members
            assert member.error is None
            with open_location(member.location) as reader:
                values = {int(value) for key in reader for value in reader[key].read()}
                found = [finding for step in reader.verify() for finding in step.findings]
                assert reader.has_changed() or not any(f.severity == "error" for f in found)
            assert len(values) == 1, "tensors of two saves"
            (number,) = values
            assert not seen or number >= max(seen), "an older save came back"
            seen.add(number)
            done = number == REPLACEMENTS
        except CheckpointError as error:
            # The shards of the index that was just read have been replaced by another save's.
            complaints.append(error.hints[:1])
    count("looks at a checkpoint while it was replaced", looks)
    assert len(seen) > 3
    assert len(complaints) < looks
    assert all("run this again when no program is writing to" in hint for (hint,) in complaints)
