"""Pair variables by names that contain their objects: `sub_block_1_dense_2_kernel`.

Keras 3 calls slots so after their variables, also after those that no edge of an object graph leads to
(layers in a plain list).  Weights in HDF5 are called so, too, with slashes.  Dataset paths of Keras 3
have the objects' names.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from .structure import kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .structure import ObjectTree, Pairs, StoredObject, StoredVariable


def by_long_names(one: ObjectTree, other: ObjectTree, side: int) -> Pairs:
    """Pair variables by names that contain their objects: all variables with such a name, or none.

    The slots of Keras 3 are called after variables, also those that no edge of the model leads to:
    `sub_block_1_dense_2_kernel` is of `dense_2` within `block_1` within `sub`.  So are weights in HDF5.
    """
    named = dict(one.strays)
    if not one.is_of_program:
        named = {leaf.full_name.replace("/", "_"): leaf for leaf in one.leaves.values() if leaf.full_name}
    if not named or (not one.strays and len(named) < len(one.leaves)):
        return []
    weights = {leaf.full_name.replace("/", "_"): leaf for leaf in other.leaves.values() if leaf.full_name}
    if not other.is_of_program and named.keys() <= weights.keys() and len(weights) == len(other.leaves):
        pairs = [(leaf, weights[name]) for name, leaf in named.items()]
        return [pair if side else pair[::-1] for pair in pairs]
    if other.is_of_program:
        return []  # Its objects have no names of their own, and may lead back to one another.
    objects = _objects(other.root)
    for skipped in range(max((len(node.chain) for node in objects), default=0)):
        prefixes = {"_".join(node.chain[skipped:]) + "_": node for node in objects if node.chain[skipped:]}
        pairs = _by_prefixes(named, prefixes)
        if len(pairs) == len(named):
            return [pair if side else pair[::-1] for pair in pairs]
    return []


def _by_prefixes(named: Mapping[str, StoredVariable], prefixes: Mapping[str, StoredObject]) -> Pairs:
    """Return the pairs of variables and those of the objects whose names theirs begin with."""
    held: defaultdict[str, list[StoredVariable]] = defaultdict(list)
    for name, leaf in named.items():
        fitting = [prefix for prefix in prefixes if name.startswith(prefix)]
        if fitting:
            held[max(fitting, key=len)].append(leaf)
    pairs: Pairs = []
    for prefix, node in prefixes.items():
        found = sorted(held[prefix], key=lambda leaf: leaf.place or 0)
        if [kind_of(leaf) for leaf in found] == [kind_of(leaf) for leaf in node.leaves]:
            pairs += zip(found, node.leaves, strict=True)
    return pairs


def _objects(node: StoredObject) -> list[StoredObject]:
    below = [found for child in (*node.members, *node.children.values()) for found in _objects(child)]
    return [node, *below] if node.leaves else below
