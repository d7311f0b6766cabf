"""Verifying checkpoints: every path, every byte, on past whatever is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.directory import Directory
from formats.errors import CheckpointError, CheckpointNotFoundError
from formats.model import Finding
from formats.opening import is_directory, locate, open_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.model import CheckpointReader
    from formats.paths import Location

__all__ = ["Result", "expand", "verify_one"]


class Result(NamedTuple):
    """What verifying one checkpoint found.

    `tensors` and `nbytes` count what was read and found sound, `listed` the keys
    there are; nothing can be said of a checkpoint of which not one key can be listed.
    """

    path: str
    format: str | None
    findings: tuple[Finding, ...]
    tensors: int = 0
    nbytes: int = 0
    listed: int = 0
    has_checksums: bool = True
    hints: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def unreadable(self) -> bool:
        return not self.listed and not self.ok

    def document(self) -> dict[str, Any]:
        """Return the result as `verify --json` shows it."""
        return {
            "path": self.path,
            "format": self.format,
            "ok": self.ok,
            "checked": {"tensors": self.tensors, "nbytes": self.nbytes},
            "findings": [finding._asdict() for finding in self.findings],
        }


def expand(paths: tuple[str, ...]) -> list[Location | Result]:
    """Return the checkpoints that paths name, all of a directory's; a path without any as its result."""
    found: list[Location | Result] = []
    for path in paths:
        try:
            if is_directory(path):
                directory = Directory(path)
                found += [member.location for member in directory.members] or [directory.require_latest()]
            else:
                found.append(locate(path))
        except CheckpointError as error:
            found.append(_unreadable(path, error))
    return found


def _unreadable(path: str, error: CheckpointError, format_name: str | None = None) -> Result:
    code = "shard-missing" if isinstance(error, CheckpointNotFoundError) else error.code
    finding = Finding("error", code, error.message, error.key, error.path, error.offset)
    return Result(path, format_name, (finding,), hints=error.hints)


def verify_one(location: Location, jobs: int = 1, advance: Callable[[int], None] = lambda _: None) -> Result:
    """Verify one checkpoint; `advance` is told how many bytes were gone through."""
    try:
        reader = open_location(location, lenient=True)
    except CheckpointError as error:
        return _unreadable(location.path, error)
    with reader:
        return _verify_open(reader, jobs, advance)


def _verify_open(reader: CheckpointReader, jobs: int, advance: Callable[[int], None]) -> Result:
    findings: list[Finding] = []
    tensors = nbytes = 0
    for step in reader.verify(jobs):
        findings += step.findings
        tensors += step.tensors
        nbytes += step.nbytes
        advance(step.nbytes)
    return Result(
        reader.location.path,
        reader.format.name,
        tuple(findings),
        tensors,
        nbytes,
        listed=len(reader.specs),
        has_checksums=reader.has_checksums,
    )
