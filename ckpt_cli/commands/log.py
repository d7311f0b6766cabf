"""`ckpt log`: a run over time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from formats.directory import Directory
from formats.words import counted

from .. import render, render_log
from ..operations.curves import read_curve
from ..operations.log import ATTEMPTS, RunLog
from ..operations.state import places_of
from ..options import LocalPath, choosing, color_option, completing, json_option, path_argument, selection_of
from ..report import say_empty

if TYPE_CHECKING:
    from ..operations.curves import Curve, Told
    from ..operations.log import Row
    from ..operations.select import Selection

__all__ = ["command"]

_MOST_TAGS = 10
"""Tags named where the one asked for is not there."""


@click.command("log")
@path_argument("directory", metavar="[DIR]", default=".", shell_complete=completing("directories"))
@choosing
@click.option("--no-values", is_flag=True, help="Read the indexes alone: no norms, no NaN.")
@click.option("--tag", metavar="TAG", help="Show this number of the event files in place of the loss.")
@click.option(
    "--events",
    metavar="DIR",
    type=LocalPath(),
    help="Where the event files are, if elsewhere.",
    shell_complete=completing("directories"),
)
@json_option
@color_option
def command(directory: str, **options: Any) -> int:
    """Show a run over time, checkpoint by checkpoint.

    Step, how many tensors changed since the checkpoint before, the norm of the weights,
    NaN in any tensor, and the loss where TensorBoard's event files lie beside.  Below, curves,
    the first NaN, and weights that never changed.  Stored checksums tell what changed; what
    did not is not read again.

    \b
      ckpt log run/
      ckpt log run/ --kind variable --exclude '*/bias'
      ckpt log model_dir --tag accuracy --events model_dir/eval
      ckpt log run/ --no-values --json          # instantly
    """
    path, state_path = places_of(directory)
    told = read_curve(options["events"] or path, options["tag"])
    run, rows = _look(path, state_path, selection_of(options), told.curve, options)
    _remarks(run, told, options["tag"])
    latest = run.directory.latest
    name = os.path.relpath(latest.path, path) if latest is not None else None
    if options["as_json"]:
        events = {"files": list(told.files), "tag": told.curve.tag or None, "tags": list(told.tags)}
        fields = {"directory": path, "latest": name, "checkpoints": [row._asdict() for row in rows]}
        render.document({**fields, "frozen": run.frozen, "events": events})
    elif not render.is_terminal():
        render.tsv(map(render_log.tsv_row, rows))
    elif rows:
        render_log.show(rows, name, told.curve, run.frozen)
    return 0 if rows else say_empty(path)


def _look(
    path: str, state_path: str, selection: Selection, curve: Curve, options: dict[str, Any]
) -> tuple[RunLog, list[Row]]:
    """Return a run's checkpoints, looked for again where all of them went away meanwhile."""
    attempt = 1
    while True:
        run = RunLog(Directory(path, state_path), selection, curve, values=not options["no_values"])
        with render.progress(run.nbytes, os.path.basename(os.path.abspath(path))) as advance:
            rows = list(run.rows(advance))
        if rows or not run.directory.members or attempt == ATTEMPTS:
            return run, rows
        attempt += 1


def _remarks(run: RunLog, told: Told, tag: str | None) -> None:
    """Say on stderr what there is to know of a run beside its numbers."""
    notes = [*run.directory.notes, *told.notes, *run.notes]
    if tag is not None and not told.curve.steps:
        there = ", ".join(told.tags[:_MOST_TAGS]) or "none at all"
        notes.append(f"no number {tag!r} in {counted(len(told.files), 'event file')}; there are {there}")
    for text in notes:
        render.note(text)
    for text in run.warnings:
        render.warning(text)
