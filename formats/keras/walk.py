"""Pairing the variables of two trees of one program, whatever its classes are.

Objects are paired by name, members of lists and layers of models by their order, variables by name
or, if a layout has none, by order: the trained ones first.  Shapes have to agree.  Members of a
container of dataset paths have an order only among those of one class: all ways to merge them
into the other side's order are tried, and exactly one has to fit.  Wherever two ways are left the
pairing is rejected, and the error names the layer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from ..core.words import counted
from .arrangement import arranged
from .layers import WEIGHTS
from .long_names import by_long_names
from .structure import StructureError, kind_of, spell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .structure import ObjectTree, Pairs, StoredObject, StoredVariable


_MOST_STATES = 4096
"""Ways to begin that are followed at once; layers that could be merged in more ways are ambiguous anyway."""


def paired(mine: ObjectTree, theirs: ObjectTree) -> dict[str, str]:
    """Return the key in `mine` for each key of a variable in `theirs`.

    Raises StructureError if the trees differ, or if more than one pairing fits.
    """
    settled = by_long_names(mine, theirs, 1) + by_long_names(theirs, mine, 0)
    found: list[dict[str, str]] = []
    flaws: list[tuple[int, StructureError]] = []
    for one, other in product(mine.models, theirs.models):
        is_root = (one is mine.root and len(mine.models) > 1) or (
            other is theirs.root and len(theirs.models) > 1
        )
        if is_root and found:
            continue
        try:
            pairs = _TreeWalk(mine, theirs, settled).pairs(one, other)
        except StructureError as error:
            sizes = [len(list(model.everything())) for model in (one, other)]
            flaws.append((-abs(sizes[0] - sizes[1]), error))
            continue
        keys = {leaf.key: partner.key for partner, leaf in pairs}
        if keys not in found:
            found.append(keys)
    if len(found) > 1:
        raise StructureError("several objects have the structure of the model", is_ambiguous=True)
    if not found and flaws:
        raise max(flaws, key=lambda flaw: (flaw[1].is_ambiguous, flaw[0]))[1]
    if not found:
        raise StructureError("no object that could be the model")
    return found[0]


class _Stream(NamedTuple):
    """Members of one class in their order, or all members if their order is known."""

    label: str
    nodes: list[StoredObject]


class _MergeStep(NamedTuple):
    """How members were taken so far: in how many ways, and the last step to here."""

    number: int
    came_from: tuple[int, ...] = ()
    stream: int = 0


_MergeSteps = dict[tuple[int, ...], _MergeStep]
"""The ways by how many members of each stream they have taken."""


class _TreeWalk:
    def __init__(self, mine: ObjectTree, theirs: ObjectTree, settled: Pairs) -> None:
        self._trees = mine, theirs
        self._settled = settled
        self._done = {leaf.key for pair in settled for leaf in pair}
        self._fitting: dict[tuple[int, int], Pairs | StructureError] = {}
        self._walking: set[tuple[int, int]] = set()
        self._are_all_trained = any(
            tree.trained and all(leaf.place is not None for leaf in tree.leaves.values())
            for tree in self._trees
        )

    def pairs(self, one: StoredObject, other: StoredObject) -> Pairs:
        """Return the pairs of all variables of two models; StructureError if one is left over."""
        found = [*self._settled, *self._pairs(one, other)]
        for side, model in enumerate((one, other)):
            held = {pair[side].key for pair in found}
            left = [
                leaf
                for leaf in (*model.everything(), *self._trees[side].strays.values())
                if leaf.key not in held
            ]
            if left:
                raise StructureError(f"{left[0].key!r} has no counterpart")
        return found

    def _pairs(self, one: StoredObject, other: StoredObject) -> Pairs:
        """Return the pairs of variables at and below two objects; each pair of objects is compared once."""
        key = id(one), id(other)
        if key in self._walking:
            return []
        if key not in self._fitting:
            self._walking.add(key)
            try:
                self._fitting[key] = self._compared(one, other)
            except StructureError as error:
                self._fitting[key] = error
            finally:
                self._walking.discard(key)
        found = self._fitting[key]
        if isinstance(found, StructureError):
            raise found
        return found

    def _compared(self, one: StoredObject, other: StoredObject) -> Pairs:
        if one.is_flat or other.is_flat:
            return self._flat(one, other)
        named = _by_name(one, other)
        pairs = [pair for mine, theirs in named for pair in self._pairs(mine, theirs)]
        done = [{id(pair[side]) for pair in named} for side in (0, 1)]
        rests = self._rest(one, done[0]), self._rest(other, done[1])
        own = list(one.leaves), list(other.leaves)
        if rests[0] and rests[1]:
            pairs += self._sequences(*rests)
        elif any(rests):
            side = 0 if rests[0] else 1
            if not self._trees[side].is_of_program:
                raise StructureError(f"only one of the checkpoints has {spell(rests[side][0])}")
            if len(one.leaves) != len(other.leaves):
                own[side].extend(leaf for node in rests[side] for leaf in node.everything())
        left = [[leaf for leaf in side if leaf.key not in self._done] for side in own]
        return pairs + self._leaves(left[0], left[1], spell(one if one.path else other))

    def _rest(self, node: StoredObject, paired: set[int]) -> list[StoredObject]:
        """Return members and children that no name pairs, in order; of containers what they hold."""
        left = [child for child in (*node.members, *node.children.values()) if id(child) not in paired]
        if not node.by_class:
            left = [
                each for child in left for each in (child.children.values() if child.by_class else (child,))
            ]
        return [child for child in left if any(leaf.key not in self._done for leaf in child.everything())]

    # Members ------------------------------------------------------------------------------

    def _sequences(self, mine: list[StoredObject], theirs: list[StoredObject]) -> Pairs:
        """Return the pairs of members of two containers, opening lists and dictionaries if need be."""
        called = _by_own_names(mine, theirs)
        if called:
            return [pair for node, other in called for pair in self._pairs(node, other)]
        attempts = [(mine, theirs)]
        attempts += [
            (_opened(mine, lists_alone=alone), _opened(theirs, lists_alone=alone)) for alone in (True, False)
        ]
        flaws = []
        for left, right in attempts:
            try:
                return self._merged(_streams(left), _streams(right))
            except StructureError as error:
                if error.is_ambiguous:
                    raise
                flaws.append(error)
        raise flaws[0]

    def _merged(self, mine: list[_Stream], theirs: list[_Stream]) -> Pairs:
        if len(mine) > 1 and len(theirs) > 1:
            both = _of_same_classes(mine, theirs)
        elif len(theirs) > 1:
            both = self._merge(mine[0].nodes, theirs, 0)
        else:
            both = [(node, other) for other, node in self._merge(theirs[0].nodes, mine, 1)]
        return [pair for node, other in both for pair in self._pairs(node, other)]

    def _merge(
        self, ordered: list[StoredObject], streams: list[_Stream], side: int
    ) -> list[tuple[StoredObject, StoredObject]]:
        """Return the one way in which streams merge into an order; or raise StructureError."""
        total = sum(len(stream.nodes) for stream in streams)
        if total != len(ordered):
            first = spell(ordered[0])
            raise StructureError(
                f"{counted(len(ordered), 'object')} starting with {first}, {total} in the other checkpoint"
            )
        try:
            return self._only_way(ordered, streams, side, by_name=True)
        except StructureError as error:
            if error.is_ambiguous:
                raise
        return self._only_way(ordered, streams, side, by_name=False)

    def _only_way(
        self, ordered: list[StoredObject], streams: list[_Stream], side: int, *, by_name: bool
    ) -> list[tuple[StoredObject, StoredObject]]:
        labels = {stream.label for stream in streams}
        ways: _MergeSteps = {(0,) * len(streams): _MergeStep(1)}
        history = []
        for node in ordered:
            said = _class_told(node.name, labels) if by_name else None
            following: _MergeSteps = {}
            for counts, way in ways.items():
                for at in self._next(node, streams, counts, side):
                    if said is None or streams[at].label == said:
                        after = (*counts[:at], counts[at] + 1, *counts[at + 1 :])
                        known = following[after].number if after in following else 0
                        following[after] = _MergeStep(min(known + way.number, 2), counts, at)
            if not following:
                raise self._why_not(node, streams, ways, side)
            if len(following) > _MOST_STATES:
                raise StructureError(f"{spell(node)} matches several objects", is_ambiguous=True)
            history.append(following)
            ways = following
        if any(way.number > 1 for way in ways.values()):
            raise StructureError(_ambiguity(ordered, history), is_ambiguous=True)
        chosen = _traced(ordered, streams, history)
        if not any(tree.is_of_program for tree in self._trees):
            _check_numbers(chosen, labels)
        return chosen

    def _next(
        self, node: StoredObject, streams: list[_Stream], counts: tuple[int, ...], side: int
    ) -> list[int]:
        """Return the streams whose next member can be this object."""
        left = [at for at, stream in enumerate(streams) if counts[at] < len(stream.nodes)]
        return [at for at in left if self._fits(node, streams[at].nodes[counts[at]], side)]

    def _fits(self, node: StoredObject, other: StoredObject, side: int) -> bool:
        try:
            self._pairs(*((node, other) if side == 0 else (other, node)))
        except StructureError as error:
            return error.is_ambiguous
        return True

    def _why_not(
        self, node: StoredObject, streams: list[_Stream], ways: Iterable[tuple[int, ...]], side: int
    ) -> StructureError:
        """Return why an object has no counterpart: what is wrong with the one that should be it."""
        counts = next(iter(ways))
        left = [
            stream.nodes[at] for stream, at in zip(streams, counts, strict=True) if at < len(stream.nodes)
        ]
        if len(left) == 1:
            try:
                self._pairs(*((node, left[0]) if side == 0 else (left[0], node)))
            except StructureError as error:
                return error
        return StructureError(f"the other checkpoint has no object with the variables of {spell(node)}")

    # Variables ----------------------------------------------------------------------------

    def _leaves(self, mine: list[StoredVariable], theirs: list[StoredVariable], where: str) -> Pairs:
        """Return the pairs of an object's own variables."""
        if len(mine) != len(theirs):
            message = (
                f"{where} has {counted(len(mine), 'variable')}, but {len(theirs)} in the other checkpoint"
            )
            raise StructureError(message)
        named = _same_names(mine, theirs)
        if named is not None:
            return _checked(named, where)
        (left, is_sure), (right, is_sure_too) = self._in_order(mine), self._in_order(theirs)
        pairs = list(zip(left, right, strict=True))
        shapes = [[kind_of(leaf) for leaf in side] for side in (left, right)]
        if shapes[0] != shapes[1]:
            if len(set(shapes[0])) < len(mine) or set(shapes[0]) != set(shapes[1]):
                raise StructureError(
                    f"the variables of {where} have different shapes in the other checkpoint"
                )
            return [(leaf, right[shapes[1].index(kind_of(leaf))]) for leaf in left]
        if not (is_sure and is_sure_too) and len(set(shapes[0])) < len(mine):
            message = (
                f"the variables of {where} have equal shapes, and no file says which of them are trainable"
            )
            raise StructureError(message, is_ambiguous=True)
        return pairs

    def _in_order(self, leaves: list[StoredVariable]) -> tuple[list[StoredVariable], bool]:
        """Return variables in the order in which Keras saves them, and whether that is known for sure."""
        if not any(leaf.name for leaf in leaves):
            return leaves, True  # as they are saved
        places = [leaf.place for leaf in leaves]
        if any(place is not None for place in places):
            return sorted(leaves, key=lambda leaf: (leaf.place is None, leaf.place or 0)), True
        if all(leaf.name in WEIGHTS for leaf in leaves):
            return sorted(leaves, key=lambda leaf: not WEIGHTS[leaf.name].trainable), True
        return leaves, self._are_all_trained

    def _flat(self, one: StoredObject, other: StoredObject) -> Pairs:
        """Return the pairs of all variables of a layer, which one side lists without what is within it."""
        mine, theirs = list(one.everything()), list(other.everything())
        where = spell(one if one.is_flat else other)
        if len(mine) != len(theirs):
            message = (
                f"{where} has {counted(len(mine), 'variable')}, but {len(theirs)} in the other checkpoint"
            )
            raise StructureError(message)
        deep = next((node for node in (one, other) if not node.is_flat), None)
        is_deep = deep is not None and bool(deep.children or deep.members)
        if deep is not None and is_deep and not any(leaf.name for leaf in deep.everything()):
            pairs = arranged(deep, mine if deep is other else theirs, where)
            return pairs if deep is other else [(own, leaf) for leaf, own in pairs]
        pairs = []
        for tell in (_full_name, _named_kind, kind_of):
            pairs += _unique(mine, theirs, tell)
            done = {leaf.key for pair in pairs for leaf in pair}
            mine, theirs = ([leaf for leaf in side if leaf.key not in done] for side in (mine, theirs))
        return pairs + (self._nested if is_deep else self._leaves)(mine, theirs, where)

    def _nested(self, mine: list[StoredVariable], theirs: list[StoredVariable], where: str) -> Pairs:
        """Pair what is left of a layer with others within it by order among those of one name and shape."""
        groups: tuple[defaultdict[object, list[StoredVariable]], ...] = defaultdict(list), defaultdict(list)
        for side, leaves in zip(groups, (mine, theirs), strict=True):
            for leaf in self._in_order(leaves)[0]:
                side[_named_kind(leaf)].append(leaf)
        if {key: len(held) for key, held in groups[0].items()} != {
            key: len(held) for key, held in groups[1].items()
        }:
            raise StructureError(
                f"the variables of {where} have different names or shapes in the other checkpoint"
            )
        return [pair for key, held in groups[0].items() for pair in zip(held, groups[1][key], strict=True)]


