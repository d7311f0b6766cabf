"""`ckpt diff`: what was added, removed, or changed between two checkpoints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from formats.errors import CheckpointError
from formats.find.opening import is_directory, locate

from ..cli.execute import say_dropped
from ..cli.help import subcommand
from ..cli.option_rules import excludes, needs, option_rules
from ..cli.options import (
    LocalPath,
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
    layout_of,
    layout_option,
    no_values_option,
    path_argument,
    recursive_option,
    rules_of,
    selection_of,
    set_quiet,
    sharing_options,
)
from ..operations.compare.diff import BY, CHANGES, DiffOptions, better_by, diff_pairs, labels, pair_up
from ..operations.compare.measure import Tolerance
from ..operations.compare.thresholds import Baseline, FailOn
from ..operations.convert.framework_layout import OF_OPTIMIZER, compared_with, lay_out
from ..operations.select.keys import renamed
from ..operations.select.selection import Selection, sift
from ..render import base as render
from ..render.progress import progress
from ..render.report import opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats import CheckpointReader
    from formats.location import Location
    from formats.model.checkpoint_files import CheckpointLocation

    from ..operations.compare.diff import Diff, DiffEntry, KeyPair
    from ..operations.compare.index_difference import Unlike
    from ..operations.convert.framework_layout import FrameworkLayout


def _changes(_: click.Context, __: click.Parameter, value: str) -> FailOn:
    try:
        return FailOn.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _number(_: click.Context, __: click.Parameter, value: float) -> float:
    if math.isnan(value):  # No value is so far apart that a range would say so.
        raise click.BadParameter("'nan' is no tolerance")
    return value


@subcommand("diff", paged=True)
@path_argument("left")
@path_argument("right")
@choosing
@changing
@config_option
@layout_option
@no_values_option("Compare keys, dtypes and shapes alone.")
@exact_option("Read values even where stored checksums agree.")
@click.option(
    "--rtol",
    type=click.FloatRange(0),
    callback=_number,
    default=0.0,
    metavar="R",
    help="Values may be R * |right| apart.",
)
@click.option(
    "--atol",
    type=click.FloatRange(0),
    callback=_number,
    default=0.0,
    metavar="A",
    help="Values may be A apart.",
)
@click.option("--stat", is_flag=True, help="Show how many elements changed, a line a tensor.")
@click.option("--all", "everything", is_flag=True, help="Show what is the same, too.")
@click.option("-q", "--quiet", is_flag=True, callback=set_quiet, help="Print nothing; the exit code tells.")
@click.option("-M", "--find-renames", is_flag=True, help="Find tensors of equal bytes under another key.")
@click.option(
    "--by",
    type=click.Choice(BY),
    default="key",
    metavar="WHAT",
    help="Pair tensors by key (unless told), full-name or object-path.",
)
@fail_on_option(
    "Exit 1 for these alone; also value>1e-3, l2>5%.\fA renamed tensor is one removed "
    "and one added.  value>1e-3: where the largest |a-b| of a tensor is more; l2>5%: where |a-b| is more of "
    "|b|, as Euclidean norms.  Unless told: added, removed, dtype, shape, value.",
    callback=_changes,
    default=",".join(CHANGES),
    metavar="CHANGE[,CHANGE]",
    shell_complete=completing("changes"),
)
@click.option(
    "--baseline",
    type=LocalPath(),
    metavar="RESULT.json",
    help="Exit 1 only for what an earlier --json does not show.\fOr where values are farther apart.",
)
@each_option("Compare all checkpoints of one name in two directories.")
@recursive_option("With --each, also those of the directories below.")
@sharing_options
@form_option
@json_option
@color_option
@option_rules(
    excludes("--format", "--quiet", "--stat"),
    needs("--recursive", "--each"),
    needs("--config", "--layout", "--map"),
    excludes("--json", "--quiet", "--stat"),
    excludes("--stat", "--quiet"),
    excludes("--all", "--quiet"),
    excludes("--find-renames", "--quiet", "--no-values"),
    excludes("--no-values", "--exact", "--rtol", "--atol"),
)
def command(left: Location, right: Location, **options: Any) -> int:
    """Show what was added, removed or changed from LEFT to RIGHT.

    Exits 0 if nothing differs, 1 if something does.  Changes of keys apply to LEFT.

    \b
      ckpt diff run/ckpt-10 run/ckpt-20
      ckpt diff old.index new.h5 --sub '^bert/=>encoder/' --rtol 1e-6
    \f

    Tensors whose stored checksums agree are not read.  The others are read in pieces and
    compared in float64, a NaN being equal to a NaN.  Damage is no change: what differs in npz
    and .keras is read for its checksum, with --no-values all of it.  Of a directory the
    latest checkpoint is taken.  A listing (saved ls --json -l) takes part with its checksums.

    \b
      ckpt diff run_a run_b --stat --kind variable
      ckpt diff main.json run/ckpt-10 --fail-on added,removed,dtype,shape   # for CI
      ckpt diff run/ckpt-9 run/ckpt-10 --fail-on 'value>1e-3,l2>5%'         # noise may pass
    """
    options["as_json"] = options["as_json"] or options["form"] == "json"
    options["known"] = Baseline(options["baseline"]) if options["baseline"] is not None else None
    if options["each"]:
        return _each(left, right, options)
    found, names = _compare(locate(left), locate(right), options)
    if _has_form(options):
        _report([(found, locate(right).head, None)], options)
    elif options["as_json"]:
        render.long_document(found.head(), "entries", found.rows(everything=options["everything"]), dict)
    elif not options["quiet"]:
        if render.is_terminal():
            render.title(f"{found.left} -> {found.right}")
        _show(found, names, options)
    return int(_fails(found, options))


def _fails(found: Diff, options: dict[str, Any], pair: str | None = None) -> bool:
    """Whether something was found that the command shall fail on; with --each, in the pair of that name."""
    return any(_is_bad(entry, options, pair) for entry in found.entries)


def _is_bad(entry: DiffEntry, options: dict[str, Any], pair: str | None) -> bool:
    known = options["known"]
    return options["fail_on"].is_met(entry) and (known is None or not known.knows(entry, pair))


def _is_bad_alone(change: str, name: str, options: dict[str, Any]) -> bool:
    """Whether the command shall fail on a checkpoint that is on one side alone."""
    known = options["known"]
    return change in options["fail_on"].changes and (known is None or not known.knows_only(change, name))


def _has_form(options: dict[str, Any]) -> bool:
    """Whether findings are to be shown in one of the forms for services."""
    return options["form"] not in ("text", "json")


def _report(
    found: Sequence[tuple[Diff, str, str | None]],
    options: dict[str, Any],
    alone: Sequence[tuple[str, str, str]] = (),
) -> None:
    """Print what comparisons found, and checkpoints that are on one side alone, for a service."""
    from ..operations.report.build import of_diff
    from ..render.findings.writing import write

    only = [(change, head, _is_bad_alone(change, name, options)) for change, head, name in alone]
    write(of_diff(found, lambda entry, pair: _is_bad(entry, options, pair), only), options["form"])


def _settings(options: dict[str, Any]) -> DiffOptions:
    quiet = options["quiet"]
    return DiffOptions(
        options["by"],
        not options["no_values"],
        options["exact"],
        Tolerance(options["rtol"], options["atol"]),
        find_renames=options["find_renames"] and not quiet,
        stop_on=options["fail_on"].changes if quiet and options["known"] is None else (),
        norms=options["fail_on"].asks_norms,
    )


def _compare(
    left: CheckpointLocation, right: CheckpointLocation, options: dict[str, Any]
) -> tuple[Diff, dict[str, str]]:
    """Return what differs, and the names by which people know the keys."""
    selection, settings, layout = selection_of(options), _settings(options), layout_of(options)
    rules = rules_of(options, layout)
    noted = not options["quiet"]
    told_apart = not (
        layout
        or rules
        or options["exact"]
        or options["everything"]
        or settings.by != "key"
        or not selection.everything
    )
    with (
        opened(left, noted=noted, loaded=not told_apart) as stored,
        opened(right, noted=noted, loaded=not told_apart) as other,
    ):
        one = stored if layout is None else _laid_out(stored, layout, other, selection)
        changed = renamed(one, rules) if rules else None
        for text in changed.notes if changed is not None else ():
            render.note(text)
        left_over = _unlike(one, other) if told_apart else None
        if left_over is not None:
            pairs, same = left_over
        else:
            pairs, same = pair_up(one, other, settings.by, selection, changed), 0
        if not options["quiet"] and not same:
            _suggest(one, other, pairs, settings.by)
        total = _nbytes(other, pairs)
        pool = options["workers"].expecting(total)
        with progress(total, other.location.name, ("comparing",)) as advance:
            found = diff_pairs(one, other, pairs, settings, advance, workers=pool)._replace(same=same)
        one.check_unchanged()
        other.check_unchanged()
        if options["as_json"] or options["quiet"] or not render.is_terminal():
            return found, {}
        mine = labels(one, "object-path", changed)
        keys = changed.keys if changed is not None else {}
        names = {keys.get(key, key): name for key, name in mine.items()}
        return found, {**names, **labels(other, "object-path")}


def _laid_out(
    left: CheckpointReader, layout: FrameworkLayout, right: CheckpointReader, selection: Selection
) -> CheckpointReader:
    """Return LEFT in another layout; back in TensorFlow's, it has the keys of the model in RIGHT.

    What is not chosen is left out, so that it need not be explained: tensors of LEFT that are excluded, and
    an optimizer's state where no kind of it is wanted.
    """
    left_out = sift(left, Selection(drop=selection.drop, regex=selection.regex), listed=True).dropped
    keys = [key for key in left.specs if key not in left_out]
    if selection.kinds and not set(OF_OPTIMIZER) & set(selection.kinds):
        keys = [key for key in keys if left.kinds.get(key) not in OF_OPTIMIZER]
    laid = lay_out(left, keys, compared_with(layout, right))
    for text in laid.notes:
        render.note(text)
    say_dropped(laid.dropped)
    return laid.reader


def _unlike(left: CheckpointReader, right: CheckpointReader) -> Unlike | None:
    """Return what may differ, where both sides are so large that it is worth to go through their indexes."""
    if not (left.is_long and right.is_long):
        return None
    from ..operations.compare.index_difference import unlike  # which needs numpy

    return unlike(left, right)


def _nbytes(right: CheckpointReader, pairs: list[KeyPair]) -> int:
    specs = (right.specs[pair.right] for pair in pairs if pair.left and pair.right)
    return sum(spec.nbytes or 0 for spec in specs)


def _suggest(left: CheckpointReader, right: CheckpointReader, pairs: list[KeyPair], by: str) -> None:
    """Where nothing was paired, say what would have been: two formats name one thing differently."""
    if any(pair.left is not None and pair.right is not None for pair in pairs):
        return
    better = better_by(left, right, by)
    if better is not None:
        render.note(f"no {by.replace('-', ' ')} is on both sides; --by {better} pairs some")


def _show(found: Diff, names: dict[str, str], options: dict[str, Any], prefix: tuple[str, ...] = ()) -> None:
    from ..render import diff as view

    shown = found.shown(everything=options["everything"])
    if not render.is_terminal():
        as_row = view.stat_row if options["stat"] else view.row
        render.tsv([*prefix, *as_row(entry)] for entry in shown)
        return
    if options["stat"]:
        view.stat(shown, names)
    else:
        view.by_layer(shown, names)
    view.summary_line(found.summary)


# Directories ----------------------------------------------------------------------


def _each(left: Location, right: Location, options: dict[str, Any]) -> int:
    """Compare the checkpoints that have one name in both directories; what cannot be read hides no other."""
    ours, theirs, unread = _sides(left, right, recursive=options["recursive"])
    both = [name for name in ours if name in theirs]
    only = {
        "removed": [name for name in ours if name not in theirs],
        "added": [name for name in theirs if name not in ours],
    }
    fails = any(_is_bad_alone(change, name, options) for change, names in only.items() for name in names)
    shown: list[Any] = []
    for name in both:
        try:
            found, names = _compare(ours[name], theirs[name], options)
        except CheckpointError as error:
            unread[name] = error
            continue
        fails = _fails(found, options, name) or fails
        shown.append(_show_pair(found, names, theirs[name], name, options))
    if _has_form(options):
        places = {"removed": ours, "added": theirs}
        alone = [
            (change, places[change][name].head, name) for change, names in only.items() for name in names
        ]
        _report(shown, options, alone)
    elif options["as_json"]:
        render.document({"pairs": shown, "only_left": only["removed"], "only_right": only["added"]})
    elif not options["quiet"]:
        _show_only(only)
    for obstacle in unread.values():
        render.error_lines(str(obstacle), obstacle.hints)
    if not (both or unread):
        render.warning(f"{left}, {right}: no checkpoint has one name in both")
    return 3 if unread else int(fails or not both)


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
        if render.is_terminal():
            render.title(name)
        _show(found, names, options, (name,))
    return None


def _sides(
    left: Location, right: Location, *, recursive: bool
) -> tuple[dict[str, CheckpointLocation], dict[str, CheckpointLocation], dict[str, CheckpointError]]:
    """Return the checkpoints of two directories by name, and apart what of one of them is no checkpoint."""
    unread: dict[str, CheckpointError] = {}
    ours, theirs = (_members(path, unread, recursive=recursive) for path in (left, right))
    for side in (ours, theirs):
        for name in unread.keys() & side.keys():
            del side[name]
    return ours, theirs, unread


def _members(
    path: Location, unread: dict[str, CheckpointError], *, recursive: bool
) -> dict[str, CheckpointLocation]:
    """Return a directory's checkpoints by name; `unread` gets those whose format cannot be told."""
    if not is_directory(path):
        message = f"--each wants two directories, {path} is none"
        raise click.UsageError(message, click.get_current_context())
    from formats.find.directory import Directory, directories_below

    found = {}
    for folder in directories_below(path) if recursive else (path,):
        for member in Directory(folder).members:
            name = member.location.path.relative_to(path)
            if member.error is not None:
                unread.setdefault(name, member.error)
            found[name] = member.location
    return found


def _show_only(only: dict[str, list[str]]) -> None:
    rows = [(name, change) for change, names in only.items() for name in names]
    if not render.is_terminal():
        render.tsv(rows)
        return
    for name, change in rows:
        side = "left" if change == "removed" else "right"
        render.title(name, render.styled(f"only on the {side}", fg="red" if side == "left" else "green"))
