"""The tensors of another layout: which ones of this layout each is made from, by which operations.

A map's rows refer to names; here they are compared with the existing tensors. Unused and missing tensors,
duplicates, operations that do not fit, and results that the inverse would not restore are rejected, with
their rows: every relation is invertible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.core.axes import AxisOperations, Cut, Join
from formats.errors import ConversionError, DuplicateKeyError

from .name_map import NameMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from formats.core.axes import Shape

    from .name_map import MapRow, Name


class Relation(NamedTuple):
    """Tensors of another layout, the ones that they are made of, how, and which row says so."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    steps: AxisOperations
    row: MapRow | None = None
    scale: float = 1.0
    """The factor of all elements, applied last."""


class Related(NamedTuple):
    """The relations of some tensors, and the names that no row matches."""

    relations: list[Relation]
    left: list[str]


_MOST_SHOWN = 5


def inverted(names: NameMap) -> NameMap:
    """Return the map of the way back; ConversionError for a row that does not tell it."""
    rows = []
    for row in names.rows:
        try:
            steps = _counted(row, names).inverse()
        except ValueError as error:
            raise ConversionError(
                f"a line of the map cannot be inverted: {error}", path=names.path, hints=(str(row),)
            ) from error
        rows.append(row._replace(old=row.new, new=row.old, steps=steps))
    return NameMap(rows, names.path)


def _counted(row: MapRow, names: NameMap) -> AxisOperations:
    """Return a row's steps; of several rows that join the number of parts is how many they are."""
    turn = row.steps.turn
    if not isinstance(turn, Join) or row.free is not None:
        return row.steps
    return row.steps._replace(turn=turn._replace(parts=len(names.group(row))))


def relate(names: NameMap, shapes: Mapping[str, Shape]) -> Related:
    """Return the relations of the tensors of these shapes.

    Raises ConversionError, with the rows, for parts that are missing, and operations that do
    not fit or have no way back; DuplicateKeyError where two rows make one tensor.
    """
    try:
        inverted(names)
        found = _Relating(names, shapes).related()
        _refuse_doubles(found.relations, names)
        _refuse_detours(found.relations, names)
    except ConversionError as error:
        error.path = error.path or names.path
        raise
    return found


class _Relating:
    """Applies rows to one name after another; joined tensors wait until all parts have arrived."""

    def __init__(self, names: NameMap, shapes: Mapping[str, Shape]) -> None:
        self._names = names
        self._shapes = shapes
        self._relations: list[Relation] = []
        self._joined: dict[tuple[Name, str], dict[tuple[int, int], tuple[str, MapRow]]] = {}

    def related(self) -> Related:
        left = []
        for name in self._shapes:
            found = self._names.find(name)
            if found is None:
                left.append(name)
                continue
            number, captures = found
            row = self._names.rows[number]
            if isinstance(row.steps.turn, Join):
                self._wait(name, number, captures)
            elif isinstance(row.steps.turn, Cut):
                self._relations.append(self._cut(name, row, captures))
            else:
                self._relations.append(Relation((name,), (row.new.fill(captures),), row.steps, row))
        self._relations += [self._join(target, parts) for (_, target), parts in self._joined.items()]
        for relation in self._relations:
            self._check_shapes(relation)
        return Related(self._relations, left)

    def _wait(self, name: str, number: int, captures: Mapping[str, str]) -> None:
        row = self._names.rows[number]
        target = row.new.fill(captures)
        part = int(captures[row.free]) if row.free is not None else number
        parts = self._joined.setdefault((row.new, target), {})
        if (at := (row.free is not None, part)) in parts:
            message = f"{parts[at][0]!r} and {name!r} would become the same part of this tensor"
            raise DuplicateKeyError(message, key=target, hints=(str(row),))
        parts[at] = name, row

    def _join(self, target: str, parts: Mapping[tuple[int, int], tuple[str, MapRow]]) -> Relation:
        held = [parts[at] for at in sorted(parts)]
        row = held[0][1]
        numbers = [number for _, number in sorted(parts)]
        rows = self._names.group(row)
        if any(other.steps != row.steps or other.free != row.free for other in rows):
            message = "the lines of the map for this tensor contradict each other"
            raise ConversionError(message, key=target, hints=_shown(rows))
        if row.free is None:
            missing = [other for other in rows if other not in {mine for _, mine in held}]
            if missing:
                message = (
                    f"this tensor needs {len(rows)} source tensors, but {len(missing)} of them are missing"
                )
                raise ConversionError(message, key=target, hints=_shown(missing))
        turn = row.steps.turn
        assert isinstance(turn, Join)
        wanted = turn.parts if turn.parts is not None else len(held)
        if len(held) != wanted or (row.free is not None and numbers != list(range(wanted))):
            last, found = wanted - 1, str(len(held))
            if row.free is not None:
                last, found = max(last, *numbers), ", ".join(map(str, numbers[:_MOST_SHOWN]))
            message = f"this tensor needs the parts 0 to {last}; found {found}"
            raise ConversionError(message, key=target, hints=(str(row),))
        steps = row.steps._replace(turn=turn._replace(parts=len(held)))
        return Relation(tuple(name for name, _ in held), (target,), steps, row)

    def _cut(self, name: str, row: MapRow, captures: Mapping[str, str]) -> Relation:
        turn = row.steps.turn
        assert isinstance(turn, Cut)
        try:
            count = len(row.steps.shapes([self._shapes[name]]))
        except ValueError as error:
            raise ConversionError(str(error), key=name, hints=(str(row),)) from error
        if row.free is not None:
            targets = [row.new.fill({**captures, row.free: str(number)}) for number in range(count)]
        else:
            targets = [other.new.fill(captures) for other in self._names.group(row)]
        if len(targets) != count:
            message = f"this tensor is cut into {count} parts, but the map names {len(targets)}"
            raise ConversionError(message, key=name, hints=_shown(self._names.group(row)))
        steps = row.steps._replace(turn=turn._replace(parts=count))
        return Relation((name,), tuple(targets), steps, row)

    def _check_shapes(self, relation: Relation) -> None:
        try:
            relation.steps.shapes([self._shapes[name] for name in relation.sources])
        except ValueError as error:
            raise ConversionError(str(error), key=relation.sources[0], hints=(str(relation.row),)) from error


