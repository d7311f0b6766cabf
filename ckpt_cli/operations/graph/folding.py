"""The rows of a picture of an object graph: one for each object, and one for many that are alike.

    slots      hang on their variable, which counts them; with `slots` they are rows below it
    names      an object that hangs on another by several names has one row: `layer-0 = dense`
    aliases    an edge to an object that is shown elsewhere is a row that says where
    alike      three or more below one object whose names differ in a number, and which hold the same,
               are one row: `layer_{0..11}`, below which the first of them is drawn

Everything walks in loops, not recursion: a hostile graph is a chain of any length.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import counted
from formats.errors import ConversionError
from formats.model.object_graph import ROOT

if TYPE_CHECKING:
    from collections.abc import Hashable

    from .tree import GraphNode, Span


MOST_ROWS = 40
"""The rows of a picture without a requested depth: about a screen."""

_MOST_CHILDREN = 100
"""The most rows below one object without a requested depth."""

_MOST_DRAWABLE = 30_000
"""The most rows of a picture at any depth; a terminal has no such limit."""

_MOST_ALIASES = 3
"""Edges to what is shown elsewhere that have a row each; of more there is one row with their count."""

_FEWEST_ALIKE = 3
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})([^0-9]*)", re.DOTALL)


class TreeRow(NamedTuple):
    """A row: the node it shows, the first of `members`; or of an alias, the node to which that leads.

    `remark` is what is known of it, `hidden` how many nodes below it are not drawn.
    """

    id: int
    parent: int
    level: int
    name: str
    remark: str = ""
    members: tuple[int, ...] = ()
    hidden: int = 0
    is_slot: bool = False

    @property
    def is_alias(self) -> bool:
        return not self.members

    @property
    def is_rest(self) -> bool:
        """Whether it stands for those of many that have no rows."""
        return not self.members and not self.remark

    @property
    def text(self) -> str:
        """The text after the name: what is stored, how many objects the row stands for, what is not drawn."""
        count = f"({len(self.members):,} alike)" if len(self.members) > 1 else ""
        hidden = f"+{counted(self.hidden, 'node')}" if self.hidden else ""
        return "  ".join(filter(None, (self.remark, count, hidden)))


class Drawing(NamedTuple):
    """The rows of a picture, parents before their children, and the graph they show.

    `depth` is that of the deepest row, and `deeper` the first depth with missing rows.
    """

    title: str
    nodes: list[GraphNode]
    rows: list[TreeRow]
    depth: int
    deeper: int

    @property
    def hidden(self) -> int:
        """How many nodes have no row."""
        return sum(row.hidden * len(row.members) for row in self.rows)


class RowStructure(NamedTuple):
    """The structure of rows, by node."""

    below: dict[int, list[tuple[str, tuple[int, ...]]]]
    """The children; similar ones are grouped under one name."""

    slots: dict[int, list[tuple[str, int]]]
    """The slots of a variable: name and node."""

    aliases: dict[int, list[tuple[str, int]]]
    """Edges to nodes that have their row elsewhere: name and node."""

    owners: dict[int, int]
    """The variable of a slot."""

    counts: dict[int, int]
    """The number of nodes below, without slots."""

    def rows_below(self, row: TreeRow, *, slots: bool) -> int:
        """Return how many rows the next level has below a row."""
        more = len(self.slots.get(row.id, ())) if slots else 0
        return len(self.below.get(row.id, ())) + min(len(self.aliases.get(row.id, ())), _MOST_ALIASES) + more


def row_structure(nodes: list[GraphNode], tree: Span) -> RowStructure:
    """Return what hangs where, when slots are at their variables and what is alike is together."""
    owners, slots = _slots(nodes, tree)
    names: dict[int, list[str]] = {}
    aliases: dict[int, list[tuple[str, int]]] = {}
    homes = {child: name for branches in tree.branches.values() for name, child in branches}
    for number in tree.level:
        for name, child in nodes[number].children:
            if child in owners:
                continue
            if child != ROOT and tree.parent[child] == number:
                names.setdefault(child, []).append(name)
            else:
                aliases.setdefault(number, []).append((name, child))
    below: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
    known: dict[Hashable, int] = {}
    looks: dict[int, int] = {}
    counts: dict[int, int] = {}
    emptied: set[int] = set()
    """Folders of a tree that hold nothing but slots, which are at their variables."""
    for number in reversed(tree.level):
        own = nodes[number]
        rows = [
            (_name(names[child]) if child in names else homes[child], child)
            for _, child in tree.branches.get(number, ())
            if child not in owners and child not in emptied
        ]
        if number in tree.branches and not (rows or own.keys or own.slots or number in aliases):
            emptied.add(number)
        held = (own.color, own.remark, len(aliases.get(number, ())))
        slot_names = [name for name, _ in slots.get(number, ())]
        look = (held, *slot_names, *[(name, looks[child]) for name, child in rows])
        looks[number] = known.setdefault(look, len(known))
        counts[number] = len(rows) + sum([counts[child] for _, child in rows])
        if rows:
            below[number] = _together(rows, looks)
    return RowStructure(below, slots, aliases, owners, counts)


def _slots(nodes: list[GraphNode], tree: Span) -> tuple[dict[int, int], dict[int, list[tuple[str, int]]]]:
    """Return the variables of slots, and the slots of variables by name; of those that hold nothing else."""
    owners: dict[int, int] = {}
    slots: dict[int, list[tuple[str, int]]] = {}
    for number in tree.level:
        for variable, name, slot in nodes[number].slots:
            if variable in tree.level and slot not in owners and slot not in tree.branches and slot != ROOT:
                owners[slot] = variable
                slots.setdefault(variable, []).append((name.removeprefix("_"), slot))
    for owner in set(owners) & set(owners.values()):  # a slot of a slot stays where it is
        owners.pop(owner)
    return owners, {variable: [row for row in rows if row[1] in owners] for variable, rows in slots.items()}


def _name(names: list[str]) -> str:
    return " = ".join(dict.fromkeys(names)) if len(names) > 1 else names[0]


def _together(rows: list[tuple[str, int]], looks: dict[int, int]) -> list[tuple[str, tuple[int, ...]]]:
    """Group rows that differ only in a number in their names."""
    if len(rows) < _FEWEST_ALIKE:
        return [(name, (child,)) for name, child in rows]
    groups: dict[tuple[str, str, int], list[tuple[str, str, int]]] = {}
    for at, (name, child) in enumerate(rows):
        found = _NUMBERED.fullmatch(name)
        key = (found[1], found[3], looks[child]) if found else (name, "", -1 - at)
        groups.setdefault(key, []).append((found[2] if found else "", name, child))
    together: list[tuple[str, tuple[int, ...]]] = []
    for (before, behind, _), members in groups.items():
        if len(members) < _FEWEST_ALIKE or not _is_one_writing([digits for digits, _, _ in members]):
            together += [(name, (child,)) for _, name, child in members]
        else:
            members.sort(key=lambda member: int(member[0]))
            name = f"{before}{{{_ranges([digits for digits, _, _ in members])}}}{behind}"
            together.append((name, tuple(child for _, _, child in members)))
    return together


def _is_one_writing(numbers: list[str]) -> bool:
    """Whether numbers are all different, and without zeros before them or all of one length: 00, 01, 10."""
    lengths = set(map(len, numbers))
    is_padded = any(number[0] == "0" and len(number) > 1 for number in numbers)
    return len(set(numbers)) == len(numbers) and not (is_padded and len(lengths) > 1)


def _ranges(numbers: list[str]) -> str:
    """Return sorted numbers as people, and shells, write them: 0..3,5."""
    runs: list[list[str]] = []
    for number in numbers:
        if runs and int(runs[-1][-1]) == int(number) - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("..".join(run) for run in runs)


def draw(
    title: str,
    nodes: list[GraphNode],
    tree: Span,
    depth: int | None = None,
    *,
    slots: bool = False,
    drawable: int = _MOST_DRAWABLE,
    screen: int = MOST_ROWS,
) -> Drawing:
    """Return what a picture shows of a graph: down to a depth, or as much as `screen` rows have room for.

    Raises ConversionError if a requested depth has more than `drawable` rows.
    """
    structure = row_structure(nodes, tree)
    first = TreeRow(ROOT, ROOT, 0, "(root)", nodes[ROOT].remark, (ROOT,))
    levels, total, most = [[first]], 1, _MOST_CHILDREN if depth is None else drawable
    is_whole = True
    while levels[-1] and is_whole and (depth is None or len(levels) <= depth):
        opened, rows = _opened(levels, structure, screen - total if depth is None else None, slots=slots)
        total += rows
        if depth is not None and total > drawable:
            hints = ("to draw fewer levels, pass --depth; to get everything as data, pass --json",)
            raise ConversionError(f"{total} rows are too many to draw", path=title, hints=hints)
        is_whole = all(row.is_alias or row.id in opened for row in levels[-1])
        above = [row for row in levels[-1] if not row.is_alias and row.id in opened]
        levels[-1] = [row if row.id in opened else _closed(row, nodes, structure) for row in levels[-1]]
        levels.append([each for row in above for each in _below(row, nodes, structure, most, slots=slots)])
    if not levels[-1]:
        levels.pop()
    levels[-1] = [_closed(row, nodes, structure) for row in levels[-1]]
    children: dict[tuple[int, int], list[TreeRow]] = {}
    for row in (row for level in levels[1:] for row in level):
        children.setdefault((row.level - 1, row.parent), []).append(row)
    rows_in_order = _in_order(first, children)
    deeper = min((row.level + 1 for row in rows_in_order if row.hidden), default=len(levels))
    return Drawing(title, nodes, rows_in_order, len(levels) - 1, deeper)


def _opened(
    levels: list[list[TreeRow]], structure: RowStructure, free: int | None, *, slots: bool
) -> tuple[set[int], int]:
    """Return the nodes of the last level below which rows are drawn, and how many rows these are.

    If there is room for only `free` rows, the objects with the most nodes below them come first.
    """
    below = {row.id: structure.rows_below(row, slots=slots) for row in levels[-1] if not row.is_alias}
    total = sum(below.values())
    if free is None or total <= free or len(levels) == 1:
        return set(below), total
    opened, used = set(), 0
    for number in sorted(below, key=structure.counts.__getitem__, reverse=True):
        if used + below[number] <= free:
            opened.add(number)
            used += below[number]
    return opened, used


def _closed(row: TreeRow, nodes: list[GraphNode], structure: RowStructure) -> TreeRow:
    """Return a row that counts all that is not drawn below it."""
    if row.is_alias:
        return row
    remark_text = row.remark if row.is_slot else remark(nodes[row.id], structure, slots=False)
    return row._replace(hidden=structure.counts[row.id], remark=remark_text)


def _in_order(first: TreeRow, children: dict[tuple[int, int], list[TreeRow]]) -> list[TreeRow]:
    rows, stack = [], [first]
    while stack:
        row = stack.pop()
        rows.append(row)
        if not row.is_alias:
            stack += reversed(children.get((row.level, row.id), []))
    return rows


def _below(
    row: TreeRow, nodes: list[GraphNode], structure: RowStructure, most: int, *, slots: bool
) -> list[TreeRow]:
    """Return the rows of the next level below one."""
    level, number = row.level + 1, row.id
    found = structure.below.get(number, [])
    rows = [
        TreeRow(members[0], number, level, name, remark(nodes[members[0]], structure, slots=slots), members)
        for name, members in found[:most]
    ]
    if slots:
        for name, slot in structure.slots.get(number, ())[:most]:
            rows.append(TreeRow(slot, number, level, name, nodes[slot].remark, (slot,), is_slot=True))
    if len(found) > most:
        rows.append(TreeRow(number, number, level, f"… {len(found) - most:,} more"))
    aliases = structure.aliases.get(number, [])
    if len(aliases) <= _MOST_ALIASES:
        return rows + [TreeRow(to, number, level, name, path_of(nodes[to])) for name, to in aliases]
    name, child = aliases[0]
    more = f"{path_of(nodes[child])}, and {counted(len(aliases) - 1, 'more edge')} to what is shown elsewhere"
    return [*rows, TreeRow(child, number, level, name, more)]


def remark(node: GraphNode, structure: RowStructure, *, slots: bool) -> str:
    """Return the text after an object's name: its tensor, and the slots that are not shown."""
    names = dict.fromkeys(name for name, _ in structure.slots.get(node.id, ())) if not slots else {}
    own = sum(slot in structure.owners for _, _, slot in node.slots)
    parts = (
        node.remark,
        f"+{counted(len(structure.slots[node.id]), 'slot')} ({', '.join(names)})" if names else "",
        counted(own, "slot") if own else "",
    )
    return "  ".join(filter(None, parts))


def foldable(nodes: list[GraphNode], tree: Span) -> dict[str, Any]:
    """Return all of a graph as data for a page, whose script makes the rows that are unfolded.

    Each node's colour and texts are indexes into `palette` and `words`.
    """
    structure = row_structure(nodes, tree)
    palette = sorted({node.color for node in nodes})
    words: dict[str, int] = {}
    return {
        "reached": len(tree.level),
        "hidden": {number: count for number, count in structure.counts.items() if count},
        "palette": palette,
        "colors": [palette.index(node.color) for node in nodes],
        "told": [words.setdefault(remark(node, structure, slots=True), len(words)) for node in nodes],
        "words": list(words),
        "below": {
            number: [[name, *members] for name, members in rows] for number, rows in structure.below.items()
        },
        "slots": {number: [*map(list, rows)] for number, rows in structure.slots.items()},
        "aliases": {number: [*map(list, rows)] for number, rows in structure.aliases.items()},
    }


def path_of(node: GraphNode) -> str:
    """Return how an object is called where it is not."""
    return "(root)" if node.object_path == "" else node.object_path or f"node {node.id}"
