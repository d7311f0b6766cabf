"""`ckpt stats`: statistics of every tensor."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from formats.core.words import counted
from formats.errors import CheckpointError
from formats.find.opening import is_directory

from ..operations.choose.places import checkpoints_below
from ..operations.choose.select import choose
from ..operations.look.stats import Statistics, statistics_of
from ..options import (
    choosing,
    color_option,
    fail_on_option,
    json_option,
    path_argument,
    recursive_option,
    selection_of,
    sharing_options,
)
from ..render import base as render
from ..render.report import opened, say_all, say_empty

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.model.reader import CheckpointReader
    from formats.store.workers import Workers

    from ..operations.choose.select import Selection


_FIELDS = Statistics._fields


def _failures(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...]:
    names = tuple(value.split(",")) if value else ()
    for name in names:
        if name not in ("nan", "inf"):
            raise click.BadParameter(f"{name!r} is not one of nan, inf")
    return names


@click.command("stats")
@path_argument()
@choosing
@fail_on_option("Exit 1 if any value is one of these.", callback=_failures, metavar="nan,inf")
@recursive_option()
@sharing_options
@json_option
@color_option
def command(
    path: str, fail_on: tuple[str, ...], workers: Workers, *, as_json: bool, recursive: bool, **options: Any
) -> int:
    """Show min, max, mean, std, l2, zeros, NaN and infinities.

    Computed in float64, NaN counted and left out, in memory that does not grow with
    the tensors.  Strings and variants are passed over.  With -R every checkpoint in PATH
    and in the directories below; lines begin with its path.

    \b
      ckpt stats run/ckpt-10 --kind variable
      ckpt stats run/ckpt-10 --fail-on nan,inf      # for CI: exit 1 when a run has gone bad
      ckpt stats -R runs/ --fail-on nan,inf         # or any of them
    """
    selection = selection_of(options)
    if recursive:
        return _recursively(path, selection, fail_on, workers, as_json=as_json)
    bad = _Bad(fail_on)
    with opened(path) as reader:
        _print(reader, _rows(reader, selection, bad, workers), as_json=as_json)
    return bad.code(path)


def _recursively(
    path: str, selection: Selection, fail_on: tuple[str, ...], workers: Workers, *, as_json: bool
) -> int:
    """Show the statistics of all checkpoints below; what cannot be opened is said, and raised in the end."""
    if not is_directory(path):
        raise click.UsageError(f"--recursive wants a directory, {path} is none", click.get_current_context())
    errors: list[CheckpointError] = []
    documents: list[dict[str, Any]] = []
    code = 0
    for place in checkpoints_below(path):
        if isinstance(place, CheckpointError):
            errors.append(place)
            continue
        bad = _Bad(fail_on)
        try:
            with opened(place) as reader:
                rows = list(_rows(reader, selection, bad, workers))
                documents.append({"schema": 1, "path": place.path, "tensors": rows})
                if not as_json:
                    _print(reader, rows, as_json=False, several=True)
        except CheckpointError as error:
            errors.append(error)
        code = bad.code(place.path) or code
    if as_json:
        render.document({"results": documents})
    say_all(errors)
    return code if documents else say_empty(path)


class _Bad:
    """Counts values of the sorts that the command shall fail on."""

    def __init__(self, fail_on: tuple[str, ...]) -> None:
        self.fail_on = fail_on
        self.counts: dict[str, int] = {}

    def look(self, key: str, found: Statistics) -> None:
        count = sum(getattr(found, name) for name in self.fail_on)
        if count:
            self.counts[key] = count

    def code(self, path: str) -> int:
        """Warn of what was found, and return the exit code."""
        for key, count in self.counts.items():
            values = f"{counted(count, 'value')} {'is' if count == 1 else 'are'} {' or '.join(self.fail_on)}"
            render.warning(f"{path}: {render.escape(key)}: {values}")
        return 1 if self.counts else 0


def _rows(
    reader: CheckpointReader, selection: Selection, bad: _Bad, workers: Workers
) -> Iterator[dict[str, Any]]:
    keys = [key for key in choose(reader, selection) if reader[key].spec.dtype.is_number]
    if not keys:
        render.note("only strings and variants are there, which have no statistics")
    total = sum(reader.specs[key].nbytes or 0 for key in keys)
    with (
        closing(statistics_of(reader, keys, workers.expecting(total))) as all_found,
        render.progress(total, reader.location.name) as advance,
    ):
        for key, found in all_found:
            spec = reader.specs[key]
            bad.look(key, found)
            advance(spec.nbytes or 0)
            yield {"key": key, "dtype": spec.dtype.name, "shape": list(spec.shape), **found._asdict()}


def _print(
    reader: CheckpointReader, rows: Iterable[dict[str, Any]], *, as_json: bool, several: bool = False
) -> None:
    path = reader.location.path
    if as_json:
        # Begun when all is known: half a document before an error would be none.
        render.long_document({"path": path}, "tensors", list(rows), dict)
    elif not render.is_terminal():
        prefix = [path] * several
        render.tsv([*prefix, *map(_cell, row.values())] for row in rows)
    else:
        if several:
            render.title(path)
        paths = reader.object_paths
        columns = [render.Column("KEY", fold=True), render.Column("SHAPE")]
        columns += [render.Column(name.upper(), right=True) for name in _FIELDS]
        cells, styles = [], []
        for row in rows:
            name = render.escape(paths.get(row["key"]) or row["key"])
            cells.append([name, str(row["shape"]), *(_number(row[field]) for field in _FIELDS)])
            styles.append("red" if row["nan"] or row["inf"] else "")
        render.table(columns, cells, styles)


def _cell(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
