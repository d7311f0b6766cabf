"""How the parts of a tree's path make a key: joined by `/`, with `/` and `%` within a part escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Path = tuple[str, ...]
"""The parts of the path to a leaf."""


def key_of(parts: Iterable[str]) -> str:
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


def parts_of(key: str) -> list[str]:
    return [part.replace("%2F", "/").replace("%25", "%") for part in key.split("/")]


def stored_name(parts: Sequence[str]) -> str:
    """Return by which name Orbax stores an array: the parts joined by dots."""
    return ".".join(parts)
