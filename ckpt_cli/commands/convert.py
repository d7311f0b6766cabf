"""`ckpt convert`: the same tensors in another format, or in another checkpoint's structure."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from formats.find.directory import Directory
from formats.find.opening import is_directory, locate, open_location
from formats.find.suffixes import format_of_suffix, refuse_false_suffix
from formats.location import Location
from formats.store.local.staging import holding, replace_file
from formats.tf.bundle.shards import CLONE, LINK
from formats.tf.run.state_file import FILE_NAME

from ..cli.execute import How, carry_out, note_cast, tell
from ..cli.help import subcommand
from ..cli.option_rules import excludes, needs, option_rules
from ..cli.options import (
    LocalPath,
    cast_option,
    changes_of,
    changing,
    choosing,
    color_option,
    config_option,
    dry_run_option,
    each_option,
    format_option,
    json_option,
    layout_option,
    link_option,
    overwrite_option,
    path_argument,
    save_map_option,
    selection_of,
    sharing_options,
    target_argument,
    update_state_option,
    verify_options,
)
from ..cli.resume import going_on, wish_to_resume
from ..operations.convert import execute, pairing, planner
from ..operations.convert.framework_layout import TENSORFLOW, check_target, holds_optimizer, lay_out
from ..operations.convert.keras.plan import read_config
from ..operations.convert.optimizers import Given
from ..operations.convert.run_directory import converted_names, converted_state, refuse_state_file
from ..operations.convert.source import Settings
from ..operations.select.keys import renamed
from ..operations.select.name_map import row_of
from ..operations.select.selection import choose
from ..render import base as render
from ..render.name_map import map_lines, save_map
from ..render.report import opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from formats.find.directory import Member
    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import CheckpointReader, Format

    from ..operations.convert.framework_layout import FrameworkLayout
    from ..operations.convert.plan import Plan
    from ..operations.select.keys import Renamed


CANNOT = 3  # The exit code of input that cannot be read.


_MOST_STEPS = (1 << 63) - 1
"""Steps that a counter of TensorFlow's holds."""

_LARGEST_RATE = 1e38
"""A learning rate that float32 holds."""


