"""`ckpt diff`: what was added, removed, or changed between two checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from formats.core.words import command_line
from formats.errors import CheckpointError
from formats.find.opening import locate
from formats.location import parse_location

from ..api.comparing import RULES, CompareOptions, Failing, compare, sides
from ..cli.help import subcommand
from ..cli.option_rules import option_rules
from ..cli.options import (
    LocalPath,
    NumberRange,
    changes_of,
    changing,
    choosing,
    color_option,
    completing,
    config_option,
    each_option,
    exact_option,
    fail_on_option,
    form_option,
    json_option,
    layout_option,
    no_values_option,
    path_argument,
    recursive_option,
    selection_of,
    set_quiet,
    sharing_options,
    sort_option,
    table_options,
)
from ..operations.compare.diff import CHANGES, COLUMN_ALIASES, COLUMNS, ORDERS, DiffOptions
from ..operations.compare.layers import WEIGHTS
from ..operations.compare.measure import Tolerance
from ..operations.compare.pairs import BY
from ..operations.compare.ranking import is_weight
from ..operations.compare.thresholds import Baseline, FailOn
from ..operations.select.selection import NothingSelectedError
from ..render import base as render
from ..render.report import SCREEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation

    from ..operations.compare.diff import Diff


def _changes(_: click.Context, __: click.Parameter, value: str) -> FailOn:
    try:
        return FailOn.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _is_given(context: click.Context, parameter: click.Parameter, value: Location | None) -> Location | None:
    """Return RIGHT. Raise a usage error that says what is missing if only one checkpoint is named."""
    if value is None and not context.resilient_parsing:
        if context.params.get("matrix"):
            raise click.UsageError("--matrix compares several checkpoints, and only one PATH is given")
        raise click.MissingParameter(ctx=context, param=parameter)
    return value


@subcommand("diff", paged=True)
@path_argument("left")
@path_argument("right", callback=_is_given, required=False, metavar="RIGHT")
@choosing
@changing
@config_option
@layout_option
@no_values_option("Compare only keys, dtypes and shapes.")
@exact_option("Read values even if stored checksums are equal.")
@click.option(
    "--rtol",
    type=NumberRange(0),
    default=0.0,
    metavar="R",
    help="Allow values to differ by R * |right|.",
)
@click.option(
    "--atol",
    type=NumberRange(0),
    default=0.0,
    metavar="A",
    help="Allow values to differ by A.",
)
@click.option("--stat", is_flag=True, help="For each tensor, print how far apart the values are.")
@table_options(COLUMNS, COLUMN_ALIASES)
@sort_option(
    ORDERS,
    "Sort by COLUMN, with the largest change first.\frel is rel_l2, abs is max_abs and size is nbytes.",
    metavar="COLUMN",
)
@click.option("--all", "everything", is_flag=True, help="Also show unchanged tensors.")
@click.option(
    "-q",
    "--quiet",
    is_flag=True,
    callback=set_quiet,
    help="Print nothing, and only set the exit code.\fWith --matrix, print no notes.",
)
@click.option("-M", "--find-renames", is_flag=True, help="Find renamed tensors: equal bytes, different keys.")
@click.option(
    "--by",
    type=click.Choice(BY),
    default="key",
    metavar="WHAT",
    help="Pair tensors by key, full-name or object-path. [default: key]",
)
@fail_on_option(
    "Exit 1 only for these: added,removed,dtype,shape,value,rel_l2>5%.\f[default: added,removed,dtype,shape,"
    "value] A renamed tensor counts as removed and added. The threshold value>1e-3 means that the largest "
    "|a-b| of a tensor exceeds 1e-3. The threshold rel_l2>5% means that the Euclidean norm of a-b exceeds 5% "
    "of the norm of b. The threshold cosine<0.99 means that the cosine of the angle between a and b is below "
    "0.99.",
    callback=_changes,
    default=",".join(CHANGES),
    metavar="CHANGE[,CHANGE]",
    shell_complete=completing("changes"),
)
@click.option(
    "--baseline",
    type=LocalPath(),
    metavar="RESULT.json",
    help="Ignore changes that an earlier --json output already lists.\fA change counts again if its "
    "values are farther apart than before.",
)
@click.option(
    "--matrix",
    is_flag=True,
    help="Compare each of several PATHs with every other.\fEvery argument is a PATH. Prints ||a-b|| / ||b|| "
    "for each pair and for each layer. Lists copies and equal layers. Exits 0. Only floating-point weights "
    "count; optimizer slots and other state are groups of their own. A layer that has only tensors of one "
    "value, such as zeros or ones, does not count as equal.",
)
@each_option("Compare all checkpoints with the same name in two directories.")
@recursive_option("With --each, include subdirectories.")
@sharing_options
@form_option
@json_option
@color_option
@option_rules(*RULES)
def command(left: Location, right: Location, **options: Any) -> int:
    """Show what was added, removed or changed from LEFT to RIGHT.

    Exits 0 if nothing differs, and 1 if something does. --sub, --map and the prefix options
    change the keys of LEFT.

    \b
      ckpt diff run/ckpt-10 run/ckpt-20
      ckpt diff old.index new.h5 --sub '^bert/=>encoder/' --rtol 1e-6
    \f

    Tensors with equal stored checksums are not read. Others are read in pieces and compared in
    float64. NaN equals NaN. Damaged data is an error, not a change. In npz and .keras files, one
    checksum covers both the header and the values of a tensor. Therefore diff reads each differing
    tensor completely. With --no-values, it reads every tensor, because only this checksum confirms
    the header. A directory means its latest
    checkpoint. A listing (the saved output of ls --json -l) is compared by its checksums.

    On a terminal, layers contain only weights. Optimizer slots, counters and other state are in groups
    of their own, such as (slot). If more than 20 layers changed, the table of layers has a row for each
    block, such as encoder.layer.3.

    \b
      ckpt diff run_a run_b --stat --kind variable
      ckpt diff run_a run_b --where 'rel_l2>5% and size>1M' --sort cosine --top 10
      ckpt diff main.json run/ckpt-10 --no-values   # for CI: only keys, dtypes and shapes
      ckpt diff run/ckpt-9 run/ckpt-10 --fail-on 'value>1e-3,rel_l2>5%'     # allow noise
      ckpt diff --matrix seed0 seed1 seed2 --kind variable
    """
    options["as_json"] = options["as_json"] or options["form"] == "json"
    options["has_header"] = True
    if options["matrix"]:
        return _matrix([left, right, *map(parse_location, options["keys"])], options)
    known = Baseline(options["baseline"]) if options["baseline"] is not None else None
    failing = options["failing"] = Failing(options["fail_on"], known)
    parsed = _parsed(options)
    if options["each"]:
        return _each(left, right, parsed, options)
    found, names = compare(locate(left), locate(right), parsed, SCREEN)
    if _has_form(options):
        _report([(found, locate(right).head, None)], options)
    elif options["as_json"]:
        render.long_document(found.head(), "entries", found.rows(everything=options["everything"]), dict)
    elif not options["quiet"]:
        if render.is_terminal() and not options["as_csv"]:
            render.title(f"{found.left} -> {found.right}")
        _show(found, names, options)
    if not failing.fail_on.needs_values and any(entry.change == "value" for entry in found.entries):
        _hint_without_values(click.get_current_context())
    return _judged(found, failing)


def _hint_without_values(context: click.Context) -> None:
    """Say how to compare without values, where values differ that --fail-on does not name."""
    from ..cli.guesses import without

    words, _ = without("--fail-on", context.find_root().obj or [])
    render.note("values differ, but --fail-on does not name value")
    render.note(f"to compare only keys, dtypes and shapes: {command_line(*words, '--no-values')}")


def _judged(found: Diff, failing: Failing) -> int:
    """Return the exit code. Print a note if only slots or other state are beyond a bound."""
    met = [entry for entry in found.entries if failing.is_met(entry)]
    if met and failing.fail_on.bounds and not any(map(is_weight, met)):
        words = click.get_current_context().find_root().obj or []
        render.note("only optimizer slots or other state meet --fail-on, and no weight does")
        render.note(f"to compare only weights: {command_line(*words, '--kind', WEIGHTS)}")
    return int(bool(met))


def _has_form(options: dict[str, Any]) -> bool:
    """Whether findings have a format for CI services."""
    return options["form"] not in ("text", "json")


def _report(
    found: Sequence[tuple[Diff, str, str | None]],
    options: dict[str, Any],
    alone: Sequence[tuple[str, str, str]] = (),
) -> None:
    """Print what comparisons found, and checkpoints that are on one side alone, for a service."""
    from ..operations.report.build import of_diff
    from ..render.findings.writing import write

    failing = options["failing"]
    only = [(change, head, failing.is_met_alone(change, name)) for change, head, name in alone]
    write(of_diff(found, failing.is_met, only), options["form"])


def _parsed(options: dict[str, Any]) -> CompareOptions:
    """Return the options of the comparison."""
    quiet, failing, where = options["quiet"], options["failing"], options["where"]
    settings = DiffOptions(
        options["by"],
        not options["no_values"],
        options["exact"],
        Tolerance(options["rtol"], options["atol"]),
        find_renames=options["find_renames"] and not quiet,
        stop_on=failing.fail_on.changes if quiet and failing.known is None and where is None else (),
        norms=failing.fail_on.with_norms or not quiet or where is not None,
    )
    fails_by_default = click.get_current_context().get_parameter_source("fail_on") is ParameterSource.DEFAULT
    with_names = not (options["as_json"] or quiet) and render.is_terminal()
    return CompareOptions(
        settings,
        selection_of(options, words=fails_by_default),
        changes_of(options),
        options["everything"],
        quiet,
        with_names,
        options["workers"],
        options["sort"] or "key",
        where,
        with_names or _has_form(options) or bool(failing.fail_on.bounds),
    )


def _show(found: Diff, names: dict[str, str], options: dict[str, Any], prefix: tuple[str, ...] = ()) -> None:
    from ..render import diff as view

    is_read, top = render.is_terminal() and not options["as_csv"], options["top"]
    shown = found.shown(everything=options["everything"], names=names if is_read else None)
    if options["as_csv"]:
        header = [*("name" for _ in prefix), *view.FIELDS] if options["has_header"] else []
        render.csv(header, ([*prefix, *view.row(entry)] for entry in shown[:top]))
        options["has_header"] = False
        return
    if not is_read:
        shown = shown[:top]
        as_row = view.stat_row if options["stat"] else view.row
        render.tsv([*prefix, *as_row(entry)] for entry in shown)
        return
    if top and not options["sort"]:
        shown = view.largest_first(shown)
    if options["stat"]:
        view.stat(shown[:top], names)
    elif options["sort"] or top:
        view.in_order(shown[:top], names)
    else:
        view.by_layer(shown, names)
    render.note_hidden_rows(len(shown[top:]) if top else 0, "tensor")
    view.summary_line(found)


# Several ------------------------------------------------------------------------


def _matrix(paths: list[Location], options: dict[str, Any]) -> int:
    """Print how far each of several checkpoints is from each other one."""
    from ..api.matrix import distances_of
    from ..operations.compare.gaps import gaps
    from ..operations.compare.matrix import MatrixOptions
    from ..render import matrix as view

    chosen = selection_of({**options, "keys": ()})
    matrix_options = MatrixOptions(chosen, options["by"], options["exact"], options["workers"])
    found = distances_of(paths, matrix_options, SCREEN)
    is_read = render.is_terminal() and not (options["as_json"] or options["as_csv"])
    for sentence in () if is_read else gaps(found):
        render.note(sentence)
    if options["as_json"]:
        render.document(found.document())
    elif options["as_csv"]:
        render.csv(view.FIELDS, found.rows())
    elif render.is_terminal():
        view.show(found)
    else:
        render.tsv(found.rows())
    return 0


# Directories ----------------------------------------------------------------------


def _each(left: Location, right: Location, parsed: CompareOptions, options: dict[str, Any]) -> int:
    """Compare the checkpoints that have one name in both directories; what cannot be read hides no other."""
    found = sides(left, right, recursive=options["recursive"])
    failing, both = options["failing"], found.both
    only = {"removed": found.only_left, "added": found.only_right}
    fails = any(failing.is_met_alone(change, name) for change, names in only.items() for name in names)
    shown: list[Any] = []
    nothing: NothingSelectedError | None = None
    for name in both:
        try:
            pair, names = compare(found.left[name], found.right[name], parsed, SCREEN)
        except NothingSelectedError as error:
            nothing = error  # in this pair; another one may have some
            continue
        except CheckpointError as error:
            found.unread[name] = error
            continue
        fails = failing.fails(pair, name) or fails
        shown.append(_show_pair(pair, names, found.right[name], name, options))
    if nothing is not None and not (shown or found.unread):
        raise nothing
    if _has_form(options):
        places = {"removed": found.left, "added": found.right}
        alone = [
            (change, places[change][name].head, name) for change, names in only.items() for name in names
        ]
        _report(shown, options, alone)
    elif options["as_json"]:
        render.document({"pairs": shown, "only_left": only["removed"], "only_right": only["added"]})
    elif not options["quiet"]:
        _show_only(only, as_csv=options["as_csv"], has_header=options["has_header"])
    for obstacle in found.unread.values():
        render.error_lines(str(obstacle), obstacle.hints)
    if not (both or found.unread):
        render.warning(f"{left}, {right}: no checkpoint name occurs in both")
    return 3 if found.unread else int(fails or not both)


def _show_pair(
    found: Diff, names: dict[str, str], right: CheckpointLocation, name: str, options: dict[str, Any]
) -> Any:
    """Print what a pair's comparison found, or return what is printed of it together with all others."""
    if _has_form(options):
        return found, right.head, name
    if options["as_json"]:
        entries = list(found.rows(everything=options["everything"]))
        return {"schema": 1, "name": name, **found.head(), "entries": entries}
    if not options["quiet"]:
        if render.is_terminal() and not options["as_csv"]:
            render.title(name)
        _show(found, names, options, (name,))
    return None


def _show_only(only: dict[str, list[str]], *, as_csv: bool, has_header: bool) -> None:
    rows = [(name, change) for change, names in only.items() for name in names]
    if as_csv:
        from ..render.diff import FIELDS

        header = ["name", *FIELDS] if has_header else []
        render.csv(header, ([*row, *[None] * (len(FIELDS) - 1)] for row in rows))
        return
    if not render.is_terminal():
        render.tsv(rows)
        return
    for name, change in rows:
        side = "left" if change == "removed" else "right"
        render.title(name, render.styled(f"only on the {side}", fg="red" if side == "left" else "green"))
