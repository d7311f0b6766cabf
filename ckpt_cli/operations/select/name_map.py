"""Files that give new names, and say what is done to the values on the way.

    old TAB new                 lines; unsafe bytes as ckpt prints them, `\\xNN` and `\\\\`
    old TAB new TAB operations  of `formats.core.axes`, as in `T` or `perm(3,2,0,1)`
    {"old": "new"}              JSON, bytes that are not UTF-8 as lone surrogates

Empty lines are passed over, and lines that begin with `#` and have no TAB.  `{n}` in a name
of the lines is a capture: it stands for all digits that there are, and for the same ones in
the other name; a brace itself is `\\x7b`.  `{*path}` stands for any text, once in a name at most.
Of several lines that match a name the first one counts.

Lines that join have one new name, and those that cut one old name: they are a group, whose
parts are in the order of the lines.  `blocks/{n}/w TAB blocks.w TAB stack(0)`, where one name alone has
the capture, is a group of one line, whose parts are numbered from 0.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, NamedTuple

from formats.core.axes import NOTHING, AxisOperations, Cut, Join, parse_steps
from formats.core.spec import key_text
from formats.core.words import counted
from formats.errors import CheckpointError, CheckpointNotFoundError
from formats.location import Location, local_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


LARGEST_MAP = 1 << 28  # bytes; a line for each of a million tensors is less
_ESCAPED = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2}))")
_CAPTURE = re.compile(rb"\{(\*?[a-z][a-z0-9_]{0,30})\}")
_ANY = "*"
"""The start of a capture that matches any text."""

_DIGITS = "[0-9]{1,18}+"  # possessive, so that a name is read once
_NUMBERS = re.compile("[0-9]+")
_MOST_CAPTURES = 8
_MOST_TRIED = 5_000_000
"""The most comparisons of names with captures in total; a map of a model needs a few for each name."""


class Name(NamedTuple):
    """A name with captures: the text before, between and after them, and their names."""

    literals: tuple[str, ...]
    captures: tuple[str, ...] = ()

    @classmethod
    def parse(cls, column: bytes) -> Name:
        """Return the name in a column. Raises ValueError if its captures are ambiguous."""
        parts = _CAPTURE.split(column)
        literals = tuple(key_text(_ESCAPED.sub(_unescape_one, part)) for part in parts[::2])
        captures = tuple(part.decode() for part in parts[1::2])
        if len(captures) > _MOST_CAPTURES:
            raise ValueError(
                f"a name has {len(captures)} captures, but at most {_MOST_CAPTURES} are supported"
            )
        if any(not between or between[0] in "0123456789" for between in literals[1:-1]) or (
            captures and literals[-1][:1].isdigit()
        ):
            raise ValueError("a capture matches all digits, so something other than a digit must follow it")
        if sum(capture.startswith(_ANY) for capture in captures) > 1:
            raise ValueError("a name has two captures of any text; only one is supported")
        return cls(literals, captures)

    @property
    def is_literal(self) -> bool:
        return not self.captures

    @property
    def has_any(self) -> bool:
        """Whether a capture stands for any text."""
        return any(capture.startswith(_ANY) for capture in self.captures)

    @property
    def text(self) -> str:
        """The name for messages, captures in braces."""
        return self.literals[0] + "".join(
            f"{{{capture}}}{after}" for capture, after in zip(self.captures, self.literals[1:], strict=True)
        )

    def match(self, name: str) -> dict[str, str] | None:
        """Return the captures of a name; None if it is none of these."""
        found = _pattern(self).fullmatch(name)
        if found is None:
            return None
        return {capture: found[capture.removeprefix(_ANY)] for capture in self.captures}

    def fill(self, captures: Mapping[str, str]) -> str:
        """Return the name with what was captured."""
        return self.literals[0] + "".join(
            captures[capture] + after for capture, after in zip(self.captures, self.literals[1:], strict=True)
        )


@cache
def _pattern(name: Name) -> re.Pattern[str]:
    seen: set[str] = set()
    spelled = re.escape(name.literals[0])
    for capture, after in zip(name.captures, name.literals[1:], strict=True):
        if capture in seen:
            spelled += f"(?P={capture})(?![0-9])"
        elif capture.startswith(_ANY):
            spelled += f"(?P<{capture.removeprefix(_ANY)}>.+)"
        else:
            spelled += f"(?P<{capture}>{_DIGITS})"
        spelled += re.escape(after)
        seen.add(capture)
    return re.compile(spelled, re.DOTALL)


class MapRow(NamedTuple):
    """A line of a map; `place` is its position."""

    old: Name
    new: Name
    steps: AxisOperations = NOTHING
    place: str = ""

    @property
    def free(self) -> str | None:
        """The capture that one name alone has: it numbers the parts of what is joined or cut."""
        return next(iter(set(self.old.captures) ^ set(self.new.captures)), None)

    def __str__(self) -> str:
        steps = f" {self.steps}" if self.steps.operations else ""
        return f"{self.place}: {self.old.text!r} -> {self.new.text!r}{steps}"

    def check(self) -> None:
        """Raise ValueError if a capture has no place on the other side."""
        mine, theirs = set(self.old.captures), set(self.new.captures)
        turn = self.steps.turn
        lost, made = sorted(mine - theirs), sorted(theirs - mine)
        only = next((name for name in (*lost, *made) if name.startswith(_ANY)), None)
        if only is not None:
            raise ValueError(f"{{{only}}} occurs in only one of the two names")
        if len(lost) == 1 and not made and isinstance(turn, Join):
            return
        if len(made) == 1 and not lost and isinstance(turn, Cut):
            return
        if lost or made:
            raise ValueError(f"{{{(lost or made)[0]}}} occurs in only one of the two names")


class NameMap(Mapping[str, str]):
    """Rows by which names become others; as a mapping it gives the new names of those that rows match."""

    def __init__(self, rows: Sequence[MapRow] = (), path: str = "") -> None:
        self.rows = tuple(rows)
        self.path = path
        self._literal: dict[str, int] = {}
        self._patterns: dict[str, list[int]] = {}
        self._open: list[int] = []
        """The rows with a capture of any text."""
        self._tried = 0
        for number, row in enumerate(self.rows):
            if row.old.is_literal:
                self._literal.setdefault(row.old.literals[0], number)
            elif row.old.has_any:
                self._open.append(number)
            else:
                self._patterns.setdefault(_template(row.old.literals), []).append(number)

    @cached_property
    def _groups(self) -> tuple[dict[Name, list[MapRow]], dict[Name, list[MapRow]]]:
        joined: dict[Name, list[MapRow]] = {}
        cut: dict[Name, list[MapRow]] = {}
        for row in self.rows:
            if isinstance(row.steps.turn, Join):
                joined.setdefault(row.new, []).append(row)
            elif isinstance(row.steps.turn, Cut):
                cut.setdefault(row.old, []).append(row)
        return joined, cut

    def group(self, row: MapRow) -> list[MapRow]:
        """Return the rows that join, or cut, one tensor with this one; itself where it does neither."""
        joined, cut = self._groups
        turn = row.steps.turn
        return joined[row.new] if isinstance(turn, Join) else cut[row.old] if turn is not None else [row]

    @property
    def has_operations(self) -> bool:
        """Whether values are changed, and not names alone."""
        return any(row.steps.operations for row in self.rows)

    @cached_property
    def is_both_ways(self) -> bool:
        """Whether two rows undo one another, so that one checkpoint never needs all rows."""
        pairs = {(row.old.text, row.new.text) for row in self.rows}
        return any(old != new and (new, old) in pairs for old, new in pairs)

    def find(self, name: str) -> tuple[int, dict[str, str]] | None:
        """Return the number of the first row that matches a name, and its captures."""
        exact = self._literal.get(name)
        numbers = self._patterns.get(_template((name,)), []) if self._patterns else []
        numbers = sorted([*numbers, *self._open]) if self._open else numbers
        for number in numbers:
            if exact is not None and number > exact:
                break
            self._tried += 1
            if self._tried > _MOST_TRIED:
                raise CheckpointError("the map has too many lines with captures", path=self.path)
            captures = self.rows[number].old.match(name)
            if captures is not None:
                return number, captures
        return None if exact is None else (exact, {})

    def __getitem__(self, name: str) -> str:
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        number, captures = found
        return self.rows[number].new.fill(captures)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(row.old.text for row in self.rows))

    def __len__(self) -> int:
        return len({row.old.text for row in self.rows})

    def operations_error(self, why: str) -> CheckpointError:
        """Return the error of a map with operations where names alone are taken."""
        row = next(row for row in self.rows if row.steps.operations)
        return CheckpointError(f"the map has operations, {why}", path=self.path, hints=(str(row),))

    def respelled(self, spell: Callable[[str, str], tuple[str, str]]) -> NameMap:
        """Return a map in which names without captures are others."""

        def respell(row: MapRow) -> MapRow:
            if row.old.captures or row.new.captures:
                return row
            old, new = spell(row.old.literals[0], row.new.literals[0])
            return row._replace(old=Name((old,)), new=Name((new,)))

        return NameMap(list(map(respell, self.rows)), self.path)


NO_NAMES = NameMap()


def names_of(names: Mapping[str, str]) -> NameMap:
    """Return names and their new ones as a map."""
    return names if isinstance(names, NameMap) else NameMap([row_of(*pair) for pair in names.items()])


def row_of(old: str, new: str) -> MapRow:
    """Return the row that gives a name another."""
    return MapRow(Name((old,)), Name((new,)), place=repr(old))


def _template(literals: Sequence[str]) -> str:
    """Return what names have in common that differ in numbers alone."""
    return _NUMBERS.sub("0", "0".join(literals))


# Reading ------------------------------------------------------------------------------

_PACKS = local_location(os.path.dirname(__file__)) / "maps"
_SUFFIX = ".tsv"


def packs() -> dict[str, str]:
    """Return what there is of maps of ckpt's own: a line about each, by its name."""
    out = {}
    files = [entry.name for entry in _PACKS.listing() if entry.name.endswith(_SUFFIX)]
    for name in sorted(file.removesuffix(_SUFFIX) for file in files):
        with (_PACKS / (name + _SUFFIX)).open() as file:
            first = file.read(0, min(file.size, 1000)).partition(b"\n")[0].decode()
        out[name] = first.removeprefix("# ")
    return out


