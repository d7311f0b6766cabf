"""`ckpt log`: a run over time."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from formats.directory import Directory

from .. import render, render_log
from ..operations.curves import read_curve
from ..operations.log import RunLog
from ..operations.state import places_of
from ..options import choosing, color_option, json_option, path_argument, selection_of
from ..report import say_empty

if TYPE_CHECKING:
    from ..operations.select import Selection

__all__ = ["command"]


@click.command("log")
@path_argument("directory", metavar="DIR", default=".")
@choosing
@click.option("--no-values", is_flag=True, help="Read the indexes alone: no norms, no NaN.")
@click.option("--tag", metavar="TAG", help="Show this number of the event files in place of the loss.")
@click.option("--events", metavar="DIR", type=click.Path(), help="Where the event files are, if not in DIR.")
@json_option
@color_option
def command(directory: str, **options: Any) -> int:
    """Show a run over time: for each checkpoint of a directory, what became of it.

    Step, how many tensors changed since the checkpoint before, the norm of the weights,
    NaN in any tensor, and the loss where TensorBoard's event files lie beside.  Below, curves,
    the first NaN, and weights that never changed.  What changed is told by stored checksums;
    a tensor that did not is read once.

    \b
      ckpt log run/
      ckpt log run/ --kind variable --exclude '*/bias'
      ckpt log model_dir --tag accuracy --events model_dir/eval
      ckpt log run/ --no-values --json          # instantly
    """
    selection = selection_of(options)
    path, state_path = places_of(directory)
    place = Directory(path, state_path)
    code = _log(place, selection, options)
    return code if place.members else say_empty(path)


def _log(place: Directory, selection: Selection, options: dict[str, Any]) -> int:
    told = read_curve(options["events"] or place.path, options["tag"])
    run = RunLog(place, selection, told.curve, values=not options["no_values"])
    for text in (*place.notes, *told.notes):
        render.note(text)
    if options["tag"] is not None and not told.curve.steps:
        there = ", ".join(told.tags[:10]) or "none at all"
        render.note(f"no number {options['tag']!r} in {len(told.files)} event files; there are {there}")
    with render.progress(run.nbytes, os.path.basename(os.path.abspath(place.path))) as advance:
        rows = list(run.rows(advance))
    for text in run.notes:
        render.note(text)
    for text in run.warnings:
        render.warning(text)
    latest = place.latest
    name = os.path.relpath(latest.path, place.path) if latest is not None else None
    if options["as_json"]:
        fields = {
            "directory": place.path,
            "latest": name,
            "checkpoints": [row._asdict() for row in rows],
            "frozen": run.frozen,
            "events": {"files": list(told.files), "tag": told.curve.tag or None, "tags": list(told.tags)},
        }
        render.document(fields)
    elif render.is_terminal():
        render_log.show(rows, name, told.curve, run.frozen)
    else:
        render.tsv(map(render_log.tsv_row, rows))
    return 0 if rows else 1
