"""`ckpt rename`: the same checkpoint under other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from formats.core.words import counted

from ..api.rename import RenameOptions, check_places, planned_rename
from ..api.writing import carry_out
from ..cli.execute import print_result
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
@click.option("--full-names", is_flag=True, help="Also rename the full names in the object graph.")
@click.option("--in-place", is_flag=True, help="Change SRC itself, without DST.")
@link_option()
@verify_options()
@update_state_option
@overwrite_option()
@dry_run_option()
@jobs_option
@json_option
@color_option
def command(source: Location, target: Location | None, **options: Any) -> int:
    """Rename the tensors of a checkpoint; values stay the same.

    In an object-based checkpoint, the options change object paths, as ls -l shows them. They
    rename edges of the object graph, and so also keys and slot variables. In other formats, they
    change keys. The slots of a variable are renamed with it. They apply in this order: --map,
    --strip-prefix, --sub, --add-prefix. It is an error if two tensors get the same key.

    For TensorFlow checkpoints, only the index is rewritten, and the object graph goes to a
    small shard of its own. Data shards are copied. Each tensor is compared with SRC and with its
    stored checksum. With --link, and always with --in-place, the shards are shared and values are not
    read. At every moment, SRC is either the complete old or the complete new checkpoint.

    In a bucket, --in-place replaces only the index. It rejects a checkpoint with an object graph,
    because the graph is in a data shard. Use ckpt convert to write a renamed copy of such a checkpoint.

    \b
      ckpt rename run/ckpt-10 out/ckpt-10 --sub '^net/=>model/'
      ckpt rename --in-place bert_model.ckpt --strip-prefix bert/
      ckpt rename run/ckpt-10 out/ckpt-10 --map names.tsv --link --dry-run
    """
    check_places(target, in_place=options["in_place"])
    parsed = RenameOptions(changes_of(options), options["full_names"], options["link"], writing_of(options))
    with planned_rename(source, target, parsed, SCREEN) as (job, rename):
        written = carry_out(job, SCREEN)
    if not options["as_json"]:
        render.note(f"{len(rename.changed):,} of {counted(len(rename.plan.moves), 'key')} changed")
    print_result(written, as_json=options["as_json"])
    return 0
