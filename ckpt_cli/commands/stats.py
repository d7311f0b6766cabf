"""`ckpt stats`: statistics of every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from formats.core.words import counted, natural_order
from formats.errors import CheckpointError
from formats.find.opening import locate
from formats.find.resolve import spelling
from formats.location import Location, parse_location

from ..api.stats import RULES, SORTS, StatsOptions, refuse_no_directory, tensor_stats
from ..cli.help import subcommand
from ..cli.option_rules import option_rules
from ..cli.options import (
    choosing,
    color_option,
    completing,
    fail_on_option,
    failures,
    form_option,
    json_option,
    path_argument,
    recursive_option,
    selection_of,
    sharing_options,
    sort_option,
    table_options,
)
from ..operations.look.stats import COLUMNS, Statistics
from ..operations.report.build import Bad, of_stats
from ..operations.select.arguments import checkpoints_below, each_once
from ..render import base as render
from ..render.report import SCREEN, kept, opened, print_empty, print_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.model.checkpoint_files import CheckpointLocation
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers

    from ..api.stats import TensorStats


_FIELDS = Statistics._fields
_WORTHS = {"zeros": 1, "l2": 2, "std": 3, "mean": 4, "max": 5, "min": 5}
"""The columns by importance on a narrow terminal; the counts of NaN and infinities always stay."""


@subcommand("stats", paged=True)
@path_argument(default=".", metavar="[PATH]")
@choosing
@fail_on_option(
    "Exit 1 if any value is NaN (nan) or infinite (inf).",
    callback=failures,
    metavar="nan,inf",
    shell_complete=completing("failures"),
)
@click.option(
    "--files",
    is_flag=True,
    help="Treat every argument as a PATH, for git hooks.\fWith --fail-on, shows only tensors that fail.",
)
@table_options(COLUMNS)
@sort_option(
    SORTS, "Sort by COLUMN: largest number first, or a to z. [default: key]", default="key", metavar="COLUMN"
)
@recursive_option()
@sharing_options
@form_option
@json_option
@color_option
@option_rules(*RULES)
def command(path: Location, fail_on: tuple[str, ...], workers: Workers, **options: Any) -> int:
    """Show min, max, mean, std, l2, zeros, NaN and infinities.

    Statistics are computed in float64. NaN values are counted and otherwise ignored. Memory use does
    not depend on the size of tensors. Strings, variants and dtypes that ckpt does not know are
    skipped. With -R, covers every checkpoint in PATH and its subdirectories, and each line begins
    with its path.

    \b
      ckpt stats run/ckpt-10 --kind variable
      ckpt stats run/ckpt-10 --where 'size>1M and std>0.5' --sort l2 --top 10
      ckpt stats run/ckpt-10 --fail-on nan,inf      # for CI: exit 1 if a value is NaN or infinite
      ckpt stats -R runs/ --fail-on nan,inf         # exit 1 if any run has NaN or infinities
      ckpt stats --fail-on nan,inf --files a.h5 b.h5
    """
    if options["form"] not in ("text", "json") and not fail_on:
        raise click.UsageError(
            f"--format {options['form']} reports what --fail-on finds, so it needs --fail-on",
            click.get_current_context(),
        )
    words = options["keys"]
    if options["files"]:
        if click.get_current_context().get_parameter_source("path") is ParameterSource.DEFAULT:
            raise click.UsageError("--files needs a PATH", click.get_current_context())
        options["keys"] = ()
    selection = selection_of(options, words=not fail_on)
    parsed = StatsOptions(selection, fail_on, options["where"], options["sort"])
    run = _StatsPrinter(parsed, workers, options["form"], _StatsLook.of(options))
    if options["files"]:
        run.shows_bad_alone = bool(fail_on)
        places, notes = each_once([locate(parse_location(word)) for word in (path, *words)])
        for text in notes:
            render.note(text)
        return run.several(path, places)
    if options["recursive"]:
        refuse_no_directory(path)
        return run.several(path, checkpoints_below(path))
    return run.one(path)


class _StatsLook(NamedTuple):
    """How statistics are shown; of several checkpoints, each row begins with a path."""

    as_json: bool
    as_csv: bool
    top: int | None
    sort: str
    several: bool = False
    has_header: bool = True

    @classmethod
    def of(cls, options: dict[str, Any]) -> _StatsLook:
        as_json = options["as_json"] or options["form"] == "json"
        return cls(as_json, options["as_csv"], options["top"], options["sort"])


class _StatsPrinter:
    """Shows the statistics of one checkpoint or of several, and keeps what is bad of them."""

    def __init__(self, parsed: StatsOptions, workers: Workers, form: str, look: _StatsLook) -> None:
        self._options = parsed
        self._fail_on = parsed.fail_on
        self._workers = workers
        self._form = form
        self._look = look
        self._has_form = form not in ("text", "json")
        self._bad: list[Bad] = []
        self.shows_bad_alone = False
        """Whether the rows of tensors in which nothing is bad are left out, as a hook's reader wants it."""

    def one(self, path: Location) -> int:
        """Show one checkpoint while it is read."""
        with opened(path) as reader:
            bad = _Bad(self._fail_on)
            rows = self._rows(reader, bad)
            if self._has_form:
                self._keep(reader, bad, list(rows))
            else:
                _print(reader, rows, self._look)
        self._write()
        return bad.code(path)

    def several(self, path: Location, places: Iterable[CheckpointLocation | CheckpointError]) -> int:
        """Show checkpoints; those that cannot be opened are reported, and raised at the end."""
        errors: list[CheckpointError] = []
        documents: list[dict[str, Any]] = []
        codes = []
        look = self._look._replace(several=True)
        for place in places:
            if isinstance(place, CheckpointError):
                errors.append(place)
                continue
            bad = _Bad(self._fail_on)
            with kept(errors), opened(place) as reader:
                rows = list(self._rows(reader, bad))
                documents.append({"schema": 1, "path": spelling(place), "tensors": rows})
                self._keep(reader, bad, rows)
                if self.shows_bad_alone:
                    rows = [row for row in rows if row["key"] in bad.counts]
                if rows and not (look.as_json or self._has_form):
                    _print(reader, rows, look)
                    look = look._replace(has_header=False)
            codes.append(bad.code(place.path))
        if look.as_json:
            render.document({"results": documents})
        self._write()
        print_errors(errors)
        return max(codes, default=0) if documents else print_empty(path)

    def _rows(self, reader: FormatReader, bad: _Bad) -> Iterator[dict[str, Any]]:
        for found in tensor_stats(reader, self._options, self._workers, SCREEN):
            bad.look(found)
            yield found.to_dict()

    def _keep(self, reader: FormatReader, bad: _Bad, rows: list[dict[str, Any]]) -> None:
        location = reader.location
        self._bad.append(Bad(spelling(location), location.head, len(rows), bad.counts))

    def _write(self) -> None:
        if self._has_form:
            from ..render.findings.writing import write

            write(of_stats(self._bad, self._fail_on), self._form)


