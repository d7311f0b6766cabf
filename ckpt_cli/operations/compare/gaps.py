"""In words: why a pair of checkpoints has no distance, an infinite one, or one of only some tensors."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from formats.core.words import counted

from .equal_layers import numbers
from .matrix import COMPARED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .matrix import Matrix

_MOST = 8
"""Sentences about pairs."""

_REASONS = {
    "only one": ("is in only one checkpoint", "are in only one checkpoint"),
    "shape": ("has another shape", "have another shape"),
    "dtype": ("has another dtype", "have another dtype"),
}

_NO_NUMBERS = (
    (math.isinf, "inf: all values are zero in the checkpoint whose norm is the divisor"),
    (math.isnan, "nan: a value is NaN or infinite in only one of both, or a norm is beyond float64"),
)


def gaps(found: Matrix) -> list[str]:
    """Return sentences that name the checkpoints by their numbers in the matrix."""
    by_text: dict[str, set[tuple[int, int]]] = {}
    for pair, fates in found.fates.items():
        if text := _left_out(fates, "weight" if found.of_weights else "tensor"):
            by_text.setdefault(text, set()).add(pair)
    sentences = [f"{who}: {text}" for text, pairs in by_text.items() for who in _stars(pairs)]
    if len(sentences) > _MOST:
        sentences[_MOST:] = [
            f"and {counted(len(sentences) - _MOST, 'more sentence')} about pairs of checkpoints"
        ]
    tables = [found.rel_l2, *(group.rel_l2 for group in found.blocks)]
    cells = [cell for table in tables for row in table for cell in row if cell is not None]
    return sentences + [text for is_such, text in _NO_NUMBERS if any(map(is_such, cells))]


def _left_out(fates: Mapping[str, int], what: str) -> str:
    """Return how many tensors of a pair are compared, and why others are not; nothing if all are."""
    reasons = [
        f"{fates[reason]:,} {words[fates[reason] != 1]}"
        for reason, words in _REASONS.items()
        if fates.get(reason)
    ]
    compared, total = fates.get(COMPARED, 0), sum(fates.values())
    if not compared:
        return ", ".join([f"no {what} is compared", *reasons])
    are = "is" if compared == 1 else "are"
    return ", ".join([f"{compared:,} of {total:,} {what}s {are} compared", *reasons]) if reasons else ""


def _stars(pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield pairs in words, those together that have a checkpoint in common."""
    left = {*pairs}
    while left:
        counts = Counter(at for pair in left for at in pair)
        centre = max(counts, key=lambda at: (counts[at], -at))
        some = {pair for pair in left if centre in pair}
        others = sorted({at for pair in some for at in pair} - {centre})
        left -= some
        if len(others) == 1:
            yield f"checkpoints {numbers(sorted([centre, *others]))}"
        else:
            yield f"checkpoint {numbers([centre])} and each of {numbers(others)}"
