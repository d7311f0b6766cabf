"""Notes that several commands share: about an opened checkpoint, and about a directory without any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..operations import reporting
from ..operations.reporting import kept
from . import base as render

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from formats.errors import CheckpointError
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader

__all__ = ["SCREEN", "Screen", "kept", "opened", "print_empty", "print_errors"]


class Screen:
    """Prints what operations report."""

    note = staticmethod(render.note)
    warning = staticmethod(render.warning)

    @staticmethod
    def remark(text: str) -> None:
        if render.is_verbose():
            render.remark(text)

    @staticmethod
    def progress(
        total: int, label: str, stages: Sequence[str] = ("reading",)
    ) -> AbstractContextManager[Callable[[int], None]]:
        from .progress import progress

        return progress(total, label, stages)


SCREEN = Screen()


def opened(
    path: Location | CheckpointLocation, *, noted: bool = True, listed: bool = False, loaded: bool = True
) -> AbstractContextManager[FormatReader]:
    """Open a checkpoint for a command, as `reporting.opened` does, and print what there is to say of it."""
    return reporting.opened(path, SCREEN, noted=noted, listed=listed, loaded=loaded)


def print_errors(errors: Sequence[CheckpointError]) -> None:
    """Say what went wrong with some of many; the last of it is raised, for its exit code."""
    for error in errors[:-1]:
        render.error_lines(str(error), error.hints)
    if errors:
        raise errors[-1]


def print_empty(path: Location) -> int:
    """Say why there is nothing; an error in itself where the directory is another program's checkpoint."""
    from formats.errors import CheckpointError, UnknownFormatError
    from formats.find.directory import Directory

    try:
        Directory(path).require_latest()
    except UnknownFormatError:
        raise
    except CheckpointError as error:
        render.error_lines(str(error), error.hints)
    return 1
