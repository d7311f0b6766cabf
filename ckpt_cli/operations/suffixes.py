"""What the end of a target's name says: the format that people will take the file for.

Content decides what a file is; its suffix decides only what is written, and must not lie.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from formats.errors import ConversionError
from formats.registry import all_formats

if TYPE_CHECKING:
    from formats.model import Format

__all__ = ["format_of_suffix", "refuse_other_suffix"]


def format_of_suffix(path: str) -> Format | None:
    """Return the format that a path's suffix says; None where it says none, as a prefix does."""
    matches = [
        (len(suffix), found) for found in all_formats() for suffix in found.suffixes if path.endswith(suffix)
    ]
    return max(matches, key=lambda match: match[0])[1] if matches and not path.endswith(".index") else None


def refuse_other_suffix(own: Format, target: str, doing: str) -> None:
    """Refuse a target whose suffix says another format than it will have, which would deceive people."""
    if "." not in os.path.basename(target) or target.endswith(own.suffixes):
        return
    other = format_of_suffix(target)
    if other is not None:
        message = f"ends like {other.name}, and {doing} keeps the format, {own.name}"
        raise ConversionError(message, path=target, hints=("to another format: ckpt convert",))