def _at_most(most: float) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return what refuses a number that is more, or none; the help need not tell such a bound."""

    def check(_: click.Context, __: click.Parameter, value: Any) -> Any:
        if value is not None and not value <= most:
            raise click.BadParameter(f"{value} is not a number up to {most}")
        return value

    return check


@subcommand("convert")
@path_argument("source", metavar="SRC")
@target_argument("DST")
@choosing
@changing
@format_option("--to", "Format of DST: an id, or object, name, v1, h5, weights-h5.")
@click.option("--like", type=LocalPath(), metavar="TEMPLATE", help="Keys, graph and layout from TEMPLATE.")
@config_option
@layout_option
@click.option("--pair-by-shape", is_flag=True, help="With --like, also pair shapes that occur once on both.")
@click.option("--partial", is_flag=True, help="With --like, keep TEMPLATE's value where SRC has none.")
@click.option(
    "--keep-optimizer",
    is_flag=True,
    help="With --like, keep TEMPLATE's slots and optimizer.\fEvery weight must be in SRC.",
)
@save_map_option("With --like or --layout, write what becomes what, for --map.")
@click.option(
    "--iterations",
    type=click.IntRange(0),
    callback=_at_most(_MOST_STEPS),
    metavar="N",
    help="Steps that the optimizer has taken, whatever SRC says.",
)
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, min_open=True),
    callback=_at_most(_LARGEST_RATE),
    metavar="R",
    help="The optimizer's rate, where SRC does not have it.\fSome states depend on it.",
)
@click.option("--weights-only", is_flag=True, help="The same as --kind variable.")
@cast_option
@click.option(
    "--shard-size", type=click.IntRange(1), metavar="BYTES", help="Bound the bytes of a data shard."
)
@click.option("--merge-slices", is_flag=True, help="Write partitioned tensors whole.")
@link_option()
@click.option(
    "--resume",
    is_flag=True,
    help="Keep what is finished when interrupted; go on when given again.",
)
@verify_options()
@update_state_option
@overwrite_option()
@dry_run_option()
@each_option("Convert all checkpoints of directory SRC into directory DST.")
@sharing_options
@json_option
@color_option
@option_rules(
    needs("--save-map", "--like", "--layout"),
    needs("--pair-by-shape", "--like"),
    needs("--partial", "--like"),
    needs("--keep-optimizer", "--like"),
    excludes("--iterations", "--keep-optimizer"),
    excludes("--learning-rate", "--keep-optimizer"),
    excludes("--config", "--like"),
    excludes("--weights-only", "--kind"),
    excludes("--shard-size", "--link"),
    excludes("--update-state", "--each"),
)
def command(source: Location, target: Location, **options: Any) -> int:
    """Convert a checkpoint to another format, or another structure.
    \f

    Without --to the suffix of DST decides; without one it is SRC's own format if that
    is TensorFlow's, else tf-object.  Names and objects turn into each other through
    full names, slots into the slot variables of TensorFlow's optimizers.  With --like
    keys, graph and layout come from TEMPLATE and values from SRC, paired by full name,
    then key, then object path, never by guess.  What --map names goes where it says or nowhere; what
    --sub renames goes to its new name, if TEMPLATE has that.  Every weight and slot of TEMPLATE gets a value,
    or it is an error.  --keep-optimizer lets TEMPLATE keep its slots and optimizer; so does --weights-only.
    --partial lets it keep whatever SRC lacks, and a warning names it.  Where no weight is paired
    at all, nothing is written.

    Between Keras' formats, and between them and tf-object, the model's configuration says
    which tensor is which: SRC has one, or --config gives it.

    The result is opened again and compared bit for bit before it is moved into place.

    With --link a bundle takes SRC's files for its data shards, wherever they hold a tensor's
    bytes just as it needs them: shards of a bundle, safetensors, stored members of an npz,
    contiguous datasets.  Index, graph and what has other values are written, and compared; of
    formats without CRC-32C the values are read once, for their checksums.  Files are
    cloned where the file system can, else they are hard links: what then overwrites SRC in
    place, as h5py, np.savez and torch.save do, changes both.  Where neither can be, values are
    copied, with a note.

    With --resume what is finished is noted once a second, in the directory beside DST where it
    is made, and stays there when the conversion is interrupted.  Given again with the same
    sources, options and version of ckpt, it goes on; else it says what differs.  Whatever is
    there is read again before it counts.  npz, tf-v1, hdf5 and pytorch are written from
    beginning to end, and refuse it.

    \b
      ckpt convert run/ckpt-10 weights.safetensors --weights-only
      ckpt convert bert_model.ckpt tf2/bert-1 --to object
      ckpt convert model.h5 model.weights.h5
      ckpt convert bert_model.ckpt tf2/bert-1 --like fresh/ckpt-1 --map names.tsv
      ckpt convert run/ckpt-10 adamw/ckpt-10 --like fresh_adamw/ckpt-1 --keep-optimizer
      ckpt convert model.safetensors tf2/model-1 --link
      ckpt convert large.safetensors tf2/large-1 --resume
    """
    if options["weights_only"]:
        options["kind"] = "variable"
    context = click.get_current_context()
    options["resume"] = wish_to_resume(context) if options["resume"] else None
    with going_on(context, options["resume"]):
        if options["each"]:
            return _convert_each(source, target, options)
        with opened(source) as reader:
            _convert_one(reader, target, options)
    return 0


def _convert_one(reader: CheckpointReader, target: Location, options: dict[str, Any]) -> dict[str, Any]:
    """Convert one checkpoint, or rehearse that; return what `_carry_out` does."""
    keys = choose(reader, selection_of(options))
    if options["like"] is not None:
        with _open(options["like"], options) as template:
            return _convert_like(reader, keys, target, template, options)
    given = Given(options["iterations"], options["learning_rate"])
    into = planner.target_format(reader, target, options["to"])
    layout, laid = changes_of(options).framework_layout(), None
    if layout is not None:
        layout = layout._replace(nests=holds_optimizer(into, layout), given=given)
        laid = lay_out(reader, keys, layout)
        check_target(into, layout, target)
        if options["save_map"]:
            _save_map(options, map_lines(laid.names.rows))
        reader, keys = laid.reader, list(laid.reader.specs)
        given = Given() if laid.holds_optimizer else given  # which the layout has taken
    names = _renamed(reader, layout, options)
    config = read_config(options["config"]) if options["config"] else None
    optimizer = laid.optimizer if laid is not None else None
    settings = Settings(options["cast"], options["merge_slices"], names, given, config, optimizer)
    plan = planner.plan_conversion(reader, keys, target, into, settings)
    return _carry_out(plan if laid is None else laid.told(plan), options)


def _convert_like(
    reader: CheckpointReader,
    keys: list[str],
    target: Location,
    template: CheckpointReader,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Convert one checkpoint into the structure of TEMPLATE."""
    layout, laid = changes_of(options).framework_layout(), None
    given = Given(options["iterations"], options["learning_rate"])
    if layout is not None:
        if layout.way == TENSORFLOW and layout.config is None and template.object_graph is not None:
            layout = layout._replace(like=template)  # which tells the model, too
        laid = lay_out(reader, keys, layout._replace(given=given))
        reader, keys = laid.reader, list(laid.reader.specs)
    names = _renamed(reader, layout, options)
    template.prove_specs()  # of which no more than these is taken, as a rule
    _check_format(template, reader, target, options["to"])
    strictness = pairing.Strictness(
        options["pair_by_shape"],
        options["partial"],
        options["keep_optimizer"] or options["kind"] == "variable",  # as --weights-only has it
        options["cast"],
        given,
    )
    if options["save_map"]:
        # Before the plan, which is refused where pairs are missing: the map is there to add them.
        pairs = pairing.pair(reader, keys, template, strictness._replace(partial=True), names)
        _save_map(options, map_lines(row_of(mine, theirs) for theirs, mine in pairs.rows().items()))
    plan, _ = pairing.plan_like(reader, keys, template, target, strictness, names)
    if options["merge_slices"]:
        plan = plan._replace(slices={})
    return _carry_out(plan if laid is None else laid.told(plan), options)


