"""How far each of several checkpoints is from each other one, as a whole and by layer.

The distance of i from j is ||i-j|| / ||j||, over the floating-point weights that both have with one dtype and
shape. Optimizer slots and other state are groups of their own; they count as a whole only if no weights are
chosen. Tensors whose stored checksums are equal are not compared, but their norms are a part of ||j||.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.words import natural_order
from formats.errors import UnsupportedFeatureError
from formats.find.resolve import spelling
from formats.model.object_names import plain_key
from formats.store.work.workers import SERIAL, Workers

from ..look.listing import TOP_LEVEL
from ..look.sketch import ReadResult, look_at
from ..look.stats import finite_l2, statistics_of
from ..select.selection import EVERYTHING, NothingSelectedError, Selection
from .diff import DiffOptions, diff_pairs
from .layers import blocks, layer_and_leaf, with_kinds
from .measure import Norms
from .pairs import either_is_chosen, labels, pair_up, sifted_together
from .ranking import is_weight

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

    from formats.core.spec import TensorSpec
    from formats.errors import CheckpointError
    from formats.model.reader import FormatReader

    from ..look.stats import Statistics
    from .diff import DiffEntry
    from .pairs import KeyPair

_Distances = dict[tuple[int, int], Norms]

COMPARED = "compared"
_FATES = {
    "same": COMPARED,
    "value": COMPARED,
    "added": "only one",
    "removed": "only one",
    "shape": "shape",
    "dtype": "dtype",
}
"""Whether a tensor of a pair is compared, by its change, and if not, why."""


class Group(NamedTuple):
    """A layer: how far its tensors are apart in each pair of checkpoints; None if a pair shares none."""

    prefix: str
    rel_l2: list[list[float | None]]
    decisive: Collection[tuple[int, int]] = ()
    """The pairs that have an equal tensor in it with more than one value."""

    def is_equal(self, pair: tuple[int, int], *, by_chance: bool = False) -> bool:
        """Whether two checkpoints are equal in it; by chance if each of its tensors has only one value."""
        return self.rel_l2[pair[0]][pair[1]] == 0 and (pair in self.decisive) is not by_chance


class Matrix(NamedTuple):
    """Distances of each checkpoint (row) from each other one (column), and which pairs are copies."""

    paths: Sequence[str]
    rel_l2: list[list[float | None]]
    groups: list[Group]
    copies: set[tuple[int, int]]
    statistics: list[dict[str, tuple[TensorSpec, Statistics]]]
    """Of each checkpoint its floating-point tensors by name."""
    layers: dict[str, str]
    """The layer of each of these tensors."""
    rows_of: Mapping[str, str]
    """The row of each layer in a table of layers."""
    blocks: list[Group]
    """The rows of such a table."""
    of_weights: bool
    """Whether `rel_l2` is of weights alone, or of other tensors because no weights were chosen."""
    fates: Mapping[tuple[int, int], Mapping[str, int]]
    """How many of these tensors are compared in a pair, and how many are not, by reason."""

    def document(self) -> dict[str, Any]:
        """Return the document of `diff --matrix --json`."""
        groups = [{"prefix": group.prefix, "rel_l2": group.rel_l2} for group in self.groups]
        return {"paths": [*self.paths], "rel_l2": self.rel_l2, "groups": groups}

    def rows(self) -> Iterable[tuple[str, str, str, float | None]]:
        """Yield prefix, both paths and the distance of each pair; the prefix of all tensors is empty."""
        layers = ((each.prefix or TOP_LEVEL, each.rel_l2) for each in self.groups)
        for prefix, distances in [("", self.rel_l2), *layers]:
            for left, row in zip(self.paths, distances, strict=True):
                for right, distance in zip(self.paths, row, strict=True):
                    yield prefix, left, right, distance


class MatrixOptions(NamedTuple):
    """The tensors to compare, the names by which they are paired, and the workers."""

    selection: Selection = EVERYTHING
    by: str = "key"
    exact: bool = False
    workers: Workers = SERIAL


def distances(
    readers: Sequence[FormatReader],
    options: MatrixOptions,
    advance: Callable[[int], None] = lambda _: None,
    on_damage: Callable[[CheckpointError], None] | None = None,
) -> Matrix:
    """Compare each pair of checkpoints.

    `on_damage` gets the error of each damaged tensor, which is then left out; without it the first is raised.
    Raises NothingSelectedError if no pair shares a floating-point tensor.
    """
    _refuse_listings(readers)
    count = len(readers)
    pairs = _pairs(readers, options)
    looked = [
        _look_at(reader, _keys_of(at, pairs), options.workers, advance, on_damage)
        for at, reader in enumerate(readers)
    ]
    layers_of = [_layers_of(reader) for reader in readers]
    sums = _PairSums(count)
    copies = set()
    for (one, other), some in pairs.items():
        mine, its = looked[one], looked[other]
        sound = [pair for pair in some if pair.left not in mine.broken and pair.right not in its.broken]
        entries = _compared(readers[one], readers[other], sound, options, advance)
        if len(sound) == len(some) and all(entry.change == "same" for entry in entries):
            copies.add((one, other))
        for entry in with_kinds(entries, readers[one], readers[other]):
            layer = layers_of[one if entry.right is None else other].get(entry.key, "")
            sums.add((one, other), entry, layer, its)
    of_weights = bool(sums.total[True])
    if not (of_weights or sums.total[False]):
        what = "no two of these checkpoints have a floating-point tensor with the same key, dtype and shape"
        raise NothingSelectedError(what, path=readers[0].location.path)
    paths = [spelling(reader.location) for reader in readers]
    of_all = _relative(sums.total[of_weights], count)
    for at in range(count):
        of_all[at][at] = 0.0
    rows_of = blocks(sums.layers)
    statistics = [each.statistics for each in looked]
    return Matrix(
        paths,
        of_all,
        sums.groups(),
        copies,
        *_by_name(readers, statistics, layers_of),
        rows_of,
        sums.blocks(rows_of),
        of_weights,
        {pair: found[of_weights] for pair, found in sums.fates.items()},
    )


class _PairSums:
    """Adds up how far tensors are apart, by pair of checkpoints."""

    def __init__(self, count: int) -> None:
        self.total: dict[bool, _Distances] = {True: {}, False: {}}
        """The distances of all weights, and of all other tensors."""
        self.layers: dict[str, _Distances] = {}
        self.fates: dict[tuple[int, int], dict[bool, Counter[str]]] = {}
        self._decisive: dict[str, set[tuple[int, int]]] = {}
        self._count = count

    def add(self, pair: tuple[int, int], entry: DiffEntry, layer: str, its: _TensorFacts) -> None:
        """Add a tensor of a pair of checkpoints; `its` is known of the right one."""
        spec = entry.right if entry.right is not None else entry.left
        if not _is_floating(spec):
            return
        found = _norms(entry, its.norms)
        counts = self.fates.setdefault(pair, {True: Counter(), False: Counter()})[is_weight(entry)]
        counts[_FATES[entry.change]] += 1
        if found is None or spec is None:
            return
        statistics = its.statistics[spec.key]
        if entry.change == "same" and statistics.min != statistics.max:
            self._decisive.setdefault(layer, set()).add(pair)
        for table in (self.total[is_weight(entry)], self.layers.setdefault(layer, {})):
            table[pair] = table.get(pair, Norms()).add(found)

    def groups(self) -> list[Group]:
        """Return layers in natural order."""
        return [
            Group(layer, _relative(self.layers[layer], self._count), self._decisive.get(layer, set()))
            for layer in sorted(self.layers, key=natural_order)
        ]

    def blocks(self, rows_of: Mapping[str, str]) -> list[Group]:
        """Return the rows of a table, which have one layer or more each."""
        found: dict[str, _Distances] = {}
        for layer in sorted(self.layers, key=natural_order):
            row = found.setdefault(rows_of[layer], {})
            for pair, norms in self.layers[layer].items():
                row[pair] = row.get(pair, Norms()).add(norms)
        return [Group(name, _relative(row, self._count)) for name, row in found.items()]


def _pairs(readers: Sequence[FormatReader], options: MatrixOptions) -> dict[tuple[int, int], list[KeyPair]]:
    """Return the chosen tensors of each pair of checkpoints; a pattern need not match in all of them."""
    sifted = None if options.selection.everything else sifted_together(readers, options.selection)
    pairs = {}
    for one, other in combinations(range(len(readers)), 2):
        found = pair_up(readers[one], readers[other], options.by)
        is_chosen = None if sifted is None else either_is_chosen(sifted[one], sifted[other])
        pairs[one, other] = [pair for pair in found if is_chosen is None or is_chosen(pair)]
    return pairs


def _refuse_listings(readers: Sequence[FormatReader]) -> None:
    for reader in readers:
        if not reader.format.has_values:
            raise UnsupportedFeatureError("a listing has no values to compare", path=reader.location.path)


def _layers_of(reader: FormatReader) -> dict[str, str]:
    """Return the layer of each tensor by key."""
    names = labels(reader, "object-path")
    return {
        key: layer_and_leaf(plain_key(names.get(key, key)), reader.kinds.get(key))[0] for key in reader.specs
    }


def _keys_of(at: int, pairs: Mapping[tuple[int, int], list[KeyPair]]) -> set[str | None]:
    """Return the keys of a checkpoint's tensors that are in any pair."""
    lefts = {pair.left for (one, _), some in pairs.items() if one == at for pair in some}
    return lefts | {pair.right for (_, other), some in pairs.items() if other == at for pair in some}


