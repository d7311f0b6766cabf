"""`ckpt stats`: statistics of every tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .. import render
from ..operations.parts import Part
from ..operations.select import choose
from ..operations.stats import Statistics, statistics
from ..options import choosing, color_option, json_option, path_argument, selection_of
from ..report import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.model import CheckpointReader

__all__ = ["command"]

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
@click.option("--fail-on", callback=_failures, metavar="nan,inf", help="Exit 1 if any value is one of these.")
@json_option
@color_option
def command(path: str, fail_on: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Show min, max, mean, std, l2, zeros, NaN and infinities.

    Computed in float64, NaN counted and left out, in memory that does not grow with
    the tensors.  Strings and variants are passed over.

    \b
      ckpt stats run/ckpt-10 --kind variable
      ckpt stats run/ckpt-10 --fail-on nan,inf      # for CI: exit 1 when a run has gone bad
    """
    selection = selection_of(options)
    bad: dict[str, int] = {}
    with opened(path) as reader:
        keys = [key for key in choose(reader, selection) if reader[key].spec.dtype.is_number]
        if not keys:
            render.note("only strings and variants are there, which have no statistics")
        rows = _rows(reader, keys, fail_on, bad)
        _print(reader, rows, as_json=as_json)
    for key, count in bad.items():
        render.warning(f"{path}: {render.escape(key)}: {count:,} values are {' or '.join(fail_on)}")
    return 1 if bad else 0


def _rows(
    reader: CheckpointReader, keys: list[str], fail_on: tuple[str, ...], bad: dict[str, int]
) -> Iterator[dict[str, Any]]:
    total = sum(reader.specs[key].nbytes or 0 for key in keys)
    with render.progress(total, reader.location.name) as advance:
        for key in keys:
            spec = reader.specs[key]
            found = statistics(Part(key, spec).arrays(reader), spec.dtype)
            assert found is not None
            count = sum(getattr(found, name) for name in fail_on)
            if count:
                bad[key] = count
            advance(spec.nbytes or 0)
            yield {"key": key, "dtype": spec.dtype.name, "shape": list(spec.shape), **found._asdict()}


def _print(reader: CheckpointReader, rows: Iterator[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        render.long_document({"path": reader.location.path}, "tensors", rows, dict)
    elif not render.is_terminal():
        shape = ("shape",)
        render.tsv(
            [",".join(map(str, row[name])) if name in shape else row[name] for name in row] for row in rows
        )
    else:
        paths = reader.object_paths
        columns = [render.Column("KEY", fold=True), render.Column("SHAPE")]
        columns += [render.Column(name.upper(), right=True) for name in _FIELDS]
        cells, styles = [], []
        for row in rows:
            name = render.escape(paths.get(row["key"]) or row["key"])
            cells.append([name, str(row["shape"]), *(_number(row[field]) for field in _FIELDS)])
            styles.append("red" if row["nan"] or row["inf"] else "")
        render.table(columns, cells, styles)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.5g}"
