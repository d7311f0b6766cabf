"""What the writing commands do around a plan: show progress, carry it out, tell of it.

    plan    what becomes what (`operations.move.plans.Plan`), made by the command's operation
    run     what carries it out, or rehearses that: `transfer.execute`, bound to the plan
    how     what the command's options say of it

A dry run goes the same way as a real one, to the point where the first byte would be written.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import click

from formats.core.words import counted

from ..api.writing import report_dropped
from ..operations.convert.latest import make_latest, state_beside
from ..operations.convert.plan import FULL, NONE, SENT, usual_proof, verification
from ..render import base as render
from ..render.progress import passes, progress
from ..render.report import SCREEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.core.dtypes import DType
    from formats.location import Location
    from formats.store.work.workers import Workers

    from ..operations.convert.plan import Outcome, Plan


_PROVED = {FULL: ", verified", SENT: ", sent whole", NONE: ""}


class PlanRunner(Protocol):
    """Carries a plan out, or in a dry run refuses what would be refused; returns what came of it."""

    def __call__(
        self,
        *,
        overwrite: bool,
        proof: str,
        dry_run: bool,
        workers: Workers,
        advance: Callable[[int], None],
    ) -> Outcome: ...


class How(NamedTuple):
    """How a plan is carried out, and told of; `proof` is one of `plans`: full, sent or none."""

    workers: Workers
    overwrite: bool
    dry_run: bool
    proof: str
    as_json: bool
    update_state: bool = False

    @classmethod
    def of(cls, options: dict[str, Any], target: Location) -> How:
        """Return what a command's options say."""
        return cls(
            options["workers"],
            options["overwrite"],
            options["dry_run"],
            _proof(options, target),
            options["as_json"],
            options.get("update_state", False),
        )

    @property
    def proved(self) -> str:
        """How it is proved in the end: what was written is, so a dry run is not."""
        return NONE if self.dry_run else self.proof


def _proof(options: dict[str, Any], target: Location) -> str:
    """Return how a target is proved; UsageError for what can be held against a store alone, of another."""
    asked: str | None = options.get("verify")
    if asked == SENT and usual_proof(target) != SENT:
        message = f"--verify sent is for what is sent to a store, {target} is on this machine"
        raise click.UsageError(message, click.get_current_context())
    if options.get("no_verify", False):
        return NONE
    return asked or usual_proof(target)


def carry_out(
    plan: Plan, run: PlanRunner, how: How, *, label: str | None = None, nbytes: int | None = None
) -> Outcome:
    """Carry out a plan, and return what came of it.

    The bar of progress has a label, DST's name where none is given, and the bytes of the
    plan as its length, unless so many others are read.
    """
    if how.update_state:
        state_beside(plan.target)  # One that cannot be read is refused before anything is written.
    label = os.path.basename(plan.target) if label is None else label
    nbytes = plan.nbytes if nbytes is None else nbytes
    with progress(nbytes, label, passes(how.proved == FULL)) as advance:
        outcome = run(
            overwrite=how.overwrite,
            proof=how.proof,
            dry_run=how.dry_run,
            workers=how.workers.expecting(nbytes),
            advance=advance,
        )
    if how.update_state and not how.dry_run:
        make_latest(plan.target)
    return outcome


def tell(plan: Plan, outcome: Outcome, how: How, *, prefix: tuple[str, ...] = ()) -> None:
    """Print what a plan did or would do, notes first; `prefix` begins the lines of one of several."""
    notes, shared = outcome
    for text in notes:
        render.note(text)
    if how.as_json:
        head = {"source": plan.source, "target": plan.target, "format": plan.format}
        dropped = [one._asdict() for one in plan.dropped]
        tail = {"dropped": dropped, **verification(how.proved, shared=shared)}
        render.long_document(head, "tensors", plan.rows(), lambda: tail)
        return
    if not render.is_terminal():
        render.lines(_lines(plan, prefix))
    elif how.dry_run:
        columns = [render.Column("FROM", fold=True), render.Column("TO", fold=True)]
        columns += [render.Column("DTYPE", worth=0), render.Column("SHAPE", worth=1)]
        render.table(columns, [_cells(row) for row in plan.rows()])
    report_dropped(plan.dropped, SCREEN)
    if render.is_terminal():
        say_written(plan, counted(len(plan.moves), "tensor"), how, shared=shared)


def say_written(plan: Plan, tensors: str, how: How, *, shared: bool = False) -> None:
    """Say on a terminal what was written, or would be: where, in which format, how much."""
    done = "would write" if how.dry_run else "wrote"
    proof = ", verified but for the shared data" if shared and how.proved != NONE else _PROVED[how.proved]
    size = f"{tensors}, {render.human_size(plan.nbytes)}{proof}"
    render.title(f"{done} {plan.target}", f"{plan.format}  {size}")


def note_cast(plan: Plan, cast: DType | None) -> None:
    """Say where --cast found nothing to do, and nothing is of that dtype anyway."""
    if cast is not None and all(move.spec.dtype is not cast for move in plan.moves):
        render.note(f"--cast {cast} changes floating tensors, of which there are none")


def _lines(plan: Plan, prefix: tuple[str, ...]) -> Iterator[str]:
    """Yield TSV lines; what follows the keys repeats from tensor to tensor."""
    before = "".join(render.escape(path) + "\t" for path in prefix)
    behind: dict[tuple[str, tuple[int, ...]], str] = {}
    for move in plan.moves:
        key, dtype, shape, _ = move.spec
        end = behind.get((dtype.name, shape))
        if end is None:
            end = behind[dtype.name, shape] = f"\t{move.spec.dtype_name or ''}\t{','.join(map(str, shape))}"
        yield f"{before}{render.escape(move.source or '')}\t{render.escape(key)}{end}"


def _cells(row: dict[str, Any]) -> list[str]:
    own = render.escape(row["from"]) if row["from"] is not None else "(its own)"
    return [own, render.escape(row["to"]), row["dtype"] or row["stored"]["dtype"], str(row["shape"])]