def _renamed(
    reader: CheckpointReader, layout: FrameworkLayout | None, options: dict[str, Any]
) -> Renamed | None:
    rules = changes_of(options).rules(layout)
    names = renamed(reader, rules) if rules else None
    for text in names.notes if names and not options.get("rehearsal") else ():
        render.note(text)
    return names


def _save_map(options: dict[str, Any], lines: list[str]) -> None:
    hints = ("to replace it: --overwrite", "to take its pairs: --map")
    save_map(options["save_map"], lines, overwrite=options["overwrite"], hints=hints)


def _open(
    path: Location | CheckpointLocation, options: dict[str, Any]
) -> AbstractContextManager[CheckpointReader]:
    """Open one of several, or a template, of which a rehearsal says nothing: it is said in the end."""
    if options.get("rehearsal"):
        return open_location(locate(path) if isinstance(path, Location) else path)
    return opened(path)


def _check_format(
    template: CheckpointReader, reader: CheckpointReader, target: Location, to: str | None
) -> None:
    """Refuse to write another format than TEMPLATE's where one is asked for, or said by DST's suffix."""
    own: Format = template.format
    if to is not None:
        into, what = planner.target_format(reader, target, to), "--to asks for"
    else:
        told = None if target.endswith(own.suffixes) else format_of_suffix(target)
        into, what = told or own, f"{os.path.basename(target)} ends like"
    if into.name != own.name:
        message = f"--like gives the layout of {own.name}, {what} {into.name}"
        raise click.UsageError(message, click.get_current_context())
    refuse_false_suffix(own, target)


def _carry_out(plan: Plan, options: dict[str, Any]) -> dict[str, Any]:
    """Carry a plan out, or rehearse it; return the document of one of several, where that is asked for."""
    rehearsal = options.get("rehearsal", False)
    how = How.of({**options, "dry_run": options["dry_run"] or rehearsal}, plan.target)
    ways = (CLONE, LINK) if options["link"] else ()
    how_written = {"shard_size": options["shard_size"], "ways": ways, "resume": options["resume"]}
    outcome = carry_out(plan, partial(execute.execute, plan, **how_written), how)
    if rehearsal:
        return {}
    for text in plan.warnings:
        render.warning(text)
    note_cast(plan, options["cast"])
    if options["each"] and options["as_json"]:  # the documents of all become one
        for text in outcome.notes:
            render.note(text)
        return plan.document(how.proved, shared=outcome.shared)
    tell(plan, outcome, how, prefix=(plan.target,) if options["each"] else ())
    return {}


def _formats_of(
    members: Sequence[Member], target: Location, to: str | None
) -> Iterator[tuple[Member, Format]]:
    for member in members:
        with open_location(member.location) as reader:
            yield member, planner.target_format(reader, target, to)


def _convert_members(
    members: Sequence[Member], target: Location, names: Mapping[str, str], options: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Convert checkpoints to their new `names` in a directory, and yield what is to be printed as JSON."""
    for member in members:
        with _open(member.location, options) as reader:
            document = _convert_one(reader, target / names[member.name], options)
            if document:
                yield document
        del reader  # the next one is not to be made while this one is held


def _convert_each(source: Location, target: Location, options: dict[str, Any]) -> int:
    """Convert a run directory, and its state file with it."""
    if not is_directory(source):
        source.require_access()
        raise click.UsageError(f"--each wants a directory, {source} is none", click.get_current_context())
    directory = Directory(source)
    for text in directory.notes:
        render.note(text)
    sound = [member for member in directory.members if member.error is None]
    if not sound:
        directory.require_latest()
    names = converted_names(_formats_of(sound, target, options["to"]), target)
    # All of it is rehearsed first, so that what cannot be converted is refused while nothing is written.
    documents: list[dict[str, Any]] = []
    for rehearsal in (True, False):
        job = {**options, "update_state": False, "rehearsal": rehearsal}
        documents += _convert_members(sound, target, names, job)
        state = converted_state(directory, names)
        if rehearsal and state is not None and not options["overwrite"]:
            refuse_state_file(target)
    if state is not None and not options["dry_run"]:
        with holding(target):
            replace_file(target / FILE_NAME, state.text())
    if options["as_json"]:
        render.document({"directory": target, "checkpoints": documents})
    damaged = [member for member in directory.members if member.error is not None]
    for member in damaged:
        render.warning(f"not converted: {member.error}")
    return CANNOT if damaged else 0
