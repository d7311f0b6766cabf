"""Print the result of a plan that was carried out, or of its dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.core.words import counted

from ..api.writing import report_dropped
from ..operations.convert.plan import FULL, NONE, SENT
from ..render import base as render
from ..render.report import SCREEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..api.writing import How, Written
    from ..operations.convert.plan import Plan


_PROVED = {FULL: ", verified", SENT: ", upload verified by checksum", NONE: ""}


def print_result(written: Written, *, as_json: bool, prefix: tuple[str, ...] = ()) -> None:
    """Print what a plan did or would do, notes first; `prefix` begins the lines of one of several.

    The plan itself is printed in a dry run alone; the last line, on stderr, says what was written.
    """
    plan, (notes, shared), how = written
    for text in notes:
        render.note(text)
    if as_json:
        head = {"source": plan.source, "target": plan.target, "format": plan.format}
        dropped = [one._asdict() for one in plan.dropped]
        tail = {"dropped": dropped, **written.verification()}
        render.long_document(head, "tensors", plan.rows(), lambda: tail)
    elif how.dry_run and not render.is_terminal():
        render.lines(_lines(plan, prefix))
    elif how.dry_run:
        columns = [render.Column("FROM", fold=True), render.Column("TO", fold=True)]
        columns += [render.Column("DTYPE", worth=0), render.Column("SHAPE", worth=1)]
        render.table(columns, [_cells(row) for row in plan.rows()])
    if not as_json:  # the document has them
        report_dropped(plan.dropped, SCREEN)
    note_written(plan, counted(len(plan.moves), "tensor"), how, shared=shared)


def note_written(plan: Plan, tensors: str, how: How, *, shared: bool = False) -> None:
    """Say on stderr what was written, or would be: where, in which format, how much, how it was proved."""
    done = "would write" if how.dry_run else "wrote"
    proof = ", verified except for the shared data" if shared and how.proved != NONE else _PROVED[how.proved]
    what = f"{plan.format}, {tensors}, {render.human_size(plan.nbytes)}"
    render.last_line(f"{done} {plan.target}", f"({what}){proof}")


def _lines(plan: Plan, prefix: tuple[str, ...]) -> Iterator[str]:
    """Yield TSV lines; what follows the keys repeats from tensor to tensor."""
    before = "".join(render.escape(path) + "\t" for path in prefix)
    behind: dict[tuple[str, tuple[int, ...]], str] = {}
    for move in plan.moves:
        key, dtype, shape = move.spec[:3]
        end = behind.get((dtype.name, shape))
        if end is None:
            end = behind[dtype.name, shape] = f"\t{move.spec.dtype_name or ''}\t{','.join(map(str, shape))}"
        yield f"{before}{render.escape(move.source or '')}\t{render.escape(key)}{end}"


def _cells(row: dict[str, Any]) -> list[str]:
    own = render.escape(row["from"]) if row["from"] is not None else "(none)"
    return [own, render.escape(row["to"]), row["dtype"] or row["stored"]["dtype"], str(row["shape"])]
