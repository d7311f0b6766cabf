"""How much memory this process may still take, on Linux.

Three limits apply: the free memory of the system, the limit of the control group (of a container, or of a
scheduler's job), and the address space that `ulimit -v` allows this process.  Pages of files count as
available: the system drops them when it needs the memory.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Groups(NamedTuple):
    """The folders of a version of control groups, and how it calls the files and lines in them."""

    top: str
    limit: str
    used: str
    cached: tuple[str, ...]


_FIRST = _Groups(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)
_SECOND = _Groups("sys/fs/cgroup", "memory.max", "memory.current", ("inactive_file", "active_file"))


def available_memory(root: str = "/") -> int | None:
    """Return the bytes that this process may still take; None if the system does not say so.

    `root` is the folder that /proc and /sys are in.
    """
    found = [_of_system(root), *_of_groups(root), _of_address_space(root)]
    return min((size for size in found if size is not None), default=None)


def _of_system(root: str) -> int | None:
    for line in _lines(root, "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return _number(line.split()[1]) * 1024
    return None


def _of_address_space(root: str) -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    pages = next(_lines(root, "proc/self/statm"), "0").split()[0]
    return max(0, limit - _number(pages) * resource.getpagesize())


def _of_groups(root: str) -> Iterator[int]:
    """Yield what this process's control groups, and those that they are in, have left."""
    for line in _lines(root, "proc/self/cgroup"):
        _, kinds, path = line.rstrip("\n").split(":", 2)
        if not kinds:
            yield from _left(root, _SECOND, path)
        elif "memory" in kinds.split(","):
            yield from _left(root, _FIRST, path)


def _left(root: str, groups: _Groups, path: str) -> Iterator[int]:
    """Yield what is left in a group and in those above it.

    Inside a container the group's own folder may be the top one, although it has another path outside.
    """
    while True:
        folder = f"{groups.top}/{path.strip('/')}"
        limit = next(_lines(root, f"{folder}/{groups.limit}"), "max").strip()
        if limit != "max":
            stat = (line.split() for line in _lines(root, f"{folder}/memory.stat"))
            pages = sum(_number(words[1]) for words in stat if len(words) == 2 and words[0] in groups.cached)
            used = _number(next(_lines(root, f"{folder}/{groups.used}"), "0"))
            yield max(0, _number(limit) - max(0, used - pages))
        if not path.strip("/"):
            return
        path = os.path.dirname(path.rstrip("/"))


def _lines(root: str, name: str) -> Iterator[str]:
    """Yield the lines of a file; none if it cannot be read."""
    try:
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError:
        return


def _number(text: str) -> int:
    text = text.strip()
    return int(text) if text.isdecimal() else 0
