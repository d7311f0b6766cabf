"""Limits on the length of keys, because code that walks tensors holds several copies of each key.

TensorFlow, Keras and numpy write keys of a hundred bytes. A file of a hundred megabytes that consists of keys
would take a gigabyte. So no reader accepts more than 1 KiB for each key, plus 8 MiB for all longer keys
together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["LONGEST_KEY", "KeySizes", "are_keys_too_long"]

LONGEST_KEY = 1 << 20
_USUAL_KEY = 1 << 10
_LONG_KEYS = 8 << 20


def are_keys_too_long(size: int, count: int) -> bool:
    """Whether so many keys of so many bytes together are more than is read of a file."""
    return size > _USUAL_KEY * count + _LONG_KEYS


class KeySizes:
    """The sizes of a file's keys, added up while it is read."""

    def __init__(self) -> None:
        self._size = self._count = 0

    def add(self, keys: Collection[str]) -> None:
        """Take these into account, too; ValueError if one is too long, or all are together."""
        sizes = [*map(len, keys)]
        if sizes and max(sizes) > LONGEST_KEY:
            key = next(key for key in keys if len(key) > LONGEST_KEY)
            raise ValueError(
                f"a key has {len(key)} characters, but at most {LONGEST_KEY} are supported: {key[:40]!r}..."
            )
        self._size += sum(sizes)
        self._count += len(sizes)
        if are_keys_too_long(self._size, self._count):
            raise ValueError(
                f"{self._count} keys have {self._size} characters in total, which is over the limit"
            )
