"""`ckpt convert`: the same tensors in another format, or in another checkpoint's structure."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import click

from formats.atomic import replace_file
from formats.directory import Directory
from formats.opening import is_directory, open_checkpoint, open_location
from formats.tf.state_file import FILE_NAME, StateFile

from .. import render
from ..operations import convert, pairing, transfer
from ..operations.keras_plan import read_config
from ..operations.keys import renamed
from ..operations.latest import make_latest
from ..operations.select import choose
from ..options import (
    cast_option,
    changing,
    choosing,
    color_option,
    json_option,
    path_argument,
    rules_of,
    selection_of,
)
from ..report import report

if TYPE_CHECKING:
    from formats.model import CheckpointReader, Format

__all__ = ["command"]


@click.command("convert")
@path_argument("source", metavar="SRC")
@path_argument("target", metavar="DST")
@choosing
@changing
@click.option(
    "--to", "to", metavar="FORMAT", help="Format of DST: an id, or object, name, v1, h5, weights-h5."
)
@click.option("--like", type=click.Path(), metavar="TEMPLATE", help="Keys, graph and layout from TEMPLATE.")
@click.option(
    "--config", type=click.Path(), metavar="FILE", help="Keras model configuration: JSON, or a file with it."
)
@click.option(
    "--pair-by-shape", is_flag=True, help="With --like, also pair shapes that occur once on both sides."
)
@click.option("--partial", is_flag=True, help="With --like, keep TEMPLATE's value where SRC has none.")
@click.option(
    "--save-map", type=click.Path(), metavar="FILE", help="With --like, write the pairing, for --map."
)
@click.option("--weights-only", is_flag=True, help="The same as --kind variable.")
@cast_option
@click.option(
    "--shard-size", type=click.IntRange(1), metavar="BYTES", help="Bound the bytes of a data shard."
)
@click.option("--merge-slices", is_flag=True, help="Write partitioned tensors whole.")
@click.option("--no-verify", is_flag=True, help="Do not compare the result with its source.")
@click.option("--update-state", is_flag=True, help="Make DST the latest in its directory's checkpoint file.")
@click.option("--overwrite", is_flag=True, help="Replace DST where it is there already.")
@click.option("-n", "--dry-run", is_flag=True, help="Print the plan and write nothing.")
@click.option(
    "--each", is_flag=True, help="Convert all checkpoints of the directory SRC into the directory DST."
)
@json_option
@color_option
def command(source: str, target: str, **options: Any) -> int:
    """Convert a checkpoint into another format, or into the structure of another.

    Without --to the suffix of DST decides; without one it is SRC's own format if that
    is TensorFlow's, else tf-object.  Names and objects turn into each other through
    full names, slots into the slot variables of TensorFlow's optimizers.  With --like
    keys, graph and layout come from TEMPLATE and values from SRC, paired by full name,
    then key, then object path, never by guess.

    Between Keras' formats, and between them and tf-object, the model's configuration says
    which tensor is which: SRC has one, or --config gives it.

    The result is opened again and compared bit for bit before it is moved into place.

    \b
      ckpt convert bert_model.ckpt tf2/bert-1 --to object
      ckpt convert run/ckpt-10 weights.safetensors --weights-only
      ckpt convert model.h5 model.weights.h5
      ckpt convert bert_model.ckpt tf2/bert-1 --like fresh/ckpt-1 --map names.tsv
    """
    if options["weights_only"]:
        if options["kind"]:
            raise click.UsageError("--weights-only is --kind variable; give one", click.get_current_context())
        options["kind"] = "variable"
    if options["each"]:
        return _convert_each(source, target, options)
    with open_checkpoint(source) as reader:
        if reader.location.note:
            render.note(reader.location.note)
        _convert_one(reader, target, options)
    return 0


def _convert_one(reader: CheckpointReader, target: str, options: dict[str, Any]) -> None:
    keys = choose(reader, selection_of(options))
    rules = rules_of(options)
    names = renamed(reader, rules) if rules else None
    for text in names.notes if names else ():
        render.note(text)
    if options["like"] is None:
        into = convert.target_format(reader, target, options["to"])
        config = read_config(options["config"]) if options["config"] else None
        settings = convert.Settings(options["cast"], options["merge_slices"], names, config)
        _carry_out(convert.plan_conversion(reader, keys, target, into, settings), options)
        return
    with open_checkpoint(options["like"]) as template:
        _check_format(template, reader, target, options["to"])
        strictness = pairing.Strictness(options["pair_by_shape"], options["partial"], options["cast"])
        plan, pairs = pairing.plan_like(reader, keys, template, target, strictness, names)
        if options["merge_slices"]:
            plan = plan._replace(slices={})
        if options["save_map"]:
            _save_map(options["save_map"], pairs)
        _carry_out(plan, options)


def _check_format(template: CheckpointReader, reader: CheckpointReader, target: str, to: str | None) -> None:
    """Refuse to write another format than TEMPLATE's where one is asked for."""
    into: Format = convert.target_format(reader, target, to) if to is not None else template.format
    if into.name != template.format.name:
        message = f"--like gives the layout of {template.format.name}, --to asks for {into.name}"
        raise click.UsageError(message, click.get_current_context())


