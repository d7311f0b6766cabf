"""Members of containers in one order: those of dataset paths have an order only within a class.

All ways to merge the classes into the other side's order are followed at once, by how many members of
each class they have taken, and exactly one has to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..core.words import counted
from .structure import StoredObject, StructureError, kind_of, spell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_MOST_STATES = 4096
"""Ways to begin that are followed at once; layers that could be merged in more ways are ambiguous anyway."""


Flaw = Callable[[StoredObject, StoredObject], "StructureError | None"]
"""Says why two objects are not one; None if they may be."""


class MemberStream(NamedTuple):
    """Members of one class in their order, or all members if their order is known."""

    label: str
    nodes: list[StoredObject]
    container: str = ""
    """The path of what holds them: between two containers there is no order."""


class _MergeStep(NamedTuple):
    """How members were taken so far: in how many ways, and the last step to here."""

    number: int
    came_from: tuple[int, ...] = ()
    stream: int = 0


_MergeSteps = dict[tuple[int, ...], _MergeStep]
"""The ways by how many members of each stream they have taken."""


class MemberMerge:
    """Members in a known order, and streams whose members must be merged into it.

    `counts` says that names which Keras made up have to count in the order of the members.
    """

    def __init__(
        self, ordered: list[StoredObject], streams: list[MemberStream], flaw: Flaw, *, counts: bool
    ) -> None:
        self._ordered = ordered
        self._streams = streams
        self._flaw = flaw
        self._counts = counts

    def pairs(self) -> list[tuple[StoredObject, StoredObject]]:
        """Return the one way in which streams merge into an order; or raise StructureError."""
        total = sum(len(stream.nodes) for stream in self._streams)
        if total != len(self._ordered):
            first = spell(self._ordered[0])
            raise StructureError(
                f"one checkpoint has {counted(len(self._ordered), 'object')} in the group that "
                f"starts with {first}, but the other has {total}"
            )
        try:
            return self._only_way(by_name=True)
        except StructureError as error:
            if error.is_ambiguous:
                raise
        return self._only_way(by_name=False)

    def _only_way(self, *, by_name: bool) -> list[tuple[StoredObject, StoredObject]]:
        streams = self._streams
        labels = {stream.label for stream in streams}
        ways: _MergeSteps = {(0,) * len(streams): _MergeStep(1)}
        history = []
        for node in self._ordered:
            named_class = _class_in_name(node.name, labels) if by_name else None
            following: _MergeSteps = {}
            for counts, way in ways.items():
                for at in self._next(node, counts):
                    if named_class is None or streams[at].label == named_class:
                        after = (*counts[:at], counts[at] + 1, *counts[at + 1 :])
                        known = following[after].number if after in following else 0
                        following[after] = _MergeStep(min(known + way.number, 2), counts, at)
            if not following:
                raise self._why_not(node, ways)
            if len(following) > _MOST_STATES:
                raise StructureError(f"{spell(node)} matches several objects", is_ambiguous=True)
            history.append(following)
            ways = following
        if any(way.number > 1 for way in ways.values()):
            raise StructureError(_ambiguity(self._ordered, history), is_ambiguous=True)
        chosen = _traced(self._ordered, streams, history)
        if self._counts:
            _check_numbers(chosen, labels)
        return chosen

    def _next(self, node: StoredObject, counts: tuple[int, ...]) -> list[int]:
        """Return the streams whose next member can be this object."""
        left = [at for at, stream in enumerate(self._streams) if counts[at] < len(stream.nodes)]
        return [at for at in left if self._flaw(node, self._streams[at].nodes[counts[at]]) is None]

    def _why_not(self, node: StoredObject, ways: Iterable[tuple[int, ...]]) -> StructureError:
        """Return why an object has no counterpart: what is wrong with the one that should be it."""
        counts = next(iter(ways))
        left = [
            stream.nodes[at]
            for stream, at in zip(self._streams, counts, strict=True)
            if at < len(stream.nodes)
        ]
        flaw = self._flaw(node, left[0]) if len(left) == 1 else None
        if flaw is not None:
            return flaw
        return StructureError(f"the other checkpoint has no object with the variables of {spell(node)}")


def by_own_names(
    mine: list[StoredObject], theirs: list[StoredObject]
) -> list[tuple[StoredObject, StoredObject]]:
    """Return members by their layers' names, if both sides have the same ones; their order may differ."""
    named = [{node.name: node for node in side} for side in (mine, theirs)]
    if "" in named[0] or named[0].keys() != named[1].keys() or not len(mine) == len(theirs) == len(named[0]):
        return []
    return [(node, named[1][name]) for name, node in named[0].items()]


