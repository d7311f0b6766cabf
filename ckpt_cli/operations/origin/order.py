"""Whether the order of an export's operations shows which layers its weights are of.

Equal values alone prove nothing if layers of one shape could have been swapped.  Weights of one role and
shape are of their layers in order.  If there are as many weights as layers, this gives each weight its layer.
If there are fewer, it leaves several layers open; then values decide only between these where all are alike.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from .records import PROVED, UNPAIRED, WeightOrigin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .flow import Use
    from .records import Derivation
    from .source import SourceLayer


class Paired(NamedTuple):
    """A weight with its verdict.

    `ways` are those that give its values, `candidates` the layers that its name leaves open.  A weight that
    no way gives has candidates too, and the `signature` of the nearest way, so that it keeps its place.
    """

    origin: WeightOrigin
    ways: tuple[Derivation, ...] = ()
    candidates: frozenset[int] = frozenset()
    shape: tuple[int, ...] = ()
    signature: tuple[str, ...] = ()
    partners: frozenset[int] = frozenset()
    """The layers that may be folded into it, if names leave open which it is."""

    @property
    def kind(self) -> tuple[Any, ...]:
        """The role and shape of the weight, which the weights of several layers may share."""
        return (self.signature[1:], self.shape) if self.signature else ()


class _Member(NamedTuple):
    order: int
    position: int
    key: str
    layers: frozenset[int]
    candidates: frozenset[int]


def in_order(
    found: Mapping[str, Paired], uses: Mapping[str, Use], layers: Sequence[SourceLayer]
) -> dict[str, WeightOrigin]:
    """Return verdicts, less those on weights that neither names nor order tell."""
    groups: dict[tuple[Any, ...], list[_Member]] = defaultdict(list)
    taken = _taken(found.values())
    origins = {key: one.origin for key, one in found.items()}
    for key, one in found.items():
        if len(one.candidates) < 2:
            continue
        candidates = one.candidates - taken[one.kind]
        own = frozenset(way.layer for way in one.ways)
        if own and not candidates & own:
            origins[key] = _unplaced(key, layers[min(own)], "but the names of other weights tell that layer")
        elif len(candidates) > 1 or candidates != own:
            use = uses.get(key)
            place = (use.order, use.position) if use is not None else (-1, -1)
            groups[one.kind].append(_Member(*place, key, own, candidates))
    for members in (some for group in groups.values() for some in _swappable(group)):
        for key, layer, words in _unproved(_without_copies(sorted(members, key=lambda one: one[:3])), layers):
            origins[key] = _unplaced(key, layer, words)
    return origins


def of_calls(
    found: Mapping[str, Paired], origins: Mapping[str, WeightOrigin], layers: Sequence[SourceLayer]
) -> dict[str, WeightOrigin]:
    """Return verdicts, less those on weights that may be of another call of their layer.

    If a layer is called twice, other values may be folded into its bias each time.
    """
    calls: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for key, one in found.items():
        own = {way.layer for way in one.ways} or one.candidates
        if len(own) == 1 and one.signature:
            calls[(*one.kind, *own)].append(key)
    checked = dict(origins)
    for (*_, layer), keys in calls.items():
        proved = [key for key in keys if origins[key].verdict in PROVED]
        for key in proved if len(proved) < len(keys) else ():
            words = "but the same weight of another call has others, so it may be of either"
            checked[key] = _unplaced(key, layers[layer], words)
    return checked


def of_partners(
    found: Mapping[str, Paired],
    origins: Mapping[str, WeightOrigin],
    uses: Mapping[str, Use],
    layers: Sequence[SourceLayer],
) -> dict[str, WeightOrigin]:
    """Return new verdicts on weights that other layers may be folded into, unless their order decides.

    A layer whose own weights are in the export is folded into no other.
    """
    proved = [key for key in found if origins[key].verdict in PROVED and found[key].ways]
    sure = [found[key].ways[0] for key in proved if not found[key].partners]
    taken = {number for way in sure for number in (way.layer, way.partner)}
    left = {key: found[key].partners - taken for key in proved}
    keys = [key for key in proved if found[key].partners and left[key] != {found[key].ways[0].partner}]
    folded: dict[int, set[int]] = {}
    first: dict[int, int] = {}
    for key in keys:
        way = found[key].ways[0]
        folded.setdefault(way.layer, set()).add(way.partner)
        order = uses[key].order if key in uses else -1
        first[way.layer] = min(order, first.get(way.layer, order))
    in_order = [folded[layer] for layer in sorted(folded, key=lambda layer: first[layer])]
    for_all = sorted(frozenset[int]().union(*(left[key] for key in keys)))
    is_allowed = all(found[key].ways[0].partner in left[key] for key in keys)
    is_ordered = in_order == [{partner} for partner in for_all] and min(first.values(), default=0) >= 0
    if is_allowed and is_ordered:
        return {}
    checked = {}
    for key in keys:
        way = found[key].ways[0]
        partner = layers[way.partner].name
        words = f"but nothing says that {partner} is folded into it; a configuration would"
        checked[key] = _unplaced(key, layers[way.layer], words)
    return checked


def _unplaced(key: str, layer: SourceLayer, words: str) -> WeightOrigin:
    return WeightOrigin(key, (), f"has the values of {layer.name}, {words}", UNPAIRED)


def _taken(found: Iterable[Paired]) -> Mapping[tuple[Any, ...], set[int]]:
    """Return the layers whose weights of a kind are known by name, so that no other weight is theirs.

    A weight that is another's by its values is still that of its name.
    """
    taken: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for one in found:
        if len(one.candidates) == 1:
            taken[one.kind].update(one.candidates)
    return taken


def _swappable(members: Sequence[_Member]) -> Iterator[list[_Member]]:
    """Yield the weights that could have been swapped with each other."""
    left = list(members)
    while left:
        some = [left.pop()]
        candidates = some[0].candidates
        while near := [one for one in left if one.candidates & candidates]:
            some += near
            candidates = candidates.union(*(one.candidates for one in near))
            left = [one for one in left if one not in near]
        yield some


def _without_copies(members: Sequence[_Member]) -> list[list[_Member]]:
    """Return the weights in order, those together that are copies of one layer's."""
    found: list[list[_Member]] = []
    known: dict[frozenset[int], list[_Member]] = {}
    for member in members:
        copies = known.get(member.layers) if len(member.layers) == 1 else None
        if copies is None:
            found.append(copies := [])
            known[member.layers] = copies
        copies.append(member)
    return found


