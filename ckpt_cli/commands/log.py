"""`ckpt log`: a run over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from formats.core.words import counted
from formats.errors import CheckpointError
from formats.find.directory import Directory, directories_below
from formats.find.resolve import spelling
from formats.tf.run.state_file import FILE_NAME

from ..cli.help import subcommand
from ..cli.options import (
    LocalPath,
    choosing,
    color_option,
    completing,
    jobs_option,
    json_option,
    no_values_option,
    path_argument,
    recursive_option,
    selection_of,
)
from ..operations.runs.curves import read_curve
from ..operations.runs.log import ATTEMPTS, RunLog
from ..operations.runs.state import places_of
from ..render import base as render
from ..render import log as render_log
from ..render.progress import progress
from ..render.report import say_all, say_empty

if TYPE_CHECKING:
    from formats.location import Location

    from ..operations.runs.curves import Curve, EventCurves
    from ..operations.runs.log import LogRow
    from ..operations.select.selection import Selection


_MOST_TAGS = 10
"""Tags named where the one asked for is not there."""


@subcommand("log", paged=True)
@path_argument("directory", metavar="[DIR]", default=".", shell_complete=completing("directories"))
@choosing
@no_values_option("Read the indexes alone: no norms, no NaN.")
@click.option("--tag", metavar="TAG", help="Show this number of the event files in place of the loss.")
@click.option(
    "--events",
    metavar="DIR",
    type=LocalPath(),
    help="Where the event files are, if elsewhere.",
    shell_complete=completing("directories"),
)
@recursive_option()
@jobs_option
@json_option
@color_option
def command(directory: Location, **options: Any) -> int:
    """Show a run over time, checkpoint by checkpoint.

    Step, how many tensors changed since the checkpoint before, the norm of the weights,
    NaN in any tensor, and the loss where TensorBoard's event files lie beside.  Below, curves,
    the first NaN, and weights that never changed.  Stored checksums tell what changed; what
    did not is not read again.  With -R every run in DIR and below; lines begin with its path.

    \b
      ckpt log run/
      ckpt log run/ --kind variable --exclude '*/bias'
      ckpt log model_dir --tag accuracy --events model_dir/eval
      ckpt log run/ --no-values --json          # instantly
      ckpt log -R runs/ --no-values
    """
    path, state_path = places_of(directory)
    if options["recursive"]:
        return _recursively(path, options)
    document = _log_one(path, state_path, options)
    if options["as_json"]:
        render.document(document)
    return 0 if document["checkpoints"] else say_empty(path)


def _recursively(path: Location, options: dict[str, Any]) -> int:
    """Show each run below; what cannot be looked into is said, and raised in the end."""
    errors: list[CheckpointError] = []
    documents: list[dict[str, Any]] = []
    for below in directories_below(path):
        try:
            if Directory(below).members:
                document = _log_one(below, below / FILE_NAME, options)
                documents.append({"schema": 1, **document})
        except CheckpointError as error:
            errors.append(error)
    if options["as_json"]:
        render.document({"results": documents})
    say_all(errors)
    return 0 if any(document["checkpoints"] for document in documents) else say_empty(path)


def _log_one(path: Location, state_path: Location, options: dict[str, Any]) -> dict[str, Any]:
    """Show one run, unless as JSON, and return its document."""
    told = read_curve(options["events"] or path, options["tag"])
    run, rows = _look(path, state_path, selection_of(options), told.curve, options)
    _remarks(run, told, options["tag"])
    latest = run.directory.latest
    name = spelling(latest).relative_to(path) if latest is not None else None
    if not options["as_json"] and not render.is_terminal():
        prefix = [path] * options["recursive"]
        render.tsv([*prefix, *render_log.tsv_row(row)] for row in rows)
    elif not options["as_json"] and rows:
        if options["recursive"]:
            render.title(path)
        render_log.show(rows, name, told.curve, run.frozen)
    events = {"files": list(told.files), "tag": told.curve.tag or None, "tags": list(told.tags)}
    fields = {"directory": path, "latest": name, "checkpoints": [row._asdict() for row in rows]}
    return {**fields, "frozen": run.frozen, "events": events}


def _look(
    path: Location, state_path: Location, selection: Selection, curve: Curve, options: dict[str, Any]
) -> tuple[RunLog, list[LogRow]]:
    """Return a run's checkpoints, looked for again where all of them went away meanwhile."""
    attempt = 1
    while True:
        values, pool = not options["no_values"], options["workers"]
        run = RunLog(Directory(path, state_path), selection, curve, values=values, workers=pool)
        with progress(run.nbytes, path.absolute().name) as advance:
            rows = list(run.rows(advance))
        if rows or not run.directory.members or attempt == ATTEMPTS:
            return run, rows
        attempt += 1


def _remarks(run: RunLog, told: EventCurves, tag: str | None) -> None:
    """Say on stderr what there is to know of a run beside its numbers."""
    notes = [*run.directory.notes, *told.notes, *run.notes]
    if tag is not None and not told.curve.steps:
        there = ", ".join(told.tags[:_MOST_TAGS]) or "none at all"
        notes.append(f"no number {tag!r} in {counted(len(told.files), 'event file')}; there are {there}")
    for text in notes:
        render.note(text)
    for text in run.warnings:
        render.warning(text)
