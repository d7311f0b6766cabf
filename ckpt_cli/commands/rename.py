"""`ckpt rename`: the same checkpoint under other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from formats.core.words import counted

from ..cli.execute import How, carry_out, tell
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
)
from ..operations.convert.rename import plan_rename
from ..render import base as render
from ..render.report import opened

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
    _check_usage(target, options)
    if target is None:
        source.is_object()  # raises for what is only read, before anybody is asked for it
    rules = changes_of(options).rules()
    if not rules:
        raise click.UsageError(
            "nothing to change: give --sub, --strip-prefix, --add-prefix or --map", _context()
        )
    with opened(source) as reader:
        rename = plan_rename(
            reader,
            target,
            rules,
            overwrite=options["overwrite"],
            link=options["link"],
            full_names=options["full_names"],
        )
        how = How.of(options, rename.plan.target)
        how = how._replace(overwrite=how.overwrite or target is None)
        outcome = carry_out(rename.plan, rename.run, how, nbytes=rename.nbytes)
    tell(rename.plan, outcome, how)
    if render.is_terminal() and not options["as_json"]:
        render.note(f"{len(rename.changed):,} of {counted(len(rename.plan.moves), 'key')} changed")
    return 0


def _context() -> click.Context:
    return click.get_current_context()


def _check_usage(target: str | None, options: dict[str, Any]) -> None:
    if options["in_place"] and target is not None:
        raise click.UsageError("--in-place changes SRC itself, and takes no DST", _context())
    if not options["in_place"] and target is None:
        raise click.UsageError("missing argument DST; to change SRC itself: --in-place", _context())
