"""Output for people and programs: tables and trees on a terminal, TSV and JSON in a pipe.

Nothing from a file reaches a terminal or a TSV line raw: control characters, bytes that are
not UTF-8, marks that turn the writing direction, and the backslash are escaped.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import re
import sys
from typing import IO, TYPE_CHECKING, Any

import click

from formats.core.escape import escape, printable
from formats.core.words import counted

from .tables import Column, TableLines, lay_out, pad, short, width
from .text import human_size
from .workflow_commands import without_commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

__all__ = [
    "Column",
    "Node",
    "choose_color",
    "choose_quiet",
    "choose_verbose",
    "csv",
    "document",
    "error_lines",
    "escape",
    "has_printed_all",
    "height",
    "human_size",
    "is_dumb",
    "is_quiet",
    "is_terminal",
    "is_verbose",
    "json_text",
    "line_document",
    "lines",
    "long_document",
    "note",
    "pad",
    "printable",
    "remark",
    "room",
    "short",
    "styled",
    "table",
    "title",
    "tree",
    "tsv",
    "tsv_text",
    "use_color",
    "warning",
    "width",
]


def room() -> int:
    """Return how many cells a line of the terminal has."""
    import shutil  # with its compressors; output to a pipe needs no width

    return shutil.get_terminal_size((100, 24)).columns


def height() -> int:
    """Return how many lines the terminal has."""
    import shutil

    return shutil.get_terminal_size((100, 24)).lines


# Streams ------------------------------------------------------------------------


def is_terminal(stream: IO[str] | None = None) -> bool:
    return (stream or sys.stdout).isatty()


_color = "auto"


def choose_color(choice: str) -> None:
    """Apply --color, also to errors that are printed after the command."""
    global _color  # noqa: PLW0603  a terminal is global
    _color = choice


def use_color(stream: IO[str]) -> bool:
    """Whether to colour what goes to `stream`, by --color, NO_COLOR, TERM and what it is."""
    if _color != "auto":
        return _color == "always"
    return not os.environ.get("NO_COLOR") and not is_dumb() and stream.isatty()


def is_dumb() -> bool:
    """Whether the terminal can only print: nothing is coloured there, or taken back."""
    return os.environ.get("TERM") == "dumb"


def styled(text: str, stream: IO[str] | None = None, **style: Any) -> str:
    """Return text in colour, if the stream shows colour; the default is stdout."""
    return click.style(text, **style) if use_color(stream or sys.stdout) else text


_quiet = False
_verbose = False


def choose_quiet(choice: bool) -> None:
    """Set what --quiet says: whether notes and progress are left out.  Warnings and errors never are."""
    global _quiet  # noqa: PLW0603  as with colour
    _quiet = choice


def choose_verbose(choice: bool) -> None:
    """Apply --verbose: whether progress is printed if no bar can be drawn."""
    global _verbose  # noqa: PLW0603  as with colour
    _verbose = choice


def is_quiet() -> bool:
    return _quiet


def is_verbose() -> bool:
    return _verbose


_is_unsaid = False


def has_printed_all() -> bool:
    """Whether everything for stderr since the last call could be written."""
    global _is_unsaid
    unsaid, _is_unsaid = _is_unsaid, False
    return not unsaid


def _say(text: str) -> None:
    """Print a line on stderr.

    A full or closed stream ends no work; the exit code reports it (`has_printed_all`).
    """
    global _is_unsaid  # noqa: PLW0603  as with colour
    try:
        print(without_commands(text), file=sys.stderr, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        _is_unsaid = True


def note(text: str) -> None:
    """Tell on stderr what was chosen, or what there is to know."""
    if not _quiet:
        _say(f"{styled('note:', sys.stderr, fg='cyan')} {printable(text)}")


def last_line(what: str, more: str) -> None:
    """Say on stderr what a command did, at its end; --quiet leaves it out."""
    if not _quiet:
        _say(f"{styled(printable(what), sys.stderr, bold=True)} {printable(more)}")


def remark(text: str) -> None:
    """Print a remark of --verbose on stderr."""
    _say(printable(text))


def warning(text: str) -> None:
    """Warn on stderr."""
    _say(f"{styled('warning:', sys.stderr, fg='yellow', bold=True)} {printable(text)}")


def error_lines(message: str, hints: Iterable[str] = (), facts: Iterable[str] = ()) -> None:
    """Print an error and what to do about it on stderr: its own hints, or else what `ckpt explain` knows.

    Each of the `facts` about the cause is a note below the error.
    """
    first = " ".join(message.split("\n"))
    _say(f"ckpt: {styled('error:', sys.stderr, fg='red', bold=True)} {printable(first)}")
    for fact in facts:
        _say(f"{styled('note:', sys.stderr, fg='cyan')} {printable(fact)}")
    for hint in tuple(hints) or _known_way_out(first):
        head, *more = hint.split("\n")
        _say(f"{styled('hint:', sys.stderr, fg='cyan')} {printable(head)}")
        for line in more:
            _say(f"      {printable(line)}")


_CLOSED = (
    r"(?P<path>.+?)(?:: tensor '.*')?(?P<written>: cannot be written)?: permission denied"
    r"(?:: cannot enter (?P<folder>.+?))?(?:; .*)?"
)


def _known_way_out(message: str) -> tuple[str, ...]:
    import shlex

    closed = re.fullmatch(_CLOSED, message)
    if closed is not None and "://" not in message:
        parent = os.path.dirname(closed["path"]) or "."
        place = closed["folder"] or (parent if closed["written"] else closed["path"])
        return (f"to see the owner and the permissions: {shlex.join(('ls', '-ld', place))}",)
    from ..operations.look.explain import way_out

    command = way_out(message)
    if command is None or set(shlex.split(command)[1:]) <= set(sys.argv):  # the command that has just failed
        return ()
    purpose = next(purpose for start, purpose in _PURPOSES if command.startswith(f"ckpt {start}"))
    return (f"{purpose}: {command}",)


_PURPOSES = (
    ("verify", "to see what is damaged"),
    ("ls", "to list what exists"),
    ("show", "to see what exists"),
    ("state", "to see the state of the directory"),
    ("explain formats", "to list the formats"),
    ("explain environment", "to list the settings"),
    ("", "to find out more"),
)
"""The purpose of the commands that `ckpt explain` knows, by their first words."""


# For programs -------------------------------------------------------------------


def lines(rows: Iterable[str], *, for_programs: bool = False) -> None:
    """Print lines, joined before they are written: a listing can have a million.

    Lines `for_programs` alone are the same in a terminal and in a pipe.
    """
    left = iter(rows)
    while batch := list(itertools.islice(left, 10_000)):
        text = "\n".join(batch) + "\n"
        sys.stdout.write(text if for_programs else without_commands(text))


def tsv(rows: Iterable[Sequence[object]]) -> None:
    """Print rows as TAB-separated lines, None as nothing."""
    lines("\t".join(map(tsv_text, row)) for row in rows)


def csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows as RFC 4180 has them, escaped as in TSV; without a header below rows of the same columns."""
    import csv as library  # needed by few command lines

    write = library.writer(sys.stdout).writerow
    if header:
        write(header)
    for row in rows:
        write([_csv_text(cell) for cell in row])


