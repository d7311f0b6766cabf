"""Words that messages are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: 1 tensor, 2,000 tensors."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def command_line(*words: str) -> str:
    """Return a command of ours as it can be pasted, whatever stands in its paths: `ckpt ls 'my runs'`."""
    import shlex  # needed where something went wrong

    return shlex.join(("ckpt", *words))


def first_of(names: Sequence[str], most: int = 3) -> str:
    """Return names as text, the first ones where they are many: a, b, c and 5 more."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
