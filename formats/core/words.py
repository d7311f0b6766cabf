"""Words that messages are made of."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: 1 tensor, 2,000 tensors."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def command_line(*words: str) -> str:
    """Return a command of ours as it can be pasted, whatever stands in its paths: `ckpt ls 'my runs'`."""
    import shlex  # needed where something went wrong

    return shlex.join(("ckpt", *words))
