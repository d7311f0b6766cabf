"""`ls` of a directory: its checkpoints, and other files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..operations.runs.listing import is_run
from . import base as render
from .listing import cell, write_names, write_null

if TYPE_CHECKING:
    from .listing import Look


_MOST_BESIDE = 3
_FIELDS = ("name", "format", "step", "tensors", "nbytes", "modified")


def show(found: dict[str, Any], look: Look, *, by_path: bool) -> None:
    """Print a directory's document; in a pipe `by_path` where it is one of several."""
    rows = found["checkpoints"]
    if by_path and (look.as_csv or not render.is_terminal()):
        rows = [row | {"name": row["path"]} for row in rows]
    latest = found["latest"] if is_run(rows) or len(rows) == 1 else None
    left_out = len(rows[look.top :]) if look.top else 0
    rows = rows[: look.top]
    shown_fields = rows[0] if rows else _FIELDS
    fields = [field for field in (*_FIELDS, "stored_step", "identity") if field in shown_fields]
    if look.null:
        write_null(row["name"] for row in rows)
    elif look.keys_only:
        write_names(row["name"] for row in rows)
    elif look.as_csv:
        render.csv(fields if look.has_header else [], ([row[field] for field in fields] for row in rows))
    elif not render.is_terminal():
        render.tsv([row[field] for field in fields] for row in rows)
    elif rows:
        _as_table(rows, latest)
        render.note_hidden_rows(left_out, "checkpoint")
        _show_other_files(found)


def _as_table(rows: list[dict[str, Any]], latest: str | None) -> None:
    has_stored = any(row.get("stored_step") not in (None, row["step"]) for row in rows)
    has_identity = any(row.get("identity") for row in rows)
    columns = [
        render.Column("NAME", fold=True),
        render.Column("FORMAT", worth=2),
        render.Column("STEP", right=True, worth=3),
        *([render.Column("STORED STEP", right=True, worth=3)] if has_stored else []),
        render.Column("TENSORS", right=True, worth=1),
        render.Column("SIZE", right=True, worth=4),
        render.Column("MODIFIED", worth=0),
        *([render.Column("IDENTITY")] if has_identity else []),
        render.Column("", prose=True),
    ]
    cells = [
        [
            render.escape(row["name"]),
            row["format"] or "damaged",
            cell(row["step"]),
            *([cell(row["stored_step"])] if has_stored else []),
            cell(row["tensors"]),
            render.human_size(row["nbytes"]),
            cell(row["modified"]).replace("T", " ").rstrip("Z"),
            *([cell(row["identity"])[: len("sha256:") + 12]] if has_identity else []),
            _marks(row, latest),
        ]
        for row in rows
    ]
    render.table(columns, cells, [_style(row, latest) for row in rows])


def _style(row: dict[str, Any], latest: str | None) -> str:
    if row["format"] is None or row["incomplete"]:
        return "red"
    return "green" if row["name"] == latest else ""


def _marks(row: dict[str, Any], latest: str | None) -> str:
    """Return the remarks on a checkpoint: latest or kept, incomplete, and what it shares with others."""
    marks = ["latest"] if row["name"] == latest else ["kept"] if row["kept"] else []
    if row["incomplete"]:
        marks.append("incomplete")
    if row["shared_with"]:
        others = _first_of(row["shared_with"])
        marks.append(f"shares {render.human_size(row['shared_nbytes'])} with {others}")
    if row.get("copies"):
        marks.append(f"same tensors as {_first_of(row['copies'])}")
    return ", ".join(marks)


def _first_of(names: list[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - 1
    return render.escape(names[0]) + (f" and {more:,} more" if more else "")


def _show_other_files(found: dict[str, Any]) -> None:
    """Print the other files of a run, one line for each kind."""
    for what in ("events", "graphs"):
        files = [
            f"{render.escape(file['name'])} ({render.human_size(file['nbytes'])})" for file in found[what]
        ]
        if files:
            more = f" and {len(files) - _MOST_BESIDE} more" if len(files) > _MOST_BESIDE else ""
            render.lines([render.styled(f"{what}: {', '.join(files[-_MOST_BESIDE:])}{more}", dim=True)])
