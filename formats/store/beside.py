"""The files of a directory by the prefix they share, from one listing for all who ask.

    bundle       prefix.data-00000-of-00002
    V1           prefix-00000-of-00002
    safetensors  prefix-00001-of-00002.safetensors

A checkpoint's shards are told by the names beside it, and a run can hold ten thousand
checkpoints: would each list the directory, that were a hundred million names.  So what a
listing found is kept, until the directory's time says that a name came or went.
"""

from __future__ import annotations

import os
import re
import time
from typing import NamedTuple

SHARD = re.compile(r"(?P<prefix>.+)\.data-(?P<shard>\d{5,})-of-(?P<count>\d{5,})", re.DOTALL)
V1_SHARD = re.compile(r"(?P<prefix>.+)-(?P<shard>\d{5,}|\?{5})-of-(?P<count>\d{5,}|\?{5})", re.DOTALL)
SAFETENSORS_SHARD = re.compile(
    r"(?P<prefix>.+)-(?P<shard>\d{5,})-of-(?P<count>\d{5,})\.safetensors", re.DOTALL
)
"""A shard of Hugging Face's, where PREFIX.safetensors.index.json lies beside it."""

_PATTERNS = (SHARD, V1_SHARD, SAFETENSORS_SHARD)

_MOST_KEPT = 16
"""Directories whose names are kept: a run's, and those that its state file speaks of."""

_FINE, _COARSE = 10_000_000, 2_000_000_000
"""Nanoseconds in which a directory can change twice under one time: a tick of the kernel's clock, or,
where a file system stores whole seconds, two of them, as FAT does."""

Stamp = tuple[int, int, int]


class _Names(NamedTuple):
    """What one listing found, by pattern and prefix; `stamp` is None where the directory is too young."""

    stamp: Stamp | None
    by_prefix: dict[re.Pattern[str], dict[str, list[str]]]


_kept: dict[str, _Names] = {}


def files_beside(prefix: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the files whose names match one of the patterns above with this very prefix, sorted.

    Raises OSError where the directory cannot be listed.
    """
    directory, base = os.path.split(prefix)
    names = _names_in(directory or ".").by_prefix[pattern].get(base, ())
    return [os.path.join(directory, name) for name in names]


def _names_in(directory: str) -> _Names:
    status = os.stat(directory)
    stamp = (status.st_dev, status.st_ino, status.st_mtime_ns)
    known = _kept.get(directory)
    if known is not None and known.stamp == stamp:
        return known
    now = time.time_ns()
    found = _grouped(os.listdir(directory))
    doubtful = _COARSE if status.st_mtime_ns % 1_000_000_000 == 0 else _FINE
    names = _Names(stamp if status.st_mtime_ns < now - doubtful else None, found)
    if len(_kept) >= _MOST_KEPT:
        _kept.clear()
    _kept[directory] = names
    return names


def _grouped(names: list[str]) -> dict[re.Pattern[str], dict[str, list[str]]]:
    found: dict[re.Pattern[str], dict[str, list[str]]] = {pattern: {} for pattern in _PATTERNS}
    for name in sorted(names):
        for pattern, by_prefix in found.items():
            match = pattern.fullmatch(name)
            if match is not None:
                by_prefix.setdefault(match["prefix"], []).append(name)
    return found
