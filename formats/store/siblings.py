"""The files of a directory that share a prefix, identified by their names alone.

    bundle       prefix.data-00000-of-00002
    V1           prefix-00000-of-00002
    Hugging Face prefix-00001-of-00002.safetensors, .bin, .msgpack, .h5
    GGUF         prefix-00001-of-00002.gguf

Names identify the shards of a checkpoint. All callers share one listing (`Location.listing`), however many
checkpoints it has. A store in which single names are cheaper than a listing looks up the names of each shard.
The count of shards comes from a file's content or name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..location import Location
from .base import UnlistedError
from .work.cancellation import run_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .base import Listed


SHARD = re.compile(r"(?P<prefix>.+)\.data-(?P<shard>\d{5,})-of-(?P<count>\d{5,})", re.DOTALL)
V1_SHARD = re.compile(r"(?P<prefix>.+)-(?P<shard>\d{5,}|\?{5})-of-(?P<count>\d{5,}|\?{5})", re.DOTALL)
SAFETENSORS_SHARD = re.compile(
    r"(?P<prefix>.+)-(?P<shard>\d{5,})-of-(?P<count>\d{5,})(?P<suffix>\.safetensors)", re.DOTALL
)
TORCH_SHARD = re.compile(r"(?P<prefix>.+)-(?P<shard>\d{5,})-of-(?P<count>\d{5,})(?P<suffix>\.bin)", re.DOTALL)
FLAX_SHARD = re.compile(
    r"(?P<prefix>.+)-(?P<shard>\d{5,})-of-(?P<count>\d{5,})(?P<suffix>\.msgpack)", re.DOTALL
)
H5_SHARD = re.compile(r"(?P<prefix>.+)-(?P<shard>\d{5,})-of-(?P<count>\d{5,})(?P<suffix>\.h5)", re.DOTALL)
"""Hugging Face's shards, which are next to PREFIX.safetensors.index.json (or .bin, .msgpack, .h5)."""

GGUF_PART = re.compile(r"(?P<prefix>.+)-(?P<shard>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.DOTALL)
"""A part of a split GGUF model: its metadata, and not an index, say that it is one."""

_HUB_PATTERNS = (SAFETENSORS_SHARD, TORCH_SHARD, FLAX_SHARD, H5_SHARD)
_PATTERNS = (SHARD, V1_SHARD, *_HUB_PATTERNS)

LONGEST_STEM = 48
"""Characters of the target's name in a staging directory's: a name has at most 255 bytes."""

_SPELLED = {
    SHARD: (".data-{shard:05d}-of-{count:05d}", 0),
    V1_SHARD: ("-{shard:05d}-of-{count:05d}", 0),
    SAFETENSORS_SHARD: ("-{shard:05d}-of-{count:05d}.safetensors", 1),
    TORCH_SHARD: ("-{shard:05d}-of-{count:05d}.bin", 1),
    FLAX_SHARD: ("-{shard:05d}-of-{count:05d}.msgpack", 1),
    H5_SHARD: ("-{shard:05d}-of-{count:05d}.h5", 1),
}
"""How names are written, and the number of the first shard."""

_MOST_GUESSED = 8
"""Counts of shards that are tried where nothing says how many there are."""

_MOST_PROBES = 10_000
"""The most shards that are looked up by name: the count may come from a damaged file."""

_PROBES_AT_ONCE = 8

_MOST_KEPT = 16
"""The number of parsed listings that are kept, the same as `list_folder` keeps."""


def hub_shard(path: str) -> re.Match[str] | None:
    """Return what the name of a shard of Hugging Face's says; None if it is no such name."""
    return next(filter(None, (pattern.fullmatch(path) for pattern in _HUB_PATTERNS)), None)


def gguf_parts(path: Location) -> list[Location]:
    """Return the parts of the split GGUF model that a name belongs to, there or not; of others that path."""
    match = GGUF_PART.fullmatch(path)
    if match is None or not 0 < int(match["count"]) <= _MOST_PROBES:
        return [path]
    count = int(match["count"])
    spelled = (f"{match['prefix']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1))
    return [path.of(name) for name in spelled]


def is_shard_of(path: str, target: str) -> bool:
    """Return whether a file has the name of one of this checkpoint's shards, with any number and count.

    `target` is the prefix of a bundle, or the index of a sharded folder of Hugging Face's.
    """
    bundle, hub = SHARD.fullmatch(path), hub_shard(path)
    if bundle is not None:
        return bundle["prefix"] == target
    return hub is not None and hub["prefix"] + hub["suffix"] + ".index.json" == target


def count_in(path: str) -> int | None:
    """Return the count of shards that a shard's name says; None if it is none's."""
    shard = SHARD.fullmatch(path) or hub_shard(path)
    return int(shard["count"]) if shard is not None else None


def staging_pattern(name: str) -> tuple[str, re.Pattern[str]]:
    """Return with what the names of a target's staging directories begin, and how they are spelled."""
    stem = name[:LONGEST_STEM]
    return stem, re.compile(re.escape(stem) + r"_temp_[0-9a-f]{32}")


class _Taken(NamedTuple):
    """A listing, and what it holds by pattern and prefix."""

    listed: Sequence[Listed]
    by_prefix: dict[re.Pattern[str], dict[str, list[str]]]


_taken: dict[str, _Taken] = {}


def matching_files(
    prefix: Location, pattern: re.Pattern[str], count: Callable[[], int | None] = lambda: None
) -> list[Location]:
    """Return the files whose names match one of the patterns above with this very prefix, sorted.

    A store in which single names are cheaper looks up as many shards as `count` returns, or a few if it
    returns None. Raises CheckpointNotFoundError or InaccessibleError if the directory cannot be listed.
    """
    folder, base = prefix.split_name()
    if not prefix.store.lists_first:
        return _probed(prefix, pattern, count())
    try:
        names = _names_in(folder).by_prefix[pattern].get(base, ())
    except UnlistedError:
        return _probed(prefix, pattern, count())
    return [folder / name for name in names]


def _probed(prefix: Location, pattern: re.Pattern[str], count: int | None) -> list[Location]:
    if count is not None:
        paths = _shards(prefix, pattern, count) if count <= _MOST_PROBES else []
        there = run_each(Location.is_file, paths, _PROBES_AT_ONCE)
        return [path for path, is_there in zip(paths, there, strict=True) if is_there]
    counts = range(1, _MOST_GUESSED + 1)
    found = (guess for guess in counts if _shards(prefix, pattern, guess)[0].is_file())
    guess = next(found, None)
    return [] if guess is None else _probed(prefix, pattern, guess)


def _shards(prefix: Location, pattern: re.Pattern[str], count: int) -> list[Location]:
    """Return how all shards of a set are called."""
    spelled, first = _SPELLED[pattern]
    return [prefix + spelled.format(shard=shard, count=count) for shard in range(first, first + count)]


def _names_in(folder: Location) -> _Taken:
    listed = folder.listing()
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