class _TensorFacts(NamedTuple):
    """The facts about a checkpoint's tensors: statistics and finite norms of floating ones, and damage."""

    statistics: dict[str, Statistics]
    norms: dict[str, float]
    broken: set[str]


def _look_at(
    reader: FormatReader,
    chosen: set[str | None],
    workers: Workers,
    advance: Callable[[int], None],
    on_damage: Callable[[CheckpointError], None] | None,
) -> _TensorFacts:
    """Read the chosen tensors: all of them if damage must be reported, otherwise the floating-point ones."""
    keys = [key for key in reader.specs if key in chosen]
    if on_damage is None:
        keys = [key for key in keys if _is_floating(reader.specs[key])]
    found: dict[str, Statistics] = {}
    broken = set()
    with closing(_results(reader, keys, workers, is_sound=on_damage is None)) as results:
        for key, looked in results:
            if looked.flaw is not None:
                broken.add(key)
                if on_damage is not None:
                    on_damage(looked.flaw)
            elif looked.statistics is not None and _is_floating(reader.specs[key]):
                found[key] = looked.statistics
            advance(reader.specs[key].nbytes or 0)
    norms = {key: finite_l2(reader, key) if each.inf else each.l2 or 0.0 for key, each in found.items()}
    return _TensorFacts(found, norms, broken)