class _Bad:
    """Counts values of the sorts that the command shall fail on."""

    def __init__(self, fail_on: tuple[str, ...]) -> None:
        self.fail_on = fail_on
        self.counts: dict[str, dict[str, int]] = {}

    def look(self, found: TensorStats) -> None:
        counts = {name: getattr(found, name) for name in self.fail_on if getattr(found, name)}
        if counts:
            self.counts[found.key] = counts

    def code(self, path: Location) -> int:
        """Warn of what was found, and return the exit code."""
        for key, counts in self.counts.items():
            count = sum(counts.values())
            values = f"{counted(count, 'value')} {'is' if count == 1 else 'are'} {' or '.join(self.fail_on)}"
            render.warning(f"{path}: {render.escape(key)}: {values}")
        return 1 if self.counts else 0


def _print(reader: FormatReader, rows: Iterable[dict[str, Any]], look: _StatsLook) -> None:
    path = spelling(reader.location)
    prefix = [path] * look.several
    if look.as_json:
        # Begun when all is known: half a document before an error would be none.
        render.long_document({"path": path}, "tensors", list(rows), dict)
    elif look.as_csv:
        header = [*("path" for _ in prefix), "key", "dtype", "shape", *_FIELDS]
        cells = ([*prefix, *row.values()] for row in _first(rows, look.top))
        render.csv(header if look.has_header else [], cells)
    elif not render.is_terminal():
        render.tsv([*prefix, *map(_cell, row.values())] for row in _first(rows, look.top))
    else:
        _print_table(reader, list(rows), look)


def _print_table(reader: FormatReader, rows: list[dict[str, Any]], look: _StatsLook) -> None:
    if look.several:
        render.title(spelling(reader.location))
    paths = reader.object_paths
    if look.sort == "key":
        rows = sorted(rows, key=lambda row: natural_order(paths.get(row["key"]) or row["key"]))
    worths = {**_WORTHS, look.sort: None}  # the sort column always stays
    columns = [render.Column("KEY", fold=True), render.Column("SHAPE", worth=0)]
    columns += [render.Column(name.upper(), right=True, worth=worths.get(name)) for name in _FIELDS]
    cells, styles = [], []
    for row in rows[: look.top]:
        name = render.escape(paths.get(row["key"]) or row["key"])
        cells.append([name, str(row["shape"]), *(_number(row[field]) for field in _FIELDS)])
        styles.append("red" if row["nan"] or row["inf"] else "")
    render.table(columns, cells, styles)
    render.note_hidden_rows(len(rows) - len(cells), "tensor")


def _first(rows: Iterable[dict[str, Any]], top: int | None) -> Iterator[dict[str, Any]]:
    """Yield the first rows; all are read, because the exit code covers all."""
    for number, row in enumerate(rows):
        if top is None or number < top:
            yield row


def _cell(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