def _shown(rows: Sequence[MapRow]) -> tuple[str, ...]:
    return tuple(map(str, rows[:_MOST_SHOWN]))


def _refuse_doubles(relations: Iterable[Relation], names: NameMap) -> None:
    made: dict[str, Relation] = {}
    for relation in relations:
        for target in relation.targets:
            if not target:
                raise ConversionError(
                    "the new key of this tensor would be empty",
                    key=relation.sources[0],
                    hints=(str(relation.row),),
                )
            other = made.setdefault(target, relation)
            if other is not relation or relation.targets.count(target) > 1:
                message = f"{other.sources[0]!r} and {relation.sources[0]!r} would both become this key"
                hints = tuple(dict.fromkeys((str(other.row), str(relation.row))))
                raise DuplicateKeyError(message, path=names.path, key=target, hints=hints)


def _refuse_detours(relations: Sequence[Relation], names: NameMap) -> None:
    """Reject rows whose inverse would find other names: names must survive the round trip.

    Of the steps those alone count here that join and cut; the others undo themselves.
    """
    bare = [
        row._replace(
            old=row.new, new=row.old, steps=AxisOperations(turn=turn.inverse() if turn is not None else None)
        )
        for row in names.rows
        for turn in (_counted_or_not(row, names),)
    ]
    back = NameMap(bare, names.path)
    for relation in relations:
        for target in relation.targets:
            found = back.find(target)
            assert found is not None
            row, mine = back.rows[found[0]], relation.row
            assert mine is not None
            if row.place in {other.place for other in names.group(mine)}:
                continue
            message = f"the inverse map would match {target!r} with another line"
            raise ConversionError(
                message, key=relation.sources[0], hints=(str(mine), str(names.rows[found[0]]))
            )


def _counted_or_not(row: MapRow, names: NameMap) -> Join | Cut | None:
    turn = row.steps.turn
    if isinstance(turn, Join) and turn.kind == "concat" and turn.parts is None:
        if row.free is not None:
            message = (
                f"a line of the map cannot be inverted: {turn} does not give the number of parts; "
                f"write for example concat({turn.axis},3)"
            )
            raise ConversionError(message, path=names.path, hints=(str(row),))
        return turn._replace(parts=len(names.group(row)))
    return turn
