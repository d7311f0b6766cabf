"""Words that messages are made of."""

from __future__ import annotations

import re
from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: 1 tensor, 2,000 tensors."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


_COUNTED = re.compile(r"([^0-9]*)([0-9]{0,18})")


def natural_order(name: str) -> list[tuple[str, int]]:
    """Return a sort key that orders numbers in names as numbers: `layer_2` before `layer_10`."""
    return [(text, int(number or 0)) for text, number in _COUNTED.findall(name)]


def spelled_bytes(data: bytes) -> str:
    """Return a few bytes as text in quotes, or as hexadecimal numbers if one of them is not printable."""
    text = data.decode("latin-1")
    return repr(text) if text.isascii() and text.isprintable() else f"the bytes {data.hex(' ')}"


def command_line(*words: str) -> str:
    """Return a command of ckpt that can be pasted, for any characters in its paths: `ckpt ls 'my runs'`."""
    import shlex  # needed where something went wrong

    return shlex.join(("ckpt", *words))


def first_of(names: Sequence[str], most: int = 3) -> str:
    """Return names as text, the first ones where they are many: a, b, c and 5 more."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def short_names(paths: Sequence[str]) -> list[str]:
    """Return paths without the folders that all of them begin with."""
    parts = [path.split("/") for path in paths]
    common = 0
    while all(len(one) > common + 1 for one in parts) and len({one[common] for one in parts}) == 1:
        common += 1
    return ["/".join(one[common:]) for one in parts]


class FirstNames:
    """The first of many names in order, and how many there are: as text, as `first_of` has it."""

    def __init__(self, names: Iterable[str] = (), most: int = 3) -> None:
        self._most = most
        self._first: list[str] = []
        self.count = 0
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self._first) < self._most or name < self._first[-1]:
            insort(self._first, name)
            del self._first[self._most :]

    def add_all(self, other: FirstNames) -> None:
        self._first = sorted((*self._first, *other._first))[: self._most]
        self.count += other.count

    def __str__(self) -> str:
        rest = self.count - len(self._first)
        return ", ".join(self._first) + (f" and {rest:,} more" if rest else "")


_AGES = ((86400, "day"), (3600, "hour"), (60, "minute"))


def age_in_words(seconds: float) -> str:
    """Return an age in words, in the largest unit that makes it two or more."""
    for size, unit in _AGES:
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}s"
    whole = max(0, int(seconds))
    return f"{whole} second{'' if whole == 1 else 's'}"
