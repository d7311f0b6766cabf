"""The files of a directory by the prefix they share, told by their names alone.

    bundle       prefix.data-00000-of-00002
    V1           prefix-00000-of-00002
    safetensors  prefix-00001-of-00002.safetensors

A checkpoint's shards are told by the names beside it.  A listing is gone through once for all
who ask (`formats.store.paths.list_folder`), however many checkpoints lie in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from .base import UnlistedError
from .paths import is_file, join, list_folder, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .base import Listed


SHARD = re.compile(r"(?P<prefix>.+)\.data-(?P<shard>\d{5,})-of-(?P<count>\d{5,})", re.DOTALL)
V1_SHARD = re.compile(r"(?P<prefix>.+)-(?P<shard>\d{5,}|\?{5})-of-(?P<count>\d{5,}|\?{5})", re.DOTALL)
SAFETENSORS_SHARD = re.compile(
    r"(?P<prefix>.+)-(?P<shard>\d{5,})-of-(?P<count>\d{5,})\.safetensors", re.DOTALL
)
"""A shard of Hugging Face's, where PREFIX.safetensors.index.json lies beside it."""

_PATTERNS = (SHARD, V1_SHARD, SAFETENSORS_SHARD)

_SPELLED = {
    SHARD: ".data-{shard:05d}-of-{count:05d}",
    V1_SHARD: "-{shard:05d}-of-{count:05d}",
    SAFETENSORS_SHARD: "-{shard:05d}-of-{count:05d}.safetensors",
}
_MOST_ASKED_FOR = 8
"""Shards that are asked for by their names, where those that are there are not told."""

_MOST_KEPT = 16
"""Listings that are kept as they were taken apart, as many as `list_folder` keeps."""


class _Taken(NamedTuple):
    """A listing, and what it holds by pattern and prefix."""

    listed: Sequence[Listed]
    by_prefix: dict[re.Pattern[str], dict[str, list[str]]]


_taken: dict[str, _Taken] = {}


def files_beside(prefix: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the files whose names match one of the patterns above with this very prefix, sorted.

    Where a store lists no directories they are asked for one by one, unless there are very many.
    Raises CheckpointNotFoundError, InaccessibleError where the directory cannot be listed.
    """
    folder, base = split(prefix)
    try:
        names = _names_in(folder).by_prefix[pattern].get(base, ())
    except UnlistedError:
        return _asked_for(prefix, _SPELLED[pattern])
    return [join(folder, name) for name in names]


def _asked_for(prefix: str, spelled: str) -> list[str]:
    for count in range(1, _MOST_ASKED_FOR + 1):
        paths = [prefix + spelled.format(shard=shard, count=count) for shard in range(count)]
        if is_file(paths[0]):
            return [path for path in paths if is_file(path)]
    return []


def _names_in(folder: str) -> _Taken:
    listed = list_folder(folder)
    known = _taken.get(folder)
    if known is not None and known.listed is listed:
        return known
    if len(_taken) >= _MOST_KEPT:
        _taken.clear()
    taken = _taken[folder] = _Taken(listed, _grouped(name for name, _ in listed))
    return taken


def _grouped(names: Iterable[str]) -> dict[re.Pattern[str], dict[str, list[str]]]:
    found: dict[re.Pattern[str], dict[str, list[str]]] = {pattern: {} for pattern in _PATTERNS}
    for name in names:
        if "-of-" not in name:  # as all patterns have it, and few names of a large directory
            continue
        for pattern, by_prefix in found.items():
            match = pattern.fullmatch(name)
            if match is not None:
                by_prefix.setdefault(match["prefix"], []).append(name)
    return found
