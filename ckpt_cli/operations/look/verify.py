"""Verify checkpoints: every path, every byte, continuing after findings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from formats.core.words import command_line
from formats.errors import (
    MISSING,
    NOT_READ,
    CheckpointError,
    CorruptCheckpointError,
    NoCheckpointsError,
    ResourceError,
    UnknownFormatError,
    UnsupportedFeatureError,
    as_ours,
)
from formats.find.directory import Directory
from formats.find.opening import is_directory, locate, open_location
from formats.find.resolve import HUB_WEIGHTS, sharded_folder, spelling
from formats.model.checkpoint_files import FILE_SUFFIXES
from formats.model.probe import Probe
from formats.model.verification import Finding
from formats.store.archive.reader import directory_size
from formats.store.work.counters import add_reads, count_reads, is_counting, reads_of_child
from formats.store.work.workers import SERIAL, Workers
from formats.wire.magic import ZIP

from ..select.arguments import checkpoints_below, each_once
from .child import ChildLostError, ReadingChild

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection

    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader

    from .contract import Contract

_Answer = TypeVar("_Answer")


class Result(NamedTuple):
    """What verifying one checkpoint found.

    `tensors` and `nbytes` count what was read and found intact, and `listed` the keys. A checkpoint without
    a readable key has no such numbers.
    """

    path: Location
    format: str | None
    findings: tuple[Finding, ...]
    tensors: int = 0
    nbytes: int = 0
    listed: int = 0
    has_checksums: bool = True
    hints: tuple[str, ...] = ()
    is_empty: bool = False
    """Whether this is a directory without checkpoints."""
    is_none: bool = False
    """Whether there is no checkpoint to be sound or damaged: nothing, or something else, is there."""
    is_unsupported: bool = False
    """Whether the file has something that is not supported, which another copy has, too."""
    computed: Mapping[str, Any] = {}
    """Further fields of the document: what computing with the checkpoint gave."""

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def is_unread(self) -> bool:
        """Whether nothing is known to be wrong but that files could not be opened."""
        return not self.ok and all(f.code in NOT_READ for f in self.findings if f.severity == "error")

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
            **self.computed,
        }


def expand(
    paths: Sequence[Location], *, recursive: bool = False, jobs: int = 1
) -> tuple[list[CheckpointLocation | Result], list[str]]:
    """Return the checkpoints that paths name, each once, and notes on them.

    A directory stands for all of its checkpoints, with `recursive` for those below it as well; what
    cannot be opened, and a directory without any, is its result.
    """
    return each_once([place for path in paths for place in _expand_one(path, recursive=recursive, jobs=jobs)])


def _expand_one(path: Location, *, recursive: bool, jobs: int) -> list[CheckpointLocation | Result]:
    try:
        if not is_directory(path):
            located = locate(path)
            return _weights_of(path, located) or [located]
        if not recursive:
            directory = Directory(path)
            return [member.location for member in directory.members] or [directory.require_latest()]
    except CheckpointError as error:
        return [_unreadable(path, error)]
    found = [
        _unreadable(path.of(place.path or path), place) if isinstance(place, CheckpointError) else place
        for place in checkpoints_below(path, jobs)
    ]
    none = NoCheckpointsError("this directory and its subdirectories contain no checkpoints", path=path)
    return found or [_unreadable(path, none)]


def _weights_of(path: Location, located: CheckpointLocation) -> list[CheckpointLocation | Result]:
    """Return the weights of a folder that has a model in shards and in another format, too."""
    if located.head.parent != path or sharded_folder(path) is None:
        return []
    found = [member.location for member in Directory(path).members if member.name in HUB_WEIGHTS]
    return [*found] if len(found) > 1 else []


def _unreadable(path: Location, error: CheckpointError, format_name: str | None = None) -> Result:
    hints = error.hints
    if isinstance(error, NoCheckpointsError) and error.lie_below:
        hints = (f"to verify the checkpoints below: {command_line('verify', '-R', path)}",)
    return Result(
        path,
        format_name,
        (Finding.of(error),),
        hints=hints,
        is_empty=isinstance(error, NoCheckpointsError),
        is_none=_is_none(path.of(error.path or path), error),
        is_unsupported=isinstance(error, UnsupportedFeatureError),
    )


def _is_none(path: Location, error: CheckpointError) -> bool:
    """Whether an error says that no checkpoint is there, rather than that one is damaged."""
    if isinstance(error, UnknownFormatError):
        return not path.endswith((".index", *FILE_SUFFIXES))
    return error.code == MISSING


def verify_one(
    location: CheckpointLocation, workers: Workers = SERIAL, advance: Callable[[int], None] = lambda _: None
) -> Result:
    """Verify one checkpoint; `advance` is called with the number of read bytes."""
    if _needs_a_child(location):
        found = _in_a_child(location, partial(_verify_here, location))
        result = found if isinstance(found, Result) else Result(location.path, None, (found,))
        workers.keep(result.nbytes, result.listed)
        advance(result.nbytes)
        return result
    return _verify_here(location, workers, advance)


def check_contract(
    result: Result,
    location: CheckpointLocation,
    contract: Contract,
    workers: Workers = SERIAL,
    advance: Callable[[int], None] = lambda _: None,
) -> Result:
    """Return what verifying found, and in what the checkpoint is another than a contract says.

    Damage hides no other difference, as long as a key can be listed.
    """
    if contract.of_files:
        found = contract.findings(location, workers, advance, damage=result.findings)
    elif result.ok:
        found = contract.findings(location, workers, advance)
    elif not result.listed:
        found = []
    elif _needs_a_child(location):
        outcome = _in_a_child(
            location, partial(_contract_findings_of_damaged, location, contract, result.findings)
        )
        found = [outcome] if isinstance(outcome, Finding) else outcome
    else:
        found = _contract_findings_of_damaged(location, contract, result.findings, workers, advance)
    return result._replace(findings=(*result.findings, *found))


def _contract_findings_of_damaged(
    location: CheckpointLocation,
    contract: Contract,
    damage: tuple[Finding, ...],
    workers: Workers = SERIAL,
    advance: Callable[[int], None] = lambda _: None,
) -> list[Finding]:
    try:
        return contract.findings(location, workers, advance, damage=damage)
    except CheckpointError as error:
        return [Finding.of(error)]


def _verify_here(
    location: CheckpointLocation, workers: Workers = SERIAL, advance: Callable[[int], None] = lambda _: None
) -> Result:
    try:
        reader = open_location(location, lenient=True)
    except CheckpointError as error:
        return _unreadable(spelling(location), error)
    try:
        with reader:
            return _verify_open(reader, workers, advance)
    except ResourceError as error:
        return _unreadable(spelling(location), error, reader.format.name)


# A damaged file can crash the HDF5 library, or make it loop, so HDF5 is read in a process of its own: the end
# of that process is a finding.

_HDF5_SUFFIXES = (".h5", ".hdf5")
_LARGE_DIRECTORY = 16 << 20
_FEWEST_SECONDS = 60
_BYTES_A_SECOND = 10_000_000  # far below any disk; slower is not reading


def _needs_a_child(location: CheckpointLocation) -> bool:
    """Whether the file is or may contain HDF5, which a child process reads; this process reads the others."""
    try:
        with Probe(location) as probe:
            if probe.head.startswith(b"\x89HDF") or location.head.endswith(".json"):
                return True
            if not probe.head.startswith(ZIP):
                return False
            if directory_size(probe.tail) > _LARGE_DIRECTORY:
                return True  # only the child reads so large a directory
            return probe.zip is None or any(name.endswith(_HDF5_SUFFIXES) for name in probe.zip.names)
    except CorruptCheckpointError:
        return True  # the directory of the archive cannot be read
    except CheckpointError:
        return False


def _in_a_child(location: CheckpointLocation, work: Callable[[], _Answer]) -> _Answer | Finding:
    """Return what `work` on a checkpoint gives in a process of its own, or what became of that."""
    patience = _FEWEST_SECONDS + location.nbytes() / _BYTES_A_SECOND
    try:
        with ReadingChild(location, _report_to, work, location.head, is_counting()) as child:
            answer: _Answer
            answer, counted = child.receive(patience)
    except ChildLostError as lost:
        return Finding("error", lost.code, str(lost), None, location.head)
    add_reads(counted)
    return answer


def _report_to(sender: Connection, work: Callable[[], object], head: str, counting: bool) -> None:
    if counting:  # bytes read before belong to another file
        count_reads()
    try:
        answer: object = work()
    except Exception as error:
        found = as_ours(error, head)
        answer = Finding("error", found.code, found.message, None, head)
    sender.send((answer, reads_of_child()))


def _verify_open(reader: FormatReader, workers: Workers, advance: Callable[[int], None]) -> Result:
    findings: list[Finding] = []
    unread: dict[str | None, Finding] = {}
    tensors = nbytes = 0
    before = workers.sent
    for step in reader.verify(workers):
        for finding in step.findings:
            if finding.code in NOT_READ:  # of a file, not of each tensor in it
                unread.setdefault(finding.file, finding._replace(key=None, offset=None))
            else:
                findings.append(finding)
        tensors += step.tensors
        nbytes += step.nbytes
        advance(step.nbytes)
    if workers.sent == before:  # data that cannot be read in ranges is read in order
        workers.kept = [workers.kept[0] + tensors, workers.kept[1] + nbytes]
    findings += unread.values()
    if findings and reader.has_changed():
        message = (
            "the checkpoint changed during verification, which may explain these findings; verify it again"
        )
        findings.append(Finding("warning", "tensor-checksum", message, None, reader.location.head))
    return Result(
        spelling(reader.location),
        reader.format.name,
        tuple(findings),
        tensors,
        nbytes,
        listed=len(reader.specs),
        has_checksums=reader.has_checksums,
    )