# By name ----------------------------------------------------------------------------------


def _by_name(one: StoredObject, other: StoredObject) -> list[tuple[StoredObject, StoredObject]]:
    """Return the children that both sides have under one name, less underscores before it."""
    if one.by_class or other.by_class:
        return []
    found = []
    for name, child in one.children.items():
        spellings = (name, f"_{name}", name.lstrip("_"))
        partner = next((other.children[at] for at in spellings if at in other.children), None)
        if partner is not None:
            found.append((child, partner))
    return found


def _by_own_names(
    mine: list[StoredObject], theirs: list[StoredObject]
) -> list[tuple[StoredObject, StoredObject]]:
    """Return members by their layers' names, if both sides have the same ones; their order may differ."""
    named = [{node.name: node for node in side} for side in (mine, theirs)]
    if "" in named[0] or named[0].keys() != named[1].keys() or not len(mine) == len(theirs) == len(named[0]):
        return []
    return [(node, named[1][name]) for name, node in named[0].items()]


def _opened(nodes: Sequence[StoredObject], *, lists_alone: bool) -> list[StoredObject]:
    """Return nodes with what they hold in the place of lists, or of all that may be dictionaries."""
    found: list[StoredObject] = []
    for node in nodes:
        inner = [*node.members, *node.children.values()]
        opens = inner and not node.leaves and not node.is_flat and (node.is_list or not lists_alone)
        found += inner if opens else [node]
    return list({id(node): node for node in found}.values())


