"""The changes between two checkpoints: specs first, then values.

Tensors of the two sides are paired by name (`BY`). Unpaired ones were added or removed, or renamed if the
caller looks for that. Paired tensors differ in shape, otherwise in dtype, otherwise perhaps in values.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.core.dtypes import INVALID, VARIANT
from formats.core.words import natural_order
from formats.model.digest import digests_like
from formats.store.work.workers import SERIAL, Workers

from ..look.show import iterator_state
from ..select.columns import ALIASES, NUMBER, SHAPE, TEXT, order_by
from .comparison import Comparison, ComparisonTask, Operand, compare_range
from .measure import EQUAL, Difference, Tolerance
from .pairs import by_key
from .renames import find_renames

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from formats import TensorSpec
    from formats.model.reader import FormatReader

    from .pairs import KeyPair


CHANGES = ("added", "removed", "dtype", "shape", "value")
"""The kinds of changes, which can be failures; a renamed tensor is one added and one removed."""


MEASURES = ("max_abs", "max_rel", "differing", "rel_l2", "cosine")
"""How far values are apart, as a document has it."""

COLUMNS = {
    "key": TEXT,
    "change": TEXT,
    "from": TEXT,
    "dtype": TEXT,
    "shape": SHAPE,
    "nbytes": NUMBER,
    "kind": TEXT,
    "object_path": TEXT,
    "left_dtype": TEXT,
    "left_shape": SHAPE,
    "right_dtype": TEXT,
    "right_shape": SHAPE,
    **dict.fromkeys(MEASURES, NUMBER),
}
"""The columns of a comparison; `dtype` to `object_path` are of the right side, if it has the tensor."""

COLUMN_ALIASES = {**ALIASES, "rel": "rel_l2", "l2": "rel_l2", "abs": "max_abs"}
"""Names that people have for these columns."""


def _by_column(column: str) -> Callable[[DiffEntry], Any]:
    return lambda entry: order_by(column, entry.row[column])


ORDERS: Mapping[str, Callable[[DiffEntry], Any]] = {
    "rel": lambda entry: _descending(entry.difference.rel_l2),
    "cosine": lambda entry: _ascending(entry.difference.cosine),
    "abs": lambda entry: _descending(entry.difference.max_abs),
    "max_rel": lambda entry: _descending(entry.difference.max_rel),
    "differing": lambda entry: _descending(entry.difference.differing),
    "size": lambda entry: -max(spec.nbytes or 0 for spec in (entry.left, entry.right) if spec is not None),
    "change": lambda entry: entry.change,
    "key": lambda _: (),
    **{
        name: _by_column(name)
        for name in COLUMNS
        if name not in ("key", "change", "max_rel", "differing", "cosine", "kind", "object_path")
    },
}
"""Measures by which entries can be sorted: the largest change first, then by key."""


def _descending(number: float | None) -> tuple[int, float]:
    """Sort NaN first, and what is not known last."""
    if number is None:
        return 2, 0.0
    return (0, 0.0) if math.isnan(number) else (1, -number)


def _ascending(number: float | None) -> tuple[int, float]:
    return _descending(None if number is None else -number)


class DiffOptions(NamedTuple):
    """The tensors to compare, and how; with `stop_on`, only up to the first of these changes."""

    by: str = "key"
    values: bool = True
    exact: bool = False
    tolerance: Tolerance = EQUAL
    find_renames: bool = False
    stop_on: tuple[str, ...] = ()
    norms: bool = True


DEFAULTS = DiffOptions()


class DiffEntry(NamedTuple):
    """One tensor's fate: a change of `CHANGES`, or renamed, or same; `source` is the left key if another."""

    key: str
    change: str
    source: str | None
    left: TensorSpec | None
    right: TensorSpec | None
    difference: Difference = Difference()
    apart: str | None = None
    """How far two iterators are apart, in words."""
    kind: str = ""
    """The kind of the tensor; empty if it was not needed."""

    @property
    def unknown_reason(self) -> str:
        """The text for a changed value whose number of changed elements is unknown."""
        is_unmapped = self.right is not None and self.right.dtype.is_unmapped
        return "bytes differ" if is_unmapped else "checksums differ"

    @property
    def measures(self) -> tuple[float | None, ...]:
        """How far values are apart: max_abs, max_rel, differing, rel_l2 and cosine."""
        found = self.difference
        far = (found.rel_l2, found.cosine) if self.change == "value" else (None, None)
        return (found.max_abs, found.max_rel, found.differing, *far)

    @property
    def row(self) -> dict[str, Any]:
        """The columns that --where and --sort know, as far as both sides' specs and values tell them."""
        one = self.right if self.right is not None else self.left
        assert one is not None
        sides = {"left": self.left, "right": self.right}
        specs = {
            f"{side}_{field}": getattr(spec, attribute) if spec is not None else None
            for side, spec in sides.items()
            for field, attribute in (("dtype", "dtype_name"), ("shape", "shape"))
        }
        own = {"dtype": one.dtype_name, "shape": one.shape, "nbytes": one.nbytes}
        measured = dict(zip(MEASURES, self.measures, strict=True))
        return {"key": self.key, "change": self.change, "from": self.source, **own, **specs, **measured}

    def document(self) -> dict[str, Any]:
        """Return the entry as `diff --json` shows it."""
        beside: dict[str, Any] = {} if self.apart is None else {"apart": self.apart}
        if self.change == "value" and self.difference.norms is not None:
            far = self.difference.rel_l2
            beside |= {"rel_l2": far, "cosine": self.difference.cosine, "l2": far}  # l2 as 0.1.0 calls it
        return {
            "key": self.key,
            "change": self.change,
            "from": self.source,
            "left": _spec_document(self.left),
            "right": _spec_document(self.right),
            **dict(zip(MEASURES[:3], self.measures, strict=False)),
            **beside,
        }


