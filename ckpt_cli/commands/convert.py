"""`ckpt convert`: the same tensors in another format, or in another checkpoint's structure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..api.changing import keeps_stored
from ..api.conversion import LARGEST_RATE, MOST_STEPS, RULES, ConvertOptions, convert_one, convert_run
from ..cli.execute import tell
from ..cli.help import subcommand
from ..cli.option_rules import option_rules
from ..cli.options import (
    LocalPath,
    cast_option,
    changes_of,
    changing,
    check_stdout,
    choosing,
    color_option,
    config_option,
    dry_run_option,
    each_option,
    format_option,
    json_option,
    keys_option,
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
    writing_of,
)
from ..cli.resume import going_on, wish_to_resume
from ..operations.convert.optimizers import Given
from ..render import base as render
from ..render.report import SCREEN, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.location import Location

    from ..api.writing import Written
    from ..operations.convert.resume import Resume


CANNOT = 3  # The exit code of input that cannot be read.


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
@keys_option
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
    callback=_at_most(MOST_STEPS),
    metavar="N",
    help="Steps that the optimizer has taken, whatever SRC says.",
)
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, min_open=True),
    callback=_at_most(LARGEST_RATE),
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
@option_rules(*RULES)
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
    check_stdout(options)
    context = click.get_current_context()
    resume = wish_to_resume(context) if options["resume"] else None
    asked = _asked(options, resume)
    with going_on(context, resume):
        if options["each"]:
            return _convert_run(source, target, asked, as_json=options["as_json"])
        with opened(source) as reader:
            convert_one(reader, target, asked, SCREEN, partial(tell, as_json=options["as_json"]))
    return 0


def _asked(options: dict[str, Any], resume: Resume | None) -> ConvertOptions:
    """Return what is to become of a checkpoint."""
    return ConvertOptions(
        selection_of(options),
        changes_of(options),
        options["to"],
        options["like"],
        options["pair_by_shape"],
        options["partial"],
        options["keep_optimizer"],
        options["save_map"],
        Given(options["iterations"], options["learning_rate"]),
        keeps_stored(options["key_names"]),
        options["cast"],
        options["shard_size"],
        options["merge_slices"],
        options["link"],
        resume,
        writing_of(options),
    )


def _convert_run(source: Location, target: Location, asked: ConvertOptions, *, as_json: bool) -> int:
    """Convert a run directory, and tell what became of each checkpoint; with --json in one document."""
    documents: list[dict[str, Any]] = []

    def told(written: Written) -> None:
        if not as_json:
            tell(written, as_json=False, prefix=(written.plan.target,))
            return
        for text in written.outcome.notes:
            render.note(text)
        documents.append(written.document())

    found = convert_run(source, target, asked, SCREEN, told)
    if as_json:
        render.document({"directory": target, "checkpoints": documents})
    for member in found.damaged:
        render.warning(f"not converted: {member.error}")
    return CANNOT if found.damaged else 0