def _streams(nodes: list[StoredObject]) -> list[_Stream]:
    """Return members by class if that is what orders them, else all in one stream."""
    streams: dict[str, list[StoredObject]] = {}
    for node in nodes:
        streams.setdefault(node.label, []).append(node)
    return [_Stream(label, held) for label, held in streams.items()]


def _class_told(name: str, labels: set[str]) -> str | None:
    """Return the class that Keras named a layer after: `dense_3` is a `dense` if there are some."""
    if name in labels:
        return name
    base, _, number = name.rpartition("_")
    return base if number.isdigit() and base in labels else None


def _check_numbers(chosen: list[tuple[StoredObject, StoredObject]], labels: set[str]) -> None:
    """Refuse members of one class whose names that Keras made up count in another order than they stand in.

    So the values of a dictionary do, which some layouts sort by its keys, and others do not.
    """
    last: dict[str, int] = {}
    for node, other in chosen:
        base = _class_told(node.name, labels)
        if base is None or base != other.label or other.path.split("/")[-2:-1] == ["layers"]:
            continue
        number = int(node.name[len(base) + 1 :] or 0)
        if number < last.get(base, -1):
            message = (
                f"{spell(node)} matches several objects: its container and the model differ in their order"
            )
            raise StructureError(message, is_ambiguous=True)
        last[base] = number


