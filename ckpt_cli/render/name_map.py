"""Name maps as files, for people to edit and for `--map`: two columns, with reasons in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import CheckpointExistsError
from formats.store.local.staging import replace_file

from ..operations.select.name_map import row_of
from .base import escape
from .base import lines as print_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.location import Location

    from ..operations.select.name_map import MapRow, Name
    from ..operations.select.proposal import Proposal


STDOUT = "-"


def map_lines(rows: Iterable[MapRow]) -> list[str]:
    """Return a line for each row of a map, with a third column where values change."""
    return [
        "\t".join(
            (_spelled(row.old), _spelled(row.new), *((str(row.steps),) if row.steps.operations else ()))
        )
        for row in rows
    ]


def _spelled(name: Name) -> str:
    """Return a name as maps have it: its own braces are escaped, those around captures are not."""
    first, *others = (escape(part).replace("{", "\\x7b") for part in name.literals)
    captured = zip(name.captures, others, strict=True)
    return first + "".join(f"{{{capture}}}{after}" for capture, after in captured)


def proposal_lines(proposals: Sequence[Proposal], restored: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Return the lines of a map, each below a comment that says why; no comment has a TAB.

    A pair that is ambiguous is a comment itself, so that nothing takes it before a person has decided.
    `restored` are pairs, old and new, that a restore makes by itself: full names may tell otherwise.
    """
    lines = ["# Guessed from dtypes, shapes, layers and words. Check each line."]
    if any(proposal.ambiguous for proposal in proposals):
        lines.append("# Ambiguous pairs are commented out. To use one, write OLD, a TAB and NEW.")
    for proposal in proposals:
        row = row_of(proposal.source, proposal.target)
        pair = f"# ambiguous: {_spelled(row.old)} => {_spelled(row.new)}"
        lines += [f"# {proposal.why}", pair if proposal.ambiguous else map_lines([row])[0]]
    if restored:
        lines += ["# Paired by objects, as restore() does.", *map_lines(row_of(*pair) for pair in restored)]
    return lines


def save_map(path: Location, lines: Iterable[str], *, overwrite: bool, hints: tuple[str, ...]) -> None:
    """Write a map, to stdout if `path` is `-`.

    Raises CheckpointExistsError, with `hints`, where a file is there with other lines: it may have been
    edited.
    """
    if path == STDOUT:
        print_lines(lines)
        return
    text = "".join(f"{line}\n" for line in lines).encode("utf-8")
    if path.is_file() and not overwrite:
        with path.open() as file:
            there = file.read(0, len(text) + 1)
        if sorted(there.splitlines()) != sorted(text.splitlines()):
            message = "this file already exists, and it contains other pairs"
            raise CheckpointExistsError(message, path=path, hints=hints)
        return
    replace_file(path, text)
