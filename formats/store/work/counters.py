"""Bytes read from and sent to each file, counted on request (`ckpt -v`)."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Tally:
    """The bytes read or sent of a file, by all threads and however often it was opened."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.reads = 0
        self.sent = 0
        self._lock = Lock()

    def add(self, nbytes: int, reads: int = 1, sent: int = 0) -> None:
        with self._lock:
            self.nbytes += nbytes
            self.reads += reads
            self.sent += sent

    def drain(self) -> tuple[int, int]:
        """Return bytes and reads, and begin at none."""
        with self._lock:
            found = self.nbytes, self.reads
            self.nbytes = self.reads = 0
        return found


_tallies: dict[str, Tally] | None = None


def count_reads() -> dict[str, Tally]:
    """Count from now on what is read; return the tallies by path, which grow as files are opened."""
    global _tallies  # noqa: PLW0603  files are opened everywhere, and no caller could pass this on
    _tallies = {}
    return _tallies


def is_counting() -> bool:
    """Whether reads are counted."""
    return _tallies is not None


def reads_of_child() -> dict[str, tuple[int, int]]:
    """Return what a forked process has counted by path, bytes and reads, and have it begin at none."""
    counted = {path: tally.drain() for path, tally in (_tallies or {}).items()}
    return {path: found for path, found in counted.items() if any(found)}


def reads_of_task(paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return what was read of some files for another process, and begin at none."""
    found = ((path, (_tallies or {}).get(path)) for path in paths)
    return {path: tally.drain() for path, tally in found if tally is not None}


def add_reads(counted: Mapping[str, tuple[int, int]]) -> None:
    """Add what another process has counted."""
    for path, (nbytes, reads) in counted.items():
        tally = tally_of(path)
        if tally is not None:
            tally.add(nbytes, reads)


def tally_of(path: str) -> Tally | None:
    """Return the counter of a file's reads, or None if reads are not counted."""
    return None if _tallies is None else _tallies.setdefault(path, Tally())
