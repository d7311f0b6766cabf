"""`ckpt extract`: tensors of a checkpoint into files that other programs read."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from formats.core.chunks import view_of

from ..cli.execute import How, carry_out, note_cast, tell
from ..cli.help import subcommand
from ..cli.option_rules import needs, option_rules
from ..cli.options import (
    cast_option,
    changes_of,
    choosing,
    color_option,
    config_option,
    dry_run_option,
    jobs_option,
    json_option,
    layout_option,
    map_option,
    output_option,
    overwrite_option,
    path_argument,
    selection_of,
)
from ..operations.convert.extract import Output, output_of, plan_extract, stream, write
from ..operations.convert.framework_layout import lay_out
from ..operations.convert.plan import NONE, SENT
from ..operations.select.slices import TensorSlice, find_parts, whole
from ..render.report import opened

if TYPE_CHECKING:
    from formats.location import Location

    from ..operations.convert.plan import Plan


@subcommand("extract")
@path_argument()
@choosing
@output_option(
    "OUT",
    "A .npy, .npz, .safetensors, .h5, .json; DIR/; or -.",
    allow_dash=True,
    required=True,
)
@cast_option
@map_option
@config_option
@layout_option
@overwrite_option("Replace what is there; of a directory, files.")
@dry_run_option()
@jobs_option
@json_option
@color_option
@option_rules(needs("--config", "--layout", "--map"))
def command(path: Location, target: Location, **options: Any) -> int:
    """Write tensors, or parts of them, as files others can read.

    KEY may have a slice, as in kernel[0:10,:].  A checksum covers a tensor as a whole, so
    all of it is read, and no more than the slice is held; HDF5 and safetensors have no
    checksums, and no more than the slice is read.  To stdout, a tensor with a checksum is
    read twice: what is damaged is never written.

    A .npy file and stdout take one tensor, a directory one .npy file for each, its
    path made of the key and never outside of the directory.

    \b
      ckpt extract run/ckpt-10 net/l1/kernel -o kernel.npy
      ckpt extract run/ckpt-10 --kind variable -o weights.safetensors
      ckpt extract run/ckpt-10 'net/l1/kernel[0,:3]' -o - > first_three.npy
    """
    context = click.get_current_context()
    try:
        output = output_of(target)
    except ValueError as error:
        raise click.UsageError(str(error), context) from error
    to_stdout = output.kind == "stdout" and not options["dry_run"]
    if to_stdout and options["as_json"]:
        raise click.UsageError("-o - and --json both want stdout", context)
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("-o - writes bytes, which no terminal shows; redirect them", context)
    selection = selection_of(options)._replace(keep=options["matches"])
    layout = changes_of(options).framework_layout(every_map=True)
    with opened(path) as reader:
        parts = find_parts(reader, options["keys"], selection)
        by_name = bool(options["keys"] or selection.keep or selection.kinds or selection.dtype)
        laid = lay_out(reader, whole(parts, path), layout) if layout is not None else None
        if laid is not None:
            parts = [TensorSlice(key, spec) for key, spec in laid.reader.specs.items()]
        plan = plan_extract(
            laid.reader if laid else reader, parts, output, cast=options["cast"], by_name=by_name
        )
        plan = laid.told(plan) if laid else plan
        note_cast(plan, options["cast"])
        _carry_out(plan, output, options)
    return 0


def _carry_out(plan: Plan, output: Output, options: dict[str, Any]) -> None:
    how = How.of(options, plan.target)
    if output.kind == "stdout" and not how.dry_run:
        for chunk in stream(plan, check_first=True):
            sys.stdout.buffer.write(view_of(chunk))
        return
    how = how._replace(proof=how.proof if output.is_proven or how.proof == SENT else NONE)
    tell(plan, carry_out(plan, partial(write, plan, output), how), how)