def _same_names(mine: list[StoredVariable], theirs: list[StoredVariable]) -> Pairs | None:
    """Return pairs by name; None if names do not tell."""
    sides = [{_any_keras(leaf): leaf for leaf in leaves} for leaves in (mine, theirs)]
    if "" in sides[0] or sides[0].keys() != sides[1].keys() or len(sides[0]) != len(mine):
        return None
    return [(leaf, sides[1][name]) for name, leaf in sides[0].items()]


def _unique(mine: list[StoredVariable], theirs: list[StoredVariable], tell: object) -> Pairs:
    """Return the pairs of variables of which `tell` says the same, and of no others."""
    assert callable(tell)
    sides = [[(tell(leaf), leaf) for leaf in leaves] for leaves in (mine, theirs)]
    counts = [Counter(said for said, _ in side) for side in sides]
    found = {said: leaf for said, leaf in sides[1] if said is not None and counts[1][said] == 1}
    return [
        (leaf, found[said])
        for said, leaf in sides[0]
        if said in found and counts[0][said] == 1 and kind_of(leaf) == kind_of(found[said])
    ]


def _checked(pairs: Pairs, where: str) -> Pairs:
    odd = next(((one, other) for one, other in pairs if kind_of(one) != kind_of(other)), None)
    if odd is not None:
        shapes = f"{list(odd[0].shape)}, but {list(odd[1].shape)} in the other checkpoint"
        raise StructureError(f"{odd[0].name!r} of {where} has shape {shapes}")
    return pairs


