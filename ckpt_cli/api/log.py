"""`ckpt.log`: a run over time."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import counted
from formats.errors import CheckpointError
from formats.find.directory import Directory, directories_below
from formats.find.resolve import spelling
from formats.tf.run.state_file import FILE_NAME

from ..operations.reporting import kept
from ..operations.runs.curves import Curve, EventCurves, read_curve
from ..operations.runs.follow import INTERVAL, INTERVAL_OF_URLS, Follower
from ..operations.runs.listing import ATTEMPTS_OF_EMPTY
from ..operations.runs.log import LogRow, RunLog
from ..operations.runs.state import places_of
from ..operations.select.selection import NothingSelectedError, Selection
from .calls import collecting, lent, location, public, selection
from .rules import CHOOSING_RULES, OptionError, excludes, needs
from .tables import PlottedTable, ResultTable, Several

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from formats.find.directory import Member
    from formats.location import Location
    from formats.store.work.workers import Workers

    from ..operations.reporting import Reporter
    from .calls import PathLike
    from .plots import Plot

__all__ = ["LONGEST_INTERVAL", "RULES", "LogOptions", "RunHistory", "follow_run", "log", "run_history"]

RULES = (
    needs("--interval", "--follow"),
    excludes("--follow", "--recursive"),
    excludes("--fail-on", "--no-values"),
)

LONGEST_INTERVAL = 86400.0
"""Seconds between two looks at a directory, at most."""

_MOST_TAGS = 10
"""The most tags that an error lists if the requested one does not exist."""


class LogOptions(NamedTuple):
    """The options of a log: tensors, whether values are read, and the number of the event files to show."""

    selection: Selection = Selection()
    values: bool = True
    tag: str | None = None
    events: Location | None = None
    interval: float | None = None
    """Seconds between two looks at a directory that is followed."""


class RunHistory(ResultTable[LogRow], PlottedTable):
    """The checkpoints of a run, oldest first: a sequence of `LogRow`.

    `latest` is the name of the latest checkpoint. `frozen` lists the weights that no checkpoint changed.
    `tag` names the scalar of the event files that is shown as the loss; `steps` and `losses` are all its
    values. `event_files` and `tags` list the files and the other scalars. `to_dict()` is the document of
    `ckpt log --json`.
    """

    def __init__(
        self, path: Location, rows: Sequence[LogRow], run: RunLog, event_curves: EventCurves
    ) -> None:
        latest = run.directory.latest
        self.directory = str(path)
        self.latest: str | None = spelling(latest).relative_to(path) if latest is not None else None
        self.frozen = list(run.frozen)
        self.curve = event_curves.curve
        self.tag = event_curves.curve.tag or None
        self.steps, self.losses = tuple(event_curves.curve.steps), tuple(event_curves.curve.values)
        self.event_files, self.tags = event_curves.files, event_curves.tags
        self.notes: tuple[str, ...] = ()
        self.warnings: tuple[str, ...] = ()
        self._results = rows

    def to_dict(self) -> dict[str, Any]:
        """Return the document of `ckpt log --json`, without `schema`."""
        return {
            "directory": self.directory,
            "latest": self.latest,
            "checkpoints": [row._asdict() for row in self],
            "frozen": self.frozen,
            "events": {"files": list(self.event_files), "tag": self.tag, "tags": list(self.tags)},
        }

    def _title(self) -> str:
        return f"{self.directory}: {len(self):,} checkpoints, latest {self.latest}"

    def _names(self) -> Sequence[str]:
        return ("name", "step", "modified", "changed", "unchanged", "l2", "nan", "loss")

    def _rows(self) -> Iterator[Sequence[Any]]:
        return ([getattr(row, name) for name in self._names()] for row in self)

    def _plots(self) -> Sequence[Plot]:
        from .plots import Lines

        steps = [row.step if row.step is not None else at for at, row in enumerate(self)]
        found = [
            Lines(self.tag or "loss", self.steps, self.losses),
            Lines("norm of the weights", steps, [row.l2 for row in self]),
        ]
        return [lines for lines in found if lines.points]


def run_history(
    path: Location, state_path: Location, options: LogOptions, workers: Workers, reporter: Reporter
) -> RunHistory:
    """Return a run over time, with the numbers of its event files."""
    event_curves = read_curve(options.events or path, options.tag)
    run, rows = _look(partial(Directory, path, state_path), event_curves.curve, options, workers, reporter)
    for text in [
        *run.directory.notes,
        *event_curves.notes,
        *run.notes,
        *_without_tag(event_curves, options.tag),
    ]:
        reporter.note(text)
    for text in run.warnings:
        reporter.warning(text)
    return RunHistory(path, rows, run, event_curves)


def _look(
    directory: Callable[[], Directory],
    curve: Curve,
    options: LogOptions,
    workers: Workers,
    reporter: Reporter,
) -> tuple[RunLog, list[LogRow]]:
    """Return a run's checkpoints, looked for again where all of them went away meanwhile."""
    attempt = 1
    while True:
        run = RunLog(directory(), options.selection, curve, values=options.values, workers=workers)
        with reporter.progress(run.nbytes, run.directory.path.absolute().name) as advance:
            rows = list(run.rows(advance))
        is_empty = not run.directory.members and not run.directory.has_lost
        if rows or is_empty or attempt == ATTEMPTS_OF_EMPTY:
            return run, rows
        attempt += 1


