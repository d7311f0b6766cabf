"""Converting all checkpoints of a run directory: `ckpt convert --each`.

Forked processes share small checkpoints: Python's global lock lets only one thread run Python code at a
time.  The command repeats the messages of the processes in the order of the checkpoints, so they do not
depend on the number of processes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from formats.errors import CheckpointError
from formats.find.directory import Directory
from formats.find.opening import is_directory, open_location
from formats.location import Location
from formats.store.local.directories import directories_made
from formats.store.local.staging import holding, replace_file
from formats.store.work.forked import Forked
from formats.store.work.workers import SERIAL, can_fork
from formats.tf.run.state_file import FILE_NAME

from ..operations.convert import planner
from ..operations.convert.plan import Plan
from ..operations.convert.run_directory import converted_names, converted_state, refuse_state_file
from ..operations.reporting import Collected, opened
from .conversion import convert_one
from .rules import OptionError
from .writing import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.find.directory import Member
    from formats.model.reader import Format

    from ..operations.reporting import Reporter
    from .conversion import ConvertOptions

__all__ = ["RunConverted", "convert_run"]

_SMALL = 64 << 20
"""Bytes of the largest checkpoint that one process converts alone: threads share larger ones."""

_FEWEST_EACH = 2
"""Checkpoints for each process that are worth forking it."""

_PATIENCE = 30.0
"""Seconds for a process to remove its staging directory after SIGTERM; a slow disk needs some."""


class RunConverted(NamedTuple):
    """The result of converting a run directory: each checkpoint, and the damaged members."""

    target: Location
    damaged: list[Member]


class _Run(NamedTuple):
    """Checkpoints, the names that they get in a directory, and how they are converted."""

    members: Sequence[Member]
    target: Location
    names: Mapping[str, str]
    options: ConvertOptions

    def with_writing(self, **changed: Any) -> _Run:
        """Return the same with other options of writing."""
        return self._replace(options=self.options._replace(write=self.options.write._replace(**changed)))

    def convert(self, member: Member, reporter: Reporter, report: Callable[[Written], None]) -> None:
        with opened(member.location, reporter) as reader:
            convert_one(reader, self.target / self.names[member.name], self.options, reporter, report)

    @property
    def parents(self) -> set[Location]:
        """The directories that checkpoints are written to."""
        return {(self.target / name).parent for name in self.names.values()}


class _Event(NamedTuple):
    """One report of a conversion: a message, or the checkpoint that it wrote."""

    kind: Literal["note", "remark", "warning", "written"]
    value: str | Written


class _Recorded(NamedTuple):
    """The reports of a conversion in order, and the error that it raised."""

    events: Sequence[_Event]
    error: CheckpointError | None


class _Rehearsal:
    """Shows progress, and leaves messages out: they are those of the real run."""

    def __init__(self, reporter: Reporter) -> None:
        self.progress = reporter.progress

    def note(self, text: str) -> None:
        """Leave a note out."""

    def remark(self, text: str) -> None:
        """Leave a remark out."""

    def warning(self, text: str) -> None:
        """Leave a warning out."""


class _Recorder:
    """Keeps what is reported."""

    progress = Collected.progress

    def __init__(self) -> None:
        self.events: list[_Event] = []

    def note(self, text: str) -> None:
        self.events.append(_Event("note", text))

    def remark(self, text: str) -> None:
        self.events.append(_Event("remark", text))

    def warning(self, text: str) -> None:
        self.events.append(_Event("warning", text))

    def written(self, written: Written) -> None:
        """Keep a written checkpoint without its sources, graph and values, which cannot travel."""
        plan, outcome, how = written
        moves = tuple(move._replace(tensor=None, value=None) for move in plan.moves)
        kept = Plan(plan.source, plan.target, plan.format, moves, plan.dropped)
        self.events.append(_Event("written", Written(kept, outcome, how._replace(workers=SERIAL))))


def convert_run(
    source: Location,
    target: Location,
    options: ConvertOptions,
    reporter: Reporter,
    report: Callable[[Written], None],
) -> RunConverted:
    """Convert a run directory, and its state file with it; `report` is called with each checkpoint."""
    if not is_directory(source):
        source.require_access()
        raise OptionError(f"--each needs a directory; {source} is not one")
    directory = Directory(source)
    for text in directory.notes:
        reporter.note(text)
    sound = [member for member in directory.members if member.error is None]
    if not sound:
        directory.require_latest()
    names = converted_names(_formats_of(sound, target, options.to), target)
    run = _Run(sound, target, names, options)
    jobs = _processes(run)
    # Everything is rehearsed first, so that impossible conversions are rejected before anything is written.
    names_beside = _rehearse(run, jobs, reporter)
    if converted_state(directory, names) is not None and not options.write.overwrite:
        refuse_state_file(target)
    # Files next to the target that several checkpoints name are copied once, by the first of them.
    _convert(run, 1 if names_beside else jobs, reporter, report)
    state = converted_state(directory, names)
    if state is not None and not options.write.dry_run:
        with holding(target):
            replace_file(target / FILE_NAME, state.text())
    return RunConverted(target, [member for member in directory.members if member.error is not None])


def _formats_of(
    members: Sequence[Member], target: Location, to: str | None
) -> Iterator[tuple[Member, Format]]:
    for member in members:
        with open_location(member.location) as reader:
            yield member, planner.target_format(reader, target, to)


def _processes(run: _Run) -> int:
    """Return how many processes share small checkpoints of this machine; 1 where none is forked."""
    members, options = run.members, run.options
    jobs = min(options.write.workers.jobs, len(members) // _FEWEST_EACH)
    # A journal, and a map that is saved, are one file of all checkpoints.
    if jobs <= 1 or options.resume is not None or options.save_map is not None or not can_fork():
        return 1
    others = (options.like, options.changes.config, options.changes.map)
    places = (run.target, *(member.location.head for member in members))
    named = (*places, *(each for each in others if isinstance(each, Location)))
    is_here = not any(place.store.scheme for place in named)
    return jobs if is_here and all(member.location.nbytes() <= _SMALL for member in members) else 1


def _rehearse(run: _Run, jobs: int, reporter: Reporter) -> bool:
    """Raise the first error of the conversions; return whether one copies files next to its target."""
    run = run.with_writing(dry_run=True)
    if jobs == 1:
        found = [_reports_side_names(run, _Rehearsal(reporter), member) for member in run.members]
    else:
        work = partial(_reports_side_names, run.with_writing(workers=SERIAL), _Rehearsal(_Recorder()))
        found = [*Forked(work, run.members, jobs)]
    return any(found)


def _reports_side_names(run: _Run, reporter: Reporter, member: Member) -> bool:
    found: list[bool] = []
    run.convert(member, reporter, lambda written: found.append(bool(written.plan.beside)))
    return any(found)


def _convert(run: _Run, jobs: int, reporter: Reporter, report: Callable[[Written], None]) -> None:
    """Convert checkpoints, in order."""
    if jobs == 1:
        for member in run.members:
            run.convert(member, reporter, report)
        return
    parents = () if run.options.write.dry_run else run.parents
    work = partial(_recorded, run.with_writing(workers=SERIAL))
    with directories_made(parents):  # one process would remove those that are empty, another is to use them
        for found in Forked(work, run.members, jobs, batch=1, patience=_PATIENCE):
            _repeat(found, reporter, report)


def _recorded(run: _Run, member: Member) -> _Recorded:
    recorder, error = _Recorder(), None
    try:
        run.convert(member, recorder, recorder.written)
    except CheckpointError as raised:
        error = raised.with_traceback(None)
    return _Recorded(recorder.events, error)


def _repeat(found: _Recorded, reporter: Reporter, report: Callable[[Written], None]) -> None:
    """Repeat the reports of a process, and raise its error."""
    for kind, value in found.events:
        if isinstance(value, Written):
            report(value)
        else:
            getattr(reporter, kind)(value)
    if found.error is not None:
        raise found.error
