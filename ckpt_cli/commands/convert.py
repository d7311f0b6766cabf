"""`ckpt convert`: the same tensors in another format, or in another checkpoint's structure."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from formats.model.writer import COMPRESSIONS

from ..api.changing import keeps_stored
from ..api.conversion import LARGEST_RATE, MOST_STEPS, RULES, ConvertOptions, convert_one
from ..api.run_conversion import convert_run
from ..cli.execute import print_result
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
from ..cli.resume import parse_resume, resume_hint
from ..memory import return_freed_blocks
from ..operations.convert.optimizers import GENERATIONS, OptimizerOptions, known_optimizer
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
            raise click.BadParameter(f"expected a number up to {most}, found {value}")
        return value

    return check


def _class_of_optimizer(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        return value and known_optimizer(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@subcommand("convert")
@path_argument("source", metavar="SRC")
@target_argument("DST")
@choosing
@changing
@format_option(
    "--to",
    "Write this format: object, name, v1, h5, weights-h5 or an id.\f`ckpt explain formats` lists the ids.",
)
@click.option(
    "--like", type=LocalPath(), metavar="TEMPLATE", help="Take keys, graph and layout from TEMPLATE."
)
@config_option
@layout_option
@keys_option
@click.option(
    "--pair-by-shape",
    is_flag=True,
    help="With --like, also pair tensors whose shape is unique.",
)
@click.option("--partial", is_flag=True, help="With --like, keep TEMPLATE's value if SRC has none.")
@click.option(
    "--keep-optimizer",
    is_flag=True,
    help="With --like, keep TEMPLATE's slots and optimizer.\fEvery weight must still be in SRC.",
)
@save_map_option("With --like or --layout, write the key pairs to FILE, for --map.")
@click.option(
    "--iterations",
    type=click.IntRange(0),
    callback=_at_most(MOST_STEPS),
    metavar="N",
    help="Set the optimizer's step count, overriding that of SRC.",
)
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, min_open=True),
    callback=_at_most(LARGEST_RATE),
    metavar="R",
    help="Set the optimizer's learning rate, if SRC does not store it.\fSome optimizer states cannot be "
    "converted without a learning rate.",
)
@click.option(
    "--optimizer",
    callback=_class_of_optimizer,
    metavar="NAME",
    help="Set the optimizer's class, if SRC does not store it.\fKeras 2's .weights.h5 files do not store the "
    "class. With --like, NAME also applies to a TEMPLATE that does not store it.",
)
@click.option(
    "--generation",
    type=click.Choice(GENERATIONS),
    help="With --to object or weights-h5, write for this Keras version.\fWithout it, SRC's "
    "configuration decides. Keras 2 cannot restore the objects of Keras 3, nor the reverse. In .weights.h5 "
    "files, the optimizer states differ.",
)
@click.option("--weights-only", is_flag=True, help="Convert only the weights, as with --kind variable.")
@cast_option
@click.option(
    "--shard-size", type=click.IntRange(1), metavar="BYTES", help="Write at most BYTES per data shard."
)
@click.option("--compress", type=click.Choice(COMPRESSIONS), help="With --to orbax, compress the chunks.")
@click.option("--merge-slices", is_flag=True, help="Write each partitioned tensor as one tensor.")
@link_option()
@click.option(
    "--resume",
    is_flag=True,
    help="Keep progress if interrupted, and continue when run again.",
)
@verify_options()
@update_state_option
@overwrite_option()
@dry_run_option()
@each_option("Convert all checkpoints of directory SRC to directory DST.")
@sharing_options
@json_option
@color_option
@option_rules(*RULES)
def command(source: Location, target: Location, **options: Any) -> int:
    """Convert a checkpoint to another format or structure.

    Without --to, the suffix of DST decides the format. --like takes keys and object graph
    from TEMPLATE, a checkpoint that your program saved. The output is read back and compared before
    it replaces DST.

    \b
      ckpt convert run/ckpt-10 weights.safetensors --weights-only
      ckpt convert bert_model.ckpt tf2/bert-1 --to object
      ckpt convert bert_model.ckpt tf2/bert-1 --like fresh/ckpt-1 --map names.tsv
      ckpt convert model.h5 model.weights.h5
      ckpt convert model.keras training.pt --layout pytorch
    \f

    If DST has no suffix, a TensorFlow checkpoint keeps its format, and any other SRC becomes
    tf-object. Between name-based and object-based checkpoints, variables are matched by full
    name, and slots become the slot variables of the other side.

    With --like, keys, graph and layout come from TEMPLATE, and values come from SRC. Tensors
    are paired by full name, then by key, then by object path. They are never paired because their
    names look similar. A key in --map is paired only as the map says. A key that --sub renames goes to
    its new name, if TEMPLATE has that name. Every weight and slot of TEMPLATE must get a value, or
    the conversion fails. --keep-optimizer and --weights-only keep TEMPLATE's slots and optimizer.
    --partial keeps TEMPLATE's value of everything that SRC lacks, and a warning lists the names.
    If no weight is paired, nothing is written.

    Keras formats and tf-object give one weight different names. The model configuration connects
    these names. It comes from SRC or from --config.

    With --link, a TensorFlow checkpoint uses SRC's files as its data shards, if they contain a
    tensor's bytes in the form that TensorFlow needs. That works for shards of TensorFlow
    checkpoints, safetensors files, uncompressed members of an npz and contiguous HDF5 datasets. Only the
    index, the graph and changed values are written. If SRC stores no CRC-32C, ckpt reads SRC once
    to compute the checksums. The shared files are clones if the file system supports that, and otherwise hard
    links. With hard links, a program that overwrites SRC in place (h5py, np.savez, torch.save)
    changes both checkpoints. If neither works, values are copied, with a note.

    With --resume, progress is saved once a second in a staging directory next to DST. If
    the conversion is interrupted, run the same command again to continue. If
    sources, options or the version of ckpt have changed, the error says what differs. Data from
    the earlier run is read again before it is used. The formats npz, tf-v1, hdf5 and pytorch do
    not support --resume, because they are written from beginning to end.

    \b
      ckpt convert run/ckpt-10 adamw/ckpt-10 --like fresh_adamw/ckpt-1 --keep-optimizer
      ckpt convert model.safetensors tf2/model-1 --link
      ckpt convert large.safetensors tf2/large-1 --resume
    """
    if options["weights_only"]:
        options["kind"] = "variable"
    check_stdout(options)
    if source.store.scheme:
        return_freed_blocks()
    context = click.get_current_context()
    resume = parse_resume(context) if options["resume"] else None
    parsed = _parsed(options, resume)
    with resume_hint(context, resume):
        if options["each"]:
            return _convert_run(source, target, parsed, as_json=options["as_json"])
        with opened(source) as reader:
            convert_one(reader, target, parsed, SCREEN, partial(print_result, as_json=options["as_json"]))
    return 0


def _parsed(options: dict[str, Any], resume: Resume | None) -> ConvertOptions:
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
        OptimizerOptions(options["iterations"], options["learning_rate"], options["optimizer"]),
        keeps_stored(options["key_names"]),
        options["cast"],
        options["generation"],
        options["shard_size"],
        options["compress"],
        options["merge_slices"],
        options["link"],
        resume,
        writing_of(options),
    )


def _convert_run(source: Location, target: Location, parsed: ConvertOptions, *, as_json: bool) -> int:
    """Convert a run directory, and tell what became of each checkpoint; with --json in one document."""
    documents: list[dict[str, Any]] = []

    def report(written: Written) -> None:
        if not as_json:
            print_result(written, as_json=False, prefix=(written.plan.target,))
            return
        for text in written.outcome.notes:
            render.note(text)
        documents.append(written.document())

    found = convert_run(source, target, parsed, SCREEN, report)
    if as_json:
        render.document({"directory": target, "checkpoints": documents})
    for member in found.damaged:
        render.warning(f"not converted: {member.error}")
    return CANNOT if found.damaged else 0
