"""What removing files frees: of one with several names nothing, until the last of them goes."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Freed:
    """Counts what is freed by files that go one after the other."""

    def __init__(self) -> None:
        self._names: Counter[tuple[int, int]] = Counter()

    def by(self, paths: Iterable[str]) -> int:
        """Return the bytes that removing some more files frees."""
        freed = 0
        for path in paths:
            with contextlib.suppress(FileNotFoundError):  # It has gone meanwhile, by itself.
                status = os.lstat(path)
                file = status.st_dev, status.st_ino
                self._names[file] += 1
                if self._names[file] == status.st_nlink:
                    freed += status.st_size
        return freed