def packs_hints() -> tuple[str, ...]:
    """Return the hints that name the maps of ckpt's own."""
    names = ", ".join(packs())
    return f"pass --map NAME to use a map of ckpt: {names}", "to see what each map is for: ckpt explain maps"


def read_map(path: Location) -> NameMap:
    """Return the map in a file, or the one of ckpt's own that is called so where there is no such file.

    A folder of that name is not a file. A checkpoint of BERT is often in a folder called `bert`. Raises
    CheckpointError if it is neither kind of map, or contradicts itself.
    """
    if "/" not in path and (path.is_folder() or not path.exists()):
        if path in packs():
            path = _PACKS / (path + _SUFFIX)
        elif not path.exists():
            message = "no such file, and ckpt has no map with this name"
            raise CheckpointNotFoundError(message, path=path, hints=packs_hints())
    with path.open() as file:
        data = file.read(0, LARGEST_MAP + 1)
    if len(data) > LARGEST_MAP:
        raise CheckpointError(f"the file is larger than {LARGEST_MAP} bytes, the limit for a map", path=path)
    return parse_map(data, path)


def parse_map(data: bytes, path: str) -> NameMap:
    """Return the map that the bytes of a file spell; CheckpointError, which names the line, where none."""
    is_json = data.lstrip()[:1] == b"{" and not _CAPTURE.match(data.lstrip())
    rows = list(_json_rows(path, data) if is_json else _lines(path, data))
    _refuse_contradictions(rows, path)
    return NameMap(rows, path)


