"""Hints as the command that failed can follow them."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_ADVICE = re.compile(r"(to [^,:;]*, )?(?:pass|use|add) ")
"""A hint to give the same command other options, rather than to run another one."""


def usable_hints(hints: Sequence[str], words: Sequence[str], group: click.Group) -> tuple[str, ...]:
    """Return the hints that the command line of an error can follow.

    A hint whose command is the one that has just failed is left out; --resume is run again.
    Options that the command does not have are those of `ckpt convert`, or the hint is left out.
    """
    failed = shlex.join(("ckpt", *words))
    ends = (f": {failed}", f"; {failed}")
    return tuple(
        hint
        for hint in _of_own_options(hints, words, group)
        if "--resume" in words or not (hint == failed or hint.endswith(ends))
    )


def _of_own_options(hints: Sequence[str], words: Sequence[str], group: click.Group) -> Iterator[str]:
    own = _options(group, next(iter(words), ""))
    for hint in hints:
        advice = _ADVICE.match(hint)
        advised = set(_OPTION.findall(hint)) if own and advice else set()
        if advised <= own:
            yield hint
        elif advised <= _options(group, "convert"):
            first, *rest = hint.split(";", 1)
            advice_line = ";".join((f"{first} to ckpt convert", *rest))
            yield advice_line if advice and advice[1] else f"with ckpt convert, {hint}"


def _options(group: click.Group, name: str) -> set[str]:
    """Return the options of a command, none if it is not one."""
    command = group.get_command(click.Context(group), name)
    return {option for param in command.params for option in param.opts} if command is not None else set()