def _unproved(
    members: Sequence[Sequence[_Member]], layers: Sequence[SourceLayer]
) -> Iterator[tuple[str, SourceLayer, str]]:
    """Yield the weights that may be of a layer that has other values, and why."""
    candidates = frozenset[int]().union(*(one.candidates for same in members for one in same))
    open_layers = _open_layers([same[0] for same in members])
    for same, may_be in zip(members, open_layers, strict=True):
        for one in same if same[0].layers else ():
            if may_be and may_be <= one.layers:
                continue
            if may_be & one.layers:
                words = f"but the source has {len(candidates)} layers of its shape, and the export fewer: "
                words += "neither names nor order tell which it is"
            else:
                words = "but neither its name nor its place says that it belongs there"
            yield one.key, layers[min(one.layers)], f"{words}; --map can say it"


def _open_layers(members: Sequence[_Member]) -> list[frozenset[int]]:
    """Return the layers that each weight may be of, if each is of a layer behind that of the one before."""
    first: list[float] = []
    last: list[float] = []
    for bounds, some, sign in ((first, members, 1), (last, members[::-1], -1)):
        at = -float("inf")
        for member in some:
            bounds.append(at)
            at = min((sign * layer for layer in member.candidates if sign * layer > at), default=float("inf"))
    pairs = zip(members, first, reversed(last), strict=True)
    if any(member.order < 0 for member in members):
        return [frozenset()] * len(members)
    return [
        frozenset(layer for layer in member.candidates if low < layer < -high) for member, low, high in pairs
    ]
