"""The reasons why a path cannot be opened, in words: permissions, broken links, pipes, directories."""

from __future__ import annotations

import os
import stat

_KINDS = (
    (stat.S_ISDIR, "this is a directory"),
    (stat.S_ISFIFO, "this is a pipe"),
    (stat.S_ISSOCK, "this is a socket"),
    (stat.S_ISCHR, "this is a device"),
    (stat.S_ISBLK, "this is a device"),
)


def obstacle(path: str) -> str | None:
    """Return why `path` cannot be opened as a file; None if it can, and where nothing is there."""
    try:
        mode = os.stat(path).st_mode
    except PermissionError:
        return _closed_directory(path)
    except (OSError, ValueError):  # ValueError: a NUL
        return _broken_link(path)
    kind = next((what for applies, what in _KINDS if applies(mode)), None)
    if kind is not None:
        return kind
    return None if os.access(path, os.R_OK) else "permission denied"


def _parents(path: str) -> list[str]:
    """Return the directories that a path goes through, the outermost first."""
    found = []
    while (parent := os.path.dirname(path)) not in ("", path):
        found.append(parent)
        path = parent
    return found[::-1]


def _closed_directory(path: str) -> str:
    closed = next((parent for parent in _parents(path) if not os.access(parent, os.X_OK)), None)
    return "permission denied" if closed is None else f"permission denied: cannot enter {closed}"


def _broken_link(path: str) -> str | None:
    """Return what leads nowhere: the path itself, or a directory on it."""
    for place in (*_parents(path), path):
        try:
            if os.path.islink(place) and not os.path.exists(place):
                what = "this" if place == path else place
                return f"{what} is a broken symbolic link"
        except ValueError:  # a NUL
            return None
    return None
