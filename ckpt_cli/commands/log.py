"""`ckpt log`: a run over time."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Any

import click

from formats.errors import CheckpointError
from formats.find.directory import Directory, directories_below
from formats.tf.run.state_file import FILE_NAME

from ..api.log import LONGEST_INTERVAL, RULES, LogOptions, follow_run, run_history
from ..cli.help import subcommand
from ..cli.option_rules import option_rules
from ..cli.options import (
    LocalPath,
    NumberRange,
    choosing,
    color_option,
    completing,
    fail_on_option,
    failures,
    jobs_option,
    json_option,
    no_values_option,
    path_argument,
    recursive_option,
    selection_of,
)
from ..cli.signals import EndedBySignal
from ..operations.runs.state import places_of
from ..render import base as render
from ..render import log as render_log
from ..render.report import SCREEN, print_empty, print_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.location import Location


@subcommand("log", paged=True)
@path_argument("directory", metavar="[DIR]", default=".", shell_complete=completing("directories"))
@choosing
@no_values_option("Read only the indexes, and show no norms and no NaN.")
@click.option("--tag", metavar="TAG", help="Show this scalar of the event files instead of the loss.")
@click.option(
    "--events",
    metavar="DIR",
    type=LocalPath(),
    help="Read event files from DIR. [default: the directory of the run]",
    shell_complete=completing("directories"),
)
@click.option(
    "--follow",
    is_flag=True,
    help="Wait for new checkpoints, and print a line for each.\fA checkpoint gets its line once it is "
    "complete. "
    "If its format writes the index last, it is complete as soon as it opens. Any other file is complete "
    "if its size and time did not change from one look to the next. --json prints one document per line. "
    "Ctrl-C ends the command with exit code 130.",
)
@click.option(
    "--interval",
    type=NumberRange(0, LONGEST_INTERVAL, min_open=True),
    metavar="S",
    help="Check DIR every S seconds. [default: 2; URLs: 30]\fThis option needs --follow.",
)
@fail_on_option(
    "Exit 1 if any value is nan or inf.\fWith --follow, exit at the first such checkpoint.",
    callback=failures,
    metavar="nan,inf",
    shell_complete=completing("failures"),
)
@recursive_option()
@jobs_option
@json_option
@color_option
@option_rules(*RULES)
def command(directory: Location, **options: Any) -> int:
    """Show a run over time, checkpoint by checkpoint.

    For each checkpoint, prints its step, how many tensors changed since the previous one, the
    norm of the weights, and the number of NaN values. Also prints the loss, if the directory contains
    TensorBoard's event files. Then prints curves, the first NaN, and weights that never changed.
    Stored checksums show what changed, so unchanged tensors are not read again. With -R, shows
    every run in DIR and its subdirectories, and each line begins with the run's path.

    \b
      ckpt log run/
      ckpt log run/ --kind variable --exclude '*/bias'
      ckpt log model_dir --tag accuracy --events model_dir/eval
      ckpt log run/ --no-values --json          # instantly
      ckpt log -R runs/ --no-values
      ckpt log run/ --follow --fail-on nan      # while it trains: exit 1 at the first NaN
    """
    path, state_path = places_of(directory)
    if options["follow"]:
        return _follow(path, state_path, options)
    if options["recursive"]:
        return _recursively(path, options)
    document = _log_one(path, state_path, options)
    if options["as_json"]:
        render.document(document)
    return _code(document["checkpoints"], options) if document["checkpoints"] else print_empty(path)


def _code(rows: Iterable[dict[str, Any]], options: dict[str, Any]) -> int:
    """Return 1 where a checkpoint has values of the sorts that are to fail the command."""
    return int(any(row[name] for row in rows for name in options["fail_on"]))


def _follow(path: Location, state_path: Location, options: dict[str, Any]) -> int:
    """Print a line for each complete checkpoint, and return at the first that fails the command."""
    is_table = render.is_terminal() and not options["as_json"]
    printer = render_log.LinePrinter()
    found = follow_run(path, state_path, _parsed(options), options["workers"], SCREEN)
    try:
        for run in found:
            if options["as_json"]:
                render.line_document(run.to_dict())
            elif is_table:
                printer.show(run[0], run.curve)
            else:
                render.tsv([render_log.tsv_row(run[0])])
            sys.stdout.flush()
            if _code([run[0]._asdict()], options):
                return 1
    except KeyboardInterrupt:
        if render.is_terminal(sys.stderr):
            raise
        raise EndedBySignal(signal.SIGINT) from None  # for which click prints no empty line
    raise AssertionError  # it runs until it is interrupted


def _recursively(path: Location, options: dict[str, Any]) -> int:
    """Show each run below; directories that cannot be read are reported, and raised at the end."""
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
    print_errors(errors)
    rows = [row for document in documents for row in document["checkpoints"]]
    return _code(rows, options) if rows else print_empty(path)


def _parsed(options: dict[str, Any]) -> LogOptions:
    selection, values = selection_of(options), not options["no_values"]
    return LogOptions(selection, values, options["tag"], options["events"], options["interval"])


def _log_one(path: Location, state_path: Location, options: dict[str, Any]) -> dict[str, Any]:
    """Show one run, unless as JSON, and return its document."""
    run = run_history(path, state_path, _parsed(options), options["workers"], SCREEN)
    if not options["as_json"] and not render.is_terminal():
        prefix = [path] * options["recursive"]
        render.tsv([*prefix, *render_log.tsv_row(row)] for row in run)
    elif not options["as_json"] and run:
        if options["recursive"]:
            render.title(path)
        render_log.show(list(run), run.latest, run.curve, run.frozen)
    return run.to_dict()
