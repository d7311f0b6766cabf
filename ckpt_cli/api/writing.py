"""The common frame of commands and functions that write: carry out a plan, and report the result.

        Job     a plan, the function that carries it out, and how
    How     the options: workers, overwrite, dry run, verification

A dry run does the same work as a real one, up to the first byte that would be written.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from formats.core.escape import escape
from formats.core.words import counted
from formats.store.work.workers import SERIAL, Workers

from ..operations.convert.latest import make_latest, refuse_unlisted, state_file_of
from ..operations.convert.plan import FULL, NONE, SENT, usual_proof, verification
from .rules import OptionError
from .tables import RowTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from formats.core.dtypes import DType
    from formats.location import Location

    from ..operations.convert.plan import Dropped, Outcome, Plan
    from ..operations.reporting import Reporter

__all__ = [
    "How",
    "Job",
    "PlanRunner",
    "WriteOptions",
    "WriteResult",
    "Written",
    "WrittenTensor",
    "carry_out",
    "note_cast",
    "passes",
    "report_dropped",
    "verify_choice",
]

_MOST_LISTED = 20
_MOST_NAMED = 2

PROOFS = (FULL, SENT, NONE)


class PlanRunner(Protocol):
    """Carries a plan out, or in a dry run raises the same errors, and returns the result."""

    def __call__(
        self,
        *,
        overwrite: bool,
        proof: str,
        dry_run: bool,
        workers: Workers,
        advance: Callable[[int], None],
    ) -> Outcome: ...


class WriteOptions(NamedTuple):
    """The options for writing; `verify` is full, sent or none, or None if the target decides."""

    workers: Workers = SERIAL
    overwrite: bool = False
    dry_run: bool = False
    verify: str | None = None
    update_state: bool = False

    def how(self, target: Location) -> How:
        """Return how a target is written; OptionError for a proof that only another store has."""
        if self.verify == SENT and usual_proof(target) != SENT:
            message = f"--verify sent needs a URL as the target, but {target} is local"
            raise OptionError(message)
        proof = self.verify or usual_proof(target)
        return How(self.workers, self.overwrite, self.dry_run, proof, self.update_state)


class How(NamedTuple):
    """How a plan is carried out; `proof` is full, sent or none."""

    workers: Workers
    overwrite: bool
    dry_run: bool
    proof: str
    update_state: bool = False

    @property
    def proved(self) -> str:
        """How the result is verified; a dry run writes nothing to verify."""
        return NONE if self.dry_run else self.proof


class Job(NamedTuple):
    """A plan that is ready to be carried out.

    The progress bar has `label` (default: DST's name) and `nbytes` as its length (default: the bytes of the
    plan).
    """

    plan: Plan
    run: PlanRunner
    how: How
    label: str | None = None
    nbytes: int | None = None


class Written(NamedTuple):
    """The result of carrying out a plan."""

    plan: Plan
    outcome: Outcome
    how: How

    def document(self) -> dict[str, Any]:
        """Return the document of writing commands."""
        return self.plan.document(self.how.proved, shared=self.outcome.shared)

    def verification(self) -> dict[str, Any]:
        """Return what the document says of how the result was compared."""
        return verification(self.how.proved, shared=self.outcome.shared)


def passes(verify: bool) -> tuple[str, ...]:
    """Return the passes over what is written: into its files, and through them again for the proof."""
    return ("writing", "verifying") if verify else ("writing",)


def carry_out(job: Job, reporter: Reporter) -> Written:
    """Carry out a plan, or rehearse it."""
    plan, run, how, label, nbytes = job
    if how.update_state:
        refuse_unlisted(plan.target, plan.format)
        state_file_of(plan.target)  # a damaged state file is an error before anything is written
    label = os.path.basename(plan.target) if label is None else label
    nbytes = plan.nbytes if nbytes is None else nbytes
    with reporter.progress(nbytes, label, passes(how.proved == FULL)) as advance:
        outcome = run(
            overwrite=how.overwrite,
            proof=how.proof,
            dry_run=how.dry_run,
            workers=how.workers.expecting(nbytes),
            advance=advance,
        )
    if how.update_state and not how.dry_run:
        make_latest(plan.target)
    return Written(plan, outcome, how)


def note_cast(plan: Plan, cast: DType | None, reporter: Reporter) -> None:
    """Note that --cast had nothing to convert, unless a tensor already has that dtype."""
    if cast is not None and all(move.spec.dtype is not cast for move in plan.moves):
        reporter.note(f"--cast {cast} has no effect, because there are no floating-point tensors")


def report_dropped(dropped: Sequence[Dropped], reporter: Reporter) -> None:
    """Note the tensors that were left out, in one line per reason."""
    keys: dict[str, list[str]] = {}
    for one in dropped:
        keys.setdefault(one.reason, []).append(one.key)
    for reason, found in list(keys.items())[:_MOST_LISTED]:
        reporter.note(f"left out {_named(found)}: {reason}")
    more = sum(map(len, list(keys.values())[_MOST_LISTED:]))
    if more:
        reporter.note(f"left out {more:,} more tensors; to list them, pass --json")


def _named(keys: Sequence[str]) -> str:
    """Return the name of one, of two, or the count of more with one of them."""
    if len(keys) > _MOST_NAMED:
        return f"{counted(len(keys), 'tensor')}, such as {escape(keys[0])}"
    return " and ".join(map(escape, keys))


def verify_choice(verify: str | None, *, no_verify: bool) -> str | None:
    """Return how to verify a target, by the arguments of a function; OptionError for another word."""
    from .calls import choice

    if verify is not None:
        choice("verify", verify, PROOFS)
    return NONE if no_verify else verify


# Results --------------------------------------------------------------------------------


class WrittenTensor(NamedTuple):
    """A tensor that was written. `source` is its key in the source (None if it comes from the target itself),
    `key` its key in the target.
    """

    source: str | None
    key: str
    dtype: str | None
    shape: tuple[int, ...]


class WriteResult(RowTable):
    """The output that was written, or would be with `dry_run`.

    `tensors` has a `WrittenTensor` for each tensor. `dropped` has the `key` and `reason` of each tensor
    that was left out. `verified` says whether the output was compared with its source, and `verification`
    how: full, sent, linked or none. `to_dict()` is the document that the command prints with `--json`.
    """

    def __init__(self, written: Written, notes: Sequence[str], warnings: Sequence[str]) -> None:
        plan = written.plan
        self.source, self.target, self.format = str(plan.source), str(plan.target), plan.format
        self.dry_run = written.how.dry_run
        self.tensors = tuple(
            WrittenTensor(move.source, move.spec.key, move.spec.dtype_name, move.spec.shape)
            for move in plan.moves
        )
        self.dropped = plan.dropped
        found = written.verification()
        self.verified: bool = found["verified"]
        self.verification: str = found["verification"]
        self.notes, self.warnings = tuple(notes), tuple(warnings)
        self._document = written.document()

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the command with `--json`, without `schema`."""
        return dict(self._document)

    def _title(self) -> str:
        done = "would write" if self.dry_run else "wrote"
        return f"{done} {self.target}: {self.format}, {counted(len(self.tensors), 'tensor')}, " + (
            f"verified ({self.verification})" if self.verified else "not verified"
        )

    def _names(self) -> Sequence[str]:
        return WrittenTensor._fields

    def _rows(self) -> Iterator[Sequence[Any]]:
        return iter(self.tensors)

    def _count(self) -> int:
        return len(self.tensors)
