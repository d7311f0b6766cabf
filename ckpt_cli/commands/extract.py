"""`ckpt extract`: tensors of a checkpoint into files that other programs read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from formats.core.chunks import view_of

from ..api.changing import keeps_stored
from ..api.extract import RULES, ExtractOptions, output_named, planned_extract
from ..api.writing import carry_out
from ..cli.execute import print_result
from ..cli.help import subcommand
from ..cli.option_rules import option_rules
from ..cli.options import (
    cast_option,
    changes_of,
    choosing,
    color_option,
    config_option,
    dry_run_option,
    jobs_option,
    json_option,
    keys_option,
    layout_option,
    map_option,
    output_option,
    overwrite_option,
    path_argument,
    selection_of,
    writing_of,
)
from ..operations.convert.extract import stream
from ..render.report import SCREEN

if TYPE_CHECKING:
    from formats.location import Location


@subcommand("extract")
@path_argument()
@choosing
@output_option(
    "OUT",
    "Write .npy, .npz, .safetensors, .h5, .json, DIR/ or -.",
    allow_dash=True,
    required=True,
)
@cast_option
@map_option
@config_option
@layout_option
@keys_option
@overwrite_option("Replace OUT if it exists.\fIn a directory, replaces only the files that are written.")
@dry_run_option()
@jobs_option
@json_option
@color_option
@option_rules(*RULES)
def command(path: Location, target: Location, **options: Any) -> int:
    """Write tensors, or parts of them, to files for other programs.

    KEY can end in a slice, as in kernel[0:10,:]. A checksum covers a whole tensor, so all of the
    tensor is read, but only the slice is kept in memory. HDF5 and safetensors files have no
    checksums, so only the slice is read. For stdout, a tensor with a checksum is read twice: once
    to compare the checksum, and once to write it. Damaged values are never written.

    A .npy file and stdout take one tensor. A directory gets one .npy file per tensor. The key
    becomes the path of that file, which is always inside the directory.

    \b
      ckpt extract run/ckpt-10 net/l1/kernel -o kernel.npy
      ckpt extract run/ckpt-10 --kind variable -o weights.safetensors
      ckpt extract run/ckpt-10 'net/l1/kernel[0,:3]' -o - > first_three.npy
    """
    context = click.get_current_context()
    output = output_named(target)
    to_stdout = output.kind == "stdout" and not options["dry_run"]
    if to_stdout and options["as_json"]:
        raise click.UsageError("-o - and --json both write to stdout", context)
    if to_stdout and sys.stdout.isatty():
        raise click.UsageError("-o - writes binary data; redirect it to a file or a pipe", context)
    chosen = selection_of(options)._replace(keep=options["matches"])
    parsed = ExtractOptions(
        options["keys"],
        chosen,
        changes_of(options),
        options["cast"],
        keeps_stored(options["key_names"]),
        writing_of(options),
    )
    with planned_extract(path, output, parsed, SCREEN) as job:
        if to_stdout:
            for chunk in stream(job.plan, check_first=True):
                sys.stdout.buffer.write(view_of(chunk))
        else:
            print_result(carry_out(job, SCREEN), as_json=options["as_json"])
    return 0
