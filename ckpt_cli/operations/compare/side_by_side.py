"""The data of a page about two checkpoints: the result of `diff`, and both sides of each change.

Tensors are paired by their keys, or, if no key is on both sides, by the name that pairs the most. A tensor
that cannot be read is reported as damaged, and the others are still compared.
"""

from __future__ import annotations

import math
from contextlib import closing
from typing import TYPE_CHECKING, Any

from formats.core.words import natural_order, short_names
from formats.errors import CheckpointError

from ..look.flaws import Flaws
from ..look.report import MOST_DRAWN, Page, about, cells_of, number, sketch_document
from ..look.sketch import look_at
from ..select.selection import Selection, sift, unmatched
from .diff import DiffEntry, DiffOptions, diff_pairs
from .layers import layer_and_leaf, with_kinds
from .pairs import better_by, labels, pair_up
from .ranking import (
    distance_rank,
    largest_magnitude,
    layer_weight,
    magnitude,
    norms_of_changed,
    weight,
    weights_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from formats.core.spec import TensorSpec
    from formats.model.reader import FormatReader
    from formats.store.work.workers import Workers

    from ..look.sketch import ReadResult
    from .measure import Norms
    from .pairs import KeyPair


def two(
    left: FormatReader,
    right: FormatReader,
    matches: Sequence[str] = (),
    *,
    workers: Workers,
    advance: Callable[[int], None] = lambda _: None,
) -> Page:
    """Return the page's data about two checkpoints; `matches` are patterns of tensors to draw.

    Raises NothingSelectedError if one of them matches nothing on either side.
    """
    by = better_by(left, right, "key") or "key"
    pairs = pair_up(left, right, by)
    flaws = Flaws()
    broken: dict[str, str] = {}
    options = DiffOptions(by)

    def on_damage(pair: KeyPair, flaw: CheckpointError) -> None:
        broken[pair.key] = str(flaw)
        flaws.add(flaw)

    compared = _entries(left, right, pairs, options, on_damage, workers=workers, advance=advance)
    entries = with_kinds(compared, left, right)
    names = {**labels(left, "object-path"), **labels(right, "object-path")}
    drawn = _drawn(left, right, entries, matches)
    sides = [_sketched(left, [_left_key(entry) for entry in drawn], workers)]
    sides.append(_sketched(right, [entry.right.key if entry.right else None for entry in drawn], workers))
    shown = [entry for entry in entries if entry.change != "same"]
    places = {entry.key: at for at, entry in enumerate(shown)}
    parts = [layer_and_leaf(names.get(entry.key, entry.key), entry.kind) for entry in shown]
    layers = _layers(shown, parts)
    ranks = {layer: rank for rank, layer in enumerate(layers)}
    most = largest_magnitude(weights_of(shown))
    rows = [
        {
            "layer": ranks[layer],
            "leaf": leaf,
            **_row(entry, names.get(entry.key), most),
        }
        for entry, (layer, leaf) in zip(shown, parts, strict=True)
    ]
    order = sorted(range(len(shown)), key=lambda at: natural_order(rows[at].get("name", shown[at].key)))
    for rank, at in enumerate(sorted(order, key=lambda at: weight(shown[at]), reverse=True)):
        rows[at]["rank"] = rank
    return Page(
        {
            "what": "two",
            "name": " → ".join(_names_of(left, right)),
            "path": left.location.path,
            "other": right.location.path,
            "by": by,
            "left": about(left),
            "right": about(right),
            "apart": _far(norms_of_changed(weights_of(shown)), most),
            "layers": [
                {"name": layer, **_far(norms_of_changed(some), most)} for layer, some in layers.items()
            ],
            "same": len(entries) - len(shown),
            "entries": rows,
            "broken": broken,
            "matches": list(matches),
            "sketches": {
                places[entry.key]: [side.get(at) for side in sides] for at, entry in enumerate(drawn)
            },
        },
        flaws,
    )


def _layers(shown: Sequence[DiffEntry], parts: Sequence[tuple[str, str]]) -> dict[str, list[DiffEntry]]:
    """Return the changes of each layer: the layer of the gravest first, of those alike the farthest one."""
    layers: dict[str, list[DiffEntry]] = {}
    for entry, (layer, _) in zip(shown, parts, strict=True):
        layers.setdefault(layer, []).append(entry)
    named = sorted(layers, key=natural_order)
    ordered = sorted(named, key=lambda layer: layer_weight(layers[layer]), reverse=True)
    return {layer: layers[layer] for layer in ordered}


def _far(norms: Norms | None, most: float) -> dict[str, Any]:
    """Return how far values are apart, and as a part of the distance of the tensor that is farthest."""
    if norms is None:
        return {}
    far = {
        "rel_l2": number(norms.relative),
        "cosine": number(norms.cosine),
        "bar": _bar(norms.relative, most),
    }
    return {field: value for field, value in far.items() if value is not None}


def _bar(far: float, most: float) -> float:
    return (
        min(1.0, round(distance_rank(far) / most, 4))
        if most and distance_rank(far) != math.inf
        else float(far != 0)
    )


def _names_of(left: FormatReader, right: FormatReader) -> list[str]:
    """Return names that distinguish two checkpoints: their own, or if these are equal, with their folders."""
    names = [left.location.name, right.location.name]
    if names[0] != names[1]:
        return names
    return short_names([left.location.path.absolute(), right.location.path.absolute()])


def _entries(
    left: FormatReader,
    right: FormatReader,
    pairs: list[KeyPair],
    options: DiffOptions,
    on_damage: Callable[[KeyPair, CheckpointError], None],
    *,
    workers: Workers,
    advance: Callable[[int], None],
) -> Iterator[DiffEntry]:
    """Yield the entries of pairs that can be compared; `on_damage` is called with the errors of the others.

    Damage ends a comparison, so what cannot be compared together is compared in halves.
    """
    waiting = [pairs]
    while waiting:
        some = waiting.pop()
        try:
            found = diff_pairs(left, right, some, options, workers=workers)
        except CheckpointError as error:
            if len(some) == 1:
                on_damage(some[0], error)
                yield _damaged(left, right, some[0])
                continue
            middle = len(some) // 2
            waiting += [some[middle:], some[:middle]]
            continue
        for entry in found.entries:
            advance((entry.right and entry.right.nbytes) or 0)
            yield entry


def _damaged(left: FormatReader, right: FormatReader, pair: KeyPair) -> DiffEntry:
    one = left.specs[pair.left] if pair.left is not None else None
    other = right.specs[pair.right] if pair.right is not None else None
    return DiffEntry(pair.key, "damaged", pair.left if pair.left != pair.key else None, one, other)


def _left_key(entry: DiffEntry) -> str | None:
    return entry.left.key if entry.left is not None else None


def _drawn(
    left: FormatReader, right: FormatReader, entries: Sequence[DiffEntry], matches: Sequence[str]
) -> list[DiffEntry]:
    """Return the entries that are drawn: the largest that changed, and those that match and changed."""
    chosen: set[str] = set()
    for text in matches:
        found = [set(sift(reader, Selection(keep=(text,))).chosen) for reader in (left, right)]
        if not any(found):
            raise unmatched(right, text)
        chosen |= found[0] | found[1]
    changed = [entry for entry in entries if entry.change in ("value", "shape", "dtype")]
    changed = [entry for entry in changed if entry.left is not None and entry.left.dtype.is_number]
    largest = sorted(changed, key=lambda entry: -((entry.right and entry.right.nbytes) or 0))[:MOST_DRAWN]
    taken = {entry.key for entry in largest}
    more = [entry for entry in changed if entry.key in chosen and entry.key not in taken]
    return [*largest, *more]


def _sketched(
    reader: FormatReader, keys: Sequence[str | None], workers: Workers
) -> dict[int, dict[str, Any]]:
    """Return what tensors look like, by their place among those that are drawn."""
    wanted = [key for key in keys if key is not None]
    with closing(look_at(reader, wanted, set(wanted), cells_of(2 * len(wanted)), workers)) as found:
        looked = dict(found)
    return {at: _side(looked[key]) for at, key in enumerate(keys) if key is not None}


def _side(looked: ReadResult) -> dict[str, Any]:
    found = looked.statistics
    statistics = {name: number(value) for name, value in found._asdict().items()} if found else None
    sketch = sketch_document(looked.sketch) if looked.sketch is not None else {}
    return {"statistics": statistics, **sketch}


def _row(entry: DiffEntry, name: str | None, most: float) -> dict[str, Any]:
    """Return an entry as a page has it; what is not known, or as usual, is left out."""
    found = entry.difference
    row = {
        "key": entry.key,
        "name": name if name != entry.key else None,
        "change": entry.change,
        "from": entry.source,
        "left": _spec(entry.left),
        "right": _spec(entry.right),
        "differing": found.differing,
        "max_abs": number(found.max_abs),
        "max_rel": number(found.max_rel),
        "rel_l2": number(entry.measures[3]),
        "cosine": number(entry.measures[4]),
        "bar": _bar(magnitude(entry), most) if entry.change == "value" else None,
        "apart": entry.apart,
    }
    return {field: value for field, value in row.items() if value is not None}


def _spec(spec: TensorSpec | None) -> list[Any] | None:
    return [spec.type_name, list(spec.shape), spec.nbytes, spec.size] if spec is not None else None
