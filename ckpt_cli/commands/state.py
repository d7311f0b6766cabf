"""`ckpt state`: the state file `checkpoint` of a directory, shown and mended."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import click

from formats.core.words import command_line, counted
from formats.errors import CheckpointNotFoundError
from formats.find.directory import no_checkpoints
from formats.tf.run.leftovers import Freed

from ..cli.help import subcommand
from ..cli.option_rules import needs, option_rules
from ..cli.options import color_option, completing, dry_run_option, json_option, path_argument
from ..operations.runs.state import Run
from ..operations.runs.state_changes import RequestedChanges, carry_out, make_plan
from ..render import base as render

if TYPE_CHECKING:
    from formats.location import Location

    from ..operations.runs.state import StateEntry
    from ..operations.runs.state_changes import Change


_STYLES = {"delete": "red", "remove": "red", "drop": "yellow", "set": "green", "add": "green"}


_PARTS = "--fix does not see partial uploads of killed processes; set a lifecycle rule on the bucket for them"


@subcommand("state")
@path_argument("directory", metavar="[DIR]", default=".", shell_complete=completing("directories"))
@click.option(
    "--set",
    "latest",
    metavar="NAME",
    help="Make NAME the latest checkpoint.",
    shell_complete=completing("checkpoints_of_directory"),
)
@click.option("--fix", is_flag=True, help="Make the state file match the directory.")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Delete all but the N latest checkpoints.")
@dry_run_option("Print what would be done and do nothing.")
@json_option
@color_option
@option_rules(needs("--dry-run", "--set", "--fix", "--keep"))
def command(directory: Location, *, as_json: bool, dry_run: bool, **wishes: Any) -> int:
    """Show or change the state file `checkpoint` of a directory.

    The state file names the latest checkpoint and the checkpoints before it. TensorFlow reads only
    this file, and ignores all other checkpoints in the directory. Without options, shows the entries
    of the state file, whether they exist, and the leftovers of interrupted saves.

    --fix writes relative paths into the state file, drops missing checkpoints and adds unlisted
    ones. It puts back a checkpoint that an interrupted command moved aside. It removes leftovers of
    interrupted saves first, so --fix also works if they have filled the disk. It does not touch
    files that a process on this machine is writing. Do not run it while another machine saves into
    the directory.

    In a bucket, --set and --fix replace the state file. --fix also deletes expired locks, and
    objects that interrupted conversions with --resume have uploaded. It cannot see the partial uploads
    of a killed process. Let a lifecycle rule of the bucket remove them.

    --keep replaces the state file. Then it deletes all but the N latest complete checkpoints, with
    all their files. On a full disk, it deletes first. Files that a symbolic link in DIR points to
    are not deleted.

    \b
      ckpt state run/                   what it lists, and what is wrong with it
      ckpt state --fix run/             after a directory was moved, or a save was killed
      ckpt state --set ckpt-8 run/      continue training from there
      ckpt state --keep 3 -n run/       what would be deleted
    """
    run = Run(directory)
    request = RequestedChanges(**wishes)
    if request == RequestedChanges():
        return _show(run, as_json=as_json)
    plan = make_plan(run, request)
    if request.fix and run.is_in_store:
        render.note(_PARTS)
    for text in plan.warnings:
        render.warning(text)
    if not dry_run:
        carry_out(run, plan)
        try:
            run = Run(directory)
        except CheckpointNotFoundError:  # a folder of a bucket disappears with its last object
            run.leftovers = ()
    if as_json:
        render.document(run.document() | {"changes": [change.document() for change in plan.changes]})
        return 0
    _show_changes(plan.changes, dry_run=dry_run)
    if not plan.changes:
        render.note(f"{run.path}: nothing to change")
    return 0


def _show_changes(changes: list[Change], *, dry_run: bool) -> None:
    if not render.is_terminal():
        render.tsv((change.action, change.name, change.why, change.nbytes) for change in changes)
    elif changes:
        columns = [
            render.Column("WOULD" if dry_run else "DONE"),
            render.Column("NAME", fold=True),
            render.Column("SIZE", right=True),
            render.Column("WHY", prose=True),
        ]
        rows = [
            [
                change.action,
                render.escape(change.name),
                render.human_size(change.nbytes) if change.nbytes else "",
                render.escape(change.why),
            ]
            for change in changes
        ]
        render.table(columns, rows, [_STYLES.get(change.action, "") for change in changes])


# Showing --------------------------------------------------------------------------


def _show(run: Run, *, as_json: bool) -> int:
    for text in run.directory.notes:
        render.note(text)
    if as_json:
        render.document(run.document() | {"changes": []})
    elif render.is_terminal():
        _show_tables(run)
    else:
        _show_rows(run)
    _show_flaws(run)
    return 1 if run.is_empty else 0


def _status(run: Run, entry: StateEntry) -> str:
    latest = "latest" if entry == run.latest else ""
    flaw = "missing" if entry.location is None else "stale path" if entry.is_stale else ""
    return ", ".join(filter(None, [latest, flaw]))


def _show_rows(run: Run) -> None:
    """Print TSV: what it is, name, timestamp, status."""
    latest = run.latest
    for entry in run.entries:
        what = "latest" if entry == latest else "checkpoint"
        exists = "exists" if entry.location is not None else "missing"
        render.tsv([(what, entry.name, entry.timestamp, exists)])
    render.tsv(("unlisted", member.name, None, "exists") for member in run.unlisted)
    render.tsv(
        ("leftover", leftover.path.relative_to(run.path), None, leftover.what) for leftover in run.leftovers
    )


def _when(seconds: float | None) -> str:
    if seconds is None:
        return ""
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # A state file can hold any number.
        return str(seconds)


def _show_tables(run: Run) -> None:
    render.title(run.state_path, "" if run.state else "missing" if not run.has_file else "unreadable")
    rows, styles = [], []
    for entry in run.entries:
        rows.append([render.escape(entry.name), _when(entry.timestamp), _status(run, entry)])
        styles.append("red" if entry.location is None else "green" if entry == run.latest else "")
    for member in run.unlisted:
        rows.append([render.escape(member.name), _when(member.modified), "not listed"])
        styles.append("yellow")
    if rows:
        render.table(
            [render.Column("NAME", fold=True), render.Column("SAVED"), render.Column("")], rows, styles
        )
    if run.leftovers:
        _show_leftovers(run)


def _show_leftovers(run: Run) -> None:
    columns = [
        render.Column("LEFTOVER", fold=True),
        render.Column("SIZE", right=True),
        render.Column("WHAT", prose=True),
    ]
    freed = Freed()
    rows = [
        [
            render.escape(leftover.path.relative_to(run.path)),
            render.human_size(leftover.frees(freed)),
            render.escape(leftover.what) + (f" ({leftover.in_the_way})" if leftover.in_the_way else ""),
        ]
        for leftover in run.leftovers
    ]
    render.lines([""])
    render.table(columns, rows, ["yellow"] * len(rows))


def _show_flaws(run: Run) -> None:
    """Say on stderr what is wrong, and what mends it."""
    if run.is_empty:
        if run.directory.members:  # only these are neither listed nor unlisted
            way = f"to list the steps: {command_line('ls', run.path)}"
            render.error_lines(
                f"{run.path}: the checkpoints are steps of Orbax, which has no state file", (way,)
            )
            return
        nothing = no_checkpoints(run.path, "no checkpoints and no state file")
        render.error_lines(str(nothing), nothing.hints)
        return
    missing = sum(entry.location is None for entry in run.entries)
    stale = sum(entry.is_stale for entry in run.entries)
    flaws = [
        f"{counted(count, noun)} {'is' if count == 1 else 'are'} {what}"
        for count, noun, what in (
            (missing, "listed checkpoint", "missing"),
            (stale, "checkpoint", "listed with an outdated path"),
            (len(run.unlisted), "checkpoint", "not listed"),
            (len(run.leftovers), "leftover", "from interrupted saves"),
        )
        if count
    ]
    if flaws:
        way = "" if run.is_only_read else f"; to fix this: {command_line('state', '--fix', run.path)}"
        render.note(f"{run.path}: {', '.join(flaws)}{way}")
