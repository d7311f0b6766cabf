"""Pair the variables of two trees of one program without knowing its classes.

Objects are paired by name, members of lists and layers of models by their order, variables by name or, if a
layout has none, by order: the trained ones first. Shapes must agree. Members of a container of dataset paths
have an order only within one class: all ways to merge them into the other side's order are tried, and exactly
one must fit. If two ways remain, the pairing is rejected, and the error names the layer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from typing import TYPE_CHECKING

from ..core.words import counted
from .arrangement import arranged
from .layers import WEIGHTS
from .long_names import by_long_names
from .members import (
    MemberMerge,
    MemberStream,
    by_own_names,
    of_same_classes,
    opened,
    refuse_unordered,
    streams_of,
)
from .structure import StructureError, kind_of, spell

if TYPE_CHECKING:
    from .structure import ObjectTree, Pairs, StoredObject, StoredVariable


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
        if is_root and (found or any(flaw.is_ambiguous for _, flaw in flaws)):
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
        raise StructureError("no object could be the model")
    return found[0]


_SCALES = ("kernel_scale", "embeddings_scale")
_QUANTIZED = ("kernel", "embeddings", "bias", *_SCALES, "kernel_zero", "embeddings_zero", "g_idx")
"""The order in which a quantized layer of Keras 3 saves its variables: by name, trained or not."""


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
            self._check_order(one, other, rests)
            pairs += self._sequences(*rests)
        elif any(rests):
            side = 0 if rests[0] else 1
            if not self._trees[side].is_of_program:
                raise StructureError(f"only one of the checkpoints has {spell(rests[side][0])}")
            if len(one.leaves) != len(other.leaves):
                own[side].extend(leaf for node in rests[side] for leaf in node.everything())
        left = [[leaf for leaf in side if leaf.key not in self._done] for side in own]
        return pairs + self._leaves(left[0], left[1], spell(one if one.path else other))

    def _check_order(
        self, one: StoredObject, other: StoredObject, rests: tuple[list[StoredObject], list[StoredObject]]
    ) -> None:
        """Raise StructureError if attributes of a program would pair by an unknown order."""
        if one.by_class or other.by_class or by_own_names(*rests):
            return
        for side, node in enumerate((one, other)):
            is_known = self._trees[1 - side].is_of_program or node.is_list
            if self._trees[side].is_of_program and not is_known:
                attributes = {id(child) for child in node.children.values()}
                refuse_unordered([child for child in rests[side] if id(child) in attributes])

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
        called = by_own_names(mine, theirs)
        if called:
            return [pair for node, other in called for pair in self._pairs(node, other)]
        attempts = [(mine, theirs)]
        attempts += [
            (opened(mine, lists_alone=alone), opened(theirs, lists_alone=alone)) for alone in (True, False)
        ]
        # The layers in a container of dataset paths may have layers, but no weights, of their own.
        attempts += [(opened(mine, lists_alone=False), theirs), (mine, opened(theirs, lists_alone=False))]
        flaws = []
        for left, right in attempts:
            try:
                return self._merged(streams_of(left), streams_of(right))
            except StructureError as error:
                if error.is_ambiguous:
                    raise
                flaws.append(error)
        raise flaws[0]

    def _merged(self, mine: list[MemberStream], theirs: list[MemberStream]) -> Pairs:
        counts = not any(tree.is_of_program for tree in self._trees)
        if len(mine) > 1 and len(theirs) > 1:
            both = of_same_classes(mine, theirs)
        elif len(theirs) > 1:
            both = MemberMerge(mine[0].nodes, theirs, self._flaw, counts=counts).pairs()
        else:
            merge = MemberMerge(
                theirs[0].nodes, mine, lambda other, node: self._flaw(node, other), counts=counts
            )
            both = [(node, other) for other, node in merge.pairs()]
        return [pair for node, other in both for pair in self._pairs(node, other)]

    def _flaw(self, node: StoredObject, other: StoredObject) -> StructureError | None:
        """Return why two objects are not the same, or None if they may be."""
        try:
            self._pairs(node, other)
        except StructureError as error:
            return None if error.is_ambiguous else error
        return None

    # Variables ----------------------------------------------------------------------------

    def _leaves(self, mine: list[StoredVariable], theirs: list[StoredVariable], where: str) -> Pairs:
        """Return the pairs of an object's own variables."""
        if len(mine) != len(theirs):
            count = counted(len(mine), "variable")
            message = f"{where} has {count} in one checkpoint and {len(theirs)} in the other"
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
        if any(leaf.name in _SCALES for leaf in leaves) and all(leaf.name in _QUANTIZED for leaf in leaves):
            return sorted(leaves, key=lambda leaf: _QUANTIZED.index(leaf.name)), True
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
            count = counted(len(mine), "variable")
            message = f"{where} has {count} in one checkpoint and {len(theirs)} in the other"
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


def _same_names(mine: list[StoredVariable], theirs: list[StoredVariable]) -> Pairs | None:
    """Return pairs by name; None if names do not tell."""
    sides = [{_any_keras(leaf): leaf for leaf in leaves} for leaves in (mine, theirs)]
    if "" in sides[0] or sides[0].keys() != sides[1].keys() or len(sides[0]) != len(mine):
        return None
    return [(leaf, sides[1][name]) for name, leaf in sides[0].items()]


def _unique(mine: list[StoredVariable], theirs: list[StoredVariable], tell: object) -> Pairs:
    """Return the pairs of variables for which `tell` returns the same, each unique."""
    assert callable(tell)
    sides = [[(tell(leaf), leaf) for leaf in leaves] for leaves in (mine, theirs)]
    counts = [Counter(label for label, _ in side) for side in sides]
    found = {label: leaf for label, leaf in sides[1] if label is not None and counts[1][label] == 1}
    return [
        (leaf, found[label])
        for label, leaf in sides[0]
        if label in found and counts[0][label] == 1 and kind_of(leaf) == kind_of(found[label])
    ]


def _checked(pairs: Pairs, where: str) -> Pairs:
    odd = next(((one, other) for one, other in pairs if kind_of(one) != kind_of(other)), None)
    if odd is not None:
        shapes = f"{list(odd[0].shape)} in one checkpoint and {list(odd[1].shape)} in the other"
        raise StructureError(f"{odd[0].name!r} of {where} has shape {shapes}")
    return pairs


def _any_keras(leaf: StoredVariable) -> str:
    row = WEIGHTS.get(leaf.name)
    return (row and row.in_keras_3) or leaf.name


def _full_name(leaf: StoredVariable) -> object:
    return leaf.full_name or None


def _named_kind(leaf: StoredVariable) -> object:
    return (_any_keras(leaf), *kind_of(leaf)) if leaf.name else None
