"""A write that is killed, or fails, at each of its steps: the target is old or new, and nothing is left.

The target may be a bundle, a folder of shards, or a checkpoint whose keys change in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from formats import CheckpointError
from tests.faults.steps import Killed, die, full, steps
from tests.writing import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Exchange(Protocol):
    """A target, what is there before, and how it is written."""

    @property
    def before(self) -> str:
        """Return what `found` says before the first step."""

    def prepare(self, directory: Path) -> str:
        """Create the existing files, and return the path of the target."""

    def write(self, path: str) -> None: ...

    def found(self, path: str) -> str:
        """Say which checkpoint is at a path, "none", "old" or "new"; fail where it is not complete."""


def numbered(tmp_path: Path) -> Iterator[Path]:
    """Yield one fresh directory after the other."""
    for number in range(10_000):
        (directory := tmp_path / f"step-{number}").mkdir()
        yield directory


def count_steps(exchange: Exchange, directory: Path) -> int:
    """Return how many steps it takes to write, in this directory, what is then there."""
    path = exchange.prepare(directory)
    with steps(0, die) as made:
        exchange.write(path)
    assert exchange.found(path) == "new"
    return len(made)


def kills(exchange: Exchange, tmp_path: Path) -> Iterator[tuple[Path, str, str]]:
    """Kill a write at each step; yield the directory, the path in it, and what was found there.

    From one step on it is the new one, and never the old one again.
    """
    directories = numbered(tmp_path)
    seen = []
    for at in range(1, count_steps(exchange, next(directories)) + 1):
        directory = next(directories)
        path = exchange.prepare(directory)
        with steps(at, die, forever=True), pytest.raises(Killed):
            exchange.write(path)
        seen.append(exchange.found(path))
        yield directory, path, seen[-1]
    assert seen[0] == exchange.before
    assert seen == sorted(seen, key=[exchange.before, "new"].index)


def failures(exchange: Exchange, act: Callable[[Callable[[], Any]], Any], tmp_path: Path) -> Iterator[Path]:
    """Let each step of a write fail; yield the directories in which the new one is there all the same.

    In all others nothing is left behind.  A hard link that cannot be made is done without.
    """
    directories = numbered(tmp_path)
    expected = CheckpointError if act is full else KeyboardInterrupt
    committed = False
    for at in range(1, count_steps(exchange, next(directories)) + 1):
        directory = next(directories)
        path = exchange.prepare(directory)
        before = files(directory)
        with steps(at, act) as made:
            try:
                exchange.write(path)
            except expected:
                failed = True
            else:
                failed = False
        # A file that cannot be removed once everything is in place is a warning.
        assert failed or made[at - 1] in ("link", "unlink", "rmdir")
        if files(directory) == before:
            assert not committed
            continue
        assert exchange.found(path) == "new"
        committed = committed or made[at - 1] != "link"
        yield directory
