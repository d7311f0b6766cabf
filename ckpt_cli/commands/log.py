"""`ckpt log`: a run over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from formats.errors import CheckpointError
from formats.find.directory import Directory, directories_below
from formats.tf.run.state_file import FILE_NAME

from ..api.log import LogOptions, run_history
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
from ..operations.runs.state import places_of
from ..render import base as render
from ..render import log as render_log
from ..render.report import SCREEN, say_all, say_empty

if TYPE_CHECKING:
    from formats.location import Location


@subcommand("log", paged=True)
@path_argument("directory", metavar="[DIR]", default=".", shell_complete=completing("directories"))
@choosing
@no_values_option("Read only the indexes: no norms, no NaN.")
@click.option("--tag", metavar="TAG", help="Show this scalar of the event files instead of the loss.")
@click.option(
    "--events",
    metavar="DIR",
    type=LocalPath(),
    help="Read event files from DIR instead.",
    shell_complete=completing("directories"),
)
@recursive_option()
@jobs_option
@json_option
@color_option
def command(directory: Location, **options: Any) -> int:
    """Show a run over time, checkpoint by checkpoint.

    For each checkpoint: its step, how many tensors changed since the one before, the norm of
    the weights, NaN in any tensor, and the loss if TensorBoard's event files are in the same
    directory. Then curves, the first NaN, and weights that never changed. Stored checksums show
    what changed; unchanged tensors are not read again. With -R, shows every run in DIR and its
    subdirectories, and each line begins with the run's path.

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
    asked = LogOptions(selection_of(options), not options["no_values"], options["tag"], options["events"])
    run = run_history(path, state_path, asked, options["workers"], SCREEN)
    if not options["as_json"] and not render.is_terminal():
        prefix = [path] * options["recursive"]
        render.tsv([*prefix, *render_log.tsv_row(row)] for row in run)
    elif not options["as_json"] and run:
        if options["recursive"]:
            render.title(path)
        render_log.show(list(run), run.latest, run.curve, run.frozen)
    return run.to_dict()
