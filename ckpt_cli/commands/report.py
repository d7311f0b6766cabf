"""`ckpt report`: a page to look at, in one file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from formats.core.version import VERSION
from formats.core.words import command_line, counted
from formats.errors import CheckpointError
from formats.find.directory import Directory
from formats.find.opening import is_directory
from formats.location import parse_location

from ..api.moment import moment
from ..cli.help import subcommand
from ..cli.option_rules import excludes, option_rules
from ..cli.options import (
    color_option,
    dry_run_option,
    jobs_option,
    json_option,
    match_option,
    output_option,
    overwrite_option,
    path_argument,
)
from ..operations.convert.single_file import refuse_single, write_single
from ..operations.look import report
from ..operations.look.flaws import Flaws
from ..operations.look.report import Page
from ..operations.select.selection import Selection
from ..render import base as render
from ..render.page import page
from ..render.progress import progress
from ..render.report import opened, print_empty, print_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from formats.location import Location
    from formats.model.reader import FormatReader


_SUFFIXES = (".html", ".htm")
_LARGE = 10_000_000
"""Bytes of a page beyond which browsers take a while, and mail does not take it."""


@subcommand("report")
@path_argument(default=".", metavar="[PATH]")
@path_argument("others", nargs=-1, metavar="[OTHER]...")
@output_option(
    "FILE.html",
    "Write the page to FILE.html.\f[default: the name of PATH with .html, in the current directory]",
)
@match_option(
    "Also draw matching tensors, besides the 500 largest.\f* also matches /. For a run directory, "
    "use only matching tensors in curves, norms and the map of changes."
)
@click.option("--open", "open_it", is_flag=True, help="Open the page in a browser.")
@overwrite_option("Replace FILE if it exists.")
@dry_run_option("Read everything, but print only the size of the page.")
@jobs_option
@json_option
@color_option
@option_rules(excludes("--open", "--dry-run"))
def command(path: Location, others: tuple[Location, ...], target: Location | None, **options: Any) -> int:
    """Write an HTML page about one or more checkpoints, or a run.

    The page is one file that loads nothing else, so you can mail it or keep it with a build. It
    shows sizes by layer and the object graph. It shows all tensors with their statistics, as a list
    and as a tree, with search, sorting and filters. For the 500 largest tensors, it also shows
    histograms and heat maps. Each tensor is read once.

    For a directory with one checkpoint, the page shows that checkpoint. For a run directory it
    shows the contents of ckpt log as curves, and a map of changes by layer and step. It also shows
    norms, how far the weights moved, the first NaN, and the tensors of the latest checkpoint. For two
    checkpoints it shows the changes by layer, largest first, with both versions of each tensor. For more
    checkpoints it shows how far they are apart, as a heat map and by layer, with norms as curves.

    The first of two paths can be an export (TFLite, ONNX, GGUF, GraphDef or TensorFlow.js), and the
    second a checkpoint of another format. The page then shows what each weight of the export was made
    from, as ckpt verify --made-from does.

    For one or two checkpoints, --match adds tensors to the 500 that are drawn. For a run, it
    selects the tensors of the curves, the norms and the map of changes, as in ckpt log. For more
    checkpoints, it selects the tensors to compare.

    If a tensor is damaged, the page marks it and the exit code is 3.

    \b
      ckpt report run/ckpt-10 -o ckpt-10.html
      ckpt report run/ckpt-10 -o ckpt-10.html --match '*/bias' --open
      ckpt report run/                       # writes run.html here
      ckpt report run/ckpt-9 run/ckpt-10 -o changes.html
      ckpt report seed0 seed1 seed2 -o seeds.html
      ckpt report model.tflite run/ckpt-10   # was the export made from it?
    """
    target = target or _named_after(path)
    if not target.lower().endswith(_SUFFIXES):
        message = f"{target!r} does not end in .html"
        raise click.BadParameter(message, click.get_current_context(), param_hint="--output")
    if options["open_it"] and target.is_object():
        message = f"--open needs a local file, not {target}"
        raise click.UsageError(message, click.get_current_context())
    refuse_single(target, overwrite=options["overwrite"])
    options["command"] = _command(path, others, options)
    if not others and is_directory(path) and not _holds_one(path):
        return _of_run(path, target, options)
    if len(others) > 1:
        found = _of_several([path, *others], target, options)
    elif others:
        found = _of_two(path, others[0], target, options)
    else:
        found = _of_checkpoint(path, target, options)
    _warn_of_flaws(found.flaws)
    return 0


def _named_after(path: Location) -> Location:
    """Return the path of a page without --output: in the current directory, named after the last part of
    PATH.
    """
    return parse_location((path.absolute().name or "report") + ".html")


def _holds_one(directory: Location) -> bool:
    """Whether a directory holds one checkpoint, and it can be opened."""
    members = Directory(directory).members
    return len(members) == 1 and members[0].error is None


def _warn_of_flaws(flaws: Flaws) -> None:
    """Say what is damaged, of very many tensors of the first; the page names all."""
    if flaws.count > len(flaws.first):
        more = counted(flaws.count - len(flaws.first), "more tensor")
        render.warning(f"{more} cannot be read; the page lists all")
    print_errors(flaws.first)


def _of_run(path: Location, target: Location, options: dict[str, Any]) -> int:
    """Write the page of a run directory; 3 where something in it is damaged, 1 where it has no checkpoint."""
    from ..operations.runs.curves import read_curve
    from ..operations.runs.history import History, history_document
    from ..operations.runs.log import RunLog
    from ..operations.runs.state import places_of

    directory, state_path = places_of(path)
    event_curves, seen = read_curve(directory), History(options["workers"])
    selection = Selection(keep=options["matches"])
    run = RunLog(
        Directory(directory, state_path),
        selection,
        event_curves.curve,
        values=True,
        workers=options["workers"],
        watch=seen.watch,
    )
    name = directory.absolute().name
    with progress(run.nbytes, name) as advance:
        rows = list(run.rows(advance))
    for text in (*run.directory.notes, *event_curves.notes, *run.notes):
        render.note(text)
    for text in run.warnings:
        render.warning(text)
    if not rows:
        return print_empty(directory)
    document = history_document(directory, name, run, rows, seen) | {
        "latest": _latest(run.directory, options)
    }
    _write(Page(document, Flaws()), target, options, lambda: None)
    return 3 if run.warnings else 0


def _latest(directory: Directory, options: dict[str, Any]) -> dict[str, Any] | None:
    """Return the page's part about a run's latest checkpoint, or None if it cannot be opened."""
    latest = directory.latest
    if latest is None:
        return None
    try:
        with opened(latest, noted=False) as reader, _progress(reader) as advance:
            return report.checkpoint(reader, workers=options["workers"], advance=advance).document
    except CheckpointError:
        return None  # the log has said what is wrong with it


def _of_checkpoint(path: Location, target: Location, options: dict[str, Any]) -> Page:
    with opened(path) as reader:
        with _progress(reader) as advance:
            found = report.checkpoint(reader, options["matches"], workers=options["workers"], advance=advance)
        _write(found, target, options, reader.check_unchanged)
    return found


def _of_two(path: Location, other: Location, target: Location, options: dict[str, Any]) -> Page:
    from ..operations.compare.side_by_side import two
    from ..operations.origin.page import is_of_origins, origins

    with opened(path) as left, opened(other) as right:
        if is_of_origins(left, right):
            _refuse_matches(options)
            with _progress(left) as advance:
                found = origins(left, right, advance)
        else:
            with _progress(right) as advance:
                found = two(left, right, options["matches"], workers=options["workers"], advance=advance)

        def prove() -> None:
            left.check_unchanged()
            right.check_unchanged()

        _write(found, target, options, prove)
    return found


def _refuse_matches(options: dict[str, Any]) -> None:
    if options["matches"]:
        message = "--match selects tensors to draw, but a page about an export and its source draws none"
        raise click.UsageError(message, click.get_current_context())


def _of_several(paths: list[Location], target: Location, options: dict[str, Any]) -> Page:
    from contextlib import ExitStack

    from ..operations.compare.matrix import MatrixOptions
    from ..operations.compare.several import several

    parsed = MatrixOptions(Selection(keep=options["matches"]), workers=options["workers"])
    with ExitStack() as stack:
        readers = [stack.enter_context(opened(path)) for path in paths]
        nbytes = sum((spec.nbytes or 0) * len(readers) for one in readers for spec in one.specs.values())
        with progress(nbytes, "checkpoints") as advance:
            found = several(readers, parsed, advance)

        def prove() -> None:
            for reader in readers:
                reader.check_unchanged()

        _write(found, target, options, prove)
    return found


def _command(path: Location, others: Sequence[Location], options: dict[str, Any]) -> str:
    """Return the command line that makes the page, without its output name and without secrets of URLs."""
    matches = [word for text in options["matches"] for word in ("--match", text)]
    return command_line("report", path, *others, *matches)


def _progress(reader: FormatReader) -> AbstractContextManager[Callable[[int], None]]:
    nbytes = sum(spec.nbytes or 0 for spec in reader.specs.values())
    return progress(nbytes, reader.location.name)


def _write(found: Page, target: Location, options: dict[str, Any], prove: Callable[[], None]) -> None:
    """Write a page, unless that is only tried, and tell of it."""
    data = page({**found.document, "made": moment(), "command": options["command"]}, VERSION)
    if not options["dry_run"]:
        write_single(target, [data], overwrite=options["overwrite"], prove=prove)
    _report_written(found.document, target, len(data), options)


def _report_written(document: dict[str, Any], target: Location, nbytes: int, options: dict[str, Any]) -> None:
    """Say what was written, or would be, and open it."""
    if nbytes > _LARGE:
        is_fewer = document["what"] == "run" or options["matches"]
        way = "; to make it smaller, select fewer tensors with --match" if is_fewer else ""
        render.note(f"{target} is {render.human_size(nbytes)}{way}")
    if options["as_json"]:
        other = document.get("other")
        others = {"others": document["others"]} if "others" in document else {}
        render.document(
            {"path": document["path"], "other": other, **others, "output": target, "nbytes": nbytes}
        )
    elif not render.is_terminal():
        render.tsv([[target, nbytes]])
    else:
        done = "would write" if options["dry_run"] else "wrote"
        drawn = f", {counted(len(document['sketches']), 'tensor')} drawn" if document["sketches"] else ""
        render.title(f"{done} {target}", render.human_size(nbytes) + drawn)
    if options["open_it"]:
        _open(target)


def _open(target: Location) -> None:
    import webbrowser
    from urllib.request import pathname2url

    if webbrowser.open("file://" + pathname2url(os.path.abspath(target.absolute()))):
        render.note(f"opened {target} in a browser")
    else:
        render.warning(f"{target}: found no browser to open it")
