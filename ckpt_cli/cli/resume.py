"""`--resume` on the command line: the options that count, and the command that resumes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from formats.core.words import command_line
from formats.errors import CheckpointError
from formats.location import parse_location
from formats.store.urls import public, scheme_of

from ..api.conversion import WITHOUT_EFFECT
from ..operations.convert.resume import Resume
from .option_rules import values_given
from .signals import EndedBySignal

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

_WHOLE_URL = "replace *** with the hidden part of the URL, which may be secret"


def parse_resume(context: click.Context) -> Resume:
    """Return what a command line with --resume requests."""
    given = values_given(context)
    options = {name: _option_text(value) for name, value in given.items() if name not in WITHOUT_EFFECT}
    return Resume(options)


def _option_text(value: Any) -> str:
    return " ".join(map(str, value)) if type(value) is tuple else str(value)


@contextmanager
def resume_hint(context: click.Context, resume: Resume | None) -> Iterator[None]:
    """Print the command that resumes as the last line of an interrupted or failed conversion."""
    try:
        yield
    except (KeyboardInterrupt, EndedBySignal) as error:
        if resume is not None:
            for line in _same_command(context):
                error.add_note(line)
        raise
    except CheckpointError as error:
        if resume is not None and resume.has_kept:
            *about, command = _same_command(context)
            error.hints = (*error.hints, *about, f"to resume: {command}")
        raise
    else:
        if resume is not None:
            resume.forget()


def _same_command(context: click.Context) -> list[str]:
    """Return the command line as it was given; a line before it says how to restore secrets of URLs."""
    words = [_public(word) for word in context.find_root().obj or ()]
    about = [_WHOLE_URL] if any("://***" in word for word in words) else []
    return [*about, command_line(*words)]


def _public(word: str) -> str:
    """Return a word without what may be secret in it: `***` stands for that."""
    name, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    if not scheme_of(value):
        return word
    try:
        return name + equals + parse_location(value)
    except CheckpointError:  # the target is rejected
        return name + equals + public(value)
