"""Pairing the variables of a layer with layers in it, if one side lists them flat and the other has no order.

keras-h5 lists all weights of a layer: its own, then those of each part in the order in which they were
made; first the trained ones, then the others.  Dataset paths have neither that order nor what is trained.
So all orders of the parts are tried, and exactly one has to fit.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING

from .layers import WEIGHTS
from .structure import StructureError, kind_of

if TYPE_CHECKING:
    from .structure import Pairs, StoredObject, StoredVariable


_MOST_ORDERS = 4096
_MOST_PARTS = 6
"""Layers directly within a layer whose orders are all tried."""

Halves = tuple[tuple["StoredVariable", ...], tuple["StoredVariable", ...]]
"""Variables in the order of keras-h5: the trained ones, then the others."""


def arranged(node: StoredObject, stored: list[StoredVariable], where: str) -> Pairs:
    """Return the pairs of stored weights and a layer's variables, in the one order of its parts that fits.

    Dataset paths do not have the order in which a layer made its parts, nor say what is trained.
    """
    wanted = [kind_of(leaf) for leaf in stored]
    trained = [WEIGHTS[leaf.name].trainable if leaf.name in WEIGHTS else None for leaf in stored]
    left = {leaf.key for leaf in stored}
    found: list[list[StoredVariable]] = []
    for halves in _arrangements(node):
        order = [*halves[0], *halves[1]]
        expected = [True] * len(halves[0]) + [False] * len(halves[1])
        fits = len(order) == len(left) and [kind_of(leaf) for leaf in order] == wanted
        if fits and all(each is None or each == half for each, half in zip(trained, expected, strict=True)):
            found += [order] if order not in found else []
        if len(found) > 1:
            break
    if len(found) != 1:
        number = "more than one order" if found else "no order"
        message = f"{where} contains other layers, and their variables fit in {number}"
        raise StructureError(message, is_ambiguous=bool(found))
    return list(zip(stored, found[0], strict=True))


def _arrangements(node: StoredObject) -> list[Halves]:
    """Return the orders that the variables of a layer can have; none if they are too many."""
    below = [
        child for child in (*node.members, *node.children.values()) if any(True for _ in child.everything())
    ]
    if len(below) > _MOST_PARTS:
        return []
    inner = [_arrangements(child) for child in below]
    orders = (order for order in permutations(range(len(below))) if not node.by_class or _keeps(order, below))
    found: list[Halves] = []
    own = [(tuple(node.leaves[:at]), tuple(node.leaves[at:])) for at in range(len(node.leaves), -1, -1)]
    for order in orders:
        for chosen in product(own, *(inner[at] for at in order)):
            halves = tuple(tuple(leaf for each in chosen for leaf in each[half]) for half in (0, 1))
            found.append((halves[0], halves[1]))
            if len(found) > _MOST_ORDERS:
                return []
    return found


def _keeps(order: tuple[int, ...], members: list[StoredObject]) -> bool:
    """Whether an order of a container's members keeps that of each class."""
    last: dict[str, int] = {}
    for at in order:
        if at < last.get(members[at].label, -1):
            return False
        last[members[at].label] = at
    return True
