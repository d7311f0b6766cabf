"""`ckpt` alone, in a directory with checkpoints: list them, and suggest three commands."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from formats.core.words import command_line
from formats.errors import CheckpointError
from formats.find.directory import Directory
from formats.find.opening import is_directory
from formats.model.checkpoint_files import step_of

if TYPE_CHECKING:
    from formats.location import Location

__all__ = ["next_steps"]


def next_steps(path: Location) -> list[str]:
    """Return three suggestions for a directory, or [] if it has no checkpoint."""
    members = []
    with suppress(CheckpointError, OSError):
        if is_directory(path):
            members = [member for member in Directory(path).members if member.error is None]
    if not members:
        return []
    last = members[-1].name
    *_, before = [member.name for member in members[:-1] if step_of(member.name) is not None] or [""]
    pair = ("to see what training changed", ("diff", before, last))
    alone = ("to see statistics of its tensors", ("stats", last))
    steps = (
        ("to list its tensors", ("ls", last)),
        pair if before and step_of(last) is not None else alone,
        ("to check every byte", ("verify", path)),
    )
    return [f"{why}: {command_line(*words)}" for why, words in steps]
