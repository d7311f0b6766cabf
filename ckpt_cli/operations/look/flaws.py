"""Errors of a checkpoint's tensors: the first ones, and their number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from formats.errors import CheckpointError

__all__ = ["Flaws"]

_MOST_KEPT = 20


class Flaws:
    """The first errors, and the number of all.

    Every tensor of a damaged shard raises the same error, and its traceback takes kilobytes.
    """

    def __init__(self) -> None:
        self.first: list[CheckpointError] = []
        self.count = 0

    def add(self, error: CheckpointError) -> None:
        self.count += 1
        if len(self.first) < _MOST_KEPT:
            self.first.append(error)