def _csv_text(cell: object) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return ",".join(map(str, cell)) if isinstance(cell, list | tuple) else tsv_text(cell)


def tsv_text(cell: object) -> str:
    """Return a cell of a TAB-separated line, None as nothing."""
    if cell is None:
        return ""
    return str(cell) if type(cell) is int else escape(str(cell))


def _finite(value: Any) -> Any:
    """Return a JSON value in which floats that JSON has not are text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


@functools.cache
def _encoder(indent: int | None) -> Callable[[Any], str]:
    import json  # not needed for tables and TSV

    return json.JSONEncoder(allow_nan=False, indent=indent).encode


def _json(value: Any, indent: int | None = None) -> str:
    encode = _encoder(indent)
    try:
        return encode(value)  # nearly always, and what is not finite need not be looked for
    except ValueError:
        return encode(_finite(value))


def json_text(value: Any) -> str:
    """Return a JSON value as text; what a million rows have of it in no time."""
    if value is None:
        return "null"
    return str(value) if type(value) is int else _json(value)


def document(fields: dict[str, Any]) -> None:
    """Print one JSON document, marked with the schema it follows."""
    print(_json({"schema": 1, **fields}, indent=1))


def line_document(fields: dict[str, Any]) -> None:
    """Print one JSON document on one line, of a result that has many."""
    print(_json({"schema": 1, **fields}))


def long_document(
    fields: dict[str, Any], name: str, rows: Iterable[Any], last: Callable[[], dict[str, Any]]
) -> None:
    """Print a JSON document whose field `name` is long, one line per row, as the rows arrive.

    A row that is text is JSON already.  `last()` gives the fields behind it, when the rows are through.
    """
    write = sys.stdout.write
    head = _json({"schema": 1, **fields})
    write(f"{head[:-1]}, {_json(name)}: [")
    separator = "\n "
    for row in rows:
        write(separator + (row if isinstance(row, str) else _json(row)))
        separator = ",\n "
    tail = _json(last())[1:-1]
    write(f"\n]{', ' if tail else ''}{tail}}}\n")


# For people ---------------------------------------------------------------------


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """Print a table that fits the terminal, and which columns do not; `styles` colours whole rows."""
    laid = laid_out(columns, rows)
    if laid.heading is not None:
        lines([styled(laid.heading, bold=True)])
    for_color = styles if use_color(sys.stdout) else ()
    lines(
        click.style(line, fg=style) if style else line
        for row, style in zip(laid.rows, itertools.chain(for_color, itertools.repeat("")))  # noqa: B905
        for line in row
    )
    note_hidden_columns(laid)


def laid_out(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> TableLines:
    """Return the lines of a table that fits the terminal."""
    return lay_out(columns, rows, room())


def note_hidden_columns(laid: TableLines) -> None:
    """Say below a table which columns have no room."""
    if laid.left_out:
        names = ", ".join(laid.left_out)
        lines([styled(f"columns that do not fit: {names}", dim=True)])


def note_hidden_rows(count: int, what: str) -> None:
    """Say below a table how many rows --top left out."""
    if count > 0:
        lines([styled(f"and {counted(count, f'more {what}')}", dim=True)])


def title(text: str, detail: str = "", *, is_first: bool = True) -> None:
    """Print a heading on the terminal, below an empty line unless it is the first."""
    lines([*([] if is_first else [""]), styled(escape(text), bold=True) + (f"  {detail}" if detail else "")])


Node = dict[str, Any]


def tree(label: str, branches: dict[str, tuple[str, Any]]) -> None:
    """Print a tree: each branch is a name with a remark and branches of its own."""
    lines([escape(label), *_tree_lines(branches)])


def _tree_lines(branches: dict[str, tuple[str, Any]]) -> Iterator[str]:
    # A stack, not recursion: a hostile key can have a hundred thousand components.
    stack = [("", iter(branches.items()), len(branches))]
    while stack:
        indent, items, left = stack.pop()
        item = next(items, None)
        if item is None:
            continue
        name, (remark, below) = item
        stack.append((indent, items, left - 1))
        yield f"{indent}{'└── ' if left == 1 else '├── '}{escape(name)}{'  ' + remark if remark else ''}"
        if below:
            stack.append((indent + ("    " if left == 1 else "│   "), iter(below.items()), len(below)))
