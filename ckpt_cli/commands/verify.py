"""`ckpt verify`: is every byte sound?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .. import render
from ..operations.verify import Result, expand, verify_one
from ..options import color_option, jobs_option, json_option, path_argument

if TYPE_CHECKING:
    from formats.paths import Location

__all__ = ["command"]

_MOST_SHOWN = 20
"""Findings of one code shown in full on a terminal; a missing shard can lose a hundred thousand tensors."""


@click.command("verify")
@path_argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--roundtrip",
    "to",
    metavar="FORMAT",
    help="Also convert to FORMAT and back, in a temporary folder, and compare.",
)
@jobs_option
@json_option
@color_option
def command(paths: tuple[str, ...], jobs: int, *, as_json: bool, **options: Any) -> int:
    """Check that a checkpoint is sound, to the last byte.

    Structure first (footer, block checksums, key order, entries within their shards,
    shards that are missing or left over, object graph), then every tensor against its
    stored checksum.  Goes on after the first finding.  A directory stands for all of
    its checkpoints.  Exits 1 if there are errors, 3 if not one key can be listed.

    --roundtrip proves that a conversion loses nothing; a warning lists what FORMAT has no
    place for.  TMPDIR says where the temporary folder is made.

    \b
      ckpt verify run/                              every checkpoint of a run
      ckpt verify run/ckpt-10 --json                for a script
      ckpt verify run/ckpt-10 --roundtrip name      before converting for good
    """
    results = [_verify(place, jobs, options) for place in expand(paths)]
    if as_json:
        documents = [result.document() for result in results]
        render.document({"ok": all(result.ok for result in results), "results": documents})
    elif render.is_terminal():
        for result in results:
            _show(result)
    else:
        for result in results:
            render.tsv(_rows(result))
    for result in results:
        if result.ok and not result.has_checksums:
            render.note(f"{result.path}: {result.format} stores no checksums, so values cannot be proved")
        if result.unreadable:
            render.error_lines(_sentence(result), result.hints)
    return _exit_code(results)


def _verify(place: Location | Result, jobs: int, options: dict[str, Any]) -> Result:
    if isinstance(place, Result):
        return place
    total = _data_size(place)
    with render.progress(total, place.name) as advance:
        result = verify_one(place, jobs, advance)
    if not result.ok:
        return result  # what is damaged proves nothing further
    if options["to"] is not None:
        from ..operations.roundtrip import roundtrip

        with render.progress(total * 4, f"{place.name} and back") as advance:
            found = roundtrip(place, options["to"], advance)
        result = result._replace(findings=(*result.findings, *found))
    return result


def _data_size(location: Location) -> int:
    import os

    return sum(os.stat(path).st_size for path in location.files())


def _exit_code(results: list[Result]) -> int:
    if all(result.ok for result in results):
        return 0
    return 3 if not any(result.listed for result in results) else 1


def _sentence(result: Result) -> str:
    finding = result.findings[0]
    where = finding.file or result.path
    offset = f": offset {finding.offset}" if finding.offset is not None else ""
    return f"{where}{offset}: {finding.message}"


def _counts(result: Result) -> str:
    size = render.human_size(result.nbytes)
    if result.tensors == result.listed:
        return f"{result.tensors:,} tensors, {size}"
    return f"{result.tensors:,} of {result.listed:,} tensors sound, {size} read"


def _rows(result: Result) -> list[tuple[object, ...]]:
    """Return TSV: path, status, code, key, file, offset, message."""
    summary = (result.path, "ok" if result.ok else "damaged", None, None, None, None, _counts(result))
    details = [(result.path, f.severity, f.code, f.key, f.file, f.offset, f.message) for f in result.findings]
    return [summary, *details]


def _show(result: Result) -> None:
    mark = render.styled("ok", fg="green") if result.ok else render.styled("DAMAGED", fg="red", bold=True)
    render.title(result.path, f"{mark}  {result.format or 'unknown format'}  {_counts(result)}")
    if not result.findings:
        return
    shown: dict[tuple[str, str], int] = {}
    rows, styles = [], []
    for finding in result.findings:
        group = (finding.severity, finding.code)
        shown[group] = shown.get(group, 0) + 1
        if shown[group] > _MOST_SHOWN:
            continue
        where = finding.file.rpartition("/")[2] if finding.file else ""
        offset = "" if finding.offset is None else str(finding.offset)
        texts = (finding.severity, finding.code, finding.key or "", where, offset, finding.message)
        rows.append([render.escape(text) for text in texts])
        styles.append("red" if finding.severity == "error" else "yellow")
    columns = [
        render.Column(""),
        render.Column("FINDING"),
        render.Column("KEY", fold=True),
        render.Column("FILE", fold=True),
        render.Column("OFFSET", right=True),
        render.Column("WHAT", fold=True),
    ]
    render.table(columns, rows, styles)
    for (_, code), count in shown.items():
        if count > _MOST_SHOWN:
            render.note(f"{count - _MOST_SHOWN:,} more findings {code}; --json has them all")