def _any_keras(leaf: StoredVariable) -> str:
    row = WEIGHTS.get(leaf.name)
    return (row and row.in_keras_3) or leaf.name


def _full_name(leaf: StoredVariable) -> object:
    return leaf.full_name or None


def _named_kind(leaf: StoredVariable) -> object:
    return (_any_keras(leaf), *kind_of(leaf)) if leaf.name else None


def _of_same_classes(mine: list[_Stream], theirs: list[_Stream]) -> list[tuple[StoredObject, StoredObject]]:
    """Return the members of two containers of dataset paths, class by class."""
    labels = {stream.label: stream.nodes for stream in theirs}
    if {stream.label: len(stream.nodes) for stream in mine} != {
        label: len(nodes) for label, nodes in labels.items()
    }:
        raise StructureError("the two containers have objects of different classes")
    return [pair for stream in mine for pair in zip(stream.nodes, labels[stream.label], strict=True)]


def _traced(
    ordered: list[StoredObject], streams: list[_Stream], history: list[_MergeSteps]
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
    """Return a message that names the first layer whose counterpart is not told."""
    at = next((at for at, ways in enumerate(history) if len(ways) > 1), len(history) - 1)
    return f"{spell(ordered[at])} matches several objects of the other checkpoint, which have equal shapes"