def _spec_document(spec: TensorSpec | None) -> dict[str, Any] | None:
    if spec is None:
        return None
    return {"dtype": spec.dtype_name, "shape": list(spec.shape), **spec.stored_document}


class Diff(NamedTuple):
    """All entries of a comparison, in the order of the bytes of their keys.

    The number of `same` tensors has no further details. If `has_values` is false, only shapes and dtypes were
    compared.
    """

    left: str
    right: str
    entries: list[DiffEntry]
    same: int = 0
    has_values: bool = True
    order: str = "key"

    @property
    def summary(self) -> dict[str, int]:
        counts = Counter(entry.change for entry in self.entries)
        changed = counts["dtype"] + counts["shape"] + counts["value"]
        once = {name: counts[name] for name in ("added", "removed", "renamed")}
        return {"same": counts["same"] + self.same, "changed": changed, **once}

    @property
    def counts(self) -> list[tuple[str, int, str]]:
        """How many tensors had which fate: its name, the count, and in words."""
        order = ("changed", "added", "removed", "renamed", "same")
        same = "same" if self.has_values else "with the same shape and dtype"
        found = self.summary
        return [
            (name, found[name], f"{found[name]:,} {same if name == 'same' else name}")
            for name in order
            if found[name] or name == "same"
        ]

    def shown(self, *, everything: bool, names: Mapping[str, str] | None = None) -> list[DiffEntry]:
        """Return the entries to show: those that changed, or all.

        With `names`, by which people know the keys, entries that are alike are in the natural order of these.
        """
        found = [entry for entry in self.entries if everything or entry.change != "same"]
        if names is not None:
            found.sort(key=lambda entry: natural_order(names.get(entry.key, entry.key)))
        return sorted(found, key=ORDERS[self.order])

    def _repr_html_(self) -> str:
        from formats.core.notebook import table

        shown = self.shown(everything=False)
        rows = ((each.change, each.key, *each.measures) for each in shown)
        return table(("change", "key", *MEASURES), rows, len(shown))

    def head(self) -> dict[str, Any]:
        """Return the document of `diff --json` without its entries."""
        return {"left": self.left, "right": self.right, "summary": self.summary}

    def rows(self, *, everything: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the entries of the document."""
        return (entry.document() for entry in self.shown(everything=everything))


# Comparing ------------------------------------------------------------------------


def diff_pairs(
    left: FormatReader,
    right: FormatReader,
    pairs: list[KeyPair],
    options: DiffOptions = DEFAULTS,
    advance: Callable[[int], None] = lambda _: None,
    *,
    workers: Workers = SERIAL,
) -> Diff:
    """Compare pairs of tensors; `advance` is called with the number of compared bytes of the right side."""
    entries = []
    with closing(_entries(left, right, pairs, options, advance, workers=workers)) as found:
        for entry in found:
            entries.append(_with_places(entry, left, right) if options.values else entry)
            if entry.change in options.stop_on:
                break
    if options.find_renames and options.values:
        entries = _with_renames(left, right, entries)
    return Diff(left.location.path, right.location.path, entries, has_values=options.values)


class _DiffStep(NamedTuple):
    """A pair's entry, as far as it is known; perhaps a task of its comparison, or the last of them."""

    entry: DiffEntry
    comparison: Comparison | None = None
    task: ComparisonTask | None = None
    is_last: bool = True


def _entries(
    left: FormatReader,
    right: FormatReader,
    pairs: list[KeyPair],
    options: DiffOptions,
    advance: Callable[[int], None],
    *,
    workers: Workers,
) -> Generator[DiffEntry]:
    """Yield the entries of all pairs, in their order."""
    waiting: deque[_DiffStep] = deque()

    is_held = options.values and not options.stop_on
    held = _stored_digests(left, right, pairs, options, workers, advance) if is_held else {}

    def tasks() -> Iterator[ComparisonTask | None]:
        for pair in pairs:
            for step in _steps(left, right, pair, options, workers, advance, held):
                waiting.append(step)
                yield step.task

    mapped = workers.map(
        compare_range,
        tasks(),
        lambda task: task.nbytes if task else 0,
        forks=left.is_local and right.is_local,
    )
    with closing(mapped) as results:
        for found in results:
            entry, comparison, task, is_last = waiting.popleft()
            if comparison is None or task is None or found is None:
                yield entry
                continue
            difference = comparison.add(found)
            advance(task.nbytes)
            if is_last:
                comparison.finish()
            elif not ("value" in options.stop_on and difference.differing and comparison.may_stop_early):
                continue
            yield _with_values(entry, difference)


def _stored_digests(  # noqa: PLR0917  as `_steps`
    left: FormatReader,
    right: FormatReader,
    pairs: list[KeyPair],
    options: DiffOptions,
    workers: Workers,
    advance: Callable[[int], None],
) -> dict[str, str]:
    """Return the digests of values to compare with a listing's, by the keys of their pairs."""
    if left.format.has_values == right.format.has_values:
        return {}
    listing, values = (left, right) if right.format.has_values else (right, left)
    listed, names = {}, {}
    for pair in pairs:
        if pair.left is None or pair.right is None:
            continue
        if _change(left.specs[pair.left], right.specs[pair.right]) is not None:
            continue
        theirs, mine = (pair.left, pair.right) if listing is left else (pair.right, pair.left)
        digest = None if listing.is_unread(theirs) else listing[theirs].listed_digest
        if digest is not None:
            listed[mine], names[mine] = digest, pair.key
    held = {}
    for key, found in digests_like(values, listed, workers, exact=options.exact):
        held[names[key]] = found
        advance(values.specs[key].nbytes or 0)
    return held


def _steps(  # noqa: PLR0917  what is compared, then who does it
    left: FormatReader,
    right: FormatReader,
    pair: KeyPair,
    options: DiffOptions,
    workers: Workers,
    advance: Callable[[int], None],
    held: Mapping[str, str],
) -> Iterator[_DiffStep]:
    """Yield the tasks of a pair, if any; values that must be streamed are compared here.

    If the specs already differ, they are proved; otherwise the values are read, which proves both.
    """
    one = left.specs[pair.left] if pair.left is not None else None
    other = right.specs[pair.right] if pair.right is not None else None
    source = pair.left if pair.left != pair.key else None
    for reader, spec in ((left, one), (right, other)):
        if spec is not None and options.values and _is_damaged(reader, spec):
            reader[spec.key]  # says what is wrong: what cannot be decoded is not known to differ
    change = _change(one, other)
    if one is None or other is None or change is not None or not options.values:
        left.prove_specs([one.key] if one is not None else ())
        right.prove_specs([other.key] if other is not None else ())
        yield _DiffStep(DiffEntry(pair.key, change or "same", source, one, other))
        return
    entry = DiffEntry(pair.key, "same", source, one, other)
    digest = held.get(pair.key)
    operands = Operand(left, one.key, digest), Operand(right, other.key, digest)
    comparison = Comparison(
        *operands,
        options.tolerance,
        workers.task_bytes,
        exact=options.exact,
        with_norms=options.norms,
    )
    for task in comparison.tasks:
        yield _DiffStep(entry, comparison, task, task is comparison.tasks[-1])
    if comparison.difference is None:
        workers.keep(other.nbytes or 0)
        streamed = comparison.stream(advance, stop_early="value" in options.stop_on)
        yield _DiffStep(_with_values(entry, streamed))
    elif not comparison.tasks:
        if digest is None:
            advance(other.nbytes or 0)
        yield _DiffStep(_with_values(entry, comparison.difference))


def _change(one: TensorSpec | None, other: TensorSpec | None) -> str | None:
    """Return what specs say of a pair; None if they are alike."""
    if one is None or other is None:
        return "added" if one is None else "removed"
    if one.shape != other.shape:
        return "shape"
    return None if one.dtype is other.dtype else "dtype"


def _is_damaged(reader: FormatReader, spec: TensorSpec) -> bool:
    if spec.dtype is not INVALID:
        return False
    return any(finding.key == spec.key and finding.severity == "error" for finding in reader.findings)


def _with_values(entry: DiffEntry, difference: Difference) -> DiffEntry:
    return entry._replace(change="same" if difference.differing == 0 else "value", difference=difference)


def _with_places(entry: DiffEntry, left: FormatReader, right: FormatReader) -> DiffEntry:
    """Return the entry of two iterators that differ, with how far they are apart."""
    one, other = entry.left, entry.right
    if entry.change not in ("value", "shape") or one is None or other is None:
        return entry
    if not (left.format.has_values and right.format.has_values and one.dtype is other.dtype is VARIANT):
        return entry
    mine, its = iterator_state(left, one.key), iterator_state(right, other.key)
    if mine is None or its is None:
        return entry
    from formats.tf.run.pipeline import apart

    return entry._replace(apart=apart(mine, its))


def _with_renames(left: FormatReader, right: FormatReader, entries: list[DiffEntry]) -> list[DiffEntry]:
    """Return the entries, those of one tensor under two keys put together."""
    removed = [entry.left.key for entry in entries if entry.change == "removed" and entry.left]
    added = [entry.right.key for entry in entries if entry.change == "added" and entry.right]
    found = find_renames(left, right, removed, added)
    sources = {new: old for old, new in found.items()}
    kept = []
    for entry in entries:
        if entry.change == "removed" and entry.left and entry.left.key in found:
            continue
        old = sources.get(entry.key) if entry.change == "added" else None
        kept.append(
            entry if old is None else DiffEntry(entry.key, "renamed", old, left.specs[old], entry.right)
        )
    kept.sort(key=by_key)
    return kept
