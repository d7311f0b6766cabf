"""How a table fits a terminal: which columns it keeps, what it shows of a name, and on which line.

Widths are cells of a terminal, by Unicode's East Asian width (UAX #11): 2 for wide and full characters, 0 for
marks on the previous character.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_GAP = "  "
_ELLIPSIS = "..."  # which every encoding has

_LEAST = 24
"""Cells that names and prose keep, before a column of less worth goes."""

_NARROWEST = 8
"""Cells that they keep when no column is left that may go."""

_BELOW = "    "
"""The indentation of prose below its row."""


class Column(NamedTuple):
    """A table's column.

    `fold`: names; long ones are shortened. `prose`: sentences, which are never cut, but continue below their
    row. `worth`: columns without any text are dropped first, then those of least worth; a column without a
    worth stays. `spare`: the column is also dropped if that leaves more names on the line of their row.
    """

    name: str
    right: bool = False
    fold: bool = False
    prose: bool = False
    worth: int | None = None
    spare: bool = False

    @property
    def bends(self) -> bool:
        return self.fold or self.prose


class TableLines(NamedTuple):
    """Lines of a table: the heading, None if no column has one; of each row; named columns left out."""

    heading: str | None
    rows: Iterator[list[str]]
    left_out: list[str]


@functools.lru_cache(4096)
def _cells(character: str) -> int:
    import unicodedata  # not needed for names in ASCII

    if unicodedata.category(character) in ("Mn", "Me") or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def width(text: str) -> int:
    """Return how many cells of a terminal a text takes that has no control characters."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """Return a text with spaces behind it, or before it, that make it `cells` wide."""
    space = " " * (cells - width(text))
    return space + text if right else text + space


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], room: int) -> TableLines:
    """Return the lines of a table for a terminal of `room` cells."""
    natural = [
        max(map(width, (column.name, *(row[at] for row in rows)))) for at, column in enumerate(columns)
    ]
    is_used = [any(row[at] for row in rows) for at in range(len(columns))]
    kept = _kept(columns, natural, is_used, room)
    folded = next((at for at in kept if columns[at].fold), None)
    if folded is not None and natural[folded] > _widths(columns, natural, kept, room)[kept.index(folded)]:
        kept = _without_spare(columns, natural, kept, room, dict.fromkeys(row[folded] for row in rows))
    widths = _widths(columns, natural, kept, room)
    shown = [columns[at] for at in kept]
    first = next((at for at, column in enumerate(shown) if column.fold), None)
    names = [dict.fromkeys(row[at] for row in rows) if columns[at].fold else {} for at in kept]
    texts = [_shortened(each, cells) for each, cells in zip(names, widths, strict=True)]
    alone = _shortened(_alone(names[first], texts[first]), room) if first is not None else {}
    table = _Table(shown, widths, first, texts, alone, room)
    heading = table.line([column.name for column in shown]) if any(c.name for c in shown) else None
    left_out = [column.name for at, column in enumerate(columns) if at not in kept and is_used[at]]
    left_out = [name for name in left_out if name]
    return TableLines(heading, (table.row([row[at] for at in kept]) for row in rows), left_out)


def _kept(columns: Sequence[Column], natural: Sequence[int], is_used: Sequence[bool], room: int) -> list[int]:
    """Return the columns that stay, when those of least worth go until all that bends has its least."""
    least = [min(cells, _LEAST) if c.bends else cells for c, cells in zip(columns, natural, strict=True)]
    kept = list(range(len(columns)))
    going = sorted((is_used[at], c.worth, -at) for at, c in enumerate(columns) if c.worth is not None)
    for *_, at in going:
        if _total([least[each] for each in kept]) <= room:
            break
        kept.remove(-at)
    return kept


def _without_spare(
    columns: Sequence[Column], natural: Sequence[int], kept: list[int], room: int, names: Mapping[str, None]
) -> list[int]:
    """Return the columns that leave the fewest names on a line of their own; on a tie, the most columns."""

    def count(some: list[int]) -> int:
        cells = _widths(columns, natural, some, room)[some.index(folded)]
        wide = {name: None for name in names if width(name) > cells}
        return len(_alone(wide, _shortened(names, cells)))

    folded = next(at for at in kept if columns[at].fold)
    choices = [kept]
    for _, at in sorted((columns[at].worth or 0, -at) for at in kept if columns[at].spare):
        choices.append([each for each in choices[-1] if each != -at])
    return min(choices, key=count)


def _alone(names: Iterable[str], texts: Mapping[str, str]) -> list[str]:
    """Return the names that have no shorter text."""
    return [name for name in names if name not in texts]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _widths(columns: Sequence[Column], natural: Sequence[int], kept: Sequence[int], room: int) -> list[int]:
    """Return the width of each column that stays: names share what others leave, then comes long prose."""
    widths = {at: natural[at] for at in kept}
    prose = [at for at in kept if columns[at].prose and natural[at] > _LEAST]
    widths |= {at: width(columns[at].name) for at in prose}
    names = sorted((at for at in kept if columns[at].fold), key=natural.__getitem__)
    left = room - _total([0 if at in names else widths[at] for at in kept])
    for number, at in enumerate(names):
        widths[at] = min(natural[at], max(left // (len(names) - number), _NARROWEST))
        left -= widths[at]
    for number, at in enumerate(prose):
        more = min(natural[at] - widths[at], max(left // (len(prose) - number), 0))
        widths[at] += more
        left -= more
    return list(widths.values())


class _Table(NamedTuple):
    """The facts about a table when its rows are written."""

    columns: Sequence[Column]
    widths: Sequence[int]
    first: int | None
    """The first column of names: a name that cannot be shortened is on a line before its row."""
    texts: Sequence[dict[str, str]]
    """For each column, the names that are shortened inside their row."""
    alone: dict[str, str]
    """Names of the first that are shortened where they have a line of their own."""
    room: int

    def line(self, cells: Sequence[str]) -> str:
        padded = (
            pad(cell, cells_, right=column.right)
            for cell, cells_, column in zip(cells, self.widths, self.columns, strict=True)
        )
        return _GAP.join(padded).rstrip()

    def row(self, cells: list[str]) -> list[str]:
        """Return a row's lines: before it a name alone, after it the prose."""
        before: list[str] = []
        below: list[str] = []
        for at, (column, cell, room) in enumerate(zip(self.columns, cells, self.widths, strict=True)):
            if not column.bends or width(cell) <= room:
                continue
            cells[at] = self.texts[at].get(cell, "")
            if column.prose:
                below += [_BELOW + line for line in wrapped(cell, max(self.room - len(_BELOW), _NARROWEST))]
            elif cells[at]:
                continue
            elif at == self.first:  # whole if need be: the terminal wraps it once, and no two read the same
                before = [self.alone.get(cell) or cut(cell, 2 * self.room)]
            else:
                below.append(_BELOW + cut(cell, 2 * self.room - len(_BELOW)))
        return [*before, self.line(cells), *below]


