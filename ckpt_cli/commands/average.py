"""`ckpt average`: the element-wise mean of checkpoints."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from formats.find.opening import is_directory, locate
from formats.find.resolve import spelling
from formats.find.suffixes import refuse_false_suffix

from ..cli.execute import How, carry_out, tell
from ..cli.help import subcommand
from ..cli.options import (
    LocalPath,
    color_option,
    dry_run_option,
    json_option,
    output_option,
    overwrite_option,
    sharing_options,
    update_state_option,
    verify_options,
)
from ..operations.convert.average import last_of, plan_average
from ..operations.convert.execute import execute
from ..operations.select.arguments import each_once
from ..render import base as render
from ..render.report import opened

if TYPE_CHECKING:
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation


@subcommand("average")
@click.argument("sources", nargs=-1, required=True, type=LocalPath(), metavar="SRC...")
@output_option("DST", "Where to write.", required=True)
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Take the N newest checkpoints of a directory."
)
@verify_options("what was computed")
@update_state_option
@overwrite_option()
@dry_run_option()
@sharing_options
@json_option
@color_option
def command(sources: tuple[Location, ...], target: Location, last: int | None, **options: Any) -> int:
    """Write the mean of checkpoints, element by element.

    Floating tensors are averaged in float64 and rounded once to their own dtype;
    integers, strings, iterators and the object graph are those of the last SRC, as is
    the format.  All sources must agree in keys, dtypes and shapes.  Paths that name one
    checkpoint, as run/ckpt-* does, are that one once; checkpoints of one name are taken in
    the order of steps.

    \b
      ckpt average run/ckpt-8 run/ckpt-9 run/ckpt-10 -o run/average-10
      ckpt average --last 5 run -o run/average
    """
    locations = _locate(sources, last, target)
    with ExitStack() as stack:
        readers = [stack.enter_context(opened(location, noted=False)) for location in locations]
        own = readers[-1].format
        why = f"averaging keeps the format, {own.name}"
        refuse_false_suffix(own, target, why, "for another format, convert the sources, or the result")
        plan = plan_average(readers, target)
        how = How.of(options, target)
        outcome = carry_out(plan, partial(execute, plan), how, label=f"mean of {len(readers)}")
        tell(plan, outcome, how)
    return 0


def _locate(sources: tuple[Location, ...], last: int | None, target: Location) -> list[CheckpointLocation]:
    """Return what to average: the sources, each once, or the newest of a directory."""
    context = click.get_current_context()
    notes: list[str] = []
    if last is None:
        if len(sources) == 1:
            what = "; the newest of a directory are --last N DIR" if is_directory(sources[0]) else ""
            raise click.UsageError(f"the mean of one checkpoint is that checkpoint{what}", context)
        locations, notes = each_once([locate(source) for source in sources])
    else:
        if len(sources) != 1 or not is_directory(sources[0]):
            raise click.UsageError("--last wants one directory", context)
        from formats.find.directory import Directory

        locations = last_of(Directory(sources[0]), last, target)
    for text in notes:
        render.note(text)
    for location in locations:
        render.note(location.note if last is None and location.note else spelling(location))
    return locations
