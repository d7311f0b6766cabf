"""Where the weights of an export are used, and whether the order of its operations is that of the layers.

Equal values alone prove nothing where layers of one shape could have changed places.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from .records import UNPAIRED, WeightOrigin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.model.operation_nodes import OperationNode

    from .records import Derivation
    from .source import SourceLayer


class Use(NamedTuple):
    """Where a weight is used first: the number of the operation, the operation, and as which input.

    `names` are those of the operation, `others` the keys of its other inputs.
    """

    order: int
    operation: str
    position: int
    names: tuple[str, ...]
    others: tuple[str, ...] = ()


class Paired(NamedTuple):
    """A weight with its verdict.

    `ways` are those that give its values, `candidates` the layers that its name leaves open.  A weight that
    no way gives has candidates too, and the `signature` of the nearest way.
    """

    origin: WeightOrigin
    ways: tuple[Derivation, ...] = ()
    candidates: frozenset[int] = frozenset()
    shape: tuple[int, ...] = ()
    signature: tuple[str, ...] = ()

    @property
    def kind(self) -> tuple[Any, ...]:
        """The role and shape of the weight, which the weights of several layers may share."""
        return (self.signature[1:], self.shape) if self.signature else ()


class _Member(NamedTuple):
    order: int
    key: str
    layers: tuple[int, ...]
    candidates: frozenset[int]


def uses_of(nodes: Iterator[OperationNode]) -> dict[str, Use]:
    """Return the first use of each weight."""
    found: dict[str, Use] = {}
    for order, node in enumerate(nodes):
        for position, key in enumerate(node.inputs):
            if key and key not in found:
                others = tuple(other for other in node.inputs if other and other != key)
                found[key] = Use(order, node.operation, position, node.names, others)
    return found


def in_order(
    found: Mapping[str, Paired], uses: Mapping[str, Use], layers: Sequence[SourceLayer]
) -> dict[str, WeightOrigin]:
    """Return verdicts, less those on weights that names do not tell and whose order is another's."""
    groups: dict[tuple[Any, ...], list[_Member]] = defaultdict(list)
    taken = _taken(found.values())
    strays: dict[str, int] = {}
    for key, one in found.items():
        layers_of = {way.layer for way in one.ways}
        candidates = one.candidates - taken[one.kind] if len(one.candidates) > 1 else frozenset()
        if one.ways and len(one.candidates) > 1 and not candidates & layers_of:
            strays[key] = min(layers_of)
        elif one.ways and (len(candidates) > 1 or (candidates and candidates != layers_of)):
            order = uses[key].order if key in uses else -1
            member = _Member(order, key, tuple(sorted(layers_of)), candidates)
            groups[one.signature, one.shape].append(member)
    origins = {key: one.origin for key, one in found.items()}
    apart = (some for group in groups.values() for some in _apart(group))
    for misplaced in (strays, *(_misplaced(sorted(members)) for members in apart)):
        for key, layer in misplaced.items():
            name = layers[layer].name
            rule = f"has the values of {name}, but neither its name nor its place says that it belongs there"
            origins[key] = WeightOrigin(key, (), rule, UNPAIRED)
    return origins


def _taken(found: Iterable[Paired]) -> Mapping[tuple[Any, ...], set[int]]:
    """Return the layers whose weights of a kind are known by name, so that no other weight is theirs.

    A weight that is another's by its values is still that of its name.
    """
    taken: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for one in found:
        if len(one.candidates) == 1:
            taken[one.kind].update(one.candidates)
    return taken


def _apart(members: Sequence[_Member]) -> Iterator[list[_Member]]:
    """Yield the weights that could have changed places with each other."""
    left = list(members)
    while left:
        some = [left.pop()]
        candidates = some[0].candidates
        while near := [one for one in left if one.candidates & candidates]:
            some += near
            candidates = candidates.union(*(one.candidates for one in near))
            left = [one for one in left if one not in near]
        yield some


def _misplaced(members: Sequence[_Member]) -> dict[str, int]:
    """Return the weights whose order contradicts that of the layers they have the values of."""
    if _is_ordered(members):
        return {}
    found: dict[str, int] = {}
    for at, (order, key, (layer, *_), _) in enumerate(members):
        before, after = members[:at], members[at + 1 :]
        is_late = any(other.layers[0] >= layer for other in before)
        if order < 0 or is_late or any(other.layers[0] <= layer for other in after):
            found[key] = layer
    return found


def _is_ordered(members: Iterable[_Member]) -> bool:
    """Whether each weight may be of a layer behind that of the one before."""
    last = -1
    for order, _, layers, _ in members:
        behind = [layer for layer in layers if layer > last]
        if order < 0 or not behind:
            return False
        last = behind[0]
    return True
