"""What several commands tell: of a checkpoint they open, of a directory that holds none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from formats.core.words import counted
from formats.find.opening import locate, open_location
from formats.location import Location

from . import base as render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.errors import CheckpointError
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import CheckpointReader


_MOST_LISTED = 20


@contextmanager
def opened(
    path: Location | CheckpointLocation, *, noted: bool = True, listed: bool = False, loaded: bool = True
) -> Iterator[CheckpointReader]:
    """Open a checkpoint for a command: say which one was chosen, and in the end what is wrong with it.

    That it has the keys that it lists is proved, but where it is merely to be `listed`.  Not
    `loaded`, it may read its index only as it is listed.

    Some damage hides a tensor or two and keeps nobody from going on with the others.  Whatever
    a command then says of the checkpoint is said of what is left of it, so the person is told.
    """
    location = locate(path) if isinstance(path, Location) else path
    with open_location(location, loaded=loaded) as reader:
        if noted and reader.location.note:
            render.note(reader.location.note)
        said = ""
        try:
            if not listed:
                reader.prove_specs(())
            yield reader
        except Exception as error:
            said = str(error)
            raise
        finally:
            say_findings(reader, said)


def say_findings(reader: CheckpointReader, said: str = "") -> None:
    """Warn of what reading a checkpoint came across; what an error has `said` is not said twice."""
    found = [finding for finding in reader.findings if finding.message not in said]
    for finding in found[:_MOST_LISTED]:
        render.warning(finding.text)
    more = len(found) - _MOST_LISTED
    if more > 0:
        render.warning(f"{reader.location.path}: {counted(more, 'more finding')}; ckpt verify has them all")


@contextmanager
def kept(errors: list[CheckpointError]) -> Iterator[None]:
    """Keep what goes wrong with one of many for `say_all`, and go on with the next."""
    from formats.errors import CheckpointError

    try:
        yield
    except CheckpointError as error:
        errors.append(error)


def say_all(errors: Sequence[CheckpointError]) -> None:
    """Say what went wrong with some of many; the last of it is raised, for its exit code."""
    for error in errors[:-1]:
        render.error_lines(str(error), error.hints)
    if errors:
        raise errors[-1]


def say_empty(path: Location) -> int:
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