def follow_run(
    path: Location,
    state_path: Location,
    options: LogOptions,
    workers: Workers,
    reporter: Reporter,
) -> Iterator[RunHistory]:
    """Yield a run of one checkpoint for each that is complete, now or later, until the caller stops.

    Raises CheckpointError if the directory cannot be read at first; later on that is a warning.
    """
    follower = Follower(path, state_path)
    run: RunLog | None = None
    pause = options.interval or (INTERVAL_OF_URLS if path.is_object() else INTERVAL)
    warned: set[str] = set()
    while True:
        try:
            found = follower.poll()
        except CheckpointError as error:
            if run is None:
                raise
            _warn_once(str(error), warned, reporter)
            time.sleep(pause)
            continue
        for text in found.warnings:
            reporter.warning(text)
        if found.directory is not None:
            event_curves = (
                read_curve(options.events or path, options.tag)
                if found.complete
                else EventCurves(Curve(), (), (), ())
            )
            if run is None:
                run = RunLog(
                    found.directory,
                    options.selection,
                    event_curves.curve,
                    values=options.values,
                    workers=workers,
                )
            run.directory, run.curve = found.directory, event_curves.curve
            for member in found.complete:
                row = _row_of(run, member, warned, reporter)
                if row is not None:
                    yield RunHistory(path, [row], run, event_curves)
        time.sleep(pause)


def _row_of(run: RunLog, member: Member, warned: set[str], reporter: Reporter) -> LogRow | None:
    """Return the row of a checkpoint that is complete; None if it has gone, or nothing of it is chosen."""
    try:
        row = run.row(member)
    except NothingSelectedError as error:
        _warn_once(str(error), warned, reporter)
        return None
    for text in run.warnings:
        reporter.warning(text)
    run.warnings.clear()
    return row


def _warn_once(text: str, warned: set[str], reporter: Reporter) -> None:
    if text not in warned:
        warned.add(text)
        reporter.warning(text)


def _without_tag(event_curves: EventCurves, tag: str | None) -> list[str]:
    """Return a note if the event files lack the requested number."""
    if tag is None or event_curves.curve.steps:
        return []
    if not event_curves.files:
        return ["there are no event files; to read another directory, pass --events DIR"]
    files = counted(len(event_curves.files), "event file has", "event files have")
    there = ", ".join(event_curves.tags[:_MOST_TAGS]) or "no scalars"
    return [f"{files} no scalar {tag!r}; found {there}"]


@public(*CHOOSING_RULES, *RULES)
def log(
    directory: PathLike = ".",
    *keys: str,
    match: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    regex: bool = False,
    ignore_case: bool = False,
    dtype: str | None = None,
    kind: str | Iterable[str] | None = None,
    no_values: bool = False,
    tag: str | None = None,
    events: PathLike | None = None,
    follow: bool = False,
    interval: float | None = None,
    recursive: bool = False,
    jobs: int | None = None,
) -> RunHistory | Several[RunHistory] | Iterator[RunHistory]:
    """Return a run over time: what changed from checkpoint to checkpoint, norms, NaN and the loss.

    The result is a sequence with one row per checkpoint, oldest first. `l2` is the norm of the weights.
    `nan` counts NaN in all selected tensors. `loss` is the latest value in the event files next to the
    checkpoints, or in the directory `events`; `tag` selects another scalar. With `no_values`, only the
    indexes are read, and `l2` and `nan` are None. With `recursive`, the result is a `Several` of all runs
    in `directory` and its subdirectories. With `follow`, the result is an endless iterator. It yields a
    `RunHistory` with one row for each complete checkpoint, those that are there first. It looks for more
    every `interval` seconds, by default 2, or 30 for a URL. `keys` to `kind` select tensors as on the
    command line. `jobs` is a number of threads.

    Raises CheckpointError if a directory cannot be read, and ValueError for invalid arguments.

    ```python
    run = ckpt.log("run")
    print([(row.name, row.step, row.l2, row.loss) for row in run], run.frozen)
    ```
    """
    where, state_path = places_of(location(directory))
    wanted = selection(keys, match, exclude, regex=regex, ignore_case=ignore_case, dtype=dtype, kind=kind)
    options = LogOptions(wanted, not no_values, tag, None if events is None else location(events))
    if follow:
        if interval is not None and not 0 < interval <= LONGEST_INTERVAL:
            raise OptionError(f"--interval: {interval} is not in the range 0<x<={LONGEST_INTERVAL}")
        return _follow(where, state_path, options._replace(interval=interval), jobs)
    with lent(jobs) as workers:
        if not recursive:
            return _history(where, state_path, options, workers)
        errors: list[CheckpointError] = []
        found = []
        for below in directories_below(where):
            with kept(errors):
                if Directory(below).members:
                    found.append(_history(below, below / FILE_NAME, options, workers))
        return Several(found, errors)


def _follow(
    path: Location, state_path: Location, options: LogOptions, jobs: int | None
) -> Iterator[RunHistory]:
    with lent(jobs) as workers, collecting() as collected:
        for found in follow_run(path, state_path, options, workers, collected):
            found.notes, found.warnings = tuple(collected.notes), tuple(collected.warnings)
            collected.notes.clear()
            collected.warnings.clear()
            yield found


def _history(path: Location, state_path: Location, options: LogOptions, workers: Workers) -> RunHistory:
    with collecting() as collected:
        found = run_history(path, state_path, options, workers, collected)
        found.notes, found.warnings = tuple(collected.notes), tuple(collected.warnings)
        return found
