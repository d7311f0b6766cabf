"""`ckpt average`: the element-wise mean of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..api.average import planned_average
from ..api.writing import carry_out
from ..cli.execute import print_result
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
    writing_of,
)
from ..render.report import SCREEN

if TYPE_CHECKING:
    from formats.location import Location


@subcommand("average")
@click.argument("sources", nargs=-1, required=True, type=LocalPath(), metavar="SRC...")
@output_option("DST", "Write the mean to DST.", required=True)
@click.option(
    "--last", type=click.IntRange(1), metavar="N", help="Average the N newest checkpoints of a directory."
)
@verify_options("the computed means")
@update_state_option
@overwrite_option()
@dry_run_option()
@sharing_options
@json_option
@color_option
def command(sources: tuple[Location, ...], target: Location, last: int | None, **options: Any) -> int:
    """Write the mean of checkpoints, element by element.

    Floating-point tensors are averaged in float64 and rounded once to their own dtype.
    Everything else (integers, strings, iterators, the object graph) and the format come
    from the last SRC. All sources must have the same keys, dtypes and shapes. If several
    paths belong to one checkpoint, as in run/ckpt-*, it counts once. Checkpoints whose names
    differ only in the step are sorted by step.

    \b
      ckpt average run/ckpt-8 run/ckpt-9 run/ckpt-10 -o run/average-10
      ckpt average --last 5 run -o run/average
    """
    with planned_average(sources, target, last, writing_of(options), SCREEN) as job:
        print_result(carry_out(job, SCREEN), as_json=options["as_json"])
    return 0
