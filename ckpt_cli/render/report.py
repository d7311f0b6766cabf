"""What several commands tell: of a checkpoint they open or write, of a directory that holds none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from formats.core.words import counted
from formats.find.opening import locate, open_location

from . import base as render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.core.dtypes import DType
    from formats.errors import CheckpointError
    from formats.model.location import Location
    from formats.model.reader import CheckpointReader

    from ..operations.move.transfer import Dropped, Plan


_MOST_LISTED = 20
_MOST_NAMED = 2


@contextmanager
def opened(path: str | Location, *, noted: bool = True) -> Iterator[CheckpointReader]:
    """Open a checkpoint for a command: say which one was chosen, and in the end what is wrong with it.

    Some damage hides a tensor or two and keeps nobody from going on with the others.  Whatever
    a command then says of the checkpoint is said of what is left of it, so the person is told.
    """
    with open_location(locate(path) if isinstance(path, str) else path) as reader:
        if noted and reader.location.note:
            render.note(reader.location.note)
        said = ""
        try:
            yield reader
        except Exception as error:
            said = str(error)
            raise
        finally:
            say_findings(reader, said)


def say_findings(reader: CheckpointReader, said: str = "") -> None:
    """Warn of what reading a checkpoint came across; what an error has `said` is not said twice."""
    found = [finding for finding in reader.findings if finding.message not in said]
    for finding in found[:_MOST_LISTED]:
        render.warning(finding.text)
    more = len(found) - _MOST_LISTED
    if more > 0:
        render.warning(f"{reader.location.path}: {more:,} more findings; ckpt verify has them all")


def report(plan: Plan, *, as_json: bool, dry_run: bool, verified: bool, prefix: tuple[str, ...] = ()) -> None:
    """Print a plan that was carried out, or that would be; `prefix` begins the lines of one of several."""
    if as_json:
        head = {"source": plan.source, "target": plan.target, "format": plan.format}
        dropped = [one._asdict() for one in plan.dropped]
        render.long_document(head, "tensors", plan.rows(), lambda: {"dropped": dropped, "verified": verified})
        return
    if not render.is_terminal():
        render.tsv(
            [*prefix, row["from"], row["to"], row["dtype"], ",".join(map(str, row["shape"]))]
            for row in plan.rows()
        )
    elif dry_run:
        columns = [render.Column("FROM", fold=True), render.Column("TO", fold=True)]
        columns += [render.Column("DTYPE"), render.Column("SHAPE")]
        render.table(columns, [_cells(row) for row in plan.rows()])
    say_dropped(plan.dropped)
    if render.is_terminal():
        done = "would write" if dry_run else "wrote"
        proof = ", verified" if verified else ""
        size = f"{counted(len(plan.moves), 'tensor')}, {render.human_size(plan.nbytes)}{proof}"
        render.title(f"{done} {plan.target}", f"{plan.format}  {size}")


def note_cast(plan: Plan, cast: DType | None) -> None:
    """Say where --cast found nothing to do, and nothing is of that dtype anyway."""
    if cast is not None and all(move.spec.dtype is not cast for move in plan.moves):
        render.note(f"--cast {cast} changes floating tensors, of which there are none")


def _cells(row: dict[str, Any]) -> list[str]:
    own = render.escape(row["from"]) if row["from"] is not None else "(its own)"
    return [own, render.escape(row["to"]), row["dtype"], str(row["shape"])]


def say_dropped(dropped: Sequence[Dropped]) -> None:
    """Say what was left out, a line a reason."""
    keys: dict[str, list[str]] = {}
    for one in dropped:
        keys.setdefault(one.reason, []).append(one.key)
    for reason, found in list(keys.items())[:_MOST_LISTED]:
        render.note(f"left out {_named(found)}: {reason}")
    more = sum(map(len, list(keys.values())[_MOST_LISTED:]))
    if more:
        render.note(f"left out {more:,} more; --json lists them")


def _named(keys: Sequence[str]) -> str:
    """Return the name of one, of two, or the count of more with one of them."""
    if len(keys) > _MOST_NAMED:
        return f"{counted(len(keys), 'tensor')}, {render.escape(keys[0])} for one"
    return " and ".join(map(render.escape, keys))


@contextmanager
def kept(errors: list[CheckpointError]) -> Iterator[None]:
    """Keep what goes wrong with one of many for `say_all`, and go on with the next."""
    from formats.errors import CheckpointError

    try:
        yield
    except CheckpointError as error:
        errors.append(error)


def say_all(errors: Sequence[CheckpointError]) -> None:
    """Say what went wrong with some of many; the last of it is raised, for its exit code."""
    for error in errors[:-1]:
        render.error_lines(str(error), error.hints)
    if errors:
        raise errors[-1]


def say_empty(path: str) -> int:
    """Say why there is nothing; an error in itself where the directory is another program's checkpoint."""
    from formats.errors import CheckpointError, UnknownFormatError
    from formats.find.directory import Directory

    try:
        Directory(path).require_latest()
    except UnknownFormatError:
        raise
    except CheckpointError as error:
        render.error_lines(str(error), error.hints)
    return 1
