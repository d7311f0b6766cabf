"""Name maps as files, for people to edit and for `--map`: two columns, with reasons in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import CheckpointExistsError
from formats.store.paths import is_file, open_file
from formats.store.staging import replace_file

from ..operations.choose.name_map import row_of
from .base import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..operations.choose.name_map import Name, Row
    from ..operations.choose.proposal import Proposal


def map_lines(rows: Iterable[Row]) -> list[str]:
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
    lines = ["# Proposed from dtypes, shapes, layers and words. Nothing here is known: read each line."]
    if any(proposal.ambiguous for proposal in proposals):
        lines.append(
            "# Other pairs fit as well as the ambiguous ones. To take one, write OLD, a TAB and NEW."
        )
    for proposal in proposals:
        row = row_of(proposal.source, proposal.target)
        pair = f"# ambiguous: {_spelled(row.old)} => {_spelled(row.new)}"
        lines += [f"# {proposal.why}", pair if proposal.ambiguous else map_lines([row])[0]]
    if restored:
        lines += ["# Paired by objects, as restore() does.", *map_lines(row_of(*pair) for pair in restored)]
    return lines


def save_map(path: str, lines: Iterable[str], *, overwrite: bool, hints: tuple[str, ...]) -> None:
    """Write a map; CheckpointExistsError, with `hints`, where one is there with other lines.

    It may have been edited.
    """
    text = "".join(f"{line}\n" for line in lines).encode("utf-8")
    if is_file(path) and not overwrite:
        with open_file(path) as file:
            there = file.read(0, len(text) + 1)
        if sorted(there.splitlines()) != sorted(text.splitlines()):
            raise CheckpointExistsError("is there already, with other pairs", path=path, hints=hints)
        return
    replace_file(path, text)