def _shortened(names: Iterable[str], room: int) -> dict[str, str]:
    """Return the long ones of names shortened, without those that would then read like another."""
    owners: dict[str, list[str]] = {}
    for name in names:
        owners.setdefault(shorten(name, room) or "", []).append(name)
    alike: dict[tuple[str, int], list[str]] = {}
    for text, own in owners.items():
        for name in own if len(own) > 1 else ():
            if name != text:
                alike.setdefault((text, name.count("/")), []).append(name)
    for group in alike.values():
        for name, text in _distinguished(group, room):
            owners.setdefault(text, []).append(name)
    return {own[0]: text for text, own in owners.items() if text and len(own) == 1 and own[0] != text}


def _distinguished(names: Sequence[str], room: int) -> Iterator[tuple[str, str]]:
    """Yield names of as many components with shorter texts that keep the components in which they differ."""
    parts = [name.split("/") for name in names]
    last = len(parts[0]) - 1
    kept = {0, last, *(at for at, some in enumerate(zip(*parts, strict=True)) if len({*some}) > 1)}
    ends = zip(range(last - 1, 0, -1), range(1, last), strict=True)
    inner = list(dict.fromkeys(at for pair in ends for at in pair))  # from both ends in turn
    for name, own in zip(names, parts, strict=True):
        if len(names) < 2 or width(_gapped(own, kept)) > room:
            continue
        more = set(kept)
        for at in inner:
            if at not in more and width(_gapped(own, more | {at})) > room:
                break
            more.add(at)
        yield name, _gapped(own, more)


def _gapped(parts: Sequence[str], kept: Collection[int]) -> str:
    """Return a name with dots for each run of components that are not kept."""
    shown = [part if at in kept else _ELLIPSIS for at, part in enumerate(parts)]
    return "/".join(
        part
        for at, part in enumerate(shown)
        if at in kept or at - 1 in kept  # one for each gap
    )


def shorten(name: str, room: int) -> str | None:
    """Return a name of at most `room` cells, the fewest components taken out of its middle.

    The first component and the last stay; None where these alone are too wide.
    """
    if width(name) <= room:
        return name
    parts = name.split("/")
    head, tail = parts[0] + "/" + _ELLIPSIS, "/" + parts[-1]
    left = room - width(head) - width(tail)
    if len(parts) < 3 or left < 0:
        return None
    # From both ends in turn, the end first: it distinguishes the tensors of a layer.
    first, last = 1, len(parts) - 1
    from_end = True
    while last - first > 1:
        part = parts[last - 1] if from_end else parts[first]
        if width(part) + 1 > left:
            break
        left -= width(part) + 1
        first, last = (first, last - 1) if from_end else (first + 1, last)
        from_end = not from_end
    return "/".join([*parts[:first], _ELLIPSIS, *parts[last:]])


def short(text: str, room: int) -> str:
    """Return a text of at most `room` cells: without components of its middle, or else cut there."""
    return shorten(text, room) or cut(text, room)


def cut(text: str, room: int) -> str:
    """Return a text of at most `room` cells, as much of its beginning as of its end."""
    if width(text) <= room:
        return text
    left = max(room - len(_ELLIPSIS), 0)
    return _begin(text, left - left // 2) + _ELLIPSIS + _begin(text[::-1], left // 2)[::-1]


def _begin(text: str, room: int) -> str:
    for at, character in enumerate(text):
        room -= _cells(character)
        if room < 0:
            return text[:at]
    return text


def wrapped(text: str, room: int) -> list[str]:
    """Return the lines of a text, parted where it has spaces; longer words are parted where they must be."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer) <= room:
            lines[-1] = longer
            continue
        rest = word
        if lines[-1]:
            lines.append("")
        while width(rest) > room:
            lines[-1] = _begin(rest, room)
            rest = rest[len(lines[-1]) :]
            lines.append("")
        lines[-1] = rest
    return lines