def _results(
    reader: FormatReader, keys: list[str], workers: Workers, *, is_sound: bool
) -> Generator[tuple[str, ReadResult]]:
    """Yield what tensors come to; if they have to be sound, damage is raised and threads share a tensor."""
    if not is_sound:
        yield from look_at(reader, keys, set(), 0, workers)
        return
    with closing(statistics_of(reader, keys, workers)) as found:
        for key, statistics in found:
            yield key, ReadResult(statistics)


def _is_floating(spec: TensorSpec | None) -> bool:
    return spec is not None and spec.dtype.is_number and spec.dtype.family in ("float", "complex")


def _compared(
    left: FormatReader,
    right: FormatReader,
    pairs: list[KeyPair],
    options: MatrixOptions,
    advance: Callable[[int], None],
) -> list[DiffEntry]:
    settings = DiffOptions(options.by, exact=options.exact)
    try:
        return diff_pairs(left, right, pairs, settings, advance, workers=options.workers).entries
    finally:
        left.check_unchanged()
        right.check_unchanged()


def _norms(entry: DiffEntry, norms: dict[str, float]) -> Norms | None:
    """Return the distance of a tensor in a pair; None if one lacks it, or it is not floating-point."""
    right = entry.right
    if entry.change not in ("same", "value") or right is None or not _is_floating(right):
        return None
    if entry.change == "value":
        return entry.difference.norms
    found = norms[right.key]
    return Norms(0.0, found, found)


def _relative(found: _Distances, count: int) -> list[list[float | None]]:
    """Return the distances of rows from columns."""
    table: list[list[float | None]] = [[None] * count for _ in range(count)]
    for (one, other), norms in found.items():
        table[one][other] = norms.relative
        table[other][one] = norms._replace(left=norms.right, right=norms.left).relative
        table[one][one] = table[other][other] = 0.0
    return table


def _by_name(
    readers: Sequence[FormatReader],
    norms: Sequence[dict[str, Statistics]],
    layers_of: Sequence[dict[str, str]],
) -> tuple[list[dict[str, tuple[TensorSpec, Statistics]]], dict[str, str]]:
    """Return each checkpoint's tensors by name, and the layers of all of them."""
    found, by_name = [], dict[str, str]()
    for reader, statistics, layers in zip(readers, norms, layers_of, strict=True):
        labelled = labels(reader, "object-path")
        names = {key: plain_key(labelled.get(key, key)) for key in statistics}
        found.append({names[key]: (reader.specs[key], each) for key, each in statistics.items()})
        by_name |= {name: layers[key] for key, name in names.items()}
    return found, by_name
