"""`ckpt rescue`: what is left of a damaged checkpoint."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from formats.core.words import counted
from formats.errors import SHARD_MISSING, CheckpointError, CorruptCheckpointError, as_ours
from formats.find.salvage import find_damaged

from ..api.writing import Job, carry_out
from ..cli.execute import note_written
from ..cli.help import subcommand
from ..cli.options import (
    LocalPath,
    color_option,
    completing,
    dry_run_option,
    jobs_option,
    json_option,
    overwrite_option,
    path_argument,
    target_argument,
    writing_of,
)
from ..operations.convert.execute import execute
from ..operations.convert.plan import NONE
from ..operations.reporting import note_choice
from ..operations.rescue.recovery import plan_rescue
from ..render import base as render
from ..render.progress import progress
from ..render.report import SCREEN

if TYPE_CHECKING:
    from formats.location import Location

    from ..api.writing import How
    from ..operations.rescue.recovery import Rescue


_MOST_LISTED = 20
_COPY_AGAIN = ("copy the checkpoint again from its source",)
_ALL, _SOME, _NOTHING = 0, 1, 3


@subcommand("rescue")
@path_argument("damaged", metavar="DAMAGED")
@target_argument("OUT")
@click.option(
    "--sibling",
    type=LocalPath(),
    metavar="OTHER",
    help="Rebuild a missing or damaged index from OTHER, of the same run.",
    shell_complete=completing("checkpoints"),
)
@overwrite_option("Replace OUT if it exists.")
@dry_run_option("Print what would be saved and lost, and write nothing.")
@jobs_option
@json_option
@color_option
def command(damaged: Location, target: Location, sibling: Location | None, **options: Any) -> int:
    """Save the intact part of a damaged checkpoint; list the rest.

    rescue compares every tensor with its checksum, and reads the intact blocks of a damaged index.
    It also saves what is left in TensorFlow checkpoints with missing or short shards, V1 files
    without their end,
    zip archives without their central directory, and truncated HDF5 or safetensors files. OUT has the same
    format as DAMAGED, which is never changed. Objects whose values are lost are removed from the
    object graph. A damaged graph is rebuilt from the keys.

    --sibling rebuilds a missing or damaged index. OTHER shows which tensors the checkpoint
    contains, and in which order. A tensor is intact if it matches a checksum that is left in the
    damaged index, or if it equals the same tensor of OTHER. All other tensors are written too.
    They are listed as unproved, because they may be damaged.

    A .keras archive has one checksum for all of its weights. If it does not match, every weight
    is listed as unproved, and weights whose keys cannot be read are listed as lost.

    Exits 0 if everything was saved, 1 if something is lost, and 3 if nothing could be saved.

    \b
      ckpt rescue run/ckpt-10 saved/ckpt-10
      ckpt rescue run/ckpt-10 saved/ckpt-10 --sibling run/ckpt-9
      ckpt rescue cut.safetensors saved.safetensors --dry-run
    """
    try:
        return _rescue(damaged, target, sibling, options)
    except Exception as error:  # there is no open reader whose end would name the file
        found = as_ours(error, damaged)
        if found is error:
            raise
        raise found from error


def _rescue(damaged: Location, target: Location, sibling: Location | None, options: dict[str, Any]) -> int:
    rescue = _plan(damaged, target, sibling)
    if rescue.refusal is not None:
        if options["as_json"]:
            render.document(rescue.document(NONE))
        if isinstance(rescue.refusal, CorruptCheckpointError) and not rescue.refusal.hints:
            rescue.refusal.hints = _COPY_AGAIN
        raise rescue.refusal
    notes, how = list(rescue.notes), writing_of(options).how(target)
    if rescue.plan is not None:
        notes = carry_out(Job(rescue.plan, partial(execute, rescue.plan), how), SCREEN).outcome.notes
    _show(rescue, notes, how, as_json=options["as_json"])
    if rescue.plan is None:
        render.error_lines(f"{rescue.source}: nothing can be saved: {_why_nothing(rescue)}", _COPY_AGAIN)
        return _NOTHING
    return _SOME if rescue.lost else _ALL


def _why_nothing(rescue: Rescue) -> str:
    if not rescue.lost:
        return "it has no tensors"
    reason, count = rescue.lost[0].finding.message, len(rescue.lost)
    if count == 1:
        return f"its only tensor is lost ({reason})"
    return f"all {counted(count, 'tensor')} are lost (for the first one, {reason})"


def _plan(damaged: Location, target: Location, sibling: Location | None) -> Rescue:
    size = 0
    with contextlib.suppress(CheckpointError):  # planning says what is wrong with it
        location = find_damaged(damaged)
        note_choice(location, SCREEN)
        size = location.nbytes()
    with progress(size, os.path.basename(damaged)) as advance:
        return plan_rescue(damaged, target, sibling, advance)


def _show(rescue: Rescue, notes: list[str], how: How, *, as_json: bool) -> None:
    for text in notes:
        render.note(text)
    document = rescue.document(how.proved if rescue.plan is not None else NONE)
    if as_json:
        render.document(document)
        return
    if not render.is_terminal():
        render.tsv(_rows(document))
        return
    _list("lost", [(row["key"] or "(unknown keys)", row["reason"]) for row in document["lost"]], "red")
    unproved = [(row["key"], row["reason"]) for row in document["unproved"]]
    if any(row["proof"] for row in document["tensors"]):
        _list("unproved", unproved, "yellow")
    elif unproved:
        render.note(f"no checksum confirms these values: {unproved[0][1]}")
    if rescue.plan is not None:
        known = len(rescue.plan.moves) + len(rescue.lost)
        note_written(rescue.plan, f"{len(rescue.plan.moves):,} of {counted(known, 'tensor')}", how)


def _rows(document: dict[str, Any]) -> list[tuple[object, ...]]:
    """Return TSV: saved, unproved or lost; key, dtype, shape, why."""
    reasons = {row["key"]: row["reason"] for row in document["unproved"]}
    rows: list[tuple[object, ...]] = []
    for row in document["tensors"]:
        status = "unproved" if row["proof"] is None else "saved"
        shape = ",".join(map(str, row["shape"]))
        rows.append((status, row["to"], row["dtype"], shape, reasons.get(row["from"])))
    for row in document["lost"]:
        shape = ",".join(map(str, row["shape"] or ()))
        reason = row["reason"] if row["key"] else f"tensors whose keys cannot be read: {row['reason']}"
        if row["key"] and row["code"] == SHARD_MISSING and row["file"]:
            reason = f"shard {os.path.basename(row['file'])} is missing"
        rows.append(("lost", row["key"], row["dtype"], shape, reason))
    return rows


def _list(what: str, rows: list[tuple[str, str]], style: str) -> None:
    if not rows:
        return
    columns = [render.Column(what.upper(), fold=True), render.Column("WHY", prose=True)]
    shown = [[render.escape(key), render.escape(why)] for key, why in rows[:_MOST_LISTED]]
    render.table(columns, shown, [style] * len(shown))
    if len(rows) > _MOST_LISTED:
        render.note(f"{len(rows) - _MOST_LISTED:,} more {what}; --json lists them")