def _carry_out(plan: transfer.Plan, options: dict[str, Any]) -> None:
    dry_run = options["dry_run"]
    verify = not options["no_verify"] and not dry_run
    with render.progress(plan.nbytes * (2 if verify else 1), os.path.basename(plan.target)) as advance:
        notes = transfer.execute(
            plan,
            overwrite=options["overwrite"],
            shard_size=options["shard_size"],
            verify=verify,
            dry_run=dry_run,
            advance=advance,
        )
    if options["update_state"] and not dry_run:
        make_latest(plan.target)
    for text in notes:
        render.note(text)
    if not options["each"]:
        report(plan, as_json=options["as_json"], dry_run=options["dry_run"], verified=verify)


def _save_map(path: str, pairs: dict[str, str]) -> None:
    """Write the pairing as two columns, SRC's key and DST's, for editing and --map."""
    rows = (f"{render.escape(mine)}\t{render.escape(theirs)}\n" for theirs, mine in pairs.items())
    replace_file(path, "".join(rows).encode("utf-8"))


def _convert_each(source: str, target: str, options: dict[str, Any]) -> int:
    """Convert a run directory, and its state file with it."""
    if not is_directory(source):
        raise click.UsageError(f"--each wants a directory, {source} is none", click.get_current_context())
    directory = Directory(source)
    names: dict[str, str] = {}
    sound = [member for member in directory.members if member.error is None]
    if not sound:
        directory.require_latest()
    for member in sound:
        with open_location(member.location) as reader:
            into = convert.target_format(reader, "", options["to"])
            suffix = into.suffixes[0] if into.suffixes and into.suffixes[0] != ".index" else ""
            names[member.name] = member.name + suffix
            _convert_one(reader, os.path.join(target, names[member.name]), {**options, "update_state": False})
        render.note(f"{member.location.path} -> {os.path.join(target, names[member.name])}")
    if not options["dry_run"]:
        _write_state(directory, target, names)
    if options["as_json"]:
        written = [{"source": old, "target": os.path.join(target, new)} for old, new in names.items()]
        render.document({"directory": target, "checkpoints": written})
    return 0


def _write_state(directory: Directory, target: str, names: dict[str, str]) -> None:
    latest = directory.latest
    if latest is None:
        return
    state = StateFile(names[os.path.relpath(latest.path, directory.path)])
    now = time.time()
    for name in names.values():
        state = state.with_latest(name, now)
    state = state._replace(latest=names[os.path.relpath(latest.path, directory.path)])
    replace_file(os.path.join(target, FILE_NAME), state.text())