def _refuse_contradictions(rows: Sequence[MapRow], path: str) -> None:
    """Reject two new names for one old name, except for tensors that are split."""
    first: dict[Name, MapRow] = {}
    for row in rows:
        other = first.setdefault(row.old, row)
        both_cut = isinstance(row.steps.turn, Cut) and other.steps == row.steps
        if other is row or both_cut or other[:3] == row[:3]:
            continue
        message = f"{row.old.text!r} has two new names, {other.new.text!r} and {row.new.text!r}"
        if row.new == other.new:
            steps = f"{other.steps} and {row.steps}"
            message = f"{row.old.text!r} becomes {row.new.text!r} with two different operations: {steps}"
        hints = tuple(str(each) for each in (other, row) if each.place)
        raise CheckpointError(message, path=path, hints=hints)


def _json_rows(path: str, data: bytes) -> Iterator[MapRow]:
    def only_pairs(pairs: list[tuple[str, object]]) -> list[tuple[str, object]]:
        return pairs

    try:
        pairs = json.loads(data, object_pairs_hook=only_pairs)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"this map starts like JSON, but is not valid JSON: {error}", path=path
        ) from error
    for old, new in pairs:
        if not isinstance(new, str):
            raise CheckpointError(f"the new name of {old!r} is not a string", path=path)
        yield row_of(old, new)


def _lines(path: str, data: bytes) -> Iterator[MapRow]:
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip() or (line.startswith(b"#") and b"\t" not in line):
            continue
        columns = line.split(b"\t")
        if not 2 <= len(columns) <= 3:
            expected = "expected OLD, a TAB and NEW, and optionally a TAB and operations"
            message = f"line {number} has {counted(len(columns), 'column')}; {expected}"
            raise CheckpointError(message, path=path)
        try:
            steps = parse_steps(columns[2].decode()) if len(columns) == 3 else NOTHING
            row = MapRow(Name.parse(columns[0]), Name.parse(columns[1]), steps, f"line {number}")
            row.check()
        except ValueError as error:  # UnicodeDecodeError is one
            raise CheckpointError(f"line {number}: {error}", path=path) from error
        yield row


def _unescape_one(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode()) if match[1] else b"\\"
