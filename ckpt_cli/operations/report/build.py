"""One list of findings from the results of `verify`, `diff` and `stats --fail-on`."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.core.words import command_line, counted
from formats.model.object_names import plain_key
from formats.model.verification import Finding

from ..compare.layers import layer_and_leaf
from ..compare.ranking import layer_weight, norms_of_changed
from ..look.listing import TOP_LEVEL
from .findings import FindingsTable, Report, Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..compare.diff import Diff, DiffEntry
    from ..look.verify import Result

_MOST_ROWS = 10
"""Tensors and layers that a table for people has."""


def of_verify(results: Sequence[Result]) -> Report:
    """Return what verifying checkpoints found."""
    return Report("verify", [_verified(result) for result in results])


def _verified(result: Result) -> Subject:
    counts = (
        f"{counted(result.tensors, 'tensor is', 'tensors are')} intact, {result.nbytes:,} bytes were read"
    )
    commands = []
    if not result.ok:
        commands = [command_line("verify", result.path)]
        if result.tensors and any(finding.code != "contract" for finding in result.findings):
            commands.append(command_line("rescue", result.path, "OUT"))
    return Subject(result.path, result.path, counts, result.findings, commands=commands)


class Bad(NamedTuple):
    """A checkpoint, the file that says what it is, and how many values are bad, by key and sort."""

    path: str
    head: str
    tensors: int
    counts: Mapping[str, Mapping[str, int]]


def of_stats(found: Iterable[Bad], fail_on: Sequence[str]) -> Report:
    """Return which values are of the sorts to fail on."""
    subjects = []
    for path, head, tensors, counts in found:
        findings = [
            Finding(
                "error", sort, f"{counted(count, 'value')} {'is' if count == 1 else 'are'} {sort}", key, head
            )
            for key, sorts in counts.items()
            for sort, count in sorts.items()
        ]
        commands = [command_line("stats", path)] if findings else []
        summary = f"{counted(tensors, 'tensor')}, {' or '.join(fail_on)} in {len(counts):,}"
        subjects.append(Subject(path, head, summary, findings, commands=commands))
    return Report("stats", subjects)


def of_diff(
    found: Sequence[tuple[Diff, str, str | None]],
    fails: Callable[[DiffEntry, str | None], bool],
    alone: Sequence[tuple[str, str, bool]] = (),
) -> Report:
    """Return what comparisons found; with each the file of its right side, and the pair's name.

    `alone` are checkpoints on one side only: the change that is, their files, and whether to fail on it.
    """
    only = [
        Subject(
            head,
            head,
            f"checkpoint {change}",
            [Finding("error" if bad else "note", change, f"this checkpoint was {change}", None, head)],
        )
        for change, head, bad in alone
    ]
    return Report("diff", [*(_compared(*each, fails) for each in found), *only])


def _compared(
    diff: Diff, head: str, pair: str | None, fails: Callable[[DiffEntry, str | None], bool]
) -> Subject:
    changed = [entry for entry in diff.entries if entry.change != "same"]
    findings = [
        Finding("error" if fails(entry, pair) else "note", entry.change, _what(entry), entry.key, head)
        for entry in changed
    ]
    counts = [words for _, _, words in sorted(diff.counts, key=lambda count: count[0] != "same")]
    commands = [command_line("diff", diff.left, diff.right)] if changed else []
    keys = dict.fromkeys(entry.key for entry in diff.entries)
    return Subject(
        f"{diff.left} -> {diff.right}",
        head,
        ", ".join(counts),
        findings,
        tuple(keys),
        (_layers(changed), _largest(changed)),
        commands,
    )


def _what(entry: DiffEntry) -> str:
    """Return in words what became of a tensor."""
    specs = [f"{spec.dtype} {list(spec.shape)}" for spec in (entry.left, entry.right) if spec is not None]
    found = entry.difference
    if entry.change in ("added", "removed"):
        return f"{entry.change}: {specs[0]}"
    if entry.change == "renamed":
        return f"renamed from {entry.source!r}"
    if entry.apart is not None:
        return f"{entry.change}: {entry.apart}"
    if entry.change != "value":
        return f"{entry.change}: {' -> '.join(specs)}"
    if found.differing is None:
        return f"value: {entry.unknown_reason}"
    count = f"value: {counted(found.differing, 'element')} differ" + ("s" if found.differing == 1 else "")
    if found.max_abs is None or found.max_rel is None:
        return count
    norm = "" if found.rel_l2 is None else f", rel_l2 {found.rel_l2:.3g}"
    return f"{count}, by up to {found.max_abs:.3g}; relative {found.max_rel:.3g}{norm}"


def _layers(changed: Sequence[DiffEntry]) -> FindingsTable:
    """Return by layer how many tensors have which fate, and how far values are apart."""
    layers: dict[str, list[DiffEntry]] = {}
    for entry in changed:
        layer, _ = layer_and_leaf(plain_key(entry.key), entry.kind)
        layers.setdefault(layer or TOP_LEVEL, []).append(entry)
    ordered = sorted(layers.items(), key=lambda item: _order(item[1]), reverse=True)
    rows = []
    for layer, entries in ordered[: 5 * _MOST_ROWS]:
        counts = Counter(entry.change for entry in entries)
        words = ", ".join(f"{count:,} {change}" for change, count in counts.items())
        norms = norms_of_changed(entries)
        far = (norms.relative, norms.cosine) if norms is not None else (None, None)
        numbers = (*far, _max_abs(entries))
        rows.append((layer, words, *("" if number is None else f"{number:.3g}" for number in numbers)))
    left = len(ordered) - len(rows)
    title = "Changes by layer" + (f" (and {left:,} more)" if left else "")
    return FindingsTable(title, ("layer", "tensors", "rel_l2", "cosine", "largest difference"), rows)


def _order(entries: Sequence[DiffEntry]) -> tuple[object, ...]:
    """Return a key that sorts layers, the largest change last."""
    return layer_weight(entries), _size(_max_abs(entries))


def _max_abs(entries: Iterable[DiffEntry]) -> float | None:
    return max((entry.difference.max_abs for entry in entries), key=_size)


def _size(number: float | None) -> tuple[bool, float]:
    """Return a key to sort by: NaN is the largest, and an unknown number the smallest."""
    is_nan = number is not None and math.isnan(number)
    return is_nan, -1.0 if number is None or is_nan else number


def _largest(changed: Sequence[DiffEntry]) -> FindingsTable:
    """Return the tensors whose values are farthest apart."""
    found = [[entry] for entry in changed if entry.change == "value"]
    values = [entry for (entry,) in sorted(found, key=_order, reverse=True)][:_MOST_ROWS]
    rows = [(entry.key, *_cells(entry)) for entry in values]
    return FindingsTable(
        "The ten largest value changes", ("tensor", "rel_l2", "cosine", "max", "relative", "elements"), rows
    )


def _cells(entry: DiffEntry) -> tuple[str, ...]:
    largest, quotient, differing, *far = entry.measures
    numbers = ("" if number is None else f"{number:.3g}" for number in (*far, largest, quotient))
    return (*numbers, "?" if differing is None else f"{differing:,}")
