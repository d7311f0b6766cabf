"""`ckpt extract`: tensors of a checkpoint into files that other programs read."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from formats.core.chunks import view_of
from formats.store.workers import workers

from ..operations.choose.parts import find_parts
from ..operations.move.extract import Output, output_of, plan_extract, stream, write
from ..options import (
    LocalPath,
    cast_option,
    choosing,
    color_option,
    jobs_option,
    json_option,
    path_argument,
    selection_of,
)
from ..render import base as render
from ..render.report import note_cast, opened, report

if TYPE_CHECKING:
    from ..operations.move.transfer import Plan


@click.command("extract")
@path_argument()
@choosing
@click.option(
    "-o",
    "--output",
    "target",
    required=True,
    type=LocalPath(allow_dash=True),
    metavar="OUT",
    help="A .npy, .npz, .safetensors, .h5 or .json file, a directory (DIR/), or - for stdout.",
)
@cast_option
@click.option("--overwrite", is_flag=True, help="Replace what is there; of a directory, files.")
@click.option("-n", "--dry-run", is_flag=True, help="Print the plan and write nothing.")
@jobs_option
@json_option
@color_option
def command(path: str, target: str, **options: Any) -> int:
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
    with opened(path) as reader:
        parts = find_parts(reader, options["keys"], selection)
        by_name = bool(options["keys"] or selection.keep or selection.kinds or selection.dtype)
        plan = plan_extract(reader, parts, output, cast=options["cast"], by_name=by_name)
        note_cast(plan, options["cast"])
        _carry_out(plan, output, options)
    return 0


def _carry_out(plan: Plan, output: Output, options: dict[str, Any]) -> None:
    overwrite, dry_run = options["overwrite"], options["dry_run"]
    if output.kind == "stdout" and not dry_run:
        for chunk in stream(plan, check_first=True):
            sys.stdout.buffer.write(view_of(chunk))
        return
    proven = output.is_proven and not dry_run
    with (
        workers(options["jobs"]) as pool,
        render.progress(plan.nbytes, os.path.basename(plan.target), render.passes(proven)) as advance,
    ):
        notes = write(plan, output, overwrite=overwrite, dry_run=dry_run, workers=pool, advance=advance)
    for text in notes:
        render.note(text)
    report(plan, as_json=options["as_json"], dry_run=options["dry_run"], verified=proven)
