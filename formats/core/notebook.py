"""HTML for notebooks; all text from files is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MOST_ROWS = 30
"""Rows of a table that a notebook shows."""

_LONGEST = 100
"""Characters of a word in a table."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]], total: int) -> str:
    """Return a table of the first rows, and how many there are."""
    shown = "".join(f"<tr>{_cells('td', row)}</tr>" for row, _ in zip(rows, range(MOST_ROWS), strict=False))
    left = f"<p>{total - MOST_ROWS:,} more</p>" if total > MOST_ROWS else ""
    return f"<table><thead><tr>{_cells('th', head)}</tr></thead><tbody>{shown}</tbody></table>{left}"


def _cells(tag: str, cells: Sequence[object]) -> str:
    return "".join(_cell(tag, _printable(str(cell))) for cell in cells)


def _cell(tag: str, text: str) -> str:
    """Return a cell. A long word, which no browser wraps, is cut in the middle; the title has all of it."""
    if max(map(len, text.split()), default=0) <= _LONGEST:
        return f"<{tag}>{escape(text)}</{tag}>"
    half = _LONGEST // 2
    return f'<{tag} title="{escape(text)}">{escape(text[:half])}…{escape(text[-half:])}</{tag}>'


def _printable(text: str) -> str:
    """Escape characters that HTML cannot hold, or that are invisible, as Python does."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
