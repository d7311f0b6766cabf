"""Text for people: sizes."""

from __future__ import annotations


def human_size(nbytes: int | None) -> str:
    """Return bytes as people write them: 1.3 GB, powers of a thousand."""
    if nbytes is None:
        return "?"
    size = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 99.5 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
