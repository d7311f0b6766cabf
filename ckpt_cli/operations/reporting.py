"""Messages of a running operation: notes, warnings and progress, passed to a reporter.

The command line prints them. The functions of `import ckpt_cli` collect them for their results.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from formats.core.words import counted
from formats.find.opening import locate, open_location
from formats.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from formats.errors import CheckpointError
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader

__all__ = ["Collected", "Reporter", "kept", "note_choice", "opened", "warn_of_findings"]

_MOST_LISTED = 20


class Reporter(Protocol):
    """Receives messages beyond the result."""

    def note(self, text: str) -> None:
        """Take what was chosen and why, in one line."""

    def remark(self, text: str) -> None:
        """Receive a remark for --verbose."""

    def warning(self, text: str) -> None:
        """Take what makes the result less than it seems."""

    def progress(
        self, total: int, label: str, stages: Sequence[str] = ("reading",)
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Take how many bytes each stage goes through; what it yields takes the bytes that are done."""


class Collected:
    """Keeps notes and warnings, and shows no progress."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.warnings: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def remark(self, text: str) -> None:
        """Discard it."""

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    @contextmanager
    def progress(
        self,
        total: int,  # noqa: ARG002  not shown
        label: str,  # noqa: ARG002
        stages: Sequence[str] = ("reading",),  # noqa: ARG002
    ) -> Iterator[Callable[[int], None]]:
        yield lambda _: None


@contextmanager
def opened(
    path: Location | CheckpointLocation,
    reporter: Reporter,
    *,
    noted: bool = True,
    listed: bool = False,
    loaded: bool = True,
) -> Iterator[FormatReader]:
    """Open a checkpoint: report which one was chosen, and at the end what is wrong with it.

    Unless it is merely to be `listed`, it is proved that no key is hidden.  Without `loaded` a large index
    may be read only as it is listed.

    Some damage hides a few tensors, and the others can still be used.  The findings say that the result
    is about what is left of the checkpoint.
    """
    location = locate(path) if isinstance(path, Location) else path
    with open_location(location, loaded=loaded) as reader:
        if noted:
            note_choice(reader.location, reporter)
        printed = ""
        try:
            if not listed:
                reader.prove_specs(())
            yield reader
        except Exception as error:
            printed = str(error)
            raise
        finally:
            warn_of_findings(reader, reporter, printed)


def note_choice(location: CheckpointLocation, reporter: Reporter) -> None:
    """Say which checkpoint was chosen and why; if there was no choice, only with --verbose."""
    if location.note:
        reporter.note(location.note)
    if location.reason:
        reporter.remark(location.reason)


def warn_of_findings(reader: FormatReader, reporter: Reporter, printed: str = "") -> None:
    """Warn of what reading a checkpoint came across, except what an error has `printed`."""
    found = [finding for finding in reader.findings if finding.message not in printed]
    for finding in found[:_MOST_LISTED]:
        reporter.warning(finding.text)
    more = len(found) - _MOST_LISTED
    if more > 0:
        reporter.warning(f"{reader.location.path}: {counted(more, 'more finding')}; to see all: ckpt verify")


@contextmanager
def kept(errors: list[CheckpointError]) -> Iterator[None]:
    """Keep the error of one item, and continue with the next."""
    from formats.errors import CheckpointError

    try:
        yield
    except CheckpointError as error:
        errors.append(error)