def opened(nodes: Sequence[StoredObject], *, lists_alone: bool) -> list[StoredObject]:
    """Return nodes with what they hold in the place of lists, or of all that may be dictionaries.

    Keras 2 walks a dictionary by its sorted keys, not in the order in which the program has set them.
    """
    found: list[StoredObject] = []
    for node in nodes:
        is_dictionary = not node.is_list and not any(child.label for child in node.children.values())
        children = sorted(node.children.items()) if is_dictionary else node.children.items()
        inner = [*node.members, *(child for _, child in children)]
        opens = inner and not node.leaves and not node.is_flat and (node.is_list or not lists_alone)
        found += inner if opens else [node]
    return list({id(node): node for node in found}.values())


def streams_of(nodes: list[StoredObject]) -> list[MemberStream]:
    """Return members by class if that orders them, otherwise all in one stream."""
    streams: dict[tuple[str, str], list[StoredObject]] = {}
    for node in nodes:
        container = node.path.rpartition("/")[0] if node.label else ""
        streams.setdefault((container, node.label), []).append(node)
    return [MemberStream(label, held, container) for (container, label), held in streams.items()]


def refuse_unordered(nodes: list[StoredObject]) -> None:
    """Raise StructureError if it is unknown in which order Keras 2 goes through the attributes of an object.

    It goes by when a layer was set, an object graph by when its name was: that differs where a name is set
    again.  The trained variables have the former order; without them, the names that Keras made up count so.
    """
    for at, node in enumerate(nodes):
        kinds = [kind_of(leaf) for leaf in node.everything()]
        for other in nodes[:at]:
            if [kind_of(leaf) for leaf in other.everything()] == kinds and _come_otherwise(other, node):
                message = f"{spell(other)} and {spell(node)} have equal shapes, and their order is ambiguous"
                raise StructureError(message, is_ambiguous=True)


def _come_otherwise(one: StoredObject, other: StoredObject) -> bool:
    """Whether what is known of two objects says that the second one comes first."""
    places = [
        min((x.place for x in node.everything() if x.place is not None), default=None)
        for node in (one, other)
    ]
    if places[0] is not None and places[1] is not None:
        return places[0] > places[1]
    (base, _, number), (other_base, _, other_number) = (node.name.rpartition("_") for node in (one, other))
    if not number.isdigit():
        base, number = one.name, "0"
    if not other_number.isdigit():
        other_base, other_number = other.name, "0"
    return bool(base) and base == other_base and int(number) > int(other_number)


def _class_in_name(name: str, labels: set[str]) -> str | None:
    """Return the class that Keras named a layer after: `dense_3` is a `dense` if there are some."""
    if name in labels:
        return name
    base, _, number = name.rpartition("_")
    return base if number.isdigit() and base in labels else None


def _check_numbers(chosen: list[tuple[StoredObject, StoredObject]], labels: set[str]) -> None:
    """Reject members of one class whose generated names count in another order than their positions.

    So the values of a dictionary do, which some layouts sort by its keys, and others do not.
    """
    last: dict[str, int] = {}
    for node, other in chosen:
        base = _class_in_name(node.name, labels)
        if base is None or base != other.label or other.path.split("/")[-2:-1] == ["layers"]:
            continue
        number = int(node.name[len(base) + 1 :] or 0)
        if number < last.get(base, -1):
            message = (
                f"{spell(node)} matches several objects: its container and the model differ in their order"
            )
            raise StructureError(message, is_ambiguous=True)
        last[base] = number


def of_same_classes(
    mine: list[MemberStream], theirs: list[MemberStream]
) -> list[tuple[StoredObject, StoredObject]]:
    """Return the members of two containers of dataset paths, class by class."""
    sides = [{(stream.container, stream.label): stream.nodes for stream in side} for side in (mine, theirs)]
    if all(len({label for _, label in side}) == len(side) for side in sides):
        sides = [{("", label): nodes for (_, label), nodes in side.items()} for side in sides]
    if {key: len(nodes) for key, nodes in sides[0].items()} != {
        key: len(nodes) for key, nodes in sides[1].items()
    }:
        raise StructureError("the two containers have objects of different classes")
    return [pair for key, nodes in sides[0].items() for pair in zip(nodes, sides[1][key], strict=True)]


def _traced(
    ordered: list[StoredObject], streams: list[MemberStream], history: list[_MergeSteps]
) -> list[tuple[StoredObject, StoredObject]]:
    """Return the members that the one way has taken."""
    counts = next(iter(history[-1]))
    chosen = []
    for node, ways in zip(reversed(ordered), reversed(history), strict=True):
        way = ways[counts]
        counts = way.came_from
        chosen.append((node, streams[way.stream].nodes[counts[way.stream]]))
    return chosen[::-1]


def _ambiguity(ordered: list[StoredObject], history: list[_MergeSteps]) -> str:
    """Return a message that names the first layer with an ambiguous counterpart."""
    at = next((at for at, ways in enumerate(history) if len(ways) > 1), len(history) - 1)
    return f"{spell(ordered[at])} matches several objects of the other checkpoint, which have equal shapes"
