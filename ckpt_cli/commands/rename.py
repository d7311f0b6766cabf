"""`ckpt rename`: the same checkpoint under other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from formats.core.words import counted

from ..api.rename import RenameOptions, check_places, planned_rename
from ..api.writing import carry_out
from ..cli.execute import tell
from ..cli.help import subcommand
from ..cli.options import (
    changes_of,
    changing,
    color_option,
    dry_run_option,
    jobs_option,
    json_option,
    link_option,
    overwrite_option,
    path_argument,
    target_argument,
    update_state_option,
    verify_options,
    writing_of,
)
from ..render import base as render
from ..render.report import SCREEN

if TYPE_CHECKING:
    from formats.location import Location


@subcommand("rename")
@path_argument("source", metavar="SRC")
@target_argument("[DST]", required=False)
@changing
@click.option("--full-names", is_flag=True, help="Change the full names of an object graph, too.")
@click.option("--in-place", is_flag=True, help="Change SRC itself; there is no DST then.")
@link_option()
@verify_options()
@update_state_option
@overwrite_option()
@dry_run_option()
@jobs_option
@json_option
@color_option
def command(source: Location, target: Location | None, **options: Any) -> int:
    """Give tensors other keys; the format and the values stay.

    In an object-based checkpoint rules see object paths, as ls -l shows them: edges of
    the object graph are changed, and keys and slot variables follow.  Elsewhere they see
    keys, and the slots of a variable follow it.  Rules apply in this order: --map,
    --strip-prefix, --sub, --add-prefix.  Two tensors on one key are an error.

    Of TensorFlow's checkpoints only the index is written, and the object graph in a
    small shard of its own.  Data shards are copied, each tensor compared with SRC's and its
    checksum; with --link they are shared with SRC, and with --in-place always, and their
    values are not read.  At every instant SRC is the old or the new checkpoint.  In a bucket
    --in-place puts a new index, where there is no object graph; ckpt convert copies there.

    \b
      ckpt rename run/ckpt-10 out/ckpt-10 --sub '^net/=>model/'
      ckpt rename --in-place bert_model.ckpt --strip-prefix bert/
      ckpt rename run/ckpt-10 out/ckpt-10 --map names.tsv --link --dry-run
    """
    check_places(target, in_place=options["in_place"])
    asked = RenameOptions(changes_of(options), options["full_names"], options["link"], writing_of(options))
    with planned_rename(source, target, asked, SCREEN) as (job, rename):
        written = carry_out(job, SCREEN)
    if not options["as_json"]:
        render.note(f"{len(rename.changed):,} of {counted(len(rename.plan.moves), 'key')} changed")
    tell(written, as_json=options["as_json"])
    return 0
