"""What the writing commands and functions do around a plan: carry it out, and tell of what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.core.words import counted

from ..render.text import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..operations.convert.plan import Dropped
    from ..operations.reporting import Reporter

__all__ = ["report_dropped"]

_MOST_LISTED = 20
_MOST_NAMED = 2


def report_dropped(dropped: Sequence[Dropped], reporter: Reporter) -> None:
    """Note what was left out, a line a reason."""
    keys: dict[str, list[str]] = {}
    for one in dropped:
        keys.setdefault(one.reason, []).append(one.key)
    for reason, found in list(keys.items())[:_MOST_LISTED]:
        reporter.note(f"left out {_named(found)}: {reason}")
    more = sum(map(len, list(keys.values())[_MOST_LISTED:]))
    if more:
        reporter.note(f"left out {more:,} more; --json lists them")


def _named(keys: Sequence[str]) -> str:
    """Return the name of one, of two, or the count of more with one of them."""
    if len(keys) > _MOST_NAMED:
        return f"{counted(len(keys), 'tensor')}, {escape(keys[0])} for one"
    return " and ".join(map(escape, keys))
